"""Rows with gaps stand at means that are found privately, paid for, stated, and possible only where they are sound."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError
from tests.row_audit import audit

from dp_bundle.base.errors import MissingValuesError, PolicyError, PrivacyError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.describe.sentences import describe_gaps
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.release import Release
from dp_publish import Policy, publish
from dp_publish.data.table import open_table
from dp_publish.policy.columns import choose_columns
from dp_publish.rows.calibration import calibrate, share_mu
from dp_publish.rows.guarantee import cost_of_rows
from dp_publish.rows.private_centers import centers_mu, centers_sigma, find_centers, steps_for, sum_complete_rows
from dp_publish.sampling.keystream import insecure_keystream

BOUNDS = {"a": [-1.0, 3.0], "b": [0.0, 10.0], "c": [-5.0, 5.0]}
KINDS = dict.fromkeys(BOUNDS, "continuous")
ROW = "row"


def make_policy(missing: dict[str, str], **privacy: object) -> Policy:
    """Return a policy for three columns, with what becomes of gaps in each."""
    columns = {name: {"bounds": bounds, "missing": missing.get(name, "refuse")} for name, bounds in BOUNDS.items()}
    section = {"mu": 30.0, **privacy} if "sigma" not in privacy else privacy
    return Policy.model_validate({"dataset": {"name": "gaps"}, "privacy": section, "columns": columns})


def batch_of(rows: list[list[float | None]]) -> pa.RecordBatch:
    """Return rows as a batch."""
    return pa.RecordBatch.from_arrays([pa.array(column, pa.float64()) for column in zip(*rows, strict=True)], [*BOUNDS])


def gappy(n_rows: int = 4000) -> pd.DataFrame:
    """Return a table with gaps in column a alone."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"a": rng.normal(2, 0.5, n_rows), "b": rng.normal(7, 1, n_rows), "c": rng.normal(1, 1, n_rows)}
    )
    frame.loc[::10, "a"] = np.nan
    return frame


def test_no_row_moves_the_sums_further_than_the_sensitivity() -> None:
    """Between any two rows, complete or not, within bounds or far outside, the sums move by 2 sqrt(p) at most."""
    columns = calibrate(make_policy({"a": "center"}), KINDS)
    ends = [[None, -1e9, 3.0, 1.0], [0.0, 10.0, math.inf], [-5.0, 5.0, 0.1]]
    steps = 1 << 20
    sums = [sum_complete_rows([batch_of([list(row)])], columns, steps) / steps for row in itertools.product(*ends)]
    moved = [float(np.linalg.norm(one - other)) for one in sums for other in sums]

    assert max(moved) == pytest.approx(2 * math.sqrt(3), rel=1e-6)
    assert max(moved) <= 2 * math.sqrt(3)
    assert centers_mu(3, centers_sigma(3, 0.7, 4), 4) == pytest.approx(0.7)
    assert centers_sigma(3, 1.0) == 2 * math.sqrt(3)


@pytest.mark.parametrize("sigma", [2.0, 900.0, 1e4, 4e8])
def test_any_noise_has_a_grid_that_it_can_be_drawn_on(sigma: float) -> None:
    """Wide noise gets coarser steps, on which rows move sums no further; noise beyond all grids is refused."""
    columns = calibrate(make_policy({"a": "center"}), KINDS)
    steps = steps_for(sigma)
    ends = [[-1e9, 3.0, 0.3], [0.0, 10.0, math.inf], [-5.0, 5.0, 0.1]]
    sums = [sum_complete_rows([batch_of([list(row)])], columns, steps) / steps for row in itertools.product(*ends)]
    noise = sum_complete_rows([], columns, steps)
    centers = find_centers(noise, columns, sigma, insecure_keystream(1))

    assert max(float(np.linalg.norm(one - other)) for one in sums for other in sums) <= 2 * math.sqrt(3)
    assert all(BOUNDS[name][0] <= value <= BOUNDS[name][1] for name, value in centers.items())
    assert steps == (1 << 20 if sigma == 2.0 else 2.0 ** math.floor(math.log2(1e9 / sigma)))
    for mu in (1e-10, 1e10):
        with pytest.raises(PrivacyError, match="choose another one"):
            centers_sigma(3, mu)


def test_the_means_are_those_of_complete_rows() -> None:
    """Up to their noise; without a complete row they are somewhere within the bounds."""
    columns = calibrate(make_policy({"a": "center"}), KINDS)
    frame = gappy()
    total = sum_complete_rows([pa.RecordBatch.from_pandas(frame)], columns, steps_for(2.0))
    found = find_centers(total, columns, 2.0, insecure_keystream(1))
    empty = find_centers(np.zeros(4, np.int64), columns, 2.0, insecure_keystream(2))

    for name, mean in frame.dropna().mean().items():
        assert found[str(name)] == pytest.approx(mean, abs=0.02)
    assert all(BOUNDS[name][0] <= value <= BOUNDS[name][1] for name, value in empty.items())


@pytest.mark.parametrize("unit", ["row", {"entity": "who", "max_rows": 3}])
def test_the_search_is_part_of_the_guarantee(unit: object, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """The whole is the mu asked for, with the search's hundredth in it; gaps, fills and their cost are stated."""
    frame = gappy().assign(who=pd.array([f"w{index // 3}" for index in range(4000)], "string"))
    receipt = publish(frame, make_policy({"a": "center"}, unit=unit), out=tmp_path / "a.tar", key=key)
    with open_bundle(receipt.path) as bundle:
        release = bundle.release

    assert release.guarantee.mu == pytest.approx(30.0, rel=1e-9)
    assert release.guarantee.centers_mu == pytest.approx(3.0, rel=1e-9)
    assert [column.missing for column in release.columns] == ["center", "refuse", "refuse"]
    assert [column.fill for column in release.columns] == pytest.approx([2.0, 7.0, 1.0], abs=0.2)
    assert release.n_rows == 4000
    assert receipt.report.n_centered == 400
    (sentence,) = describe_gaps(release)
    assert sentence.startswith("Rows without a value in a stand, whole, at the columns' means")


def test_rows_with_gaps_hold_nothing_of_themselves(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Where a is missing, b and c are the fill plus noise as well, whatever they were."""
    frame = gappy()
    frame.loc[::10, "b"] = 0.0
    receipt = publish(frame, make_policy({"a": "center"}, mu=100.0), out=tmp_path / "a.tar", key=key)
    with open_bundle(receipt.path) as bundle:
        rows = np.concatenate([batch.to_pandas().to_numpy() for batch in bundle.batches()])
    fills = [column.fill for column in receipt.release.columns]
    sigma = [column.cell_noise.sigma for column in receipt.release.columns]

    np.testing.assert_allclose(rows[::10].mean(axis=0), fills, atol=0.25 * max(sigma))
    np.testing.assert_allclose(rows[::10].std(axis=0), sigma, rtol=0.15)


def test_bounds_and_centers_can_both_be_found(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """With neither declared the two searches and the noise are what was asked for, together."""
    policy = {"dataset": {"name": "t"}, "privacy": {"mu": 20.0}, "columns": {"a": {"missing": "center"}}}
    receipt = publish(gappy(), Policy.model_validate(policy), out=tmp_path / "a.tar", key=key)
    guarantee = receipt.release.guarantee

    assert guarantee.mu == pytest.approx(20.0, rel=1e-9)
    assert guarantee.bounds_mu == pytest.approx(20 * math.sqrt(0.1), rel=1e-9)
    assert guarantee.centers_mu == pytest.approx(20 * math.sqrt(0.9 * 0.01), rel=1e-9)


def test_a_cell_costs_what_its_row_costs() -> None:
    """Whether one cell has a value decides over its row, and the ledger is told so."""
    for missing, together in (("center", True), ("refuse", False)):
        policy = make_policy({"a": missing})
        cost = cost_of_rows(policy, KINDS, share_mu(policy, KINDS)).mu
        assert (cost["cell"] == pytest.approx(cost["row"])) == together


@pytest.mark.parametrize(
    ("privacy", "kinds", "sentence"),
    [
        ({"unit": "cell"}, KINDS, "a single cell cannot be protected"),
        ({"sigma": 1.0}, KINDS, "goes with bounds, and with mu"),
        ({}, {**KINDS, "b": "integer"}, "not integers, unlike 'b': give numbers kind = \"continuous\""),
    ],
)
def test_where_rows_cannot_stand_at_the_center(
    privacy: dict[str, object], kinds: dict[str, str], sentence: str
) -> None:
    """Cells, other strengths and integers are refused before anything is spent, with what to do instead."""
    with pytest.raises(PolicyError, match="missing = ") as refused:
        share_mu(make_policy({"a": "center"}, **privacy), kinds)
    assert sentence in str(refused.value)


def test_a_covariance_release_names_its_own_way(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Second moments refuse the center, and add-remove neighbours drop rows without a word about how many."""
    with pytest.raises(PolicyError, match="add-remove"):
        publish(gappy(), make_policy({"a": "center"}, release="covariance"), out=tmp_path / "a.tar", key=key)
    policy = make_policy({"a": "drop"}, release="covariance", neighbours="add-remove")
    guarantee = publish(gappy(), policy, out=tmp_path / "b.tar", key=key).release.guarantee
    assert guarantee.public == ()


def test_a_gap_that_is_refused_is_refused_in_a_row_at_the_center_too(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A column that says it had no gaps had none, also where another column's gap would have hidden it."""
    frame = gappy()
    frame.loc[0, "b"] = np.nan
    with pytest.raises(MissingValuesError, match="'b'"):
        publish(frame, make_policy({"a": "center"}), out=tmp_path / "a.tar", key=key)


def test_a_manifest_cannot_leave_the_search_out(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A release with centers whose cost is missing, or with too small a mu for it, is refused."""
    release = publish(gappy(), make_policy({"a": "center"}), out=tmp_path / "a.tar", key=key).release
    for change in ({"centers_mu": 0.0}, {"centers_mu": 12.0}):
        guarantee = Guarantee.model_validate({**release.guarantee.model_dump(), **change})
        with pytest.raises(ValidationError, match=r"center|smaller than the bounds"):
            Release.model_validate({**dict(release), "guarantee": guarantee})


@pytest.mark.parametrize("missing", [{"a": "center"}, dict.fromkeys(BOUNDS, "center")])
def test_the_audit_attacks_rows_at_the_center(missing: dict[str, str]) -> None:
    """The mechanism with gaps stands the attack, and empty cells come out as the policy says."""
    policy = make_policy(missing, mu=1.0)
    kinds, _ = choose_columns(open_table(gappy()), policy)
    report = audit(calibrate(policy, kinds), ROW, n_canaries=2000, confidence=0.9999)
    assert not report.findings
