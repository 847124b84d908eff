"""Patterns of column names, and what declared types add to the policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from dp_bundle.base.errors import PolicyError
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Table, open_table
from dp_publish.policy.columns import choose_columns, resolve
from dp_publish.policy.model import ColumnPolicy, Policy


def sealed(*names: str, text: str = "", booleans: tuple[str, ...] = ()) -> Table:
    """Return a table whose values nobody may look at."""

    def read(_kinds: dict[str, str], _rows: int) -> Iterator[pa.RecordBatch]:
        raise AssertionError("a value was read")

    types = {name: ColumnType.OTHER if name in text.split() else ColumnType.CONTINUOUS for name in names}
    return Table({**types, **dict.fromkeys(booleans, ColumnType.INTEGER)}, read, frozenset(booleans))


def make(columns: dict[str, Any], **privacy: Any) -> Policy:
    """Return a policy."""
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy or {"mu": 1.0}, "columns": columns})


def test_the_most_specific_section_gives_each_entry() -> None:
    """A column's own section goes before the longest pattern, that before shorter ones, entry by entry."""
    policy = make(
        {
            "sensor_a*": {"unit": "K"},
            "*": {"bounds": [0, 1], "missing": "midpoint", "unit": "m"},
            "sensor_*": {"bounds": [0, 9], "unit": "s"},
            "sensor_a1": {"missing": "refuse", "description": "the first"},
            "?": {"weight": 2.0},
            "x": {"unit": "kg"},
        }
    )
    table = sealed("sensor_a1", "sensor_a2", "sensor_b1", "x", "other")
    found = resolve(table, policy)[1].columns
    assert found == {
        "sensor_a1": ColumnPolicy(bounds=(0, 9), unit="K", missing="refuse", description="the first"),
        "sensor_a2": ColumnPolicy(bounds=(0, 9), unit="K", missing="midpoint"),
        "sensor_b1": ColumnPolicy(bounds=(0, 9), unit="s", missing="midpoint"),
        "x": ColumnPolicy(bounds=(0, 1), unit="kg", missing="midpoint", weight=2.0),
        "other": ColumnPolicy(bounds=(0, 1), unit="m", missing="midpoint"),
    }
    assert resolve(table, resolve(table, policy)[1])[1].columns == found


def test_of_equally_long_patterns_the_last_counts() -> None:
    """Two patterns that are as long as each other are taken in the file's order."""
    for order in (["a*", "*b"], ["*b", "a*"]):
        policy = make({pattern: {"unit": pattern} for pattern in order})
        assert resolve(sealed("ab"), policy)[1].column("ab").unit == order[-1]


def test_a_name_with_a_star_or_a_bracket_is_a_name_where_the_table_has_it() -> None:
    """Names as questionnaires have them are no patterns, and brackets stand for themselves."""
    policy = make({"Q1?": {"unit": "a"}, "* [mm]": {"unit": "mm"}})
    found = resolve(sealed("Q1?", "Q1b", "width [mm]", "width m"), policy)[1].columns
    assert [entry.unit for entry in found.values()] == ["a", "", "mm", ""]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"sensor_*": {}, "temp*": {}}, "patterns that match no column of the table: 'temp\\*'$"),
        ({"sensor": {}}, "does not have: 'sensor'"),
        ({"*": {"bounds": [0.5, 1]}, "sensor_1": {"kind": "integer"}}, "together, at columns.sensor_1: bounds of an"),
    ],
)
def test_patterns_that_fit_nothing_are_policy_errors(columns: dict[str, Any], said: str) -> None:
    """A pattern without a column, and one that contradicts a section, are named."""
    with pytest.raises(PolicyError, match=said):
        resolve(sealed("sensor_1", "sensor_2"), make(columns))


def test_patterns_can_drop_and_columns_that_are_left_out_take_no_bounds() -> None:
    """Bounds for all columns are no mistake where one is text, dropped, an entity, or withheld."""
    policy = make({"*": {"bounds": [0, 1]}, "tmp_*": {"drop": True}}, mu=1.0, unit={"entity": "who", "max_rows": 2})
    table = sealed("a", "name", "tmp_1", "who", "old", text="name")
    resolved = resolve(table, policy, ["old"])[1]
    assert choose_columns(table, resolved, ["old"]) == ({"a": "continuous"}, ("name", "tmp_1", "who", "old"))
    with pytest.raises(PolicyError, match="not published: 'name'"):
        choose_columns(table, resolve(table, make({"name": {"bounds": [0, 1]}}))[1])


def test_truth_values_have_bounds_0_and_1() -> None:
    """A declared type of truth values is public, so that their bounds need neither a declaration nor a search."""
    table = sealed("a", "said", booleans=("b", "own"))
    policy = make({"*": {"bounds": [0, 9]}, "said": {"kind": "boolean"}, "own": {"bounds": [0, 2]}}, mu=1.0)
    resolved = resolve(table, policy)[1]
    assert {name: entry.bounds for name, entry in resolved.columns.items()} == {
        "a": (0, 9),
        "said": (0, 1),
        "b": (0, 1),
        "own": (0, 2),
    }
    kinds, _ = choose_columns(table, resolved)
    assert kinds == {"a": "continuous", "said": "integer", "b": "integer", "own": "integer"}
    ball = make({"said": {"kind": "boolean"}}, mu=1.0, l2_radius=2.0)
    assert set(choose_columns(table, resolve(table, ball)[1])[0].values()) == {"continuous"}
    moments = make({"*": {"bounds": [0, 9]}}, mu=1.0, release="covariance", l2_radius=2.0)
    assert resolve(table, moments)[1].column("b").bounds == (0, 1)


def test_tables_tell_their_truth_values() -> None:
    """Columns of truth values are known in Arrow and pandas tables, behind a dictionary and with gaps as well."""
    frame = pd.DataFrame({"a": [1, 0], "b": [True, False], "c": pd.array([True, None], dtype="boolean")})
    assert open_table(frame).booleans == {"b", "c"}
    assert open_table(pa.table({"d": pa.array([True]).dictionary_encode()})).booleans == {"d"}


def test_whole_numbers_of_a_covariance_release_have_a_kind() -> None:
    """A column whose type is whole numbers is of that kind, if the policy gives no other and moments are released."""
    columns = {"*": {"bounds": [0, 9]}, "b": {"kind": "continuous"}}
    table = Table({"a": ColumnType.INTEGER, "b": ColumnType.INTEGER, "x": ColumnType.CONTINUOUS}, sealed("a").read)
    found = resolve(table, make(columns, mu=1.0, release="covariance"))[1]
    assert [found.column(name).kind for name in "abx"] == ["integer", "continuous", None]
    assert resolve(table, make(columns))[1].column("a").kind is None
