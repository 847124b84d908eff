"""A new policy: made from names and types alone, and complete but for the bounds."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_bundle.base.errors import SchemaError
from dp_publish.data.dialect import Dialect
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Table, open_table
from dp_publish.policy.columns import choose_columns, require_bounds, resolve
from dp_publish.policy.file import load_policy
from dp_publish.policy.model import Policy
from dp_publish.policy.template import describe_undecided, policy_template


def load(tmp_path: Path, text: str, **overrides: object) -> Policy:
    """Read a policy from a file of this text."""
    path = tmp_path / "data.policy.toml"
    path.write_text(text, encoding="utf-8")
    return load_policy(path, "data", overrides)


def fill_in(text: str) -> str:
    """Put bounds into a template as a person would."""
    return text.replace("# bounds = [low, high]", "bounds = [0, 10]")


def test_template_needs_only_bounds(tmp_path: Path) -> None:
    """Filled in, the template parses, names every column in order, and drops what is not numeric."""
    types = {"a": ColumnType.CONTINUOUS, "b c": ColumnType.INTEGER, "t": ColumnType.OTHER, "u": ColumnType.UNKNOWN}
    policy = load(tmp_path, fill_in(policy_template("data.csv", "wine", types)))

    assert policy.dataset.name == "wine"
    assert list(policy.columns) == list(types)
    assert [entry.kind for entry in policy.columns.values()] == ["continuous", "integer", None, "continuous"]
    assert [entry.drop for entry in policy.columns.values()] == [False, False, True, False]
    assert policy.columns["a"].bounds == (0.0, 10.0)
    assert load(tmp_path, policy_template("d", "d", types, booleans=["b c"])).column("b c").kind == "boolean"
    assert all(entry.bounds is None for entry in load(tmp_path, policy_template("d", "d", types)).columns.values())


def test_text_and_dates_need_a_list_of_levels_and_dates_as_bounds(tmp_path: Path) -> None:
    """Uncommented as it says, what a template has of text and of dates is a policy that publishes them."""
    types = {"sex": ColumnType.TEXT, "town": ColumnType.TEXT, "born": ColumnType.DATE, "seen": ColumnType.TIME}
    types |= {"at": ColumnType.TIME_OF_DAY, "stay": ColumnType.DURATION, "tags": ColumnType.NESTED}
    text = policy_template("data.parquet", "wine", types)
    assert [entry.drop for entry in load(tmp_path, text).columns.values()] == [True, True, *[False] * 4, True]
    assert describe_undecided(types) == [
        "left out: 'sex' (text), 'town' (text), 'tags' (lists or structures)",
        'to publish text, give it a kind ("category", "ordered" or "boolean") in the policy, and delete drop',
    ]

    said = text.replace("drop = true", "", 1)
    for entry in ("kind", "categories", "other", "missing", "bounds"):
        said = said.replace(f"# {entry} = ", f"{entry} = ")
    said = said.replace('["...", "..."]', '["f", "m"]').replace("[low, high]", "[0, 60]").replace("# spread", "#")
    policy = load(tmp_path, said)
    assert [entry.kind for entry in policy.columns.values()] == [
        "category",
        None,
        "date",
        "time",
        "time",
        "duration",
        None,
    ]
    assert (policy.columns["sex"].categories, policy.columns["sex"].other) == (("f", "m"), "other")
    assert policy.columns["born"].bounds == (18262.0, 21914.0)
    assert policy.columns["at"].bounds == (0.0, 86399.0)


def test_template_of_a_wide_table_is_short_and_covers_every_column(tmp_path: Path) -> None:
    """Two thousand columns need patterns instead of 16,000 lines; filled in, every column has bounds."""
    names = [*(f"sensor_{index}" for index in range(1000)), *(f"V{index}" for index in range(980)), "patient_id"]
    names += ["age", *(f"{letter}{letter}" for letter in "abcdefghijklmnop"), "flag", "name of it"]
    types = dict.fromkeys(names, ColumnType.CONTINUOUS) | {"name of it": ColumnType.OTHER, "flag": ColumnType.INTEGER}
    text = policy_template("data.parquet", "wide", types, booleans=["flag"])
    assert len(text.splitlines()) < 80
    table = Table(types, lambda _kinds, _rows: iter(()), frozenset(["flag"]))
    policy = load(tmp_path, fill_in(text))
    assert list(policy.columns) == ["*", "sensor_*", "V*", "patient_id"]
    kinds, left_out = choose_columns(table, resolve(table, policy)[1])
    assert left_out == ("patient_id", "name of it")
    require_bounds(resolve(table, policy)[1], kinds)
    assert len(kinds) == 1998


@pytest.mark.parametrize("header", [None, "none"])
def test_template_of_a_text_file_says_how_it_is_written(header: str | None, tmp_path: Path) -> None:
    """What was found is in the policy, which then decides; a header is looked for anew unless it was given."""
    (tmp_path / "a.csv").write_bytes("größe;b\n1;2\n".encode("cp1252"))
    dialect = Dialect.model_validate({"header": header})
    layout = open_table(tmp_path / "a.csv", dialect).layout
    found = load(tmp_path, policy_template("a.csv", "a", {}, layout, header)).table
    assert found == Dialect.model_validate({"delimiter": ";", "encoding": "cp1252", "header": header})
    assert load(tmp_path, '[table]\nheader = "none"', header="first").table.header == "first"
    assert load(tmp_path, "", header=header, mu=1.0).table.header == header


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), min_size=1, max_size=4, unique=True))
def test_template_is_toml_for_any_column_names(names: list[str]) -> None:
    """Quotes, dots, line breaks and control characters in a column's name do not break the file."""
    text = policy_template("data\n[privacy]", names[0], dict.fromkeys(names, ColumnType.CONTINUOUS))
    document = tomllib.loads(text)
    assert list(document["columns"]) == names
    assert document["dataset"]["name"] == names[0]
    assert set(document) == {"dataset", "privacy", "columns"}


def test_template_never_reads_values(tmp_path: Path, table: pd.DataFrame) -> None:
    """A Parquet file whose every data byte is wiped out gives the same template, though it cannot be read."""
    path = tmp_path / "people.parquet"
    table.to_parquet(path)
    template = policy_template(path.name, "people", open_table(path).types)
    content = bytearray(path.read_bytes())
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:footer] = bytes(footer - 4)
    path.write_bytes(bytes(content))

    assert policy_template(path.name, "people", open_table(path).types) == template
    assert pq.read_metadata(path).num_rows == 400
    with pytest.raises(SchemaError):
        list(open_table(path).read({"height": "continuous"}, 100))
