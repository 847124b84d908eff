"""The dialect of a text file: separators, marks, encodings, and a first line that may be names or a row."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dp_bundle.base.errors import HeaderError, ParameterError, PolicyError, SchemaError
from dp_publish.data.dialect import Dialect, make_dialect
from dp_publish.data.row_ranges import count_rows
from dp_publish.data.table import open_table
from dp_publish.policy.file import load_policy

FRAME = pd.DataFrame({"größe": [1.5, -0.25, 1200.0], "n": [1, 2, 30], "t": ["a;b", 'x "y"\nz', "s3cr3t"]})


NUMBERS = {"größe": [1.5, -0.25, 1200.0], "n": [1, 2, 30]}


KINDS = {"größe": "continuous", "n": "integer"}


def read(path: Path, kinds: dict[str, str], rows: int = 1000, **dialect: Any) -> dict[str, list[Any]]:
    """Read columns and join the batches."""
    batches = list(open_table(path, Dialect(**dialect)).read(kinds, rows))
    return pa.Table.from_batches(batches).to_pydict()


def _packed(frame: pd.DataFrame, path: Path) -> None:
    path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "comma.csv": lambda frame, path: frame.to_csv(path, index=False),
    "european.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";", decimal=","),
    "quoted.csv": lambda frame, path: frame.to_csv(path, index=False, decimal=",", quoting=1),
    "pipe.csv": lambda frame, path: frame.to_csv(path, index=False, sep="|"),
    "tab.csv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "tab.TSV": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "mark.csv": lambda frame, path: frame.to_csv(path, index=False, encoding="utf-8-sig"),
    "windows.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";", decimal=",", encoding="cp1252"),
    "wide.csv": lambda frame, path: frame.to_csv(path, index=False, encoding="utf-16"),
    "unmarked.csv": lambda frame, path: frame.to_csv(path, index=False, encoding="utf-16-le"),
    "packed.csv.gz": _packed,
    "packed.tsv.bz2": lambda frame, path: frame.to_csv(path, index=False, sep="\t", compression="bz2"),
    "returns.csv": lambda frame, path: frame.to_csv(path, index=False, lineterminator="\r\n"),
    "blank.csv": lambda frame, path: path.write_text("\n\n" + frame.to_csv(index=False) + "\n\n", encoding="utf-8"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_dialect_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    """Separator, decimal mark, encoding and packing are found, with quotes and line breaks in texts."""
    WRITERS[name](FRAME, tmp_path / name)
    assert read(tmp_path / name, KINDS) == NUMBERS
    assert list(open_table(tmp_path / name).types) == ["größe", "n", "t"]


def test_the_policy_names_what_cannot_be_found(tmp_path: Path) -> None:
    """Separator, decimal mark, encoding and words for nothing come from the section [table]."""
    (tmp_path / "a.csv").write_bytes("é~b\n1,234~x\n2,5~-999\n".encode("cp850"))
    text = '[table]\ndelimiter = "~"\ndecimal = ","\nencoding = "cp850"\nmissing_values = ["-999", "x"]\n'
    (tmp_path / "a.policy.toml").write_text(text)
    dialect = load_policy(tmp_path / "a.policy.toml", "a", {}).table

    batches = open_table(tmp_path / "a.csv", dialect).read({"b": "integer", "é": "continuous"}, 10)
    assert pa.Table.from_batches(batches).to_pydict() == {"b": [None, None], "é": [1.234, 2.5]}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('delimiter = ";;"', "table.delimiter must be a character that no number has"),
        ('delimiter = "1"', "a character that no number has"),
        ('delimiter = "\\n"', "a character that no number has"),
        ('decimal = "x"', "table.decimal"),
        ('encoding = "klingon"', "an encoding's name"),
        ('encoding = "rot13"', "an encoding's name"),
        ('header = "second"', "table.header"),
        ("missing_values = [-999]", "table.missing_values"),
        ('separator = ";"', "table.separator"),
    ],
)
def test_wrong_dialects_are_policy_errors(wrong: str, said: str, tmp_path: Path) -> None:
    """Each entry of [table] is checked, and a mistake is placed."""
    (tmp_path / "p.toml").write_text(f"[table]\n{wrong}\n")
    with pytest.raises(PolicyError, match=said):
        load_policy(tmp_path / "p.toml", "a", {})


def test_options_become_a_dialect() -> None:
    """A tab can be named, and an option's mistake names the option."""
    assert make_dialect({"delimiter": "tab", "header": None}) == Dialect(delimiter="\t")
    with pytest.raises(ParameterError, match="--encoding must be an encoding's name"):
        make_dialect({"encoding": "klingon"})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("5.1,3.5,setosa", "cell 1 of it is a number"),
        ("Smith,1932,12", "cell 2 of it is a number"),
        ("Smith;1,5", "cell 2 of it is a number"),
        ("a,1 234", "cell 2 of it is a number"),
        ("a,12%", "cell 2 of it is a number"),
        ("a,-1e5", "cell 2 of it is a number"),
        ("a,0x1F", "cell 2 of it is a number"),
        ("a,1932-04-30", "cell 2 of it is a date"),
        ("a,30.4.1932", "cell 2 of it is a"),
        ("a,12:30", "cell 2 of it is a date or a time"),
        ("a,,c", "cell 2 of it is empty"),
        (",b,", "cell 1 of it is empty"),
        ("a,NA", "cell 2 of it stands for a missing value"),
        ("a,?", "cell 2 of it stands for a missing value"),
        ("a,True", "cell 2 of it is a truth value"),
        ("Smith,no", "cell 2 of it is a truth value"),
        ("a,b,a", "two columns of it have one name"),
        ("x,a,b,a", r"two columns of it have one name, in cells 2 and 4 \(rename one"),
        ("a,b,", r"it ends with a separator \(if all lines do, remove those\)"),
        ("anna.Smith@example.org,x", "cell 1 of it is an e-mail address"),
        ("a,12 kg", "cell 2 of it is a number with a unit"),
        ("a,170cm", "cell 2 of it is a number with a unit"),
        ("a,\u22125", "cell 2 of it is a number"),
    ],
)
def test_a_first_line_that_may_be_a_record_is_refused(line: str, said: str, tmp_path: Path) -> None:
    """A person's record is not taken for column names, and not quoted; the publisher has to say what it is."""
    (tmp_path / "a.csv").write_text(f"{line}\n{line}\n")
    with pytest.raises(HeaderError, match=f"{said}.*--header none") as caught:
        open_table(tmp_path / "a.csv")
    assert "Smith" not in str(caught.value)
    assert caught.value.exit_code == 2
    n_columns = 1 + line.count(";" if ";" in line else ",")
    named = open_table(tmp_path / "a.csv", Dialect(header="none"))
    assert list(named.types) == [f"column_{number}" for number in range(1, n_columns + 1)]
    if "two columns" not in said and line != ",b,":
        assert len(open_table(tmp_path / "a.csv", Dialect(header="first")).types) == n_columns


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("sep=;\na;b\n1;2\n", 'is sep=;, as spreadsheets write it: remove it, and set delimiter = ";" under'),
        ('"sep=\t"\na\tb\n1\t2\n', r'set delimiter = "\\t" under'),
        ("# measured in 2020\na,b\n1,2\n", "begins with # and looks like a comment: remove such lines, or pass"),
        ("# x, y\na,b\n1,2\n", "begins with # and looks like a comment"),
    ],
)
def test_lines_before_the_names_are_told_apart_from_names(content: str, said: str, tmp_path: Path) -> None:
    """A comment, and the line by which spreadsheets name the separator, are refused with what to do about them."""
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(SchemaError, match=said):
        open_table(tmp_path / "a.csv")


def test_spaces_around_names_are_no_part_of_them(tmp_path: Path) -> None:
    """A file with a space after each comma has the names that its publisher sees, unless spaces tell names apart."""
    (tmp_path / "a.csv").write_text("x, y ,=z\n1, 2, 3\n")
    assert read(tmp_path / "a.csv", dict.fromkeys(("y", "x"), "continuous")) == {"y": [2.0], "x": [1.0]}
    assert open_table(tmp_path / "a.csv").layout.names == ("x", "y", "=z")  # type: ignore[union-attr]
    (tmp_path / "a.csv").write_text("x, x\n1, 2\n")
    assert list(open_table(tmp_path / "a.csv").types) == ["x", " x"]


def test_names_written_for_spreadsheets_are_read_back(tmp_path: Path) -> None:
    """Columns whose names an export guards by an apostrophe are read by their own names."""
    (tmp_path / "a.csv").write_text("'=x,b\n1,2\n")
    assert read(tmp_path / "a.csv", {"=x": "continuous", "b": "integer"}) == {"=x": [1.0], "b": [2]}
    assert count_rows(tmp_path / "a.csv") == 1


def test_names_may_begin_with_a_hash(tmp_path: Path) -> None:
    """Where numbers follow, or where the publisher says so, the first line holds names whatever it begins with."""
    (tmp_path / "a.csv").write_text("#x,y\n1,2\n")
    assert list(open_table(tmp_path / "a.csv").types) == ["#x", "y"]
    (tmp_path / "a.csv").write_text("#x,y\na,b\n")
    assert list(open_table(tmp_path / "a.csv", Dialect(header="first")).types) == ["#x", "y"]


def test_words_for_missing_values_are_no_names(tmp_path: Path) -> None:
    """A first line with a word that the policy calls a missing value is somebody's record."""
    (tmp_path / "a.csv").write_text("abc,refused\n1,2\n")
    assert list(open_table(tmp_path / "a.csv").types) == ["abc", "refused"]
    with pytest.raises(HeaderError, match="cell 2 of it stands for a missing value"):
        open_table(tmp_path / "a.csv", Dialect(missing_values=("refused",)))


def test_without_a_header_the_first_line_is_a_row(tmp_path: Path) -> None:
    """With header = "none" nothing of the first line is lost, and a first name alone may be empty."""
    (tmp_path / "a.csv").write_text("1;2,5\n3;x\n")
    kinds = {"column_2": "continuous", "column_1": "integer"}
    dialect = {"header": "none", "missing_values": ("x",)}
    assert read(tmp_path / "a.csv", kinds, **dialect) == {"column_2": [2.5, None], "column_1": [1, 3]}
    (tmp_path / "a.csv").write_text(",b\n1,2\n")
    assert list(open_table(tmp_path / "a.csv").types) == ["", "b"]


def test_two_possible_separators_are_refused(tmp_path: Path) -> None:
    """Where a name may hold the separator, the publisher says which it is; a comma beside another mark is a letter."""
    (tmp_path / "a.csv").write_text("a|b;c\n1|2;3\n")
    with pytest.raises(SchemaError, match=r"has ';' and '\|': set delimiter"):
        open_table(tmp_path / "a.csv")
    assert list(open_table(tmp_path / "a.csv", Dialect(delimiter=";")).types) == ["a|b", "c"]
    (tmp_path / "a.csv").write_text("length, m;b\n1,5;3\n")
    assert read(tmp_path / "a.csv", {"length, m": "continuous"}) == {"length, m": [1.5]}
