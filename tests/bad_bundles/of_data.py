"""Bad bundles whose data are not what the manifest says, or Parquet that no release has, soundly signed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from tests.bad_bundles.making import Case, data, footer
from tests.fuzz.compact import BINARY, I32, I64, LIST, STRUCT, Fields, Values

__all__ = ["CASES"]

_PART, _MATRIX, _TRANSFORM = "data/part-00000.parquet", "data/covariance.parquet", "data/transform.parquet"
_ROWS, _MOMENTS, _TWO, _VECTORS = "rows", "covariance", "two-round", "eigenvectors"
_MIXED, _COPULA, _MARGINS = "mixed", "copula", "data/margins.parquet"
_REST = ["low", "high", "count"]
_HISTOGRAMS = "does not hold the histograms that its manifest describes"
Columns = dict[str, list[Any]]


def _set(column: str, index: int, value: float) -> object:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(column)
        values = table.column(column).to_numpy().copy()
        values[index] = value
        return table.set_column(place, table.field(place), pa.array(values))

    return change


def _all_of(column: str) -> object:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(column)
        return table.set_column(place, table.field(place), pa.array(np.ones(table.num_rows, dtype=np.int64)))

    return change


def _scaled(factor: float) -> object:
    def change(table: pa.Table) -> pa.Table:
        values = table.column("value").to_numpy() * factor
        return table.set_column(2, table.field(2), pa.array(values))

    return change


def _reversed(table: pa.Table) -> pa.Table:
    return table.take(np.arange(table.num_rows)[::-1])


def _renamed(table: pa.Table) -> pa.Table:
    return table.rename_columns(["alkohol", *table.column_names[1:]])


def _of_other_type(table: pa.Table) -> pa.Table:
    return table.set_column(2, "proline", table.column("proline").cast(pa.float64()))


def _shorter(table: pa.Table) -> pa.Table:
    return table.slice(0, table.num_rows - 1)


def _same(table: pa.Table) -> pa.Table:
    return table


def _key_value(fields: Fields) -> None:
    entry = Fields({1: (BINARY, b"pandas"), 2: (BINARY, b"{}")})
    fields.put(5, LIST, Values(STRUCT, [entry]))


def _version(fields: Fields) -> None:
    fields.put(1, I32, 1)


def _writer(fields: Fields) -> None:
    fields.put(6, BINARY, b"parquet-mr version 1.2.8")


def _total(fields: Fields) -> None:
    group = fields.at(4, 0)
    group.put(2, I64, group.at(2) + 1)


def _more_values(fields: Fields) -> None:
    about = fields.at(4, 0, 1, 0, 3)
    about.put(5, I64, about.at(5) + 1)


def _cells(change: Callable[[Columns], None]) -> object:
    """Return a change of a table of histograms by its columns, as lists."""

    def changed(table: pa.Table) -> pa.Table:
        columns = table.to_pydict()
        change(columns)
        return pa.table(columns, schema=table.schema)

    return changed


def _of(columns: Columns, name: str) -> list[int]:
    """Return the places of the cells of one raw column."""
    return [place for place, each in enumerate(columns["column"]) if each == name]


def _in_order(order: Callable[[Columns], list[int]]) -> object:
    """Return a change that takes the cells in another order, or not all of them."""
    return lambda table: table.take(np.array(order(table.to_pydict()), dtype=np.int64))


def _from_the_last(columns: Columns) -> list[int]:
    places = _of(columns, "alcohol")
    return [*places[::-1], *range(len(places), len(columns["column"]))]


def _without_cell(name: str, at: int) -> object:
    def others(columns: Columns) -> list[int]:
        left_out = _of(columns, name)[at]
        return [place for place in range(len(columns["column"])) if place != left_out]

    return _in_order(others)


def _edge(value: float, at: int = 5) -> object:
    """Return a change that moves one end between two cells of alcohol."""

    def change(columns: Columns) -> None:
        place = _of(columns, "alcohol")[at]
        columns["high"][place] = columns["low"][place + 1] = value

    return _cells(change)


def _apart(columns: Columns) -> None:
    columns["low"][_of(columns, "alcohol")[5]] += 1e-3


def _finite_from(columns: Columns) -> None:
    columns["low"][0] = 10.0


def _with_ends(columns: Columns) -> None:
    place = _of(columns, "size")[1]
    columns["low"][place], columns["high"][place] = 0.5, 1.5


def _level(old: str, new: str) -> object:
    def change(columns: Columns) -> None:
        columns["level"] = [new if each == old else each for each in columns["level"]]

    return _cells(change)


def _named(columns: Columns) -> None:
    columns["level"][_of(columns, "alcohol")[5]] = "low"


def _count(value: int) -> object:
    def change(columns: Columns) -> None:
        columns["count"][3] = value

    return _cells(change)


def _finer(n_cells: int) -> object:
    """Return a change that gives alcohol so many cells."""

    def change(columns: Columns) -> None:
        rest, edges = len(_of(columns, "alcohol")), np.linspace(10, 16, n_cells + 1)[1:-1].tolist()
        new = {"column": ["alcohol"] * n_cells, "level": [""] * n_cells, "count": [*range(n_cells)]}
        new |= {"low": [-np.inf, *edges], "high": [*edges, np.inf]}
        for name, values in columns.items():
            columns[name] = [*new[name], *values[rest:]]

    return _cells(change)


def _counts_of_floats(table: pa.Table) -> pa.Table:
    return table.set_column(4, "count", table.column("count").cast(pa.float64()))


def _without_levels(table: pa.Table) -> pa.Table:
    return table.drop_columns(["level"])


_SHAPE = "have the columns|has |was not written by"

CASES = [
    Case(*each)
    for each in [
        ("one row less than promised", "D1", data(_shorter, _PART, _ROWS), "promises"),
        ("column of another name", "D1", data(_renamed, _PART, _ROWS), _SHAPE),
        ("column of another type", "D1", data(_of_other_type, _PART, _ROWS), _SHAPE),
        ("value that is no number", "D1", data(_set("alcohol", 3, np.nan), _PART, _ROWS), "number"),
        ("level that is no level", "D1", data(_set("size=small", 3, -1), _PART, _MIXED), "of no level, or of several"),
        ("row of two levels", "D1", data(_all_of("size=small"), _PART, _MIXED), "of no level, or of several"),
        ("truth value beyond 1", "D1", data(_set("red", 3, 2), _PART, _MIXED), "of no level, or of several"),
        ("triangle in another order", "D2", data(_reversed, _MATRIX, _MOMENTS), "labelled triangle"),
        ("triangle that lacks an entry", "D2", data(_shorter, _MATRIX, _MOMENTS), "labelled triangle|has"),
        ("entry off the grid", "D2", data(_scaled(1 + 1e-12), _MATRIX, _MOMENTS), "no multiple"),
        ("entry that is no number", "D2", data(_set("value", 1, np.inf), _MATRIX, _MOMENTS), "not a number"),
        (
            "entry that is too large",
            "D2",
            data(_set("value", 0, 2.0**60), _MATRIX, _MOMENTS),
            "its noise and rows cannot",
        ),
        ("entry too large to compute with", "D2", data(_set("value", 0, 2.0**300), _MATRIX, _VECTORS), "beyond 1e.70"),
        ("matrix of another number of rows", "D2", data(_set("value", -1, 1.0), _MATRIX, _VECTORS), "number of rows"),
        ("transform that has no inverse", "D3", data(_scaled(0.0), _TRANSFORM, _TWO), "inverted safely"),
        ("transform that is not positive", "D3", data(_set("value", 1, 1e3), _TRANSFORM, _TWO), "inverted safely"),
        *(
            (name, "D9", data(change, _MARGINS, _COPULA), says)
            for name, change, says in [
                ("cells from the last to the first", _in_order(_from_the_last), _HISTOGRAMS),
                (
                    "columns in another order",
                    _in_order(lambda each: [*_of(each, "hue"), *_of(each, "alcohol")]),
                    _HISTOGRAMS,
                ),
                (
                    "histogram left out",
                    _in_order(lambda each: sorted({*range(len(each["column"]))} - {*_of(each, "red")})),
                    _HISTOGRAMS,
                ),
                (
                    "histogram twice",
                    _in_order(lambda each: [*range(len(each["column"])), *_of(each, "alcohol")]),
                    _HISTOGRAMS,
                ),
                ("first cell left out", _without_cell("alcohol", 0), _HISTOGRAMS),
                ("cell left out", _without_cell("alcohol", 7), _HISTOGRAMS),
                ("cell of gaps left out", _without_cell("hue", -1), _HISTOGRAMS),
                ("level left out", _without_cell("size", 1), _HISTOGRAMS),
                ("end that is no number", _edge(np.nan), _HISTOGRAMS),
                ("end without end", _edge(np.inf), _HISTOGRAMS),
                ("ends that do not ascend", _edge(10.0001, at=9), _HISTOGRAMS),
                ("end beyond the bounds", _edge(9.0, at=0), _HISTOGRAMS),
                ("ends of two cells apart", _cells(_apart), _HISTOGRAMS),
                ("first cell with an end", _cells(_finite_from), _HISTOGRAMS),
                ("level between ends", _cells(_with_ends), _HISTOGRAMS),
                ("level of another column", _level("small", "no"), _HISTOGRAMS),
                ("level that nobody stated", _level("small", "tiny"), _HISTOGRAMS),
                ("level of a number", _cells(_named), _HISTOGRAMS),
                ("gaps by another name", _level("(no value)", ""), _HISTOGRAMS),
                ("count beyond all rows", _count(10**9), "rows and noise cannot give"),
                ("largest count", _count(2**63 - 1), "rows and noise cannot give"),
                ("least count", _count(-(2**63)), "rows and noise cannot give"),
                ("count far below nothing", _count(-(10**6)), "rows and noise cannot give"),
                ("more cells than a column may have", _finer(1025), _HISTOGRAMS),
                ("more cells than all columns may have", _finer(9000), _SHAPE),
                ("counts of floats", _counts_of_floats, _SHAPE),
                ("levels by another name", lambda table: table.rename_columns(["column", "word", *_REST]), _SHAPE),
            ]
        ),
        ("no cell at all", "D4", data(_in_order(lambda _: []), _MARGINS, _COPULA), _SHAPE),
        ("histograms without levels", "D4", data(_without_levels, _MARGINS, _COPULA), _SHAPE),
        ("statistics", "D4", data(_same, _PART, _ROWS, write_statistics=True), _SHAPE),
        ("metadata by keys", "D4", footer(_key_value), _SHAPE),
        ("old version of Parquet", "D4", footer(_version), _SHAPE),
        ("another writer", "D4", footer(_writer), _SHAPE),
        ("codec that no release has", "D4", data(_same, _PART, _ROWS, compression="GZIP"), _SHAPE),
        ("size that is no sum", "D4", footer(_total), _SHAPE),
        ("more values than pages hold", "D5", footer(_more_values), _SHAPE),
        (
            "encoding that no release has",
            "D6",
            data(_same, _PART, _ROWS, column_encoding={"proline": "DELTA_BINARY_PACKED"}, use_dictionary=False),
            _SHAPE,
        ),
        (
            "small row groups",
            "D7",
            data(_same, _PART, _ROWS, row_group_size=100),
            "row group|a list that no release has",
        ),
    ]
]
