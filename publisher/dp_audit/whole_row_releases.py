"""Whole releases of rows attacked: made-up tables are published, and what a reader finds is judged.

The bundle's rows are judged by what the policy asked for: its mu, or the noise that its epsilon and delta need,
whatever calibration made of it. Canary rows of every kind are mixed in one table (`canaries`). The checks:

- attack: the lower bound on mu that guessing the canaries' coins proves (`Attack`) does not exceed what is stated.
- bounds: values outside come out as if they were at the bounds, and empty cells as the policy says.
- grid: every value comes out on the grid, with low bits that do not depend on the raw value's.
- noise: its distribution and variance are those stated, whatever the raw value, and at the edges of batches.
- independence: signs are uncorrelated between columns and rows, and between rows with the same values, and no noise
  occurs twice, nor in another release.
- books: what the manifest states and what the ledger keeps are no less than bounds and noise come to, and that is no
  more than the policy asked for (`books`).

The first five share the chance of a false alarm, 1 - confidence; the books need no statistics. An audit refutes a
claim, and never proves one: a fault that the canaries do not meet, or that is smaller than chance, is not found. Where
mu is so large that every coin would be guessed, the bound comes from canaries close to each other, by proportion; that
supposes noise that does not depend on the value, which the noise check tests.

References
----------
Steinke, Nasr & Jagielski (2023), arXiv 2305.08846. Haney et al. (2022), arXiv 2207.13793, for the low bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_audit.books import check_books, claimed_mu
from dp_audit.canaries import (
    N_AT_EDGES,
    OUTSIDE,
    Canaries,
    MadeUp,
    Unit,
    coin_unit,
    granularities,
    make_up,
    middle_of,
    rows_alike,
)
from dp_audit.hypothesis_tests import Attack, guessed_mu, judge_noise, law_of, low_bits_p_value, sample_excess
from dp_audit.press import UNPUBLISHED, Press, Published, made_up_policy, not_published, publish_made_up
from dp_audit.report import AuditReport, Check, Guesses, check_confidence, check_signs, judge_guesses, make_check
from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.columns import Column
from dp_publish.accounting.conversions import unit_mu
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import calibrate

Judged: TypeAlias = Callable[[Published], tuple[float, list[Check]]]  # the lower bound on mu, and the checks

_LEAST_CANARIES, _MOST_CANARIES = 1000, 1 << 26
_AGAIN = 2000  # rows that are published a second time
_CELLS, _MOST_CELLS = 1 << 21, 1 << 24  # of one kind of canaries, by default
_N_CHECKS = 5  # that may raise a false alarm


def audit_rows(
    policy: Policy, kinds: dict[str, str], press: Press, n_canaries: int | None, confidence: float
) -> AuditReport:
    """Publish made-up rows under a policy, and attack what a reader finds.

    Parameters
    ----------
    policy : Policy
        For a release of rows, with bounds for every column, and a strength that states a guarantee.
    kinds : dict of str to {"continuous", "integer"}
        The columns.
    press : callable
        Publishes a made-up table where nobody keeps the books: `release.publishing.publish_aside`.
    n_canaries : int or None
        Rows of canaries of each kind, from 1000 to 2^26; by default enough for a bound within a factor 2.
    confidence : float
        In [0.5, 1): the chance that a sound release passes every check, and that the lower bound holds.

    Raises
    ------
    ParameterError
        `n_canaries` or `confidence` is outside its range.
    PolicyError, PrivacyError
        The policy allows no release.
    """

    def prepare(
        policy: Policy, columns: Sequence[Column], claim: float, rng: np.random.Generator
    ) -> tuple[int, pa.Table, Judged]:
        alike = rows_alike(policy, len(columns))
        n = -(-_choose_canaries(n_canaries, claim, len(columns) * alike) // alike) * alike
        made_up = make_up(policy, columns, n, rng)

        def judge(published: Published) -> tuple[float, list[Check]]:
            if len(published.values) != len(made_up.expected):
                fault = (
                    f"{len(published.values)} rows were published of a table of which {len(made_up.expected)} should be"
                )
                return 0.0, [make_check("bounds", [fault], "")]
            again = publish_made_up(press, made_up.table.slice(0, _AGAIN), policy)
            alpha = (1 - confidence) / _N_CHECKS
            return _judge(policy, columns, claim, made_up, (published, again), alpha)

        return n, made_up.table, judge

    return audit_made_up(policy, kinds, press, confidence, prepare)


def audit_made_up(
    policy: Policy,
    kinds: dict[str, str],
    press: Press,
    confidence: float,
    prepare: Callable[[Policy, Sequence[Column], float, np.random.Generator], tuple[int, pa.Table, Judged]],
) -> AuditReport:
    """Publish a made-up table, and judge what a reader finds, and the books.

    Parameters
    ----------
    policy, kinds, press, confidence
        As for `audit_rows`.
    prepare : callable
        Returns the number of canaries, their table, and what judges the bundle made of it, from the policy for made-up
        rows, the columns as they are published, the mu that is claimed, and the auditor's own coins.
    """
    check_confidence(confidence)
    policy = made_up_policy(policy, kinds)
    columns = calibrate(policy, kinds)
    claim = claimed_mu(policy, columns)
    n, table, judge = prepare(policy, columns, claim, np.random.default_rng())
    try:
        published = publish_made_up(press, table, policy)
        mu_lower, checks = judge(published)
        checks.append(check_books(policy, columns, published))
    except UNPUBLISHED as error:
        mu_lower, checks = 0.0, [make_check("books", [not_published(error)], "")]
    return AuditReport(policy.privacy.unit_name, claim, mu_lower, confidence, n, tuple(checks))


def _choose_canaries(wanted: int | None, mu: float, n_columns: int) -> int:
    """Return how many rows of each kind there will be: as wanted, or enough for two thirds of mu by default."""
    if wanted is None:
        needed = min((40 / mu) ** 2, _MOST_CELLS)
        return max(1 << 12, int(min(max(_CELLS / n_columns, needed), _MOST_CELLS / n_columns)))
    if not _LEAST_CANARIES <= wanted <= _MOST_CANARIES:
        raise ParameterError("canaries", f"from {_LEAST_CANARIES} to {_MOST_CANARIES}", wanted)
    return wanted


def _judge(
    policy: Policy,
    columns: Sequence[Column],
    claim: float,
    made_up: MadeUp,
    releases: tuple[Published, Published],
    alpha: float,
) -> tuple[float, list[Check]]:
    """Return the lower bound on mu, and the five checks of noise, of a release of all rows and one of the first."""
    unit, alike = coin_unit(policy), rows_alike(policy, len(columns))
    noisy, again = (published.values / granularities(columns) for published in releases)
    *within, beyond = made_up.canaries(noisy)
    of_changes = policy.privacy.unit == "change"  # which are protected where they are as small as canaries close by
    attacked = [_units(canaries, alike) for canaries in (within[1:-1] if of_changes else within[:-1])]

    # what is told apart, at their bounds and outside
    mu_lower, attack = _check_attack([*columns] * alike, unit, attacked, alpha, claim)
    empty = {name: noisy[rows] for name, rows in made_up.empty.items()}
    bounds = _check_bounds(columns, within[0], beyond, alpha, empty)
    if attack.passed and bounds.passed and not of_changes:  # a row's columns together may show what each alone hides
        _, outside = _check_attack(columns, unit, [beyond], alpha / 2, claim)
        if not outside.passed:
            bounds = make_check("bounds", [f"with values outside the bounds, {outside.detail}"], "")

    # the noise, of all rows and at the edges of batches
    known = made_up.expected
    signs = [np.sign(np.rint(each) - known[: len(each)]).astype(np.int8) for each in (noisy, again)]
    first = known[:N_AT_EDGES]
    edges = Canaries(first, first, np.zeros(first.shape, dtype=bool), (), noisy[:N_AT_EDGES])
    halves = np.array_split(np.sign(within[-1].residuals).astype(np.int8), 2)
    twins = np.stack([half[: len(halves[1])] for half in halves], axis=1).reshape(-1, len(columns))
    independence = check_signs(signs, alpha, twins)
    grid = _check_grid(columns, within, alpha, low_bits=independence.passed)
    return mu_lower, [attack, bounds, grid, _check_noise(columns, [*within, edges], alpha), independence]


def _units(canaries: Canaries, rows: int) -> Canaries:
    """Return canaries with the rows of an entity side by side."""
    low, high = (np.tile(limits, rows) if rows > 1 else limits for limits in (canaries.low, canaries.high))
    coins, noisy = canaries.coins, canaries.noisy
    shape = (-1, rows * noisy.shape[1])
    return replace(canaries, low=low, high=high, coins=coins.reshape(shape), noisy=noisy.reshape(shape))


def _check_attack(
    columns: Sequence[Column], unit: Unit, attacked: Sequence[Canaries], alpha: float, claim: float
) -> tuple[float, Check]:
    """Return the largest lower bound on mu of any unit, and the check that none exceeds what is stated for it.

    What is stated is what bounds and noise come to, or, where that is less, the claim: what the policy asked for.
    """
    units = [[index] for index in range(len(columns))] if unit == "cell" else [list(range(len(columns)))]
    guessed = []
    for indices in units:
        cells = [columns[index] for index in indices]
        stated = min(claim, unit_mu(unit, [column.cell_mu for column in cells]))
        widest = Attack(cells, attacked[0].high[indices] - attacked[0].low[indices])
        name = f"a cell of column {cells[0].name!r}" if unit == "cell" else "a row"

        for canaries in attacked:
            low, high = canaries.low[indices], canaries.high[indices]
            test, where = (widest, "") if canaries is attacked[0] else (Attack(cells, high - low), " of close canaries")
            centred = canaries.noisy[:, indices] - 0.5 * (low + high)
            correct, total = test.count_correct(centred, canaries.coins[:, indices[0]])
            # by proportion where canaries are close, as noise does not depend on the value
            bound = guessed_mu(correct, total, alpha / (len(units) * len(attacked)))
            bound *= 1.0 if test is widest else widest.mu / test.mu
            guessed.append(Guesses(name, correct, total, bound, stated, where))
    return judge_guesses(guessed)


def _check_bounds(
    columns: Sequence[Column],
    widest: Canaries,
    beyond: Canaries,
    alpha: float,
    empty: dict[str, NDArray[np.float64]],
) -> Check:
    """Check that canaries outside the bounds come out like those at them, and cells that were empty in the middle."""
    share, faults = alpha / (4 * len(columns)), []
    at_bounds, outside = widest.residuals, beyond.residuals
    for index, column in enumerate(columns):
        for high in (False, True):
            usual = at_bounds[widest.coins[:, index] == high, index]
            for turn, where in enumerate(OUTSIDE):
                group = outside[turn :: len(OUTSIDE), index][beyond.coins[turn :: len(OUTSIDE), index] == high]
                if sample_excess(group, usual, share / (2 * len(OUTSIDE))) > 1:
                    faults.append(
                        f"values of column {column.name!r} {where} its bounds come out as if they were not clipped"
                    )
        if column.name in empty:
            steps = np.rint(empty[column.name][:, index]) - middle_of(column)
            if sample_excess(steps, at_bounds[:, index], share) > 1:
                faults.append(f"column {column.name!r} does not bring empty cells to the middle of its bounds")
    return make_check(
        "bounds", faults, "values outside come out like values at the bounds, empty cells as the policy says"
    )


def _check_grid(columns: Sequence[Column], within: Sequence[Canaries], alpha: float, *, low_bits: bool) -> Check:
    """Check that what comes out is on the grid and, where asked, that its low bits do not depend on the raw ones."""
    faults = []
    expected = np.concatenate([canaries.expected for canaries in within])
    noisy = np.concatenate([canaries.noisy for canaries in within])
    for index, column in enumerate(columns):
        off = np.count_nonzero(noisy[:, index] != np.rint(noisy[:, index]))
        if off:
            faults.append(
                f"{off / len(noisy):.1%} of column {column.name!r} is off its grid, as floating-point noise is"
            )
        elif np.signbit(noisy[noisy[:, index] == 0, index]).any():
            faults.append(f"zeros of column {column.name!r} have a sign, which may be the raw value's")
        elif low_bits and low_bits_p_value(expected[:, index], noisy[:, index], column.cell_noise) < alpha / len(
            columns
        ):
            faults.append(f"the low bits of column {column.name!r} depend on the raw value's")
    return make_check(
        "grid", faults, f"all {noisy.size} values are on the grid, with low bits independent of the raw ones"
    )


def _check_noise(columns: Sequence[Column], within: Sequence[Canaries], alpha: float) -> Check:
    """Check variance and distribution of the noise, the latter for low, high and other canaries apart."""
    faults, worst = [], 0.0
    for index, column in enumerate(columns):
        noise = [(canaries.residuals[:, index], canaries.coins[:, index]) for canaries in within]
        groups = [residuals[coins == high] for residuals, coins in noise for high in (False, True)]
        off, fault = judge_noise(groups, law_of(column.cell_noise), alpha / (2 * len(columns)))
        worst = max(worst, off)
        faults += [f"the noise on column {column.name!r} {fault}"] if fault else []
    return make_check("noise", faults, f"distributed as stated, variances within {worst:.2%}")
