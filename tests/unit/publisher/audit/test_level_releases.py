"""The audit of categories and of counts: sound releases pass, and planted faults are found."""

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.unit.publisher.audit.mixed_tables import fill_at_the_lower_bound, findings, read_towns_off_the_data, row_of

from dp_audit.planned_release import audit_planned_release
from dp_audit.report import AuditReport
from dp_bundle.manifest import columns as cells
from dp_bundle.manifest.sources import NO_VALUE
from dp_publish import Policy
from dp_publish.release.aside import publish_aside
from dp_publish.rows import calibration, mechanism, response

LEVELS = ["a", "b", "c", "d", "e"]
COLUMNS: dict[str, Any] = {
    "town": {"kind": "category", "categories": LEVELS, "mechanism": "gaussian"},
    "job": {"kind": "category", "categories": LEVELS, "mechanism": "randomized-response", "missing": "category"},
    "sex": {"kind": "category", "categories": ["f", "m"]},
    "x": {"bounds": [0, 10]},
}


def audit(tmp_path: Any, columns: dict[str, Any], number: float = 1, **privacy: Any) -> AuditReport:
    """Audit the release of a table that has one row."""
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns})
    pq.write_table(row_of(policy, sex="f", x=number), tmp_path / "t.parquet")
    return audit_planned_release(tmp_path / "t.parquet", policy, publish_aside, n_canaries=30_000, tell=lambda _: None)


@pytest.mark.parametrize(
    "privacy",
    [
        {"unit": "cell", "mu": 2.0},
        pytest.param({"unit": "row", "mu": 3.0}, marks=pytest.mark.slow),
        pytest.param({"unit": "cell", "epsilon": 3.0, "delta": 1e-5}, marks=pytest.mark.slow),
        pytest.param({"unit": {"entity": "who", "max_rows": 3}, "mu": 4.0}, marks=pytest.mark.slow),
    ],
)
def test_sound_releases_of_categories_pass(privacy: dict[str, Any], tmp_path: Any) -> None:
    """Numbers and categories are attacked in turn, and nothing is found; the bound comes near what is stated."""
    report = audit(tmp_path, COLUMNS, **privacy)
    assert findings(report.checks) == []
    assert {"attack", "levels: attack", "levels: noise", "levels: replay", "levels: books"} <= {
        check.name for check in report.checks
    }
    if privacy["unit"] == "cell":
        assert 0.8 < (report.mu_lower or 0.0) / (report.stated_mu or 1.0) <= 1.0


def test_sound_changes_pass(tmp_path: Any) -> None:
    """Counts are attacked by a case more or less."""
    report = audit(tmp_path, {"n": {"kind": "integer", "bounds": [0, 5000], "max_change": 1}}, unit="change", mu=1.0)
    assert report.findings == ()
    assert 0.9 < (report.mu_lower or 0.0) <= 1.0


@pytest.mark.slow
def test_sound_changes_beside_categories_pass(tmp_path: Any) -> None:
    """Counts, and categories of which a change is any other level, are attacked in turn."""
    count = {"kind": "integer", "bounds": [0, 5000], "max_change": 1}
    report = audit(tmp_path, {"n": count, "town": COLUMNS["town"]}, unit="change", mu=1.0)
    assert findings(report.checks) == []


def _as_one_column(patch: pytest.MonkeyPatch) -> None:
    """Let calibration and the reader count a category as one column; the audit counts for itself."""
    patch.setattr(calibration, "_moved", lambda *_: 1.0)
    patch.setattr(cells.Cell, "mu", property(lambda cell: cell.column.cell_mu))
    patch.setattr(cells.Cell, "rho", property(lambda cell: cell.column.cell_mu**2 / 2))


def _stays_more_often(patch: pytest.MonkeyPatch) -> None:
    honest = response.sample_replacements
    patch.setattr(response, "sample_replacements", lambda n, numerator, *rest: honest(n, int(numerator * 0.9), *rest))


def _among_others_alone(patch: pytest.MonkeyPatch) -> None:
    honest = response.sample_replacements

    def drawn(n: int, numerator: int, n_levels: int, keystream: Any) -> Any:
        places, levels = honest(n, numerator, n_levels, keystream)
        return places, levels % (n_levels - 1)

    patch.setattr(response, "sample_replacements", drawn)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (_as_one_column, {"levels: attack", "levels: replay", "levels: books"}),
        (_stays_more_often, {"levels: noise"}),
        (_among_others_alone, {"levels: noise"}),
    ],
)
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], found: set[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A category that counts as one column, and levels that are replaced with other probabilities."""
    plant(monkeypatch)
    report = audit(tmp_path, COLUMNS, unit="cell", mu=2.0)
    assert found <= {check.name for check in report.findings}


def test_a_list_that_is_read_off_the_data_is_found(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that differ in one cell, which alone has its level, show other columns."""
    read_towns_off_the_data(monkeypatch)
    report = audit(tmp_path, {"town": COLUMNS["town"]}, unit="cell", mu=2.0)
    (finding,) = [check for check in report.findings if check.name == "replay"]
    assert "differ in their" in finding.detail


def test_changes_that_are_larger_than_protected_are_found(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise for a change of 1 is too little where a person may change a count by 2."""
    reach, alone = calibration._reach, cells._alone
    monkeypatch.setattr(calibration, "_reach", lambda *each: reach(*each) / 2)
    monkeypatch.setattr(cells, "_alone", lambda column, _: alone(column, "change")._replace(reach=1.0))
    report = audit(tmp_path, {"n": {"kind": "integer", "bounds": [0, 5000], "max_change": 2}}, unit="change", mu=1.0)
    assert {"attack", "replay", "books"} <= {check.name for check in report.findings}


WITH_GAPS: dict[str, Any] = {
    "pay": {"bounds": [0, 10], "missing": "indicator"},
    "grade": {"kind": "ordered", "levels": ["low", "middle", "high"], "missing": "indicator"},
    "born": {"kind": "date", "bounds": [datetime.date(2000, 1, 1), datetime.date(2001, 1, 1)], "missing": "indicator"},
    "seen": {"kind": "time", "bounds": [datetime.time(0), datetime.time(12)], "missing": "indicator"},
    "x": {"bounds": [0, 10]},
}


@pytest.mark.parametrize(
    "privacy",
    [
        {"unit": "cell", "mu": 2.0},
        pytest.param({"unit": "row", "mu": 3.0}, marks=pytest.mark.slow),
        pytest.param({"unit": "cell", "rho": 3.0}, marks=pytest.mark.slow),
        pytest.param({"unit": {"entity": "who", "max_rows": 3}, "mu": 4.0}, marks=pytest.mark.slow),
    ],
)
def test_sound_releases_of_gaps_pass(privacy: dict[str, Any], tmp_path: Any) -> None:
    """Values and gaps of every kind of number are told apart as well as stated, and no better."""
    report = audit(tmp_path, WITH_GAPS, 1.0, **privacy)
    assert findings(report.checks) == []
    checks = {check.name: check.detail for check in report.checks}
    assert {"attack", "gaps: attack", "gaps: noise", "gaps: replay", "gaps: books"} <= checks.keys()
    if privacy["unit"] == "cell":
        proved = float(checks["gaps: attack"].split(">= ")[1])
        assert 0.85 < proved / (report.stated_mu or 1.0) <= 1.0


def _alone_in_its_cell(patch: pytest.MonkeyPatch) -> None:
    """Let calibration and the reader count an indicator of gaps as a cell of its own; the audit counts for itself."""
    patch.setattr(calibration, "_sigma_beside", lambda _policy, value, shares: 1 / shares.columns[value.name])
    patch.setattr(cells, "mu_of_gap", lambda _width, _noise, indicator_mu: indicator_mu)


def _at_the_lower_bound(patch: pytest.MonkeyPatch) -> None:
    fill_at_the_lower_bound(patch, mechanism)


def _without_noise_on_gaps(patch: pytest.MonkeyPatch) -> None:
    honest = mechanism._noisy_column

    def noisy(values: Any, column: Any, *rest: Any) -> Any:
        return values if column.name.endswith(NO_VALUE) else honest(values, column, *rest)

    patch.setattr(mechanism, "_noisy_column", noisy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (_alone_in_its_cell, {"gaps: attack", "gaps: replay", "gaps: books"}),
        (_at_the_lower_bound, {"gaps: replay", "gaps: noise"}),
        (_without_noise_on_gaps, {"gaps: attack", "gaps: noise"}),
    ],
)
def test_planted_faults_of_gaps_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], found: set[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gaps whose indicator counts alone, gaps far from the middle, and gaps in the clear."""
    plant(monkeypatch)
    report = audit(tmp_path, WITH_GAPS, 1.0, unit="cell", mu=2.0)
    assert found <= {check.name for check in report.findings}
