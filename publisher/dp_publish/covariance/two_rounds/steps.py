"""The private steps of a release in two rounds: each with its sensitivity and its cost.

A release is a sequence of steps. Which one comes next, and its every setting, follow from the outcomes before it and
from public facts. The table decides only the statistic that a step draws its outcome from. So a release is written
once, for whoever plays it (`Play`). To publish is to draw every outcome. Tests ask what the law of the same outcomes
would be on another table.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from dp_bundle.base.arrays import Integers
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.gaussian import sample_rounded_gaussian
from dp_publish.sampling.keystream import Keystream

_LENGTH_BITS = 20  # of a length to the fourth, unless its noise would be so many times as wide:
_MOST_SIGMA_BITS = 29
_LEAST_SIGMA = 0.05  # of counts, which is as little as whole numbers may be given
_UP = 1 + 2.0**-48  # far above the rounding of the few operations on a sigma

Statistic = TypeVar("Statistic", contravariant=True)
Outcome = TypeVar("Outcome", covariant=True)


class Step(Protocol[Statistic, Outcome]):
    """One step: mu-GDP for one row, given the outcomes before it."""

    @property
    def name(self) -> str:
        """The quantity that it finds."""

    @property
    def mu(self) -> float:
        """The most that it may cost a row."""

    def draw(self, statistic: Statistic, rng: Keystream) -> Outcome:
        """Return an outcome; the statistic is private."""


class Play(Protocol):
    """Whoever has a release before them, and says how each of its steps comes out."""

    def __call__(self, step: Step[Statistic, Outcome], statistic: Statistic) -> Outcome:
        """Return the outcome of a step, which draws from a private statistic."""


@dataclass(frozen=True)
class Choice:
    """A choice by the exponential mechanism; the statistic is the score of every outcome.

    Scores move by at most 1, so the log-ratio of probabilities has a range of at most the mechanism's epsilon
    (`sampling.exponential`). Whatever range it has on two tables costs what an epsilon as large does.
    """

    name: str
    mechanism: ExponentialMechanism

    @property
    def mu(self) -> float:
        """The most that it may cost a row."""
        return self.mechanism.mu

    def draw(self, statistic: Integers, rng: Keystream) -> int:
        """Return the place of the outcome."""
        return self.mechanism.choose(statistic, rng)


@dataclass(frozen=True)
class NoisyCounts:
    """Gaussian noise on counts of rows, by what a value of theirs is like.

    Parameters
    ----------
    name : str
        What is counted.
    mu : float
        What it may cost a row.
    square : float
        The most that replacing a row moves all counts together, squared: by default, it takes 1 from one count and adds
        1 to another.
    """

    name: str
    mu: float
    square: float = 2.0

    @property
    def sensitivity(self) -> float:
        """The most that replacing a row moves all counts together."""
        return math.sqrt(self.square)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise on a count; more than it has to be where mu hides nothing anyway."""
        return max(self.sensitivity / self.mu * _UP, _LEAST_SIGMA)

    def draw(self, statistic: Integers, rng: Keystream) -> Integers:
        """Return the counts with noise, in whole numbers."""
        noise = sample_rounded_gaussian(self.sigma, statistic.size, rng).reshape(statistic.shape)
        noisy: Integers = statistic + noise
        return noisy


@dataclass(frozen=True)
class NoisyLengths:
    """Gaussian noise on the sum of the rows' lengths to the fourth, in units of 2^-bits times that of the radius.

    The units are 2^-20, or larger ones if the noise would otherwise have a standard deviation of more than 2^29 units.

    A length to the fourth is between 0 and 1 of these. So replacing a row moves their sum by at most 1, and cutting the
    sum to whole units by one of these at most.

    Parameters
    ----------
    mu : float
        What it may cost a row.
    most : int
        The length to the fourth of a row at the radius, in the units of the exact sum.
    """

    mu: float
    most: int
    name: ClassVar[str] = "lengths"

    @property
    def bits(self) -> int:
        """The number of bits that a length to the fourth is cut to, by the public mu alone."""
        return min(_LENGTH_BITS, math.floor(_MOST_SIGMA_BITS + math.log2(self.mu)))

    @property
    def sensitivity(self) -> float:
        """One length to the fourth, and one unit for cutting the sum, in units of 2^-bits."""
        return 2.0**self.bits + 1

    @property
    def sigma(self) -> float:
        """The standard deviation, in units of 2^-bits."""
        return self.sensitivity / self.mu * _UP

    def in_units(self, total: int) -> int:
        """Return an exact sum in units of 2^-bits, rounded down."""
        return (total << self.bits) // self.most

    def draw(self, statistic: int, rng: Keystream) -> int:
        """Return the sum with noise, in units of 2^-bits."""
        return self.in_units(statistic) + int(sample_rounded_gaussian(self.sigma, 1, rng)[0])
