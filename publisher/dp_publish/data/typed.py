"""Columns as the policy's kinds want them: float64, int64 or text, with nulls where there is no value.

Cells that are no numbers, such as categories, ordered levels, dates and times, become numbers. What a cell becomes
depends on what is declared, or was found, of its column, and on no other cell. A list of levels that was read off the
data would show who is in it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dp_bundle.base.errors import SchemaError
from dp_bundle.base.wording import LEAVE_IT_OUT, Phrase
from dp_bundle.manifest.columns import Source
from dp_publish.data.cells import Read, Written, is_lost, read_integers, read_numbers, read_words, without_point
from dp_publish.data.dates import read_moments
from dp_publish.data.faults import UnfitError, fault_of, fault_of_source
from dp_publish.data.kinds import AS_IT_IS, KINDS, TYPES, Kinds, format_of
from dp_publish.data.row_ranges import table_changed, value_type

_CHANGE_KIND = Phrase("change kind in the policy", "change “«kind»”")
_FIRST_ROWS = 1000  # by which a format is advised


@dataclass(frozen=True)
class Cells:
    """What is public of a table's cells, and makes values of them.

    Attributes
    ----------
    written : Written
        How those of text are written.
    sources : sequence of Source
        The columns that are no numbers, or are published as more; they have different names, and no published column
        in common.
    own : dict of str to Written
        How those of columns are written that have a unit, or whose kind was found.
    """

    written: Written = field(default_factory=Written)
    sources: Sequence[Source] = ()
    own: Mapping[str, Written] = field(default_factory=dict)

    def stored(self, kinds: Iterable[str]) -> list[str]:
        """Return the columns of the raw table that have to be read for published ones."""
        source_of = self._source_of
        return [*dict.fromkeys(source_of[name].name if name in source_of else name for name in kinds)]

    @property
    def _source_of(self) -> dict[str, Source]:
        return {name: source for source in self.sources for name in source.columns}

    def read(self, batch: pa.RecordBatch, kinds: Kinds) -> pa.RecordBatch:
        """Return the columns of `kinds`, from what is stored of them.

        Raises
        ------
        UnfitError
            Cells are not what their columns' kinds say.
        SchemaError
            The table is damaged.
        """
        source_of, faults, columns = self._source_of, list[tuple[int, str, str]](), dict[str, pa.Array]()
        with schema_errors():
            for name, kind in kinds.items():
                if name in columns:
                    continue
                source = source_of.get(name)
                stored, published = (name, [name]) if source is None else (source.name, source.columns)
                cells, written = batch.column(stored), self.own.get(stored, self.written)
                arrays, fits = _read(cells, name, kind, source, written)
                columns |= zip(published, arrays, strict=True)
                if fits is not None and fits.false_count and not written.is_found:
                    place = pc.index(fits, False).as_py()
                    faults.append((place, stored, _fault_at(place, cells, source, written)))
            if faults:
                raise UnfitError(faults)
            arrays = [pc.cast(columns[name], TYPES.get(kind, columns[name].type)) for name, kind in kinds.items()]
        return pa.RecordBatch.from_arrays(arrays, names=list(kinds))


def _read(
    cells: pa.Array, name: str, kind: str, source: Source | None, written: Written
) -> tuple[list[pa.Array], pa.Array | None]:
    """Return published columns as their kind wants them, and which cells fit, if they are words."""
    if source is not None and source.kind != "number":
        return encode(_side(cells, AS_IT_IS), source, written.missing)
    values, fits = decoded(_side(cells, kind)), None
    if not is_text(values.type):
        values = values if kind == AS_IT_IS else _convert(values, name, TYPES[kind])
    elif kind == "text":
        values = pc.cast(values, pa.string())
        fits = pc.invert(is_lost(values))
    elif kind != AS_IT_IS:
        values, fits = (read_integers if kind == "integer" else read_numbers)(pc.cast(values, pa.string()), written)
    return [values] if source is None else _published(values, source), fits


def _fault_at(place: int, cells: pa.Array, source: Source | None, written: Written) -> str:
    """Return what is wrong with a cell that does not fit, and what to do."""
    words = pc.cast(decoded(_side(cells, AS_IT_IS)), pa.string())
    coded = None if source is None or source.kind == "number" else source
    return fault_of(words[place].as_py() or "", words[:_FIRST_ROWS].drop_null(), coded, written)


def encode(values: pa.Array, source: Source, missing: Sequence[str] = ()) -> tuple[list[pa.Array], pa.Array | None]:
    """Return the published columns of a source, as integers or floats, null where there is no value; and what fits.

    Parameters
    ----------
    values : pyarrow.Array
        In any type that its kind can be read from.
    source : Source
        With the format of dates in text, if it is a `WrittenSource` that has one.
    missing : sequence of str
        Words for gaps besides the usual ones.

    Raises
    ------
    SchemaError
        The values are of another type.
    """
    encode_typed, kind = KINDS[source.kind].encode, values.type
    is_coded = pa.types.is_dictionary(kind) and kind.value_type == pa.string() and len(values.dictionary) < len(values)
    values = values if is_coded else decoded(values)
    try:
        if format_of(source) and pa.types.is_integer(values.type):
            values = pc.cast(values, pa.string())
        if not (source.levels or is_coded or is_text(values.type)):
            return _published(values if encode_typed is None else encode_typed(values), source), None
        coded = values.dictionary_encode()  # every value once
        numbers, fits = (_codes if source.levels else _moments)(coded.dictionary, source, missing)
        return _published(numbers.take(coded.indices), source), fits.take(coded.indices) if fits.false_count else None
    except Exception:  # which quotes the value, whatever it is
        said = fault_of_source(source, pa.array([], pa.string()))
        raise SchemaError(f"column {source.name!r} has a value that {said}") from None


def _moments(words: pa.Array, source: Source, missing: Sequence[str]) -> Read:
    """Return the numbers of dates or times, and null where there is none."""
    kind = KINDS[source.kind]
    read = read_moments(read_words(words, (), missing), format_of(source), local=kind.name == "date")
    return read._replace(values=read.values if kind.encode is None else kind.encode(read.values))


def _codes(values: pa.Array, source: Source, missing: Sequence[str]) -> Read:
    """Return the places of levels, from 0; a whole number is the level listed as such, however it is written."""
    words = read_words(_as_words(values), source.levels, missing)
    levels = pa.array(source.levels, pa.string())
    spelled = pc.index_in(without_point(words), without_point(levels), skip_nulls=True)
    codes, gaps = pc.coalesce(pc.index_in(words, levels, skip_nulls=True), spelled), pc.is_null(words)
    if source.other is not None:
        codes = pc.if_else(gaps, None, pc.fill_null(codes, source.levels.index(source.other)))
    return Read(pc.cast(codes, pa.int64()), pc.or_(gaps, pc.is_valid(codes)))


def _as_words(values: pa.Array) -> pa.Array:
    """Return values as text, whole numbers without a point or an exponent, whatever type they are stored in."""
    if pa.types.is_decimal(values.type):
        values = pc.cast(values, pa.float64())
    words = pc.cast(values, pa.string())
    if not pa.types.is_floating(values.type):
        return words
    whole = pc.and_(pc.equal(values, pc.floor(values)), pc.less(pc.abs(values), 2.0**53))
    return pc.coalesce(pc.cast(pc.cast(pc.if_else(whole, values, None), pa.int64()), pa.string()), words)


def _published(numbers: pa.Array, source: Source) -> list[pa.Array]:
    """Return the columns of a source: its numbers, with its gaps if these are published, or one for each level."""
    if source.gaps is not None:
        numbers = pc.fill_null(numbers, source.levels.index(source.gaps))
    if source.has_level_columns:
        return [pc.cast(pc.equal(numbers, level), pa.int64()) for level in range(len(source.levels))]
    gaps = [pc.cast(pc.is_null(numbers, nan_is_null=True), pa.float64())] if source.has_gap_column else []
    return [numbers, *gaps]


Keep = Callable[[int, int], NDArray[np.bool_]]  # returns which rows of a range are kept


def kept_rows(batch: pa.RecordBatch, keep: Keep | None, start: int) -> pa.RecordBatch:
    """Return those rows of a batch that are kept, by the number of its first.

    Raises
    ------
    SchemaError
        The table has more rows than it had.
    """
    if keep is None:
        return batch
    kept = keep(start, start + batch.num_rows)
    if len(kept) != batch.num_rows:
        raise table_changed()
    return batch.filter(pa.array(kept))


def with_words(numbers: pa.Array, words: pa.Array) -> pa.Array:
    """Return a stored column of values that are numbers as well as words: it is read as what its kind wants."""
    return pa.StructArray.from_arrays([numbers, words], names=["number", "word"])


def _side(values: pa.Array, kind: str) -> pa.Array:
    """Return the numbers or the words of a column that has both; lists and structures of a table are never read."""
    if not pa.types.is_struct(values.type):
        return values
    return values.field("word" if kind in (AS_IT_IS, "text") else "number")


def is_text(kind: pa.DataType) -> bool:
    """Return True for a type whose cells are words."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def decoded(values: pa.Array) -> pa.Array:
    """Return values one by one, of a dictionary or of runs, in a type that Arrow computes with."""
    values = pc.run_end_decode(values) if pa.types.is_run_end_encoded(values.type) else values
    kind = value_type(values.type)
    return pc.cast(values, {pa.float16(): pa.float32(), pa.string_view(): pa.string()}.get(kind, kind))


def _convert(values: pa.Array, name: str, wanted: pa.DataType) -> pa.Array:
    is_whole = wanted == pa.int64()
    if wanted != pa.float64() and pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    if pa.types.is_uint64(values.type) and is_whole:
        values = pc.min_element_wise(values, pa.scalar(2**63 - 1, pa.uint64()), skip_nulls=False)
    try:
        return pc.cast(values, wanted, safe=is_whole)
    except pa.ArrowException:  # which quotes the value
        raise SchemaError(
            f"column {name!r} has a value that is not of its kind, such as a fraction in an integer column: correct "
            f"the data, {_CHANGE_KIND}, or {LEAVE_IT_OUT}"
        ) from None


@contextlib.contextmanager
def schema_errors() -> Iterator[None]:
    """Turn Arrow's errors into ours, which never quote a value of the private table."""
    try:
        yield
    except (pa.ArrowException, OSError):
        raise SchemaError("the table cannot be read to its end: it is damaged") from None
