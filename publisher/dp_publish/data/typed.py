"""Columns as the policy's kinds want them: float64, int64 or text, with nulls where there is no value.

Cells that are no numbers, such as categories, ordered levels, dates and times, become numbers. What a cell becomes
depends on its `Source` alone, which is declared, and on no other cell: a list of levels that was read off the data
would tell who is in it.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import SchemaError
from dp_bundle.manifest.sources import Source
from dp_publish.data.bad_cells import Check
from dp_publish.data.cells import TRUTH, read_words, trim, without_point
from dp_publish.data.dates import advise_format, is_iso, to_iso
from dp_publish.data.kinds import AS_IT_IS, KINDS, TYPES, WrittenSource
from dp_publish.data.parquet_files import table_changed
from dp_publish.data.row_ranges import RowRanges

_FIRST_ROWS = 1000  # by which a format is advised


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

    def checks(self) -> dict[str, Check]:
        """Return, for each source, what finds the first of its cells that cannot be read; see `first_fault`."""
        missing = self._missing or ()
        sources = {source.name: source for source in self._source_of.values() if source.kind != "number"}
        return {name: partial(first_fault, source=source, missing=missing) for name, source in sources.items()}

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
        With the format of dates in text, if it is a `WrittenSource` that has one.
    missing : sequence of str, optional
        As of a `Coding`.

    Raises
    ------
    SchemaError
        A value is none of the levels, or no date or time.
    """
    words = read_words(values, source.levels, missing) if _is_text(values.type) else values
    try:
        return _encode(words, source)
    except Exception:  # which quotes the value, whatever it is
        first = words[:_FIRST_ROWS].drop_null().to_pylist() if _is_text(words.type) else []
        raise SchemaError(f"column {source.name!r} has a value that {_fault(source, first)}") from None


def first_fault(
    cells: Sequence[str], first: Sequence[str], source: Source, missing: Sequence[str]
) -> tuple[int, str] | None:
    """Return the first of several cells of a text file that cannot be read, and what is wrong with it; see `Check`.

    Parameters
    ----------
    cells : sequence of str
        As they are written.
    first : sequence of str
        Those of the first rows, by which a format is advised.
    source, missing : Source, sequence of str
        As of `encode`.
    """
    words, known = (read_words(pa.array(each, pa.string()), source.levels, missing) for each in (cells, first))

    def fails(n_cells: int) -> bool:
        try:
            _encode(words[:n_cells], source)
        except Exception:  # as in `encode`
            return True
        return False

    place = bisect_left(range(len(cells)), True, key=lambda place: fails(place + 1))
    return None if place == len(cells) else (place, _fault(source, known.drop_null().to_pylist()))


def _fault(source: Source, first: Sequence[str]) -> str:
    """Return what is wrong with a value that cannot be read, and what to do, by words of the first rows."""
    if source.levels:
        return (
            "is none of its levels: list it in the policy if everybody may know that it can occur, or give other = "
            '"..." for all that are not listed'
        )
    kind, form = KINDS[source.kind], _format(source)
    looks = f"does not fit the format {form}" if form else f"is no {kind.looks}"
    advice = advise_format(first, with_date=kind.name == "date")
    remedy = "correct it in the data, or set drop = true for the column in the policy"
    if form and is_iso(first):
        remedy = f"leave format out in the policy, as the first rows are each a {kind.looks}"
    elif advice and not is_iso(first):
        remedy = f"in the column's section of the policy, give {advice}, or set drop = true"
    return f"{looks}: {remedy}"


def _format(source: Source) -> str:
    return source.format if isinstance(source, WrittenSource) else ""


def _encode(words: pa.Array, source: Source) -> list[pa.Array]:
    if source.levels:
        codes = _codes(words, source)
        if source.has_level_columns:
            return _indicators(codes, len(source.levels))
        return _with_gaps(pc.cast(codes, pa.int64()), source)
    kind, form = KINDS[source.kind], _format(source)
    written = to_iso(words, form) if form and _is_text(words.type) else words
    return _with_gaps(written if kind.encode is None else kind.encode(written), source)


def _codes(values: pa.Array, source: Source) -> pa.Array:
    """Return the places of levels, from 0; a whole number is the level that is listed as such, however it is written.

    Raises
    ------
    ValueError
        A value is none of the levels.
    """
    words, levels = _as_words(values), pa.array(source.levels, pa.string())
    codes = pc.index_in(words, levels, skip_nulls=True)
    empty = words.null_count
    if codes.null_count > empty:
        codes = pc.coalesce(codes, pc.index_in(without_point(words), without_point(levels), skip_nulls=True))
    if codes.null_count > empty:
        if source.other is None:
            raise ValueError("a value is none of the levels")
        other = pa.scalar(source.levels.index(source.other), pa.int32())
        codes = pc.if_else(pc.and_(pc.is_null(codes), pc.is_valid(words)), other, codes)
    if empty and source.gaps is not None:
        codes = pc.fill_null(codes, source.levels.index(source.gaps))
    return codes


def _as_words(values: pa.Array) -> pa.Array:
    """Return values as text, whole numbers without a point, whatever type they are stored in."""
    if not (pa.types.is_floating(values.type) or pa.types.is_decimal(values.type)):
        return pc.cast(values, pa.string())
    numbers = pc.cast(_of_computable_type(values), pa.float64())
    whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), 2.0**53))
    digits = pc.cast(pc.cast(pc.if_else(whole, numbers, 0.0), pa.int64()), pa.string())
    words = pc.if_else(whole, digits, pc.cast(values if pa.types.is_floating(values.type) else numbers, pa.string()))
    return pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.string()), words)


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


@dataclass(frozen=True)
class TypedRanges:
    """Any range of a table's rows, as the kinds of the policy want them.

    Attributes
    ----------
    raw : RowRanges
        The rows as they are stored.
    coding : Coding or None
        What becomes of columns that are no numbers.
    """

    raw: RowRanges
    coding: Coding | None = None

    def read(self, kinds: dict[str, str], rows: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from `start` to before `stop`, as `Table.read` does.

        Raises
        ------
        SchemaError
            There are fewer by now.
        """
        stored = kinds if self.coding is None else self.coding.raw_kinds(kinds)
        batches: Iterator[pa.RecordBatch] = typed_batches(self.raw.read(list(stored), rows, start, stop), stored)
        n_rows = 0
        for batch in batches if self.coding is None else self.coding.code(batches, kinds):
            n_rows += batch.num_rows
            yield batch
        if n_rows != stop - start:
            raise table_changed()


def typed_batches(batches: Iterable[pa.RecordBatch], kinds: dict[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns as their kinds want them."""
    fields = [pa.field(name, TYPES[kind]) for name, kind in kinds.items() if kind != AS_IT_IS]
    with schema_errors():
        for batch in batches:
            arrays = {name: _decoded(_side(batch.column(name), kind)) for name, kind in kinds.items()}
            arrays |= {field.name: _convert(arrays[field.name], field) for field in fields}
            yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def with_words(numbers: pa.Array, words: pa.Array) -> pa.Array:
    """Return a stored column of values that are numbers as well as words: it is read as what its kind wants."""
    return pa.StructArray.from_arrays([numbers, words], names=["number", "word"])


def _side(values: pa.Array, kind: str) -> pa.Array:
    """Return the numbers or the words of a column that has both; lists and structures of a table are never read."""
    if not pa.types.is_struct(values.type):
        return values
    return values.field("word" if kind in (AS_IT_IS, "text") else "number")


def _is_text(kind: pa.DataType) -> bool:
    """Return True for a type whose cells are words."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _decoded(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _convert(values: pa.Array, field: pa.Field) -> pa.Array:
    values = _of_computable_type(values)
    if field.type != pa.float64() and pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        if field.type == pa.int64():
            _require_whole(values, field.name)
    if _is_text(values.type) and field.type != pa.string():
        values = _numbers(values, field)
    if pa.types.is_uint64(values.type) and field.type == pa.int64():
        values = pc.min_element_wise(values, pa.scalar(2**63 - 1, pa.uint64()), skip_nulls=False)
    try:
        return pc.cast(values, field.type, safe=field.type == pa.int64())
    except pa.ArrowException:  # which quotes the value
        raise _not_of_its_kind(field.name) from None


def _of_computable_type(values: pa.Array) -> pa.Array:
    """Return half floats as floats, as Arrow computes little with them."""
    return pc.cast(values, pa.float32()) if pa.types.is_float16(values.type) else values


def _numbers(words: pa.Array, field: pa.Field) -> pa.Array:
    """Return the numbers that words are, as in a text file: 3.0 is whole, and yes is 1."""
    words = pc.utf8_ltrim(trim(pc.cast(words, pa.string())), "+")
    lower = pc.utf8_lower(words)
    for truth, number in TRUTH.items():
        words = pc.if_else(pc.equal(lower, truth), str(number), words)
    if field.type != pa.int64():
        return words

    other = pc.invert(pc.match_substring_regex(words, r"^-?\d+$"))
    if not pc.any(other, min_count=0).as_py():
        return words
    try:
        numbers = pc.cast(pc.if_else(other, words, "0"), pa.float64())
        _require_whole(numbers, field.name)
        return pc.if_else(other, pc.cast(pc.cast(numbers, pa.int64()), pa.string()), words)
    except pa.ArrowException:  # which quotes the value
        raise _not_of_its_kind(field.name) from None


def _require_whole(values: pa.Array, name: str) -> None:
    whole = pc.all(pc.equal(values, pc.floor(values)), skip_nulls=True, min_count=0)
    if not whole.as_py():
        raise SchemaError(f'column {name!r} holds fractions: publish it with kind = "continuous", or round it first')


@contextlib.contextmanager
def schema_errors() -> Iterator[None]:
    """Turn Arrow's errors into ours, which never quote a value of the private table."""
    try:
        yield
    except (pa.ArrowException, OSError):
        raise SchemaError("the table cannot be read to its end: it is damaged") from None


def _not_of_its_kind(name: str) -> SchemaError:
    return SchemaError(
        f"column {name!r} has a value that is not of its kind: correct the data, change kind in the policy, or set "
        "drop = true for it"
    )
