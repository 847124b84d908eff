"""Dates and times in text: with zones, by a declared format, and the formats that are advised."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from tests.unit.publisher.data.test_coding import by_policy, policy_of, source

from dp_bundle.base.errors import CellError, PolicyError, SchemaError
from dp_publish.data.dates import fitting_formats, has_date, moments, to_iso
from dp_publish.data.typed import encode

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
    assert encode(cells, source("time"))[0][0].as_py() == pytest.approx(INSTANT + seconds, abs=1e-6)
    assert encode(cells, source("date"))[0][0].as_py() == INSTANT // 86_400 + day


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_means_what_python_says(form: str) -> None:
    """Of any moment, to the microsecond; and what does not exist is refused."""
    chance, words, expected = random.Random(1), list[str](), list[float]()
    for _ in range(300):
        moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + chance.random() * datetime.timedelta(35_000)
        words.append(moment.strftime(form))
        read = datetime.datetime.strptime(words[-1], form).replace(tzinfo=datetime.UTC)
        expected.append((read if has_date(form) else read.replace(year=1970)).timestamp())
    found = moments(to_iso(pa.array([*words, None]), form)).to_pylist()
    assert found == [*(pytest.approx(each, abs=1e-6) for each in expected), None]


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


def test_all_bad_columns_are_named_at_once(tmp_path: Path) -> None:
    """With the first line of each, in the first rows or late, whatever is wrong: words, dates, and levels."""
    rows = [f"{place},1,2,2024-01-31,a" for place in range(50)]
    rows[10] = "10,x,2,2024-01-31,b"
    rows[3] = "3,1,05.10.2024,31.1.2024,a"
    rows[20] = "s3cr3t,1,2,2024-01-31,a"
    said = {"d": {"kind": "date"}, "e": {"kind": "ordered", "levels": ["a", "c"]}}
    (tmp_path / "t.csv").write_text("a,b,c,d,e\n" + "\n".join(rows))
    with pytest.raises(CellError) as refused:
        by_policy(tmp_path / "t.csv", **said)
    assert (refused.value.line, refused.value.columns) == (5, ["a", "b", "c", "d", "e"])
    for told in ("line 5, column 'c'", "line 5, column 'd'", "line 12, column 'b', line 22, column 'a'", "column 'e'"):
        assert told in str(refused.value)
    assert "s3cr3t" not in str(refused.value)

    (tmp_path / "t.csv").write_text("a,b,c,d,e\n" + "1,1,2,2024-01-31,a\n" * 5000 + "1,1,2,2024-01-31,zz\n")
    with pytest.raises(CellError) as refused:
        by_policy(tmp_path / "t.csv", **said)
    assert (refused.value.line, refused.value.columns) == (5002, ["e"])
