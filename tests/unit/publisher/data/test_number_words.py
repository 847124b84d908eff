"""Words that the policy says are numbers or truth values: of one meaning in tables of every kind."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import PolicyError, SchemaError
from dp_publish import Policy, publish
from dp_publish.data.table import Table, open_table
from dp_publish.policy.columns import choose_columns, resolve

TABLES = ["csv", "parquet", "string", "object", "category", "large_string", "string_view"]


def table_of(words: list[str], kind: str, folder: Path) -> Any:
    """Return a table with a column of words, of this kind, and one of numbers."""
    frame = pd.DataFrame({"x": pd.array(words, "string"), "n": [0.5] * len(words)})
    if kind == "csv":
        frame.to_csv(folder / "t.csv", index=False)
    if kind == "parquet":
        frame.to_parquet(folder / "t.parquet")
    if kind in ("csv", "parquet"):
        return folder / f"t.{kind}"
    if kind in ("object", "category", "string"):
        return frame.astype({"x": kind})
    return pa.table({"x": pa.array(words, getattr(pa, kind)()), "n": frame["n"]})


def resolved(source: Any, **said: Any) -> tuple[Table, dict[str, str]]:
    """Return the table as the policy has it read, and the kinds of what is published."""
    columns = {"x": said, "n": {"bounds": [0, 1]}}
    policy = Policy.model_validate(
        {"dataset": {"name": "d"}, "privacy": {"unit": "cell", "mu": 9.0}, "columns": columns}
    )
    table, policy = resolve(open_table(source), policy)
    return table, choose_columns(table, policy)[0]


def read(source: Any, **said: Any) -> list[Any]:
    """Return what is read of the column of words."""
    table, kinds = resolved(source, **said)
    return pa.Table.from_batches(table.read(kinds, 3)).to_pydict()["x"]


@pytest.mark.parametrize("kind", TABLES)
def test_truth_values_are_words_in_tables_of_every_kind(kind: str, tmp_path: Path) -> None:
    """They are published, and were left out of typed tables as if nothing was said of them."""
    source = table_of(["yes", "No", " TRUE", "false", "1", "0"], kind, tmp_path)
    assert read(source, kind="boolean") == [1, 0, 1, 0, 1, 0]
    assert resolved(source, kind="boolean")[1] == {"x": "integer", "n": "continuous"}


@pytest.mark.parametrize("kind", TABLES)
def test_numbers_are_words_in_tables_of_every_kind(kind: str, tmp_path: Path) -> None:
    """In the spellings of a text file."""
    source = table_of(["7", "+3", " 2.0", "1e1", "-4"], kind, tmp_path)
    for said, number in (("integer", int), ("continuous", float)):
        found = read(source, kind=said, bounds=[-9, 9])
        assert found == [7, 3, 2, 10, -4]
        assert {type(each) for each in found} == {number}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("word", ["s3cr3t", "2.5", "maybe", "1e300", "99999999999999999999"])
def test_other_words_are_refused(word: str, kind: str, tmp_path: Path) -> None:
    """By the name of their column; only a text file's sentence names the line."""
    with pytest.raises(SchemaError, match="'x'") as refused:
        read(table_of(["1", word], kind, tmp_path), kind="integer", bounds=[0, 9])
    assert word not in str(refused.value)


@pytest.mark.parametrize("kind", ["continuous", "integer", "boolean"])
def test_a_type_that_a_kind_is_not_read_from_is_refused(kind: str) -> None:
    """It was left out as if no kind was given."""
    dates = pa.table({"x": pa.array([datetime.date(2026, 1, 31)]), "n": [0.5]})
    with pytest.raises(PolicyError, match=rf"type \(date\) that kind = \"{kind}\" is not read from"):
        resolved(dates, kind=kind)


def test_files_and_frames_have_one_manifest(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Columns of truth values are the same wherever the words are."""
    columns = {"x": {"kind": "boolean"}, "n": {"bounds": [0, 1]}}
    policy = {"dataset": {"name": "d"}, "privacy": {"unit": "cell", "mu": 9.0}, "columns": columns}
    told = []
    for kind in TABLES:
        source = table_of(["yes", "no"] * 50, kind, tmp_path)
        out = tmp_path / f"{kind}.bundle.tar"
        told.append(publish(source, Policy.model_validate(policy), out=out, key=key).release.columns)
    assert all(columns == told[0] for columns in told)
    assert [column.name for column in told[0]] == ["x", "n"]
