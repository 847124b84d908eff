"""Cells that are no numbers become those numbers that their declared source says, whatever type they come in."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dp_bundle.base.errors import PolicyError, SchemaError
from dp_bundle.manifest.sources import Source
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import coded, open_table
from dp_publish.data.typed import encode
from dp_publish.policy.columns import choose_columns, resolve
from dp_publish.policy.model import Policy

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
        (
            pa.array([9.0, None, float("nan"), 7.0]),
            Source(name="x", kind="number", columns=("x", "x=(no value)")),
        ),
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


def by_policy(table: Any, **columns: Any) -> Any:
    """Return what is read of a table under a policy, and the columns' kinds."""
    privacy = {"unit": "cell", "mu": 1.0}
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns})
    found, resolved = resolve(open_table(table), policy)
    kinds, _ = choose_columns(found, resolved)
    return pa.Table.from_batches(found.read(kinds, 2)).to_pydict(), kinds


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
        ([1.5], {"kind": "category", "categories": ["1.5", "2"]}, "of a type .continuous. that kind"),
        ([3], {"kind": "date", "bounds": [0, 9]}, "of a type .integer. that kind"),
        (["3"], {"kind": "duration", "bounds": [0, 9]}, "of a type .text. that kind"),
        ([datetime.timedelta(1)], {"kind": "time", "bounds": [0, 9]}, "of a type .duration. that kind"),
        ([b"a"], {"kind": "category", "categories": ["a", "b"]}, "of a type .other. that kind"),
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
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": {"mu": 1.0}, "columns": columns})
    table = open_table(pa.table({"x": ["a", "q"], "n": [1, 2], "b": [True, False]}))
    _, once = resolve(table, policy)
    kept = Policy.model_validate_json(once.model_dump_json(exclude_unset=True))
    twice_coded, twice = resolve(table, kept)
    assert (twice.sources, dict(twice.columns)) == (once.sources, dict(once.columns))
    kinds, _ = choose_columns(twice_coded, twice)
    assert list(kinds) == ["x=a", "x=b", "x=c", "n", "b"]
    (batch,) = twice_coded.read(kinds, 9)
    assert batch.column("x=c").to_pylist() == [0, 1]
