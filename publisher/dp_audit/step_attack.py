"""A release of several private steps attacked by its transcripts, where the likelihood ratio of each step is known.

Every run is a release of its own: a coin decides which of two neighbouring tables goes through all steps, and the
attacker, who knows both, guesses the coin by the exact likelihood ratio of all that came out. No attack is better, as
Neyman and Pearson showed. Whatever is mu-GDP lets nobody guess more often than Phi(mu / 2). The checks:

- attack: the bound on mu that the guesses prove (Clopper & Pearson's) does not exceed what is stated.
- bounds: on all made-up neighbours (`neighbouring_tables`), given the same earlier outcomes, no row moves a step's
  statistic by more than the sensitivity of the step, and no step's exact law tells the tables apart with more than its
  mu; and all mus together come to no more than is stated. Which step is next, its settings, and all that is released
  depend on outcomes alone: with the same ones they are the same for tables that have nothing in common.
- grid: noisy sums are on their grid.
- noise: in all runs, noise is distributed as the law of its step says, and choices are as improbable as they should be.
- independence: signs of noise, and of choices, are uncorrelated among steps, entries and runs.

There are as many columns as the policy has, but no more than eight, and fewer cells to search them by. What is counted
in histograms is so for these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dp_audit.checks import Check, check_guesses, check_signs, make_check, runs_for
from dp_audit.neighbouring_tables import all_neighbours, in_other_cells, unlike_tables, worst_neighbours
from dp_audit.report import AuditReport
from dp_audit.step_noise import check_step_noise, redraw, step_noise
from dp_audit.transcripts import Turn, is_same, judge_turn, log_ratio, record, replay
from dp_bundle.base.errors import DpGraphError
from dp_publish.accounting.conversions import SLACK
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.two_rounds.margins import RawColumn
from dp_publish.sampling.keystream import Keystream, SecureKeystream

_RUNS = 4000
_N_CHECKS = 5
_MOST_COLUMNS, _MOST_CELLS = 8, 1 << 12
_ROWS = 400  # of the tables that are told apart
_MOST_COUNTS = 64  # of which signs are compared among runs


def attack_steps(
    mechanism: TwoRound,
    *,
    n_runs: int | None = None,
    confidence: float = 0.9999,
    new_keystream: Callable[[], Keystream] = SecureKeystream,
    rng: np.random.Generator | None = None,
) -> AuditReport:
    """Attack a mechanism of several steps, and test each.

    Parameters
    ----------
    mechanism : TwoRound
        As a policy sets it. Of an entity, one row is attacked.
    n_runs : int, optional
        How many releases are attacked, from 1000 to 2^20.
    confidence : float
        The chance that a sound mechanism passes every check, and that the lower bound holds.
    new_keystream : callable
        Where the mechanism's random bits come from; each half of the runs gets a stream of its own.
    rng : numpy.random.Generator, optional
        The auditor's own coins; unpredictable by default.

    Raises
    ------
    ParameterError
        `n_runs` is outside its range.
    """
    n = runs_for(n_runs, _RUNS)
    rng = np.random.default_rng() if rng is None else rng
    alpha, stated_mu, small = (1 - confidence) / _N_CHECKS, mechanism.spends(1).mu, _small(mechanism)

    # coins guessed by likelihood ratios
    pair = worst_neighbours(small.places, _ROWS)
    coins, keystream = rng.integers(0, 2, n).astype(np.bool_), new_keystream()
    correct, seen = 0, []
    for run, coin in enumerate(coins):
        keystream = new_keystream() if run == n // 2 else keystream
        own, other = (pair.other, pair.one) if coin else (pair.one, pair.other)
        turns = record(small, own, keystream)
        correct += _is_guessed(small, other, turns)
        seen.append(step_noise(turns, rng))
    mu_lower, attack = check_guesses(correct, n, stated_mu, alpha)

    off, n_entries = (sum(counts) for counts in zip(*((run.n_off_grid, run.n_entries) for run in seen), strict=True))
    faults = [f"{off / n_entries:.1%} of the entries are off the grid, as floating-point noise is"] if off else []
    n_counts = min(_MOST_COUNTS, *(len(run.counts) for run in seen))
    signs = np.array([np.sign([*run.noise, *run.counts[:n_counts]]) for run in seen]).astype(np.int8)
    checks = (
        attack,
        check_steps(small, keystream, rng),
        make_check("grid", faults, f"all {n_entries} noisy entries are on the grid"),
        check_step_noise(seen, redraw(turns, keystream, rng), alpha),
        check_signs([signs[: n // 2], signs[n // 2 :]], alpha),
    )
    return AuditReport("row", stated_mu, mu_lower, confidence, n, checks, mechanism.name, max_rows=mechanism.max_rows)


def check_steps(mechanism: TwoRound, keystream: Keystream, rng: np.random.Generator) -> Check:
    """Check on all made-up neighbours what every step may move and lose, and what all of them lose together."""
    stated, worst, faults = mechanism.spends(1).mu, 0.0, []
    neighbours = [*all_neighbours(mechanism.places, mechanism.max_rows, rng)]
    if mechanism.columns:
        blocks = [column.places for column in mechanism.columns if column.has_level_columns]
        neighbours += in_other_cells(mechanism.places, blocks, mechanism.max_rows, rng)
    for pair in neighbours:
        for one, other in ((pair.one, pair.other), (pair.other, pair.one)):
            try:
                turns = record(mechanism, one, keystream)
                statistics, _ = replay(mechanism, other, turns)
            except DpGraphError as error:
                faults.append(f"of {pair.name}, {error}")
                continue

            judged = [judge_turn(*both, pair.n_replaced) for both in zip(turns, statistics, strict=True)]
            faults += [f"with {pair.name}, {fault}" for _, fault in judged if fault]
            together = math.hypot(*(turn.step.mu for turn in turns))
            if together > stated * SLACK:
                faults.append(f"the steps come to mu = {together:.6g}, above the {stated:.6g} stated")
            worst = max(worst, math.hypot(*(loss for loss, _ in judged)) / pair.n_replaced)
    faults += _depends_on_tables(mechanism, keystream, rng)
    detail = f"no step moves or loses more than it may; at worst, all lose {worst / stated:.1%} of the mu stated"
    return make_check("bounds", list(dict.fromkeys(faults)), detail)


def _is_guessed(mechanism: TwoRound, other: NDArray[np.float64], turns: list[Turn]) -> bool:
    """Return True if a transcript is likelier by its own table, or if on the other one it could not have been."""
    try:
        return log_ratio(turns, replay(mechanism, other, turns)[0]) > 0
    except DpGraphError:
        return True


def _depends_on_tables(mechanism: TwoRound, keystream: Keystream, rng: np.random.Generator) -> list[str]:
    """Return what follows from a table and not from the outcomes: each is played again on tables unlike its own."""
    tables, faults = unlike_tables(mechanism.places, rng), []
    for own, *others in (tables, tables[::-1]):
        turns = record(mechanism, own, keystream)
        try:
            _, shown = replay(mechanism, own, turns)
            if not all(is_same(replay(mechanism, other, turns)[1], shown) for other in others):
                faults.append("what is released follows from the table itself, not from the outcomes of the steps")
        except DpGraphError as error:
            faults.append(f"of tables unlike each other, {error}")
    return faults


def _small(mechanism: TwoRound) -> TwoRound:
    places = mechanism.places[:_MOST_COLUMNS]
    scaling = scaling_for([(place.low, place.high) for place in places])
    columns = tuple(_few_places(mechanism.columns))
    return replace(mechanism, scaling=scaling, places=places, most_cells=_MOST_CELLS, columns=columns)


def _few_places(columns: Sequence[RawColumn]) -> Iterator[RawColumn]:
    """Yield what is counted of the first few columns: of a category fewer levels, of one column of it a number."""
    for column in columns:
        places = tuple(place for place in column.places if place < _MOST_COLUMNS)
        if places == column.places:
            yield column
        elif places:
            labels = column.labels[: len(places)] if len(places) > 1 else ()
            yield replace(column, places=places, labels=labels, has_gap_column=False)
