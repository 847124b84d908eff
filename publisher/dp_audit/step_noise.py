"""The noise of a release of several steps, against the law of each: sums, lengths, and choices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from dp_audit.checks import Check, make_check
from dp_audit.hypothesis_tests import cdf_excess
from dp_audit.transcripts import Turn
from dp_publish.covariance.mechanisms.noisy_sums import NoisySums
from dp_publish.covariance.two_rounds.steps import Choice, NoisyLengths
from dp_publish.sampling.keystream import Keystream

_Floats: TypeAlias = NDArray[np.float64]

_STEPS = 2.0**28  # of a standard deviation, so fine that they are no grid
_DRAWS = 8000  # of a step whose outcomes in all runs are too few
_OUTCOMES = 32  # of choices by made-up scores


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
    def noise(self) -> _Floats:
        """All of it in a row."""
        return np.concatenate([self.diagonal, self.beside, self.lengths, self.choices])


def step_noise(turns: Sequence[Turn], rng: np.random.Generator) -> StepNoise:
    """Return the noise of one transcript; `rng` is where a choice's outcome leaves its number open."""
    sums = [_noise_of_sums(turn.step, turn) for turn in turns if isinstance(turn.step, NoisySums)]
    lengths = [_noise_of_lengths(turn.step, turn) for turn in turns if isinstance(turn.step, NoisyLengths)]
    laws: dict[tuple[int, int], _Floats] = {}  # by step and scores, which many turns may share
    choices = []
    for turn in turns:
        if isinstance(turn.step, Choice):
            asked = id(turn.step), id(turn.statistic)
            if asked not in laws:
                laws[asked] = turn.step.mechanism.log_probabilities(turn.statistic)
            choices.append(_noise_of_choice(laws[asked], turn, rng))
    numbers, surprise, variance = np.array(choices).reshape(-1, 3).T
    return StepNoise(
        diagonal=np.concatenate([on for on, _ in sums] or [np.empty(0)]),
        beside=np.concatenate([beside for _, beside in sums] or [np.empty(0)]),
        lengths=np.array(lengths),
        choices=numbers,
        surprise=surprise,
        surprise_variance=variance,
        n_off_grid=sum(int(np.count_nonzero(_off_grid(turn))) for turn in turns if isinstance(turn.step, NoisySums)),
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


def check_step_grid(seen: Sequence[StepNoise]) -> Check:
    """Check that noisy sums are on their grid."""
    off, n = sum(run.n_off_grid for run in seen), sum(len(run.diagonal) + len(run.beside) for run in seen)
    faults = [f"{off / n:.1%} of the entries are off the grid, as floating-point noise is"] if off else []
    return make_check("grid", faults, f"all {n} noisy entries are on the grid")


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


def _noise_of_sums(step: NoisySums, turn: Turn) -> tuple[_Floats, _Floats]:
    """Return the noise on and off the diagonal, without the constant's own entry, which has none."""
    sigma, grid = step.gaussian.sigma_and_grid()
    added = (turn.outcome.matrix / grid.step - grid.round(turn.statistic.steps).astype(np.float64)) * grid.step / sigma
    return np.diagonal(added)[:-1], added[np.triu_indices(len(added), 1)] * math.sqrt(2)


def _off_grid(turn: Turn) -> NDArray[np.bool_]:
    steps = turn.outcome.matrix[np.triu_indices(len(turn.outcome.matrix))][:-1] / turn.outcome.noise.step
    off: NDArray[np.bool_] = steps != np.rint(steps)
    return off


def _noise_of_lengths(step: NoisyLengths, turn: Turn) -> float:
    return float(turn.outcome - step.in_units(turn.statistic)) / step.sigma


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
