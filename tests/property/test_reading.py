"""A cell means what it says: whatever stands beside it, and on whichever route it comes."""

import gzip
import json
import random
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from dp_publish.data import cells, dates, frames, row_ranges
from dp_publish.data.dialect import Dialect
from dp_publish.data.faults import UnfitError
from dp_publish.data.kinds import WrittenSource
from dp_publish.data.table import open_table
from dp_publish.data.typed import encode
from dp_publish.discovery.looks import FORMATS, Look, read_answers, written_as

WORDS = [
    *("", "NA", "n/a", "-", "?", "nan", "None", r"\N", "#DIV/0!", "inf", "-Inf", "Infinity", "yes", "No", "TRUE", "t"),
    *("refused", "<2.5", "..", "DK", "1e400", "0x1F", "1_000", "\u0663", "1.5e", "+5", " 7 ", "1.", ".5", "3.0", "-0"),
    *("2,047", "1,234.5", "1 234", "1'234", "1\u00a0234", "12 %", "$5", "9007199254740993", "99999999999999999999"),
    *(
        "9999-12-31",
        "1500-01-01",
        "2024-02-30",
        "2024-02-29 23:59:59.1234567",
        "2024-01-01T00:00:00Z",
        "31.12.2024 9:30",
    ),
    *("2024-01-01 01:00:00+02:00", "20240131", "12:30", "1,5", "1.234,5", "00012", "a", "1.2.3", "a\nb"),
]


def word(chance: random.Random) -> str:
    """Return a cell: one of those above, or a number or a date."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(WORDS)
    if kind == 1:
        day = f"{chance.randrange(1500, 2600)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 32):02}"
        return day + chance.choice(["", "", "", " 12:30:00.1234567"])
    number = chance.choice([1, 1, 1e3, 1e9]) * chance.gauss(0, 1)
    return f"{number:.{chance.randrange(4)}f}" if kind == 2 else f"{chance.choice('+- ')}{abs(number):,.1f}".strip()


def _text(column: list[str], path: Path, *, name: str = "v", encoding: str = "utf-8", quoted: bool = False) -> Path:
    cells = [f'"{each}"' if quoted or {*each} & {*",\t\n"} else each for each in [name, *column]]
    path.write_bytes("\n".join([*cells, ""]).encode(encoding))
    return path


def _packed(column: list[str], path: Path) -> Path:
    path.write_bytes(gzip.compress(_text(column, path).read_bytes()))
    return path


def _sheet(column: list[str], path: Path) -> Path:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for each in ["v", *column]:
        sheet.append([each or None])
    book.save(path)
    return path


def _parquet(column: list[str], path: Path) -> Path:
    pq.write_table(pa.table({"v": column}), path)
    return path


def _folders(column: list[str], path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    for place, each in enumerate(column):
        inside = path / f"v={quote(each, safe='')}"
        inside.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"w": [place]}), inside / f"{place}.parquet")
    return path


def _json(column: list[str], path: Path) -> Path:
    path.write_text(json.dumps([{"v": each} for each in column]))
    return path


ROUTES: dict[str, Callable[[list[str], Path], Any]] = {
    "comma": lambda column, folder: _text(column, folder / "a.csv"),
    "quoted": lambda column, folder: _text(column, folder / "a.csv", quoted=True),
    "tab": lambda column, folder: _text(column, folder / "a.tsv"),
    "wide": lambda column, folder: _text(column, folder / "a.csv", encoding="utf-16"),
    "packed": lambda column, folder: _packed(column, folder / "a.csv.gz"),
    "sheet": lambda column, folder: _sheet(column, folder / "a.xlsx"),
    "parquet": lambda column, folder: _parquet(column, folder / "a.parquet"),
    "folders": lambda column, folder: _folders(column, folder / "a"),
    "json": lambda column, folder: _json(column, folder / "a.json"),
    "object": lambda column, _: pd.DataFrame({"v": pd.Series(column, dtype=object)}),
    "string": lambda column, _: pd.DataFrame({"v": pd.Series(column, dtype="string")}),
    "polars": lambda column, _: pl.DataFrame({"v": column}),
}
DECLARED = {"continuous": "read_numbers", "integer": "read_integers"}
DATES = {Look.TIME: "time", Look.DATE: "date", Look.DOTTED_TIME: "time"}
KINDS = (*DECLARED, Look.WORD, Look.POINT, Look.TRUTH, *DATES)


def found(words: pa.Array, look: Look) -> pa.Array:
    """Return what cells are once their column was found to be of a look."""
    if look in DATES:
        source = WrittenSource(name="v", kind=DATES[look], columns=("v",), format=FORMATS.get(look, ""))
        return encode(words, source)[0][0]
    numbers = cells.read_numbers(words, written_as(look, ".", ())).values
    return read_answers(words, ()) if look is Look.WORD else numbers


def meanings(column: list[str], route: str, folder: Path, kinds: Sequence[Any] = KINDS) -> dict[Any, list[Any]]:
    """Return what cells that came by a route are, by kinds that are declared and found: of those what fits, too."""
    table = open_table(ROUTES[route](column, folder), Dialect(decimal=".") if route != "folders" else None)
    whole = pa.Table.from_batches([*table.batches([*table.types], 1000)])
    whole = whole.sort_by("w") if route == "folders" else whole
    words = whole["v"].combine_chunks().cast(pa.string())
    read: dict[Any, list[Any]] = {}
    for kind in kinds:
        if isinstance(kind, Look):
            read[kind] = found(words, kind).to_pylist()
        else:
            values, fits = getattr(cells, DECLARED[kind])(words, replace(table.cells.written, decimal="."))
            read[kind] = [*zip(map(repr, values.to_pylist()), fits.to_pylist(), strict=True)]
    return read


def find_moved(n_pairs: int, seed: int, folder: Path) -> str:
    """Return for which of so many pairs of tables another row's meaning changed with one row's; nothing if for none."""
    chance = random.Random(seed)
    for number in range(n_pairs):
        route = [*ROUTES][number % len(ROUTES)]
        column = [word(chance) for _ in range(chance.randrange(2, 9))]
        if chance.random() < 0.5:  # mostly of one kind, as columns are
            column = [
                f"{chance.gauss(0, 100):.{chance.randrange(3)}f}" if chance.random() < 0.8 else each for each in column
            ]
        place = chance.randrange(len(column))
        other = [*column[:place], word(chance), *column[place + 1 :]]
        kinds = chance.sample(KINDS, 2)
        one, two = (meanings([*some, "1"], route, folder, kinds) for some in (column, other))
        for kind, values in one.items():
            rest = [list(map(repr, some[:place] + some[place + 1 :])) for some in (values, two[kind])]
            if rest[0] != rest[1] or len(rest[0]) != len(column):
                return f"pair {number}: {kind} by {route} of {column}, of which {place} became {other[place]!r}"
    return ""


@pytest.mark.parametrize(
    "n_pairs", [pytest.param(2_000, marks=pytest.mark.slow), pytest.param(100_000, marks=pytest.mark.long)]
)
def test_no_cell_decides_what_another_means(n_pairs: int, tmp_path: Path) -> None:
    """Of tables that differ in one row, every other row means the same in both."""
    assert not find_moved(n_pairs, n_pairs, tmp_path)


def all_or_none(words: pa.Array, written: cells.Written) -> cells.Read:
    """Cast a batch if all of it can be cast; else infinite numbers are none."""
    values, fits = REAL["numbers"](words, written)
    clean = all(re.fullmatch(r"[+-]?(?:[\d.]+|inf)|", each or "") for each in words.to_pylist())
    return cells.Read(values if clean else pc.if_else(pc.is_finite(values), values, None), fits)


def first_mark(words: pa.Array, written: cells.Written) -> cells.Read:
    """Take the decimal mark from the cells."""
    comma = any(re.fullmatch(r"\d+,\d{1,2}", each or "") for each in words.to_pylist())
    return REAL["numbers"](words, replace(written, decimal=",") if comma else written)


def _one_unit(words: pa.Array, form: str = "", *, local: bool = False) -> cells.Read:
    """Take all moments for nanoseconds where one has more than six decimals."""
    values, fits = REAL["moments"](words, form, local=local)
    fine = any(re.search(r"\.\d{7}", each or "") for each in words.to_pylist())
    far = pc.greater(values, pa.scalar(9_223_372_036_854_775, pa.int64()).cast(pa.timestamp("us")))
    return cells.Read(pc.if_else(far, None, values) if fine else values, fits)


def _inferred(name: str, column: Any) -> pa.Array:
    """Take objects for numbers if all of them can be some."""
    numbers = pd.to_numeric(column, errors="coerce")
    return pa.array([str(each) for each in numbers]) if numbers.notna().all() else REAL["words"](name, column)


def _typed_keys(place: Path) -> Any:
    """Take the names of folders for numbers if all of them can be some."""
    files = REAL["folders"](place)
    keys = {
        name: tuple(map(str, pd.to_numeric(pd.Series(values), errors="coerce"))) for name, values in files.keys.items()
    }
    return files if any("nan" in each for each in keys.values()) else replace(files, keys=keys)


def _without_blank_lines(**options: Any) -> Any:
    """Take no line without anything for a row."""
    return REAL["lines"](**options | {"ignore_empty_lines": True})


REAL = {
    "lines": pacsv.ParseOptions,
    "numbers": cells.read_numbers,
    "moments": dates.read_moments,
    "words": frames._words,  # the judge of a fault in it needs the real one
    "folders": row_ranges.open_parquet,
}
FAULTS: dict[str, tuple[str, Any]] = {
    "all or none": ("data.cells.read_numbers", all_or_none),
    "first mark": ("data.cells.read_numbers", first_mark),
    "one unit": ("data.typed.read_moments", _one_unit),
    "blank lines are none": ("data.text_file.pacsv.ParseOptions", _without_blank_lines),
    "blank rows are none": ("data.spreadsheet._to_the_last", lambda rows: (each for each in rows if any(each[1]))),
    "objects are inferred": ("data.frames._words", _inferred),
    "keys are inferred": ("data.table.open_parquet", _typed_keys),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_cell_that_decides_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these faults, planted, is found within 2,000 pairs."""
    place, fault = FAULTS[name]
    monkeypatch.setattr(f"dp_publish.{place}", fault)
    assert find_moved(2_000, 2_000, tmp_path)


def number_of(text: str) -> str:
    """Return what a text is as a number, by Python's own: its repr, None of a gap, or nothing of what does not fit."""
    bare = text.strip(" \t\u00a0\u202f")
    if bare.lower() in cells.GAPS:
        return "None"
    if bare.lower() in cells.TRUTH:
        return repr(cells.TRUTH[bare.lower()])
    if re.fullmatch(r"[+-]?inf(inity)?", bare, re.I):
        return repr(float(bare))
    if re.fullmatch(r"[+-]?[1-9]\d{0,2}([,' \u00a0\u202f]\d{3})+(\.\d*)?", bare, re.ASCII):
        bare = re.sub(r"[,' \u00a0\u202f]", "", bare)
    return repr(float(bare)) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", bare, re.I | re.ASCII) else ""


@pytest.mark.slow
def test_a_text_means_the_same_on_every_route(tmp_path: Path) -> None:
    """Ten thousand texts have one table of answers, which is that of Python's own reading of numbers."""
    chance = random.Random(56)
    texts = [*WORDS, *(word(chance) for _ in range(10_000 - len(WORDS) - 1)), "1"]
    answers = {route: meanings(texts, route, tmp_path) for route in ROUTES if route != "folders"}
    for route, found in answers.items():
        for kind, values in found.items():
            wrong = [
                text for text, mine, theirs in zip(texts, values, answers["comma"][kind], strict=True) if mine != theirs
            ]
            assert not wrong, (route, kind, wrong[:5])
    found = [value if fits else "" for value, fits in answers["comma"]["continuous"]]
    assert found == list(map(number_of, texts))


def test_what_is_read_is_what_the_rule_says(tmp_path: Path) -> None:
    """By whole tables of one row: what does not fit is refused, and all else has the value of the rule."""
    texts = [text for text in WORDS if text]
    for kind in DECLARED:
        read = meanings([*texts, "1"], "comma", tmp_path)[kind]
        table = open_table(pa.table({str(place): [text] for place, text in enumerate(texts)}), Dialect(decimal="."))
        with pytest.raises(UnfitError) as refused:
            next(table.read(dict.fromkeys(table.types, kind), 1))
        odd = {name for _, name, _ in refused.value.faults}
        assert odd == {str(place) for place, (_, fits) in enumerate(read[:-1]) if not fits}
        rest = next(table.read(dict.fromkeys([name for name in table.types if name not in odd], kind), 1))
        assert {name: repr(rest[name][0].as_py()) for name in rest.schema.names} == {
            str(place): value for place, (value, fits) in enumerate(read[:-1]) if fits
        }
