"""Statement and cost of a release of made-up rows, against what its bounds and noise come to, computed afresh."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import special

from dp_bundle.manifest import Column
from dp_publish.accounting import (
    SLACK,
    ApproximateDP,
    Loss,
    PureDP,
    delta_for_epsilon,
    epsilon_of_unit,
    mu_for_epsilon_delta,
    mu_for_rho,
    rho_for_mu,
)
from dp_publish.audit.checks import Check, make_check
from dp_publish.audit.press import Published
from dp_publish.covariance import Mechanism
from dp_publish.policy import Policy, Privacy


def claimed_mu(policy: Policy, columns: Sequence[Column]) -> float:
    """Return the mu that the policy asks for; with integer columns at (epsilon, delta), the one that serves them."""
    privacy = policy.privacy
    if privacy.mu is not None:
        return privacy.mu
    if privacy.rho is not None:
        return mu_for_rho(privacy.rho)
    continuous = all(column.is_gaussian for column in columns)
    if privacy.epsilon is not None and privacy.delta is not None and continuous:
        return mu_for_epsilon_delta(privacy.epsilon, privacy.delta)
    return _mus(privacy, columns)[privacy.account]


def check_books(policy: Policy, columns: Sequence[Column], published: Published) -> Check:
    """Check the guarantee and the ledger's entry of a release of rows; `columns` are those that calibration made."""
    privacy, release = policy.privacy, published.release
    mus = _mus(privacy, release.columns)
    mu, asked = mus[privacy.account], claimed_mu(policy, columns)
    faults = []
    if mu > asked * SLACK:
        faults.append(f"bounds and noise amount to mu = {mu:.6g}, above the {asked:.6g} of the policy")
    if privacy.epsilon is not None and privacy.delta is not None:
        faults += _above_curve(privacy, release.columns, mu)
    if release.guarantee is None or release.guarantee.rho * SLACK < rho_for_mu(mu):
        faults.append(f"the manifest states less than the mu = {mu:.6g} that bounds and noise amount to")
    for account, least in mus.items():
        booked = published.cost.mu.get(account, 0.0)
        if booked * SLACK < least:
            faults.append(f"the ledger books mu = {booked:.6g} for {account}, less than the {least:.6g} it costs")
    return make_check("books", faults, f"bounds and noise amount to mu = {mu:.4g}, stated and booked as no less")


def check_books_of_moments(policy: Policy, mechanism: Mechanism, published: Published) -> Check:
    """Check the guarantee and the ledger's entry of a covariance release against what the policy asks for."""
    guarantee, strength, faults = published.release.guarantee, policy.privacy.strength, []
    if guarantee is None or strength is None:
        return make_check("books", ["the release states no guarantee, or the policy asks for none"], "")
    asked = mechanism.form_of(strength)
    if isinstance(strength, PureDP) and (guarantee.epsilon or math.inf) > strength.epsilon * SLACK:
        faults.append(f"the manifest does not state the pure epsilon = {strength.epsilon:g} that the policy asks for")
    if not isinstance(asked, ApproximateDP) and guarantee.mu is not None and guarantee.mu > asked.mu * (1 + 1e-6):
        faults.append(f"the manifest states mu = {guarantee.mu:.6g}, above the {asked.mu:.6g} of the policy")
    if guarantee.epsilon is not None and guarantee.epsilon > asked.pure_epsilon * SLACK:
        faults.append(f"the manifest states epsilon = {guarantee.epsilon:g}, above that of the policy")

    booked = published.cost.mu.get(policy.privacy.account, 0.0)
    if guarantee.mu is None or booked * SLACK < guarantee.mu:
        faults.append(f"the ledger books mu = {booked:.6g}, less than the {guarantee.mu or math.inf:.6g} that it costs")
    excepted = mechanism.spends(mechanism.max_rows).excepted_delta
    if published.cost.excepted_delta * SLACK < excepted:
        faults.append(f"the ledger books no exception, where the mechanism has one of {excepted:g}")
    return make_check("books", faults, "stated and booked as the policy asked for")


def _mus(privacy: Privacy, columns: Sequence[Column]) -> dict[str, float]:
    """Return what bounds and noise come to for every unit that they protect."""
    cells = [_cell_mu(group, privacy) for group in _grouped(columns, privacy)]
    row = max(cells) if privacy.l2_radius is not None else math.hypot(*cells)
    mus = {"cell": max(cells), "row": row}
    if privacy.unit == "change":
        limits = [column.max_change for column, *_ in _grouped(columns, privacy)]
        widths = [column.width for column, *_ in _grouped(columns, privacy)]
        mus["change"] = max(
            mu if limit is None else mu * min(limit, width) / width
            for mu, limit, width in zip(cells, limits, widths, strict=True)
        )
    if privacy.entity:
        mus[privacy.account] = math.sqrt(privacy.max_rows) * row
    return mus


def _grouped(columns: Sequence[Column], privacy: Privacy) -> list[list[Column]]:
    """Return the columns of every cell: all of a category's together, unless rows are held in a ball."""
    groups: dict[str, list[Column]] = {}
    for column in columns:
        block = column.block if privacy.l2_radius is None else None
        groups.setdefault(block or column.name, []).append(column)
    return list(groups.values())


def _cell_mu(group: list[Column], privacy: Privacy) -> float:
    """Return the distinguishability of a cell, from what its values may become."""
    column = group[0]
    if column.response is not None:
        n, replaced = column.response.n_levels, column.response.replaced
        likely, rare = 1 - replaced * (n - 1) / n, replaced / n  # of one outcome, where it is the cell's own, or not
        return float(special.ndtri(likely) - special.ndtri(rare))
    alone = column.width / column.cell_noise.sigma
    if len(group) == 1 or privacy.l2_radius is not None:
        return alone
    if column.missing != "indicator":
        return math.sqrt(2) * alone  # one indicator falls, and another one rises
    farthest = 0.5 * column.width + column.cell_noise.granularity  # from the middle of the bounds, on the grid
    return max(alone, math.hypot(farthest / column.cell_noise.sigma, 1 / group[1].cell_noise.sigma))


def _above_curve(privacy: Privacy, columns: Sequence[Column], mu: float) -> list[str]:
    """Return what is wrong with the (epsilon, delta) that bounds and noise amount to, or nothing."""
    epsilon, delta = privacy.epsilon or 0.0, privacy.delta or 0.0
    if all(column.is_gaussian for column in columns):
        above = delta_for_epsilon(mu, epsilon) > delta * (1 + 1e-6)
    else:
        losses = [_loss(group, privacy) for group in _grouped(columns, privacy)]
        above = epsilon_of_unit(privacy.unit_name, losses, delta, privacy.max_rows) > epsilon * (1 + 1e-6)
    return [f"bounds and noise do not give epsilon = {epsilon:g} at delta = {delta:g}"] if above else []


def _loss(group: list[Column], privacy: Privacy) -> Loss:
    """Return the privacy loss of a cell."""
    column = group[0]
    if column.response is not None or column.missing == "indicator":
        return Loss(_cell_mu(group, privacy), 1.0, discrete=False)
    width = column.width
    if privacy.unit == "change" and column.max_change is not None:
        width = min(width, column.max_change)
    return Loss(width, column.cell_noise.sigma, column.kind == "integer", min(len(group), 2))
