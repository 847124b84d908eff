"""The guarantee that a release states, and the total over all releases of its dataset.

Facts that a release does not protect: sentences with fixed beginnings, so that a reader can check for them.

References
----------
Dong, Roth & Su (2022) for mu; Bun & Steinke (2016) for rho.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema, model_validator

from dp_bundle.manifest.base import Model, Name, Positive, Text
from dp_bundle.manifest.columns import Column
from dp_bundle.privacy.neighbours import Neighbours

MAX_RELEASES = 10**9  # of a dataset
_MAX_UNITS = 64  # of privacy, of which a total speaks
_MAX_POINTS = 16  # of a curve
_MAX_FACTS = 100  # in a list
_NEIGHBOURS = {"enum": [each.value for each in Neighbours], "title": "Neighbours", "type": "string"}


class EpsilonDelta(Model):
    """One point of the privacy curve: the release is (epsilon, delta)-differentially private."""

    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(gt=0, lt=1)]


class Guarantee(Model):
    """The guarantee against a reader who knows the bundle, the method, and all data but the protected unit.

    `mu` (Gaussian differential privacy) is given where no noise is discrete Gaussian; `rho` (zero-concentrated) always.
    Neighbouring tables differ in the content of one cell, of one row, or of all rows of one `entity` (a column that is
    not published; rows of an entity beyond `max_rows` were left out), or by one `change`: of one cell, by at most its
    column's `max_change`, or in any way where the column has none. Facts named in `public` are not protected.
    `bounds_mu` is the part of the guarantee that went into finding bounds privately, and `centers_mu` the
    part that went into the columns' means, at which rows with gaps stand.

    `epsilon` is a pure guarantee, and mu and rho are then those that it implies. All of it holds except with the
    probability `excepted_delta`. With add-remove `neighbours` tables differ by one row more or less (or by all rows of
    one entity), and the number of rows is protected as well.
    """

    unit: Literal["cell", "row", "entity", "change"]
    entity: Name | None = None
    max_rows: Annotated[int, Field(ge=1, le=10**9)] | None = None
    neighbours: Annotated[Neighbours, Field(strict=False), WithJsonSchema(_NEIGHBOURS)] = Neighbours.REPLACE_ONE
    bounds_mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    centers_mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
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

    `unit` is this release's unit of privacy ("cell", "row", "change", or "entity:" and its column); `other_units_rho`
    gives rho for every other unit that all releases protect. All of it holds except with the probability
    `excepted_delta`.
    """

    unit: Name
    releases: Annotated[int, Field(ge=1, le=MAX_RELEASES)]
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
