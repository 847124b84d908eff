"""Cells become those numbers that their declared source says, whatever type they come in; dates, by a format."""

import datetime
import decimal
import random
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from dp_bundle.base.errors import CellError, PolicyError, SchemaError
from dp_bundle.describe.sentences import describe_sources
from dp_bundle.manifest.columns import SOURCE_KINDS, Source, SourceKindName
from dp_publish import Policy, publish
from dp_publish.data.cells import GAPS
from dp_publish.data.dates import fitting_formats, has_date, read_moments
from dp_publish.data.kinds import KINDS, ColumnType, Kind, KindName
from dp_publish.data.table import open_table
from dp_publish.data.typed import encode
from dp_publish.policy.columns import prepare

UTC = datetime.UTC


MOMENT = datetime.datetime(2026, 3, 1, 23, 30, tzinfo=UTC)  # the second of March in Berlin


MARCH = (datetime.date(2026, 3, 1) - datetime.date(1970, 1, 1)).days


def source(kind: str, *levels: str, **said: Any) -> Source:
    """Return the source of a column `x`."""
    columns = [f"x={level}" for level in levels] if kind == "category" and len(levels) > 2 else ["x"]
    return Source(name="x", kind=kind, columns=tuple(columns), levels=levels, **said)


@pytest.mark.parametrize(
    ("values", "of"),
    [
        (pa.array(["c", "a", None, "b", "c"]), source("category", "a", "b", "c")),
        (pa.array([True, None, False, True]), source("boolean", "false", "true")),
        (pa.array(["2026-03-01", None, "2025-01-31"]), source("date")),
        (pa.array([9.0, None, float("nan"), 7.0]), Source(name="x", kind="number", columns=("x", "x=(no value)"))),
    ],
    ids=lambda each: each.kind if isinstance(each, Source) else str(each.type),
)
def test_a_cell_becomes_the_same_in_every_batch(values: pa.Array, of: Source) -> None:
    """Alone, with one neighbour, or among all: neither the least value nor the levels that occur matter."""
    whole, _ = encode(values, of)
    for size in (1, 2):
        parts = [encode(values.slice(start, size), of)[0] for start in range(0, len(values), size)]
        for column, *pieces in zip(whole, *parts, strict=True):
            assert str(pa.concat_arrays(pieces)) == str(column)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(np.array([1.0, 2.5, np.nan, 10.0], np.float16)),
        pa.array([1.0, 2.5, None, 10.0]).dictionary_encode(),
        pa.array([decimal.Decimal("1.00"), decimal.Decimal("2.50"), None, decimal.Decimal("10.00")]),
        pd.DataFrame({"x": pd.array([1.0, 2.5, None, 10.0], "Float64")}),
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
    for levels in ([1, 10, 2.5], ["1.0", "10", "2.5"]):
        found, _ = by_policy(table, x={"kind": "ordered", "levels": levels, "missing": "drop"})
        assert found["x"] == [0, 2, None, 1]


@pytest.mark.parametrize(
    ("values", "kind", "found"),
    [
        (pa.array([datetime.datetime(1969, 12, 31, 23, 0)], pa.timestamp("ns")), "date", [-1]),
        (pa.array([MOMENT], pa.timestamp("ms", "Europe/Berlin")), "date", [MARCH + 1]),
        (pa.array([MOMENT, None], pa.timestamp("s", "-05:00")), "date", [MARCH, None]),
        (pa.array([MOMENT, None], pa.timestamp("us", "Asia/Kolkata")), "time", [MOMENT.timestamp(), None]),
        (pa.array([3_600_500_000_000], pa.time64("ns")), "time-of-day", [3600.5]),
        (pa.array([90 * 10**9], pa.duration("ns")), "duration", [90.0]),
    ],
    ids=str,
)
def test_dates_are_days_and_times_seconds(values: pa.Array, kind: str, found: list[float | None]) -> None:
    """Since 1970 or midnight, in whichever unit and zone they are stored; the date of a moment is that of its zone."""
    assert encode(values, source(kind))[0][0].to_pylist() == pytest.approx(found, abs=1e-9)


def policy_of(dialect: dict[str, Any] | None = None, **columns: Any) -> Policy:
    """Return a policy for a cell, with these columns and this section on the text file."""
    said = {"dataset": {"name": "d"}, "privacy": {"unit": "cell", "mu": 9.0}}
    return Policy.model_validate({**said, "columns": columns, "table": dialect or {}})


def by_policy(source: Any, dialect: dict[str, Any] | None = None, **columns: Any) -> Any:
    """Return what is read of a table under a policy, and the columns' kinds."""
    prepared = prepare(source, policy_of(dialect, **columns))
    return pa.Table.from_batches(prepared.table.read(prepared.kinds, 60)).to_pydict(), prepared.kinds


@pytest.mark.parametrize(
    ("values", "section", "said"),
    [
        ([["a"]], {"kind": "category", "categories": ["a", "b"]}, "flatten"),
        ([1.5], {"kind": "time", "bounds": [0, 9]}, "continuous"),
        ([datetime.timedelta(1)], {"kind": "time", "bounds": [0, 9]}, "duration"),
        ([b"a"], {"kind": "category", "categories": ["a", "b"]}, "other"),
    ],
)
def test_columns_that_cannot_be_read_as_their_kind_are_refused(values: Any, section: Any, said: str) -> None:
    """In one sentence that says what to do; nothing is read."""
    with pytest.raises(PolicyError, match=said) as refused:
        by_policy(pa.table({"x": values}), x=section)
    assert "drop = true" in str(refused.value)


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


@pytest.mark.parametrize(
    "cell",
    [
        object(),
        [1],
        b"s3cr3t",
        datetime.time(1),
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
    with pytest.raises(SchemaError, match="'odd'"):
        next(open_table(pd.DataFrame({"odd": pd.arrays.SparseArray([0.0, 1.0])})).read({"odd": "integer"}, 9))


WORDS = [*filter(None, GAPS), "NA"]


def both(folder: Path, words: list[str | None], **said: Any) -> list[dict[str, list[Any]]]:
    """Return what is read of a column of words, written as text and as Parquet."""
    frame = pd.DataFrame({"x": pd.array(words, "string"), "n": [1.5] * len(words)})
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    return [by_policy(folder / name, x=said, n={"bounds": [0, 9]})[0] for name in ("t.csv", "t.parquet")]


@pytest.mark.parametrize("word", WORDS)
def test_a_listed_level_is_no_gap(word: str, tmp_path: Path) -> None:
    """Whatever becomes of gaps, of every kind with levels, and in Parquet as in text."""
    for missing in ("refuse", "drop", "category"):
        text, parquet = both(tmp_path, [word, "b", word], kind="category", categories=[word, "b", "c"], missing=missing)
        assert text == parquet
        assert text[f"x={word}"] == [1, 0, 1]
    said = {"kind": "category", "categories": ["a", "b"], "other": word, "missing": "category"}
    text, parquet = both(tmp_path, ["a", word, "zz", None], **said)
    assert text == parquet
    assert (text[f"x={word}"], text["x=(no value)"]) == ([0, 1, 1, 0], [0, 0, 0, 1])


def test_a_level_takes_nothing_from_other_words_and_columns(tmp_path: Path) -> None:
    """NA is a value where it is listed, and a gap beside it; declared words for gaps are gaps of levels and dates."""
    (tmp_path / "t.csv").write_text("x,y,n,d\nNA,NA,NA, 2026-01-31\n b ,b,2, unknown\n,null,3,NA\nunknown , b,4,\n")
    columns = {name: {"kind": "ordered", "levels": levels} for name, levels in (("x", ["NA", "b"]), ("y", ["a", "b"]))}
    found, _ = by_policy(tmp_path / "t.csv", {"missing_values": ["unknown"]}, **columns, d={"kind": "date"})
    assert found["x"] == [0, 1, None, None]
    assert found["y"] == [None, 1, None, 1]
    assert (found["n"], found["d"]) == ([None, 2.0, 3.0, 4.0], [20484, None, None, None])


def test_blanks_around_a_level_are_no_part_of_it(tmp_path: Path) -> None:
    """Unless a level is declared with them; text and Parquet agree."""
    text, parquet = both(tmp_path, ["a ", " a", "b "], kind="ordered", levels=["a", "b", " a"])
    assert text == parquet
    assert text["x"] == [0, 2, 1]


def test_every_kind_has_its_name_in_every_list() -> None:
    """What policies may say, and what manifests may state, are the kinds of the two tables."""
    assert {*get_args(KindName)} == {kind.said_as or name for name, kind in KINDS.items()}
    assert {*get_args(SourceKindName)} == {*SOURCE_KINDS} == {kind.source for kind in KINDS.values()}
    for name, kind in KINDS.items():
        assert name == kind.name
        assert SOURCE_KINDS[kind.source].has_levels == (kind.levels is not None)


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.stored_as], ids=lambda kind: kind.name)
def test_every_kind_is_read_as_it_is_written(kind: Kind, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Values in a kind's own type are published as its numbers, to the step, in its unit, and described."""
    steps, stored = (1, pa.int32()) if kind.name == "date" else (10**6, pa.int64())
    values = pa.array([0, 7 * steps, None, 86_399 * steps], stored).cast(kind.stored_as)
    ((found,), _) = encode(values, source(kind.source))
    assert found.to_pylist() == [0.0, 7.0, None, 86_399.0]

    said = {"kind": kind.said_as or kind.name, "bounds": [0, 86_400], "missing": "midpoint"}
    out = tmp_path / "t.bundle.tar"
    release = publish(pa.table({"x": values}), policy_of(x=said), out=out, key=key).release
    assert (release.columns[0].unit, release.sources[0].kind) == (kind.unit, kind.source)
    assert SOURCE_KINDS[kind.source].meaning in describe_sources(release)[0]
    with pytest.raises(SchemaError, match=kind.looks):
        encode(pa.array([b"secret"]), source(kind.source))


INSTANT = datetime.datetime(2026, 3, 27, 23, 30, tzinfo=datetime.UTC).timestamp()
FORMATS = [
    *("%m/%d/%y", "%Y%m%d%H%M%S", "%B %d, %Y %I:%M:%S %p", "%d%b%Y"),
    *("%Y-%m-%dT%H:%M:%S.%f%z", "%I:%M %p", "%Y-%m", "100 %% of %d. %B %Y"),
]


@pytest.mark.parametrize(
    ("word", "seconds", "day"),
    [
        ("2026-03-27T23:30:00Z", 0, 0),
        ("2026-03-28 01:30:00+02:00", 0, 1),
        ("2026-03-27 18:30:00.250 -05", 0.25, 0),
        ("2026-03-27 23:30:00.123456789", 0.123456, 0),
        ("2026-03-27", -84_600, 0),
    ],
)
@pytest.mark.parametrize("beside", [None, "2026-03-27 23:30:00", "2026-03-27T23:30:00Z"])
def test_instants_with_a_zone_are_read_cell_by_cell(word: str, seconds: float, day: int, beside: str | None) -> None:
    """Whatever is beside them; a date is the one where the zone is."""
    cells = pa.array([word, beside])
    assert encode(cells, source("time"))[0][0][0].as_py() == pytest.approx(INSTANT + seconds, abs=1e-6)
    assert encode(cells, source("date"))[0][0][0].as_py() == INSTANT // 86_400 + day


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_means_what_python_says(form: str) -> None:
    """Of any moment, to the microsecond; and what does not exist is refused."""
    chance, words, expected = random.Random(1), list[str](), list[float]()
    for _ in range(300):
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + chance.random() * datetime.timedelta(35_000)
        words.append(moment.strftime(form))
        read = datetime.datetime.strptime(words[-1], form).replace(tzinfo=datetime.UTC)
        expected.append((read if has_date(form) else read.replace(year=1970)).timestamp())
    found = read_moments(pa.array([*words, None]), form).values.cast(pa.int64()).to_pylist()
    assert found == [*(pytest.approx(each * 1e6, abs=1) for each in expected), None]


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("%d.%m.%Y", "31.02.2024"),
        ("%d.%m.%Y", "05.10.2024 12:00"),
        ("%Y%m%d", "2024105"),
        ("%H:%M", "24:00"),
        ("%d %b %Y", "5 Okt 2024"),
    ],
)
def test_a_format_is_applied_exactly(form: str, word: str, tmp_path: Path) -> None:
    """A cell that it does not fit is refused with its line and without its value."""
    fitting = datetime.datetime(2024, 10, 5, 10).strftime(form)
    (tmp_path / "t.csv").write_text(f"n,d\n1,{fitting}\n2,NA\n3,{word}\n")
    said = {"kind": "date" if has_date(form) else "time", "format": form, "missing": "drop"}
    with pytest.raises(CellError, match="line 4, column 'd'") as refused:
        by_policy(tmp_path / "t.csv", d=said)
    assert word not in str(refused.value)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"kind": "integer", "format": "%d.%m.%Y"}, "format"),
        ({"kind": "date", "format": "%H:%M"}, "times"),
        ({"kind": "date", "format": "%d.%m.%Y %Q"}, "not %Q"),
        ({"kind": "date", "format": "%Y-%m-%d %y"}, "twice"),
        ({"kind": "time", "format": "%I:%M"}, "hold"),
    ],
)
def test_formats_that_mean_nothing_are_refused(said: dict[str, Any], message: str) -> None:
    """When the policy is read."""
    with pytest.raises(ValidationError, match=message):
        policy_of(d=said)


def test_a_format_is_for_text() -> None:
    """A column of dates has none, and patterns give theirs to dates alone."""
    dates = pa.table({"d": [datetime.date(2026, 1, 31)], "n": [1]})
    with pytest.raises(PolicyError, match="text"):
        by_policy(dates, d={"kind": "date", "format": "%d.%m.%Y"})
    words = pa.table({"d": ["31.01.2026"], "n": [1]})
    found, _ = by_policy(words, **{"*": {"kind": "date", "format": "%d.%m.%Y"}, "n": {"kind": "integer"}})
    assert found == {"d": [20484], "n": [1]}


@pytest.mark.parametrize(
    ("words", "formats"),
    [
        (["05.10.2024", "31.12.2024"], ["%d.%m.%Y"]),
        (["10/05/2024"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["10/05/2024", "10/25/2024"], ["%m/%d/%Y"]),
        (["1/2/2024 03:15 PM", "1/31/2024 03:15 AM"], ["%m/%d/%Y %I:%M %p"]),
        (["05.10.2024", "unknown"], []),
        ([], []),
    ],
)
def test_formats_that_fit_are_advised(words: list[str], formats: list[str], tmp_path: Path) -> None:
    """In the refusal of a column with a kind and of one without; both, where either fits; and no value is told."""
    assert fitting_formats(words) == formats
    if not formats:
        return
    lines = "".join(f"{place},{word}\n" for place, word in enumerate(words))
    (tmp_path / "t.csv").write_text(f"n,d\n{lines}9,\n")
    pq.write_table(pa.table({"n": [1] * len(words), "d": words}), tmp_path / "t.parquet")
    advice = "format = " + " or ".join(f'"{form}"' for form in formats)
    kind = "time" if ":" in words[0] else "date"
    for suffix, sections in (("csv", {}), ("parquet", {"d": {"kind": kind}})):
        with pytest.raises(SchemaError) as refused:
            by_policy(tmp_path / f"t.{suffix}", **sections)
        assert advice in str(refused.value)
        assert ("line 2, column 'd'" in str(refused.value)) == (suffix == "csv")
        assert words[0] not in str(refused.value)
