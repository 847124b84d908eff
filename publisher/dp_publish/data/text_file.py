"""The cells of a CSV or TSV file as words, in record batches, streamed in constant memory by pyarrow.

What the words mean is for `cells` to say. The csv module, which is slow but knows of lines, is asked where one is.

A line without anything is a row without values, so that their number does not tell of values. Only behind the last row,
and before the names, it is none. In a table of one column each is a row.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dp_bundle.base.arrays import Integers
from dp_bundle.base.errors import SchemaError
from dp_bundle.base.wording import DELIMITER, ENCODING
from dp_bundle.files.places import Place
from dp_publish.data.cells import holds, is_lost
from dp_publish.data.dialect import Layout, open_bytes, open_lines
from dp_publish.data.row_ranges import BLOCK, MOST_LOOKED, RawBatches, spread

_RAW = pa.binary()  # what is not converted need not be in any encoding
_BLOCK = 2**24  # bytes that pyarrow takes apart at a time
_CHUNK = 2**20
_HEAD_ROWS, _HEAD_CELLS = 20, 2**20
_SAMPLE_CELLS = 2**24
_END = "\0\n"  # no row of a table
_LONGEST_END = 16  # bytes of two line breaks


@dataclass
class Survey:
    """What one pass over a text file tells.

    Attributes
    ----------
    head : RecordBatch
        The first rows, as words.
    n_rows : int
        The number of all of them.
    lost : dict of str to int
        Columns with cells that are not in the file's encoding, and the number of the first such row.
    sample : list of RecordBatch or None
        Rows that are evenly spread by their places (`row_ranges.spread`); None of a table that is too wide.
    """

    head: pa.RecordBatch
    n_rows: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    sample: list[pa.RecordBatch] | None = None


@dataclass(frozen=True)
class TextFile:
    """A text file that can be read again and again."""

    path: Place
    layout: Layout

    def read(self, names: list[str], rows: int) -> RawBatches:
        """Yield batches of some columns as words; what is not in the file's encoding is replaced in them.

        Raises
        ------
        SchemaError
            The file cannot be taken apart into rows.
        """
        with self._errors():
            for block in self._batches(names):
                batch = pa.RecordBatch.from_arrays([*map(_words, block.columns)], names=names)
                yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))

    @cached_property
    def survey(self) -> Survey:
        """What one pass over the whole file tells.

        Raises
        ------
        SchemaError
            The file cannot be taken apart into rows.
        """
        names = list(self.layout.names)
        found = Survey(pa.record_batch({name: pa.array([], pa.string()) for name in names}))
        fits = len(names) * MOST_LOOKED <= _SAMPLE_CELLS
        kept: list[tuple[Integers, pa.RecordBatch]] = []
        for batch in self.read(names, _BLOCK):
            if not found.n_rows:
                found.head = batch.slice(0, max(_HEAD_ROWS, _HEAD_CELLS // len(names)))
            for name, words in zip(names, batch.columns, strict=True):
                place = -1 if name in found.lost else pc.index(is_lost(words), True).as_py()
                if place >= 0:
                    found.lost[name] = found.n_rows + place
            blocks = np.arange(found.n_rows, found.n_rows + batch.num_rows) // BLOCK
            found.n_rows += batch.num_rows
            if fits:
                kept.append((blocks, batch))
                every = spread(found.n_rows)
                kept = [_thinned(each, part, every) for each, part in kept]
        found.sample = [part for _, part in kept] if fits else None
        return found

    def lines(self, rows: Collection[int]) -> dict[int, int]:
        """Return the lines on which rows begin, by their numbers from 0."""
        first = islice(_records(self.path, self.layout), max(rows) + 1)
        return {row: line for row, (line, _) in enumerate(first) if row in rows}

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of taking the file apart, which may quote a row, into what is wrong with it."""
        open_line, _ = self._end
        if open_line is not None:
            raise SchemaError(f"line {open_line} of {self.path} has a quotation mark that is never closed: correct it")
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise self._damaged() from None

    def _batches(self, names: list[str]) -> RawBatches:
        layout, types, path = self.layout, dict.fromkeys(names, _RAW), self.path
        convert = pacsv.ConvertOptions(
            include_columns=names, column_types=types, null_values=[""], strings_can_be_null=True
        )
        options = pacsv.ReadOptions(
            block_size=_BLOCK,
            use_threads=False,
            encoding="utf8" if layout.encoding == "utf-8-sig" else layout.encoding,
            column_names=list(layout.names),
            skip_rows=layout.n_before,
        )
        parse = pacsv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True, ignore_empty_lines=False)
        try:
            reader = pacsv.open_csv(open_bytes(path), options, parse, convert)
        except pa.ArrowInvalid:
            if next(_records(path, layout), None) is not None:
                raise
            return  # a first line without a line break is no table to pyarrow
        with reader:
            yield from _without_last(reader, self._end[1])

    @cached_property
    def _end(self) -> tuple[int | None, int]:
        """The line of a quotation mark that is never closed, if there is one, and how many blank lines are at the end.

        Such a mark would swallow all rows after it. An even number of them is taken to be in order. Of a damaged file
        nothing is told, as pyarrow complains of it.
        """
        n_quotes, end = 0, b""
        try:
            with open_bytes(self.path) as file:
                while chunk := file.read(_CHUNK):
                    n_quotes += chunk.count(b'"')
                    end = (end + chunk)[-_LONGEST_END:]
            breaks = end.replace(b"\0", b"").replace(b"\r\n", b"\n")[-2:]  # as UTF-16 has zeros
            has_blank_end = len(self.layout.names) > 1 and not breaks.strip(b"\r\n")
            return self._find_open_line() if n_quotes % 2 else None, self._n_behind() if has_blank_end else 0
        except OSError:
            return None, 0

    def _n_behind(self) -> int:
        """Return how many lines without anything are behind the last row, of a table of several columns."""
        n_blank = 0
        with open_lines(self.path, self.layout.encoding, "replace") as lines:
            for line in lines:
                n_blank = 0 if line.strip("\r\n") else n_blank + 1
        return n_blank

    def _find_open_line(self) -> int | None:
        """Return the line of a quotation mark that is never closed, if there is one."""
        with open_lines(self.path, self.layout.encoding, "replace") as lines:
            reader = csv.reader(chain(lines, [_END]), delimiter=self.layout.delimiter)
            before, line, last = 0, 0, [""]
            try:
                for last in reader:  # noqa: B007  the last one is asked for
                    before, line = line, reader.line_num
            except csv.Error:  # a cell too long for the csv module: it is open
                return line + 1
        return before + 1 if len(last[-1]) > 1 else None

    def _damaged(self) -> SchemaError:
        """Return what is wrong with a file: a line with other cells than there are columns, or all of it."""
        n_columns = len(self.layout.names)
        for line, row in _records(self.path, self.layout):
            if row and len(row) != n_columns:
                return SchemaError(
                    f"line {line} of {self.path} has more or fewer cells than columns ({len(row)}, not {n_columns}), "
                    f"which the first line names: correct either, or set {DELIMITER}",
                    "table.delimiter",
                )
        return SchemaError(
            f"{self.path} cannot be read to its end: it is damaged, or not written in {self.layout.encoding} "
            f"({ENCODING})",
            "table.encoding",
        )


def _thinned(blocks: Integers, batch: pa.RecordBatch, every: int) -> tuple[Integers, pa.RecordBatch]:
    """Return the rows of every so many blocks, with their blocks."""
    wanted = blocks % every == 0
    return (blocks, batch) if wanted.all() else (blocks[wanted], batch.filter(pa.array(wanted)))


def _words(cells: pa.Array) -> pa.Array:
    """Return cells as text; of a line break in one, pyarrow leaves out the end where a block ends between both."""
    if holds(cells, b"\r"):
        cells = pc.replace_substring_regex(cells, r"\r\n?", "\r\n")
    try:
        return pc.cast(cells, pa.string())
    except pa.ArrowInvalid:  # some are not in UTF-8
        return pa.array([cell.decode("utf-8", "replace") for cell in cells.to_pylist()], pa.string())


def _without_last(batches: Iterable[pa.RecordBatch], n_rows: int) -> RawBatches:
    """Yield batches without so many rows at their end."""
    held = list[pa.RecordBatch]()
    for batch in batches:
        held.append(batch)
        while held and sum(each.num_rows for each in held[1:]) >= n_rows:
            yield held.pop(0)
    if held:
        rest = pa.Table.from_batches(held)
        yield from rest.slice(0, rest.num_rows - n_rows).to_batches()


def _records(path: Place, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows, each with the line that it begins on; stop where the csv module does."""
    with open_lines(path, layout.encoding, "replace") as lines:
        reader = csv.reader(lines, delimiter=layout.delimiter)
        line = 1
        try:
            for record in reader:
                if line > layout.n_before:
                    yield line, record
                line = reader.line_num + 1
        except (csv.Error, OSError):
            return
