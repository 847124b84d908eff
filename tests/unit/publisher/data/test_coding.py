"""Cells that are no numbers become those numbers that their declared source says, whatever type they come in."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from dp_bundle.base.errors import PolicyError, SchemaError
from dp_bundle.describe.meanings import describe_sources
from dp_bundle.manifest.sources import SOURCE_KINDS, Source, SourceKindName
from dp_publish import Policy, publish
from dp_publish.data.cells import MISSING
from dp_publish.data.kinds import KINDS, ColumnType, Kind, KindName
from dp_publish.data.table import coded, open_table
from dp_publish.data.typed import encode
from dp_publish.policy.columns import choose_columns, prepare, resolve

UTC = datetime.UTC


MOMENT = datetime.datetime(2026, 3, 1, 23, 30, tzinfo=UTC)  # the second of March in Berlin


MARCH = (datetime.date(2026, 3, 1) - datetime.date(1970, 1, 1)).days


def source(kind: str, *levels: str, **said: Any) -> Source:
    """Return the source of a column `x`."""
    columns = [f"x={level}" for level in levels] if kind == "category" and len(levels) > 2 else ["x"]
    return Source(name="x", kind=kind, columns=tuple(columns), levels=levels, **said)


def lists(values: pa.Array, of: Source) -> list[list[Any]]:
    """Return what is published, column by column."""
    return [column.to_pylist() for column in encode(values, of)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["b", "a", None, "c"]),
        pa.array(["b", "a", None, "c"], pa.large_string()),
        pa.array(["b", "a", None, "c"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["b", "a", "c"], pa.large_string())),
    ],
    ids=lambda values: str(values.type),
)
def test_levels_have_one_column_each(values: pa.Array) -> None:
    """Whatever text is stored as, a row has a 1 in its level's column alone, and an empty cell is empty in all."""
    table = coded(open_table(pa.table({"x": values})), [source("category", "a", "b", "c")])
    kinds = dict.fromkeys(("x=a", "x=b", "x=c"), "integer")
    (batch,) = table.read(kinds, 100)
    assert batch.to_pydict() == {"x=a": [0, 1, None, 0], "x=b": [1, 0, None, 0], "x=c": [0, 0, None, 1]}
    assert table.types == dict.fromkeys(kinds, ColumnType.INTEGER)


@pytest.mark.parametrize(
    ("values", "of"),
    [
        (pa.array(["c", "a", None, "b", "c"]), source("category", "a", "b", "c")),
        (pa.array(["c", "a", None, "b", "c"]), source("ordered", "a", "b", "c", "d")),
        (pa.array([True, None, False, True]), source("boolean", "false", "true")),
        (pa.array([9, None, 3, 7], pa.date32()), source("date")),
        (pa.array(["2026-03-01", None, "2025-01-31"]), source("date")),
        (pa.array([9, None, 3, 7], pa.timestamp("s")), source("time")),
        (pa.array([9, None, 3, 7], pa.time32("s")), source("time-of-day")),
        (pa.array([9, None, 3, 7], pa.duration("s")), source("duration")),
        (pa.array([9.0, None, float("nan"), 7.0]), Source(name="x", kind="number", columns=("x", "x=(no value)"))),
    ],
    ids=lambda each: each.kind if isinstance(each, Source) else str(each.type),
)
def test_a_cell_becomes_the_same_in_every_batch(values: pa.Array, of: Source) -> None:
    """Alone, with one neighbour, or among all: neither the least value nor the levels that occur matter."""
    forms = [of]
    if not of.has_level_columns and not of.has_gap_column and of.kind != "boolean":
        forms.append(Source(name="x", kind=of.kind, columns=("x", "x=(no value)"), levels=of.levels))
    for form in forms:
        whole = encode(values, form)
        for size in (1, 2):
            parts = [encode(values.slice(start, size), form) for start in range(0, len(values), size)]
            for column, *pieces in zip(whole, *parts, strict=True):
                assert str(pa.concat_arrays(pieces)) == str(column)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.int64()])
def test_whole_numbers_may_be_levels(kind: pa.DataType) -> None:
    """Codes of hospitals, say, are levels by their digits."""
    assert lists(pa.array([10, 7, 10], kind), source("category", "7", "8", "10")) == [[0, 1, 0], [0, 0, 0], [1, 0, 1]]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, 2.5, None, 10.0]),
        pa.array([1.0, 2.5, float("nan"), 10.0], pa.float32()),
        pa.array(np.array([1.0, 2.5, np.nan, 10.0], np.float16)),
        pa.array([1.0, 2.5, None, 10.0]).dictionary_encode(),
        pa.array([decimal.Decimal("1.00"), decimal.Decimal("2.50"), None, decimal.Decimal("10.00")]),
        pd.DataFrame({"x": [1.0, 2.5, np.nan, 10.0]}),
        pd.DataFrame({"x": pd.array([1.0, 2.5, None, 10.0], "Float64")}),
        "1.0\n2.5\nNA\n10.00",
        "+1\n2.5\n\n10,0",
    ],
    ids=lambda values: values if isinstance(values, str) else str(getattr(values, "type", values.__class__)),
)
def test_whole_floats_are_codes(values: Any, tmp_path: Path) -> None:
    """What a gap or a program makes of integers is the level that has their digits; in text files, too."""
    table = pa.table({"x": values}) if isinstance(values, pa.Array) else values
    if isinstance(values, str):
        (tmp_path / "t.csv").write_text("x;n\n" + "".join(f"{word};0\n" for word in values.split("\n")))
        table = tmp_path / "t.csv"
    for levels in ([1, 10, 2.5], ["1", "10", "2.5"], ["1.0", "10", "2.5"]):
        found, _ = by_policy(table, x={"kind": "ordered", "levels": levels, "missing": "drop"})
        assert found["x"] == [0, 2, None, 1]


def test_a_level_with_zeros_is_itself(tmp_path: Path) -> None:
    """Codes are told apart by zeros before them, and a thousand is not one, whatever its point means."""
    (tmp_path / "t.csv").write_text("x;n\n01067;1\n1067.0;1\n1,000;1\n1.5;1\n")
    levels = ["01067", "1067", "1"]
    found, _ = by_policy(tmp_path / "t.csv", x={"kind": "category", "categories": levels, "other": "rest"})
    assert found["x=01067"] == [1, 0, 0, 0]
    assert found["x=1067"] == [0, 1, 0, 0]
    assert found["x=rest"] == [0, 0, 1, 1]


def test_truth_values_may_be_levels() -> None:
    """`true` is a level of a column of truth values."""
    assert lists(pa.array([True, False, None]), source("boolean", "false", "true")) == [[1, 0, None]]


@pytest.mark.parametrize("kind", ["category", "boolean"])
def test_two_levels_are_one_column(kind: str) -> None:
    """Of two levels the second is 1."""
    assert lists(pa.array(["f", "m", "m", None]), source(kind, "f", "m")) == [[0, 1, 1, None]]


def test_ordered_levels_are_their_places() -> None:
    """From 0 on."""
    values = pa.array(["high", "low", None, "middle"])
    assert lists(values, source("ordered", "low", "middle", "high")) == [[2, 0, None, 1]]


def test_other_values_and_gaps_are_levels_if_declared() -> None:
    """What is not listed counts as `other`, and an empty cell as the level of gaps, not as other."""
    of = source("category", "a", "rest", "(none)", other="rest", gaps="(none)")
    assert lists(pa.array(["a", "zz", None, "rest"]), of) == [[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]]


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
def test_unlisted_values_are_refused_unseen(kind: pa.DataType) -> None:
    """The message names the column and never the value, which is private."""
    with pytest.raises(SchemaError, match="column 'x' has a value that is none of its levels") as refused:
        encode(pa.array(["1", "2", "987654"]).cast(kind), source("category", "1", "2", "3"))
    assert "987654" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("values", "days"),
    [
        (pa.array([datetime.date(2026, 3, 1), None]), [MARCH, None]),
        (pa.array([datetime.date(1969, 12, 31)], pa.date64()), [-1]),
        (pa.array([datetime.datetime(1969, 12, 31, 23, 0)], pa.timestamp("ns")), [-1]),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), [MARCH]),
        (pa.array([MOMENT], pa.timestamp("ms", "Europe/Berlin")), [MARCH + 1]),
        (pa.array([MOMENT, None], pa.timestamp("s", "-05:00")), [MARCH, None]),
        (pa.array([MOMENT], pa.timestamp("ns", "+05:30")), [MARCH + 1]),
        (pa.array(["2026-03-01", None, "1970-01-01"]), [MARCH, None, 0]),
        (pa.array(["2026-03-01 23:59:59"]), [MARCH]),
    ],
    ids=str,
)
def test_dates_are_days(values: pa.Array, days: list[int | None]) -> None:
    """Days since 1970, of a moment the date where its zone is."""
    assert lists(values, source("date")) == [days]


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (pa.array([MOMENT, None], pa.timestamp("us", "UTC")), [MOMENT.timestamp(), None]),
        (pa.array([MOMENT], pa.timestamp("us", "Asia/Kolkata")), [MOMENT.timestamp()]),
        (pa.array([datetime.datetime(2026, 3, 1, 23, 30)]), [MOMENT.timestamp()]),
        (pa.array([1_500_000_001], pa.timestamp("ns")), [1.5]),
        (pa.array(["1970-01-01 00:00:01.5"]), [1.5]),
    ],
    ids=str,
)
def test_moments_are_seconds(values: pa.Array, seconds: list[float | None]) -> None:
    """Seconds since 1970 in UTC, wherever the moment was written down, to a millionth."""
    assert encode(values, source("time"))[0].to_pylist() == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([datetime.time(1, 0, 0, 500_000), None]),
        pa.array([3_600_500, None], pa.time32("ms")),
        pa.array([3_600_500_000_000, None], pa.time64("ns")),
    ],
    ids=str,
)
def test_times_of_the_day_are_seconds_since_midnight(values: pa.Array) -> None:
    """In whichever unit they are stored."""
    assert lists(values, source("time-of-day")) == [[3600.5, None]]


@pytest.mark.parametrize(("unit", "each"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_durations_are_seconds(unit: str, each: int) -> None:
    """In whichever unit they are stored."""
    assert lists(pa.array([90 * each, None], pa.duration(unit)), source("duration")) == [[90.0, None]]


@pytest.mark.parametrize(("kind", "said"), [("date", "no date, like 2026-01-31"), ("time", "no time, like")])
def test_text_that_is_no_date_is_refused_unseen(kind: str, said: str) -> None:
    """The message says what a date looks like, and not what the cell does."""
    with pytest.raises(SchemaError, match=said) as refused:
        encode(pa.array(["2026-01-31", "secret"]), source(kind))
    assert "secret" not in str(refused.value)


def policy_of(dialect: dict[str, Any] | None = None, **columns: Any) -> Policy:
    """Return a policy for a cell, with these columns and this section on the text file."""
    said = {"dataset": {"name": "d"}, "privacy": {"unit": "cell", "mu": 9.0}}
    return Policy.model_validate({**said, "columns": columns, "table": dialect or {}})


def by_policy(source: Any, dialect: dict[str, Any] | None = None, **columns: Any) -> Any:
    """Return what is read of a table under a policy, and the columns' kinds."""
    prepared = prepare(source, policy_of(dialect, **columns))
    return pa.Table.from_batches(prepared.table.read(prepared.kinds, 3)).to_pydict(), prepared.kinds


def test_text_files_are_coded(tmp_path: Path) -> None:
    """In CSV all cells are text, of which the policy says what they mean."""
    lines = ["sex,grade,born,n,word", "f,2,1999-12-31,4,x", "m,10,1970-01-01,5,y", "m,2,2026-03-01,6,z"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found, kinds = by_policy(
        tmp_path / "t.csv",
        sex={"kind": "boolean", "levels": ["f", "m"]},
        grade={"kind": "category", "categories": [2, 10, 11]},
        born={"kind": "date", "bounds": [datetime.date(1900, 1, 1), datetime.date(2030, 1, 1)]},
        n={"kind": "integer", "bounds": [0, 10]},
        word={"drop": True},
    )
    assert found == {
        "sex": [0, 1, 1],
        "grade=2": [1, 0, 1],
        "grade=10": [0, 1, 0],
        "grade=11": [0, 0, 0],
        "born": [10956, 0, MARCH],
        "n": [4, 5, 6],
    }
    assert set(kinds.values()) == {"integer"}


def test_a_column_without_a_section_of_its_kind_stays_as_it_is() -> None:
    """Decimals and whole numbers beside a category are read as numbers."""
    numbers = {"d": pa.array([decimal.Decimal("1.25"), None]), "i": [3, 4]}
    bounded = {"d": {"bounds": [0, 2]}, "i": {"bounds": [0, 9]}}
    found, kinds = by_policy(
        pa.table({"c": ["u", "v"], **numbers}), c={"kind": "category", "categories": ["u", "v", "w"]}, **bounded
    )
    assert found == {"c=u": [1, 0], "c=v": [0, 1], "c=w": [0, 0], "d": [1.25, None], "i": [3, 4]}
    assert list(kinds.values()) == ["integer"] * 3 + ["continuous", "integer"]


@pytest.mark.parametrize(
    ("values", "section", "said"),
    [
        ([["a"]], {"kind": "category", "categories": ["a", "b"]}, "pyarrow.Table.flatten"),
        ([{"a": 1}], {"kind": "ordered", "levels": ["a", "b"]}, "pyarrow.Table.flatten"),
        ([1.5], {"kind": "time", "bounds": [0, 9]}, "of a type .continuous. that kind"),
        ([3], {"kind": "date", "bounds": [0, 9]}, "of a type .integer. that kind"),
        (["3"], {"kind": "duration", "bounds": [0, 9]}, "of a type .text. that kind"),
        ([datetime.timedelta(1)], {"kind": "time", "bounds": [0, 9]}, "of a type .duration. that kind"),
        ([b"a"], {"kind": "category", "categories": ["a", "b"]}, "of a type .other. that kind"),
        ([datetime.date(2026, 1, 31)], {"kind": "integer", "bounds": [0, 9]}, r"type .date. that kind = .integer. is"),
        ([datetime.date(2026, 1, 31)], {"kind": "boolean"}, r"type .date. that kind = .boolean. is"),
    ],
)
def test_columns_that_cannot_be_read_as_their_kind_are_refused(values: Any, section: Any, said: str) -> None:
    """In one sentence that says what to do; nothing is read."""
    with pytest.raises(PolicyError, match=said) as refused:
        by_policy(pa.table({"x": values}), x=section)
    assert "drop = true" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_that_is_taken_is_refused() -> None:
    """No column gets the name of another one's level."""
    section = {"kind": "category", "categories": ["a", "b", "c"]}
    with pytest.raises(PolicyError, match="a name that another column has: rename one"):
        by_policy(pa.table({"x": ["a"], "x=b": [1]}), x=section)


def test_policies_may_be_resolved_twice() -> None:
    """What was worked in once, as a job keeps it, is left as it is."""
    columns = {"x": {"kind": "category", "categories": ["a", "b"], "other": "c"}, "*": {"bounds": [0, 5]}}
    policy = policy_of(**columns)
    table = open_table(pa.table({"x": ["a", "q"], "n": [1, 2], "b": [True, False]}))
    _, once = resolve(table, policy)
    kept = Policy.model_validate_json(once.model_dump_json(exclude_unset=True))
    twice_coded, twice = resolve(table, kept)
    assert (twice.sources, dict(twice.columns)) == (once.sources, dict(once.columns))
    kinds, _ = choose_columns(twice_coded, twice)
    assert list(kinds) == ["x=a", "x=b", "x=c", "n", "b"]
    (batch,) = twice_coded.read(kinds, 9)
    assert batch.column("x=c").to_pylist() == [0, 1]


DATE = datetime.date(2026, 1, 31)


def frame_of(cells: list[Any]) -> pd.DataFrame:
    """Return a frame with a column of objects, and one of numbers."""
    return pd.DataFrame({"x": pd.Series(cells, dtype=object), "n": [0.5] * len(cells)})


def sections(said: dict[str, Any]) -> dict[str, Any]:
    """Return what a policy says of the columns of such a frame."""
    return {"x": said, "n": {"bounds": [0, 1]}} if said else {"n": {"bounds": [0, 1]}}


def read(source: Any, **said: Any) -> list[list[Any]]:
    """Return what is read of the column of objects or words."""
    found, kinds = by_policy(source, **sections(said))
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
                release = publish(frame_of(each), policy_of(**sections(said)), out=out, key=key).release
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
        ([pd.Timestamp(1.5, unit="s", tz="Asia/Tokyo"), "1970-01-02", None], "time", [1.5, 86400.0, None]),
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


WORDS = [*dict.fromkeys(word.lower() for word in MISSING if word), "NA", "None", "N/A", "Null"]


def both(folder: Path, words: list[str | None], **said: Any) -> list[dict[str, list[Any]]]:
    """Return what is read of a column of words, written as text and as Parquet."""
    frame = pd.DataFrame({"x": pd.array(words, "string"), "n": [1.5] * len(words)})
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    return [by_policy(folder / name, x=said, n={"bounds": [0, 9]})[0] for name in ("t.csv", "t.parquet")]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("missing", ["refuse", "drop", "category"])
def test_a_listed_category_is_no_gap(word: str, missing: str, tmp_path: Path) -> None:
    """Whatever becomes of gaps, and in Parquet as in text."""
    text, parquet = both(tmp_path, [word, "b", word], kind="category", categories=[word, "b", "c"], missing=missing)
    assert text == parquet
    assert text[f"x={word}"] == [1, 0, 1]


@pytest.mark.parametrize("word", WORDS)
def test_a_listed_level_is_no_gap(word: str, tmp_path: Path) -> None:
    """Ordered levels, and those of a truth value, are read as they are listed."""
    for kind, levels in (("ordered", [word, "b", "c"]), ("boolean", [word, "b"])):
        text, parquet = both(tmp_path, [word, "b"], kind=kind, levels=levels, missing="drop")
        assert text == parquet == {"x": [0, 1], "n": [1.5, 1.5]}


def test_other_words_for_gaps_stay_gaps(tmp_path: Path) -> None:
    """A level NA takes nothing from empty cells and other words."""
    (tmp_path / "t.csv").write_text("x,n\nNA,1\n,2\nnull,3\n NO ,4\n")
    columns = {"x": {"kind": "ordered", "levels": ["NO", "NA"], "missing": "drop"}, "n": {"missing": "drop"}}
    assert by_policy(tmp_path / "t.csv", **columns)[0]["x"] == [1, None, None, 0]


def test_a_level_takes_nothing_from_other_columns(tmp_path: Path) -> None:
    """NA is a value where it is listed, and a gap in a column beside it."""
    (tmp_path / "t.csv").write_text("x,y,n\nNA,NA,NA\nb,b,2\n")
    columns = {name: {"kind": "ordered", "levels": levels} for name, levels in (("x", ["NA", "b"]), ("y", ["a", "b"]))}
    found, _ = by_policy(tmp_path / "t.csv", **columns)
    assert found == {"x": [0, 1], "y": [None, 1], "n": [None, 2.0]}


def test_declared_words_for_gaps_are_gaps_of_levels_and_dates(tmp_path: Path) -> None:
    """With blanks around them, as in columns of numbers."""
    (tmp_path / "t.csv").write_text("x,d\nb, 2026-01-31\n unknown, unknown\n a ,NA\n")
    columns = {"x": {"kind": "ordered", "levels": ["a", "b"]}, "d": {"kind": "date"}}
    found = by_policy(tmp_path / "t.csv", {"missing_values": ["unknown"]}, **columns)[0]
    assert found == {"x": [1, None, 0], "d": [20484, None, None]}


def test_blanks_around_a_level_are_no_part_of_it(tmp_path: Path) -> None:
    """Unless a level is declared with them; text and Parquet agree."""
    text, parquet = both(tmp_path, ["a ", " a", "b "], kind="ordered", levels=["a", "b", " a"])
    assert text == parquet
    assert text["x"] == [0, 2, 1]


def test_a_category_for_all_others_may_be_spelled_like_a_gap(tmp_path: Path) -> None:
    """The word that counts all other values is a level as well."""
    said = {"kind": "category", "categories": ["a", "b"], "other": "None", "missing": "category"}
    (text, parquet) = both(tmp_path, ["a", "None", "zz", None], **said)
    assert text == parquet
    assert (text["x=None"], text["x=(no value)"]) == ([0, 1, 1, 0], [0, 0, 0, 1])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["NA"], {"kind": "category", "categories": ["NA", "b"]}),
        ([" NA "], {"kind": "ordered", "levels": ["NA", "b"]}),
        (["-9", "none"], {"kind": "boolean", "levels": ["none", "some"]}),
        (["9.00"], {"kind": "ordered", "levels": [1, 2, 9]}),
        (["rest"], {"kind": "category", "categories": ["a", "b"], "other": "rest"}),
    ],
)
def test_a_word_is_a_level_or_a_gap(words: list[str], said: dict[str, Any]) -> None:
    """A policy that lists it as both is refused, by the column and the word."""
    with pytest.raises(
        ValidationError, match=r"missing_values .* of column 'x'.*: leave it out of one of the two lists"
    ):
        policy_of({"missing_values": words}, x=said)
    assert policy_of({"missing_values": words}, x={**said, "drop": True}).columns["x"].drop


def test_the_level_of_gaps_is_no_category() -> None:
    """Gaps that are counted as a level are not mixed with a category of that name."""
    with pytest.raises(ValidationError, match=r"\(no value\)"):
        policy_of(x={"kind": "category", "categories": ["(no value)", "b"], "missing": "category"})
    assert policy_of(x={"kind": "category", "categories": ["(no value)", "b"]})


def test_unlisted_words_for_gaps_in_parquet_are_values(tmp_path: Path) -> None:
    """Parquet says itself where there is no value, so that a word that is not listed is refused."""
    pd.DataFrame({"x": ["NA", "b"]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(SchemaError, match="none of its levels"):
        by_policy(tmp_path / "t.parquet", x={"kind": "ordered", "levels": ["a", "b"]})


TABLES = ["csv", "parquet", "string", "object", "category", "large_string", "string_view"]


def table_of(words: list[str], kind: str, folder: Path) -> Any:
    """Return a table with a column of words, of this kind, and one of numbers."""
    frame = pd.DataFrame({"x": pd.array(words, "string"), "n": [0.5] * len(words)})
    if kind == "csv":
        frame.to_csv(folder / "t.csv", index=False)
    if kind == "parquet":
        frame.to_parquet(folder / "t.parquet")
    if kind in ("csv", "parquet"):
        return folder / f"t.{kind}"
    if kind in ("object", "category", "string"):
        return frame.astype({"x": kind})
    return pa.table({"x": pa.array(words, getattr(pa, kind)()), "n": frame["n"]})


@pytest.mark.parametrize("kind", TABLES)
def test_truth_values_are_words_in_tables_of_every_kind(kind: str, tmp_path: Path) -> None:
    """They are published, and were left out of typed tables as if nothing was said of them."""
    source = table_of(["yes", "No", " TRUE", "false", "1", "0"], kind, tmp_path)
    found, kinds = by_policy(source, **sections({"kind": "boolean"}))
    assert found["x"] == [1, 0, 1, 0, 1, 0]
    assert kinds == {"x": "integer", "n": "continuous"}


@pytest.mark.parametrize("kind", TABLES)
def test_numbers_are_words_in_tables_of_every_kind(kind: str, tmp_path: Path) -> None:
    """In the spellings of a text file."""
    source = table_of(["7", "+3", " 2.0", "1e1", "-4"], kind, tmp_path)
    for said, number in (("integer", int), ("continuous", float)):
        (found,) = read(source, kind=said, bounds=[-9, 9])
        assert found == [7, 3, 2, 10, -4]
        assert {type(each) for each in found} == {number}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("word", ["s3cr3t", "2.5", "maybe", "1e300", "99999999999999999999"])
def test_other_words_are_refused(word: str, kind: str, tmp_path: Path) -> None:
    """By the name of their column; only a text file's sentence names the line."""
    with pytest.raises(SchemaError, match="'x'") as refused:
        read(table_of(["1", word], kind, tmp_path), kind="integer", bounds=[0, 9])
    assert word not in str(refused.value)


def test_files_and_frames_have_one_manifest(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Columns of truth values are the same wherever the words are."""
    policy, told = policy_of(**sections({"kind": "boolean"})), []
    for kind in TABLES:
        source = table_of(["yes", "no"] * 50, kind, tmp_path)
        out = tmp_path / f"{kind}.bundle.tar"
        told.append(publish(source, policy, out=out, key=key).release.columns)
    assert all(columns == told[0] for columns in told)
    assert [column.name for column in told[0]] == ["x", "n"]


def test_every_kind_has_its_name_in_every_list() -> None:
    """What policies may say, and what manifests may state, are the kinds of the two tables, each described."""
    assert {*get_args(KindName)} == {kind.said_as or name for name, kind in KINDS.items()}
    assert {*get_args(SourceKindName)} == {*SOURCE_KINDS} == {kind.source for kind in KINDS.values()}
    assert {kind.levels for kind in KINDS.values()} == {None, "categories", "levels"}
    for name, kind in KINDS.items():
        stated = SOURCE_KINDS[kind.source]
        assert name == kind.name
        assert stated.meaning
        assert stated.has_levels == (kind.levels is not None)


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.stored_as], ids=lambda kind: kind.name)
def test_every_kind_is_read_as_it_is_written(kind: Kind, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Values in a kind's own type are published as its numbers, to the step, in its unit, and described."""
    numbers, gaps = np.array([0.0, 7.0, 1234.0, 86_399.0]), np.array([False, False, True, False])
    assert kind.unit
    assert kind.looks
    assert kind.hint
    values = kind.decode(numbers, gaps)
    (found,) = encode(values, source(kind.source))
    assert found.to_pylist() == [None if gap else number for number, gap in zip(numbers, gaps, strict=True)]
    assert np.allclose(kind.decoded(numbers + 1e-9), numbers, atol=1e-8)

    said = {"kind": kind.said_as or kind.name, "bounds": [0, 86_400], "missing": "midpoint"}
    out = tmp_path / "t.bundle.tar"
    release = publish(pa.table({"x": values}), policy_of(x=said), out=out, key=key).release
    assert (release.columns[0].unit, release.sources[0].kind) == (kind.unit, kind.source)
    assert SOURCE_KINDS[kind.source].meaning in describe_sources(release)[0]
    with pytest.raises(SchemaError, match=f"has a value that is no {kind.looks}"):
        encode(pa.array([b"secret"]), source(kind.source))


def test_every_kind_that_is_read_can_be_made() -> None:
    """A kind without levels that is read from something says what its numbers are decoded to, of a fixed width."""
    read = [kind for kind in KINDS.values() if kind.read_from and kind.levels is None]
    assert [kind.name for kind in read if kind.stored_as is None or not kind.stored_as.bit_width] == []
    assert [kind.name for kind in read if ColumnType.TEXT in kind.read_from and kind.name not in WRITTEN] == []


WRITTEN = {
    "date": ("2026-03-01", MARCH),
    "time": ("2026-03-01 23:30:00", MARCH * 86_400.0 + 84_600.0),
}  # and what they are


@pytest.mark.parametrize("kind", WRITTEN)
def test_words_of_a_kind_are_read(kind: str) -> None:
    """A value as it is written in a text file is the number that it stands for."""
    word, number = WRITTEN[kind]
    assert lists(pa.array([word, None]), source(kind)) == [[number, None]]


def test_whatever_cannot_be_read_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a kind's own, which has the value in it, does not reach anybody."""

    def fails(values: pa.Array) -> pa.Array:
        raise ValueError(f"cannot read {values.to_pylist()}")

    monkeypatch.setitem(KINDS, "date", dataclasses.replace(KINDS["date"], encode=fails))
    with pytest.raises(SchemaError, match="is no date") as refused:
        encode(pa.array(["of Ann's"]), source("date"))
    assert "Ann" not in str(refused.value)
    assert refused.value.__cause__ is None
