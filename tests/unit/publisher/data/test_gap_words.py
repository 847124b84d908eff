"""Words for gaps that a policy lists as levels are values, in every kind of table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pydantic import ValidationError

from dp_bundle.base.errors import SchemaError
from dp_publish.data.cells import MISSING
from dp_publish.data.table import open_table
from dp_publish.policy.columns import choose_columns, resolve
from dp_publish.policy.model import Policy

WORDS = [*dict.fromkeys(word.lower() for word in MISSING if word), "NA", "None", "N/A", "Null"]


def policy_of(table: dict[str, Any] | None = None, **columns: Any) -> Policy:
    """Return a policy with little noise."""
    said = {"dataset": {"name": "d"}, "privacy": {"unit": "cell", "mu": 1.0}, "columns": columns}
    return Policy.model_validate({**said, "table": table or {}})


def read(source: Any, policy: Policy) -> dict[str, list[Any]]:
    """Return what is read of a table under a policy."""
    table, resolved = resolve(open_table(source, policy.table if isinstance(source, Path) else None), policy)
    kinds, _ = choose_columns(table, resolved)
    found: dict[str, list[Any]] = pa.Table.from_batches(table.read(kinds, 3)).to_pydict()
    return found


def both(folder: Path, words: list[str | None], **said: Any) -> list[dict[str, list[Any]]]:
    """Return what is read of a column of words, written as text and as Parquet."""
    frame = pd.DataFrame({"x": pd.array(words, "string"), "n": [1.5] * len(words)})
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    columns = {"x": said, "n": {"bounds": [0, 9]}}
    return [read(folder / name, policy_of(**columns)) for name in ("t.csv", "t.parquet")]


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
    policy = policy_of(x={"kind": "ordered", "levels": ["NO", "NA"], "missing": "drop"}, n={"missing": "drop"})
    assert read(tmp_path / "t.csv", policy)["x"] == [1, None, None, 0]


def test_a_level_takes_nothing_from_other_columns(tmp_path: Path) -> None:
    """NA is a value where it is listed, and a gap in a column beside it."""
    (tmp_path / "t.csv").write_text("x,y,n\nNA,NA,NA\nb,b,2\n")
    columns = {name: {"kind": "ordered", "levels": levels} for name, levels in (("x", ["NA", "b"]), ("y", ["a", "b"]))}
    assert read(tmp_path / "t.csv", policy_of(**columns)) == {"x": [0, 1], "y": [None, 1], "n": [None, 2.0]}


def test_declared_words_for_gaps_are_gaps_of_levels_and_dates(tmp_path: Path) -> None:
    """With blanks around them, as in columns of numbers."""
    (tmp_path / "t.csv").write_text("x,d\nb, 2026-01-31\n unknown, unknown\n a ,NA\n")
    columns = {"x": {"kind": "ordered", "levels": ["a", "b"]}, "d": {"kind": "date"}}
    found = read(tmp_path / "t.csv", policy_of({"missing_values": ["unknown"]}, **columns))
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
        read(tmp_path / "t.parquet", policy_of(x={"kind": "ordered", "levels": ["a", "b"]}))
