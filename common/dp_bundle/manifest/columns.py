"""One column in the manifest: its bounds, and the noise on every cell; and cells of the raw table.

A cell of the raw table moves published columns. A number moves by the width of its bounds, or by `max_change` where
changes of that size are the unit of privacy. Another level in a category's cell takes 1 from one of its columns and
adds 1 to another: with noise on both, the category moves by the square root of 2, however many levels it has.

A number beside an indicator of its gaps moves by the width w of its bounds, and the indicator not at all; or, as a gap
has the middle of the bounds, by half of w, and the indicator by 1. On a grid of steps of g the middle may be a step
off. With noise of sigma on the number and of s on the indicator, the cell's mu is the larger one of w / sigma and
sqrt(((w / 2 + g) / sigma)^2 + 1 / s^2): an indicator with enough noise costs nothing.

Where noise is discrete, its mu stands in place of a distance over sigma (`Noise.mu_of`): mu is true of every cell, and
what cells of one row add up to by squares is true of the row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.manifest.base import Finite, Model, Name, Positive, Text
from dp_bundle.privacy.discrete_curve import DiscreteLoss
from dp_bundle.privacy.discrete_mu import discrete_gaussian_mu
from dp_bundle.privacy.noise import discrete_gaussian_variance, rounded_gaussian_variance
from dp_bundle.privacy.normal import normal_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FOUND = ("private-histogram", "private-quantiles")
Missing = Literal["refuse", "midpoint", "drop", "indicator"]
_SLACK = 1e-9  # relative: what separately rounded floats may differ by


class Noise(Model):
    """The noise on every cell of one column: independent, centred, of exactly known variance.

    `rounded-gaussian`: the value plus N(0, sigma^2), rounded to a multiple of `granularity` (a power of two).
    `discrete-gaussian`: an integer k with probability proportional to exp(-k^2 / (2 sigma^2)); granularity 1.
    `sigma` and `granularity` are in the column's unit, `variance` in its square.
    """

    distribution: Literal["rounded-gaussian", "discrete-gaussian"]
    sigma: Positive
    granularity: Positive
    variance: Positive

    @classmethod
    def rounded_gaussian(cls, sigma: float, granularity: float) -> Noise:
        """Return Gaussian noise rounded to a grid, with its variance computed."""
        variance = _variance("rounded-gaussian", sigma, granularity)
        return cls(distribution="rounded-gaussian", sigma=sigma, granularity=granularity, variance=variance)

    @classmethod
    def discrete_gaussian(cls, sigma: float) -> Noise:
        """Return discrete Gaussian noise, with its variance computed."""
        variance = _variance("discrete-gaussian", sigma, 1.0)
        return cls(distribution="discrete-gaussian", sigma=sigma, granularity=1.0, variance=variance)

    def mu_of(self, reach: float) -> float:
        """Return the distinguishability of a value that moves so far, alone: the smallest mu of which it is mu-GDP.

        That is the distance over sigma, and more where noise is discrete; whole numbers move by whole steps.
        """
        if self.distribution == "rounded-gaussian" or math.isinf(reach):
            return reach / self.sigma
        return discrete_gaussian_mu(max(1, math.floor(reach)), self.sigma)

    @model_validator(mode="after")
    def _check(self) -> Noise:
        if math.frexp(self.granularity)[0] != 0.5:
            raise ValueError("the granularity is not a power of two")
        if self.distribution == "discrete-gaussian" and self.granularity != 1:
            raise ValueError("discrete Gaussian noise has granularity 1")
        exact = _variance(self.distribution, self.sigma, self.granularity)
        if not math.isclose(self.variance, exact, rel_tol=_SLACK):
            raise ValueError("the stated variance is not that of the stated noise")
        return self


@functools.lru_cache(maxsize=2**12)  # of a category's columns, all have the same
def _variance(distribution: str, sigma: float, granularity: float) -> float:
    if distribution == "discrete-gaussian":
        return discrete_gaussian_variance(sigma)
    return granularity * granularity * rounded_gaussian_variance(sigma / granularity)


class RandomizedResponse(Model):
    """The noise on a cell with so many levels: with probability `replaced`, its level is drawn anew from all of them.

    Published are the levels that came out, as 0 and 1. A cell keeps its level with probability `p_same`, and has any
    certain other one with probability `p_other`: given the raw level x, the indicator of level k has the mean
    p_other + (p_same - p_other) 1[x = k]. `replaced` is a multiple of 2^-32, so that these are exact.

    References
    ----------
    Warner (1965), JASA 60(309); Kairouz, Oh & Viswanath (2016), JMLR 17(17), section 3, for more than two levels.
    """

    distribution: Literal["randomized-response"]
    n_levels: Annotated[int, Field(ge=2)]
    replaced: Annotated[float, Field(gt=0, lt=1)]

    @model_validator(mode="after")
    def _check(self) -> RandomizedResponse:
        if not (self.replaced * 2**32).is_integer():
            raise ValueError("the probability of another level is not a multiple of 2^-32")
        return self

    @property
    def p_other(self) -> float:
        """The probability of a certain other level."""
        return self.replaced / self.n_levels

    @property
    def p_same(self) -> float:
        """The probability of the cell's own level."""
        return 1 - self.replaced + self.p_other

    def share_before(self, seen: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shares of rows with a level, without bias, from those with which it came out."""
        return (seen - self.p_other) / (1 - self.replaced)

    @property
    def mu(self) -> float:
        """The distinguishability of one cell: the smallest mu whose normal trade-off is nowhere above the exact one.

        That has two corners, at (p_other, 1 - p_same) and its mirror image, and is straight between them.
        """
        return normal_quantile(self.p_same) - normal_quantile(self.p_other)

    def mu_of(self, reach: float) -> float:  # noqa: ARG002
        """Return `mu`, however far the level moves: as of a `Noise`."""
        return self.mu

    @property
    def granularity(self) -> float:
        """The grid of what is published: whole numbers."""
        return 1.0

    @property
    def sigma(self) -> float:
        """The standard deviation that it adds."""
        return math.sqrt(self.variance)

    @property
    def variance(self) -> float:
        """The variance that it adds to the unbiased indicator of a level, (y - p_other) / (p_same - p_other).

        It is the mean over all levels, which is the same whichever level the cell has.
        """
        same, other = self.p_same, self.p_other
        varied = same * (1 - same) + (self.n_levels - 1) * other * (1 - other)
        return varied / (self.n_levels * (same - other) ** 2)


class Standard(Model):
    """A center and a scale in data units, by which one round of a covariance release takes a column's values."""

    center: Finite
    scale: Positive


class Scores(Model):
    """Normal scores: what the values of a column were replaced by, by their cells in its histogram."""

    name: Literal["scores"]


class Column(Model):
    """One column: bounds that its values were clipped to before the noise, and the noise on every cell.

    A column of a covariance release has no noise of its own, as it has no cells.

    `bounds` were declared, or found privately, by a noisy histogram or by quantiles, at a cost that is part of the
    guarantee. They are None in two rounds where none were declared.
    `missing` says what became of cells without a value: there were none (`refuse`), they took the middle of the bounds
    (`midpoint`; in two rounds, where there are no bounds, the center of the first standard), their rows were left out
    (`drop`), or they took the middle of the bounds, in two rounds the center of the first standard, and the column
    behind this one is 1 there, and 0 elsewhere (`indicator`).
    `standards` are those of a covariance that was released in two rounds, one for each; the first was declared, or
    found by private quantiles, or is the mean and the deviation by the histogram (`margins`), and the second follows
    from the first round.
    `block` names the raw table's column where several are published for it: one for each level of a category, or a
    number and the indicator of its gaps (see `sources`). `max_change` is how far one person's data can move a cell,
    where that is the unit of privacy.
    `transform` is what the values of a column of two rounds were replaced by, after they were clipped to the `bounds`
    and before all else: the normal scores of their cells in the column's histogram, each the standard normal quantile
    of the share of the cells below and of half its own. The `standards` are then on their scale.
    """

    name: Name
    kind: Literal["continuous", "integer"]
    description: Text = ""
    unit: Text = ""
    bounds: tuple[Finite, Finite] | None
    bounds_obtained: Literal["declared", "private-histogram", "private-quantiles", "none"]
    missing: Missing = "refuse"
    max_change: Positive | None = None
    noise: Annotated[Noise | RandomizedResponse, Field(discriminator="distribution")] | None
    standards: Annotated[tuple[Standard, ...], Field(max_length=2)] = ()
    standard_obtained: Literal["private-quantiles", "declared", "margins"] | None = None
    block: Name | None = None
    transform: Scores | None = None

    @property
    def has_values(self) -> bool:
        """True if it stands as its values, rather than as normal scores of these."""
        return self.transform is None

    @model_validator(mode="after")
    def _check(self) -> Column:
        if self.bounds_obtained not in (("declared", *_FOUND) if self.bounds is not None else ("none",)):
            raise ValueError(f"column {self.name!r} says its bounds were obtained as {self.bounds_obtained}")
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"column {self.name!r} has bounds that are not an interval")
        discrete = self.noise is not None and self.noise.distribution != "rounded-gaussian"
        if (self.kind == "integer") != discrete:
            raise ValueError(f"column {self.name!r} has noise of the other kind")
        if len(self.standards) != (0 if self.standard_obtained is None else 2):
            raise ValueError(f"column {self.name!r} has not one standard for each of two rounds, with their origin")
        if self.transform is not None and not self.standards:
            raise ValueError(f"column {self.name!r} has a transform, which is for two rounds alone")
        # of a level, or of another column's gaps
        is_indicator = self.block is not None and self.missing != "indicator" and self.noise is not None
        if (is_indicator or self.response is not None) and self.bounds != (0.0, 1.0):
            raise ValueError(f"column {self.name!r} indicates a level, and its bounds are not 0 and 1")
        if self.response is not None and self.block is None and self.response.n_levels != 2:
            raise ValueError(f"column {self.name!r} has more levels than its two values")
        if self.max_change is not None and (self.kind != "integer" or self.block is not None or self.bounds is None):
            raise ValueError(f"column {self.name!r} has a max_change, and is no count within bounds")
        return self

    @property
    def source_name(self) -> str:
        """The name of the raw table's column that this one is published for: of a level, that of its category."""
        return self.name if self.block is None else self.block

    @property
    def has_gap_cell(self) -> bool:
        """True if gaps stand at a center that two rounds find, and have a cell of their own in a histogram."""
        return self.missing == "indicator" or (self.missing == "midpoint" and self.bounds is None)

    @property
    def bounds_found(self) -> bool:
        """True if the bounds were found privately, at a cost."""
        return self.bounds_obtained in _FOUND

    @property
    def cell_mu(self) -> float:
        """The distinguishability of this column of one cell, alone; infinite without bounds."""
        return self.mu_of(self.width)

    def mu_of(self, reach: float) -> float:
        """Return the distinguishability of a cell that moves this column so far, by the noise that is added to it."""
        return self.stated_noise.mu_of(reach)

    @property
    def response(self) -> RandomizedResponse | None:
        """The noise, if it is randomised response."""
        return self.noise if isinstance(self.noise, RandomizedResponse) else None

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on a cell, or of what randomised response adds to an unbiased indicator."""
        return self.stated_noise.variance

    @property
    def noise_sigma(self) -> float:
        """The sigma of the noise on a cell, or the standard deviation that randomised response adds."""
        return self.stated_noise.sigma

    @property
    def noise_spread(self) -> float:
        """The standard deviation of the noise on a cell: below sigma where discrete noise is a step or less."""
        return math.sqrt(self.noise_variance)

    @property
    def grid(self) -> float:
        """The power of two that all published values are multiples of, where cells were released."""
        return self.stated_noise.granularity

    @property
    def is_gaussian(self) -> bool:
        """True if manifests state the mu of a cell, and not only its rho: of all noise but the discrete Gaussian."""
        return self.noise is not None and self.noise.distribution != "discrete-gaussian"

    @property
    def stated_noise(self) -> Noise | RandomizedResponse:
        """The noise on every cell, where cells were released."""
        if self.noise is None:
            raise BundleFormatError(f"column {self.name!r} has no noise of its own: this is a covariance release")
        return self.noise

    @property
    def cell_noise(self) -> Noise:
        """The noise that was added to every cell."""
        if isinstance(noise := self.stated_noise, RandomizedResponse):
            raise BundleFormatError(f"nothing is added to column {self.name!r}: its levels are replaced at random")
        return noise

    @property
    def width(self) -> float:
        """The largest distance of two values after clipping, in the column's unit; infinite without bounds."""
        return math.inf if self.bounds is None else self.bounds[1] - self.bounds[0]


def source_names(columns: Iterable[Column]) -> list[str]:
    """Return the names of the raw table's columns that these are published for, each once, in their order."""
    return list(dict.fromkeys(column.source_name for column in columns))


class Cell(NamedTuple):
    """A cell of the raw table.

    Attributes
    ----------
    column : Column
        The published column that it moves most.
    reach : float
        How far it moves that; infinite without bounds.
    n_moved : int
        How many columns it moves so far at once.
    gaps : Column or None
        The indicator of its gaps.
    """

    column: Column
    reach: float
    n_moved: int = 1
    gaps: Column | None = None

    @property
    def mu(self) -> float:
        """The distinguishability of the cell: a mu of which it is mu-GDP, whatever the kind of its noise."""
        alone = math.sqrt(self.n_moved) * self.column.mu_of(self.reach)
        if self.gaps is None:
            return alone
        return max(alone, mu_of_gap(self.reach, self.column.cell_noise, self.gaps.cell_mu))

    @property
    def rho(self) -> float:
        """The rho of the cell: mu^2 / 2, or less of discrete noise, for which (D / sigma)^2 / 2 is exact."""
        if self.column.is_gaussian or self.gaps is not None:
            return 0.5 * self.mu**2
        return 0.5 * self.n_moved * (self.reach / self.column.cell_noise.sigma) ** 2

    @property
    def loss(self) -> DiscreteLoss:
        """The privacy loss of each column that it moves, by discrete noise: a number of steps, and sigma."""
        column = self.column
        if column.bounds is None:
            return DiscreteLoss(math.floor(self.reach), column.cell_noise.sigma)
        steps = math.floor(column.bounds[1]) - math.ceil(column.bounds[0])
        return DiscreteLoss(min(steps, math.floor(self.reach)), column.cell_noise.sigma)


def cells_of(columns: Sequence[Column], unit: str = "cell") -> list[Cell]:
    """Return the cells of one row, and how far a unit of privacy moves each.

    Parameters
    ----------
    columns : sequence of Column
        As they are published.
    unit : str
        "change" where cells move by `max_change` alone, wherever a column has one.
    """
    cells: list[Cell] = []
    for block, group in groupby(columns, key=lambda column: column.block):
        members = [_alone(column, unit) for column in group]
        if block is None:
            cells += members
        elif members[0].column.missing == "indicator":
            cells.append(members[0]._replace(gaps=members[1].column))
        else:
            worst = max(members, key=lambda cell: cell.mu)
            cells.append(worst if worst.column.response is not None else worst._replace(n_moved=2))
    return cells


def mu_of_gap(width: float, noise: Noise, indicator_mu: float) -> float:
    """Return the distinguishability of a value and a gap, of which another column tells.

    Parameters
    ----------
    width : float
        Of the bounds.
    noise : Noise
        On the number.
    indicator_mu : float
        What the indicator's change from 0 to 1 costs alone.
    """
    return math.hypot(noise.mu_of(0.5 * width + noise.granularity), indicator_mu)


def _alone(column: Column, unit: str) -> Cell:
    """Return the cell that moves this column and no other."""
    limit = column.max_change if unit == "change" and column.max_change is not None else math.inf
    return Cell(column, min(column.width, limit))
