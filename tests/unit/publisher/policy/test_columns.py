"""Which columns are published: by type and policy alone."""

import datetime
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError
from tests.conftest import make_policy as make
from tests.conftest import policy_with
from tests.unit.publisher.conftest import sealed

from dp_bundle.base.errors import PolicyError
from dp_publish import publish
from dp_publish.data.table import Table, open_table
from dp_publish.forecast.first_rows import point_out_oddities
from dp_publish.policy.columns import choose_columns, prepare, resolve
from dp_publish.policy.model import ColumnPolicy, Policy


def test_columns_are_chosen_by_type_and_policy() -> None:
    """Numeric columns are published in the table's order, all others are named, and kinds can be changed."""
    table = sealed(i="integer", t="other", c="continuous", u="unknown", d="continuous", n="other")
    entries = {"i": {"kind": "continuous", "bounds": [0, 1]}, "d": {"drop": True}, "t": {"drop": True}}
    kinds, left_out = choose_columns(table, make({"c": [0, 1], "u": [0, 1]}, entries, mu=1.0))
    assert kinds == {"i": "continuous", "c": "continuous", "u": "continuous"}
    assert [*left_out] == ["t", "d", "n"]


def test_a_column_is_dropped_by_one_word() -> None:
    """Drop = true leaves a column out whatever else its section says, and text with bounds is told that remedy."""
    table = sealed(a="continuous", b="integer", t="other")
    dropped = {"b": {"bounds": [0, 1], "drop": True}, "t": {"bounds": [0, 1], "drop": True}}
    left_out = {"b": "dropped", "t": "dropped"}
    assert choose_columns(table, make({"a": [0, 1]}, dropped, mu=1.0)) == ({"a": "continuous"}, left_out)
    with pytest.raises(PolicyError, match="'t'"):
        choose_columns(table, make({"a": [0, 1], "t": [0, 1]}, mu=1.0))


@pytest.mark.parametrize("name", ["", "x" * 1001, "a\x1b[2Jb", "\u202eab"])
def test_names_that_no_manifest_takes_are_refused(name: str) -> None:
    """No name, an endless one, and one with a line break or a control character, in one line, unless it is dropped."""
    table = sealed(**{"a": "continuous", name: "continuous"})
    with pytest.raises(PolicyError) as caught:
        choose_columns(table, make({"a": [0, 1], name: [0, 1]}, {}, mu=1.0))
    assert str(caught.value).isprintable()
    assert list(choose_columns(table, make({"a": [0, 1]}, {name: {"drop": True}}, mu=1.0))[0]) == ["a"]


def test_entity_column_is_never_published() -> None:
    """Whatever its type, the entity's column is left out, and bounds for it are a mistake."""
    unit = {"entity": "who", "max_rows": 2}
    table = sealed(who="integer", a="continuous")
    left_out = {"who": "the unit of privacy"}
    assert choose_columns(table, make({}, mu=1.0, unit=unit)) == ({"a": "continuous"}, left_out)
    with pytest.raises(PolicyError, match="not published: 'who'"):
        choose_columns(table, make({"who": [0, 9]}, mu=1.0, unit=unit))


def test_the_index_of_a_parquet_file_is_no_column() -> None:
    """Labels of rows that pandas wrote into a file are refused with the line that leaves them out, unless declared."""
    name = "__index_level_0__"
    table = sealed(**{"a": "continuous", name: "integer"})
    with pytest.raises(PolicyError, match=name):
        choose_columns(table, make({"a": [0, 1]}, mu=1.0))
    assert choose_columns(table, make({"a": [0, 1]}, {name: {"drop": True}}, mu=1.0))[1] == {name: "dropped"}
    assert list(choose_columns(table, make({"a": [0, 1], name: [0, 9]}, mu=1.0))[0]) == ["a", name]


def numbers(*names: str, text: str = "", booleans: tuple[str, ...] = ()) -> Table:
    """Return a table of numbers, some text and truth values, at which nobody may look."""
    types = {name: "other" if name in text.split() else "continuous" for name in names}
    return replace(sealed(**types, **dict.fromkeys(booleans, "integer")), booleans=frozenset(booleans))


def said_of(columns: dict[str, Any], **privacy: Any) -> Policy:
    """Return a policy with these sections."""
    return make({}, columns, **(privacy or {"mu": 1.0}))


def test_the_most_specific_section_gives_each_entry() -> None:
    """A column's own section goes before the longest pattern, that before shorter ones, entry by entry.

    Names as questionnaires have them are no patterns, and brackets stand for themselves.
    """
    policy = said_of(
        {
            "sensor_a*": {"unit": "K"},
            "*": {"bounds": [0, 1], "missing": "midpoint", "unit": "m"},
            "sensor_*": {"bounds": [0, 9], "unit": "s"},
            "sensor_a1": {"missing": "refuse", "description": "the first"},
            "?": {"weight": 2.0},
            "* [mm]": {"unit": "mm"},
            "Q1?": {"unit": "a"},
            "x": {"unit": "kg"},
        }
    )
    table = numbers("sensor_a1", "sensor_a2", "sensor_b1", "x", "other", "Q1?", "width [mm]")
    found = resolve(table, policy)[1].columns
    assert found == {
        "sensor_a1": ColumnPolicy(bounds=(0, 9), unit="K", missing="refuse", description="the first"),
        "sensor_a2": ColumnPolicy(bounds=(0, 9), unit="K", missing="midpoint"),
        "sensor_b1": ColumnPolicy(bounds=(0, 9), unit="s", missing="midpoint"),
        "x": ColumnPolicy(bounds=(0, 1), unit="kg", missing="midpoint", weight=2.0),
        "other": ColumnPolicy(bounds=(0, 1), unit="m", missing="midpoint"),
        "Q1?": ColumnPolicy(bounds=(0, 1), unit="a", missing="midpoint"),
        "width [mm]": ColumnPolicy(bounds=(0, 1), unit="mm", missing="midpoint"),
    }
    assert resolve(table, resolve(table, policy)[1])[1].columns == found


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"sensor_*": {}, "temp*": {}}, "patterns that match no column of the table: 'temp\\*'$"),
        ({"*": {"bounds": [0.5, 1]}, "sensor_1": {"kind": "integer"}}, "together, at columns.sensor_1: bounds of an"),
    ],
)
def test_patterns_that_fit_nothing_are_policy_errors(columns: dict[str, Any], said: str) -> None:
    """A pattern without a column, and one that contradicts a section, are named."""
    with pytest.raises(PolicyError, match=said):
        resolve(numbers("sensor_1", "sensor_2"), said_of(columns))


def test_patterns_can_drop_and_columns_that_are_left_out_take_no_bounds() -> None:
    """Bounds for all columns are no mistake where one is text, dropped, an entity, or withheld."""
    policy = said_of({"*": {"bounds": [0, 1]}, "tmp_*": {"drop": True}}, mu=1.0, unit={"entity": "who", "max_rows": 2})
    table = numbers("a", "name", "tmp_1", "who", "old", text="name")
    resolved = resolve(table, policy, ["old"])[1]
    kinds, left_out = choose_columns(table, resolved, ["old"])
    assert ([*kinds], [*left_out]) == (["a"], ["name", "tmp_1", "who", "old"])
    with pytest.raises(PolicyError, match="not published: 'name'"):
        choose_columns(table, resolve(table, said_of({"name": {"bounds": [0, 1]}}))[1])


def test_truth_values_have_bounds_0_and_1() -> None:
    """A declared type of truth values is public, so that their bounds need neither a declaration nor a search."""
    table = numbers("a", "said", booleans=("b", "own"))
    policy = said_of({"*": {"bounds": [0, 9]}, "said": {"kind": "boolean"}, "own": {"bounds": [0, 2]}}, mu=1.0)
    resolved = resolve(table, policy)[1]
    assert {name: entry.bounds for name, entry in resolved.columns.items()} == {
        "a": (0, 9),
        "said": (0, 1),
        "b": (0, 1),
        "own": (0, 2),
    }
    kinds, _ = choose_columns(table, resolved)
    assert kinds == {"a": "continuous", "said": "integer", "b": "integer", "own": "integer"}
    scores = said_of({"own": {"bounds": [0, 2]}}, mu=1.0, scale="scores")
    for found in (resolve(table, scores)[1], resolve(*resolve(table, scores))[1]):
        assert [(source.name, source.kind, source.levels) for source in found.sources] == [
            ("b", "boolean", ("false", "true"))
        ]


INDICATOR = {"missing": "indicator"}


DAY = datetime.date(2026, 3, 1)


TABLE = pa.table(
    {
        "pay": pa.array([1.5, None, float("nan"), 4.0]),
        "kids": pa.array([0, 2, None, 3], pa.int32()),
        "grade": pa.array(["low", None, "high", "middle"]),
        "born": pa.array([DAY, None, DAY, DAY]),
        "seen": pa.array([datetime.time(1), None, datetime.time(2), datetime.time(3)]),
        "ill": pa.array([True, None, False, True]),
        "name": pa.array(["a", "b", "c", "d"]),
    }
)


COLUMNS: dict[str, Any] = {
    "pay": {"bounds": [0, 10], **INDICATOR},
    "kids": {"bounds": [0, 9], **INDICATOR},
    "grade": {"kind": "ordered", "levels": ["low", "middle", "high"], **INDICATOR},
    "born": {"kind": "date", "bounds": [datetime.date(2020, 1, 1), datetime.date(2030, 1, 1)], **INDICATOR},
    "seen": {"kind": "time", "bounds": [datetime.time(0), datetime.time(23)], **INDICATOR},
    "ill": {"drop": True},
}


def policy(columns: dict[str, Any], **privacy: Any) -> Policy:
    """Return a policy for a cell at mu = 1."""
    return policy_with(columns, **{"unit": "cell", "mu": 1.0, **privacy})


@pytest.mark.parametrize("release", ["rows", "covariance"])
def test_every_number_has_a_column_beside_it(release: str) -> None:
    """Null and NaN are gaps; numbers, whole numbers, ordered levels, dates and times have them published alike."""
    table, resolved = resolve(open_table(TABLE), policy(COLUMNS, unit="row", release=release))
    kinds, left_out = choose_columns(table, resolved)
    names = ["pay", "kids", "grade", "born", "seen"]
    assert list(kinds) == [each for name in names for each in (name, f"{name}=(no value)")]
    assert set(kinds.values()) == {"continuous"}
    assert [*left_out] == ["ill", "name"]
    (batch,) = table.read(kinds, 10)
    gaps = {name: batch.column(f"{name}=(no value)").to_pylist() for name in names}
    assert gaps == {
        **{name: [0, 1, 0, 0] for name in ("grade", "born", "seen")},
        "pay": [0, 1, 1, 0],
        "kids": [0, 0, 1, 0],
    }
    assert batch.column("grade").to_pylist() == [0, None, 2, 1]
    assert batch.column("seen").to_pylist() == [3600, None, 7200, 10800]

    again, same = resolve(open_table(TABLE), resolved)
    assert same == resolved
    assert again.types == table.types
    one_of_two = {"kids=(no value)": "continuous", "pay": "continuous"}
    (batch,) = table.read(one_of_two, 10)
    assert batch.column_names == list(one_of_two)


@pytest.mark.parametrize(
    ("columns", "privacy", "message"),
    [
        ({"kids": {"kind": "integer", "bounds": [0, 9], **INDICATOR}}, {}, 'give kind = "continuous"'),
        ({"ill": INDICATOR}, {}, 'give a truth value kind = "category"'),
        (
            {"kids": {"bounds": [0, 9], "max_change": 1}, "pay": {"bounds": [0, 9], "max_change": 1, **INDICATOR}},
            {"unit": "change"},
            "no gaps",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(columns: dict[str, Any], privacy: dict[str, Any], message: str) -> None:
    """Discrete noise, a ball, noise from the data, truth values, counts whose changes are protected."""
    with pytest.raises((PolicyError, ValidationError), match=message):
        resolve(open_table(TABLE), policy(columns, **privacy))


def test_a_name_that_is_taken_is_refused() -> None:
    """Two published columns never have one name."""
    levels = {"kind": "category", "categories": ["a", "b", "c"]}
    for other, section in (("pay=(no value)", {"bounds": [0, 9], **INDICATOR}), ("pay=b", levels)):
        with pytest.raises(PolicyError, match="a name that another column has"):
            resolve(open_table(pa.table({"pay": [1.0], other: [2.0]})), policy({"pay": section}))


def _of_second_moments(columns: dict[str, Any], **privacy: object) -> Policy:
    """Return a policy that declares nothing of what columns hold, of a release before which that is found."""
    return make({}, columns, release="covariance", mu=20.0, **privacy)


@pytest.mark.parametrize(
    "columns", [{"we*": {"drop": True}}, {"*": {"description": "of a person"}, "weight": {"drop": True}}]
)
def test_what_is_dropped_is_left_out_where_columns_are_found(
    columns: dict[str, Any], table: pd.DataFrame, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """A pattern drops columns of which nothing else is declared, too, and sections of patterns go on by name."""
    receipt = publish(table, _of_second_moments(columns), out=tmp_path / "people.bundle.tar", key=key)
    assert [column.name for column in receipt.release.columns] == ["height", "visits"]
    described = columns.get("*", {}).get("description", "")
    assert {column.description for column in receipt.release.columns} == {described}


def test_a_misspelt_column_is_refused_before_anything_is_found(table: pd.DataFrame) -> None:
    """A section, a pattern or a unit that is no column's is a mistake where nothing else is declared, too."""
    for name in ("wieght", "wie*"):
        with pytest.raises(PolicyError, match="wie"):
            prepare(table, _of_second_moments({name: {"drop": True}}))
    with pytest.raises(PolicyError, match="nobody"):
        prepare(table, _of_second_moments({}, unit={"entity": "nobody", "max_rows": 3}))


def test_columns_without_two_different_values_are_pointed_out() -> None:
    """Gaps, and empty cells of text, are no value."""
    cells = {"same": [1, None, 1] * 50, "text": ["a", "", None] * 50, "two": [1, 2, 1] * 50}
    (said,) = point_out_oddities(open_table(pa.table(cells)), [*cells])
    assert "150 rows: 'same', 'text'." in said


def test_a_null_among_numbers_in_text_is_no_word() -> None:
    """It is a gap, as an empty cell of a text file is, and nothing is said of it."""
    assert point_out_oddities(open_table(pa.table({"x": pa.array(["1.5", "2", None] * 20)})), ["x"]) == []
