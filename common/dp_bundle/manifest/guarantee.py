"""The guarantee that a release states, what was found before it, the total of all releases; checks that it follows.

Facts that a release does not protect are sentences with fixed beginnings, so that a reader can check for them. The
guarantee follows from what a reader can see: bounds, radius and noise. A release of rows is the Gaussian mechanism. The
mu of a cell is how far it moves over sigma (see `Cell`). That of a row is the root of the sum of squares. Where noise
is discrete, mu is larger, and (distance / sigma)^2 / 2 is rho. A manifest states rho alone, which is what a reader
holds it to.

What was found of the raw table's columns before all else, privately, where nothing was declared.

**Counts.** The cells of a column of text were counted by their form: a whole number, a date, a word, no value, and so
on. Those of any other column were counted by whether they have a value. Replacing a row moves the counts of a column of
text by sqrt(2) at most, and another column's by 1. All have Gaussian noise, rounded to whole numbers.

**Levels.** The values of a column of words were counted, each by itself, with Gaussian noise on the counts of those
that occur. The values whose noisy count is at least a threshold are its levels. Replacing a row moves the counts of
values that occur either way by sqrt(2) at most in a column. It may also make a value occur, or no longer. Its count is
at most m where a unit of privacy has m rows. Such a value is a level with a probability of at most ``m Phi((m + 1/2 -
T) / sigma)``. Of all columns together, twice that is the `excepted_delta` of the guarantee.

References
----------
Dong, Roth & Su (2022) for mu; Bun & Steinke (2016), proposition 3.3, for rho; Balle & Wang (2018), theorem 8, for the
curve. Kairouz, Oh & Viswanath (2015), The composition theorem for differential privacy. What is (epsilon, delta)-DP is
post-processing of what is epsilon-DP but for an event of probability delta.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema, model_validator

from dp_bundle.manifest.columns import Column, Model, Name, NotNegative, Positive, Probability, Text, cells_of
from dp_bundle.manifest.discrete_mu import DiscreteLoss, least_deltas, likely_worst
from dp_bundle.manifest.noise import Neighbours, gaussian_delta, mu_implied_by_epsilon, normal_tail

_Number = Annotated[int, Field(ge=0)]


class Discovery(Model):
    """What was found privately of columns of which nothing was declared, and by which noise.

    `kinds` are the raw columns whose kind was found, and `levels` those whose categories were, both as far as they are
    published. `n_counted` columns of text were counted by what their cells look like, and `n_gaps` others by whether
    they have a value, with noise of `counts_sigma`. `n_listed` columns were counted by their values, with noise of
    `levels_sigma` and the `threshold`. `n_rows` of the table's were counted.
    """

    kinds: tuple[Name, ...] = ()
    levels: tuple[Name, ...] = ()
    n_rows: Annotated[int, Field(ge=1)]
    n_counted: _Number
    n_gaps: _Number
    counts_sigma: Positive
    n_listed: _Number = 0
    levels_sigma: Positive | None = None
    threshold: Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> Discovery:
        if not self.n_counted + self.n_gaps:
            raise ValueError("something was found privately, and in no column")
        if {self.levels_sigma is None, self.threshold is None} != {self.n_listed == 0}:
            raise ValueError("the noise on counts of levels is stated exactly where there are any")
        if len(self.kinds) > self.n_counted or len(self.levels) > self.n_listed:
            raise ValueError("more columns were found than were counted")
        return self

    def mu(self, max_rows: int) -> float:
        """Return what it cost a unit of privacy of so many rows."""
        counts = math.sqrt(2 * self.n_counted + self.n_gaps) / self.counts_sigma
        levels = 0.0 if self.levels_sigma is None else math.sqrt(2 * self.n_listed) / self.levels_sigma
        return max_rows * math.hypot(counts, levels)

    def excepted_delta(self, max_rows: int) -> float:
        """Return the probability that the guarantee excepts, for a unit of privacy of so many rows."""
        if self.levels_sigma is None or self.threshold is None:
            return 0.0
        each = normal_tail((self.threshold - 0.5 - max_rows) / self.levels_sigma)
        return min(2 * self.n_listed * max_rows * each, 1.0)


Releases = Annotated[int, Field(ge=1, le=10**9)]  # of a dataset: how many, or the number of one
_MAX_UNITS = 64  # of privacy, of which a total speaks
_MAX_POINTS = 16  # of a curve
_MAX_FACTS = 100  # in a list
_NEIGHBOURS = {"enum": [each.value for each in Neighbours], "title": "Neighbours", "type": "string"}


class EpsilonDelta(Model):
    """One point of the privacy curve: the release is (epsilon, delta)-differentially private."""

    epsilon: NotNegative
    delta: Probability


class Guarantee(Model):
    """The guarantee against a reader who knows the bundle, the method, and all data but the protected unit.

    `mu` (Gaussian differential privacy) is given where no noise is discrete Gaussian; `rho` (zero-concentrated) always.
    Neighbouring tables differ in the content of one cell, of one row, or of all rows of one `entity`. The entity's
    column is not published, and rows of an entity beyond `max_rows` were left out. Or tables differ by one `change` of
    one cell, by at most its column's `max_change`, or in any way where the column has none. Facts named in `public` are
    not protected. `bounds_mu` is the part of the guarantee that went into finding bounds privately, and `discovery_mu`
    that which went into what the columns are.

    `epsilon` is a pure guarantee, and mu and rho are then those that it implies. All of it holds except with the
    probability `excepted_delta`. With add-remove `neighbours`, tables differ by one row more or less, or by all rows of
    one entity. The number of rows is protected as well.
    """

    unit: Literal["cell", "row", "entity", "change"]
    entity: Name | None = None
    max_rows: Annotated[int, Field(ge=1, le=10**9)] | None = None
    neighbours: Annotated[Neighbours, Field(strict=False), WithJsonSchema(_NEIGHBOURS)] = Neighbours.REPLACE_ONE
    bounds_mu: NotNegative = 0.0
    discovery_mu: NotNegative = 0.0
    mu: Positive | None
    rho: Positive
    epsilon: Positive | None = None
    excepted_delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    epsilon_delta: Annotated[tuple[EpsilonDelta, ...], Field(max_length=_MAX_POINTS)]
    accountant: Literal["gaussian-dp", "privacy-loss-distribution", "pure-epsilon"]
    public: Annotated[tuple[Text, ...], Field(max_length=_MAX_FACTS)]

    @model_validator(mode="after")
    def _check(self) -> Guarantee:
        if len(set(self.public)) != len(self.public):
            raise ValueError("something is named as public twice")
        return self


class Cumulative(Model):
    """The cost of all releases of the dataset so far, this one included; None where one of them states no guarantee.

    `unit` is this release's unit of privacy ("cell", "row", "change", or "entity:" and its column). `other_units_rho`
    gives rho for every other unit that all releases protect. All of it holds except with the probability
    `excepted_delta`.
    """

    unit: Name
    releases: Releases
    mu: Positive | None
    rho: Positive | None
    other_units_rho: Annotated[dict[Name, Positive], Field(max_length=_MAX_UNITS)] = Field(default_factory=dict)
    excepted_delta: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0


ORDER_PUBLIC = "the number and the order of the rows"  # what a release of rows does not protect
NUMBER_PUBLIC = "the number of the rows"  # the same for a covariance release, unless rows may come and go
TOGETHER_PUBLIC = "which rows belong together"  # where the rows of an entity are protected together, and replaced
PARTITION_PUBLIC = "that the rows are those of "  # and the partition's name
GAPS_PUBLIC = "which rows have no value in "  # and the columns' names, where such rows are left out


def check_public(guarantee: Guarantee, columns: Sequence[Column], partition: str | None) -> None:
    """Refuse, by ValueError, a guarantee that leaves out what it does not protect."""
    replaced = guarantee.neighbours.n_rows_public
    due = {
        ORDER_PUBLIC: columns[0].noise is not None,
        TOGETHER_PUBLIC: replaced and guarantee.entity is not None,
        PARTITION_PUBLIC: partition is not None,
        GAPS_PUBLIC: replaced and any(column.missing == "drop" for column in columns),
    }
    for fact, is_due in due.items():
        if is_due and not any(named.startswith(fact) for named in guarantee.public):
            raise ValueError(f"it is public, and not named as such, {fact.strip()}")


SLACK = 1e-9  # relative: what separately rounded floats may differ by
CURVE_SLACK = 1e-5  # the same for delta, where tiny mu cancel most digits


def release_mu(unit: str, columns: Sequence[Column], max_rows: int = 1) -> float:
    """Return the mu that bounds and noise give: of the worst cell, of a row, or of an entity's rows together.

    A row's is the root of the sum of squares over cells.
    """
    return math.sqrt(max_rows * _of_cells(unit, [cell.mu**2 for cell in cells_of(columns, unit)]))


def release_rho(unit: str, columns: Sequence[Column], max_rows: int = 1) -> float:
    """Return the rho that bounds and noise give: mu^2 / 2, or less where noise is discrete; see `release_mu`."""
    return max_rows * _of_cells(unit, [cell.rho for cell in cells_of(columns, unit)])


def check_rows_guarantee(guarantee: Guarantee, columns: tuple[Column, ...]) -> None:
    """Refuse, by ValueError, a guarantee that the rows' bounds and noise do not give."""
    check_unit(guarantee)
    excepted = guarantee.excepted_delta and not guarantee.discovery_mu
    if not guarantee.neighbours.n_rows_public or guarantee.epsilon is not None or excepted:
        raise ValueError("rows with Gaussian noise are private for replaced rows, and without exceptions")
    if (guarantee.bounds_mu > 0) != any(column.bounds_found for column in columns):
        raise ValueError("the cost of private bounds is stated exactly where there are any")
    _check_changes(guarantee, columns)

    own = math.sqrt(2 * release_rho(guarantee.unit, columns, guarantee.max_rows or 1))  # mu, unless noise is discrete
    mu = math.hypot(own, guarantee.bounds_mu, guarantee.discovery_mu)
    if not 0 < mu < math.inf:
        raise ValueError("the bounds and the noise give no guarantee")

    gaussian = all(column.is_gaussian for column in columns)
    if (guarantee.mu is not None) != gaussian:
        raise ValueError("mu is stated exactly where no noise is discrete Gaussian")
    if guarantee.accountant != ("gaussian-dp" if gaussian else "privacy-loss-distribution"):
        raise ValueError("the accountant is not the one for these columns")
    check_gaussian_strength(guarantee, mu, with_curve=gaussian)
    if not gaussian:
        _check_discrete_curve(guarantee, columns)


def check_unit(guarantee: Guarantee) -> None:
    """Refuse, by ValueError, an entity without a name or a number of rows."""
    if (guarantee.unit == "entity") != (guarantee.entity is not None) or (guarantee.entity is None) != (
        guarantee.max_rows is None
    ):
        raise ValueError("an entity is named, with a number of rows, exactly where it is the unit of privacy")


def check_gaussian_strength(guarantee: Guarantee, mu: float, *, with_curve: bool) -> None:
    """Refuse, by ValueError, a guarantee that is better than the mu that noise leaves."""
    if guarantee.mu is not None and guarantee.mu < mu * (1 - SLACK):
        raise ValueError("the stated mu is smaller than the bounds and the noise allow")
    if guarantee.rho < 0.5 * mu * mu * (1 - SLACK):
        raise ValueError("the stated rho is smaller than the bounds and the noise allow")
    points = guarantee.epsilon_delta if with_curve else ()
    excepted = guarantee.excepted_delta
    if any(point.delta < (gaussian_delta(mu, point.epsilon) + excepted) * (1 - CURVE_SLACK) for point in points):
        raise ValueError("a stated epsilon is smaller than the bounds and the noise allow")


def _check_discrete_curve(guarantee: Guarantee, columns: Sequence[Column]) -> None:
    """Check that no point of the curve is better than what integer columns, and others beside them, leave."""
    epsilons = [point.epsilon for point in guarantee.epsilon_delta]
    rows = guarantee.max_rows or 1
    common = guarantee.bounds_mu
    cells = cells_of(columns, guarantee.unit)
    mus = [cell.mu for cell in cells if cell.column.is_gaussian]
    whole = [cell for cell in cells if not cell.column.is_gaussian]
    if _is_whole(guarantee.unit):
        together = math.hypot(math.sqrt(rows * math.fsum(mu * mu for mu in mus)), common)
        losses: Counter[DiscreteLoss] = Counter()
        for cell in whole:
            losses[cell.loss] += rows * cell.n_moved
        groups = [(dict(losses), together)]
    else:
        # the few cells that lose most
        groups = [
            ({loss: rows * n_moved}, common)
            for n_moved in (1, 2)
            if (kinds := {cell.loss for cell in whole if cell.n_moved == n_moved})
            for loss in likely_worst(kinds)
        ]
        groups += [({}, math.hypot(math.sqrt(rows) * max(mus), common))] if mus else []
    for group in groups:
        least = least_deltas(epsilons, *group)
        if any(
            point.delta < bound * (1 - CURVE_SLACK) for point, bound in zip(guarantee.epsilon_delta, least, strict=True)
        ):
            raise ValueError("a stated epsilon is smaller than the bounds and the noise allow")


def _check_changes(guarantee: Guarantee, columns: Sequence[Column]) -> None:
    """Refuse, by ValueError, changes as the unit of privacy where no column limits them.

    What a change of a limited size does to bounds that are found, and to gaps, nothing here accounts for.
    """
    limited = [column for column in columns if column.max_change is not None]
    if (guarantee.unit == "change") != bool(limited):
        raise ValueError("columns say how far one person changes them exactly where that is the unit of privacy")
    if limited and any(column.bounds_found for column in columns):
        raise ValueError("changes are protected within declared bounds alone")
    if any(column.missing != "refuse" for column in limited):
        raise ValueError("columns whose changes are protected have no gaps")


def _of_cells(unit: str, squares: Sequence[float]) -> float:
    """Return the sum of what cells of a row lose, or the worst cell's where they are not protected together."""
    return math.fsum(squares) if _is_whole(unit) else max(squares)


def _is_whole(unit: str) -> bool:
    """Return True if the columns of a row are protected together."""
    return unit not in ("cell", "change")


def check_pure_epsilon(guarantee: Guarantee, *, excepted: bool) -> None:
    """Refuse, by ValueError, a mu, rho or table that is not that of a pure epsilon, up to the excepted delta."""
    epsilon = guarantee.epsilon
    if guarantee.accountant != "pure-epsilon" or epsilon is None or guarantee.mu is None:
        raise ValueError("this mechanism is accounted for by epsilon")
    if (guarantee.excepted_delta > 0) != excepted:
        raise ValueError("a delta is excepted exactly where the noise is Wishart's, or vectors are on a grid")
    if not math.isclose(guarantee.mu, mu_implied_by_epsilon(epsilon), rel_tol=SLACK):
        raise ValueError("the stated mu is not that which the stated epsilon implies")
    if guarantee.rho < 0.5 * min(epsilon, mu_implied_by_epsilon(epsilon)) ** 2 * (1 - SLACK):
        raise ValueError("the stated rho is smaller than the stated epsilon implies")
    for point in guarantee.epsilon_delta:
        left = 1 / (1 + math.exp(-epsilon)) * -math.expm1(min(0.0, point.epsilon - epsilon))  # (e^E - e^e) / (1 + e^E)
        if point.delta < (guarantee.excepted_delta + (1 - guarantee.excepted_delta) * left) * (1 - CURVE_SLACK):
            raise ValueError("a stated point is better than the stated epsilon implies")
