"""The cells of a CSV or TSV file as words, in record batches, streamed in constant memory by pyarrow.

What the words mean is for `cells` to say. The csv module, which is slow but knows of lines, is asked where one is.

A line without anything is a row without values, so that their number does not tell of values; only behind the last row,
and before the names, it is none. In a table of one column each is a row.
"""

from __future__ import annotations

import contextlib
import csv
import io
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice, repeat
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dp_bundle.base.arrays import Integers
from dp_bundle.base.errors import SchemaError
from dp_bundle.base.wording import DELIMITER, ENCODING
from dp_bundle.files.opening import open_remote
from dp_bundle.files.places import Place, RemotePath
from dp_publish.data.cells import is_lost
from dp_publish.data.dialect import PACKED, Layout, endless_blank, open_bytes, open_lines
from dp_publish.data.row_ranges import BLOCK, MOST_LOOKED, RawBatches, spread

_RAW = pa.binary()  # what is not converted need not be in any encoding
_BLOCK = 2**24  # bytes that pyarrow takes apart at a time
_CHUNK = 2**20
_HEAD_ROWS, _HEAD_CELLS = 20, 2**20
_SAMPLE_CELLS = 2**24
_BLANK = b" \t\r\n\0"  # the last is in every blank of UTF-16
_END = "\0\n"  # no row of a table


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
        written = dict(zip(self.layout.names, self.layout.written, strict=True))
        asked = [written[name] for name in names]
        with self._errors():
            for block in self._batches(asked):
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
        if self._scan.open_line is not None:
            place = f"line {self._scan.open_line} of {self.path}"
            raise SchemaError(f"{place} has a quotation mark that is never closed: correct it")
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise self._damaged() from None

    def _batches(self, names: list[str]) -> RawBatches:
        layout, scan, types = self.layout, self._scan, dict.fromkeys(names, _RAW)
        convert = pacsv.ConvertOptions(
            include_columns=names, column_types=types, null_values=[""], strings_can_be_null=True
        )
        options = pacsv.ReadOptions(
            block_size=_BLOCK,
            use_threads=False,
            encoding="utf8" if scan.has_blank_lines or layout.encoding == "utf-8-sig" else layout.encoding,
            column_names=None if layout.has_header else list(layout.written),
        )
        parse = pacsv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
        try:
            path = self.path
            if scan.has_blank_lines:
                stream = pa.PythonFile(_Filled(path, layout), "r")
            else:
                source = pa.PythonFile(open_remote(path), "r") if isinstance(path, RemotePath) else str(path)
                stream = pa.input_stream(source, compression=PACKED.get(path.suffix.lower()))
            reader = pacsv.open_csv(stream, options, parse, convert)
        except pa.ArrowInvalid:
            if next(_records(self.path, self.layout), None) is not None:
                raise
            return  # a first line without a line break is no table to pyarrow
        with reader:
            yield from reader

    @cached_property
    def _scan(self) -> _Scan:
        """What the bytes tell; of a damaged file nothing, as pyarrow complains of it.

        A quotation mark that is never closed would swallow all rows after it. An even number of them is taken to be in
        order.

        Raises
        ------
        SchemaError
            There are blank lines without end, which pyarrow would pass over in silence.
        """
        n_quotes, has_blank_lines, end = 0, False, b"\n"
        try:
            with open_bytes(self.path) as file:
                while chunk := file.read(_CHUNK):
                    n_quotes += chunk.count(b'"')
                    if b"\n" in chunk or b"\r" in chunk:
                        if len(chunk) == _CHUNK and not chunk.strip(_BLANK):
                            raise endless_blank(self.path)
                        bare = end + chunk
                        bare = bare.translate(None, b"\0") if b"\0" in chunk else bare  # as UTF-16 has zeros
                        bare = bare.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in bare else bare
                        has_blank_lines = has_blank_lines or b"\n\n" in bare
                    end = chunk[-7:]
            return _Scan(self._find_open_line() if n_quotes % 2 else None, has_blank_lines)
        except (OSError, EOFError, zlib.error):
            return _Scan(None, has_blank_lines=False)

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
            if len(row) != n_columns:
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
    try:
        return pc.cast(cells, pa.string())
    except pa.ArrowInvalid:  # some are not in UTF-8
        return pa.array([cell.decode("utf-8", "replace") for cell in cells.to_pylist()], pa.string())


def _records(path: Place, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows, each with the line that it begins on; stop where the csv module does."""
    with open_lines(path, layout.encoding, "replace") as lines:
        reader = csv.reader(_filled(lines, layout), delimiter=layout.delimiter)
        line, in_header = 1, layout.has_header
        try:
            for record in reader:
                if record and not in_header:
                    yield line, record
                in_header = in_header and not record
                line = reader.line_num + 1
        except (csv.Error, OSError, EOFError):
            return


def _filled(lines: Iterable[str], layout: Layout) -> Iterator[str]:
    """Yield lines, with empty cells in those between rows that have none."""
    blank = f"{layout.delimiter * (len(layout.written) - 1)}\n" if len(layout.written) > 1 else '""\n'
    n_held, is_open, in_rows = 0, False, not layout.has_header
    for line in lines:
        if is_open or line.strip("\r\n"):
            yield from repeat(blank, n_held)
            yield line
            n_held, is_open, in_rows = 0, is_open ^ (line.count('"') % 2 == 1), True
        elif not in_rows:
            yield line
        elif len(layout.written) == 1:
            yield blank
        else:
            n_held += 1  # rows if another follows


class _Filled(io.RawIOBase):
    """The bytes of a text file in UTF-8, with empty cells in lines that have none."""

    def __init__(self, path: Place, layout: Layout) -> None:
        self._open = contextlib.ExitStack()
        lines = self._open.enter_context(open_lines(path, layout.encoding, "surrogateescape"))
        self._lines, self._rest = _filled(lines, layout), b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer, and return with how many bytes."""
        while not self._rest and (some := [*islice(self._lines, 10_000)]):
            self._rest = "".join(some).encode("utf-8", "surrogateescape")
        n_bytes = min(len(buffer), len(self._rest))
        buffer[:n_bytes], self._rest = self._rest[:n_bytes], self._rest[n_bytes:]
        return n_bytes

    def close(self) -> None:
        """Close the file."""
        self._open.close()
        super().close()


class _Scan(NamedTuple):
    """What the bytes of a file tell before it is taken apart.

    Attributes
    ----------
    open_line : int or None
        That of a quotation mark that is never closed.
    has_blank_lines : bool
        Whether there may be lines without anything.
    """

    open_line: int | None
    has_blank_lines: bool
