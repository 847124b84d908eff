"""Columns of the raw table behind the published ones: levels, truth values, ordered levels, dates and times as numbers.

A `Source` is a column of the raw table that was no number, or had gaps that are published. One of at least three levels
is published as a column for each, which is 1 in rows that have the level and 0 in all others. Everything else is one
column of numbers, with a second one beside it, which is 1 where there was no value, if that is published. Columns of
one source form a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from dp_bundle.manifest.base import Model, Name
from dp_bundle.manifest.columns import Column

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
    their order; of two levels, one column for the second. `boolean`: 1 for the second level and 0 for the first, as a
    category of two. `ordered`: the place of the level among all, from 0. `date`: days since 1970-01-01. `time`: seconds
    since 1970-01-01T00:00:00Z. `time-of-day`: seconds since midnight. `duration`: seconds. `number`: the number. The
    last six may have a second column, and a `number` has one: 1 in rows without a value and 0 elsewhere.

    Values that are none of the levels were counted as `other`, which is one of them, or refused; so were rows without
    a value as `gaps`. Levels are declared: public, and not read off the data.
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
