"""The dialect of a text file: what separates its cells, its decimal mark, its encoding, its header.

What the policy leaves open is found from the first line, which holds the columns' names: public knowledge. The decimal
mark alone is looked up in the rows (see `text_file`).
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, field_validator

from dp_bundle.base.errors import HeaderError, SchemaError
from dp_bundle.base.quoting import unguard_cell
from dp_bundle.base.wording import DELIMITER, ENCODING
from dp_bundle.files.opening import open_remote
from dp_bundle.files.places import Place
from dp_publish.data.cells import describe_as_record

_LONGEST_LINE = 2**24  # characters: what pyarrow reads at a time
_MOST_BLANK = 2**20  # characters of blank lines in a row: a small packed file could hold any number
_MOST_COLUMNS = 2**20  # marks in a first line, before names are made of it
_START = 2**20  # bytes; where the first line is expected to end
_SUFFIXES, _TABBED = (".csv", ".tsv", ".tab"), (".tsv", ".tab")
PACKED = {".gz": "gzip", ".bz2": "bz2"}
_NO_TEXT = {  # how files begin that are called text tables and are none
    b"par1": "is a Parquet file: give it a name that ends with .parquet",
    b"pk\3\4": "is a zip file: unpack it, or give a spreadsheet a name that ends with .xlsx or .ods",
    b"version https://git-lfs": "is a pointer of Git LFS and no table: fetch the table with `git lfs pull`",
    b"<": "is a web page, or XML, and no table: download the table itself",
}
_NO_NUMBERS_MARK = r'^[^A-Za-z0-9"\r\n\x00+.\x80-\x{10ffff}-]$'
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_SPOKEN = {"\t": "tab", ";": "';'", "|": "'|'", ",": "','"}


class Dialect(BaseModel):
    """The section `[table]` of a policy; what is None is found from the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    delimiter: str | None = Field(default=None, pattern=_NO_NUMBERS_MARK, description="between cells")
    decimal: Literal[".", ","] | None = Field(default=None, description="the decimal mark")
    encoding: str | None = Field(default=None, description="of the file")
    header: Literal["first", "none"] | None = Field(default=None, description="whether the first line holds names")
    missing_values: tuple[str, ...] = Field(default=(), description="further words for a missing value")

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, name: str | None) -> str | None:
        try:
            "a".encode(name or "utf-8")
        except LookupError as error:
            raise ValueError from error
        return name


@dataclass(frozen=True)
class Layout:
    """A text file's dialect as found, and its columns' names; `decimal` is None where no policy says.

    `n_before` is the number of lines before the first row.
    """

    names: tuple[str, ...]
    delimiter: str
    encoding: str
    has_header: bool
    decimal: str | None = None
    n_before: int = 0


def find_layout(path: Place, dialect: Dialect) -> Layout:
    """Return a text file's layout, from its first line and what the policy says.

    A name is read back as it was before `guard_cell`, so that an exported bundle keeps its columns' names, without
    spaces around it.

    Raises
    ------
    HeaderError
        The first line does not look like names, and the policy does not say what it is.
    SchemaError
        The file is empty, or its first line can be taken apart in two ways.
    """
    with open_bytes(path) as file:
        start = file.read(_START)

    for begins, what in _NO_TEXT.items():
        if start.lstrip().lower().startswith(begins):
            raise SchemaError(f"{path} {what}")

    encoding = dialect.encoding or _encoding_of(start)
    if codecs.lookup(encoding).name == "utf-8":
        encoding = "utf-8-sig"  # reads both

    with open_lines(path, encoding, "replace") as lines:  # of the rows, which are read ahead, nothing is asked here
        n_blank, line = next(((number, line) for number, line in enumerate(lines) if line.strip()), (0, ""))
        delimiter = dialect.delimiter or _delimiter_of(path, line)
        if line.count(delimiter) > _MOST_COLUMNS:
            raise SchemaError(
                f"the first line of {path} names more than {_MOST_COLUMNS:,} columns: it is not a text table"
            )
        reader = csv.reader(chain([line], lines), delimiter=delimiter)
        layout = layout_of(path, next(reader, []), dialect, delimiter, encoding)
    return replace(layout, n_before=n_blank + reader.line_num) if layout.has_header else layout


def layout_of(path: Place, record: Sequence[str], dialect: Dialect, delimiter: str = "", encoding: str = "") -> Layout:
    """Return the layout of a text file, or a sheet, by the cells of its first line; see `find_layout`."""
    if not record:
        raise SchemaError(f"{path} is empty: a table needs a first line with the columns' names")
    names = _names_in(record)
    if any("\ufffd" in name for name in names):
        raise SchemaError(f"the first line of {path} is not in {encoding}: set {ENCODING}", "table.encoding")
    if dialect.header is None:
        _require_names(path, names, dialect.missing_values)
    has_header = dialect.header != "none"
    if not has_header:
        names = tuple(f"column_{number}" for number in range(1, len(record) + 1))
    return Layout(names, delimiter, encoding, has_header, dialect.decimal)


@contextmanager
def open_lines(path: Place, encoding: str, errors: str) -> Iterator[Iterator[str]]:
    """Open a text file, unpacked, for the csv module.

    Raises
    ------
    SchemaError
        A line that is longer than any of a table, and would fill the memory, or blank lines without end, when they are
        reached.
    """
    with open_bytes(path) as file, io.TextIOWrapper(file, encoding, errors, newline="") as lines:
        yield _bounded_lines(path, lines)


def _bounded_lines(path: Place, lines: IO[str]) -> Iterator[str]:
    n_blank = 0
    while line := lines.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise SchemaError(f"{path} has a line of more than {_LONGEST_LINE:,} characters: it is not a text table")
        n_blank = n_blank + len(line) if line.isspace() else 0
        if n_blank > _MOST_BLANK:
            raise SchemaError(
                f"{path} has more than {_MOST_BLANK:,} characters of blank lines in a row: it is not a text table, "
                "unless those are removed"
            )
        yield line


def unpacked_name(path: Place) -> str:
    """Return a file's name without the suffix that says how it is packed."""
    return path.name.removesuffix(path.suffix) if path.suffix.lower() in PACKED else path.name


def is_text_file(path: Place) -> bool:
    """Return True if a file's name is that of a text table, compressed or not, and it is no folder."""
    return unpacked_name(path).lower().endswith(_SUFFIXES) and not (isinstance(path, Path) and path.is_dir())


def open_bytes(path: Place) -> pa.NativeFile:
    """Open a file, unpacked."""
    source = str(path) if isinstance(path, Path) else pa.PythonFile(open_remote(path), "r")
    return pa.input_stream(source, compression=PACKED.get(path.suffix.lower()))


def _encoding_of(start: bytes) -> str:
    """Return the encoding that a byte order mark, zero bytes or the first line's letters tell."""
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if start[:1] == b"\0" or start[1:2] == b"\0":
        return "utf-16-be" if start[:1] == b"\0" else "utf-16-le"
    first = (start.lstrip(b"\r\n").splitlines() or [b""])[0]
    try:
        first.decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _delimiter_of(path: Place, line: str) -> str:
    """Return what separates the cells of the first line: a comma only where nothing else does, as names may hold one.

    Raises
    ------
    SchemaError
        Two marks that are not commas are in it.
    """
    if unpacked_name(path).lower().endswith(_TABBED):
        return "\t"
    bare = _QUOTED.sub("", line)
    found = [mark for mark in "\t;|" if mark in bare]
    if len(found) > 1:
        marks = " and ".join(_SPOKEN[mark] for mark in found)
        raise SchemaError(f"the first line of {path} has {marks}: set {DELIMITER}", "table.delimiter")
    return found[0] if found else ","


def _names_in(record: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a first line gives, without the spaces around them unless those tell names apart."""
    names = tuple(map(unguard_cell, record))
    bare = tuple(name.strip() for name in names)
    return bare if len({*bare}) == len({*names}) else names


def _require_names(path: Place, record: Sequence[str], missing: tuple[str, ...]) -> None:
    """Refuse a first line that may be a person's record; a first name alone may be empty, as pandas writes its index.

    Raises
    ------
    HeaderError
        A cell is no name, or two are the same.
    """
    odd = [describe_as_record(name, missing) for name in record]
    if not record[0] and not any(odd[1:]):
        odd[0] = None
    if len(record) > 1 and not record[-1] and not any(odd[:-1]):
        raise HeaderError(path, "it ends with a separator (if all lines do, remove those)")
    for number, said in enumerate(odd, start=1):
        if said is not None:
            raise HeaderError(path, f"cell {number} of it {said}")
    if len(set(record)) < len(record):
        raise HeaderError(path, "two columns of it have one name (rename one if they are names)")
