"""A CSV or TSV file in record batches, streamed in constant memory.

pyarrow reads numbers fast; a column in which it meets anything else is read as text and converted cell by cell by
`read_cell`, by the same rule. Where that finds a fault, the csv module searches the file once more for its line.

The decimal mark, and nothing else, is taken from the rows. It is a comma if numbers in the first rows have one, or if
semicolons separate the cells, unless a point in those rows is a decimal one. No cell has two meanings, one for each
mark, so that the choice changes no value: it can only refuse one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dp_bundle.base.errors import SchemaError
from dp_bundle.files.opening import open_remote
from dp_bundle.files.places import Place, RemotePath
from dp_publish.data.cells import MISSING, Fault, is_thousands, missing_numbers, plain_number, read_cell
from dp_publish.data.coding import AS_IT_IS, TYPES
from dp_publish.data.dialect import PACKED, Dialect, Layout, find_layout, unpacked_name
from dp_publish.data.text_rows import line_of_open_quote, locate_fault, records

_RAW = pa.binary()  # what is not converted need not be in any encoding
_SUFFIXES = (".csv", ".tsv")
_SAMPLE_CELLS = 100_000  # in which the decimal mark and columns of words are looked for
_BLOCK = 2**24  # bytes that pyarrow takes apart at a time
_LEAST_SAMPLE, _MOST_SAMPLE = 20, 1000  # rows


def is_text_file(path: Place) -> bool:
    """Return True if a file's name is that of a text table, compressed or not, and it is no folder."""
    return unpacked_name(path).lower().endswith(_SUFFIXES) and not (isinstance(path, Path) and path.is_dir())


@dataclass(frozen=True)
class TextFile:
    """A text file that can be read again and again."""

    path: Place
    layout: Layout

    @classmethod
    def find(cls, path: Place, dialect: Dialect) -> TextFile:
        """Return the file with its layout; see `find_layout`."""
        return cls(path, find_layout(path, dialect))

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
                    raise locate_fault(self.path, self.layout, kinds, decimal) from None
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
            raise locate_fault(self.path, self.layout, {}, ".") from None

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
            encoding="utf8" if layout.encoding == "utf-8-sig" else layout.encoding,
            column_names=None if layout.has_header else list(layout.written),
        )
        parse = pacsv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=True)
        try:
            path = self.path
            source = pa.PythonFile(open_remote(path), "r") if isinstance(path, RemotePath) else str(path)
            stream = pa.input_stream(source, compression=PACKED.get(path.suffix.lower()))
            reader = pacsv.open_csv(stream, options, parse, convert)
        except pa.ArrowInvalid:
            if self._has_rows:
                raise
            return  # a first line without a line break is no table to pyarrow
        with reader:
            yield from reader

    @property
    def _has_rows(self) -> bool:
        return any(True for _ in islice(records(self.path, self.layout), 1))

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
        if self._open_line is not None:
            place = f"line {self._open_line} of {self.path}"
            raise SchemaError(f"{place} has a quotation mark that is never closed: correct it")

    @cached_property
    def _open_line(self) -> int | None:
        try:
            return line_of_open_quote(self.path, self.layout)
        except (OSError, EOFError, zlib.error):
            return None  # a damaged file, of which pyarrow complains

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
        n_rows = max(_LEAST_SAMPLE, min(_MOST_SAMPLE, _SAMPLE_CELLS // len(self.layout.names)))
        return [record for _, record in islice(records(self.path, self.layout), n_rows)]

    def _column_at(self, error: Exception) -> str | None:
        found = re.match(r"In CSV column #(\d+):", str(error))
        return self.layout.names[int(found[1])] if found and int(found[1]) < len(self.layout.names) else None
