"""The audit of a release that is planned: made-up tables are published in its place, and what a reader finds is judged.

Of the planned table only names and types are read, and the number of rows where the choice of a mechanism asks for it.
Made-up tables (`made_up`) go through publication itself, where nobody keeps the books. Bundles are opened as by any
reader, and judged by the law that their manifests state: rows in `rows`, second moments in `moments`. Here are the
checks that need no statistics:

- books: the manifest states no less than its noise comes to, which is what every reader checks, and no more than the
  policy asks for. The ledger keeps no less than the manifest's noise costs (`dp_bundle.manifest.costs`).
- entities: of entities with too many rows as many are published as they may have.
"""

import datetime
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from dp_audit.judging import Attacked, Check, make_check
from dp_audit.made_up import (
    Press,
    Published,
    RawCell,
    in_batches,
    made_up_policy,
    publish_made_up,
    raw_cells,
    raw_table,
)
from dp_audit.moments import attack_moments
from dp_audit.rows import attack_rows
from dp_bundle.base.errors import DpGraphError, ParameterError, PolicyError
from dp_bundle.manifest.costs import unit_costs
from dp_bundle.manifest.guarantee import SLACK, EpsilonDelta, check_rows_guarantee
from dp_bundle.manifest.noise import gaussian_delta
from dp_publish.accounting.strength import ApproximateDP, ConcentratedDP, GaussianDP, PureDP
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.data.table import Source
from dp_publish.policy.columns import Prepared, prepare
from dp_publish.policy.model import Policy

_SLOW = 60.0  # seconds that a machine may take to read its clock
_MOST_ROWS, _MOST_RELEASES = 1 << 26, 1 << 20  # that coins decide
_LEAST_ROWS, _LEAST_RELEASES = 1000, 100
_OTHERS = 10  # entities of one row, beside crowds
_MOST_STATES, _LARGEST_CROWD = 64, 2000  # beyond so many rows that an entity may have, no crowd is made up
_CLOSE = 1 + 1e-6  # to which curves agree


@dataclass(frozen=True)
class AuditReport:
    """The findings of an audit.

    `stated_mu` is what is promised for one unit; `mu_lower` is what the attack proves at this confidence.
    """

    unit: Literal["cell", "row", "entity", "change"]
    stated_mu: float
    mu_lower: float
    confidence: float
    n_canaries: int
    checks: tuple[Check, ...]
    mechanism: str = "row"

    @property
    def findings(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if not check.passed)


def audit_planned_release(
    data: Source,
    policy: Policy,
    press: Press,
    *,
    n_canaries: int | None,
    confidence: float = 0.9999,
    tell: Callable[[str], None],
) -> AuditReport:
    """Attack the release that a policy would make of a table; no value of it is read, and nothing is spent.

    Parameters
    ----------
    data : Path, RemotePath, or a table in memory
        The table, for its columns' names and types, and for its number of rows where that is public.
    policy : Policy
        As it was written.
    press : callable
        Publishes a made-up table where nobody keeps the books: `release.publishing.publish_aside`.
    n_canaries : int or None
        How many coins are thrown: for rows from 1000 to 2^26, for whole releases of second moments from 100 to 2^20. By
        default it is as many as take minutes.
    confidence : float
        In [0.5, 1): the chance that a sound release passes every check, and that the lower bound holds.
    tell : callable
        Called with a mechanism's name before an attack on it that takes minutes.

    Raises
    ------
    SchemaError, PolicyError, ParameterError
        The table or the policy allows no release, or a number is out of its range.
    """
    moments = policy.privacy.is_moments
    least, most = (_LEAST_RELEASES, _MOST_RELEASES) if moments else (_LEAST_ROWS, _MOST_ROWS)
    if not 0.5 <= confidence < 1:
        raise ParameterError("confidence", "in [0.5, 1), such as 0.9999", confidence)
    if n_canaries is not None and not least <= n_canaries <= most:
        raise ParameterError("canaries", f"from {least} to {most}", n_canaries)
    prepared = prepare(data, policy)
    if prepared.policy.sought is not None and not moments:
        raise PolicyError(
            "an audit of rows needs a policy that says what columns hold: write one with `dp-publish policy DATA`"
        )
    policy, mechanism = _as_planned(prepared)
    cells, declared, unit = raw_cells(prepared), _is_declared(prepared), policy.privacy.entity
    if moments:
        tell(mechanism)
    filled = [cell.filled for cell in cells]
    attack, own = (attack_moments, filled) if moments else (attack_rows, cells)
    try:
        found = attack(policy, own, press, n_canaries, confidence, declared=declared)
    except (DpGraphError, ValidationError) as error:
        if isinstance(error, PolicyError | ParameterError):
            raise
        found = Attacked(0, 0.0, 0.0, [_not_published(error)], None)
    checks = [*found.checks, *([] if found.published is None else [_check_books(policy, found.published)])]
    if unit is not None and unit.max_rows <= _LARGEST_CROWD and policy.privacy.neighbours.n_rows_public:
        checks.append(_check_entities(press, policy, filled, unit.max_rows))
    figures = found.stated_mu, found.mu_lower, confidence, found.n_coins
    return AuditReport(policy.privacy.unit_name, *figures, tuple(checks), mechanism)


def _as_planned(prepared: Prepared) -> tuple[Policy, str]:
    """Return the policy for made-up tables, with the mechanism that is used for the real one, and its name."""
    policy, privacy = made_up_policy(prepared), prepared.policy.privacy
    if not privacy.is_moments:
        return policy, "row"
    if prepared.policy.sought is not None:  # which is in two rounds
        return policy, "two-round"
    name = set_mechanism(prepared.policy, prepared.kinds, prepared.count_rows).name
    if privacy.neighbours.n_rows_public:  # else `auto` must choose the same for made-up rows
        policy = policy.with_privacy(mechanism=name)
    return policy, name


def _is_declared(prepared: Prepared) -> bool:
    """Return True if nothing is found of the columns: bounds of all numbers are given."""
    policy = prepared.policy
    return policy.sought is None and all(policy.column(name).bounds is not None for name in prepared.kinds)


def _not_published(error: Exception) -> Check:
    return make_check("books", [f"made-up rows cannot be published: {error}"], "")


def _check_books(policy: Policy, published: Published) -> Check:
    """Check the guarantee against what the policy asks for, and the ledger's entry against the noise's cost."""
    release, cost = published.release, published.cost
    faults = _beyond_what_was_asked(policy, published)
    costs = unit_costs(release.guarantee, release.columns, policy.privacy.account)
    for unit, least in costs.items():
        booked = cost.mu.get(unit, 0.0)
        if booked < least * (1 - SLACK):
            faults.append(f"the ledger has mu = {booked:.6g} for {unit}, less than the {least:.6g} it costs")
    if release.second_moments is not None:
        excepted = release.second_moments.noise.excepted_for_replacement(release.guarantee)
        if cost.excepted_delta < excepted * (1 - SLACK):
            faults.append(f"the ledger has an exception of {cost.excepted_delta:g}, less than the {excepted:g} stated")
    off = abs((datetime.datetime.fromisoformat(release.lineage.created) - published.begun).total_seconds())
    if off > _SLOW:
        faults.append(f"the stated time is {off:.0f} seconds from that at which publishing began")
    detail = f"the noise costs mu = {published.mu:.4g}, and no less is asked for, stated and booked"
    return make_check("books", faults, detail)


def _beyond_what_was_asked(policy: Policy, published: Published) -> list[str]:
    """Return what a release loses beyond the strength of its policy, or nothing."""
    guarantee, strength, mu = published.release.guarantee, policy.privacy.strength, published.mu
    pure = guarantee.epsilon
    match strength:
        case GaussianDP(asked):
            return [f"noise amounts to mu = {mu:.6g}, above the {asked:.6g} asked for"] if mu > asked * _CLOSE else []
        case ConcentratedDP(asked):
            rho = guarantee.rho
            return (
                [f"noise amounts to rho = {rho:.6g}, above the {asked:.6g} asked for"] if rho > asked * _CLOSE else []
            )
        case PureDP(asked):
            above = pure is None or pure > asked * _CLOSE
            return [f"no pure epsilon of {asked:g} is stated, as was asked for"] if above else []
        case ApproximateDP(epsilon, delta):
            return (
                [] if _holds_at(published, epsilon, delta) else [f"epsilon is above {epsilon:g} at delta = {delta:g}"]
            )
    return []  # sigma was given, and no strength asked for


def _holds_at(published: Published, epsilon: float, delta: float) -> bool:
    """Return True if a release is (epsilon, delta)-private by what its manifest states of its noise."""
    release, guarantee = published.release, published.release.guarantee
    if guarantee.epsilon is not None:
        return guarantee.epsilon <= epsilon * _CLOSE and guarantee.excepted_delta <= delta * _CLOSE
    if guarantee.mu is not None:
        return gaussian_delta(guarantee.mu, epsilon) + guarantee.excepted_delta <= delta * _CLOSE
    point = EpsilonDelta(epsilon=epsilon, delta=min(delta * _CLOSE, 1 - 1e-9))
    try:
        check_rows_guarantee(guarantee.model_copy(update={"epsilon_delta": (point,)}), release.columns)
    except ValueError:
        return False
    return True


def _check_entities(press: Press, policy: Policy, cells: list[RawCell], max_rows: int) -> Check:
    """Check how many rows are published of entities that have too many, a crowd for every state of the cells.

    Their rows come in turn, in batches of one row or two. So neither what a row holds nor where batches begin can let a
    row pass the cap unseen. How many rows are left is public, and known beforehand.
    """
    n, rows = min(max(cell.n_states for cell in cells), _MOST_STATES), 2 * max_rows + 3
    turns = np.concatenate([np.arange(_OTHERS) % n, np.tile(np.arange(n), rows)])
    owners = [*(f"row {index}" for index in range(_OTHERS)), *(f"crowd {state}" for state in turns[_OTHERS:])]
    states = np.column_stack([np.minimum(turns, cell.n_states - 1) for cell in cells])
    allowed, faults = _OTHERS + n * max_rows, []
    try:
        table = in_batches(raw_table(policy, cells, states, owners))
        found = publish_made_up(press, table, policy).release.n_rows
    except (DpGraphError, ValidationError) as error:
        return _not_published(error)
    faults += [f"{found} rows were published where entities may have {allowed} in all"] if found != allowed else []
    return make_check("entities", faults, f"of entities with too many rows {max_rows} each are published")


def describe_audit(report: AuditReport) -> str:
    """Return the report for a person: what is stated, what was proved, and a line for each check."""
    what = f"{report.n_canaries:,} made-up releases by the {report.mechanism} mechanism"
    if report.mechanism == "row":
        what = f"{report.n_canaries:,} coins in a made-up release of rows"
    proved = f"{report.mu_lower:.4g} ({report.mu_lower / report.stated_mu:.0%} of it)" if report.stated_mu else "none"
    width = max([14, *(len(check.name) + 1 for check in report.checks)])
    lines = [
        f"attacked {what}; no row of the table was used, and nothing was spent",
        f"  {'unit':<{width}}{report.unit}",
        f"  {'stated mu':<{width}}{report.stated_mu:.4g}",
        f"  {'lower bound':<{width}}{proved}",
        f"  {'confidence':<{width}}{100 * report.confidence:g} %, for the bound and all checks together",
    ]
    lines += [f"  {check.name:<{width}}{'ok  ' if check.passed else 'FAIL'}  {check.detail}" for check in report.checks]
    return "\n".join(lines)


def describe_failures(report: AuditReport) -> str:
    """Return what failed as one sentence; there must be something."""
    found = "; ".join(f"{check.detail} ({check.name})" for check in report.findings)
    return f"the audit failed: {found}: publish nothing with this mechanism"


def audit_document(report: AuditReport) -> dict[str, Any]:
    """Return the report for a machine."""
    return {**asdict(report), "checks": [asdict(check) for check in report.checks], "passed": not report.findings}
