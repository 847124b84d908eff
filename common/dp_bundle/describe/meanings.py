"""What published columns stand for that were no numbers: sentences for a table, and a phrase for each column."""

from __future__ import annotations

from dp_bundle.manifest import Release, Source
from dp_bundle.quoting import quote_name

_NUMBERS = {
    "date": "a date, in days since 1970-01-01",
    "time": "a time, in seconds since 1970-01-01T00:00:00Z",
    "time-of-day": "a time of the day, in seconds since midnight",
    "duration": "a duration, in seconds",
}


def describe_sources(release: Release) -> list[str]:
    """Return a sentence for every column of the raw table that was no number, on what is published for it."""
    return [f"{quote_name(source.name)} is {_what(source)}." for source in release.sources]


def column_meanings(release: Release) -> dict[str, str]:
    """Return a sentence for every published column that stands for something else than its number."""
    found: dict[str, str] = {}
    for source in release.sources:
        if source.is_block:
            own = zip(source.columns, source.levels, strict=True)
            name = quote_name(source.name)
            found |= {column: f"1 where {name} is {quote_name(level)}, otherwise 0." for column, level in own}
        else:
            found[source.columns[0]] = f"Stands for {_what(source)}."
    return found


def _what(source: Source) -> str:
    levels = [quote_name(level) for level in source.levels]
    if source.is_block:
        return f"a category, with a column of 0 and 1 for each of its levels: {', '.join(levels)}{_counted(source)}"
    if source.kind == "ordered":
        return f"the place of its level, from 0: {', '.join(levels)}"
    if source.levels:
        return f"a truth value or one of two levels: 0 is {levels[0]}, 1 is {levels[1]}{_counted(source)}"
    return _NUMBERS[source.kind]


def _counted(source: Source) -> str:
    other = f"; every value that is not listed counts as {quote_name(source.other)}" if source.other else ""
    gaps = f"; a missing value counts as {quote_name(source.gaps)}" if source.gaps else ""
    return other + gaps
