"""Statement and cost of a release of made-up rows, against what the bounds and noise in its manifest come to."""

import datetime
import math
from collections.abc import Sequence

from scipy import optimize, special

from dp_audit.press import Published
from dp_audit.report import Check, make_check
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import release_mu, release_rho
from dp_publish.accounting.conversions import SLACK, mu_for_rho, rho_for_mu
from dp_publish.accounting.curve import epsilon_of_unit
from dp_publish.accounting.strength import ApproximateDP, GaussianDP, PureDP
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.policy.model import Policy, Privacy
from dp_publish.rows.noise import losses_of

_SLOW = 60.0  # seconds that a machine may take to read its clock


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
    faults += _other_time(published)
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
    faults += _other_time(published)
    return make_check("books", faults, "stated and booked as the policy asked for")


def _other_time(published: Published) -> list[str]:
    """Return what is wrong with the time of a release, which is read before the table is, or nothing."""
    stated = datetime.datetime.fromisoformat(published.release.lineage.created)
    off = abs((stated - published.begun).total_seconds())
    return [f"the stated time is {off:.0f} seconds from that at which publishing began"] if off > _SLOW else []


def _mus(privacy: Privacy, columns: Sequence[Column], *, as_rho: bool = False) -> dict[str, float]:
    """Return what bounds and noise come to for every unit that they protect, as mu, or as sqrt(2 rho)."""
    protected = {"cell": ("cell", 1), "row": ("row", 1), privacy.account: (privacy.unit_name, privacy.max_rows)}
    mus = {}
    for account, (unit, max_rows) in protected.items():
        rho = release_rho(unit, columns, max_rows) if as_rho else 0.0
        mus[account] = math.sqrt(2 * rho) if as_rho else release_mu(unit, columns, max_rows)
    return mus


def _above_curve(privacy: Privacy, columns: Sequence[Column], mu: float) -> list[str]:
    """Return what is wrong with the (epsilon, delta) that bounds and noise amount to, or nothing."""
    epsilon, delta = privacy.epsilon or 0.0, privacy.delta or 0.0
    if all(column.is_gaussian for column in columns):
        above = _delta_at(mu, epsilon) > delta * (1 + 1e-6)
    else:
        losses = losses_of(columns, privacy.unit_name)
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
