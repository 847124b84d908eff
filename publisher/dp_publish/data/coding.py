"""Cells that are no numbers, as numbers: categories, ordered levels, dates, times.

What a cell becomes depends on its `Source` alone, which is declared, and on no other cell: a list of levels that was
read off the data would tell who is in it.

Words in cells of text: without blanks around them, and those that stand for no value.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import SchemaError
from dp_bundle.manifest.sources import Source
from dp_publish.data.cells import GAPS, missing_numbers

_UNSEEN = "\0\u200b\u200c\u200d\u2060\ufeff"  # have no width, and are no blanks by Unicode
_AROUND = "".join(mark for mark in map(chr, range(0x3001)) if mark.isspace()) + _UNSEEN


def is_text(kind: pa.DataType) -> bool:
    """Return True for a type whose cells are words."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def trim(words: pa.Array) -> pa.Array:
    """Return words without what cannot be seen around them."""
    return pc.utf8_trim(words, characters=_AROUND)


def is_gap(words: pa.Array, missing: Sequence[str]) -> pa.Array:
    """Return which trimmed words stand for no value: the usual ones, and those of the policy.

    A number among those means every way to write it, as in `read_cell`.
    """
    usual = pc.is_in(pc.utf8_lower(words), value_set=pa.array(GAPS))
    if not missing:
        return usual
    listed = pc.is_in(words, value_set=pa.array([*dict.fromkeys(word.strip() for word in missing)], pa.string()))
    codes = [str(int(code)) for code in missing_numbers(tuple(missing), ".") if code.is_integer()]
    written = pc.replace_substring_regex(words, r"^\+?(-?\d+)(?:[.,]0*)?$", r"\1")
    return pc.or_(pc.or_(usual, listed), pc.is_in(written, value_set=pa.array(codes, pa.string())))


def read_words(values: pa.Array, levels: Sequence[str], missing: Sequence[str] | None) -> pa.Array:
    """Return words without blanks around them, and null where one stands for no value; a level is always a value.

    Parameters
    ----------
    values : pyarrow.Array
        As they are written.
    levels : sequence of str
        Those of their column; one that is declared with blanks around it has them.
    missing : sequence of str or None
        Words for gaps that the policy of a text file adds to the usual ones; None of a table that has gaps of its own.
    """
    values = pc.cast(values, pa.string())
    listed = pc.is_in(values, value_set=pa.array(levels, pa.string()))
    words = pc.if_else(listed, values, trim(values))
    if missing is None:
        return words
    gaps = pc.and_not(is_gap(words, missing), pc.is_in(words, value_set=pa.array(levels, pa.string())))
    return pc.if_else(gaps, pa.scalar(None, pa.string()), words)


AS_IT_IS = "raw"  # the kind of a column that is read in its own type, and coded here
TYPES = {"continuous": pa.float64(), "integer": pa.int64(), "text": pa.string()}
_MICROSECOND = 1e-6  # seconds
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")  # a zone without a name


class Coding:
    """The coding of columns that are no numbers.

    Parameters
    ----------
    sources : sequence of Source
        They have different names, and no published column in common.
    missing : sequence of str, optional
        Of a text file, whose cells come as they are written: words for gaps besides the usual ones.
    """

    def __init__(self, sources: Sequence[Source], missing: Sequence[str] | None = None) -> None:
        self._missing = missing
        self._source_of = {name: source for source in sources for name in source.columns}

    def raw_kinds(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Return what has to be read for the columns of `kinds`: sources as they are, and numbers as numbers."""
        named = ((name, kind, self._source_of.get(name)) for name, kind in kinds.items())
        return {
            name if source is None else source.name: kind if source is None or source.kind == "number" else AS_IT_IS
            for name, kind, source in named
        }

    def code(self, batches: Iterable[pa.RecordBatch], kinds: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """Yield batches with the columns of `kinds`, of what was read for `raw_kinds`.

        Raises
        ------
        SchemaError
            A value is none of the levels, or no date or time.
        """
        target = pa.schema([pa.field(name, TYPES[kind]) for name, kind in kinds.items()])
        for batch in batches:
            coded: dict[str, pa.Array] = {}
            for name in kinds:
                source = self._source_of.get(name)
                if source is None:
                    coded[name] = batch.column(name)
                elif name not in coded:
                    coded |= zip(source.columns, encode(batch.column(source.name), source, self._missing), strict=True)
            arrays = [pc.cast(coded[field.name], field.type) for field in target]
            yield pa.RecordBatch.from_arrays(arrays, schema=target)


def encode(values: pa.Array, source: Source, missing: Sequence[str] | None = None) -> list[pa.Array]:
    """Return the published columns of a source, as integers or floats, null where there is no value.

    Parameters
    ----------
    values : pyarrow.Array
        In any type that its kind can be read from.
    source : Source
    missing : sequence of str, optional
        As of a `Coding`.

    Raises
    ------
    SchemaError
        A value is none of the levels, or no date or time.
    """
    if is_text(values.type):
        values = read_words(values, source.levels, missing)
    if source.levels:
        codes = _codes(values, source)
        if source.has_level_columns:
            return _indicators(codes, len(source.levels))
        return _with_gaps(pc.cast(codes, pa.int64()), source)
    if source.kind == "number":
        return _with_gaps(values, source)
    try:
        return _with_gaps(_ENCODED[source.kind](values), source)
    except pa.ArrowException:  # which quotes the value
        raise SchemaError(
            f"column {source.name!r} has a value that is no {_WORDS[source.kind]}: correct it in the data, or set "
            "drop = true for the column in the policy"
        ) from None


def _codes(values: pa.Array, source: Source) -> pa.Array:
    """Return the places of levels, from 0."""
    words = values if pa.types.is_string(values.type) else pc.cast(values, pa.string())
    codes = pc.index_in(words, pa.array(source.levels, pa.string()), skip_nulls=True)
    empty = words.null_count
    if codes.null_count > empty:
        if source.other is None:
            raise SchemaError(
                f"column {source.name!r} has a value that is none of its levels: list it in the policy if everybody "
                'may know that it can occur, or give other = "..." for all that are not listed'
            )
        other = pa.scalar(source.levels.index(source.other), pa.int32())
        codes = pc.if_else(pc.and_(pc.is_null(codes), pc.is_valid(words)), other, codes)
    if empty and source.gaps is not None:
        codes = pc.fill_null(codes, source.levels.index(source.gaps))
    return codes


def _indicators(codes: pa.Array, n_levels: int) -> list[pa.Array]:
    """Return one column for each level: 1 where it is the cell's, else 0."""
    if codes.null_count:
        return [pc.cast(pc.equal(codes, level), pa.int64()) for level in range(n_levels)]
    places = codes.to_numpy()
    return [pa.array((places == level).view(np.int8).astype(np.int64)) for level in range(n_levels)]


def _with_gaps(numbers: pa.Array, source: Source) -> list[pa.Array]:
    """Return the numbers, and, where gaps are published, a column that is 1 where there is none and 0 elsewhere."""
    if not source.has_gap_column:
        return [numbers]
    return [numbers, pc.cast(pc.is_null(numbers, nan_is_null=True), pa.float64())]


def _days(values: pa.Array) -> pa.Array:
    """Return days since 1970-01-01, of a moment those of the date where its zone is."""
    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        values = _where_the_zone_is(values)
    if pa.types.is_string(values.type) or pa.types.is_timestamp(values.type):
        values = pc.floor_temporal(pc.cast(values, pa.timestamp("us")), unit="day")
    return pc.cast(pc.cast(pc.cast(values, pa.date32()), pa.int32()), pa.int64())


def _where_the_zone_is(values: pa.Array) -> pa.Array:
    """Return the local times of moments, without their zone; older versions of Arrow know none that is an offset."""
    offset = _OFFSET.fullmatch(values.type.tz)
    if offset is None:
        return pc.local_timestamp(values)
    sign, hours, minutes = offset.groups()
    ahead = datetime.timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    unit = values.type.unit
    moments = pc.cast(pc.cast(values, pa.int64()), pa.timestamp(unit))
    return pc.add(moments, pa.scalar(ahead, pa.duration(unit)))


def _seconds(values: pa.Array) -> pa.Array:
    """Return seconds since 1970-01-01T00:00:00Z; without a zone, UTC is meant."""
    zone = values.type.tz if pa.types.is_timestamp(values.type) else None
    return _as_seconds(pc.cast(values, pa.timestamp("us", zone), safe=False))


def _of_day(values: pa.Array) -> pa.Array:
    """Return seconds since midnight."""
    return _as_seconds(pc.cast(values, pa.time64("us"), safe=False))


def _lasting(values: pa.Array) -> pa.Array:
    """Return seconds."""
    return _as_seconds(pc.cast(values, pa.duration("us"), safe=False))


def _as_seconds(values: pa.Array) -> pa.Array:
    return pc.multiply(pc.cast(pc.cast(values, pa.int64()), pa.float64()), _MICROSECOND)


_ENCODED = {"date": _days, "time": _seconds, "time-of-day": _of_day, "duration": _lasting}
_WORDS = {
    "date": "date, like 2026-01-31",
    "time": "time, like 2026-01-31 12:30:00",
    "time-of-day": "time of the day, like 12:30:00",
    "duration": "duration",
}
