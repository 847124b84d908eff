"""The typed manifest: what a bundle holds, which noise is on it, and what that guarantees.

The manifest is the payload of the bundle's signature: an in-toto Statement whose subjects are all other members with
their SHA-256, and whose predicate is a `Release`. Nothing in it is computed from private values. Reading is strict:
unknown fields, wrong types, or a guarantee that does not follow from the stated bounds and noise are refused.

References
----------
in-toto Attestation Framework, Statement v1. Dong, Roth & Su (2022) for mu; Bun & Steinke (2016) for rho.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from scipy import special

from dp_bundle.errors import BundleFormatError, UnsupportedVersionError
from dp_bundle.noise import discrete_gaussian_variance, rounded_gaussian_variance

__all__ = [
    "FORMAT_VERSION",
    "PREDICATE_TYPE",
    "Ball",
    "Column",
    "Cumulative",
    "Dataset",
    "EpsilonDelta",
    "Guarantee",
    "Lineage",
    "Noise",
    "Release",
    "Statement",
    "Subject",
    "release_mu",
]

FORMAT_VERSION = "1"
STATEMENT_TYPE: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Literal["dpgraph:release/v1"] = "dpgraph:release/v1"
_SLACK = 1e-9  # relative: what separately rounded floats may differ by
_CURVE_SLACK = 1e-5  # the same for delta, where tiny mu cancel most digits

Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(min_length=1, max_length=1_000)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Noise(_Model):
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
        variance = granularity * granularity * rounded_gaussian_variance(sigma / granularity)
        return cls(distribution="rounded-gaussian", sigma=sigma, granularity=granularity, variance=variance)

    @classmethod
    def discrete_gaussian(cls, sigma: float) -> Noise:
        """Return discrete Gaussian noise, with its variance computed."""
        variance = discrete_gaussian_variance(sigma)
        return cls(distribution="discrete-gaussian", sigma=sigma, granularity=1.0, variance=variance)

    @model_validator(mode="after")
    def _check(self) -> Noise:
        if math.frexp(self.granularity)[0] != 0.5:
            raise ValueError("the granularity is not a power of two")
        if self.distribution == "discrete-gaussian":
            if self.granularity != 1:
                raise ValueError("discrete Gaussian noise has granularity 1")
            exact = discrete_gaussian_variance(self.sigma)
        else:
            exact = self.granularity * self.granularity * rounded_gaussian_variance(self.sigma / self.granularity)
        if not math.isclose(self.variance, exact, rel_tol=_SLACK):
            raise ValueError("the stated variance is not that of the stated noise")
        return self


class Ball(_Model):
    """A column's share of the ball that rows were clipped to: sum_j ((x_j - center_j) / scale_j)^2 <= radius^2."""

    center: Finite
    scale: Positive
    radius: Positive


class Column(_Model):
    """One published column: bounds that its values were clipped to before the noise, and the noise.

    `bounds` were declared or found by a private histogram whose cost is part of the guarantee. They are None when rows
    were clipped to a `ball` instead, or not at all, which only a release without a guarantee may do.
    `missing` says what became of cells without a value: there were none (`refuse`), they took the middle of the bounds
    (`midpoint`), or their rows were left out (`drop`).
    """

    name: Name
    kind: Literal["continuous", "integer"]
    description: Text = ""
    unit: Text = ""
    bounds: tuple[Finite, Finite] | None
    bounds_obtained: Literal["declared", "private-histogram", "ball", "none"]
    ball: Ball | None = None
    missing: Literal["refuse", "midpoint", "drop"] = "refuse"
    noise: Noise

    @model_validator(mode="after")
    def _check(self) -> Column:
        limit = "ball" if self.ball is not None else "none"
        obtained = ("declared", "private-histogram") if self.bounds is not None else (limit,)
        if self.bounds_obtained not in obtained or (self.bounds is not None and self.ball is not None):
            raise ValueError(f"column {self.name!r} says its bounds were obtained as {self.bounds_obtained}")
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"column {self.name!r} has bounds that are not an interval")
        if (self.kind == "integer") != (self.noise.distribution == "discrete-gaussian"):
            raise ValueError(f"column {self.name!r} has noise of the other kind")
        return self

    @property
    def cell_mu(self) -> float:
        """The distinguishability of one cell: width over sigma; infinite without bounds."""
        return self.width / self.noise.sigma

    @property
    def width(self) -> float:
        """How far apart two values can be after clipping, in the column's unit; infinite without bounds."""
        if self.ball is not None:
            return 2 * self.ball.radius * self.ball.scale
        return math.inf if self.bounds is None else self.bounds[1] - self.bounds[0]


class EpsilonDelta(_Model):
    """One point of the privacy curve: the release is (epsilon, delta)-differentially private."""

    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(gt=0, lt=1)]


class Guarantee(_Model):
    """What holds against whoever has the bundle, knows the method, and all data but the protected unit.

    `mu` (Gaussian differential privacy) is given where all noise is continuous; `rho` (zero-concentrated) always.
    Neighbouring tables differ in the content of one cell, of one row, or of all rows of one `entity` (a column that is
    not published; an entity has at most `max_rows` rows, others were left out); what `public` names is not protected.
    `bounds_mu` is the part of the guarantee that went into finding bounds by private histograms.
    """

    unit: Literal["cell", "row", "entity"]
    entity: Name | None = None
    max_rows: Annotated[int, Field(ge=1, le=10**9)] | None = None
    neighbours: Literal["replace-one"] = "replace-one"
    bounds_mu: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    mu: Positive | None
    rho: Positive
    epsilon_delta: tuple[EpsilonDelta, ...]
    accountant: Literal["gaussian-dp", "privacy-loss-distribution"]
    public: tuple[Text, ...]


class Cumulative(_Model):
    """The cost of all releases of the dataset so far, this one included; None where one of them states no guarantee.

    `unit` is this release's unit of privacy ("cell", "row", or "entity:" and its column); `other_units_rho` gives rho
    for every other unit that all releases protect.
    """

    unit: Name
    releases: Annotated[int, Field(ge=1)]
    mu: Positive | None
    rho: Positive | None
    other_units_rho: dict[Name, Positive] = {}


class Dataset(_Model):
    """What the publisher says of her data."""

    name: Name
    title: Text = ""
    description: Text = ""
    license: Text = ""
    contact: Text = ""


class Lineage(_Model):
    """Where this release stands among those of its dataset; `previous` is the SHA-256 of the last one's manifest.

    `partition` names the part of the rows that it is about, if the publisher splits them into disjoint parts.
    """

    number: Annotated[int, Field(ge=1)]
    created: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    previous: Digest | None
    partition: Name | None = None


class Release(_Model):
    """The predicate: everything a reader needs to know about the release."""

    format_version: Literal["1"] = "1"
    dataset: Dataset
    lineage: Lineage
    kind: Literal["rows"] = "rows"
    n_rows: Annotated[int, Field(ge=1)]
    columns: Annotated[tuple[Column, ...], Field(min_length=1, max_length=100_000)]
    guarantee: Guarantee | None
    sigma_derived_from_data: bool = False
    conditional_mu: Positive | None = None
    cumulative: Cumulative
    software: Name

    @model_validator(mode="after")
    def _check(self) -> Release:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError("two columns have the same name")
        if self.sigma_derived_from_data and self.guarantee is not None:
            raise ValueError("noise was set from the data itself, which no guarantee covers")
        if not self.sigma_derived_from_data and (self.guarantee is None or self.conditional_mu is not None):
            raise ValueError("the guarantee is missing or conditional without a reason")
        if len({None if column.ball is None else column.ball.radius for column in self.columns}) > 1:
            raise ValueError("rows were clipped to a ball that is not the same for all columns")
        if self.guarantee is not None:
            _check_guarantee(self.guarantee, self.columns)
        _check_cumulative(self.cumulative, self.guarantee)
        return self

    @property
    def noise_variance(self) -> list[float]:
        """The exact noise variance of every column, in the column's unit squared."""
        return [column.noise.variance for column in self.columns]


class Subject(_Model):
    """A member and its digest."""

    name: Name
    digest: Annotated[dict[Literal["sha256"], Digest], Field(min_length=1)]


class Statement(_Model):
    """The signed payload: an in-toto Statement over all other members, with the release as its predicate."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")] = STATEMENT_TYPE
    subject: tuple[Subject, ...]
    predicateType: Literal["dpgraph:release/v1"] = PREDICATE_TYPE  # noqa: N815  in-toto's own spelling
    predicate: Release

    def to_bytes(self) -> bytes:
        """Return the statement as JSON: keys sorted, no spaces."""
        document = self.model_dump(mode="json", by_alias=True)
        return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Statement:
        """Read a statement; the inverse of `to_bytes`. Call it on verified bytes only.

        Raises
        ------
        UnsupportedVersionError
            It is a release in a format version that this software does not know.
        BundleFormatError
            It is not a release, or contradicts itself.
        """
        try:
            version = str(json.loads(content)["predicate"]["format_version"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BundleFormatError("the signed manifest does not describe a release") from error
        if version != FORMAT_VERSION:
            raise UnsupportedVersionError(version, FORMAT_VERSION)
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "release"
            raise BundleFormatError(f"the signed manifest is not sound: {place}: {first['msg']}") from error


def release_mu(unit: str, columns: Sequence[Column], max_rows: int = 1) -> float:
    """Return the mu that bounds and noise give: of the worst cell, of a row, or of an entity's rows together.

    A row's is the root of the sum of squares over columns; where rows are clipped to a ball, it is the worst column's.
    """
    mus = [column.cell_mu for column in columns]
    together = unit != "cell" and columns[0].ball is None
    return math.sqrt(max_rows) * (math.sqrt(math.fsum(mu * mu for mu in mus)) if together else max(mus))


def _check_guarantee(guarantee: Guarantee, columns: tuple[Column, ...]) -> None:
    if (guarantee.unit == "entity") != (guarantee.entity is not None) or (guarantee.entity is None) != (
        guarantee.max_rows is None
    ):
        raise ValueError("an entity is named, with a number of rows, exactly where it is the unit of privacy")
    if (guarantee.bounds_mu > 0) != any(column.bounds_obtained == "private-histogram" for column in columns):
        raise ValueError("the cost of private bounds is stated exactly where there are any")
    mu = math.hypot(release_mu(guarantee.unit, columns, guarantee.max_rows or 1), guarantee.bounds_mu)
    if not 0 < mu < math.inf:
        raise ValueError("the bounds and the noise give no guarantee")
    continuous = all(column.kind == "continuous" for column in columns)
    if (guarantee.mu is not None) != continuous:
        raise ValueError("mu is stated exactly where all columns are continuous")
    if (guarantee.accountant == "gaussian-dp") != continuous:
        raise ValueError("the accountant is not the one for these columns")
    if guarantee.mu is not None and guarantee.mu < mu * (1 - _SLACK):
        raise ValueError("the stated mu is smaller than the bounds and the noise allow")
    if guarantee.rho < 0.5 * mu * mu * (1 - _SLACK):
        raise ValueError("the stated rho is smaller than the bounds and the noise allow")
    points = guarantee.epsilon_delta if continuous else ()
    if any(point.delta < _gaussian_delta(mu, point.epsilon) * (1 - _CURVE_SLACK) for point in points):
        raise ValueError("a stated epsilon is smaller than the bounds and the noise allow")


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of mu-GDP (Balle & Wang 2018, theorem 8), which continuous noise attains."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return float(special.ndtr(-a) - 0.5 * math.exp(-0.5 * a * a) * special.erfcx(b * math.sqrt(0.5)))


def _check_cumulative(total: Cumulative, guarantee: Guarantee | None) -> None:
    if guarantee is None:
        if total.mu is not None or total.rho is not None:
            raise ValueError("a total is stated although this release has no guarantee")
        return
    if total.unit != (guarantee.unit if guarantee.entity is None else f"entity:{guarantee.entity}"):
        raise ValueError("the stated total is about another unit of privacy")
    if total.mu is not None and (guarantee.mu is None or total.mu < guarantee.mu * (1 - _SLACK)):
        raise ValueError("the stated total mu is smaller than this release's own")
    if total.rho is not None and total.rho < guarantee.rho * (1 - _SLACK):
        raise ValueError("the stated total rho is smaller than this release's own")
