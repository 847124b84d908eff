"""Folders of Parquet as programs write them: columns by name, in one type, and in folders named by keys."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_bundle.base.errors import SchemaError
from dp_publish.data.kinds import ColumnType
from dp_publish.data.row_ranges import describe_files
from dp_publish.data.table import open_table


def write(folder: Path, **files: pa.Table) -> Path:
    """Write tables under names, perhaps in folders."""
    for name, table in files.items():
        path = folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
    return folder


def read(folder: Path, **kinds: str) -> dict[str, list[Any]]:
    """Read columns, in batches and by the rows' numbers, which must agree."""
    table = open_table(folder)
    whole = pa.Table.from_batches(list(table.read(kinds, 2)))
    last = whole.num_rows
    parts = [list(table.read(kinds, 3, start, stop)) for start, stop in ((0, last // 2), (last // 2, last))]
    assert pa.Table.from_batches([*parts[0], *parts[1]]).equals(whole)
    return whole.to_pydict()


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    """In whichever order each file has them, which may be another than that in which they are asked for."""
    write(tmp_path, a=pa.table({"x": [1.5], "y": [10]}), b=pa.table({"y": [20], "x": [2.5]}))
    assert read(tmp_path, y="integer", x="continuous") == {"y": [10, 20], "x": [1.5, 2.5]}


@pytest.mark.parametrize(
    ("one", "other", "declared"),
    [
        (pa.array([1.5, None], pa.float32()), pa.array([0.1, 2.0]), ColumnType.CONTINUOUS),
        (pa.array([1, 2], pa.uint32()), pa.array([-1, 3], pa.int32()), ColumnType.INTEGER),
        (pa.nulls(2), pa.array([0.5, 1.5]), ColumnType.CONTINUOUS),
        (pa.array(["a", None]).dictionary_encode(), pa.array(["b", "a"], pa.large_string()), ColumnType.TEXT),
        (pa.array(["a", None]), pa.array([*map(str, range(3000))]), ColumnType.TEXT),  # of few words, and of many
    ],
    ids=str,
)
def test_a_column_has_a_type_that_holds_all_values(
    one: pa.Array, other: pa.Array, declared: ColumnType, tmp_path: Path
) -> None:
    """Exactly, whichever file comes first."""
    for name, values in (("there", (one, other)), ("back", (other, one))):
        folder = write(
            tmp_path / name, **{letter: pa.table({"v": each}) for letter, each in zip("ab", values, strict=True)}
        )
        assert open_table(folder).types == {"v": declared}
        expected = [value for each in values for value in each.to_pylist()]
        assert read(folder, v="raw")["v"] == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1]), pa.array(["1"])),
        (pa.array([True]), pa.array([1])),
        (pa.array([1], pa.date32()), pa.array([1], pa.timestamp("us"))),
        (None, pa.array([1])),
    ],
    ids=str,
)
def test_types_that_nothing_holds_both_of_are_refused(one: pa.Array | None, other: pa.Array, tmp_path: Path) -> None:
    """With the column and the file, which others may lack."""
    first = pa.table({"u": [1]} if one is None else {"u": [1], "v": one})
    write(tmp_path, a=first, b=first, c=pa.table({"u": [1], "v": other}))
    with pytest.raises(SchemaError, match=r"c\.parquet.* v |'v' is .*c\.parquet"):
        open_table(tmp_path)


def test_a_number_that_would_be_rounded_is_refused_unseen(tmp_path: Path) -> None:
    """A whole number beyond 2^53 beside floats is none of theirs; the file and the column are named."""
    write(tmp_path, a=pa.table({"v": [0.5]}), b=pa.table({"v": [2**53 + 1]}))
    with pytest.raises(SchemaError, match=r"'v'.*b\.parquet") as refused:
        list(open_table(tmp_path).read({"v": "continuous"}, 10))
    assert str(2**53 + 1) not in str(refused.value)


def test_names_of_folders_are_columns(tmp_path: Path) -> None:
    """Nested or not: text with gaps, of numbers too, as their values decide nothing; files of no key stay apart."""
    for year, place, x in (("2025", "a%2Fb", 1.5), ("2025", "__HIVE_DEFAULT_PARTITION__", 2.5), ("2026", "c", 3.5)):
        write(tmp_path / "t", **{f"year={year}/place={place}/part-0": pa.table({"x": [x, x]})})
    write(tmp_path / "t", **{"_temporary/0/part-0": pa.table({"x": [9.0]})})
    (tmp_path / "t" / "_SUCCESS").touch()
    table = open_table(tmp_path / "t")
    assert table.types == {"x": ColumnType.CONTINUOUS, "year": ColumnType.TEXT, "place": ColumnType.TEXT}
    assert read(tmp_path / "t", place="text", x="continuous") == {
        "place": [None, None, "a/b", "a/b", "c", "c"],
        "x": [2.5, 2.5, 1.5, 1.5, 3.5, 3.5],
    }
    assert read(tmp_path / "t", year="integer") == {"year": [2025, 2025, 2025, 2025, 2026, 2026]}
    assert table.pieces()[1] == 6
    assert len(describe_files(tmp_path / "t")) == 3


@pytest.mark.parametrize("other", ["month=1/a", "a"])
def test_folders_of_other_keys_are_refused(other: str, tmp_path: Path) -> None:
    """And so are files beside such folders, which would be left out in silence."""
    write(tmp_path, **{"year=2025/a": pa.table({"x": [1]}), other: pa.table({"x": [1]})})
    with pytest.raises(SchemaError, match="keys"):
        open_table(tmp_path)


def test_a_key_that_files_hold_too_is_theirs(tmp_path: Path) -> None:
    """Some programs write the column into the files as well."""
    write(tmp_path, **{"year=2025/a": pa.table({"year": ["25"], "x": [1]})})
    assert read(tmp_path, year="text") == {"year": ["25"]}
