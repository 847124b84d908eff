"""A data frame as a table, in which a column has the type that its dtype declares, or none.

Frames of others than pandas have types, and become tables of Arrow's by narwhals, or by the stream that Arrow defines.

In one of pandas, cells of a column of objects, and categories, may be of any type. So a type found for all of them
would be decided by one. It is left open here (`untyped`), as in a text file, until the policy names a kind. Each cell
is written as a word, and means what that word means, whatever the others are.

A JSON file of records as a table of words: a list of objects, or one object on each line.

Numbers are kept as they are written. The first record names the columns, as a first line does; a key that it lacks
would let one record decide what columns there are.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dp_bundle.base.errors import SchemaError
from dp_bundle.base.machine import require_memory
from dp_bundle.base.wording import LEAVE_IT_OUT

if TYPE_CHECKING:
    import pandas as pd  # a publisher who has files needs none of its memory


class Frame:
    """The columns of a data frame, as far as a table of Arrow's is asked for them.

    Parameters
    ----------
    frame : pandas.DataFrame

    Attributes
    ----------
    schema : pyarrow.Schema
        Columns without a type are text.
    untyped : frozenset of str
        Those columns.
    num_rows : int
        The number of rows.

    Raises
    ------
    SchemaError
        A column is of a type that Arrow does not have.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._cells = {str(name): cells for name, cells in frame.items()}
        self.untyped = frozenset(name for name, cells in self._cells.items() if _is_open(cells.dtype))
        typed = {
            name: _typed(name, partial(pa.array, cells, from_pandas=True))
            for name, cells in self._cells.items()
            if name not in self.untyped
        }
        self._columns, self.num_rows = typed, len(frame)
        self.schema = pa.schema([(name, typed[name].type if name in typed else pa.string()) for name in self._cells])

    def select(self, names: Sequence[str]) -> pa.Table:
        """Return some columns; objects as words.

        Raises
        ------
        SchemaError
            A cell is neither a number, a word, a truth value nor a date.
        """
        for name in names:
            if name not in self._columns:
                self._columns[name] = _words(name, self._cells[name])
        return pa.table({name: self._columns[name] for name in names})


def is_of_pandas(source: Any) -> bool:
    """Return True for a data frame of pandas, which is not imported to know it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(source, pandas.DataFrame)


def arrow_table(source: Any) -> pa.Table:
    """Return any table in memory but one of pandas as one of Arrow's.

    Raises
    ------
    SchemaError
        It is no table, or has a column of a type that Arrow does not have.
    """
    if isinstance(source, pa.Table):
        return source
    import narwhals as nw  # whoever has files pays nothing for its import

    try:
        frame = nw.from_native(source)
    except TypeError:
        if not hasattr(source, "__arrow_c_stream__"):
            raise SchemaError(
                f"{type(source).__name__} is no table: give a path, a pyarrow.Table, or a data frame of pandas, "
                "polars, DuckDB or another that narwhals knows"
            ) from None
        try:
            return pa.table(source)
        except pa.ArrowException:
            raise SchemaError(
                f"{type(source).__name__} is no table: give one of columns, such as a data frame or a pyarrow.Table"
            ) from None
    whole = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    return pa.table({name: _typed(name, whole.get_column(name).to_arrow) for name in whole.columns})


def _is_open(dtype: Any) -> bool:
    """Return True for objects, and for categories that are no text: pandas finds the type of those by the cells."""
    categories = getattr(dtype, "categories", None)
    return bool(dtype == np.dtype(object) if categories is None else categories.dtype.type is not str)


def _typed(name: str, make: Callable[[], pa.Array]) -> pa.Array:
    try:
        return make()
    except Exception:  # of any library, which may quote a value
        raise SchemaError(
            f"column {name!r} of the data frame is of a type that Arrow does not have: convert it or drop it"
        ) from None


def _words(name: str, column: pd.Series[Any]) -> pa.Array:
    cells = column.astype(object)
    gaps = cells.isna().to_numpy()
    try:
        words = [None if empty else as_word(cell) for cell, empty in zip(cells, gaps, strict=True)]
        return pa.array(words, pa.string())
    except (TypeError, ValueError):
        raise SchemaError(
            f"column {name!r} of the data frame has a cell that is neither a number, a word, a truth value, a date nor "
            f"a moment: give the column a type, or {LEAVE_IT_OUT}"
        ) from None


def as_word(cell: Any) -> str:
    """Return a cell as a text file would have it; a whole number has no point.

    Raises
    ------
    TypeError
        It is neither a number, a word, a truth value, a date nor a moment.
    """
    if isinstance(cell, np.datetime64 | np.timedelta64):
        raise TypeError
    cell = cell.item() if isinstance(cell, np.generic) else cell
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float | decimal.Decimal) and math.isfinite(cell):
        return str(int(cell)) if cell == int(cell) else f"{cell:f}" if isinstance(cell, decimal.Decimal) else repr(cell)
    if isinstance(cell, str | int | float | decimal.Decimal | datetime.date):
        return str(cell)
    raise TypeError


JSON = (".json", ".jsonl", ".ndjson")
_PER_BYTE = 12  # of memory while a file is read, for one byte of it
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


def read_json(path: Path) -> pa.Table:
    """Return the records of a file; what is no number, text or truth value is its JSON.

    Raises
    ------
    SchemaError
        It is no list of objects, or a record has a key that the first lacks.
    MemoryLimitError
        This machine has not enough memory for it.
    """
    require_memory(_PER_BYTE * path.stat().st_size, None, f"reading {path}")
    try:
        records = _records(path)
    except (ValueError, RecursionError):  # which may quote a record
        records = []
    if not records or not all(isinstance(record, dict) for record in records):
        raise SchemaError(f"{path} is no table: give a list of objects, or one object on each line, in UTF-8")

    names = [*records[0]]
    odd = next((place for place, record in enumerate(records, 1) if not record.keys() <= {*names}), None)
    if odd is not None:
        raise SchemaError(f"record {odd} of {path} has a key that the first one lacks: give all records the same keys")
    return pa.table(
        {name: pa.array([_json_word(record.get(name)) for record in records], pa.string()) for name in names}
    )


def _records(path: Path) -> list[Any]:
    text = path.read_text(encoding="utf-8-sig").strip()
    whole: list[Any] = _DECODER.decode(text) if text.startswith("[") else []
    return whole or [*map(_DECODER.decode, filter(str.strip, text.split("\n")))]


def _json_word(cell: Any) -> str | None:
    return cell if cell is None or isinstance(cell, str) else json.dumps(cell)
