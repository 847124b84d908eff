"""A text file row by row, by the csv module: slow, but with line numbers.

The first rows are looked at this way before pyarrow reads the file, and all of them where something cannot be read.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain

from dp_bundle.base.errors import CellError, SchemaError
from dp_bundle.files.places import Place
from dp_publish.data.cells import Fault, read_cell
from dp_publish.data.dialect import Layout, endless_blank, open_bytes, open_lines

_CHUNK = 2**20
_BLANK = b" \t\r\n\0"  # the last is in every blank of UTF-16
_END = "\0\n"  # no row of a table


def records(path: Place, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows, each with the line that it begins on; stop where the csv module does."""
    with open_lines(path, layout.encoding, "replace") as lines:
        reader = csv.reader(lines, delimiter=layout.delimiter)
        line, in_header = 1, layout.has_header
        try:
            for record in reader:
                if record and not in_header:
                    yield line, record
                in_header = in_header and not record
                line = reader.line_num + 1
        except (csv.Error, OSError, EOFError):
            return


def line_of_open_quote(path: Place, layout: Layout) -> int | None:
    """Return the line of a quotation mark that is never closed, which would swallow all rows after it; None if none.

    An even number of quotation marks is taken to be in order.

    Raises
    ------
    SchemaError
        There are blank lines without end, which pyarrow would pass over in silence.
    """
    n_quotes = 0
    with open_bytes(path) as file:
        while chunk := file.read(_CHUNK):
            n_quotes += chunk.count(b'"')
            if len(chunk) == _CHUNK and not chunk.strip(_BLANK) and (b"\n" in chunk or b"\r" in chunk):
                raise endless_blank(path)
    if n_quotes % 2 == 0:
        return None
    with open_lines(path, layout.encoding, "replace") as lines:
        reader = csv.reader(chain(lines, [_END]), delimiter=layout.delimiter)
        before, line, last = 0, 0, [""]
        try:
            for last in reader:  # noqa: B007  the last one is asked for
                before, line = line, reader.line_num
        except csv.Error:  # a cell too long for the csv module: it is open
            return line + 1
    return before + 1 if len(last[-1]) > 1 else None


def locate_fault(path: Place, layout: Layout, kinds: dict[str, str], decimal: str) -> SchemaError:
    """Return the first fault in the columns of `kinds` with its line, and without a value."""
    n_columns = len(layout.names)
    places = [(layout.names.index(name), name, kind) for name, kind in kinds.items()]
    for line, record in records(path, layout):
        if len(record) != n_columns:
            return SchemaError(
                f"line {line} of {path} has more or fewer cells than columns ({len(record)}, not {n_columns}), which "
                "the first line names: correct either, or set delimiter under [table] in the policy"
            )
        faults: dict[Fault, list[str]] = {}
        for place, name, kind in places:
            if isinstance(fault := _read(record[place], kind, decimal, layout), Fault):
                faults.setdefault(fault, []).append(name)
        if faults:
            fault, columns = next(iter(faults.items()))
            return CellError(columns, line, fault.value)
    return SchemaError(
        f"{path} cannot be read to its end: it is damaged, or not written in {layout.encoding} (encoding under [table] "
        "in the policy)"
    )


def _read(word: str, kind: str, decimal: str, layout: Layout) -> float | Fault | None:
    if kind == "text":
        return Fault.ENCODING if "\ufffd" in word else None
    return read_cell(word, kind, decimal, layout.missing_values)
