"""Kinds of columns: what a policy may call a column, what it is read from, and how its cells become numbers.

A kind is one line of `KINDS`, with what only it needs above; everything else asks that line. What a manifest says of it
is in `dp_bundle.manifest.columns`.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import pyarrow as pa

from dp_bundle.manifest.columns import Source
from dp_publish.data.dates import days, seconds

KindName: TypeAlias = Literal["continuous", "integer", "boolean", "category", "ordered", "date", "time", "duration"]
Kinds: TypeAlias = dict[str, str]  # columns by name, and what each is read as
AS_IT_IS = "raw"  # what a column is read as that keeps its own type until it is coded
TYPES = {"continuous": pa.float64(), "integer": pa.int64(), "text": pa.string()}  # what any other is read as


class WrittenSource(Source):
    """A source, and the format of its dates or times in text; none where they are as ISO 8601 has them.

    How the raw table is written is no reader's business: a manifest has what `published` returns.
    """

    format: str = ""


def format_of(source: Source) -> str:
    """Return the format of a source's dates or times in text, or nothing."""
    return source.format if isinstance(source, WrittenSource) else ""


def published(source: Source) -> Source:
    """Return what a manifest says of a source."""
    return Source(**source.model_dump(include={*Source.model_fields}))


class ColumnType(enum.Enum):
    """A column's declared type, as far as it matters here.

    `TIME` is a moment, `TIME_OF_DAY` has no date, and `NESTED` are lists, structures and maps. `OBJECT` is a column
    whose cells may be of any type each, of a data frame or of text that the policy says are numbers. `UNKNOWN` is one
    of a text file.
    """

    CONTINUOUS = "continuous"
    INTEGER = "integer"
    TEXT = "text"
    DATE = "date"
    TIME = "time"
    TIME_OF_DAY = "time-of-day"
    DURATION = "duration"
    NESTED = "nested"
    OTHER = "other"
    OBJECT = "object"
    UNKNOWN = "unknown"

    @property
    def may_be_numbers(self) -> bool:
        """True if a column is published as it is: unless it is text that is no numbers, which a text file hides."""
        return self in (ColumnType.CONTINUOUS, ColumnType.INTEGER, ColumnType.OBJECT, ColumnType.UNKNOWN)


@dataclass(frozen=True)
class Kind:
    """What a column holds.

    Attributes
    ----------
    name : str
        As policies, or manifests, have it.
    said_as : str
        What a policy calls it, if that is the name of another kind too.
    read_from : tuple of ColumnType
        The declared types of columns that it makes numbers of; none of what are numbers already.
    is_whole : bool
        Whether bounds are whole numbers.
    levels : {"categories", "levels"} or None
        The entry of a policy that lists the values.
    has_order : bool
        Whether the list begins with the lowest: then there is a middle, and no level for values beside the list.
    is_truth : bool
        Whether there are two values, no and yes, if a list is given at all.
    stored_as : DataType or None
        The type whose values these numbers are.
    encode : callable or None
        Returns the numbers that are published for an array: of text, or of the types that it is read from.
    unit, looks, hint : str
        The unit of these numbers; what a value looks like, for messages; a line of a new policy about bounds.
    bounds : tuple of type
        Of which bounds in a policy may be, besides numbers.
    """

    name: str
    said_as: str = ""
    read_from: tuple[ColumnType, ...] = ()
    is_whole: bool = False
    levels: Literal["categories", "levels"] | None = None
    has_order: bool = False
    is_truth: bool = False
    stored_as: pa.DataType | None = None
    encode: Callable[[pa.Array], pa.Array] | None = None
    unit: str = ""
    looks: str = ""
    hint: str = ""
    bounds: tuple[type, ...] = ()

    @property
    def is_nominal(self) -> bool:
        """True if a value is one of several that are no numbers, so that another one may be published in its place."""
        return self.levels is not None and (self.is_truth or not self.has_order)

    @property
    def source(self) -> str:
        """What manifests call it: one of numbers that something is published beside."""
        return self.name if self.read_from else "number"

    def of_type(self, declared: ColumnType) -> Kind:
        """Return what a policy means by this kind in a column of that type."""
        return next((each for each in KINDS.values() if each.said_as == self.name and declared in each.read_from), self)


OF_TEXT = (ColumnType.TEXT, ColumnType.OBJECT, ColumnType.UNKNOWN)
_WORDS = (*OF_TEXT, ColumnType.INTEGER, ColumnType.CONTINUOUS)
_LASTING = pa.duration("us")

KINDS = {
    kind.name: kind
    for kind in (
        Kind("continuous"),
        Kind("number", said_as="continuous"),
        Kind("integer", is_whole=True),
        Kind("boolean", read_from=_WORDS, is_whole=True, levels="levels", has_order=True, is_truth=True),
        Kind("category", read_from=_WORDS, levels="categories"),
        Kind("ordered", read_from=_WORDS, levels="levels", has_order=True),
        Kind(
            "date",
            read_from=(*OF_TEXT, ColumnType.DATE, ColumnType.TIME),
            stored_as=pa.date32(),
            encode=days,
            unit="days since 1970-01-01",
            looks="date, like 2026-01-31",
            hint="bounds = [2020-01-01, 2029-12-31]   # published as days since 1970-01-01",
            bounds=(datetime.date,),
        ),
        Kind(
            "time",
            read_from=(*OF_TEXT, ColumnType.TIME),
            stored_as=pa.timestamp("us", "UTC"),
            encode=seconds,
            unit="seconds since 1970-01-01T00:00:00Z",
            looks="time, like 2026-01-31 12:30:00",
            hint="bounds = [2020-01-01T00:00:00Z, 2029-12-31T23:59:59Z]   # published as seconds since 1970",
            bounds=(datetime.datetime, datetime.time),
        ),
        Kind(
            "time-of-day",
            said_as="time",
            read_from=(ColumnType.TIME_OF_DAY,),
            stored_as=pa.time64("us"),
            encode=seconds,
            unit="seconds since midnight",
            looks="time of the day, like 12:30:00",
            hint="bounds = [00:00:00, 23:59:59]   # published as seconds since midnight",
        ),
        Kind(
            "duration",
            read_from=(ColumnType.DURATION,),
            stored_as=_LASTING,
            encode=seconds,
            unit="seconds",
            looks="duration",
            hint="bounds = [low, high]   # in seconds",
        ),
    )
}


def stored_kind(declared: ColumnType) -> str | None:
    """Return what a policy calls a column of dates, times or durations by its type; None of any other."""
    kind = KINDS.get(declared.value)
    return None if kind is None or kind.stored_as is None else kind.said_as or kind.name
