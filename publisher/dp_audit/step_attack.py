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

There are as many columns as the policy has, but no more than eight, and fewer cells to search them by.

**Transcripts** tell how much each step shows of a neighbouring table. A transcript is the outcomes of a release's
steps, in order, with the statistic that each was drawn from. Played again on a neighbouring table with the same
outcomes, the release shows that table's statistics, and so the exact likelihood ratio of every step given those before
it. That of the whole transcript is their product.

All else that is released must follow from the outcomes: the same outcomes on whatever table, near or far, of as many
rows show the same (`replay`).

The noise of the steps, of sums, lengths and choices, is compared with the law of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from dp_audit.checks import Check, check_guesses, check_signs, make_check, runs_for
from dp_audit.hypothesis_tests import cdf_excess
from dp_audit.neighbouring_tables import all_neighbours, unlike_tables, worst_neighbours
from dp_audit.report import AuditReport
from dp_bundle.base.errors import DpGraphError, PrivacyError
from dp_publish.accounting.conversions import SLACK
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.two_round import NoisySums, TwoRound
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.two_rounds.steps import Choice, NoisyLengths, Step
from dp_publish.sampling.keystream import Keystream, SecureKeystream

_RUNS = 4000
_N_CHECKS = 5
_MOST_COLUMNS, _MOST_CELLS = 8, 1 << 12
_ROWS = 400  # of the tables that are told apart
_Floats: TypeAlias = NDArray[np.float64]
_STEPS = 2.0**28  # of a standard deviation, so fine that they are no grid
_DRAWS = 8000  # of a step whose outcomes in all runs are too few
_OUTCOMES = 32  # of choices by made-up scores


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
    signs = np.array([np.sign(run.noise) for run in seen]).astype(np.int8)
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
    for pair in all_neighbours(mechanism.places, mechanism.max_rows, rng):
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
    return replace(mechanism, scaling=scaling, places=places, most_cells=_MOST_CELLS)


@dataclass(frozen=True, eq=False)
class Turn:
    """One step of a release, as it was played.

    Attributes
    ----------
    step : Step
        With its law.
    statistic
        What its outcome was drawn from; of a made-up table.
    outcome
        What came out.
    """

    step: Step[Any, Any]
    statistic: Any = field(repr=False)
    outcome: Any = field(repr=False)


def record(mechanism: TwoRound, table: _Floats, rng: Keystream) -> list[Turn]:
    """Return the transcript of one release of a table, in data units, with NaN in gaps."""
    turns: list[Turn] = []

    def play(step: Step[Any, Any], statistic: Any) -> Any:
        turns.append(Turn(step, statistic, step.draw(statistic, rng)))
        return turns[-1].outcome

    mechanism.play(lambda add, _: add(iter([table])), play, _Nobody())
    return turns


def replay(mechanism: TwoRound, table: _Floats, turns: list[Turn]) -> tuple[list[Any], NoisyMoments]:
    """Return a table's statistics in a transcript's steps, given its outcomes, and what would be released.

    Raises
    ------
    PrivacyError
        A step on that table is another one, or has other outcomes to choose from, though all outcomes before it were
        the same: the table decides more than statistics.
    """
    statistics: list[Any] = []

    def play(step: Step[Any, Any], statistic: Any) -> Any:
        known = turns[len(statistics)]
        if not is_same(step, known.step) or np.shape(statistic) != np.shape(known.statistic):
            raise PrivacyError(f"the {step.name} step follows from the table itself, not from what was released")
        statistics.append(statistic)
        return known.outcome

    return statistics, mechanism.play(lambda add, _: add(iter([table])), play, _Nobody())


def is_same(one: Any, other: Any) -> bool:
    """Return True if two settings, such as steps, or two releases are one: number by number, array by array."""
    if is_dataclass(one) and type(one) is type(other):
        return all(is_same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    return bool(np.array_equal(one, other))


def judge_turn(turn: Turn, statistic: Any, n_rows: int = 1) -> tuple[float, str]:
    """Return the exact mu of a step on two tables, and what is wrong with it, or nothing.

    Parameters
    ----------
    turn : Turn
        On one table.
    statistic
        That of another one, with so many rows replaced.
    n_rows : int
        A step may move, and lose, as many times as much.
    """
    step = turn.step
    moved, loss = step.moved(turn.statistic, statistic), step.loss(turn.statistic, statistic)
    if moved > n_rows * step.sensitivity:
        by = f"{moved / n_rows:.4g}, above its {step.sensitivity:.4g}"
        return loss, f"a row moves the statistic of the {step.name} by {by}"
    if loss > n_rows * step.mu * SLACK:
        return loss, f"a row is told apart by the {step.name} with mu = {loss / n_rows:.4g}, above its {step.mu:.4g}"
    return loss, ""


def log_ratio(turns: list[Turn], statistics: list[Any]) -> float:
    """Return the logarithm of how much likelier a transcript is by its own table than by another one."""
    return sum(
        turn.step.log_density(turn.outcome, turn.statistic) - turn.step.log_density(turn.outcome, other)
        for turn, other in zip(turns, statistics, strict=True)
    )


class _Nobody:
    """The witness of a release that is not published."""

    def drawing(self) -> None:
        """Do nothing."""

    def clipped(self, n_rows: int, values: Sequence[int] = ()) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class StepNoise:
    """The noise of one transcript, or of many draws of one step.

    Attributes
    ----------
    diagonal, beside : ndarray
        Of the sums, in standard deviations.
    lengths : ndarray
        Of the sum of lengths, in standard deviations.
    choices : ndarray
        Normal numbers that the choices were made by, as far as their outcomes tell.
    surprise : ndarray
        By how much each choice was less probable than was to be expected, as a logarithm.
    surprise_variance : ndarray
        The variance of that.
    n_off_grid : int
        How many entries of the sums are not on their grid.
    """

    diagonal: _Floats
    beside: _Floats
    lengths: _Floats
    choices: _Floats
    surprise: _Floats
    surprise_variance: _Floats
    n_off_grid: int = 0

    @property
    def n_entries(self) -> int:
        """The number of noisy entries of the sums."""
        return len(self.diagonal) + len(self.beside)

    @property
    def noise(self) -> _Floats:
        """All of it in a row."""
        return np.concatenate([self.diagonal, self.beside, self.lengths, self.choices])


def step_noise(turns: Sequence[Turn], rng: np.random.Generator) -> StepNoise:
    """Return the noise of one transcript; `rng` is where a choice's outcome leaves its number open."""
    sums, lengths, choices, n_off_grid = [], [], [], 0
    laws: dict[tuple[int, int], _Floats] = {}  # by step and scores, which many turns may share
    for turn in turns:
        step = turn.step
        if isinstance(step, NoisySums):
            sums.append(_noise_of_sums(step, turn))
            n_off_grid += _off_grid(turn.outcome)
        elif isinstance(step, NoisyLengths):
            lengths.append(float(turn.outcome - step.in_units(turn.statistic)) / step.sigma)
        elif isinstance(step, Choice):
            asked = id(step), id(turn.statistic)
            if asked not in laws:
                laws[asked] = step.mechanism.log_probabilities(turn.statistic)
            choices.append(_noise_of_choice(laws[asked], turn, rng))
    beside = (each[np.triu_indices(len(each), 1)] * math.sqrt(2) for each in sums)
    numbers, surprise, variance = np.array(choices).reshape(-1, 3).T
    return StepNoise(
        np.concatenate([np.empty(0), *(np.diagonal(each)[:-1] for each in sums)]),
        np.concatenate([np.empty(0), *beside]),
        np.array(lengths),
        numbers,
        surprise,
        variance,
        n_off_grid,
    )


def redraw(turns: Sequence[Turn], keystream: Keystream, rng: np.random.Generator) -> dict[str, StepNoise]:
    """Return, by step, the noise of many more draws than a transcript has: of choices, by made-up scores."""
    redrawn = {}
    for turn in turns:
        step, statistic = turn.step, turn.statistic
        if isinstance(step, NoisySums):
            continue
        if isinstance(step, Choice):  # scores so far apart that their law has a spread, whatever its strength
            statistic = np.rint(np.arange(_OUTCOMES) / max(step.mechanism.epsilon, 2.0**-20)).astype(np.int64)
        draws = [Turn(step, statistic, step.draw(statistic, keystream)) for _ in range(_DRAWS)]
        redrawn[step.name] = step_noise(draws, rng)
    return redrawn


def check_step_noise(seen: Sequence[StepNoise], redrawn: Mapping[str, StepNoise], alpha: float) -> Check:
    """Check that noise is distributed as the laws of the steps say, and that choices surprise as they should.

    Parameters
    ----------
    seen : sequence of StepNoise
        That of transcripts.
    redrawn : mapping of str to StepNoise
        That of single steps; see `redraw`.
    alpha : float
        The chance of a false alarm.
    """
    groups = {
        "on the diagonal": np.concatenate([run.diagonal for run in seen]),
        "beside the diagonal": np.concatenate([run.beside for run in seen]),
        "on lengths": np.concatenate([run.lengths for run in [*seen, *redrawn.values()]]),
    }
    faults, worst, share = [], 0.0, alpha / (2 * len(groups) + len(redrawn) + 1)
    for where, found in groups.items():
        total, n = float(found @ found), len(found)
        worst = max(worst, abs(total / n - 1))
        if 2 * min(stats.chi2.cdf(total, n), stats.chi2.sf(total, n)) < share:
            faults.append(f"the noise {where} has {total / n:.4g} times the variance stated")
        elif cdf_excess(np.rint(found * _STEPS), lambda steps: special.ndtr((steps + 0.5) / _STEPS), share) > 1:
            faults.append(f"the noise {where} does not have the distribution stated")

    for name, runs in {"step": seen, **{name: [run] for name, run in redrawn.items()}}.items():
        surprise = sum(float(run.surprise.sum()) for run in runs)
        deviation = math.sqrt(sum(float(run.surprise_variance.sum()) for run in runs))
        if abs(surprise) > float(special.ndtri(1 - share / 2)) * deviation:
            faults.append(f"the {name} is not chosen with the probabilities stated")
    return make_check("noise", faults, f"distributed as stated, variances within {worst:.2%}")


def _noise_of_sums(step: NoisySums, turn: Turn) -> _Floats:
    """Return the noise on every entry, in standard deviations of those on the diagonal."""
    sigma, grid = step.gaussian.sigma_and_grid()
    added: _Floats = turn.outcome.matrix / grid.step - grid.round(turn.statistic.steps).astype(np.float64)
    return added * grid.step / sigma


def _off_grid(released: NoisyMoments) -> int:
    """Return how many entries are not on the grid, without the constant's own, which has no noise."""
    steps = released.matrix[np.triu_indices(len(released.matrix))][:-1] / (released.noise.step or 1.0)
    return int(np.count_nonzero(steps != np.rint(steps)))


def _noise_of_choice(logs: _Floats, turn: Turn, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return a normal number that the choice was made by, its surprise, and the variance of that."""
    chances = np.exp(logs)
    expected = float(chances @ logs)
    variance = float(chances @ logs**2) - expected**2

    order = np.argsort(turn.statistic, kind="stable")
    below = chances[order[: int(np.flatnonzero(order == turn.outcome)[0])]].sum()
    place = below + rng.random() * chances[turn.outcome]
    number = special.ndtri(np.clip(place, 2.0**-53, 1 - 2.0**-53))
    return float(number), expected - float(logs[turn.outcome]), max(variance, 0.0)
