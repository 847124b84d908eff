"""Text files as people write them: separators, marks, encodings, words, and the line of whatever cannot be read."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from tests.conftest import policy_with

from dp_bundle.base.errors import CellError, HeaderError, SchemaError
from dp_publish.data.dialect import Dialect
from dp_publish.data.table import open_table
from dp_publish.policy.columns import resolve
from dp_publish.policy.file import load_policy

FRAME = pd.DataFrame({"größe": [1.5, -0.25, 1200.0], "n": [1, 2, 30], "t": ["a;b", 'x "y"\nz', "s3cr3t"]})


def read(source: Any, kinds: dict[str, str], rows: int = 1000, **dialect: Any) -> dict[str, list[Any]]:
    """Read columns and join the batches."""
    batches = list(open_table(source, Dialect(**dialect)).read(kinds, rows))
    assert all(batch.num_rows <= rows for batch in batches)
    return pa.Table.from_batches(batches).to_pydict() if batches else {}


def column(tmp_path: Path, words: list[str], kind: str = "continuous", **dialect: Any) -> list[Any]:
    """Read one column, whose cells are quoted."""
    (tmp_path / "a.csv").write_text("\n".join(["v", *(f'"{word}"' for word in words)]) + "\n", encoding="utf-8")
    return read(tmp_path / "a.csv", {"v": kind}, **dialect)["v"]


def test_words_are_numbers_or_nothing(tmp_path: Path) -> None:
    """What the documents list as missing is missing, truth values are 1 and 0, also after thousands of numbers."""
    nothing = ["", "NA", "n/a", "NaN", "null", "None", "<NA>", "?", "-", "--", ".", "#N/A", " ", " NA "]
    words = ["1"] * 2000 + ["True", "FALSE", "yes", "No", "3.0", "+4", "1e3", *nothing]
    numbers = [1] * 2000 + [1, 0, 1, 0, 3, 4, 1000] + [None] * len(nothing)
    for kind in ("integer", "continuous"):
        assert column(tmp_path, words, kind) == numbers
    assert column(tmp_path, ["-9223372036854775808"], "integer") == [-(2**63)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\n1\n\n2\n", [1, None, 2]),
        ("\n\na\n\n1\n\n", [None, 1, None]),
        ("\n\na,b\n1,x\n\n\n2,y\n\n", [1, None, None, 2]),
        ('a,b\n1,"x\n\n"\n2,y\n\n\n', [1, 2]),
    ],
)
def test_a_line_without_anything_is_a_row(
    encoding: str, end: str, text: str, found: list[int | None], tmp_path: Path
) -> None:
    """In a table of one column each is, in others those between rows; what cannot be read has its own line."""
    path = tmp_path / "a.csv"
    path.write_bytes(text.replace("\n", end).encode(encoding))
    table = open_table(path)
    assert table.count_rows() == len(found)
    assert read(path, {"a": "integer"})["a"] == found
    path.write_bytes(f"{text}word,z\n".replace("\n", end).encode(encoding))
    if "," in text:
        with pytest.raises(CellError, match=f"line {text.count(chr(10)) + 1}, "):
            read(path, {"a": "integer"})


def test_a_line_break_in_a_cell_is_whole_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pyarrow takes apart at a time may end between both of its ends."""
    monkeypatch.setattr("dp_publish.data.text_file._BLOCK", 32)
    words = ["é\r\nbc"] * 20
    assert column(tmp_path, words, "text") == words


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (["1.5", "1,234"], "continuous", "thousands"),
        (["5", "12 %"], "continuous", 'unit = "%"'),
        (["1", "1.5"], "integer", "fraction"),
        (["1", "99999999999999999999"], "integer", "largest"),
        (["1", "9" * 5000], "integer", "largest"),
        (["1", "EURO zone"], "continuous", "is not a number"),
        (["1", "1932-04-30"], "continuous", "date"),
        (["1", "12:30"], "continuous", "%H:%M"),
        (["1"] * 5000 + ["s3cr3t"], "integer", "line"),
    ],
)
def test_errors_name_line_and_column_and_quote_nothing(words: list[str], kind: str, said: str, tmp_path: Path) -> None:
    """What cannot be read is placed, and told what ails it in one sentence without the value."""
    with pytest.raises(CellError, match=said) as caught:
        column(tmp_path, words, kind)
    assert (caught.value.line, caught.value.columns) == (len(words) + 1, ["v"])
    assert words[-1] not in str(caught.value)


def test_marks_that_may_separate_thousands_or_decimals_are_refused(tmp_path: Path) -> None:
    """1,234 is not guessed to be 1.234, nor is 1.234 between semicolons 1234; a policy says which, and the sign."""
    with pytest.raises(CellError, match="decimal"):
        column(tmp_path, ["0,125", "1,234"])
    assert column(tmp_path, ["1,5", "2.5", "1.234", "1 234", "1,234.5", "1.234,5"]) == [
        1.5,
        2.5,
        1.234,
        1234,
        1234.5,
        1234.5,
    ]
    assert column(tmp_path, ["1,234", "1.234,5"], decimal=",") == [1.234, 1234.5]
    assert column(tmp_path, ["1,234"], decimal=".") == [1234]
    with pytest.raises(CellError, match="comma"):
        column(tmp_path, ["1,5"], decimal=".")
    (tmp_path / "a.csv").write_text("v;w\n800;x\n1.234;y\n")
    with pytest.raises(CellError, match=r"line 3.*thousands"):
        read(tmp_path / "a.csv", {"v": "continuous"})
    assert read(tmp_path / "a.csv", {"v": "continuous"}, decimal=".") == {"v": [800, 1.234]}

    (tmp_path / "p.csv").write_text("v\n12 %\n$1\n")
    policy = policy_with({"v": {"bounds": [0, 99], "unit": "%"}}, mu=1.0)
    with pytest.raises(CellError, match=r"line 3.* sign \$"):
        next(resolve(open_table(tmp_path / "p.csv"), policy)[0].read({"v": "continuous"}, 9))


@pytest.mark.parametrize(("unit", "cells"), [("1", [" 21 ", "21"]), ("s", ["yes", "5 s"]), ("y", ["infinity", "-inf"])])
def test_a_unit_is_no_part_of_a_number(unit: str, cells: list[str], tmp_path: Path) -> None:
    """What a cell means without it, it means with it; a fraction with a sign is a fraction."""
    policy = policy_with({"v": {"bounds": [0, 99], "unit": unit}}, mu=1.0)
    (tmp_path / "p.csv").write_text("\n".join(["v,w", *(f"{cell},x" for cell in cells)]))
    table, _ = resolve(open_table(tmp_path / "p.csv"), policy)
    expected = {" 21 ": 21.0, "21": 21.0, "yes": 1.0, "5 s": 5.0, "infinity": math.inf, "-inf": -math.inf}
    assert next(table.read({"v": "continuous"}, 9))["v"].to_pylist() == [expected[cell] for cell in cells]
    (tmp_path / "p.csv").write_text(f"v,w\n12.5 {unit},x\n")
    with pytest.raises(CellError, match="fraction" if unit != "1" else "not a number"):
        next(table.read({"v": "integer"}, 9))


def test_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    """Line breaks inside quotes count, so that the publisher finds the place of a record with a cell too many."""
    (tmp_path / "a.csv").write_text('a,t\n1,"x\ny"\n2,3,4\n')
    with pytest.raises(SchemaError, match="line 4"):
        read(tmp_path / "a.csv", {"a": "continuous"})


def test_a_fault_behind_a_very_long_cell_has_no_line(tmp_path: Path) -> None:
    """The csv module, which knows of lines, takes no cell of more than 131,072 characters."""
    (tmp_path / "a.csv").write_text(f"a,t\n1,{'x' * 200_000}\nbad,z\n")
    with pytest.raises(SchemaError, match="column 'a' has a value that is not a number"):
        read(tmp_path / "a.csv", {"a": "continuous"})


def test_bytes_outside_the_encoding_matter_only_where_they_are_read(tmp_path: Path) -> None:
    """Text that is not published may be in any encoding; the column that names entities must be readable."""
    (tmp_path / "a.csv").write_bytes(b"a,t\n1,caf\xe9\n2,x\n")
    assert read(tmp_path / "a.csv", {"a": "integer"}) == {"a": [1, 2]}
    with pytest.raises(CellError, match="line 2, column 't'"):
        read(tmp_path / "a.csv", {"t": "text"})
    assert read(tmp_path / "a.csv", {"t": "text"}, encoding="cp1252") == {"t": ["café", "x"]}
    (tmp_path / "b.csv").write_bytes("é,t\n1,2\n".encode())
    (tmp_path / "c.csv").write_bytes("\ufeffé,t\n1,2\n".encode())
    assert read(tmp_path / "c.csv", {"é": "integer"}, encoding="UTF8") == {"é": [1]}
    with pytest.raises(SchemaError, match="ascii"):
        open_table(tmp_path / "b.csv", Dialect(encoding="ascii"))


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_quotation_mark_that_is_never_closed_swallows_no_rows(end: str, tmp_path: Path) -> None:
    """Rows inside an open quotation would be lost in silence; marks that stand for inches are no quotation."""
    (tmp_path / "a.csv").write_text(f'a,t\n1,x\n2,"s3cr3t\n3,y\n4,z{end}')
    with pytest.raises(SchemaError, match="line 3") as caught:
        read(tmp_path / "a.csv", {"a": "integer"})
    assert "s3cr3t" not in str(caught.value)
    with pytest.raises(SchemaError, match="never closed"):
        open_table(tmp_path / "a.csv").count_rows()
    (tmp_path / "a.csv").write_text(f'a,t\n1,"x\ny"\n2,5" pipe\n3,y{end}')
    assert read(tmp_path / "a.csv", {"a": "integer"}) == {"a": [1, 2, 3]}
    assert open_table(tmp_path / "a.csv").count_rows() == 3


@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_a_number_that_means_nothing_means_it_in_every_spelling(kind: str, tmp_path: Path) -> None:
    """Where -999 is declared as missing so is -999.00, with spaces or without, whoever converts the column."""
    words = ["1", "-999", "2", "-999.00", " -999 ", "-9.99e2", "3"]
    words = words if kind == "continuous" else [word for word in words if "." not in word]
    path = tmp_path / "a.csv"
    expected = [None if float(word) == -999 else float(word) for word in words]
    for extra in ("", "n/a"):  # a word that pyarrow does not take for a number is converted here
        path.write_text("x,y\n" + "".join(f"{word},1\n" for word in [*words, extra]))
        assert read(path, {"x": kind}, missing_values=["-999"])["x"] == [*expected, None]
        path.write_text(f"x;y\n1e0;1\n1.000;1\n{extra};1\n")  # by the table's decimal mark
        assert read(path, {"x": kind}, decimal=",", missing_values=["1.000"])["x"] == [1.0, None, None]


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "european.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";", decimal=","),
    "quoted.csv": lambda frame, path: frame.to_csv(path, index=False, decimal=",", quoting=1),
    "pipe.csv": lambda frame, path: frame.to_csv(path, index=False, sep="|"),
    "windows.csv": lambda frame, path: frame.to_csv(path, index=False, encoding="cp1252", lineterminator="\r\n"),
    "unmarked.csv": lambda frame, path: frame.to_csv(path, index=False, encoding="utf-16-le"),
    "packed.TSV.bz2": lambda frame, path: frame.to_csv(path, index=False, sep="\t", compression="bz2"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_dialect_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    """Separator, decimal mark, encoding and packing are found, with quotes and line breaks in texts."""
    WRITERS[name](FRAME, tmp_path / name)
    assert read(tmp_path / name, {"größe": "continuous", "n": "integer"}) == FRAME[["größe", "n"]].to_dict("list")
    assert list(open_table(tmp_path / name).types) == ["größe", "n", "t"]


def test_the_policy_names_what_cannot_be_found(tmp_path: Path) -> None:
    """Separator, decimal mark, encoding and words for nothing come from the section [table]."""
    (tmp_path / "a.csv").write_bytes("é~b\n1,234~x\n2,5~-999\n".encode("cp850"))
    text = '[table]\ndelimiter = "~"\ndecimal = ","\nencoding = "cp850"\nmissing_values = ["-999", "x"]\n'
    (tmp_path / "a.policy.toml").write_text(text)
    dialect = load_policy(tmp_path / "a.policy.toml", "a", {}).table
    found = read(tmp_path / "a.csv", {"b": "integer", "é": "continuous"}, **dialect.model_dump())
    assert found == {"b": [None, None], "é": [1.234, 2.5]}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Smith,1932,12", "cell 2"),
        ("a,12%", "cell 2"),
        ("a,-1e5", "cell 2"),
        ("a,30.4.1932", "cell 2"),
        ("a,12:30", "cell 2"),
        (",b,", "cell 1"),
        ("a,NA", "cell 2"),
        ("a,True", "cell 2"),
        ("x,a,b,a", "two columns"),
        ("a,b,", "separator"),
        ("anna.Smith@example.org,x", "cell 1"),
        ("a,12 kg", "cell 2"),
        ("a,\u22125", "cell 2"),
    ],
)
def test_a_first_line_that_may_be_a_record_is_refused(line: str, said: str, tmp_path: Path) -> None:
    """A person's record is not taken for column names, and not quoted; the publisher has to say what it is."""
    (tmp_path / "a.csv").write_text(f"{line}\n{line}\n")
    with pytest.raises(HeaderError, match=said) as caught:
        open_table(tmp_path / "a.csv")
    assert "Smith" not in str(caught.value)
    n_columns = 1 + line.count(";" if ";" in line else ",")
    named = open_table(tmp_path / "a.csv", Dialect(header="none"))
    assert list(named.types) == [f"column_{number}" for number in range(1, n_columns + 1)]
    if "two columns" not in said and line != ",b,":
        assert len(open_table(tmp_path / "a.csv", Dialect(header="first")).types) == n_columns


@pytest.mark.parametrize(
    ("content", "dialect", "found"),
    [
        ("x, y ,=z\n1, 2, 3\n", {}, {"x": 1, "y": 2, "=z": 3}),
        ("'=x,b\n1,2\n", {}, {"=x": 1, "b": 2}),
        ("length, m;b\n1,5;3\n", {}, {"length, m": 1.5, "b": 3}),
        ("a|b;c\n1|2;3\n", {"delimiter": ";", "missing_values": ("1|2",)}, {"a|b": None, "c": 3}),
        ("1;2,5\n", {"header": "none"}, {"column_1": 1, "column_2": 2.5}),
        (",b\n1,2\n", {}, {"": 1, "b": 2}),
        ("abc,refused\n1,2\n", {"missing_values": ("refused",)}, HeaderError),
    ],
)
def test_names_are_what_their_publisher_sees(content: str, dialect: Any, found: Any, tmp_path: Path) -> None:
    """Without spaces and a spreadsheet's apostrophe, also with a hash, or made up; a word for a gap is no name."""
    (tmp_path / "a.csv").write_text(content)
    if found is HeaderError:
        with pytest.raises(HeaderError, match="cell 2"):
            open_table(tmp_path / "a.csv", Dialect(**dialect))
        return
    rows = read(tmp_path / "a.csv", dict.fromkeys(found, "continuous"), **dialect)
    assert {name: cells[-1] for name, cells in rows.items()} == found
    assert open_table(tmp_path / "a.csv", Dialect(**dialect)).count_rows() == 1
