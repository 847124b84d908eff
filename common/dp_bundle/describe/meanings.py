"""Meanings of published columns that were no numbers: sentences for a table, and a phrase for each column."""

import datetime
from collections.abc import Iterable

from dp_bundle.base.quoting import quote_name
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.release import Release
from dp_bundle.manifest.sources import SOURCE_KINDS, Source

_START = datetime.datetime(1970, 1, 1)  # as published: without a zone


def describe_sources(release: Release) -> list[str]:
    """Return a sentence for every column of the raw table that was no number, on what is published for it."""
    by_name = {column.name: column for column in release.columns}
    return [
        f"{quote_name(source.name)} is {_what(source)}{_range(source, by_name[source.columns[0]])}{_beside(source)}."
        for source in release.sources
    ]


def column_meanings(release: Release) -> dict[str, str]:
    """Return a sentence for every published column that stands for something else than its number."""
    by_name = {column.name: column for column in release.columns}
    found: dict[str, str] = {}
    for source in release.sources:
        first = source.columns[0]
        if source.has_level_columns:
            own = zip(source.columns, source.levels, strict=True)
            name = quote_name(source.name)
            found |= {column: f"1 where {name} is {quote_name(level)}, otherwise 0." for column, level in own}
        elif source.kind != "number":
            found[first] = f"Stands for {_what(source)}{_range(source, by_name[first])}."
        if source.has_gap_column:
            found[source.columns[1]] = f"1 where {quote_name(source.name)} had no value, otherwise 0."
    return found


def first_columns(columns: Iterable[Column]) -> dict[str, tuple[Column, int]]:
    """Return the first published column of every column of the raw table, by its name, and how many it has.

    The columns of a category are alike, and need to be described once; not so a number and the indicator of its gaps.
    """
    found: dict[str, tuple[Column, int]] = {}
    for column in columns:
        first, number = found.get(column.source_name, (column, 0))
        if first.missing == "indicator":
            found[column.name] = column, 1
        else:
            found[column.source_name] = first, number + 1
    return found


def _what(source: Source) -> str:
    levels = [quote_name(level) for level in source.levels]
    if source.has_level_columns:
        return f"a category, with a column of 0 and 1 for each of its levels: {', '.join(levels)}{_counted(source)}"
    what = SOURCE_KINDS[source.kind].meaning
    if source.kind == "ordered":
        return f"{what}: {', '.join(levels)}"
    return f"{what}: 0 is {levels[0]}, 1 is {levels[1]}{_counted(source)}" if levels else what


def _range(source: Source, column: Column) -> str:
    """Return the bounds of a date or a time, as people write it; nothing where no calendar has them."""
    if column.bounds is None or source.kind not in ("date", "time"):
        return ""
    days = [bound if source.kind == "date" else bound / 86_400 for bound in column.bounds]
    try:
        low, high = (_START + datetime.timedelta(days=each) for each in days)
    except OverflowError:
        return ""
    spell = datetime.datetime.isoformat if source.kind == "time" else lambda moment: moment.date().isoformat()
    return f", from {spell(low)} to {spell(high)}"


def _beside(source: Source) -> str:
    if not source.has_gap_column:
        return ""
    return f", with a column beside it, {quote_name(source.columns[1])}, that is 1 where there was no value, and else 0"


def _counted(source: Source) -> str:
    other = f"; every value that is not listed counts as {quote_name(source.other)}" if source.other else ""
    gaps = f"; a missing value counts as {quote_name(source.gaps)}" if source.gaps else ""
    return other + gaps
