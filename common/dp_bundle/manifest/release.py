"""The typed manifest: what a bundle holds, which noise is on it, and what that guarantees.

The manifest is a `Release`, the predicate of the `Statement` that the bundle's signature is about. Nothing in it is
computed from private values. Reading is strict: unknown fields, wrong types, or a guarantee that does not follow from
the stated bounds and noise are refused.

The signed payload is an in-toto Statement over all other members, whose predicate is the release.

It has one spelling: JSON with sorted keys and no spaces, every number and text as Python's json writes it, and every
field. So two readers cannot understand it differently, and the manifest's digest stands for what it says. Before it is
checked field by field its size, depth and number of entries are.

References
----------
in-toto Attestation Framework, Statement v1.
"""

from __future__ import annotations

import contextlib
import datetime
import gc
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from dp_bundle.base.errors import BundleFormatError, UnsupportedVersionError
from dp_bundle.base.quoting import counted, escape, quote_name
from dp_bundle.manifest.columns import (
    FORMAT_VERSION,
    Column,
    Digest,
    Model,
    Name,
    Source,
    check_sources,
    source_names,
)
from dp_bundle.manifest.costs import check_total, check_total_in_every_unit
from dp_bundle.manifest.dataset import Dataset
from dp_bundle.manifest.guarantee import (
    NUMBER_PUBLIC,
    ORDER_PUBLIC,
    SLACK,
    Cumulative,
    Discovery,
    Guarantee,
    Releases,
    check_public,
    check_rows_guarantee,
)
from dp_bundle.manifest.matrix_noise import Margins, SecondMoments

MAX_COLUMNS = 20_000
_MOST_ROWS = 2**53  # float64 counts them exactly
COVARIANCE_NAME = "data/covariance.parquet"  # the data member of a covariance release
FIRST_ROUND_NAME = "data/first-round.parquet"  # and, where it was made in two rounds, the matrix of the first
TRANSFORM_NAME = "data/transform.parquet"  # and what rows were multiplied by in the second
MARGINS_NAME = "data/margins.parquet"  # and the histograms, if there are any
CONSTANT_LABEL = "(constant)"  # of the constant coordinate, among the columns' names

_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"


def _require_time(text: str) -> str:
    """Return the time if it exists, as 30 February does not, or raise ValueError."""
    if datetime.datetime.fromisoformat(text).isoformat() != text.replace("Z", "+00:00"):
        raise ValueError("there is no such time")
    return text


class Lineage(Model):
    """The place of this release among those of its dataset; `previous` is the SHA-256 of the last one's manifest.

    `partition` names the part of the rows that it is about, if the publisher splits them into disjoint parts.
    `ledger_head` is the hash of the last line of the publisher's ledger. By it a ledger can be told to hold what it
    held then; it says nothing else.
    """

    number: Releases
    created: Annotated[str, Field(pattern=_TIME), AfterValidator(_require_time)]
    previous: Digest | None
    partition: Name | None = None
    ledger_head: Digest | None = None

    @model_validator(mode="after")
    def _check(self) -> Lineage:
        if self.number == 1 and self.previous is not None:
            raise ValueError("the first release of a dataset has none before it")
        return self


class Release(Model):
    """The predicate: everything a reader needs to know about the release.

    `second_moments` is there exactly if it is a covariance release. Its `n_rows` is the number of rows or, where that
    is protected, an estimate read from the noisy matrix itself.
    """

    format_version: Literal["8"] = FORMAT_VERSION
    dataset: Dataset
    lineage: Lineage
    kind: Literal["rows", "covariance"] = "rows"
    discovery: Discovery | None = None
    n_rows: Annotated[int, Field(ge=1, le=_MOST_ROWS)]
    columns: Annotated[tuple[Column, ...], Field(min_length=1, max_length=MAX_COLUMNS, fail_fast=True)]
    sources: Annotated[tuple[Source, ...], Field(max_length=MAX_COLUMNS, fail_fast=True)] = ()
    second_moments: SecondMoments | None = None
    guarantee: Guarantee
    cumulative: Cumulative
    software: Name

    def __repr__(self) -> str:
        """Return which it is in one line."""
        columns = counted(len(self.columns), "column")
        return f"<Release {self.lineage.number} of {self.dataset.name!r}: {self.kind}, {columns}>"

    @model_validator(mode="after")
    def _check(self) -> Release:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError("two columns have the same name")
        check_sources(self.sources, self.columns)

        if (self.second_moments is not None) != (self.kind == "covariance"):
            raise ValueError("second moments are described exactly in a covariance release")
        if any((column.noise is None) != (self.kind == "covariance") for column in self.columns):
            raise ValueError("columns have noise of their own exactly in a release of rows")

        if any(bool(column.standards) != self._is_two_rounds for column in self.columns):
            raise ValueError("columns have standards exactly in a covariance release of two rounds")

        self._check_discovery()
        if self.second_moments is not None:
            self._check_moments(self.second_moments)
        else:
            check_rows_guarantee(self.guarantee, self.columns)

        check_total(self.cumulative, self.guarantee)
        if self.lineage.number == 1 and self.cumulative.releases != 1:
            raise ValueError("the first release of a dataset is one of several")
        if self.guarantee is not None:
            check_total_in_every_unit(self.cumulative, self.guarantee, self.columns)
            check_public(self.guarantee, self.columns, self.lineage.partition)
        return self

    def _check_discovery(self) -> None:
        found, guarantee = self.discovery, self.guarantee
        stated = guarantee.discovery_mu
        if (found is not None) != (stated > 0):
            raise ValueError("what was found of the columns is stated with its cost, or not at all")
        if found is None:
            return
        rows = guarantee.max_rows or 1
        if guarantee.mu is None or (self.kind == "covariance" and not self._is_two_rounds):
            raise ValueError("something was found of the columns before a release that is not accounted for by mu")
        if stated < found.mu(rows) * (1 - SLACK):
            raise ValueError("what was found of the columns cost more than is stated")
        if guarantee.excepted_delta < found.excepted_delta(rows) * (1 - SLACK) or found.n_rows > self.n_rows:
            raise ValueError("the delta of the levels that were found is larger than is stated, or they have more rows")
        listed = {source.name for source in self.sources if source.levels}
        if not ({*found.kinds} <= {column.source_name for column in self.columns} and {*found.levels} <= listed):
            raise ValueError("kinds or levels were found of columns that are not there")

    @property
    def first_columns(self) -> dict[str, Column]:
        """The first published column of each column of the raw table, by the name of that."""
        return {column.source_name: column for column in reversed(self.columns)}

    @property
    def column_clip(self) -> float | None:
        """By how many scales values may be from their center in the second round; None without one."""
        return None if self.second_moments is None else self.second_moments.column_clip

    def ends_of(self, column: Column) -> tuple[float, float] | None:
        """Return the ends that a column's values were pulled in to; None for scores, and where nothing was."""
        if self.column_clip is None or column.transform is not None:
            return None
        center, away = column.standards[0].center, self.column_clip * column.standards[0].scale
        return center - away, center + away

    def _check_moments(self, moments: SecondMoments) -> None:
        if self._is_two_rounds and len(self.columns) < 2:
            raise ValueError("a release of two rounds has at least two columns")
        allowed = ("declared", "none") if self._is_two_rounds else ("declared",)
        if any(column.bounds_obtained not in allowed for column in self.columns):
            raise ValueError("every column of a covariance release has declared bounds")
        if any(column.name == CONSTANT_LABEL for column in self.columns):
            raise ValueError(f"a column is called {CONSTANT_LABEL}, which stands for the constant")
        limited, limit = moments.first_round or moments, moments.column_clip or 1.0
        if limited.radius > math.sqrt(len(self.columns)) * limit * (1 + SLACK):
            raise ValueError("the radius is larger than any row")
        self._check_margins(moments.margins)
        moments.check_guarantee(self.guarantee, len(self.columns), len(source_names(self.columns)))
        if self.guarantee.neighbours.n_rows_public != (NUMBER_PUBLIC in self.guarantee.public):
            raise ValueError("the number of rows is public exactly where rows are replaced and do not come or go")
        if not self.guarantee.neighbours.n_rows_public and ORDER_PUBLIC in self.guarantee.public:
            raise ValueError("the number of rows is protected, and named as public")

    def _check_margins(self, margins: Margins | None) -> None:
        """Refuse scores and standards that follow from histograms without these, and scores of indicators."""
        if margins is None and any(column.standard_obtained == "margins" for column in self.columns):
            raise ValueError("standards follow from histograms, and there are none")
        scored = {column.name for column in self.columns if column.transform is not None}
        if scored and margins is None:
            raise ValueError("normal scores are stated, and no histograms")
        by_level = {name for source in self.sources if source.has_level_columns for name in source.columns}
        of_gaps = {source.columns[1] for source in self.sources if source.has_gap_column}
        if scored & (by_level | of_gaps):
            raise ValueError("columns of numbers alone have normal scores")

    @property
    def _is_two_rounds(self) -> bool:
        return self.second_moments is not None and self.second_moments.first_round is not None

    @property
    def margins(self) -> Margins | None:
        """The noise on the histograms of the columns; None where there are none."""
        return None if self.second_moments is None else self.second_moments.margins

    @property
    def margin_variance(self) -> float:
        """The variance of the noise on a count; 0 where there is none but that of levels replaced at random."""
        return 0.0 if self.margins is None else self.margins.variance

    @property
    def series(self) -> str:
        """The series in which this release has its number: the dataset, or its partition."""
        partition = self.lineage.partition
        return self.dataset.name if partition is None else f"{self.dataset.name} / {partition}"

    @property
    def noise_variance(self) -> list[float]:
        """The noise variance of every column of a release of rows, in the column's unit squared; see `Column`."""
        return [column.noise_variance for column in self.columns]

    @property
    def labels(self) -> list[str]:
        """The labels of a covariance release's matrix: the columns, and last the constant if there is one."""
        names = [column.name for column in self.columns]
        return [*names, CONSTANT_LABEL] if self.second_moments and self.second_moments.constant else names

    @property
    def matrix_labels(self) -> list[str]:
        """What the rows of `second_moments` stand for: of two rounds columns that are rotated, which have numbers."""
        labels, moments = self.labels, self.second_moments
        if moments is None or moments.first_round is None:
            return labels
        n_columns = len(self.columns)
        return [*(f"rotated {number}" for number in range(1, n_columns + 1)), *labels[n_columns:]]

    def data_names(self, n_parts: int) -> list[str]:
        """Return the names of the data members."""
        if self.kind == "covariance":
            return self.moment_names
        return [f"data/part-{index:05d}.parquet" for index in range(n_parts)]

    @property
    def moment_names(self) -> list[str]:
        """The data members of a covariance release: its matrices, and histograms if it has them."""
        return [*self.matrix_names, *([MARGINS_NAME] if self.margins is not None else [])]

    @property
    def matrix_names(self) -> list[str]:
        """The matrices among the data members of a covariance release."""
        return [COVARIANCE_NAME, *([FIRST_ROUND_NAME, TRANSFORM_NAME] if self._is_two_rounds else [])]


MAX_PAYLOAD = 12 * 2**20  # bytes: 20,000 columns take 10 million
_MAX_SUBJECTS = 65_535
_MAX_MARKS = 700_000  # commas and opening brackets: more than the largest release has
_MAX_ENTRIES = 64  # of an object
_MAX_DEPTH = 8
_PREDICATE_TYPE: Literal["dpgraph:release/v8"] = "dpgraph:release/v8"


class Shape(NamedTuple):
    """The size of a release, as its manifest gives it before that was checked: what work with it takes."""

    kind: str
    n_columns: int


RequireShape = Callable[[Shape], object]  # which refuses, by MemoryLimitError, one that is too large


def shape_of(release: Release) -> Shape:
    """Return the shape of a release."""
    return Shape(release.kind, len(release.columns))


class Subject(Model):
    """A member and its digest."""

    name: Name
    digest: Annotated[dict[Literal["sha256"], Digest], Field(min_length=1)]


class Statement(Model):
    """The signed payload: an in-toto Statement over all other members, with the release as its predicate."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")] = (
        "https://in-toto.io/Statement/v1"
    )
    subject: Annotated[tuple[Subject, ...], Field(max_length=_MAX_SUBJECTS, fail_fast=True)]
    predicateType: Literal["dpgraph:release/v8"] = _PREDICATE_TYPE  # noqa: N815  in-toto's own spelling
    predicate: Release

    @classmethod
    def about(cls, release: Release, subjects: Sequence[Subject]) -> Statement:
        """Return the statement of a release over these members."""
        return cls.model_validate({"subject": tuple(subjects), "predicate": release})

    def to_bytes(self) -> bytes:
        """Return the statement as JSON: keys sorted, no spaces, every field."""
        return _spell(self.model_dump(mode="json", by_alias=True))

    @classmethod
    def from_bytes(cls, content: bytes, require_shape: RequireShape | None = None) -> Statement:
        """Read a statement; the inverse of `to_bytes`. Call it on verified bytes only.

        Parameters
        ----------
        content : bytes
            The JSON.
        require_shape : callable, optional
            Raises an error for a release that is too large to work with, before it is checked field by field.

        Raises
        ------
        UnsupportedVersionError
            It is a release in another format version.
        BundleFormatError
            It is not a release in its one spelling, or contradicts itself.
        """
        with _uncollected():
            return cls._read(content, require_shape)

    @classmethod
    def _read(cls, content: bytes, require_shape: RequireShape | None) -> Statement:
        document = _parse(content)
        try:
            version = str(document["predicate"]["format_version"])
        except (KeyError, TypeError) as error:
            raise BundleFormatError("the signed manifest does not describe a release") from error
        if version != FORMAT_VERSION:
            raise UnsupportedVersionError(quote_name(version), FORMAT_VERSION)
        if require_shape is not None and (shape := _stated_shape(document["predicate"])) is not None:
            require_shape(shape)
        del document  # as large as what it is read to
        try:
            statement = cls.model_validate_json(content)
        except ArithmeticError as error:
            raise BundleFormatError("the signed manifest is not sound: a number is too large to be meant") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(quote_name(str(part)) for part in first["loc"]) or "release"
            raise BundleFormatError(f"the signed manifest is not sound: {place}: {escape(first['msg'])}") from error
        if statement.to_bytes() != content:
            raise BundleFormatError("the signed manifest lacks fields, or spells a number in another way")
        return statement


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the signed payload.

    It is for portals, and for readers in other languages. A payload that fits it may still be refused: it does not say
    that all of a manifest's statements agree.
    """
    draft, own = "https://json-schema.org/draft/2020-12/schema", f"{_PREDICATE_TYPE}/schema"
    return {"$schema": draft, "$id": own, **Statement.model_json_schema(by_alias=True)}


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Turn the garbage collector off while many objects are made, none of them garbage; it would take a third more."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _parse(content: bytes) -> Any:
    """Return the JSON document, of bounded size."""
    marks = content.count(b",") + content.count(b"[") + content.count(b"{")
    if len(content) > MAX_PAYLOAD or marks > _MAX_MARKS:
        raise BundleFormatError("the signed manifest is larger than that of any release")
    try:
        document = json.loads(content, parse_constant=_refuse)
        _require_small(document)
    except (ValueError, RecursionError) as error:
        raise BundleFormatError("the signed manifest is not sound: it is not the JSON of a release") from error
    return document


def _stated_shape(predicate: dict[str, Any]) -> Shape | None:
    """Return the shape that a release states, or None where it is no release, as is said of it later."""
    kind, columns = predicate.get("kind", "rows"), predicate.get("columns")
    return Shape(kind, len(columns)) if isinstance(kind, str) and isinstance(columns, list) else None


def _spell(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _require_small(document: Any) -> None:
    """Refuse, by ValueError, objects with more entries, or deeper ones, than any release has."""
    level: list[Any] = [document] if isinstance(document, dict) else []
    for _ in range(_MAX_DEPTH):
        if any(len(each) > (_MAX_ENTRIES if isinstance(each, dict) else _MAX_SUBJECTS) for each in level):
            raise ValueError("an object or a list has too many entries")
        inside = [each.values() if isinstance(each, dict) else each for each in level]
        level = [one for each in inside for one in each if isinstance(one, (dict, list))]
        if not level:
            return
    raise ValueError("it is too deep")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
