"""Columns as the policy's kinds want them: float64, int64 or text, with nulls where there is no value."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import SchemaError
from dp_publish.data.cells import TRUTH
from dp_publish.data.coding import AS_IT_IS, TYPES, Coding, is_text, trim
from dp_publish.data.row_ranges import RowRanges, table_changed


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
            arrays = {name: _decoded(batch.column(name)) for name in kinds}
            arrays |= {field.name: _convert(arrays[field.name], field) for field in fields}
            yield pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _decoded(values: pa.Array) -> pa.Array:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _convert(values: pa.Array, field: pa.Field) -> pa.Array:
    if pa.types.is_float16(values.type):
        values = pc.cast(values, pa.float32())  # Arrow computes little with half floats
    if field.type != pa.float64() and pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        if field.type == pa.int64():
            _require_whole(values, field.name)
    if is_text(values.type) and field.type != pa.string():
        values = _numbers(values, field)
    if pa.types.is_uint64(values.type) and field.type == pa.int64():
        values = pc.min_element_wise(values, pa.scalar(2**63 - 1, pa.uint64()), skip_nulls=False)
    try:
        return pc.cast(values, field.type, safe=field.type == pa.int64())
    except pa.ArrowException:  # which quotes the value
        raise _not_of_its_kind(field.name) from None


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
