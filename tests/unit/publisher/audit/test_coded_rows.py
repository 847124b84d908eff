"""The audit of rows through their coding: sound releases pass, and cells that look at others are found."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.publisher.audit.mixed_tables import COLUMNS, resolved

from dp_audit.checks import Check
from dp_audit.coding import check_row_coding
from dp_publish import Policy
from dp_publish.release.aside import publish_aside

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from faults_of_tables import FAULTS_OF_TABLES

ROWS: dict[str, Any] = {
    **COLUMNS,
    "job": {"kind": "category", "categories": ["a", "b", "c", "d"], "mechanism": "randomized-response"},
    "rank": {"kind": "ordered", "levels": ["low", "middle", "high"], "missing": "indicator"},
    "x": {"bounds": [-3, 8], "missing": "midpoint"},
    "n": {"bounds": [0, 10], "kind": "integer", "missing": "midpoint"},
}
ENTITY = {"entity": "who", "max_rows": 2}


def check(columns: dict[str, Any], **privacy: Any) -> Check:
    """Return the check of a policy for rows."""
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns})
    return check_row_coding(publish_aside, *resolved(policy))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "privacy"),
    [
        (ROWS, {"unit": "cell", "mu": 2.0}),
        (ROWS, {"unit": ENTITY, "mu": 8.0}),
    ],
    ids=["cell", "entity"],
)
def test_sound_rows_pass(columns: dict[str, Any], privacy: dict[str, Any]) -> None:
    """Every kind of cell comes out as its number, and entities have as many rows as they may."""
    assert check(columns, **privacy) == Check(
        "coding", True, "a cell comes out as its number, whatever the other cells are"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("rows with a gap pass the entity cap", "where entities may have"),
        ("rows with a first level pass the entity cap", "where entities may have"),
        ("entities are counted by batch", "where entities may have"),
        ("dates are counted from the batch's earliest", "cell of 'born' depends on other cells"),
        ("ordered levels are ranked among those seen", "cell of 'grade' depends on other cells"),
        ("rare levels are never replaced", "levels of 'job' are replaced, or by which, depends"),
        ("levels are listed by frequency", "differ in their"),
        ("indicators of gaps are exact where gaps are few", "depends on other cells"),
    ],
)
def test_cells_that_look_at_others_are_found(fault: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these faults is found, and named."""
    FAULTS_OF_TABLES[fault](monkeypatch)
    coding = check(ROWS, unit=ENTITY, mu=8.0)
    assert not coding.passed
    assert found in coding.detail
