"""The audit of a release that is planned: made-up rows stand for a table of which only names and types are read.

Whole releases of columns that are coded are attacked here: made-up levels, dates, times and gaps are published and
judged. Each raw column (`raw_cells`) is judged by its own part of what the policy asked for, computed here afresh. In
every row it has one of all its states, in every other row one of the first two, by a fair coin. The first and the last
rows come in batches of one or two. Among the others is a stretch in which nearly all rows are in their first state, so
that states are rare in a batch. The checks:

- attack: the lower bound on mu that guessing these coins proves does not exceed what is stated (`hypothesis_tests`); of
  randomised response 2 Phi^-1(p), as whatever is mu-GDP lets nobody guess right more often than Phi(mu / 2).
- noise: of noise on indicators and numbers its law and variance; of randomised response how often a level stays, and
  how often it becomes each other one, and that each row has one level. Of all rows, of those at the edges of batches,
  and of those in rare states.
- independence: signs of noise are uncorrelated, and so is which levels were replaced.
- coding: what is published of columns is the same for a table in which one state of each alone occurs.
- books: what the manifest states and what the ledger keeps are no less than the noise comes to.

References
----------
Steinke, Nasr & Jagielski (2023), arXiv 2305.08846. Kairouz, Oh & Viswanath (2016), JMLR 17(17).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from scipy import special, stats

from dp_audit.canaries import N_AT_EDGES, granularities, in_batches, raw_table
from dp_audit.hypothesis_tests import Attack, guessed_mu, judge_noise, law_of
from dp_audit.press import UNPUBLISHED, Press, Published, made_up_policy, not_published, publish_made_up
from dp_audit.raw_cells import Floats, RawCell, States, any_states, raw_arrays, raw_cells
from dp_audit.report import AuditReport, Check, Guesses, check_signs, judge_guesses, make_check
from dp_audit.whole_moments import audit_moments
from dp_audit.whole_row_releases import Judged, audit_made_up, audit_rows
from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import listed
from dp_bundle.manifest.columns import Column, RandomizedResponse
from dp_bundle.manifest.guarantee import release_mu
from dp_publish.covariance.guarantee import moment_columns
from dp_publish.data.table import Source
from dp_publish.policy.columns import prepare
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import calibrate

_OTHERS = 10  # entities of one row, beside crowds
_MOST_STATES, _LARGEST_CROWD = 64, 2000  # beyond so many rows that an entity may have, no crowd is made up
_ROWS = 1 << 16
_N_CHECKS = 3  # that may raise a false alarm
_LAGS, _MANY = 16, 50
_FEW, _TIMES = 40, 100  # rows of a batch in which two are in rare states, and how many there are of these


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
    n_canaries, confidence
        As for `audit_rows` and `audit_moments`.
    tell : callable
        Called with a mechanism's name before an attack on it that takes minutes.

    Raises
    ------
    SchemaError, PolicyError, PrivacyError, ParameterError
        The table or the policy allows no release.
    """
    prepared = prepare(data, policy)
    policy, kinds = prepared.policy, prepared.kinds
    unbounded = [name for name in kinds if policy.column(name).bounds is None]
    if unbounded:
        raise PolicyError(
            f"an audit needs declared bounds, which are missing for {listed(unbounded)}: what is found privately is "
            "found alike in every table, and the project's own tests attack it; to audit this release, write a policy "
            "with `dp-publish policy DATA`, and fill in the bounds from public knowledge, or set drop = true"
        )
    if policy.privacy.release == "rows":
        report = _audit_rows(policy, kinds, press, n_canaries, confidence)
    else:
        report = audit_moments(
            policy, kinds, prepared.count_rows, press, n_canaries=n_canaries, confidence=confidence, tell=tell
        )
    unit = policy.privacy.entity
    if unit is None or unit.max_rows > _LARGEST_CROWD or not policy.privacy.neighbours.n_rows_public:
        return report
    policy = made_up_policy(policy, kinds)
    columns = moment_columns(policy, kinds) if policy.privacy.is_moments else calibrate(policy, kinds)
    return replace(report, checks=(*report.checks, _check_entities(press, policy, columns, unit.max_rows)))


def _audit_rows(
    policy: Policy, kinds: dict[str, str], press: Press, n_canaries: int | None, confidence: float
) -> AuditReport:
    """Attack a release of rows: numbers, and columns that are coded, each as all that is released."""
    coded = {name: kinds[name] for source in policy.sources for name in source.columns if name in kinds}
    numbers = {name: kind for name, kind in kinds.items() if name not in coded}
    reports: dict[str, AuditReport] = {}
    if numbers:
        alone = policy.model_copy(update={"sources": ()})
        reports[""] = audit_rows(alone, numbers, press, n_canaries, confidence)
    if coded:
        privacy = policy.privacy  # of columns without a `max_change` a change may be any
        privacy = privacy.model_copy(update={"unit": "cell"}) if privacy.unit == "change" else privacy
        alone = policy.model_copy(update={"privacy": privacy})
        reports["coded: "] = audit_coded(alone, coded, press, n_canaries, confidence)
    checks = [
        replace(check, name=f"{part}{check.name}" if len(reports) > 1 else check.name)
        for part, report in reports.items()
        for check in report.checks
    ]
    mu_lower = max(report.mu_lower or 0.0 for report in reports.values())
    return replace(next(iter(reports.values())), mu_lower=mu_lower, checks=tuple(checks))


def _check_entities(press: Press, policy: Policy, columns: Sequence[Column], max_rows: int) -> Check:
    """Check how many rows are published of entities that have too many, a crowd for every state of the cells.

    Their rows come in turn, in batches of one row or two, so that neither what a row holds nor where batches begin can
    let a row pass the cap unseen. How many rows are left is public, and known beforehand.
    """
    cells, rows = raw_cells(policy.sources, columns), 2 * max_rows + 3
    n = min(max(cell.n_states for cell in cells), _MOST_STATES)
    turns = np.concatenate([np.arange(_OTHERS) % n, np.tile(np.arange(n), rows)])
    owners = [*(f"row {index}" for index in range(_OTHERS)), *(f"crowd {state}" for state in turns[_OTHERS:])]
    states = np.column_stack([np.minimum(turns, cell.n_states - 1) for cell in cells])
    table = in_batches(raw_table(policy, raw_arrays(cells, states), owners))
    allowed, faults = _OTHERS + n * max_rows, []
    try:
        found = publish_made_up(press, table, policy).release.n_rows
    except UNPUBLISHED as error:
        faults.append(not_published(error))
    else:
        faults += [f"{found} rows were published where entities may have {allowed} in all"] if found != allowed else []
    return make_check("entities", faults, f"of entities with too many rows {max_rows} each are published")


@dataclass(frozen=True)
class _Cell:
    """A cell with states as it is audited.

    Attributes
    ----------
    raw : RawCell
        The states.
    places : slice
        Of its columns among all published ones.
    claim : float
        The mu that the policy asks for.
    states : ndarray of int
        Of all rows.
    """

    raw: RawCell
    places: slice
    claim: float
    states: States

    def in_steps(self, noisy: Floats) -> Floats:
        """Return what came out of the cell, in steps."""
        return noisy[:, self.places] / granularities(self.raw.columns)

    def residuals(self, noisy: Floats) -> Floats:
        """Return the noise on the cell's columns, in steps."""
        return self.in_steps(noisy) - self.raw.steps[self.states]

    def levels(self, noisy: Floats) -> States:
        """Return the levels that indicators show, -1 where they are none; one column alone shows the second of two."""
        own = noisy[:, self.places]
        valid = np.isin(own, (0.0, 1.0)).all(axis=1)
        if own.shape[1] == 1:
            return np.where(valid, own[:, 0], -1.0).astype(np.int64)
        return np.where(valid & (own.sum(axis=1) == 1.0), own.argmax(axis=1), -1)


def audit_coded(
    policy: Policy, kinds: dict[str, str], press: Press, n_canaries: int | None, confidence: float
) -> AuditReport:
    """Publish made-up levels, dates, times and gaps under a policy, and attack what a reader finds.

    Parameters
    ----------
    policy : Policy
        For a release of rows; resolved. Its columns are those of sources alone.
    kinds : dict of str to str
        Those columns.
    press : callable
        Publishes a made-up table where nobody keeps the books: `release.publishing.publish_aside`.
    n_canaries : int or None
        Rows, 65,536 by default.
    confidence : float
        The chance that a sound release passes every check, and that the lower bound holds.

    Raises
    ------
    ParameterError
        `confidence` is out of its range.
    PolicyError, PrivacyError
        The policy allows no release.
    """
    n, alpha = n_canaries or _ROWS, (1 - confidence) / _N_CHECKS

    def prepare(
        policy: Policy, columns: Sequence[Column], claim: float, rng: np.random.Generator
    ) -> tuple[int, pa.Table, Judged]:
        raw, rare = raw_cells(policy.sources, columns, outside=True), n // 2 + _FEW // 2 * np.arange(2 * _TIMES)
        states = any_states(raw, n + _FEW * _TIMES, rng)
        coined = np.delete(np.arange(len(states)), slice(n // 2, n // 2 + _FEW * _TIMES))[::2]
        states[coined] = rng.integers(0, 2, (len(coined), len(raw)))
        others = np.column_stack([rng.integers(1, cell.n_states, len(rare)) for cell in raw])
        states[n // 2 : n // 2 + _FEW * _TIMES] = 0
        states[rare] = others

        cells = _cells(policy, raw, claim, states)
        edges = np.r_[0:N_AT_EDGES, len(states) - N_AT_EDGES : len(states)]
        alone = raw_table(policy, raw_arrays(raw, np.ones((_FEW, len(raw)), dtype=np.int64)))

        def judge(published: Published) -> tuple[float, list[Check]]:
            again, noisy = publish_made_up(press, alone, policy), published.values
            described = [(each.release.columns, each.release.sources) for each in (published, again)]
            if described[0] != described[1] or described[0][0] != tuple(columns):
                return 0.0, [make_check("coding", ["what is published of columns follows from their values"], "")]
            if len(noisy) != len(states):
                return 0.0, [make_check("coding", [f"{len(noisy)} rows were published of {len(states)}"], "")]
            mu_lower, attack = judge_guesses(_guess(each, noisy, coined, alpha / len(cells), rng) for each in cells)
            rows = [np.arange(len(noisy)), edges, rare]
            noise, independence = _check_noise(cells, noisy, rows, alpha), _check_independence(cells, noisy, alpha)
            coding = make_check("coding", [], "what is published of columns does not follow from their values")
            return mu_lower, [attack, noise, independence, coding]

        table = raw_table(policy, raw_arrays(raw, states))
        return n, in_batches(table, [n // 2 + _FEW * batch for batch in range(_TIMES + 1)]), judge

    return audit_made_up(policy, kinds, press, confidence, prepare)


def _cells(policy: Policy, raw: Sequence[RawCell], claim: float, states: States) -> list[_Cell]:
    """Return the cells, each with the part of mu that is its own: all of a cell's, of a row's by weights.

    Where the policy asks for no mu, that of noise on whole numbers is what their noise has.
    """
    weights = [policy.column(cell.columns[0].name).weight for cell in raw]
    alone = policy.privacy.unit_name in ("cell", "change")
    cells, first = [], 0
    for cell, weight, own in zip(raw, weights, states.T, strict=True):
        share = 1.0 if alone else math.sqrt(weight / math.fsum(weights) / policy.privacy.max_rows)
        is_mu = policy.privacy.mu is not None or cell.columns[0].is_gaussian
        asked = claim * share if is_mu else release_mu("cell", cell.columns)
        cells.append(_Cell(cell, slice(first, first + len(cell.columns)), asked, own))
        first += len(cell.columns)
    return cells


def _guess(each: _Cell, noisy: Floats, coined: States, alpha: float, rng: np.random.Generator) -> Guesses:
    """Guess the coins of a cell from what came out."""
    thrown, cell = each.states[coined], each.raw
    if cell.response is not None:
        found = each.levels(noisy)[coined]
        guesses = np.where(np.isin(found, (0, 1)), found, rng.integers(0, 2, len(found)))
        correct, total = int(np.count_nonzero(guesses == thrown)), len(thrown)
    else:
        low, high = cell.steps[:2]
        moved = np.flatnonzero(high != low)
        test = Attack([cell.columns[place] for place in moved.tolist()], (high - low)[moved])
        centred = each.in_steps(noisy)[coined][:, moved] - 0.5 * (low + high)[moved]
        correct, total = test.count_correct(centred, thrown.astype(bool))
    return Guesses(f"a cell of {cell.name!r}", correct, total, guessed_mu(correct, total, alpha), each.claim)


def _check_noise(cells: Sequence[_Cell], noisy: Floats, rows: Sequence[States], alpha: float) -> Check:
    """Check what was added to indicators, or how often levels stay and which they become, of some sets of rows."""
    faults = []
    for each in cells:
        share, columns = alpha / len(cells) / len(rows), each.raw.columns
        if each.raw.response is not None:
            levels = each.levels(noisy)
            for some in rows:
                faults += _response_faults(each, each.raw.response, levels[some], each.states[some], share)
            continue
        for column, noise in zip(columns, each.residuals(noisy).T, strict=True):
            for some in rows:
                _, fault = judge_noise([noise[some]], law_of(column.cell_noise), share / (2 * len(columns)))
                faults += [f"the noise on {column.name!r} {fault}"] if fault else []
    return make_check("noise", faults, "distributed as stated; levels stay, and become others, as often as stated")


def _response_faults(each: _Cell, response: RandomizedResponse, found: States, raw: States, alpha: float) -> list[str]:
    name = each.raw.name
    if (found < 0).any():
        return [f"{np.count_nonzero(found < 0)} rows of {name!r} do not show one level"]
    faults = []
    stays = int(np.count_nonzero(found == raw))
    if stats.binomtest(stays, len(raw), response.p_same).pvalue < alpha / 2:
        faults.append(
            f"a level of {name!r} stays in {stays / len(raw):.4g} of rows, and {response.p_same:.4g} is stated"
        )
    changed = found != raw
    if response.n_levels > 2 and np.count_nonzero(changed) > _MANY * response.n_levels:  # for an approximation
        steps = (found[changed] - raw[changed]) % response.n_levels  # uniform on 1, ..., K - 1
        counts = np.bincount(steps, minlength=response.n_levels)[1:]
        if stats.chisquare(counts).pvalue < alpha / 2:
            faults.append(f"levels of {name!r} that change do not become all others equally often")
    return faults


def _check_independence(cells: Sequence[_Cell], noisy: Floats, alpha: float) -> Check:
    """Check that noise, and which levels are replaced, do not depend on that of other rows and cells."""
    signs = [np.sign(each.residuals(noisy)).astype(np.int8) for each in cells if each.raw.response is None]
    changed = [
        (each.levels(noisy) != each.states).astype(np.float64) for each in cells if each.raw.response is not None
    ]
    checks = [check_signs([np.hstack(signs)], alpha / 2)] if signs else []
    faults = [check.detail for check in checks if not check.passed]
    limit = special.ndtri(1 - alpha / (4 * max(len(changed), 1) * (_LAGS + len(changed))))
    for index, own in enumerate(changed):
        others = [own[lag:] for lag in range(1, _LAGS + 1)] + changed[index + 1 :]
        if any(_correlated(own[: len(other)], other) > limit for other in others):
            faults.append("which levels are replaced is correlated between rows or cells")
    return make_check("independence", faults, "no correlation between rows or cells, and no noise is used twice")


def _correlated(one: Floats, other: Floats) -> float:
    """Return the size of a correlation in its standard errors."""
    spread = float(one.std() * other.std())
    together = float(np.mean((one - one.mean()) * (other - other.mean())))
    return abs(together) / spread * math.sqrt(len(one)) if spread else 0.0
