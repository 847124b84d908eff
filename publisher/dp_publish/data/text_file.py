"""A CSV or TSV file in record batches, streamed in constant memory.

pyarrow reads numbers fast; a column in which it meets anything else is read as text and converted cell by cell by
`read_cell`, by the same rule. The csv module, which is slow but knows of lines, looks at the first rows before that,
and at all of them where one cannot be read.

The decimal mark, and nothing else, is taken from the rows. It is a comma if numbers in the first rows have one, or if
semicolons separate the cells, unless a point in those rows is a decimal one. No cell has two meanings, one for each
mark, so that the choice changes no value: it can only refuse one.

A line without anything is a row without values, so that their number does not tell of values; only behind the last row,
and before the names, it is none. In a table of one column each is a row.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, repeat
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dp_bundle.base.errors import SchemaError
from dp_bundle.files.opening import open_remote
from dp_bundle.files.places import Place, RemotePath
from dp_publish.data.bad_cells import Check, locate_fault, sample_rows
from dp_publish.data.cells import MISSING, Fault, is_thousands, missing_numbers, plain_number, read_cell
from dp_publish.data.dialect import PACKED, Layout, endless_blank, open_bytes, open_lines
from dp_publish.data.kinds import AS_IT_IS, TYPES

_RAW = pa.binary()  # what is not converted need not be in any encoding
_BLOCK = 2**24  # bytes that pyarrow takes apart at a time
_CHUNK = 2**20
_BLANK = b" \t\r\n\0"  # the last is in every blank of UTF-16
_END = "\0\n"  # no row of a table
_BLANK_LINES = (b"\n\n", b"\n\r\n", b"\r\r")


@dataclass(frozen=True)
class TextFile:
    """A text file that can be read again and again."""

    path: Place
    layout: Layout

    def read(self, kinds: dict[str, str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield record batches as a `Table` does.

        Raises
        ------
        SchemaError
            The line and the columns of what cannot be read.
        """
        self._require_closed_quotes()
        kinds = {name: "text" if kind == AS_IT_IS else kind for name, kind in kinds.items()}
        decimal = self._decimal(kinds)
        loose = self._loose(kinds, decimal)
        n_done = 0
        while True:
            try:
                for batch in self._stream(kinds, loose, decimal, n_done):
                    n_done += batch.num_rows
                    for start in range(0, batch.num_rows, rows):
                        yield batch.slice(start, rows)
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # which may quote the row
                name = self._column_at(error)
                if name is None or name in loose or kinds.get(name, "text") == "text":
                    raise (self.locate(kinds, {}) or self._damaged()) from None
                loose = {*loose, name}  # begin again, and pass over the rows that were read already
            else:
                return

    def count_rows(self) -> int:
        """Return the number of rows.

        Raises
        ------
        SchemaError
            The file cannot be taken apart into rows.
        """
        self._require_closed_quotes()
        first = self.layout.written[0]
        convert = pacsv.ConvertOptions(include_columns=[first], column_types={first: _RAW})
        try:
            return sum(batch.num_rows for batch in self._batches(convert))
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            raise (self.locate({}, {}) or self._damaged()) from None

    def locate(self, kinds: Mapping[str, str], checks: Mapping[str, Check]) -> SchemaError | None:
        """Return what cannot be read, as `locate_fault` does."""
        self._require_closed_quotes()
        kinds = {name: "text" if kind == AS_IT_IS else kind for name, kind in kinds.items()}
        rows = _records(self.path, self.layout)
        return locate_fault(self.path, self.layout, rows, kinds, self._decimal(kinds), checks)

    def _stream(self, kinds: dict[str, str], loose: set[str], decimal: str, n_done: int) -> Iterator[pa.RecordBatch]:
        """Yield whole blocks from row `n_done` on, the columns in `loose` converted here."""
        schema = pa.schema([(name, TYPES[kind]) for name, kind in kinds.items()])
        written = dict(zip(self.layout.names, self.layout.written, strict=True))
        convert = pacsv.ConvertOptions(
            column_types={written[name]: _RAW if name in loose else TYPES[kind] for name, kind in kinds.items()},
            include_columns=[written[name] for name in kinds],
            null_values=[*MISSING, *self.layout.missing_values],
            strings_can_be_null=False,  # whether a word is a gap depends on its column's levels
            decimal_point=decimal,
        )

        n_seen = 0
        for block in self._batches(convert):
            batch = block.slice(max(0, n_done - n_seen))
            n_seen += block.num_rows
            if n_seen <= n_done:
                continue

            columns = [
                self._convert(batch.column(index), kind, decimal)
                if name in loose
                else self._without_codes(batch.column(index), decimal)
                for index, (name, kind) in enumerate(kinds.items())
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _batches(self, convert: pacsv.ConvertOptions) -> Iterator[pa.RecordBatch]:
        layout = self.layout
        options = pacsv.ReadOptions(
            block_size=_BLOCK,
            use_threads=False,
            encoding="utf8" if self._scan.has_blank_lines or layout.encoding == "utf-8-sig" else layout.encoding,
            column_names=None if layout.has_header else list(layout.written),
        )
        parse = pacsv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
        try:
            path = self.path
            if self._scan.has_blank_lines:
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

    def _convert(self, column: pa.Array, kind: str, decimal: str) -> pa.Array:
        coded = column.dictionary_encode()
        words = [word.decode("utf-8", "replace") for word in coded.dictionary.to_pylist()]
        cells = [read_cell(word, kind, decimal, self.layout.missing_values) for word in words]
        if any(isinstance(cell, Fault) for cell in cells):
            raise pa.ArrowInvalid("a cell cannot be read")
        return pa.array(cells, TYPES[kind]).take(coded.indices)

    def _without_codes(self, column: pa.Array, decimal: str) -> pa.Array:
        """Return the column with nothing in the places of numbers that mean a missing value, however written."""
        codes = missing_numbers(self.layout.missing_values, decimal)
        if not codes or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            return column
        whole = pa.types.is_integer(column.type)
        meant = pa.array(
            [int(code) if whole else code for code in codes if not whole or code.is_integer()], column.type
        )
        return pc.if_else(pc.is_in(column, value_set=meant), pa.scalar(None, column.type), column)

    def _require_closed_quotes(self) -> None:
        if self._scan.open_line is not None:
            place = f"line {self._scan.open_line} of {self.path}"
            raise SchemaError(f"{place} has a quotation mark that is never closed: correct it")

    @cached_property
    def _scan(self) -> _Scan:
        try:
            return _scan(self.path, self.layout)
        except (OSError, EOFError, zlib.error):
            return _Scan(None, has_blank_lines=False)  # a damaged file, of which pyarrow complains

    def _decimal(self, kinds: dict[str, str]) -> str:
        """Return the decimal mark of the policy, or of the first rows; where semicolons separate, a comma if in doubt.

        Raises
        ------
        SchemaError
            Commas could separate thousands as well.
        """
        if self.layout.decimal is not None:
            return self.layout.decimal
        places = [self.layout.names.index(name) for name, kind in kinds.items() if kind != "text"]
        words = [record[place] for record in self._sample for place in places if place < len(record)]
        words = [word for word in words if "," in word or "." in word]
        commas = [word for word in words if "," in word and plain_number(word, "continuous", ",")]
        points = [word for word in words if "." in word and plain_number(word, "continuous", ".")]
        if not all(map(is_thousands, points)):
            return "."
        if commas and all(map(is_thousands, commas)):
            raise SchemaError(
                f'{self.path} has numbers such as 1,234: set decimal = "," under [table] in the policy if the '
                "comma is a decimal mark, and write numbers without it if it separates thousands"
            )
        return "," if commas or self.layout.delimiter == ";" else "."

    def _loose(self, kinds: dict[str, str], decimal: str) -> set[str]:
        """Return the columns whose first rows hold words that pyarrow does not take for numbers."""
        known = {*MISSING, *self.layout.missing_values}
        places = {self.layout.names.index(name): name for name, kind in kinds.items() if kind != "text"}
        return {
            name
            for place, name in places.items()
            if not all(
                record[place] in known or plain_number(record[place], kinds[name], decimal)
                for record in self._sample
                if place < len(record)
            )
        }

    @cached_property
    def _sample(self) -> list[list[str]]:
        return [record for _, record in islice(_records(self.path, self.layout), sample_rows(self.layout))]

    def _damaged(self) -> SchemaError:
        return SchemaError(
            f"{self.path} cannot be read to its end: it is damaged, or not written in {self.layout.encoding} (encoding "
            "under [table] in the policy)"
        )

    def _column_at(self, error: Exception) -> str | None:
        found = re.match(r"In CSV column #(\d+):", str(error))
        return self.layout.names[int(found[1])] if found and int(found[1]) < len(self.layout.names) else None


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
    """What the bytes of a file tell before it is taken apart: see `_scan`."""

    open_line: int | None
    has_blank_lines: bool


def _scan(path: Place, layout: Layout) -> _Scan:
    """Return the line of a quotation mark that is never closed, and whether there may be lines without anything.

    Such a mark would swallow all rows after it. An even number of quotation marks is taken to be in order.

    Raises
    ------
    SchemaError
        There are blank lines without end, which pyarrow would pass over in silence.
    """
    n_quotes, has_blank_lines, end = 0, False, b"\n"
    with open_bytes(path) as file:
        while chunk := file.read(_CHUNK):
            n_quotes += chunk.count(b'"')
            if b"\n" in chunk or b"\r" in chunk:
                if len(chunk) == _CHUNK and not chunk.strip(_BLANK):
                    raise endless_blank(path)
                bare = (end + chunk).translate(None, b"\0") if b"\0" in chunk else end + chunk  # as UTF-16 has zeros
                has_blank_lines = has_blank_lines or any(each in bare for each in _BLANK_LINES)
            end = chunk[-7:]
    if n_quotes % 2 == 0:
        return _Scan(None, has_blank_lines)
    with open_lines(path, layout.encoding, "replace") as lines:
        reader = csv.reader(chain(lines, [_END]), delimiter=layout.delimiter)
        before, line, last = 0, 0, [""]
        try:
            for last in reader:  # noqa: B007  the last one is asked for
                before, line = line, reader.line_num
        except csv.Error:  # a cell too long for the csv module: it is open
            return _Scan(line + 1, has_blank_lines)
    return _Scan(before + 1 if len(last[-1]) > 1 else None, has_blank_lines)
