"""Bad bundles whose data are not what the manifest says, or Parquet that no release has, soundly signed."""

import numpy as np
import pyarrow as pa
from tests.bad_bundles.making import Case, data, footer
from tests.fuzz.compact import BINARY, I32, I64, LIST, STRUCT, Fields, Values

__all__ = ["CASES"]

_PART, _MATRIX, _TRANSFORM = "data/part-00000.parquet", "data/covariance.parquet", "data/transform.parquet"
_ROWS, _MOMENTS, _TWO, _VECTORS = "v3", "v3-covariance", "v3-two-round-covariance", "v3-eigenvectors-covariance"
_MIXED = "v4-mixed"


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


_SHAPE = "have the columns|has |was not written by"

CASES = [
    Case("one row less than promised", "D1", data(_shorter, _PART, _ROWS), "promises"),
    Case("column of another name", "D1", data(_renamed, _PART, _ROWS), _SHAPE),
    Case("column of another type", "D1", data(_of_other_type, _PART, _ROWS), _SHAPE),
    Case("value that is no number", "D1", data(_set("alcohol", 3, np.nan), _PART, _ROWS), "number"),
    Case("level that is no level", "D1", data(_set("size=small", 3, -1), _PART, _MIXED), "of no level, or of several"),
    Case("row of two levels", "D1", data(_all_of("size=small"), _PART, _MIXED), "of no level, or of several"),
    Case("truth value beyond 1", "D1", data(_set("red", 3, 2), _PART, _MIXED), "of no level, or of several"),
    Case("triangle in another order", "D2", data(_reversed, _MATRIX, _MOMENTS), "labelled triangle"),
    Case("triangle that lacks an entry", "D2", data(_shorter, _MATRIX, _MOMENTS), "labelled triangle|has"),
    Case("entry off the grid", "D2", data(_scaled(1 + 1e-12), _MATRIX, _MOMENTS), "no multiple"),
    Case("entry that is no number", "D2", data(_set("value", 1, np.inf), _MATRIX, _MOMENTS), "not a number"),
    Case(
        "entry that is too large", "D2", data(_set("value", 0, 2.0**60), _MATRIX, _MOMENTS), "its noise and rows cannot"
    ),
    Case("entry too large to compute with", "D2", data(_set("value", 0, 2.0**300), _MATRIX, _VECTORS), "beyond 1e.70"),
    Case("matrix of another number of rows", "D2", data(_set("value", -1, 1.0), _MATRIX, _VECTORS), "number of rows"),
    Case("transform that has no inverse", "D3", data(_scaled(0.0), _TRANSFORM, _TWO), "inverted safely"),
    Case("transform that is not positive", "D3", data(_set("value", 1, 1e3), _TRANSFORM, _TWO), "inverted safely"),
    Case("statistics", "D4", data(_same, _PART, _ROWS, write_statistics=True), _SHAPE),
    Case("metadata by keys", "D4", footer(_key_value), _SHAPE),
    Case("old version of Parquet", "D4", footer(_version), _SHAPE),
    Case("another writer", "D4", footer(_writer), _SHAPE),
    Case("codec that no release has", "D4", data(_same, _PART, _ROWS, compression="GZIP"), _SHAPE),
    Case("size that is no sum", "D4", footer(_total), _SHAPE),
    Case("more values than pages hold", "D5", footer(_more_values), _SHAPE),
    Case(
        "encoding that no release has",
        "D6",
        data(_same, _PART, _ROWS, column_encoding={"proline": "DELTA_BINARY_PACKED"}, use_dictionary=False),
        _SHAPE,
    ),
    Case(
        "small row groups", "D7", data(_same, _PART, _ROWS, row_group_size=100), "row group|a list that no release has"
    ),
]
