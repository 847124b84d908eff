"""What files of public offices, labs and clinics hold that is none of the data: named on the terminal, or refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.conftest import policy_with

from dp_bundle.base.errors import DpGraphError
from dp_publish.forecast.checking import check_in_advance
from dp_publish.policy.columns import prepare

AGES = [str(20 + place % 60) for place in range(400)]
SCORES = [f"{(place * 37 % 101) / 10}" for place in range(400)]


def told(source: Any, **sections: Any) -> str:
    """Return what the publisher reads before anything is paid for, of a refusal the sentence."""
    said: list[str] = []
    privacy = {"unit": "cell", "mu": 50.0} if sections else {"release": "covariance", "mu": 5.0}
    policy = policy_with(sections, **privacy)
    try:
        check_in_advance(prepare(source, policy), anyway=False, tell=said.append)
    except DpGraphError as error:
        said.append(f"refused: {error}")
    return "\n".join(said)


def text(path: Path, *rows: str, ages: list[str] = AGES, scores: list[str] = SCORES) -> Path:
    """Write a text file of two columns, after some other rows; return its path."""
    path.write_text("\n".join(["age,score", *rows, *map(",".join, zip(ages, scores, strict=True))]), encoding="utf-8")
    return path


def sheet(path: Path, hide: Callable[[Any], None], last: str = "=A2*2") -> Path:
    """Write a sheet with ages, scores and something else; return its path."""
    book = openpyxl.Workbook()
    for row in [("age", "score", "z"), *((int(a), float(s), last) for a, s in zip(AGES, SCORES, strict=True))]:
        book.active.append(row)
    hide(book.active)
    book.save(path)
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": ["years,points"]}, "line 2 has words and no value in columns of numbers"),
        (
            {"scores": [*SCORES[:299], "score", *SCORES[300:]], "ages": [*AGES[:299], "age", *AGES[300:]]},
            "line 301 has words and no value",
        ),
        ({"ages": [*AGES[:-1], "Total"]}, "line 401 has a word like Total"),
        ({"ages": ["-999"] * 20 + AGES[20:]}, "-999 in 20 cells of 'age'"),
        ({"scores": ["9999-12-31"] * 90 + ["2024-01-31"] * 310}, "9999-12-31 in 90 cells of 'score'"),
        ({"scores": ["20240131", "20240201"] * 200}, "resemble dates, in the first 400 rows: all of 'score'"),
        (
            {"scores": ["<2.5"] * 100 + SCORES[100:]},
            "detection, in the first 400 rows: 100 cells of 'score'",
        ),
        ({"ages": [*map(str, range(1000, 1400))]}, "as those of persons are, in the first 400 rows: all of 'age'"),
        ({"scores": ["refused"] * 100 + SCORES[100:]}, "100 cells of 'score'"),
    ],
)
def test_what_is_none_of_the_data_is_named(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    """With its line or its number of cells, and refuses nothing where nothing is declared."""
    found = told(text(tmp_path / "t.csv", *change.pop("rows", []), **change))
    assert said in found
    assert "refused: " not in found


def test_german_tables_are_looked_at_as_they_are_read(tmp_path: Path) -> None:
    """Decimal commas and dates with points are no words; a line of units may leave columns out."""
    rows = [
        f"{age};{score.replace('.', ',')};05.10.{1950 + place % 50}"
        for place, (age, score) in enumerate(zip(AGES, SCORES, strict=False))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["Alter;Wert;Geburt", "Jahre;;", *rows, *["30;1,5;01.01.1900"] * 9]))
    found = told(tmp_path / "t.csv")
    assert "line 2 has words" in found
    assert "1900-01-01 in 9 cells of 'Geburt'" in found
    assert "'Wert'" not in found.replace("'Alter', 'Wert', 'Geburt'", "")


def test_a_sheet_tells_what_it_hides(tmp_path: Path) -> None:
    """Hidden rows are counted, and a column of formulas that nobody computed is no column of gaps."""

    def hide(shown: Any) -> None:
        for row in (3, 4):
            shown.row_dimensions[row].hidden = True
        shown.column_dimensions.group("H", "XFD", hidden=True)  # as whoever hides what is beside the table
        shown.row_dimensions[1000].hidden = True

    assert "has 2 hidden rows, which" in told(sheet(tmp_path / "t.xlsx", hide, last="1"))
    assert "'z' of" in told(sheet(tmp_path / "t.xlsx", hide))
    assert "never computed" in told(sheet(tmp_path / "t.xlsx", hide))


@pytest.mark.parametrize(
    ("start", "said"),
    [
        (b"PAR1\x15\x04", "is a Parquet file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "git lfs pull"),
        (b"<!DOCTYPE html><html><body>Log in</body></html>", "web page"),
    ],
)
def test_what_is_no_table_is_called_what_it_is(start: bytes, said: str, tmp_path: Path) -> None:
    """By its first bytes, whatever its name says."""
    (tmp_path / "t.csv").write_bytes(start)
    assert said in told(tmp_path / "t.csv")


def test_declared_kinds_say_what_would_read_a_cell(tmp_path: Path) -> None:
    """Dates that stand for none are refused as codes are, and whole numbers are dates by their format."""
    day = {"kind": "date", "bounds": ["2020-01-01", "2025-12-31"]}
    bounds = [18_262, 20_453]
    rows = text(tmp_path / "t.csv", scores=["9999-12-31"] * 90 + ["2024-01-31", "2023-03-05"] * 155)
    assert "9999-12-31 in 90 cells of 'score'" in told(rows, age={"bounds": [0, 99]}, score={**day, "bounds": bounds})
    whole = pa.table({"n": [1.5, 2.5] * 50, "day": [20240131, 20231231] * 50})
    said = {"n": {"bounds": [0, 9]}, "day": {**day, "bounds": bounds}}
    assert 'format = "%Y%m%d"' in told(whole, **said)
    said["day"]["format"] = "%Y%m%d"
    assert "not read from" not in told(whole, **said)
    letters = text(tmp_path / "t.csv", scores=["t", "f"] * 200)
    assert 'levels = ["f", "t"]' in told(letters, age={"bounds": [0, 99]}, score={"kind": "boolean"})


def test_frames_that_are_no_tables_are_named() -> None:
    """A series, and the column of a type that Arrow lacks."""
    frame = pl.DataFrame({"a": [1, 2], "b": [3, 4]}).with_columns(pl.col("b").cast(pl.Int128))
    assert "column 'b'" in told(frame)
    assert "Series is no table" in told(pd.Series([1, 2]))
    assert "capitals" in told(pa.table({"Age": AGES, "age": SCORES}))


def test_streams_of_arrow_and_records_of_json_are_tables(tmp_path: Path) -> None:
    """By their first bytes; a key that one record alone has makes no column, and a policy may begin with a mark."""
    table = pa.table({"x": [1.5, 2.5] * 200, "y": [3, 5] * 200})
    with pa.ipc.new_stream(str(tmp_path / "t.arrow"), table.schema) as stream:
        stream.write_table(table)
    assert "refused: " not in told(tmp_path / "t.arrow")
    (tmp_path / "t.json").write_text('[{"plz": "00000", "n": 9007199254740993}, {"plz": "00001", "n": null, "w": 1}]')
    assert "record 2" in told(tmp_path / "t.json")


def test_an_encrypted_column_is_named(tmp_path: Path) -> None:
    """And the others are read, once it is dropped."""
    import pyarrow.parquet.encryption as encryption

    class Keys(encryption.KmsClient):
        """Keys in the open, for this test alone."""

        def wrap_key(self, key_bytes: bytes, _identifier: str) -> bytes:
            """Return the key."""
            return key_bytes.hex().encode()

        def unwrap_key(self, wrapped_key: bytes, _identifier: str) -> bytes:
            """Return the key."""
            return bytes.fromhex(wrapped_key.decode())

    table = pa.table({"x": [1.5, 2.5] * 200, "y": [3.0, 5.0] * 200, "bmi": [20.5, 30.5] * 200})
    asked = encryption.EncryptionConfiguration(footer_key="f", column_keys={"c": ["bmi"]}, plaintext_footer=True)
    factory, keys = encryption.CryptoFactory(lambda _: Keys()), encryption.KmsConnectionConfig()
    sealed = factory.file_encryption_properties(keys, asked)
    pq.write_table(table, tmp_path / "t.parquet", encryption_properties=sealed)
    assert "'bmi' is encrypted" in told(tmp_path / "t.parquet")
    assert "encrypted" not in told(
        tmp_path / "t.parquet", x={"bounds": [0, 9]}, y={"bounds": [0, 9]}, bmi={"drop": True}
    )
