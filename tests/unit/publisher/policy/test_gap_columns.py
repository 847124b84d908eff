"""`missing = "indicator"`: what is published for a number with gaps, and where that is refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pydantic import ValidationError
from tests.unit.publisher.conftest import Call

from dp_bundle.base.errors import PolicyError
from dp_publish.data.table import open_table
from dp_publish.policy.columns import choose_columns, resolve
from dp_publish.policy.model import Policy

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
    privacy = {"unit": "cell", "mu": 1.0, **privacy}
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns})


@pytest.mark.parametrize("release", ["rows", "covariance"])
def test_every_number_has_a_column_beside_it(release: str) -> None:
    """Null and NaN are gaps; numbers, whole numbers, ordered levels, dates and times have them published alike."""
    table, resolved = resolve(open_table(TABLE), policy(COLUMNS, unit="row", release=release))
    kinds, left_out = choose_columns(table, resolved)
    names = ["pay", "kids", "grade", "born", "seen"]
    assert list(kinds) == [each for name in names for each in (name, f"{name}=(no value)")]
    assert set(kinds.values()) == {"continuous"}
    assert left_out == ("ill", "name")
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


def test_patterns_leave_text_out() -> None:
    """A pattern that asks for indicators is about numbers; text without a kind stays out."""
    table, resolved = resolve(open_table(TABLE), policy({"*": {"bounds": [0, 9], **INDICATOR}, "ill": {"drop": True}}))
    kinds, left_out = choose_columns(table, resolved)
    assert list(kinds) == ["pay", "pay=(no value)", "kids", "kids=(no value)"]
    assert set(left_out) == {"grade", "born", "seen", "ill", "name"}


@pytest.mark.parametrize(
    ("columns", "privacy", "message"),
    [
        ({"kids": {"kind": "integer", "bounds": [0, 9], **INDICATOR}}, {}, 'give kind = "continuous"'),
        ({"pay": {"scale": 2.0, **INDICATOR}}, {"l2_radius": 2.0}, "not with l2_radius"),
        ({"pay": {"bounds": [0, 9], **INDICATOR}}, {"mu": None, "snr_db": 10.0}, "needs a strength"),
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


@pytest.mark.parametrize(
    "section",
    [
        {"kind": "category", "categories": ["low", "middle", "high"], **INDICATOR},
        {"kind": "boolean", "levels": ["low", "high"], **INDICATOR},
    ],
)
def test_categories_have_a_level_for_gaps(section: dict[str, Any]) -> None:
    """The refusal names the word that makes a gap a level."""
    with pytest.raises(ValidationError, match=r'"category"'):
        policy({"grade": section})


def test_a_name_that_is_taken_is_refused() -> None:
    """Two published columns never have one name."""
    table = open_table(pa.table({"pay": [1.0], "pay=(no value)": [2.0]}))
    with pytest.raises(PolicyError, match="a name that another column has"):
        resolve(table, policy({"pay": {"bounds": [0, 9], **INDICATOR}}))


def test_the_command_says_what_was_done(tmp_path: Path, call: Call) -> None:
    """A text file with gaps is planned, published and audited, and the refusal of a gap names the way."""
    frame = pd.DataFrame({"pay": [1.0, None, 7.0] * 500, "age": [30.0, 40.0, 20.0] * 500})
    frame.to_csv(tmp_path / "staff.csv", index=False)
    text = (
        '[dataset]\nname = "staff"\n[privacy]\nunit = "cell"\nmu = 5\n[columns.age]\nbounds = [0, 90]\n[columns.pay]\n'
    )
    (tmp_path / "staff.policy.toml").write_text(f"{text}bounds = [0, 9]\n")
    assert 'missing = "indicator"' in call("staff.csv").err.replace("set missing = ", "missing = ")
    (tmp_path / "staff.policy.toml").write_text(f'{text}bounds = [0, 9]\nmissing = "indicator"\n')
    assert "3 columns (for 2 of the table)" in call("plan", "staff.csv").out
    published = call("staff.csv")
    assert published.code == 0, published.err
    assert "500 cells of pay without a value, which a column beside it tells with noise" in published.out
    audited = call("audit", "staff.csv", "--canaries", "20000")
    assert audited.code == 0, audited.err
    assert "gaps: replay" in audited.out
