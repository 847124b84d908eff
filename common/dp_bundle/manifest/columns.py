"""One column in the manifest: its bounds, and the noise on every cell; and cells of the raw table.

A cell of the raw table moves published columns. A number moves by the width of its bounds, or by `max_change` where
changes of that size are the unit of privacy. Another level in a category's cell takes 1 from one of its columns and
adds 1 to another. With noise on both, the category moves by the square root of 2, however many levels it has.

A number beside an indicator of its gaps moves by the width w of its bounds, and the indicator not at all. Or, as a gap
has the middle of the bounds, it moves by half of w, and the indicator by 1. On a grid of steps of g the middle may be a
step off. With noise of sigma on the number and of s on the indicator, the cell's mu is the larger one of two. These are
w / sigma and sqrt(((w / 2 + g) / sigma)^2 + 1 / s^2). So an indicator with enough noise costs nothing.

Where noise is discrete, its mu stands in place of a distance over sigma (`Noise.mu_of`). That mu is true of every cell.
What cells of one row add up to by squares is true of the row.

Columns of the raw table behind the published ones: levels, truth values, ordered levels, dates and times as numbers.

A `Source` is a column of the raw table that was no number, or had gaps that are published. One of at least three levels
is published as a column for each. That column is 1 in rows that have the level and 0 in all others. Everything else is
one column of numbers, with a second one beside it, which is 1 where there was no value, if that is published. Columns
of one source form a block.

Building blocks of a manifest: strict, frozen models without unknown fields, and bounded values.

Text is one line without control characters, so that no title or name can pass for a line of its reader's own.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.base.quoting import require_one_line
from dp_bundle.manifest.discrete_mu import DiscreteLoss, discrete_gaussian_mu
from dp_bundle.manifest.noise import discrete_gaussian_variance, normal_quantile, rounded_gaussian_variance

if TYPE_CHECKING:
    from dp_bundle.base.arrays import Floats

Text = Annotated[str, Field(max_length=10_000), AfterValidator(require_one_line)]
Name = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(require_one_line)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(gt=0, lt=1)]


class Model(BaseModel):
    """Base of all entries."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


FORMAT_VERSION: Literal["8"] = "8"
_CODE = re.compile(r"(?P<name>.+) \(code sha256:(?P<digest>[0-9a-f]{64})\)")  # how `software` states the code


def software_with_code(name: str, digest: str) -> str:
    """Return what `software` states of a name with its version, and the digest of the code."""
    return f"{name} (code sha256:{digest})"


def split_software(software: str) -> tuple[str, str | None]:
    """Return the name and version that `software` states, and the digest of the code; the inverse of the above."""
    found = _CODE.fullmatch(software)
    return (found["name"], found["digest"]) if found is not None else (software, None)


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
    certain other one with probability `p_other`. Given the raw level x, the indicator of level k has the mean p_other +
    (p_same - p_other) 1[x = k]. `replaced` is a multiple of 2^-32, so that these are exact.

    References
    ----------
    Warner (1965), JASA 60(309); Kairouz, Oh & Viswanath (2016), JMLR 17(17), section 3, for more than two levels.
    """

    distribution: Literal["randomized-response"]
    n_levels: Annotated[int, Field(ge=2)]
    replaced: Probability

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

    def share_before(self, seen: Floats) -> Floats:
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
    guarantee. They are None in two rounds where none were declared. `missing` says what became of cells without a
    value. There were none (`refuse`), or their rows were left out (`drop`). Or they took the middle of the bounds
    (`midpoint`), in two rounds without bounds the center of the first standard. By `indicator` they took that, too (in
    two rounds always the center), and the column behind this one is 1 there, and 0 elsewhere. `standards` are those of
    a covariance that was released in two rounds, one for each. The first was declared, or found by private quantiles,
    or is the mean and the deviation by the histogram (`margins`). The second follows from the first round. `block`
    names the raw table's column where several are published for it. These are one for each level of a category, or a
    number and the indicator of its gaps (see `sources`). `max_change` is how far one person's data can move a cell,
    where that is the unit of privacy. `transform` is what the values of a column of two rounds were replaced by, after
    they were clipped to the `bounds` and before all else. These are the normal scores of their cells in the column's
    histogram. Each is the standard normal quantile of the share of the cells below and of half its own. The `standards`
    are then on their scale.
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
    def limits(self) -> tuple[float, float]:
        """The bounds, which are infinite where there are none."""
        return self.bounds or (-math.inf, math.inf)

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


MAX_LEVELS = 1_000
NO_VALUE = "(no value)"  # the level of gaps, and the last part of the name of a column that indicates them
SourceKindName: TypeAlias = Literal[
    "boolean", "category", "ordered", "date", "time", "time-of-day", "duration", "number"
]


@dataclass(frozen=True)
class SourceKind:
    """What a kind of source means, how many columns it may have if not one for each level, and of which numbers."""

    meaning: str
    n_columns: tuple[int, ...] = (1, 2)  # the second one indicates gaps
    has_levels: bool = False
    is_whole: bool = False


SOURCE_KINDS: Mapping[str, SourceKind] = {
    "boolean": SourceKind("a truth value", (1,), has_levels=True, is_whole=True),
    "category": SourceKind("a category of two levels", (1,), has_levels=True, is_whole=True),
    "ordered": SourceKind("the place of its level, from 0", has_levels=True, is_whole=True),
    "date": SourceKind("a date, in days since 1970-01-01", is_whole=True),
    "time": SourceKind("a time, in seconds since 1970-01-01T00:00:00Z"),
    "time-of-day": SourceKind("a time of the day, in seconds since midnight"),
    "duration": SourceKind("a duration, in seconds"),
    "number": SourceKind("a number", (2,)),
}


class Source(Model):
    """A column of the raw table, and what its published `columns` hold.

    `category`: each column is 1 in rows that have its level and 0 elsewhere, one column for each of the `levels`, in
    their order. Of two levels there is one column, for the second. `boolean`: 1 for the second level and 0 for the
    first, as a category of two. `ordered`: the place of the level among all, from 0. `date`: days since 1970-01-01.
    `time`: seconds since 1970-01-01T00:00:00Z. `time-of-day`: seconds since midnight. `duration`: seconds. `number`:
    the number. The last six may have a second column, and a `number` has one: 1 in rows without a value and 0
    elsewhere.

    Values that are none of the levels were counted as `other`, which is one of them, or refused. So were rows without a
    value as `gaps`. Levels are declared: public, and not read off the data.
    """

    name: Name
    kind: SourceKindName
    columns: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_LEVELS)]
    levels: Annotated[tuple[Name, ...], Field(max_length=MAX_LEVELS)] = ()
    other: Name | None = None
    gaps: Name | None = None

    @model_validator(mode="after")
    def _check(self) -> Source:
        if len(set(self.levels)) != len(self.levels):
            raise ValueError(f"column {self.name!r} has a level twice")
        has_levels = SOURCE_KINDS[self.kind].has_levels
        if (len(self.levels) >= 2) != has_levels or (self.kind == "boolean" and len(self.levels) != 2):
            raise ValueError(f"column {self.name!r} has not the levels of its kind")
        if not {self.other, self.gaps} - {None} <= set(self.levels):
            raise ValueError(f"column {self.name!r} counts values as a level that is none")
        numbers = (len(self.levels),) if self.has_level_columns else SOURCE_KINDS[self.kind].n_columns
        if len(self.columns) not in numbers:
            raise ValueError(f"column {self.name!r} is not published as one column for each level")
        return self

    @property
    def has_level_columns(self) -> bool:
        """True if there is a column for each level."""
        return self.kind == "category" and len(self.levels) > 2

    @property
    def has_gap_column(self) -> bool:
        """True if the second of two columns says where there was no value."""
        return not self.has_level_columns and len(self.columns) == 2

    @property
    def is_block(self) -> bool:
        """True if there are several columns."""
        return len(self.columns) > 1

    @property
    def is_whole(self) -> bool:
        """True if what is published are integers, as long as the release does not ask for other numbers."""
        return SOURCE_KINDS[self.kind].is_whole


def check_sources(sources: Sequence[Source], columns: Sequence[Column]) -> None:
    """Refuse, by ValueError, sources that are not those of the columns, or a block that is none."""
    if len({source.name for source in sources}) != len(sources):
        raise ValueError("two sources have the same name")
    stated = [(source.name if source.is_block else None, name) for source in sources for name in source.columns]
    if len({name for _, name in stated}) != len(stated):
        raise ValueError("a column has two sources")
    by_name = {column.name: column for column in columns}
    if any(name not in by_name or by_name[name].block != block for block, name in stated):
        raise ValueError("a source is published as columns that are not there, or are not its block")
    blocks = [(name, list(group)) for name, group in groupby(columns, key=lambda column: column.block) if name]
    if {name: [column.name for column in group] for name, group in blocks} != {
        source.name: list(source.columns) for source in sources if source.is_block
    } or len(blocks) != len(dict(blocks)):
        raise ValueError("the columns of a block do not stand together, or have no source")
    with_gaps = {source.name for source in sources if source.has_gap_column}
    for name, group in blocks:
        if name in with_gaps:
            if [column.missing for column in group] != ["indicator", "refuse"]:
                raise ValueError(f"the columns of {name!r} are not a number and the indicator of its gaps")
            if any(column.kind != "continuous" for column in group):
                raise ValueError(f"a number and the indicator of its gaps, of {name!r}, have no rounded Gaussian noise")
            continue
        if any(_shared(column) != _shared(group[0]) for column in group):
            raise ValueError(f"the columns of {name!r} are not all alike")
        if group[0].response is not None and group[0].response.n_levels != len(group):
            raise ValueError(f"the levels of {name!r} are replaced by those of a list of another length")
    indicated = [column for column in columns if column.missing == "indicator"]
    if any(column.block not in with_gaps for column in indicated):
        raise ValueError("gaps are indicated by a column that is not there")


def _shared(column: Column) -> Column:
    """Return what all columns of a category have in common: in rows everything but their names."""
    own = {"name": "", "standards": (), "standard_obtained": None}
    return column.model_copy(update=own)
