"""The raw table: every source and type, what is refused, soon, and that errors quote no value."""

import datetime
import decimal
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy, policy_with
from tests.unit.publisher.data.test_text_file import read

from dp_bundle.base.errors import DpGraphError, KeyStoreError, PolicyError, SchemaError
from dp_bundle.trust.signing import load_private_key
from dp_publish import publish
from dp_publish.data import dialect
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import open_table
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.file import load_policy

FRAME = pd.DataFrame({"x": [0.5, 1.5, None], "n": pd.array([1, None, 3], dtype="Int64"), "t": ["a", "b", "s3cr3t"]})


CONTENT = {"n": [1, None, 3], "x": [0.5, 1.5, None]}


class Stream:
    """What has a stream of Arrow's, and nothing else that anybody knows."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.__arrow_c_stream__ = frame.__arrow_c_stream__


def _folder(frame: pd.DataFrame, path: Path) -> None:
    path.mkdir()
    for index in range(len(frame)):
        frame.iloc[index : index + 1].to_parquet(path / f"{index}.parquet")


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "a.parquet": lambda frame, path: frame.to_parquet(path),
    "a.feather": lambda frame, path: frame.to_feather(path),
    "a.arrow": lambda frame, path: feather.write_feather(frame, str(path), compression="uncompressed"),
    "a.csv": lambda frame, path: frame.to_csv(path, index=False),
    "folder": _folder,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_file_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    """Columns come in the order asked for, rows in the file's, nulls stay, in batches no larger than asked."""
    WRITERS[name](FRAME, tmp_path / name)
    for path in (tmp_path / name, str(tmp_path / name)):
        for rows in (1, 2, 1000):
            assert read(path, {"n": "integer", "x": "continuous"}, rows) == CONTENT
    types = open_table(tmp_path / name).types
    assert list(types) == ["x", "n", "t"]
    text = "csv" in name
    assert (types["t"], types["x"]) == (
        (ColumnType.UNKNOWN, ColumnType.UNKNOWN) if text else (ColumnType.TEXT, ColumnType.CONTINUOUS)
    )


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([True, None, False]), "integer", [1, None, 0]),
        (pa.array([2**64 - 1, 2**63, 5, None], pa.uint64()), "integer", [2**63 - 1, 2**63 - 1, 5, None]),
        (pa.array([2**64 - 1, None], pa.uint64()), "continuous", [2.0**64, None]),
        (pa.array([3.0, None, math.nan]), "integer", [3, None, None]),
        (pa.array([decimal.Decimal("2.5")], pa.decimal256(60, 1)), "continuous", [2.5]),
        (pa.array([math.inf, -math.inf]), "continuous", [math.inf, -math.inf]),
        (pa.array(np.array([1.25], np.float16)), "integer", None),
        (pa.array([decimal.Decimal("1.25")]), "integer", None),
        (pa.array([math.inf]), "integer", None),
    ],
)
def test_numeric_types_keep_their_values(values: pa.Array, kind: str, expected: list[Any] | None) -> None:
    """To the last digit that the kind holds; what does not fit one is refused by name, and never rounded in silence."""
    source = pa.table({"v": values})
    if expected is not None:
        assert read(source, {"v": kind}) == {"v": expected}
        return
    with pytest.raises(SchemaError, match="'v'"):
        read(source, {"v": kind})


def by_duckdb(cells: dict[str, Any]) -> Any:
    """Return a relation of DuckDB, which is installed where the slow tests run."""
    import duckdb

    return duckdb.from_arrow(pa.table(cells))


@pytest.mark.parametrize(
    "make",
    [
        pl.DataFrame,
        pl.LazyFrame,
        lambda cells: Stream(pl.DataFrame(cells)),
        pytest.param(by_duckdb, marks=pytest.mark.slow),
    ],
)
def test_a_frame_is_the_table_of_arrow_that_it_holds(make: Any, key: Ed25519PrivateKey, tmp_path: Path) -> None:
    """Frames of others than pandas are read, planned and published like the same columns of Arrow's."""
    day = datetime.date(2026, 1, 31)
    cells = {"n": [1, None, 3], "x": [0.5, 1.5, None], "t": ["a", None, "c"], "d": [day, None, day]}
    frame = make(cells)
    assert open_table(frame).types == open_table(pa.table(cells)).types
    assert read(frame, {"n": "integer", "x": "continuous", "t": "text"}) == {name: cells[name] for name in "nxt"}
    assert read(frame, {"d": "raw"}) == {"d": cells["d"]}
    policy = policy_with({"n": {"bounds": (0, 9), "missing": "drop"}, "x": {"drop": True}}, mu=1.0)
    assert publish(frame, policy, out=tmp_path / "a.tar", key=key).release.n_rows == 2
    with pytest.raises(SchemaError, match="list"):
        open_table([1])  # type: ignore[arg-type]


TWICE = pa.Table.from_arrays([[1], [2]], names=["a", "a"])


@pytest.mark.parametrize(
    "source",
    [
        pd.DataFrame([[1, 2]], columns=["1", 1]),
        TWICE,
        "a.parquet",
        "a.csv",
    ],
)
def test_duplicate_names_are_refused(source: Any, tmp_path: Path) -> None:
    """Two columns of one name, also if only their spelling as text agrees, are refused, in memory and in files."""
    pq.write_table(TWICE, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("a,b,a\n1,2,3\n")
    with pytest.raises(SchemaError, match="two columns"):
        open_table(tmp_path / source if isinstance(source, str) else source)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b"PAR1 not Parquet PAR1"),
        ("a.arrow", b"not Arrow"),
        ("a.csv", b"\xff\xfe\x00"),
        ("a.csv.gz", b"a,b\n1,2\n"),
        ("a.csv", b'"' + b"x" * 200_000),
        ("a.xlsx", b"PK"),
        ("a.sav", b"$FL2 not SPSS"),
    ],
)
def test_what_is_no_table_is_a_schema_error(name: str, content: bytes, tmp_path: Path) -> None:
    """Broken and unknown files are refused in one line that names the file."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SchemaError, match=name) as caught:
        open_table(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.csv"])
def test_tables_without_rows_have_columns_and_no_batches_with_rows(name: str, tmp_path: Path) -> None:
    """An empty table opens, and reading it gives no row."""
    WRITERS[name](FRAME.iloc[:0], tmp_path / name)
    table = open_table(tmp_path / name)
    assert list(table.types) == ["x", "n", "t"]
    assert sum(batch.num_rows for batch in table.read({"x": "continuous"}, 10)) == 0


def test_columns_with_dots_are_not_taken_for_nested_ones(tmp_path: Path) -> None:
    """A flat column named like a path into a nested one is read as itself."""
    nested = pa.table({"a": [{"b": 1.0}], "a.b": [2.0]})
    pq.write_table(nested, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", {"a.b": "continuous"}) == {"a.b": [2.0]}


def test_a_pipe_is_no_table(tmp_path: Path) -> None:
    """A pipe, which nobody may ever write to, is refused without waiting."""
    for name in ("t.csv", "t.parquet", "t.arrow"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(SchemaError, match="pipe"):
            open_table(tmp_path / name)


@pytest.mark.parametrize("source", ["https:/example.org/t.csv", "a\0b.csv", "", "/", "x" * 300 + ".csv"])
def test_what_is_no_file_is_no_table(source: str) -> None:
    """Addresses, names that no file can have, and folders without Parquet are refused."""
    with pytest.raises(SchemaError):
        open_table(source)


@pytest.mark.parametrize("content", [b"x", pytest.param(b"a,b\n1", marks=pytest.mark.slow), b"\n\nx"])
def test_a_line_without_an_end_is_not_read_whole(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first line, or another, of two gigabytes is refused when so many characters of it were read as a table has."""
    monkeypatch.setattr(dialect, "_LONGEST_LINE", 2**20)
    path = tmp_path / "t.csv"
    with path.open("wb") as file:
        file.write(content + b"x" * 2**21)
        file.truncate(2**31)
    with pytest.raises(SchemaError, match="1,048,576"):
        list(open_table(path).read({"a": "continuous"}, 10))


def test_devices_are_no_policies_and_no_keys() -> None:
    """What never ends is not read."""
    with pytest.raises(PolicyError, match="regular"):
        load_policy(Path("/dev/zero"), "t", {})
    with pytest.raises(KeyStoreError):
        load_private_key(Path("/dev/zero"))


@pytest.mark.parametrize("out", ["a\0b.tar", ".", "/", "", "x" * 300 + ".tar"])
def test_names_that_no_file_can_have_cost_nothing(out: str, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A bundle that could not get its name is refused before anything is booked."""
    data = tmp_path / "t.csv"
    data.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(DpGraphError):
        publish(data, make_policy({"a": [0, 5], "b": [0, 5]}, mu=1.0), out=out, key=key)
    assert Ledger().entries() == []


def test_a_name_that_is_no_utf_8_is_no_tables(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """It is refused in one sentence."""
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv"))
    odd.write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(SchemaError, match="UTF-8"):
        publish(odd, make_policy({"a": [0, 5]}, mu=1.0), out=tmp_path / "a.tar", key=key)
