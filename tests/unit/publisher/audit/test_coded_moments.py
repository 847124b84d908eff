"""The audit of second moments of a mixed table: sound releases pass, and planted faults are found."""

import datetime
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.unit.publisher.audit.mixed_tables import (
    COLUMNS,
    fill_at_the_lower_bound,
    findings,
    read_towns_off_the_data,
    resolved,
    row_of,
)

from dp_audit import whole_covariance_releases
from dp_audit.checks import Check
from dp_audit.coding import without_sources
from dp_audit.planned_release import audit_planned_release
from dp_audit.raw_cells import raw_cells, tables_of
from dp_audit.whole_covariance_releases import check_whole
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish import Policy
from dp_publish.covariance import calibration
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.guarantee import moment_columns
from dp_publish.covariance.scaling import Scaling
from dp_publish.policy import coded_columns
from dp_publish.release import covariance
from dp_publish.release.aside import publish_aside

ENTITY = {"entity": "who", "max_rows": 3}
STRENGTHS: dict[str, dict[str, float]] = {
    "gaussian": {"mu": 1.0},
    "two-round": {"mu": 1.0},
    "laplace": {"epsilon": 1.0},
    "wishart-difference": {"epsilon": 1.0},
    "wishart": {"epsilon": 4.0, "delta": 1e-5},
    "sulq": {"epsilon": 0.9, "delta": 1e-5},
    "eigenvectors": {"epsilon": 1.0},
    "kapralov-talwar": {"epsilon": 1.0},
}


def _marks(mechanism: str, neighbours: str, unit: str) -> list[pytest.MarkDecorator]:
    if unit == "entity" and (mechanism, neighbours) not in (("two-round", "replace-one"), ("gaussian", "add-remove")):
        return [pytest.mark.long]
    return [] if (mechanism, neighbours, unit) == ("gaussian", "replace-one", "row") else [pytest.mark.slow]


CASES = [  # all that a policy may ask for
    pytest.param(mechanism, *case, marks=_marks(mechanism, *case))
    for mechanism in STRENGTHS
    for case in itertools.product(("replace-one", "add-remove"), ("row", "entity"))
    if (mechanism, case[0]) != ("two-round", "add-remove")
    and not (mechanism in ("wishart", "sulq") and case[1] == "entity")
]


def policy_for(mechanism: str, neighbours: str = "replace-one", unit: str = "row", **columns: Any) -> Policy:
    """Return a policy for the mixed table, or for some columns of it."""
    privacy = {
        "release": "covariance",
        "mechanism": mechanism,
        "neighbours": neighbours,
        "unit": ENTITY if unit == "entity" else unit,
        **STRENGTHS[mechanism],
    }
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": columns or COLUMNS})


def check(policy: Policy) -> dict[str, Check]:
    """Return the checks of whole releases by name."""
    policy, kinds = resolved(policy)
    mechanism = set_mechanism(policy, kinds, lambda: 100)
    return {check.name: check for check in check_whole(policy, kinds, mechanism, publish_aside, 1e-4)}


@pytest.fixture
def one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish one whole release for the check of the noise, which needs thirty, where no test is about that."""
    monkeypatch.setattr(whole_covariance_releases, "_RELEASES", 1)


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "neighbours", "unit"), CASES)
def test_sound_releases_of_mixed_tables_pass(mechanism: str, neighbours: str, unit: str) -> None:
    """Nothing is found of numbers and raw rows; where it can be measured, some move about as far as any may."""
    checks = check(policy_for(mechanism, neighbours, unit))
    assert findings(checks.values()) == []
    assert {"replay", "coding", "books"} <= checks.keys()
    if mechanism in ("gaussian", "wishart-difference"):
        assert 95 < float(checks["coding"].detail.split("at most ")[1].split("%")[0]) <= 100


@pytest.mark.parametrize("release", [{}, pytest.param({"mechanism": "auto"}, marks=pytest.mark.slow)])
def test_a_planned_release_of_a_mixed_table_passes(release: dict[str, str], tmp_path: Any) -> None:
    """The whole audit looks at mechanism, numbers and raw rows."""
    policy = policy_for("gaussian")
    policy = policy.model_copy(update={"privacy": policy.privacy.model_copy(update=release)})
    pq.write_table(row_of(policy), tmp_path / "t.parquet")
    report = audit_planned_release(tmp_path / "t.parquet", policy, publish_aside, n_canaries=1000, tell=lambda _: None)
    assert findings(report.checks) == []
    assert {"attack", "replay", "coding", "books"} <= {check.name for check in report.checks}


@pytest.mark.usefixtures("one_release")
def test_tables_of_numbers_alone_have_no_coding() -> None:
    """Without columns that are coded nothing is replayed through a coding."""
    assert "coding" not in check(policy_for("gaussian", x=COLUMNS["x"]))


def test_a_radius_of_the_policy_is_kept() -> None:
    """Rows that are shortened more stay as short."""
    policy, kinds = resolved(policy_for("gaussian"))
    shorter = policy.model_copy(update={"privacy": policy.privacy.model_copy(update={"l2_radius": 1.5})})
    assert without_sources(shorter, kinds).privacy.l2_radius == 1.5
    assert without_sources(policy, kinds).privacy.l2_radius == math.sqrt(6)


def test_raw_tables_are_in_every_state() -> None:
    """Levels, both ends and gaps occur, and the numbers beside them are those that they mean."""
    policy, kinds = resolved(policy_for("gaussian"))
    cells = raw_cells(policy.sources, moment_columns(policy, kinds))
    states = np.array([[min(state, cell.n_states - 1) for cell in cells] for state in range(5)])
    raw, numbers = tables_of(policy, cells, states)
    assert numbers.column_names == list(kinds)
    assert raw["town"].to_pylist() == ["a", "b", "c", "d", None]
    assert raw["grade"].to_pylist() == ["low", "middle", "high", "high", "high"]
    assert raw["born"].to_pylist()[:2] == [datetime.date(2000, 1, 1), datetime.date(2001, 1, 1)]
    assert np.array_equal(np.column_stack([numbers[f"town={level}"] for level in [*"abcd", "(no value)"]]), np.eye(5))
    assert numbers["smoker"].to_pylist() == [0, 1, 1, 1, 1]
    assert raw["pay"].to_pylist()[:3] == [0, None, 10]
    assert math.isnan(raw["pay"].to_pylist()[3])
    assert numbers["pay"].to_pylist() == [0, 5, 10, 5, 5]
    assert numbers["pay=(no value)"].to_pylist() == [0, 1, 0, 1, 1]


def _never_shorten(patch: pytest.MonkeyPatch) -> None:
    """Leave rows as long as they are, as if their coding alone kept them in the ball."""
    patch.setattr(Scaling, "clips", property(lambda _: False))


def _levels_longer_than_one(patch: pytest.MonkeyPatch) -> None:
    """Let indicators be at either end of their bounds, so that a category is as long as the root of its levels."""
    honest = coded_columns._limits

    def from_zero(highest: float, policy: Policy, around_zero: bool) -> dict[str, Any]:
        return honest(highest, policy, around_zero and highest > 1)

    patch.setattr(coded_columns, "_limits", from_zero)
    _never_shorten(patch)


def _radius_without_categories(patch: pytest.MonkeyPatch) -> None:
    """Compute the radius as if columns of levels were all 0."""
    honest = calibration.ball_radius

    def shorter(policy: Policy, kinds: dict[str, str]) -> float | None:
        rest = [name for name in kinds if not name.startswith("town=")]
        return honest(policy, kinds) if policy.privacy.l2_radius else math.sqrt(len(rest) - 1)

    patch.setattr(calibration, "ball_radius", shorter)
    _never_shorten(patch)


def _gaps_at_the_lower_bound(patch: pytest.MonkeyPatch) -> None:
    fill_at_the_lower_bound(patch, covariance)


def _gaps_longer_than_one(patch: pytest.MonkeyPatch) -> None:
    """Let gaps be as long as their number and its indicator together, in rows that are never shortened."""
    _gaps_at_the_lower_bound(patch)
    _never_shorten(patch)


def _gaps_at_the_mean(patch: pytest.MonkeyPatch) -> None:
    """Fill the gaps of all rows of a batch with what the others have."""
    honest = covariance.fill_missing

    def fill(values: Any, column: Any, report: Any) -> Any:
        if column.missing != "indicator":
            return honest(values, column, report)
        found = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        return pc.fill_null(found, pc.mean(found).as_py() or 0.0)

    patch.setattr(covariance, "fill_missing", fill)


@pytest.mark.usefixtures("one_release")
@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (_levels_longer_than_one, "apart, above"),
        (_radius_without_categories, "apart, above"),
        (_gaps_longer_than_one, "apart, above"),
        (_gaps_at_the_lower_bound, "do not come out as the numbers"),
        (_gaps_at_the_mean, "apart, above"),
    ],
)
@pytest.mark.parametrize("neighbours", ["replace-one", pytest.param("add-remove", marks=pytest.mark.slow)])
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], found: str, neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are longer than the noise is for, and gaps that are not in the middle."""
    plant(monkeypatch)
    coding = check(policy_for("gaussian", neighbours))["coding"]
    assert not coding.passed
    assert found in coding.detail


@pytest.mark.usefixtures("one_release")
@pytest.mark.parametrize(
    "mechanism", ["gaussian", *(pytest.param(name, marks=pytest.mark.slow) for name in ("two-round", "eigenvectors"))]
)
@pytest.mark.parametrize("unit", ["row", pytest.param("entity", marks=pytest.mark.slow)])
def test_a_list_that_is_read_off_the_data_is_found(mechanism: str, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that differ in one row, or entity, which alone has its town, show other columns."""
    read_towns_off_the_data(monkeypatch)
    coding = check(policy_for(mechanism, unit=unit))["coding"]
    assert not coding.passed
    assert "differ in their" in coding.detail


@pytest.mark.slow
@pytest.mark.usefixtures("one_release")
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    ("mechanism", "strength"), [("wishart", {"epsilon": 4.0, "delta": 1e-5}), ("wishart-difference", {"epsilon": 1.0})]
)
def test_rounding_is_not_taken_for_a_movement(mechanism: str, strength: dict[str, float], neighbours: str) -> None:
    """The nuclear norm of what rounding does to many entries is not that of a row, which is in a ball."""
    columns = {f"x{index}": {"bounds": [0, 10]} for index in range(11)}
    ball = {"release": "covariance", "mechanism": mechanism, "neighbours": neighbours, "l2_radius": math.sqrt(6)}
    policy = Policy.model_validate({"dataset": {"name": "d"}, "privacy": {**ball, **strength}, "columns": columns})
    kinds = dict.fromkeys(columns, "continuous")
    checks = check_whole(policy, kinds, set_mechanism(policy, kinds, lambda: 100), publish_aside, 1e-4)
    assert findings(checks) == []
