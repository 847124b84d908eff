"""Files of SPSS, Stata and SAS as tables, by pyreadstat, which the extra `files` installs.

Their code books are metadata, which everybody may see: labels of columns and of values, and which values stand for
gaps. A column of numbers with labels has both. What is asked for as words is the labels, and as numbers the codes, so
that the kind in the policy decides, and no cell. A value without a label is its number, as a word.

Rows are read in pieces, so that memory is constant, but for formats that tell no number of rows and no place of one
(.por, .xpt), which are read whole.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dp_bundle.base.errors import DpGraphError, SchemaError
from dp_bundle.base.wording import ENCODING
from dp_publish.data.frames import as_word
from dp_publish.data.row_ranges import ReadBatches, RowRanges, memory_ranges
from dp_publish.data.typed import with_words

FOREIGN = {
    ".sav": ("spss", "read_sav"),
    ".zsav": ("spss", "read_sav"),
    ".por": ("spss", "read_por"),
    ".dta": ("stata", "read_dta"),
    ".sas7bdat": ("sas", "read_sas7bdat"),
    ".xpt": ("sas", "read_xport"),
}
_PIECE = 2**16  # rows that are decoded at a time
_DAY = 86_400
_MOST_LABEL = 170  # characters of a label that are kept, so that a code has room beside it in a level
_EPOCHS = {"spss": -141_428, "stata": -3_653, "sas": -3_653}  # days before 1970
_TICKS = {"spss": 1, "stata": 1_000, "sas": 1}  # of a second, in moments
_FORMATS = {  # what numbers are that are shown so; of periods, their first day
    "spss": r"(?P<moment>DATETIME|YMDHMS)|(?P<seconds_of_date>[AEJS]?DATE|MOYR|QYR|WKYR)|(?P<duration>DTIME|MTIME)|"
    r"(?P<time>TIME)",
    "stata": r"%-?(?:(?P<time>tcHH)|(?P<moment>tc)|(?P<date>td|d)).*",
    "sas": r"(?P<moment>DATETIME|DATEAMPM|MDYAMPM|DTDATE|DTMONYY|DTYEAR|(?:IS|[EB])8601D[TNZ])|"
    r"(?P<date>DATE|WEEKDAT[EX]|WORDDAT[EX]|JULIAN|MONYY|YYMON|YYQ|(?:MMDDYY|DDMMYY|YYMMDD|YYMM|MMYY)[BCDNPS]?|"
    r"(?:IS|[EB])8601DA)|(?P<time>TIME|TIMEAMPM|HHMM|TOD|(?:IS|[EB])8601TM)",
}
_SIZE = r"(?:\d+(?:\.\d*)?)?\.?"  # of a format, after its name
_STORED = {
    "date": pa.date32(),
    "seconds_of_date": pa.date32(),
    "moment": pa.timestamp("us"),
    "time": pa.time64("us"),
    "duration": pa.duration("us"),
}


@dataclass(frozen=True)
class Described:
    """What a code book says of a column.

    Attributes
    ----------
    label : str
        In words.
    levels : tuple of str
        The labels of its values, by their codes, without those of values that stand for gaps; none of one alone, as
        that is of a number with an exception, such as "10 or more".
    has_order : bool
        Whether they begin with the lowest.
    has_gaps : bool
        Whether some values stand for gaps.
    is_complete : bool
        Whether their codes are whole numbers without one left out: of a scale with labels at its ends alone, they are
        not.
    """

    label: str = ""
    levels: tuple[str, ...] = ()
    has_order: bool = False
    has_gaps: bool = False
    is_complete: bool = False


def reader_missing(path: Path, library: str) -> SchemaError:
    """Return the error for a file whose reader is not installed."""
    return SchemaError(f'{path} cannot be read without one library more: pip install "{library}"')


class ForeignFile:
    """A file of SPSS, Stata or SAS.

    Parameters
    ----------
    path : Path
    encoding : str, optional
        Of its texts, where the file does not say, or is wrong.

    Attributes
    ----------
    schema : pyarrow.Schema
        A column that has several labels is text, unless the file says that it is a scale.
    described : dict of str to Described
        What the code book says.

    Raises
    ------
    SchemaError
        The file cannot be read, or pyreadstat is not installed.
    """

    def __init__(self, path: Path, encoding: str | None = None) -> None:
        self._path = path
        self._family, self._reader = FOREIGN[path.suffix.lower()]
        self._given: dict[str, Any] = {} if encoding is None or self._reader == "read_por" else {"encoding": encoding}
        has_gaps = self._reader not in ("read_por", "read_xport")
        with self._reading():
            self._book = book = self._parse(metadataonly=True, **({"user_missing": True} if has_gaps else {}))[1]
            self._gaps: dict[str, list[dict[str, Any]]] = book.missing_ranges
            self._labels = {name: self._labels_of(name, labels) for name, labels in book.variable_value_labels.items()}
            self.described = {name: self._describe(name) for name in book.column_names}
            self.schema = pa.schema([(name, self._type_of(name)) for name in book.column_names])

    def ranges(self) -> RowRanges:
        """Return the rows by pieces; all of them are in memory from here on where there are none."""
        n_rows = self._book.number_rows
        if n_rows is None:
            return memory_ranges(self._whole)
        whole, rest = divmod(n_rows, _PIECE)
        return RowRanges([*[_PIECE] * whole, *([rest] if rest else [])], self._read_pieces)

    @property
    def held(self) -> int:
        """The bytes that reading keeps in memory, for good."""
        return 0 if self._book.number_rows is not None else 5 * self._path.stat().st_size

    @cached_property
    def _whole(self) -> pa.Table:
        return self._read(self.schema.names)

    def _read_pieces(self, pieces: range, names: list[str], rows: int) -> ReadBatches:
        for piece in pieces:
            table = self._read(names, row_offset=piece * _PIECE, row_limit=_PIECE)
            yield from table.to_batches(max_chunksize=rows)

    def _read(self, names: list[str], **place: int) -> pa.Table:
        with self._reading():
            found, _ = self._parse(usecols=names, disable_datetime_conversion=True, output_format="dict", **place)
            return pa.table({name: self._column(name, found[name]) for name in names})

    def _parse(self, **options: Any) -> tuple[Any, Any]:
        try:
            pyreadstat = import_module("pyreadstat")
        except ImportError as error:
            raise reader_missing(self._path, "pyreadstat>=1.3.7") from error
        found: tuple[Any, Any] = getattr(pyreadstat, self._reader)(
            str(self._path.absolute()),  # it takes ~ for a home
            **{**self._given, **options},
        )
        return found

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn whatever comes of a damaged file into one sentence."""
        try:
            yield
        except (DpGraphError, MemoryError):
            raise
        except Exception as error:
            raise SchemaError(
                f"{self._path} cannot be read as a table: it is damaged, or not what its name says, or not in its "
                f"encoding ({ENCODING})"
            ) from error

    def _labels_of(self, name: str, labels: Mapping[Any, str]) -> dict[Any, str]:
        """Return the labels of values that are no gaps, each one line, by their codes; no two are the same."""
        of_text = self._book.readstat_variable_types[name] == "string"
        named = {
            code: _line(label)[:_MOST_LABEL].rstrip()
            for code, label in labels.items()
            if isinstance(code, str) == of_text and not self._is_gap(name, code)
        }
        named = {code: named[code] for code in sorted(named) if named[code]}
        said = [*named.values()]
        return {
            code: label if said.count(label) == 1 else f"{label} ({as_word(code)})" for code, label in named.items()
        }

    def _is_gap(self, name: str, value: float | str) -> bool:
        return any(each["lo"] <= value <= each["hi"] for each in self._gaps.get(name, []))

    def _describe(self, name: str) -> Described:
        levels = tuple(self._labels.get(name, {}).values())
        label = _line(self._book.column_names_to_labels[name] or "")
        of_text = self._book.readstat_variable_types[name] == "string"  # whose codes have the order of letters
        ordinal = self._book.variable_measure.get(name) == "ordinal" and not of_text
        codes = [] if of_text else sorted(self._labels.get(name, {}))
        is_complete = all(after - before == 1 for before, after in pairwise(codes))
        return Described(label, levels if len(levels) > 1 else (), ordinal, name in self._gaps, is_complete)

    def _type_of(self, name: str) -> pa.DataType:
        declared = self._book.readstat_variable_types[name]
        if declared == "string":
            return pa.string()
        if self.described[name].levels:
            is_scale = self._book.variable_measure.get(name) == "scale"
            return pa.float64() if is_scale else pa.string()
        return _STORED.get(self._shown_as(name), pa.int64() if declared.startswith("int") else pa.float64())

    def _shown_as(self, name: str) -> str:
        """Return what the numbers of a column are by their format, or nothing."""
        shown = self._book.original_variable_types.get(name) or ""
        found = re.fullmatch(f"(?:{_FORMATS[self._family]}){_SIZE}", shown)
        return (found and found.lastgroup) or ""

    def _column(self, name: str, cells: Sequence[Any]) -> pa.Array:
        labels = self._labels.get(name, {})
        if self._book.readstat_variable_types[name] == "string":
            return pa.array([self._text(name, cell, labels) for cell in cells], pa.string())
        numbers = pa.array(cells, pa.float64())
        shown = "" if self.described[name].levels else self._shown_as(name)
        if shown:
            return self._moments(name, numbers, shown)
        if labels:
            codes, places = np.unique(numbers.to_numpy(zero_copy_only=False), return_inverse=True)
            words = [None if np.isnan(code) else labels.get(code, as_word(code)) for code in codes.tolist()]
            return with_words(numbers, pa.array(words, pa.string()).take(pa.array(places)))
        return pc.cast(numbers, pa.int64()) if self.schema.field(name).type == pa.int64() else numbers

    def _text(self, name: str, cell: str | None, labels: Mapping[str, str]) -> str | None:
        """Return a cell of text by its label, if it has one; nothing for blanks and gaps."""
        return None if not cell or cell.isspace() or self._is_gap(name, cell) else labels.get(cell, cell)

    def _moments(self, name: str, numbers: pa.Array, shown: str) -> pa.Array:
        """Return what numbers mean that count from the family's first day: days, or ticks of which a second has some.

        It is at most what its type holds.

        Raises
        ------
        SchemaError
            A time of the day is beyond 24 hours.
        """
        gaps = pc.is_null(numbers).to_numpy(zero_copy_only=False)
        values = pc.fill_null(numbers, 0.0).to_numpy(zero_copy_only=False)
        exact = values * _DAY if shown == "date" else values / _TICKS[self._family]
        seconds = np.floor(exact)
        parts = np.rint((exact - seconds) * 1e6)
        if shown == "time":
            seconds = seconds % _DAY if self._family == "stata" else seconds  # which has moments on a day of their own
            if not ((seconds >= 0) & (seconds < _DAY)).all():
                raise SchemaError(
                    f"column {name!r} has a time of the day beyond 24 hours: if it holds how long something takes, "
                    "have it shown as a number, or in SPSS as DTIME"
                )
        elif shown != "duration":
            seconds = seconds + _EPOCHS[self._family] * _DAY

        if _STORED[shown] == pa.date32():
            stored = np.clip(np.floor(seconds / _DAY), -(2**31), 2**31 - 1).astype(np.int32)
        else:
            stored = np.clip(seconds, -9e12, 9e12).astype(np.int64) * 10**6 + parts.astype(np.int64)
        return pa.array(stored, mask=gaps).cast(_STORED[shown])


def _line(label: str) -> str:
    """Return a label as one line, without what cannot be printed."""
    return "".join(mark for mark in " ".join(label.split()) if mark.isprintable())
