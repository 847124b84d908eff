"""Files of SPSS, Stata and SAS as tables, by pyreadstat, which the extra `files` installs.

Their code books are metadata, which everybody may see: labels of columns and of values, and which values stand for
gaps. A column of numbers with labels has both. What is asked for as words is the labels, and as numbers the codes, so
that the kind in the policy decides, and no cell. A value without a label is its number, as a word.

Rows are read in pieces, so that memory is constant. Formats that tell no number of rows and no place of one (.por,
.xpt) are read whole.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from dp_publish.data.row_ranges import ReadBatches, RowRanges, memory_ranges, sizes_of_pieces
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
_MOMENT = pa.timestamp("us")
_STORED = {
    "date": pa.date32(),
    "seconds_of_date": pa.date32(),
    "moment": _MOMENT,
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
        The labels of its values, by their codes, without those of values that stand for gaps. There are none of one
        alone, as that is of a number with an exception, such as "10 or more".
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


def load_reader(path: Path, module: str, library: str) -> Any:
    """Return the module that reads a file.

    Raises
    ------
    SchemaError
        It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise SchemaError(f'{path} cannot be read without one library more: pip install "{library}"') from error


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
    held : int
        The bytes that reading keeps in memory, for good.

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
            labels = {
                name: self._labels_of(name, book.variable_value_labels.get(name, {})) for name in book.column_names
            }
            self._labels: dict[str, dict[Any, str]] = labels
            self.described = {name: self._describe(name) for name in labels}
            self.schema = pa.schema([(name, self._type_of(name)) for name in labels])
        self.held = 0 if book.number_rows is not None else 5 * path.stat().st_size

    def ranges(self) -> RowRanges:
        """Return the rows by pieces; all of them are in memory from here on where there are none."""
        if self._book.number_rows is None:
            return memory_ranges(self._read(self.schema.names))
        return RowRanges(sizes_of_pieces(self._book.number_rows, _PIECE), self._read_pieces)

    def _read_pieces(self, pieces: range, names: list[str], rows: int) -> ReadBatches:
        for piece in pieces:
            table = self._read(names, row_offset=piece * _PIECE, row_limit=_PIECE)
            yield from table.to_batches(max_chunksize=rows)

    def _read(self, names: list[str], **place: int) -> pa.Table:
        with self._reading():
            found, _ = self._parse(usecols=names, disable_datetime_conversion=True, output_format="dict", **place)
            return pa.table({name: self._column(name, found[name]) for name in names})

    def _parse(self, **options: Any) -> tuple[Any, Any]:
        pyreadstat = load_reader(self._path, "pyreadstat", "pyreadstat>=1.3.7")
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
        named = {
            code: _line(labels[code])[:_MOST_LABEL].rstrip()
            for code in sorted(code for code in labels if isinstance(code, str) == self._is_text(name))
            if not self._is_gap(name, code)
        }
        said = [*named.values()]
        return {
            code: label if said.count(label) == 1 else f"{label} ({as_word(code)})"
            for code, label in named.items()
            if label
        }

    def _is_text(self, name: str) -> bool:
        return bool(self._book.readstat_variable_types[name] == "string")

    def _is_gap(self, name: str, value: float | str) -> bool:
        return any(each["lo"] <= value <= each["hi"] for each in self._book.missing_ranges.get(name, []))

    def _describe(self, name: str) -> Described:
        book, codes = self._book, [*self._labels[name]]
        levels = tuple(self._labels[name].values())
        has_numbers = not self._is_text(name)  # codes of text have the order of letters
        return Described(
            _line(book.column_names_to_labels[name] or ""),
            levels if len(levels) > 1 else (),
            has_order=has_numbers and book.variable_measure.get(name) == "ordinal",
            has_gaps=name in book.missing_ranges,
            is_complete=has_numbers and all(after - before == 1 for before, after in pairwise(codes)),
        )

    def _type_of(self, name: str) -> pa.DataType:
        is_labelled = bool(self.described[name].levels) and self._book.variable_measure.get(name) != "scale"
        if self._is_text(name) or is_labelled:
            return pa.string()
        is_whole = self._book.readstat_variable_types[name].startswith("int") and not self.described[name].levels
        return _STORED.get(self._shown_as(name), pa.int64() if is_whole else pa.float64())

    def _shown_as(self, name: str) -> str:
        """Return what the numbers of a column without levels are by their format, or nothing."""
        shown = "" if self.described[name].levels else self._book.original_variable_types.get(name) or ""
        found = re.fullmatch(f"(?:{_FORMATS[self._family]}){_SIZE}", shown)
        return (found and found.lastgroup) or ""

    def _column(self, name: str, cells: Sequence[Any]) -> pa.Array:
        labels = self._labels[name]
        if self._is_text(name):
            words = [None if not cell or cell.isspace() or self._is_gap(name, cell) else cell for cell in cells]
            return pa.array([labels.get(word, word) for word in words], pa.string())
        numbers = pa.array(cells, pa.float64())
        if shown := self._shown_as(name):
            return self._moments(name, numbers, shown)
        if not labels:
            return pc.cast(numbers, self.schema.field(name).type)
        coded = numbers.dictionary_encode()
        said = [labels.get(code, as_word(code)) for code in coded.dictionary.to_pylist()]
        return with_words(numbers, pa.array(said, pa.string()).take(coded.indices))

    def _moments(self, name: str, numbers: pa.Array, shown: str) -> pa.Array:
        """Return what numbers mean that count from the family's first day: days, or ticks of which a second has some.

        It is at most what its type holds.

        Raises
        ------
        SchemaError
            A time of the day is beyond 24 hours.
        """
        values = numbers.to_numpy(zero_copy_only=False)  # with NaN in gaps
        seconds = values * _DAY if shown == "date" else values / _TICKS[self._family]
        if shown == "time":
            seconds = seconds % _DAY if self._family == "stata" else seconds  # which has moments on a day of their own
            if (seconds < 0).any() or (seconds >= _DAY).any():
                raise SchemaError(
                    f"column {name!r} has a time of the day beyond 24 hours: if it holds how long something takes, "
                    "have it shown as a number, or in SPSS as DTIME"
                )
        elif shown != "duration":
            seconds = seconds + _EPOCHS[self._family] * _DAY

        counted = pc.cast(pa.array(np.rint(np.clip(seconds, -9e12, 9e12) * 1e6), from_pandas=True), pa.int64())
        stored = _STORED[shown]
        return pc.cast(pc.cast(counted, _MOMENT) if stored == pa.date32() else counted, stored, safe=False)


def _line(label: str) -> str:
    """Return a label as one line, without what cannot be printed."""
    return "".join(mark for mark in " ".join(label.split()) if mark.isprintable())
