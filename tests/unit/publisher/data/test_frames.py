"""Columns of a data frame without a type of their own: no cell decides what is published."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import PolicyError, SchemaError
from dp_publish import Policy, publish
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import open_table
from dp_publish.policy.columns import choose_columns, resolve

DATE = datetime.date(2026, 1, 31)


def frame_of(cells: list[Any]) -> pd.DataFrame:
    """Return a frame with a column of objects, and one of numbers."""
    return pd.DataFrame({"x": pd.Series(cells, dtype=object), "n": [0.5] * len(cells)})


def policy_of(**columns: Any) -> Policy:
    """Return a policy for it."""
    said = {"x": columns, "n": {"bounds": [0, 1]}} if columns else {"n": {"bounds": [0, 1]}}
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": {"unit": "cell", "mu": 50.0}, "columns": said})


def read(frame: pd.DataFrame, **columns: Any) -> list[list[Any]]:
    """Return what is read of the column of objects."""
    table, resolved = resolve(open_table(frame), policy_of(**columns))
    kinds, _ = choose_columns(table, resolved)
    found = pa.Table.from_batches(table.read(kinds, 2)).to_pydict()
    return [found[name] for name in kinds if name != "n"]


NEIGHBOURS = [
    ([1, 2, 3], [1, 2, 3.5]),
    ([1, 2, 3], [1, 2, "3"]),
    (["a", "b"], ["a", 2]),
    ([True, False], [True, 0.5]),
    ([None, None], [None, 1]),
    ([DATE, DATE], [DATE, datetime.datetime(2026, 1, 31, 12)]),
]


@pytest.mark.parametrize("cells", [cells for pair in NEIGHBOURS for cells in pair], ids=str)
@pytest.mark.parametrize("said", [{}, {"bounds": [0, 9]}, {"bounds": [0, 9], "missing": "indicator"}, {"unit": "kg"}])
@pytest.mark.parametrize("categorical", [False, True])
def test_a_column_without_a_type_is_refused(cells: list[Any], said: dict[str, Any], categorical: bool) -> None:
    """With the line that gives it one; in both of two neighbouring tables, so that the refusal tells nothing."""
    frame = frame_of(cells)
    if categorical:
        categories = pd.Index(list(dict.fromkeys(cell for cell in cells if cell is not None)), dtype=object)
        frame["x"] = pd.Categorical(cells, categories=categories)
    with pytest.raises(PolicyError, match=r"frame\['x'\] = frame\['x'\]\.astype\('Float64'\)") as refused:
        read(frame, **said)
    assert "kind" in str(refused.value)


@pytest.mark.parametrize("cells", [[1, 2, 3], [1, 2, 3.5], [1, 2, None], [True, False], [DATE, DATE]], ids=str)
def test_categories_are_of_no_type_that_pandas_found(cells: list[Any]) -> None:
    """One cell makes categories of integers those of floats."""
    frame = frame_of(cells).astype({"x": "category"})
    with pytest.raises(PolicyError, match=r"\['x'\]\.astype\('Float64'\)"):
        read(frame)


def test_categories_of_a_kind_are_their_cells() -> None:
    """As the cells of a column of objects are."""
    frame = frame_of([2, 1.5, None]).astype({"x": "category"})
    assert read(frame, kind="continuous", bounds=[0, 9]) == [[2.0, 1.5, None]]


@pytest.mark.parametrize(("cells", "neighbour"), NEIGHBOURS, ids=str)
def test_no_cell_decides_what_a_manifest_says(
    cells: list[Any], neighbour: list[Any], tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Whatever the policy says of the column, two neighbouring tables have one manifest, or one refusal."""
    for number, said in enumerate(({}, {"kind": "continuous", "bounds": [0, 9], "missing": "midpoint"})):
        told = []
        for name, each in (("a", cells), ("b", neighbour)):
            try:
                out = tmp_path / f"{number}{name}.bundle.tar"
                release = publish(frame_of(each), policy_of(**said), out=out, key=key).release
                told.append([column.model_dump() for column in release.columns])
            except (PolicyError, SchemaError):
                told.append([])
        assert told[0] == told[1] or not all(told)


@pytest.mark.parametrize(
    ("cells", "kind", "found"),
    [
        ([1, 2.5, "3", True, None, decimal.Decimal("0.25")], "continuous", [1.0, 2.5, 3.0, 1.0, None, 0.25]),
        ([1, 2.0, "3", False, np.int8(4), pd.NA, np.nan], "integer", [1, 2, 3, 0, 4, None, None]),
        ([DATE, datetime.datetime(2026, 1, 31, 23, 59), "2026-01-31", pd.NaT], "date", [20484, 20484, 20484, None]),
        ([pd.Timestamp(1.5, unit="s"), "1970-01-02", None], "time", [1.5, 86400.0, None]),
    ],
)
def test_declared_kinds_are_read_cell_by_cell(cells: list[Any], kind: str, found: list[Any]) -> None:
    """A cell means what it means by itself, whatever stands beside it."""
    said = {"bounds": [0, 9]} if kind in ("continuous", "integer") else {}
    assert read(frame_of(cells), kind=kind, **said) == [found]


def test_levels_are_read_from_objects() -> None:
    """By their digits and words, with gaps as gaps, and NA as the level that it is listed as."""
    cells = [1, 1.0, "2", np.float64(2), True, "NA", None]
    (places,) = read(frame_of(cells), kind="ordered", levels=[1, 2, True, "NA"])
    assert places == [0, 0, 1, 1, 2, 3, None]


@pytest.mark.parametrize(
    "cell",
    [
        object(),
        [1],
        b"s3cr3t",
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        datetime.time(1),
        datetime.timedelta(1),
        np.datetime64("2026-01-01", "ns"),
    ],
    ids=lambda cell: type(cell).__name__,
)
def test_cells_that_are_no_number_or_word_are_refused_unseen(cell: Any) -> None:
    """By the column's name alone, when the column is read; a dropped one is not."""
    with pytest.raises(SchemaError, match="'x'") as refused:
        read(frame_of([1, cell]), kind="continuous", bounds=[0, 9])
    assert "s3cr3t" not in str(refused.value)
    assert read(frame_of([1, cell]), drop=True) == []


def test_types_of_a_frame_are_its_dtypes() -> None:
    """Nullable and Arrow types are declared, in empty frames as in full ones; categories that pandas found are not."""
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None], "Int64"),
            "f": pd.array([1, None], "Float32"),
            "b": pd.array([True, None], "boolean"),
            "s": pd.array(["a", None], "string"),
            "d": pd.Categorical([1, 2]),
            "w": pd.Categorical(["a", None], pd.Index(["a"], dtype="string")),
            "o": pd.Series([1, None], dtype=object),
            "t": pd.to_datetime(["2026-01-01", None]),
        }
    )
    for each in (frame, frame.iloc[:0]):
        table = open_table(each)
        assert [*table.types.values()] == [
            ColumnType.INTEGER,
            ColumnType.CONTINUOUS,
            ColumnType.INTEGER,
            ColumnType.TEXT,
            ColumnType.OBJECT,
            ColumnType.TEXT,
            ColumnType.OBJECT,
            ColumnType.TIME,
        ]
        assert table.booleans == {"b"}


def test_categories_of_a_frame_are_no_levels() -> None:
    """Which categories a categorical column has, and in which order, is of no consequence: the policy lists levels."""
    full = pd.DataFrame({"x": pd.Categorical(["b", "a"], categories=["b", "a", "unused"], ordered=True), "n": 0.5})
    bare = pd.DataFrame({"x": pd.Categorical(["b", "a"]), "n": 0.5})
    said = {"kind": "category", "categories": ["a", "b", "c"]}
    assert read(full, **said) == read(bare, **said) == [[0, 1], [1, 0], [0, 0]]
