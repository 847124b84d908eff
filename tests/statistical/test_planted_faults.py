"""Audits of releases of every kind: nothing is found in what is built, and each planted fault is, under its check."""

import datetime
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.statistical.test_steps import BY_STEPS

from dp_audit.planned_release import AuditReport, audit_planned_release
from dp_publish import Policy
from dp_publish.release.publishing import publish_aside

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from faults import FAULTS  # noqa: E402  a plugin as well, so no part of a package

YEAR = [datetime.date(2000, 1, 1), datetime.date(2001, 1, 1)]
HALF_DAY = [datetime.time(0), datetime.time(12)]
LEVELS = ["a", "b", "c", "d"]
COLUMNS: dict[str, tuple[Any, dict[str, Any]]] = {  # a cell, and how it is published
    "x": (1.0, {"bounds": [-4, 4], "missing": "midpoint"}),
    "y": (1.0, {"bounds": [0, 1]}),
    "z": (1.0, {"bounds": [0, 1], "missing": "drop"}),
    "v": (1.0, {"bounds": [0, 1]}),
    "w": (1.0, {"bounds": [0, 1]}),
    "heavy": (1.0, {"bounds": [0, 1], "weight": 3}),
    "i": (1, {"bounds": [0, 30], "kind": "integer"}),
    "cases": (1, {"bounds": [0, 5000], "kind": "integer", "max_change": 2}),
    "pay": (1.0, {"bounds": [0, 10], "missing": "indicator"}),
    "born": (YEAR[0], {"kind": "date", "bounds": YEAR}),
    "died": (YEAR[0], {"kind": "date", "bounds": YEAR, "missing": "indicator"}),
    "seen": (datetime.time(5), {"kind": "time", "bounds": HALF_DAY, "missing": "indicator"}),
    "smoker": ("no", {"kind": "boolean", "levels": ["no", "yes"]}),
    "grade": ("low", {"kind": "ordered", "levels": ["low", "middle", "high"]}),
    "rank": ("low", {"kind": "ordered", "levels": ["low", "middle", "high"], "missing": "indicator"}),
    "town": ("a", {"kind": "category", "categories": LEVELS, "missing": "category", "mechanism": "gaussian"}),
    "job": ("a", {"kind": "category", "categories": LEVELS, "mechanism": "randomized-response"}),
}
ROWS, MATRIX = "x i y", "x y pay"
MIXED = "x pay born grade town job"
CODED = "x pay born grade town smoker"
GAPS = "pay rank died seen y"
FOUR_ROWS = {"entity": "who", "max_rows": 4}


def _covariance(
    mechanism: str, unit: Any = "row", neighbours: str = "replace-one", **strength: float
) -> dict[str, Any]:
    return {
        "release": "covariance",
        "mechanism": mechanism,
        "unit": unit,
        "neighbours": neighbours,
        **(strength or {"mu": 1.0}),
    }


POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "rows": (ROWS, {"mu": 1.0}),
    "all gaps": ("x", {"mu": 1.0}),
    "cells": ("x i z", {"mu": 2.0, "unit": "cell"}),
    "entities": ("x i z", {"mu": 1.0, "unit": FOUR_ROWS}),
    "a point": ("heavy y", {"epsilon": 1.0, "delta": 1e-6}),
    "a large rho": (ROWS, {"rho": 100.0}),
    "changes": ("cases town", {"mu": 1.0, "unit": "change"}),
    "categories": ("town job smoker x", {"mu": 2.0, "unit": "cell"}),
    "categories of a point": ("town job", {"epsilon": 3.0, "delta": 1e-5, "unit": "cell"}),
    "gaps": (GAPS, {"mu": 2.0, "unit": "cell"}),
    "gaps of rows": (GAPS, {"mu": 3.0}),
    "mixed rows": (MIXED, {"mu": 4.0}),
    "mixed rows of entities": (MIXED, {"mu": 6.0, "unit": FOUR_ROWS}),
    "gaussian": (CODED, _covariance("gaussian")),
    "gaussian, one more row": (MATRIX, _covariance("gaussian", neighbours="add-remove")),
    "gaussian of entities": (CODED, _covariance("gaussian", FOUR_ROWS, "add-remove")),
    "laplace": (CODED, _covariance("laplace", epsilon=1.0)),
    "laplace, one more row": (CODED, _covariance("laplace", neighbours="add-remove", epsilon=1.0)),
    "wishart": ("y z", _covariance("wishart", epsilon=4.0, delta=1e-5)),
    "wishart-difference": (MATRIX, _covariance("wishart-difference", epsilon=1.0)),
    "eigenvectors": (MATRIX, _covariance("eigenvectors", epsilon=4.0)),
    "two rounds": ("v w y", _covariance("two-round")),
    "two rounds of mixed columns": (CODED, _covariance("two-round")),
    "two rounds of entities": ("v w z", _covariance("two-round", FOUR_ROWS)),
    "scores": ("v w y", {"scale": "scores", "mu": 1.0}),
    "scores of mixed columns": ("pay grade town", {"scale": "scores", "mu": 1.0}),
}
QUICK = {"changes"}
SLOW = {"cells", "entities", "a point", "categories", "gaps", "mixed rows", "gaussian", "laplace", "wishart"}
SLOW |= {"wishart-difference", "eigenvectors", "scores of mixed columns"}  # which are two rounds, too

BY_AUDIT: dict[tuple[str, str], list[str]] = {
    ("rows", "independence"): [
        "the keystream is restarted in each batch",
        "columns share their noise",
        "all releases draw the same random bits",
        "noise is correlated between columns",
    ],
    ("rows", "noise"): [
        "only the first batch gets noise",
        "the last row of a batch has no noise",
        "noise is for what a batch spans",
        "values that occur twice share noise",
        "the last column is not clipped",
    ],
    ("rows", "columns"): ["clipped rows are dropped"],
    ("rows", "grid"): ["values are not snapped to the grid", "a noisy zero has the raw value's sign"],
    ("rows", "books"): ["the stated time depends on the table"],
    ("all gaps", "noise"): ["rows without any value get no noise"],
    ("entities", "books"): ["the cap is ignored in calibration", "one row of an entity is booked"],
    ("entities", "entities"): [
        "the cap is restarted in each batch",
        "rows with a gap pass the entity cap",
        "entities are counted by batch",
    ],
    ("a point", "books"): ["the delta of an epsilon is too small", "weights are divided by the largest"],
    ("changes", "books"): ["noise is for half of a change"],
    ("categories", "books"): ["a category counts as one column", "levels that do not occur are left out"],
    ("categories", "noise"): ["levels stay more often than stated", "the last level replaces no other"],
    ("gaps", "books"): ["a gap's indicator counts as a cell alone"],
    ("gaps", "noise"): ["gaps of rows stand at the lower bound", "gaps are published without noise"],
    ("mixed rows", "noise"): [
        "dates are counted from the batch's earliest",
        "ordered levels are ranked among those seen",
        "rare levels are never replaced",
        "indicators of gaps are exact where gaps are few",
    ],
    ("mixed rows", "columns"): ["levels are listed by frequency"],
    ("mixed rows of entities", "entities"): ["rows with a first level pass the entity cap"],
    ("gaussian", "noise"): [
        "levels are as long as their columns",
        "the radius leaves categories out",
        "gaps are as long as their columns",
        "gaps of sums stand at the lower bound",
        "rows of sums are not clipped",
    ],
    ("gaussian", "books"): [
        "sums have half their sensitivity",
        "gaps of sums stand at the others' mean",
        "sums are off their grid",
    ],
    ("gaussian", "independence"): ["all entries draw the same random bits"],
    ("gaussian, one more row", "books"): ["the number of rows is exact under add-remove"],
    ("gaussian, one more row", "noise"): ["off-diagonal noise is halved"],
    ("wishart-difference", "books"): ["a difference of Wisharts lacks a degree of freedom"],
    ("two rounds", "noise"): ["rows are clipped after they are shortened"],
    ("two rounds", "independence"): ["both rounds draw the same random bits"],
    ("scores of mixed columns", "noise"): ["a gap is in no cell of its histogram"],
}
IN_CI = {  # one for each kind of release and check, of which the others are variations
    "only the first batch gets noise",
    "values are not snapped to the grid",
    "columns share their noise",
    "the last column is not clipped",
    "the cap is ignored in calibration",
    "entities are counted by batch",
    "the delta of an epsilon is too small",
    "noise is for half of a change",
    "levels are listed by frequency",
    "levels stay more often than stated",
    "sums have half their sensitivity",
    "off-diagonal noise is halved",
}
LAWS = "statistical/test_laws.py::test_draws_follow_their_law"
OF_CHOICES, OF_NOISE = (f"{LAWS}[{what} of two rounds]" for what in ("choices", "noise"))
BY_SUITE = {  # which an audit cannot see
    "missing values are filled with the batch's mean": (
        "unit/publisher/rows/test_mechanism.py::test_midpoint_takes_the_middle_of_the_bounds"
    ),
    "Wishart degrees are those of the wrong neighbours": f"{LAWS}[wishart]",
    "a difference of Wisharts has half its scale": f"{LAWS}[wishart-difference]",
    "vectors are drawn with four times their exponent": (
        "unit/publisher/covariance/mechanisms/test_eigenvectors.py::test_budget_is_spent_once"
    ),
    "eigenvalues have no noise": f"{LAWS}[one eigenvalue]",
    "the first round has 0.9 of its noise": OF_NOISE,
    "the second round has 0.9 of its noise": OF_NOISE,
    "the lengths have 0.9 of their noise": OF_NOISE,
    "one column's histogram has no noise": OF_NOISE,
    "centers are chosen with 0.9 of their noise": OF_CHOICES,
    "scales are chosen with 0.9 of their noise": OF_CHOICES,
    "radii are chosen with 0.9 of their noise": OF_CHOICES,
    "the bounds search ignores the entity cap": (
        "unit/publisher/release/test_found_bounds.py::test_bounds_are_found_in_what_the_cap_leaves"
    ),
    "the typical error is computed from raw moments": (
        "unit/publisher/release/test_covariance.py::test_estimated_errors_follow_from_the_release_alone"
    ),
    "the bounds search is without noise": ("statistical/test_laws.py::test_draws_follow_their_law"),
    "the cost of the bounds search is not booked": (
        "unit/publisher/rows/test_calibration.py::test_search_and_rows_together_keep_to_the_strength"
    ),
    "the search counts every value twice": (
        "unit/publisher/rows/test_private_bounds.py::test_counts_do_not_mind_types_and_batches"
    ),
    "every eigenvector gets epsilon/2 at d > 2": (
        "unit/publisher/covariance/mechanisms/test_eigenvectors.py::test_budget_is_spent_once"
    ),
    "auto looks at n under add-remove": (
        "unit/publisher/release/test_covariance.py::test_auto_chooses_by_the_number_of_rows_only_where_that_is_public"
    ),
    "the key is seeded with the time": (
        "unit/publisher/sampling/test_keystream.py::test_stream_is_aes_256_in_counter_mode"
    ),
    "all ranges of rows draw the same random bits": (
        "unit/publisher/release/test_parallel.py::test_noise_of_ranges_is_independent"
    ),
}


def _audit(name: str, folder: Path) -> AuditReport:
    """Audit the release of a table that has one row."""
    names, privacy = POLICIES[name]
    sections = {
        "dataset": {"name": "d"},
        "privacy": privacy,
        "columns": {each: COLUMNS[each][1] for each in names.split()},
    }
    policy = Policy.model_validate(sections)
    row = {each: [COLUMNS[each][0]] for each in names.split()} | ({"who": ["w"]} if policy.privacy.entity else {})
    pq.write_table(pa.table(row), folder / "t.parquet")
    coded = {"town", "rank"} & {*names.split()}
    n = 100 if policy.privacy.is_moments else 20_000 if coded else 6000 if policy.privacy.entity else 3000
    return audit_planned_release(folder / "t.parquet", policy, publish_aside, n_canaries=n, tell=lambda _: None)


def _mark(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in QUICK else [pytest.mark.slow if name in SLOW else pytest.mark.long]


@pytest.mark.parametrize("name", [pytest.param(name, marks=_mark(name)) for name in POLICIES])
def test_sound_releases_pass(name: str, tmp_path: Path) -> None:
    """Nothing is found in what is built, and what guesses prove is no more than is stated; of rows most of it."""
    report = _audit(name, tmp_path)
    assert [f"{check.name}: {check.detail}" for check in report.findings] == []
    assert report.mu_lower <= report.stated_mu
    if report.mechanism == "row" and report.stated_mu >= 1.0:  # for which canaries are enough
        assert report.mu_lower > 0.5 * report.stated_mu


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "policy", "check"),
    [
        pytest.param(fault, *where, marks=[pytest.mark.long] * (fault not in IN_CI))
        for where, faults in BY_AUDIT.items()
        for fault in faults
    ],
)
def test_audit_finds(fault: str, policy: str, check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit finds the fault under the name of its check."""
    FAULTS[fault](monkeypatch)
    report = _audit(policy, tmp_path)
    assert check in {found.name for found in report.findings}


@pytest.mark.long
@pytest.mark.parametrize("fault", BY_SUITE)
def test_suite_finds(fault: str) -> None:
    """The test fails in a run with the fault planted; every other test of these has passed without it."""
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "faults", "--plant", fault]
    settings = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    test = f"tests/{BY_SUITE[fault]}"
    finished = subprocess.run([*words, test], cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    assert "1 failed" in finished.stdout, finished.stdout[-2000:]


def test_every_fault_is_found() -> None:
    """Every fault is found by the audit or a test; the page about the audit is made from those that it finds."""
    found = [fault for faults in (*BY_AUDIT.values(), *BY_STEPS.values(), BY_SUITE) for fault in faults]
    assert sorted(found) == sorted(FAULTS)
