"""Files of SPSS, Stata and SAS, and spreadsheets: labels, codes, gaps, dates, and what is said of what is not read."""

import datetime as dt
import re
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest
from tests.conftest import Run

from dp_bundle.base.errors import CellError, SchemaError
from dp_publish.data import foreign
from dp_publish.data.dialect import Dialect
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Table, open_table
from dp_publish.policy.template import policy_template

LABELS = {1: "never", 2: "often,\n or more", 3: "always", 99: "refused"}
ANSWERS = pd.DataFrame(
    {
        "q": [1.0, 2, 4, 99, None] * 3,
        "size": [1.0, 10, 2.5, 99, None] * 3,
        "twice": [1.0, 2, 3, 3, None] * 3,
        "sex": ["f", "m", "", "x", "f"] * 3,
    }
)


def _write(path: Path) -> None:
    labels: dict[str, Any] = {"q": LABELS, "size": {10: "10 or more", 99: "refused"}, "twice": {1: "a", 2: "a", 3: ""}}
    if path.suffix == ".dta":
        pyreadstat.write_dta(ANSWERS.assign(whole=pd.array([1, 2, 3] * 5, "int16")), path, variable_value_labels=labels)
        return
    pyreadstat.write_sav(
        ANSWERS,
        path,
        compress=True,
        column_labels={"q": "How often?"},
        variable_value_labels={**labels, "sex": {"f": "woman", "m": "man"}},
        missing_ranges={"q": [{"lo": 90, "hi": 99}], "size": [99], "sex": ["x"]},
        variable_measure={"q": "ordinal", "twice": "scale"},
    )


def _read(table: Table, kind: str, *names: str) -> list[list[Any]]:
    """Return the columns' first five cells; any range of rows has the same."""
    kinds = dict.fromkeys(names, kind)
    found = pa.Table.from_batches(table.read(kinds, 4))
    some = table.read(kinds, 4, 1, found.num_rows)
    assert pa.Table.from_batches(some).equals(found.slice(1))
    return [found[name].to_pylist()[:5] for name in names]


@pytest.mark.parametrize("suffix", ["zsav", "dta"])
def test_the_kind_chooses_labels_or_codes(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words are labels, numbers codes; a code without a label is its number, and a user's missing value a gap."""
    monkeypatch.setattr(foreign, "_PIECE", 7)
    _write(tmp_path / f"a.{suffix}")
    table = open_table(tmp_path / f"a.{suffix}")
    gap, often = (None, "often, or more") if suffix != "dta" else ("refused", "often, or more")
    assert table.count_rows() == 15
    assert _read(table, "raw", "q", "size", "twice") == [
        ["never", often, "4", gap, None],
        ["1", "10 or more", "2.5", gap, None],
        ["a (1)", "a (2)", "3", "3", None],
    ]
    assert _read(table, "continuous", "q") == [[1.0, 2.0, 4.0, None if gap is None else 99.0, None]]
    assert table.types["q"] is ColumnType.TEXT
    if suffix == "dta":
        assert table.types["whole"] is ColumnType.INTEGER
        assert table.described["q"].levels == ("never", often, "always", "refused")
        return
    assert table.types["size"] is table.types["twice"] is ColumnType.CONTINUOUS
    assert _read(table, "text", "sex") == [["woman", "man", None, None, "woman"]]
    said = policy_template("a.sav", "a", table.types, described=table.described)
    assert 'kind = "ordered"' in said
    assert 'levels = ["never", "often, or more", "always"]\ndescription = "How often?"\nmissing = "refuse"' in said
    assert re.search(r'categories = \["woman", "man"\]\n.*\n.*\nmissing = "category"', said)


@pytest.mark.parametrize("suffix", ["sav", "dta", "xpt", "por"])
def test_dates_and_times_are_what_the_programs_show(suffix: str, tmp_path: Path) -> None:
    """A date, a moment and a time of the day have the type that their format says, and their value."""
    cells: dict[str, list[Any]] = {
        "D": [dt.date(1950, 2, 28), dt.date(2026, 11, 27), None],
        "M": [dt.datetime(2026, 11, 27, 23, 59, 59, 500_000), dt.datetime(1959, 12, 31, 0, 0, 1), None],
        "T": [dt.time(0, 0, 1), dt.time(23, 59, 59), None],
        "X": [0.5, -2.25, None],
    }
    frame = pd.DataFrame(cells, dtype=object).astype({"X": float})
    getattr(pyreadstat, {"xpt": "write_xport"}.get(suffix, f"write_{suffix}"))(frame, tmp_path / f"a.{suffix}")
    table = open_table(tmp_path / f"a.{suffix}")
    assert table.types == dict(
        zip("DMTX", (ColumnType.DATE, ColumnType.TIME, ColumnType.TIME_OF_DAY, ColumnType.CONTINUOUS), strict=True)
    )
    assert dict(zip("DMTX", _read(table, "raw", *"DMTX"), strict=True)) == cells
    assert table.count_rows() == 3
    assert (table.held > 0) == (suffix in ("xpt", "por"))


def test_how_long_something_took_is_no_time_of_the_day(tmp_path: Path) -> None:
    """A time beyond 24 hours is refused without being quoted, and DTIME, with days, is a duration."""
    frame = pd.DataFrame({"t": [90_061.5, 1.0], "d": [90_061.5, None]})
    formats, labels = {"t": "TIME8", "d": "DTIME12.2"}, {"d": {1: "short"}}
    pyreadstat.write_sav(frame, tmp_path / "a.sav", variable_format=formats, variable_value_labels=labels)
    table = open_table(tmp_path / "a.sav")
    assert table.types["d"] is ColumnType.DURATION
    assert _read(table, "raw", "d") == [[dt.timedelta(seconds=90_061.5), None]]
    with pytest.raises(SchemaError, match="'t'") as caught:
        _read(table, "raw", "t")
    assert "90" not in str(caught.value)


def test_whatever_a_reader_makes_of_damage_is_a_sentence(tmp_path: Path) -> None:
    """A name that is no text is none to the reader, and its file is refused."""
    _write(tmp_path / "a.sav")
    whole = (tmp_path / "a.sav").read_bytes()
    (tmp_path / "a.sav").write_bytes(whole.replace(b"TWICE", b"\xffWICE", 1))
    with pytest.raises(SchemaError, match="it is damaged"):
        open_table(tmp_path / "a.sav")


def _sheet(path: Path, *rows: list[Any]) -> None:
    book = openpyxl.Workbook()
    first = book.active
    first.title = "Grades"
    for row in rows:
        first.append(row)
    book.create_sheet("Notes")
    hidden = book.create_sheet("Old", 0)
    hidden.sheet_state = "hidden"
    book.save(path)


def test_a_sheet_is_read_as_the_text_file_that_it_can_be_saved_as(tmp_path: Path) -> None:
    """Each cell is a word whatever the others are, numbers have all digits, and the policy names what is no number."""
    _sheet(
        tmp_path / "a.xlsx",
        [],
        ["n", "x", "day", "word"],
        [1, 1 / 3, dt.date(2026, 1, 31), "NA"],
        [],
        ["2", "n/a", dt.datetime(2026, 2, 1, 12, 30), 7],
        [True, -999, None, "x"],
        [],
    )
    table = open_table(tmp_path / "a.xlsx", Dialect(missing_values=("-999",)))
    assert table.remark == "of 2 sheets, the first is read: 'Grades'"
    assert {*table.types.values()} == {ColumnType.UNKNOWN}
    assert table.count_rows() == 4
    assert _read(table, "integer", "n") == [[1, None, 2, 1]]
    assert _read(table, "continuous", "n", "x") == [[1.0, None, 2.0, 1.0], [1 / 3, None, None, None]]
    words = [["2026-01-31", "", "2026-02-01 12:30:00", ""], ["NA", "", "7", "x"]]
    assert _read(table, "raw", "day", "word") == words
    assert "column_1" in open_table(tmp_path / "a.xlsx", Dialect(header="none")).types
    assert 'decimal = "' not in policy_template("a.xlsx", "a", table.types, table.layout)
    with pytest.raises(CellError, match=r"line 3, column 'day'.* line 6, column 'word'"):
        _read(table, "continuous", "day", "word")
    with pytest.raises(SchemaError, match="header"):
        open_table(tmp_path / "a.xlsx", Dialect(delimiter=";"))


def _stray(path: Path, place: str, *, is_styled: bool = False) -> None:
    """Write a small table, and one cell far from it."""
    _sheet(path, ["a", "b"], *[[number, -number] for number in range(30)])
    book = openpyxl.load_workbook(path)
    cell = book["Grades"][place]
    cell.value, cell.number_format = None if is_styled else 1, "0.00"
    book.save(path)


STRAY_ODS = """<document xmlns="o" xmlns:table="t" xmlns:office="f"><table:table table:name="a"><table:table-row>
<table:table-cell office:value-type="string"><p>x</p></table:table-cell></table:table-row>
<table:table-row table:number-rows-repeated="1048574"><table:table-cell table:number-columns-repeated="16384"/>
</table:table-row><table:table-row><table:table-cell table:number-columns-repeated="16383"/>
<table:table-cell office:value-type="float" office:value="1"/></table:table-row></table:table></document>"""


def test_a_sheet_is_measured_before_it_is_opened(tmp_path: Path, command: Run) -> None:
    """One cell in the last row and column would take half a terabyte; one that only looks in some way takes nothing."""
    _stray(tmp_path / "a.xlsx", "XFD1048576")
    with zipfile.ZipFile(tmp_path / "a.ods", "w") as packed:
        packed.writestr("content.xml", STRAY_ODS)
    for name in ("a.xlsx", "a.ods"):
        with pytest.raises(SchemaError, match=r"17,179,869,184 cells are between.*clear the cells that are far"):
            open_table(tmp_path / name)

    _stray(tmp_path / "styled.xlsx", "XFD1048576", is_styled=True)
    assert open_table(tmp_path / "styled.xlsx").count_rows() == 30
    _stray(tmp_path / "b.xlsx", "KN9000")
    limited = command("dp-publish", "policy", "b.xlsx", "--max-memory", "50MB")
    assert (limited.returncode, "may need" in limited.stderr, "the limit is 50MB" in limited.stderr) == (1, True, True)
