"""Which columns are published: by type and policy alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from dp_bundle.base.errors import PolicyError
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import Table
from dp_publish.policy.columns import choose_columns, require_bounds, resolve
from dp_publish.policy.model import Policy

Bounds = dict[str, list[float]]


def make(bounds: Bounds, columns: dict[str, Any] | None = None, **privacy: Any) -> Policy:
    """Return a policy."""
    entries = {name: {"bounds": limits} for name, limits in bounds.items()} | (columns or {})
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": entries})


def sealed(**types: str) -> Table:
    """Return a table whose values nobody may look at."""

    def read(_kinds: dict[str, str], _rows: int) -> Iterator[pa.RecordBatch]:
        raise AssertionError("a value was read")

    return Table({name: ColumnType(kind) for name, kind in types.items()}, read)


def test_columns_are_chosen_by_type_and_policy() -> None:
    """Numeric columns are published in the table's order, all others are named, and kinds can be changed."""
    table = sealed(i="integer", t="other", c="continuous", u="unknown", d="continuous", n="other")
    entries = {"i": {"kind": "continuous", "bounds": [0, 1]}, "d": {"drop": True}, "t": {"drop": True}}
    kinds, left_out = choose_columns(table, make({"c": [0, 1], "u": [0, 1]}, entries, mu=1.0))
    assert kinds == {"i": "continuous", "c": "continuous", "u": "continuous"}
    assert left_out == ("t", "d", "n")


@pytest.mark.parametrize(
    ("bounds", "columns", "message"),
    [
        ({"a": [0, 1], "b": [0, 1], "z": [0, 1]}, {}, "does not have: 'z'"),
        ({"a": [0, 1], "b": [0, 1], "t": [0, 1]}, {}, "not published: 't'"),
        (
            {},
            {"a": {"drop": True}, "b": {"drop": True}},
            "no column to publish: the policy drops each, or gives no kind",
        ),
        ({"a": [0, 1], "b": [0, 1]}, {"b": {"kind": "integer", "bounds": [0, 1]}}, ""),
    ],
)
def test_policy_and_table_must_fit(bounds: Bounds, columns: dict[str, Any], message: str) -> None:
    """Each disagreement is a policy error that names the column; the last case is sound."""
    table = sealed(a="continuous", b="integer", t="other")
    policy = make(bounds, columns, mu=1.0)
    if not message:
        assert list(choose_columns(table, policy)[0]) == ["a", "b"]
        return
    with pytest.raises(PolicyError, match=message) as caught:
        choose_columns(*resolve(table, policy))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_a_column_is_dropped_by_one_word() -> None:
    """Drop = true leaves a column out whatever else its section says, and text with bounds is told that remedy."""
    table = sealed(a="continuous", b="integer", t="other")
    dropped = {"b": {"bounds": [0, 1], "drop": True}, "t": {"bounds": [0, 1], "drop": True}}
    assert choose_columns(table, make({"a": [0, 1]}, dropped, mu=1.0)) == ({"a": "continuous"}, ("b", "t"))
    with pytest.raises(
        PolicyError, match='being text or a unit of privacy; give dates kind = "date" or "time", and words "category"'
    ):
        choose_columns(table, make({"a": [0, 1], "t": [0, 1]}, mu=1.0))


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "\u202eab"])
def test_column_names_that_would_draw_lines_are_refused_before_anything_is_spent(name: str) -> None:
    """A column's name with a line break or a control character is refused in one line, unless it is dropped."""
    table = sealed(**{"a": "continuous", name: "continuous"})
    with pytest.raises(PolicyError, match="write it on one line") as caught:
        choose_columns(table, make({"a": [0, 1], name: [0, 1]}, {}, mu=1.0))
    assert str(caught.value).isprintable()
    assert list(choose_columns(table, make({"a": [0, 1]}, {name: {"drop": True}}, mu=1.0))[0]) == ["a"]


def test_missing_bounds_are_told_with_the_way_to_get_them() -> None:
    """The message names the columns, shortened if they are many, and the command that helps."""
    kinds = {f"column{index}": "continuous" for index in range(20)}
    with pytest.raises(PolicyError, match="dp-publish policy DATA") as caught:
        require_bounds(make({}, mu=1.0), kinds)
    assert "'column0'" in str(caught.value)
    assert "12 more" in str(caught.value)


def test_bounds_are_required_only_where_none_can_be_found() -> None:
    """A plain sigma has no search that could find bounds; a mu has; SNR and the ball need none."""
    table = sealed(a="continuous")
    with pytest.raises(PolicyError, match="bounds are missing for 'a'"):
        choose_columns(table, make({}, sigma=1.0))
    for privacy in ({"mu": 1.0}, {"snr_db": 1.0}, {"rho": 1.0, "l2_radius": 1.0}):
        assert choose_columns(table, make({}, **privacy))[0] == {"a": "continuous"}
    require_bounds(make({}, snr_db=1.0), {"a": "continuous"})
    require_bounds(make({}, mu=1.0, l2_radius=1.0), {"a": "continuous"})


def test_entity_column_is_never_published() -> None:
    """Whatever its type, the entity's column is left out; it must exist, and bounds for it are a mistake."""
    unit = {"entity": "who", "max_rows": 2}
    table = sealed(who="integer", a="continuous")
    assert choose_columns(table, make({}, mu=1.0, unit=unit)) == ({"a": "continuous"}, ("who",))
    with pytest.raises(PolicyError, match="'whom', which is not a column"):
        choose_columns(table, make({}, mu=1.0, unit={"entity": "whom", "max_rows": 2}))
    with pytest.raises(PolicyError, match="not published: 'who'"):
        choose_columns(table, make({"who": [0, 9]}, mu=1.0, unit=unit))


def test_a_ball_takes_neither_bounds_nor_integers() -> None:
    """Integer columns become continuous in a ball, unless the policy insists, and declared bounds contradict it."""
    table = sealed(i="integer", a="continuous")
    ball = {"mu": 1.0, "l2_radius": 1.0}
    assert choose_columns(table, make({}, **ball))[0] == {"i": "continuous", "a": "continuous"}
    for policy in (make({"a": [0, 1]}, **ball), make({}, {"i": {"kind": "integer"}}, **ball)):
        with pytest.raises(PolicyError, match="neither bounds nor integer"):
            choose_columns(table, policy)


@pytest.mark.parametrize("name", ["", "x" * 1001])
def test_names_that_no_manifest_takes_are_refused(name: str) -> None:
    """A column without a name, such as pandas' index in a CSV file, or with an endless one, is refused before noise."""
    with pytest.raises(PolicyError, match="rename it"):
        choose_columns(sealed(**{name: "continuous"}), make({name: [0, 1]}, mu=1.0))
    kinds, left_out = choose_columns(
        sealed(**{name: "continuous", "b": "continuous"}), make({"b": [0, 1]}, {name: {"drop": True}}, mu=1.0)
    )
    assert (list(kinds), left_out) == (["b"], (name,))


def test_the_index_of_a_parquet_file_is_no_column() -> None:
    """Labels of rows that pandas wrote into a file are refused with the line that leaves them out, unless declared."""
    name = "__index_level_0__"
    table = sealed(**{"a": "continuous", name: "integer"})
    with pytest.raises(PolicyError, match=rf"drop = true under \[columns.{name}\]"):
        choose_columns(table, make({"a": [0, 1]}, mu=1.0))
    assert choose_columns(table, make({"a": [0, 1]}, {name: {"drop": True}}, mu=1.0))[1] == (name,)
    assert list(choose_columns(table, make({"a": [0, 1], name: [0, 9]}, mu=1.0))[0]) == ["a", name]
