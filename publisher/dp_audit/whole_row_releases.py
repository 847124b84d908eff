"""Whole releases of rows attacked: made-up tables are published, and what a reader finds is judged.

The bundle's rows are judged by what the policy asked for: its mu, or the noise that its epsilon and delta need,
whatever calibration made of it. Canary rows of every kind are mixed in one table (`canaries`). The checks:

- attack: the lower bound on mu that guessing the canaries' coins proves (`Attack`) does not exceed what is stated.
- bounds: values outside come out as if they were at the bounds, and empty cells as the policy says.
- grid: every value comes out on the grid, with low bits that do not depend on the raw value's.
- noise: its distribution and variance are those stated, whatever the raw value, and at the edges of batches.
- independence: signs are uncorrelated between columns and rows, and no noise occurs twice, nor in another release.
- replay: with the same random bits, neighbouring tables make the same draws, and releases equal in all but the unit's
  own values, which are no further apart than the policy allows; tables that must come out equal do (`replay`).
- books: what the manifest states and what the ledger keeps are no less than bounds and noise come to, and that is no
  more than the policy asked for (`books`).

The first five share the chance of a false alarm, 1 - confidence; the last two need no statistics. An audit refutes a
claim, and never proves one: a fault that the canaries do not meet, or that is smaller than chance, is not found. Where
mu is so large that every coin would be guessed, the bound comes from canaries close to each other, by proportion; that
supposes noise that does not depend on the value, which the noise check tests.

References
----------
Steinke, Nasr & Jagielski (2023), arXiv 2305.08846. Haney et al. (2022), arXiv 2207.13793, for the low bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_audit.books import check_books, claimed_mu
from dp_audit.canaries import N_AT_EDGES, Canaries, MadeUp, coin_unit, granularities, make_up, rows_alike
from dp_audit.checks import Check, check_confidence, judge_canaries, make_check, not_in_the_middle
from dp_audit.press import (
    UNPUBLISHED,
    Limit,
    Press,
    Published,
    Replayer,
    made_up_policy,
    not_published,
    publish_made_up,
)
from dp_audit.replay import check_replay, loss_of_rows
from dp_audit.report import AuditReport
from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.columns import Column
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import calibrate

Judged: TypeAlias = Callable[[Published], tuple[float, list[Check]]]  # the lower bound on mu, and the checks

_LEAST_CANARIES, _MOST_CANARIES = 1000, 1 << 26
_AGAIN = 2000  # rows that are published a second time
_CELLS, _MOST_CELLS = 1 << 21, 1 << 24  # of one kind of canaries, by default
N_CHECKS = 5  # that may raise a false alarm


def audit_rows(
    policy: Policy, kinds: dict[str, str], press: Press, *, n_canaries: int | None = None, confidence: float = 0.9999
) -> AuditReport:
    """Publish made-up rows under a policy, and attack what a reader finds.

    Parameters
    ----------
    policy : Policy
        For a release of rows, with bounds for every column, and a strength that states a guarantee.
    kinds : dict of str to {"continuous", "integer"}
        The columns.
    press : callable
        Publishes a made-up table where nobody keeps the books: `release.publish_aside`.
    n_canaries : int, optional
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
        n = -(-choose_canaries(n_canaries, claim, len(columns) * alike) // alike) * alike
        made_up = make_up(policy, columns, n, rng)

        def judge(published: Published) -> tuple[float, list[Check]]:
            replay = check_replay(Replayer(press, policy), columns, Limit(claim, loss_of_rows))
            if len(published.values) != made_up.n_rows:
                fault = f"{len(published.values)} rows were published of a table of which {made_up.n_rows} should be"
                return 0.0, [make_check("bounds", [fault], ""), replay]
            again = publish_made_up(press, made_up.table.slice(0, _AGAIN), policy)
            alpha = (1 - confidence) / N_CHECKS
            mu_lower, checks = _judge(policy, columns, claim, made_up, (published, again), alpha, rng)
            return mu_lower, [*checks, replay]

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
    except UNPUBLISHED as error:
        mu_lower, checks = 0.0, [make_check("books", [not_published(error)], "")]
    else:
        mu_lower, checks = judge(published)
        checks.append(check_books(policy, columns, published))
    return AuditReport(policy.privacy.unit_name, claim, mu_lower, confidence, n, tuple(checks))


def choose_canaries(wanted: int | None, mu: float, n_columns: int) -> int:
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
    rng: np.random.Generator,
) -> tuple[float, list[Check]]:
    """Return the lower bound on mu, and the five checks of noise, of a release of all rows and one of the first."""
    unit, alike = coin_unit(policy), rows_alike(policy, len(columns))
    noisy, again = (published.values / granularities(columns) for published in releases)
    *within, beyond = made_up.canaries(noisy)
    of_changes = policy.privacy.unit == "change"  # which are protected where they are as small as canaries close by
    attacked = [_units(canaries, alike) for canaries in (within[1:-1] if of_changes else within[:-1])]

    def judge_empty(column: Column, usual: NDArray[np.float64], alpha: float) -> str:
        if column.name not in made_up.empty:
            return ""
        return not_in_the_middle(column, noisy[made_up.empty[column.name], columns.index(column)], usual, alpha)

    known = made_up.expected[~np.isnan(made_up.expected).any(axis=1)]
    signs = [np.sign(np.rint(each[: len(known)]) - known[: len(each)]).astype(np.int8) for each in (noisy, again)]
    first = known[:N_AT_EDGES]
    edges = Canaries(first, first, np.zeros(first.shape, dtype=bool), (), noisy[:N_AT_EDGES])
    return judge_canaries(
        *(columns, unit, attacked, within, beyond, signs, judge_empty, alpha, rng),
        claim=claim,
        rows=alike,
        edges=[edges],
        from_outside=not of_changes,
    )


def _units(canaries: Canaries, rows: int) -> Canaries:
    """Return canaries with the rows of an entity side by side."""
    low, high = (np.tile(limits, rows) if rows > 1 else limits for limits in (canaries.low, canaries.high))
    coins, noisy = canaries.coins, canaries.noisy
    shape = (-1, rows * noisy.shape[1])
    return replace(canaries, low=low, high=high, coins=coins.reshape(shape), noisy=noisy.reshape(shape))
