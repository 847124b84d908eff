"""The noise of a release's steps, of sums, lengths, counts and choices, compared with the law of each."""

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
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.two_round import NoisySums
from dp_publish.covariance.two_rounds.steps import Choice, NoisyCounts, NoisyLengths
from dp_publish.sampling.keystream import Keystream

_Floats: TypeAlias = NDArray[np.float64]
_STEPS = 2.0**28  # of a standard deviation, so fine that they are no grid
_DRAWS = 8000  # of a step whose outcomes in all runs are too few
_OUTCOMES = 32  # of choices by made-up scores
_LEAST = 2.0**-53


@dataclass(frozen=True)
class StepNoise:
    """The noise of one transcript, or of many draws of one step.

    Attributes
    ----------
    diagonal, beside : ndarray
        Of the sums, in standard deviations.
    lengths : ndarray
        Of the sum of lengths, in standard deviations.
    counts : ndarray
        Normal numbers that the noise on counts was rounded from, as far as it tells.
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
    counts: _Floats
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
        """All of it in a row, but for counts, of which each run has another number."""
        return np.concatenate([self.diagonal, self.beside, self.lengths, self.choices])


def step_noise(turns: Sequence[Turn], rng: np.random.Generator) -> StepNoise:
    """Return the noise of one transcript; `rng` is where an outcome leaves its number open."""
    sums, lengths, counts, choices, n_off_grid = [], [], [np.empty(0)], [], 0
    laws: dict[tuple[int, int], _Floats] = {}  # by step and scores, which many turns may share
    for turn in turns:
        step = turn.step
        if isinstance(step, NoisySums):
            sums.append(_noise_of_sums(step, turn))
            n_off_grid += _off_grid(turn.outcome)
        elif isinstance(step, NoisyLengths):
            lengths.append(float(turn.outcome - step.in_units(turn.statistic)) / step.sigma)
        elif isinstance(step, NoisyCounts):
            counts.append(noise_of_counts(turn.outcome - turn.statistic, step.sigma, rng))
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
        np.concatenate(counts),
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
        if isinstance(step, NoisySums | NoisyCounts):
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
        "on counts": np.concatenate([run.counts for run in seen]),
    }
    groups = {where: found for where, found in groups.items() if len(found)}
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


def noise_of_counts(noise: NDArray[np.int64], sigma: float, rng: np.random.Generator) -> _Floats:
    """Return normal numbers that were rounded to this noise, each drawn from all that are."""
    low, high = special.ndtr((noise - 0.5) / sigma), special.ndtr((noise + 0.5) / sigma)
    found: _Floats = special.ndtri(np.clip(low + rng.random(noise.shape) * (high - low), _LEAST, 1 - _LEAST))
    return found


def _noise_of_sums(step: NoisySums, turn: Turn) -> _Floats:
    """Return the noise on every entry, in standard deviations of those on the diagonal."""
    sigma, grid = step.gaussian.sigma_and_grid()
    added: _Floats = turn.outcome.matrix / grid.step - grid.round(turn.statistic.steps).astype(np.float64)
    return added * grid.step / sigma


def _off_grid(released: NoisyMoments) -> int:
    """Return how many entries are not on the grid, without the constant's own, which has no noise."""
    steps = released.matrix[np.triu_indices(len(released.matrix))][:-1] / released.noise.granularity
    return int(np.count_nonzero(steps != np.rint(steps)))


def _noise_of_choice(logs: _Floats, turn: Turn, rng: np.random.Generator) -> tuple[float, float, float]:
    """Return a normal number that the choice was made by, its surprise, and the variance of that."""
    chances = np.exp(logs)
    expected = float(chances @ logs)
    variance = float(chances @ logs**2) - expected**2

    order = np.argsort(turn.statistic, kind="stable")
    below = chances[order[: int(np.flatnonzero(order == turn.outcome)[0])]].sum()
    place = below + rng.random() * chances[turn.outcome]
    number = special.ndtri(np.clip(place, _LEAST, 1 - _LEAST))
    return float(number), expected - float(logs[turn.outcome]), max(variance, 0.0)
