"""Faults planted in the product: the audit and the suite find each as `docs/audit.md` says."""

import datetime
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_audit.planned_release import audit_planned_release
from dp_audit.report import AuditReport
from dp_audit.whole_covariance_releases import audit_covariance
from dp_audit.whole_row_releases import audit_rows
from dp_publish import Policy
from dp_publish.release.aside import publish_aside

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from faults import FAULTS  # noqa: E402  a plugin as well, so no part of a package

ROWS = {
    "x": {"bounds": [-4, 4], "missing": "midpoint"},
    "i": {"bounds": [0, 30], "kind": "integer"},
    "y": {"bounds": [0, 1]},
}
MIXED = {
    "x": {"bounds": [-4, 4], "missing": "midpoint"},
    "pay": {"bounds": [0, 10], "missing": "indicator"},
    "born": {"kind": "date", "bounds": [datetime.date(2000, 1, 1), datetime.date(2001, 1, 1)]},
    "grade": {"kind": "ordered", "levels": ["low", "middle", "high"]},
    "town": {"kind": "category", "categories": ["a", "b", "c", "d"], "mechanism": "gaussian"},
    "job": {"kind": "category", "categories": ["a", "b", "c", "d"], "mechanism": "randomized-response"},
}
ROW_OF_MIXED = {"x": 1.0, "pay": 1.0, "born": datetime.date(2000, 5, 1), "grade": "low", "town": "a", "job": "a"}
LEVELS = {
    "pay": MIXED["pay"],
    "grade": MIXED["grade"],
    "town": {"kind": "category", "categories": ["a", "b", "c", "d"]},
}
WEIGHTED = {"x": {"bounds": [0, 1], "weight": 3}, "y": {"bounds": [0, 1]}}
MATRIX = {name: {"bounds": [0, 1]} for name in "xyz"}
ASINH = MATRIX | {"x": {"bounds": [0, 1], "transform": "asinh"}}
POLICIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rows": (ROWS, {"mu": 1.0}),
    "entities": (ROWS, {"mu": 1.0, "unit": {"entity": "who", "max_rows": 4}}),
    "a point": (WEIGHTED, {"epsilon": 1.0, "delta": 1e-6}),
    "mixed rows": (MIXED, {"mu": 4.0, "unit": "row"}),
    "mixed rows of entities": (MIXED, {"mu": 6.0, "unit": {"entity": "who", "max_rows": 2}}),
    "gaussian": (MATRIX, {"release": "covariance", "mechanism": "gaussian", "mu": 1.0, "neighbours": "add-remove"}),
    "wishart-difference": (MATRIX, {"release": "covariance", "mechanism": "wishart-difference", "epsilon": 1.0}),
    "wishart": (MATRIX, {"release": "covariance", "mechanism": "wishart", "epsilon": 4.0, "delta": 1e-5}),
    "two rounds": (MATRIX, {"release": "covariance", "mechanism": "two-round", "mu": 1.0}),
    "two rounds of asinh": (ASINH, {"release": "covariance", "mechanism": "two-round", "mu": 1.0}),
    "scores": (MATRIX, {"release": "copula", "mu": 1.0}),
    "scores of mixed columns": (LEVELS, {"release": "copula", "mu": 1.0}),
    "two rounds of entities": (
        MATRIX,
        {"release": "covariance", "mechanism": "two-round", "mu": 1.0, "unit": {"entity": "who", "max_rows": 4}},
    ),
}
DEAR = {"two rounds", "two rounds of asinh", "scores"}  # beside those of entities, and scores of mixed columns
BY_AUDIT = {
    "missing values are filled with the batch's mean": ("rows", "replay"),
    "the cap is ignored in calibration": ("entities", "books"),
    "the cap is restarted in each batch": ("entities", "bounds"),
    "the keystream is restarted in each batch": ("rows", "independence"),
    "only the first batch gets noise": ("rows", "noise"),
    "a value moves the score of a center by two": ("two rounds", "bounds"),
    "a value moves the score of a scale by two": ("two rounds", "bounds"),
    "the search's epsilon is a tenth larger than stated": ("two rounds", "bounds"),
    "Wishart degrees are those of the wrong neighbours": ("wishart", "noise"),
    "a difference of Wisharts has half its scale": ("wishart-difference", "noise"),
    "the number of rows is exact under add-remove": ("gaussian", "books"),
    "values are not snapped to the grid": ("rows", "grid"),
    "columns share their noise": ("rows", "independence"),
    "off-diagonal noise is halved": ("gaussian", "whole releases"),
    "the last column is not clipped": ("rows", "bounds"),
    "clipped rows are dropped": ("rows", "bounds"),
    "a row moves the scores of clip and radii by two": ("two rounds", "bounds"),
    "radii are scored on both sides of the target": ("two rounds", "bounds"),
    "the radius is read off the data": ("two rounds", "bounds"),
    "a scale is floored by what is nearest to true ties": ("two rounds", "bounds"),
    "a value moves its rank among the others by two": ("two rounds", "bounds"),
    "the first round has half its sensitivity": ("two rounds", "bounds"),
    "the second round has half its sensitivity": ("two rounds", "bounds"),
    "the lengths have half their sensitivity": ("two rounds", "bounds"),
    "both rounds have the sensitivity of added rows": ("two rounds", "bounds"),
    "the first round has 0.9 of its noise": ("two rounds", "noise"),
    "the second round has 0.9 of its noise": ("two rounds", "noise"),
    "the lengths have 0.9 of their noise": ("two rounds", "noise"),
    "centers are chosen with 0.9 of their noise": ("two rounds", "noise"),
    "scales are chosen with 0.9 of their noise": ("two rounds", "noise"),
    "the clip is chosen with 0.9 of its noise": ("two rounds", "noise"),
    "radii are chosen with 0.9 of their noise": ("two rounds", "noise"),
    "rows are clipped after they are shortened": ("two rounds", "whole releases"),
    "both rounds draw the same random bits": ("two rounds", "independence"),
    "what is chosen privately costs nothing": ("two rounds", "bounds"),
    "the transform's center is not paid for": ("two rounds of asinh", "bounds"),
    "two rounds ignore the entity cap": ("two rounds of entities", "bounds"),
    "gaps of two rounds stand at the batch's mean": ("two rounds", "bounds"),
    "rows with a gap pass the entity cap": ("entities", "replay"),
    "rows with a first level pass the entity cap": ("mixed rows of entities", "coding"),
    "dates are counted from the batch's earliest": ("mixed rows", "coding"),
    "ordered levels are ranked among those seen": ("mixed rows", "coding"),
    "rare levels are never replaced": ("mixed rows", "coding"),
    "the best clip is used, not the drawn one": ("two rounds", "bounds"),
    "all releases draw the same random bits": ("rows", "independence"),
    "the last row of a batch has no noise": ("rows", "noise"),
    "noise is for what a batch spans": ("rows", "replay"),
    "the second round is centered at the exact mean": ("two rounds", "bounds"),
    "levels are listed by frequency": ("mixed rows", "coding"),
    "the delta of an epsilon is too small": ("a point", "books"),
    "weights are divided by the largest": ("a point", "books"),
    "noise is correlated between columns": ("rows", "independence"),
    "indicators of gaps are exact where gaps are few": ("mixed rows", "coding"),
    "one row of an entity is booked": ("entities", "books"),
    "entities are counted by batch": ("entities", "replay"),
    "the cells of histograms are read off the data": ("scores", "bounds"),
    "scores have jitter that is drawn anew in each pass": ("scores", "replay"),
    "a gap is in no cell of its histogram": ("scores of mixed columns", "whole releases"),
    "histograms have the sensitivity of one column": ("scores", "bounds"),
    "a histogram counts every row twice": ("scores", "bounds"),
    "one column's histogram has no noise": ("scores", "noise"),
    "scores follow from the counts without noise": ("scores", "bounds"),
    "histograms cost nothing": ("scores", "bounds"),
}
STEPS = "tests/statistical/test_steps.py"
UNIT = "tests/unit/publisher"
MARGINS = f"{UNIT}/covariance/two_rounds/test_margins.py"
CODED = f"{UNIT}/audit/test_coded_rows.py::test_sound_rows_pass"
BY_SUITE = {
    "the bounds search ignores the entity cap": (
        f"{UNIT}/release/test_found_bounds.py::test_bounds_are_found_in_what_the_cap_leaves"
    ),
    "the typical error is computed from raw moments": (
        f"{UNIT}/release/test_covariance.py::test_estimated_errors_follow_from_the_release_alone"
    ),
    "missing values are filled with the batch's mean": (
        f"{UNIT}/rows/test_mechanism.py::test_midpoint_takes_the_middle_of_the_bounds"
    ),
    "the cap is ignored in calibration": (
        f"{UNIT}/rows/test_calibration.py::test_search_and_rows_together_keep_to_the_strength"
    ),
    "the cap is restarted in each batch": (
        f"{UNIT}/data/test_contribution_cap.py::test_every_entity_keeps_as_many_rows_as_it_may"
    ),
    "the keystream is restarted in each batch": (
        f"{UNIT}/release/test_publishing.py::test_every_batch_gets_noise_of_its_own"
    ),
    "only the first batch gets noise": f"{UNIT}/release/test_publishing.py::test_every_batch_gets_noise_of_its_own",
    "the bounds search is without noise": (
        "tests/statistical/test_private_bounds.py::test_centers_of_bounds_follow_the_stated_law"
    ),
    "the cost of the bounds search is not booked": (
        f"{UNIT}/rows/test_calibration.py::test_search_and_rows_together_keep_to_the_strength"
    ),
    "a value moves the score of a center by two": (
        f"{UNIT}/rows/test_private_bounds.py::test_log_ratios_of_all_choices_keep_to_what_they_cost"
    ),
    "a value moves the score of a scale by two": (
        f"{UNIT}/rows/test_private_bounds.py::test_log_ratios_of_all_choices_keep_to_what_they_cost"
    ),
    "the search's epsilon is a tenth larger than stated": (
        f"{UNIT}/rows/test_private_bounds.py::test_log_ratios_of_all_choices_keep_to_what_they_cost"
    ),
    "the search counts every value twice": (
        f"{UNIT}/rows/test_private_bounds.py::test_log_ratios_of_all_choices_keep_to_what_they_cost"
    ),
    "Wishart degrees are those of the wrong neighbours": (
        f"{UNIT}/covariance/mechanisms/test_wishart.py::test_releases_have_the_degrees_that_their_neighbours_need"
    ),
    "a difference of Wisharts has half its scale": (
        f"{UNIT}/covariance/mechanisms/test_wishart_difference.py::test_noise_is_exact"
    ),
    "every eigenvector gets epsilon/2 at d > 2": (
        f"{UNIT}/covariance/mechanisms/test_eigenvectors.py::test_budget_is_spent_once"
    ),
    "auto looks at n under add-remove": (
        f"{UNIT}/release/test_covariance.py::test_auto_chooses_by_the_number_of_rows_only_where_that_is_public"
    ),
    "the number of rows is exact under add-remove": (
        f"{UNIT}/release/test_covariance.py::test_every_mechanism_is_released_and_verifies"
    ),
    "values are not snapped to the grid": (
        f"{UNIT}/rows/test_mechanism.py::test_noisy_values_are_on_the_grid_and_within_reach"
    ),
    "columns share their noise": f"{UNIT}/release/test_publishing.py::test_every_release_draws_its_own_noise",
    "the key is seeded with the time": f"{UNIT}/sampling/test_keystream.py::test_stream_is_aes_256_in_counter_mode",
    "off-diagonal noise is halved": "tests/statistical/test_mechanisms.py::test_noise_has_its_mean_and_covariance",
    "the last column is not clipped": (
        f"{UNIT}/rows/test_mechanism.py::test_value_outside_its_bounds_is_as_if_it_were_at_the_bound"
    ),
    "clipped rows are dropped": (
        f"{UNIT}/rows/test_mechanism.py::test_value_outside_its_bounds_is_as_if_it_were_at_the_bound"
    ),
    "a row moves the scores of clip and radii by two": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "radii are scored on both sides of the target": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "the radius is read off the data": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "a scale is floored by what is nearest to true ties": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "a value moves its rank among the others by two": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "the first round has half its sensitivity": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "the second round has half its sensitivity": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "the lengths have half their sensitivity": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "both rounds have the sensitivity of added rows": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "the first round has 0.9 of its noise": f"{STEPS}::test_steps_follow_their_laws",
    "the second round has 0.9 of its noise": f"{STEPS}::test_steps_follow_their_laws",
    "the lengths have 0.9 of their noise": f"{STEPS}::test_steps_follow_their_laws",
    "centers are chosen with 0.9 of their noise": f"{STEPS}::test_steps_follow_their_laws",
    "scales are chosen with 0.9 of their noise": f"{STEPS}::test_steps_follow_their_laws",
    "the clip is chosen with 0.9 of its noise": f"{STEPS}::test_steps_follow_their_laws",
    "radii are chosen with 0.9 of their noise": f"{STEPS}::test_steps_follow_their_laws",
    "rows are clipped after they are shortened": (
        "tests/property/test_two_rounds.py::test_values_outside_their_bounds_are_as_if_at_them"
    ),
    "both rounds draw the same random bits": f"{STEPS}::test_steps_follow_their_laws",
    "what is chosen privately costs nothing": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "the transform's center is not paid for": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "two rounds ignore the entity cap": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "gaps of two rounds stand at the batch's mean": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "rows with a gap pass the entity cap": (f"{UNIT}/data/test_contribution_cap.py::test_no_content_lets_a_row_pass"),
    "rows with a first level pass the entity cap": (
        f"{UNIT}/data/test_contribution_cap.py::test_no_content_lets_a_row_pass"
    ),
    "dates are counted from the batch's earliest": (
        f"{UNIT}/data/test_coding.py::test_a_cell_becomes_the_same_in_every_batch"
    ),
    "ordered levels are ranked among those seen": (
        f"{UNIT}/data/test_coding.py::test_a_cell_becomes_the_same_in_every_batch"
    ),
    "rare levels are never replaced": (
        f"{UNIT}/rows/test_levels.py::test_which_levels_are_replaced_does_not_depend_on_them"
    ),
    "all ranges of rows draw the same random bits": (
        f"{UNIT}/release/test_parallel.py::test_noise_of_ranges_is_independent"
    ),
    "the best clip is used, not the drawn one": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "all releases draw the same random bits": f"{UNIT}/sampling/test_keystream.py::test_two_secure_streams_differ",
    "the last row of a batch has no noise": (
        f"{UNIT}/rows/test_mechanism.py::test_sensitivity_never_exceeds_the_declared_width"
    ),
    "noise is for what a batch spans": f"{UNIT}/rows/test_mechanism.py::test_noise_does_not_depend_on_the_values",
    "the second round is centered at the exact mean": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "levels are listed by frequency": CODED,
    "the delta of an epsilon is too small": (
        f"{UNIT}/accounting/test_conversions.py::test_strength_for_epsilon_delta_is_the_largest_sound_one"
    ),
    "weights are divided by the largest": (
        f"{UNIT}/rows/test_calibration.py::test_search_and_rows_together_keep_to_the_strength"
    ),
    "noise is correlated between columns": f"{UNIT}/rows/test_mechanism.py::test_noise_of_columns_is_independent",
    "indicators of gaps are exact where gaps are few": CODED,
    "one row of an entity is booked": f"{UNIT}/release/test_publishing.py::test_entities_are_capped_in_a_release",
    "entities are counted by batch": (
        f"{UNIT}/data/test_contribution_cap.py::test_every_entity_keeps_as_many_rows_as_it_may"
    ),
    "the cells of histograms are read off the data": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "scores have jitter that is drawn anew in each pass": f"{MARGINS}::test_a_row_becomes_the_same_in_every_pass",
    "a gap is in no cell of its histogram": f"{MARGINS}::test_every_row_is_in_one_cell_of_every_column",
    "histograms have the sensitivity of one column": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "a histogram counts every row twice": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "one column's histogram has no noise": f"{STEPS}::test_steps_follow_their_laws",
    "scores follow from the counts without noise": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
    "histograms cost nothing": f"{STEPS}::test_no_step_moves_or_loses_more_than_it_may",
}


def _audit(name: str, folder: Path) -> AuditReport:
    columns, privacy = POLICIES[name]
    policy = Policy.model_validate({"dataset": {"name": "made up"}, "privacy": privacy, "columns": columns})
    if columns in (MIXED, LEVELS):
        row = {name: ROW_OF_MIXED[name] for name in columns} | ({"who": "somebody"} if policy.privacy.entity else {})
        pq.write_table(pa.table({name: [cell] for name, cell in row.items()}), folder / "t.parquet")
        return audit_planned_release(folder / "t.parquet", policy, publish_aside, n_canaries=3000, tell=lambda _: None)
    kinds = {name: "integer" if name == "i" else "continuous" for name in columns}
    if policy.privacy.is_moments:
        return audit_covariance(policy, kinds, lambda: 100, publish_aside, n_canaries=1000)
    return audit_rows(policy, kinds, publish_aside, n_canaries=3000)


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in DEAR)) for name in POLICIES])
def test_sound_releases_pass(name: str, tmp_path: Path) -> None:
    """Nothing is found in what is built."""
    assert _audit(name, tmp_path).findings == ()


@pytest.mark.long
@pytest.mark.parametrize("fault", BY_AUDIT)
def test_audit_finds(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit finds the fault under the name of its check."""
    policy, check = BY_AUDIT[fault]
    FAULTS[fault](monkeypatch)
    assert check in {found.name for found in _audit(policy, tmp_path).findings}


@pytest.mark.long
@pytest.mark.parametrize("fault", BY_SUITE)
def test_suite_finds(fault: str) -> None:
    """The test fails in a run with the fault planted; every other test of these has passed without it."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "faults", "--plant", fault]
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    finished = subprocess.run(
        [*words, BY_SUITE[fault]], cwd=ROOT, env=settings, capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 1, finished.stdout[-2000:]
    assert "1 failed" in finished.stdout


def test_documented_table_is_true() -> None:
    """The page about the audit names, for every fault, the check and the test that find it."""
    rows = [
        f"| {fault} | {BY_AUDIT[fault][1] if fault in BY_AUDIT else '–'} | `{BY_SUITE[fault].split('::')[1]}` |"
        for fault in FAULTS
    ]
    assert len(rows) == 72
    for path, test in (place.split("::") for place in BY_SUITE.values()):
        assert f"def {test}(" in (ROOT / path).read_text()
    assert "\n".join(rows) in (ROOT / "docs" / "audit.md").read_text()
