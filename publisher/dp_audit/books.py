"""Statement and cost of a release of made-up rows, against what its bounds and noise come to, computed afresh."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import optimize, special

from dp_audit.checks import Check, make_check
from dp_audit.press import Published
from dp_bundle.manifest.columns import Column
from dp_bundle.privacy.discrete_mu import discrete_gaussian_mu
from dp_publish.accounting.conversions import SLACK, mu_for_rho, rho_for_mu
from dp_publish.accounting.curve import Loss, epsilon_of_unit
from dp_publish.accounting.strength import ApproximateDP, GaussianDP, PureDP
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.policy.model import Policy, Privacy

_MANY_STEPS = 200.0  # of sigma
_MOST_STEPS = 10**6


def claimed_mu(policy: Policy, columns: Sequence[Column]) -> float:
    """Return the mu that the policy asks for; of whole numbers at another strength, the one that their noise has."""
    privacy = policy.privacy
    if privacy.mu is not None:
        return privacy.mu
    continuous = all(column.is_gaussian for column in columns)
    if privacy.rho is not None and continuous:
        return mu_for_rho(privacy.rho)
    if privacy.epsilon is not None and privacy.delta is not None and continuous:
        return _mu_under(privacy.epsilon, privacy.delta)
    return _mus(privacy, columns)[privacy.account]


def check_books(policy: Policy, columns: Sequence[Column], published: Published) -> Check:
    """Check the guarantee and the ledger's entry of a release of rows; `columns` are those that calibration made."""
    privacy, release = policy.privacy, published.release
    mus, roots = _mus(privacy, release.columns), _mus(privacy, release.columns, as_rho=True)
    mu, root, asked = mus[privacy.account], roots[privacy.account], claimed_mu(policy, columns)
    faults = []
    if privacy.rho is not None and rho_for_mu(root) > privacy.rho * SLACK:
        faults.append(
            f"bounds and noise amount to rho = {rho_for_mu(root):.6g}, above the {privacy.rho:.6g} of the policy"
        )
    if mu > asked * SLACK:
        faults.append(f"bounds and noise amount to mu = {mu:.6g}, above the {asked:.6g} of the policy")
    if privacy.epsilon is not None and privacy.delta is not None:
        faults += _above_curve(privacy, release.columns, mu)
    stated = release.guarantee
    if stated is None or stated.rho * SLACK < rho_for_mu(root) or (stated.mu is not None and stated.mu * SLACK < mu):
        faults.append(f"the manifest states less than the mu = {mu:.6g} that bounds and noise amount to")
    for account, least in mus.items():
        booked = published.cost.mu.get(account, 0.0)
        if booked * SLACK < least:
            faults.append(f"the ledger books mu = {booked:.6g} for {account}, less than the {least:.6g} it costs")
    return make_check("books", faults, f"bounds and noise amount to mu = {mu:.4g}, stated and booked as no less")


def check_books_of_moments(policy: Policy, mechanism: Mechanism, published: Published) -> Check:
    """Check the guarantee and the ledger's entry of a covariance release against what the policy asks for."""
    guarantee, strength, faults = published.release.guarantee, policy.privacy.strength, []
    if strength is None:
        return make_check("books", ["the policy asks for no guarantee"], "")
    asked = mechanism.form_of(strength)
    if isinstance(strength, PureDP) and (guarantee.epsilon or math.inf) > strength.epsilon * SLACK:
        faults.append(f"the manifest does not state the pure epsilon = {strength.epsilon:g} that the policy asks for")
    most = math.inf if isinstance(asked, ApproximateDP) else asked.mu
    if isinstance(asked, GaussianDP) and isinstance(strength, ApproximateDP):
        most = _mu_under(strength.epsilon, strength.delta)
    if guarantee.mu is not None and guarantee.mu > most * (1 + 1e-6):
        faults.append(f"the manifest states mu = {guarantee.mu:.6g}, above the {most:.6g} of the policy")
    if guarantee.epsilon is not None and guarantee.epsilon > asked.pure_epsilon * SLACK:
        faults.append(f"the manifest states epsilon = {guarantee.epsilon:g}, above that of the policy")

    booked = published.cost.mu.get(policy.privacy.account, 0.0)
    if guarantee.mu is None or booked * SLACK < guarantee.mu:
        faults.append(f"the ledger books mu = {booked:.6g}, less than the {guarantee.mu or math.inf:.6g} that it costs")
    excepted = mechanism.spends(mechanism.max_rows).excepted_delta
    if published.cost.excepted_delta * SLACK < excepted:
        faults.append(f"the ledger books no exception, where the mechanism has one of {excepted:g}")
    return make_check("books", faults, "stated and booked as the policy asked for")


def _mus(privacy: Privacy, columns: Sequence[Column], *, as_rho: bool = False) -> dict[str, float]:
    """Return what bounds and noise come to for every unit that they protect, as mu, or as sqrt(2 rho)."""
    groups = _grouped(columns)
    cells = [_cell_mu(group, as_rho=as_rho) for group in groups]
    row = math.hypot(*cells)
    mus = {"cell": max(cells), "row": row}
    if privacy.unit == "change":
        mus["change"] = max(_cell_mu(group, group[0].max_change, as_rho=as_rho) for group in groups)
    if privacy.entity:
        mus[privacy.account] = math.sqrt(privacy.max_rows) * row
    return mus


def _grouped(columns: Sequence[Column]) -> list[list[Column]]:
    """Return the columns of every cell: all of a category's together."""
    groups: dict[str, list[Column]] = {}
    for column in columns:
        groups.setdefault(column.source_name, []).append(column)
    return list(groups.values())


def _cell_mu(group: list[Column], limit: float | None = None, *, as_rho: bool = False) -> float:
    """Return the distinguishability of a cell, from what its values may become, at most so far apart."""
    column = group[0]
    if column.response is not None:
        n, replaced = column.response.n_levels, column.response.replaced
        likely, rare = 1 - replaced * (n - 1) / n, replaced / n  # of one outcome, where it is the cell's own, or not
        return float(special.ndtri(likely) - special.ndtri(rare))
    width = column.width if limit is None else min(limit, column.width)
    whole = column.kind == "integer" and not as_rho
    alone = _best_threshold(math.floor(width), column.cell_noise.sigma) if whole else width / column.cell_noise.sigma
    if len(group) == 1:
        return alone
    if column.missing != "indicator":
        return math.sqrt(2) * alone  # one indicator falls, and another one rises
    farthest = 0.5 * column.width + column.cell_noise.granularity  # from the middle of the bounds, on the grid
    return max(alone, math.hypot(farthest / column.cell_noise.sigma, 1 / group[1].cell_noise.sigma))


def _best_threshold(steps: int, sigma: float) -> float:
    """Return the mu of whole numbers so many steps apart: the largest that any threshold tells, of all that may count.

    Beyond a sigma of many steps the noise is nearly continuous, and thresholds in the middle tell
    ``1 + 1 / (24 sigma^2) + ...`` times as much as they would of that.
    """
    if steps > _MOST_STEPS:  # of noise that hides nothing
        return discrete_gaussian_mu(steps, sigma)
    if sigma > _MANY_STEPS:
        return steps / sigma * (1 + 1 / (24 * sigma**2) + 3.7e-3 / sigma**4)
    reach = math.ceil(4 * sigma) + steps + 1
    k = np.arange(-reach, reach + math.ceil(40 * sigma) + 1)
    weights = -0.5 * (k / sigma) ** 2
    tails = np.logaddexp.accumulate(weights[::-1])[::-1]  # of all that is from k on
    scores = -special.ndtri_exp(tails[1:] - np.logaddexp.reduce(-0.5 * (np.arange(-k[-1], k[-1] + 1) / sigma) ** 2))
    scores = scores[: 2 * reach + 1]  # of the thresholds from -reach on, each between k and k + 1
    middle = len(scores) // 2
    upper = scores[middle:]
    both = np.concatenate([-upper[::-1], upper])  # those below the middle mirror those above
    return float(np.max(both[steps:] - both[:-steps]))


def _above_curve(privacy: Privacy, columns: Sequence[Column], mu: float) -> list[str]:
    """Return what is wrong with the (epsilon, delta) that bounds and noise amount to, or nothing."""
    epsilon, delta = privacy.epsilon or 0.0, privacy.delta or 0.0
    if all(column.is_gaussian for column in columns):
        above = _delta_at(mu, epsilon) > delta * (1 + 1e-6)
    else:
        losses = [_loss(group, privacy) for group in _grouped(columns)]
        above = epsilon_of_unit(privacy.unit_name, losses, delta, privacy.max_rows) > epsilon * (1 + 1e-6)
    return [f"bounds and noise do not give epsilon = {epsilon:g} at delta = {delta:g}"] if above else []


def _delta_at(mu: float, epsilon: float) -> float:
    """Return Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2) (Balle & Wang 2018, theorem 8)."""
    first, second = (float(special.log_ndtr(-epsilon / mu + each)) for each in (mu / 2, -mu / 2))
    return -math.exp(first) * math.expm1(min(0.0, epsilon + second - first))


def _mu_under(epsilon: float, delta: float) -> float:
    """Return the mu whose curve goes through (epsilon, delta)."""
    log_mu = optimize.brentq(lambda log: _delta_at(math.exp(log), epsilon) - delta, -30, 30, xtol=1e-12)
    return math.exp(float(log_mu))


def _loss(group: list[Column], privacy: Privacy) -> Loss:
    """Return the privacy loss of a cell."""
    column = group[0]
    if column.response is not None or column.missing == "indicator":
        return Loss(_cell_mu(group), 1.0, discrete=False)
    width = column.width
    if privacy.unit == "change" and column.max_change is not None:
        width = min(width, column.max_change)
    return Loss(width, column.cell_noise.sigma, column.kind == "integer", min(len(group), 2))
