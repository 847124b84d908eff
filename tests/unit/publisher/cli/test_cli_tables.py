"""dp-publish of CSV files, and what it points out in a table's first rows."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from tests.unit.publisher.conftest import POLICY, Call

from dp_bundle.bundle.reading import open_bundle
from dp_bundle.trust.keys import key_names
from dp_publish.ledger.ledger import Ledger
from dp_publish.release.workers import cluster


def test_a_csv_without_a_header_does_not_publish_a_person(call: Call, tmp_path: Path) -> None:
    """The first person's record is not taken for column names: one sentence, nothing made; a word settles it."""
    lines = [f"{20 + index % 50},{60 + index % 30}.5" for index in range(200)]
    Path("people.csv").write_text("\n".join(lines) + "\n")
    for words in (["people.csv", "--mu", "9"], ["policy", "people.csv"], ["plan", "people.csv"]):
        ended = call(*words)
        assert (ended.code, ended.out) == (2, "")
        assert "--header none; if it has names, --header first" in ended.err
        assert ended.err.count("\n") == 1
    assert key_names() == []
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]

    assert call("policy", "people.csv", "--header", "none").code == 0
    path = Path("people.policy.toml")
    path.write_text(path.read_text().replace("# bounds = [low, high]", "bounds = [0, 100]"))
    assert call("people.csv", "--mu", "300").code == 0
    with open_bundle(Path("people.bundle.tar")) as bundle:
        assert [column.name for column in bundle.release.columns] == ["column_1", "column_2"]
        assert bundle.release.n_rows == 200
    assert b"60.5" not in Path("people.bundle.tar").read_bytes()
    assert call("people.csv", "--mu", "300", "--header", "first", "--out", "b.tar").code == 2  # other names now


@pytest.mark.parametrize("content", ["a,b", "a,b\n", "a,b\r\n\r\n"])
@pytest.mark.parametrize("words", [[], ["--release", "covariance"], ["--mu", "2"]])
def test_a_header_alone_is_refused_before_anything_is_booked(content: str, words: list[str], call: Call) -> None:
    """A CSV file without rows ends in one sentence, also without a line break at its end, and leaves no gap."""
    Path("a.csv").write_text(content)
    bounds = "" if words == [] else "bounds = [0, 1]"
    Path("a.policy.toml").write_text(f'[columns."*"]\n{bounds}\n')
    ended = call("a.csv", *words)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.splitlines()[-1] == "error: the table has no rows to publish"
    assert Ledger().entries() == []


def test_workers_are_not_started_for_a_text_file(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers cannot be told which rows of a text file are theirs, which is said before anything is started or made."""
    monkeypatch.setattr(cluster, "Dask", lambda _: pytest.fail("workers were started"))
    Path("a.csv").write_text("a,b\n" + "1.5,2.5\n" * 50)
    ended = call("a.csv", "--engine", "dask")
    assert (ended.code, ended.out) == (2, "")
    assert "a text file can be written as one" in ended.err
    assert ended.err.count("\n") == 1
    assert key_names() == []


def test_a_folder_of_parquet_may_be_called_like_a_text_file(people: Path, call: Call) -> None:
    """What lies in a folder counts, and not the folder's name: it is planned and published."""
    folder = Path("a.csv")
    folder.mkdir()
    people.rename(folder / "people.parquet")
    policy = Path("people.policy.toml")
    planned = call("plan", "a.csv", "--policy", str(policy), "--json")
    assert planned.code == 0, planned.err
    assert json.loads(planned.out)["n_rows"] == 400
    assert call("a.csv", "--policy", str(policy)).code == 0


def test_columns_worth_a_word_are_pointed_out_before_anything_is_spent(people: Path, call: Call) -> None:
    """Identifiers and constants are named on stderr, also where the release is then refused, and not in the bundle."""
    frame = pd.read_parquet(people).assign(visit_id=range(400), serial=range(400), constant=3)
    frame.to_parquet(people)
    wide = POLICY + "".join(f"[columns.{name}]\nbounds = [0, 400]\n" for name in ("visit_id", "serial", "constant"))
    Path("people.policy.toml").write_text(wide.replace("mu = 20", 'mu = 20\nrelease = "covariance"'))
    ended = call("people.parquet")
    assert ended.code == 0
    for said in ("(by name): 'visit_id'", "all different in the first 400 rows): 'serial'", "hardly vary"):
        assert said in ended.err
        assert said not in ended.out
    assert b"hardly vary" not in Path("people.bundle.tar").read_bytes()
    assert "(by name): 'visit_id'" in call("plan", "people.parquet").err
    assert "'serial'" in call("people.parquet", "--out", "no/folder.tar").err
    assert call("people.parquet", "--out", "b.tar", "--quiet").err == ""


def test_truth_values_need_no_bounds(call: Call) -> None:
    """A column of truth values is published within 0 and 1 without a declaration, from Parquet and, if said, CSV."""
    frame = pd.DataFrame({"x": [0.5, 0.25] * 50, "b": [True, False] * 50})
    frame.to_parquet("a.parquet")
    frame.to_csv("b.csv", index=False)
    Path("a.policy.toml").write_text("[columns.x]\nbounds = [0, 1]\n")
    Path("b.policy.toml").write_text('[columns.x]\nbounds = [0, 1]\n[columns.b]\nkind = "boolean"\n')
    for name in ("a.parquet", "b.csv"):
        release = json.loads(call(name, "--mu", "1", "--anyway", "--json").out)["release"]
        assert release["columns"][1]["bounds"] == [0, 1]
        assert release["columns"][1]["kind"] == "integer"
        assert {column["bounds_obtained"] for column in release["columns"]} == {"declared"}


def test_a_european_file_is_published_and_planned(call: Call) -> None:
    """Semicolons, decimal commas and Windows' letters need no word, and patterns bound all columns at once."""
    frame = pd.DataFrame({f"größe_{index}": [0.5, 1.5, 2.25] * 20 for index in range(4)})
    frame.to_csv("a.csv", sep=";", decimal=",", encoding="cp1252", index=False)
    Path("a.policy.toml").write_text('[privacy]\nmu = 100\n[columns."größe_*"]\nbounds = [0, 3]\n', encoding="utf-8")
    assert "60 rows, 4 columns" in call("plan", "a.csv").out
    assert call("a.csv").code == 0
    with open_bundle(Path("a.bundle.tar")) as bundle:
        assert [column.name for column in bundle.release.columns] == list(frame)
        assert bundle.release.n_rows == 60


def test_faults_in_a_csv_are_placed(call: Call) -> None:
    """A text where a number should be is found by line and column, and the release costs nothing."""
    Path("a.csv").write_text("x,y\n" + "1.5,2\n" * 100 + "1.5,s3cr3t\n")
    ended = call("a.csv", "--mu", "5")
    assert (ended.code, ended.out) == (1, "")
    assert "line 102, column 'y': the value is not a number" in ended.err
    assert "s3cr3t" not in ended.err
    assert Ledger().entries() == []


@pytest.mark.parametrize("words", [["--delimiter", ";;"], ["--encoding", "klingon"], ["--decimal", "x"]])
def test_wrong_words_about_a_text_file_are_mistakes(words: list[str], call: Call) -> None:
    """What a text file cannot be written in is refused by the option's name."""
    Path("a.csv").write_text("a|b;c\n1|2;3\n")
    ended = call("policy", "a.csv", *words)
    assert (ended.code, ended.out) == (2, "")
    assert words[0] in ended.err
    assert call("policy", "a.csv").code == 1
    made = call("policy", "a.csv", "--delimiter", ";")
    told = 'words or dates: plan --look names them; give each a kind ("category", "ordered" or "boolean"; "date" or'
    assert (made.code, told in made.out) == (0, True)
    assert 'delimiter = ";"' in Path("a.policy.toml").read_text()
