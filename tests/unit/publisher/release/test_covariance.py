"""A covariance release: whole or not at all, paid for, and with the second moments of the clipped rows inside."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.release.conftest import Publish
from tests.unit.publisher.release.covariance_policies import BOUNDS, STRENGTHS, make_policy, read

from dp_bundle.base.errors import MissingValuesError
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import covariance as covariance_release
from dp_publish.sampling.keystream import insecure_keystream


def exact_sum(table: pd.DataFrame, constant: float) -> np.ndarray:
    """Return the sum of (z, c)(z, c)^T over the table's rows, computed afresh."""
    low, high = np.array(list(BOUNDS.values()), dtype=float).T
    z = (table[list(BOUNDS)].to_numpy(float).clip(low, high) - (low + high) / 2) / ((high - low) / 2)
    v = np.column_stack([z, np.full(len(z), constant)])
    return v.T @ v


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("mechanism", ["gaussian", "wishart-difference", "eigenvectors"])
def test_every_mechanism_is_released_and_verifies(
    mechanism: str, neighbours: str, table: pd.DataFrame, publish_here: Publish
) -> None:
    """Each mechanism's bundle verifies under both neighbour relations and holds the sums within their noise."""
    policy = make_policy(mechanism=mechanism, neighbours=neighbours, **STRENGTHS[mechanism])
    receipt = publish_here(table, policy)
    matrix, made = read(receipt), receipt.release
    moments, guarantee = made.second_moments, made.guarantee

    assert (made.kind, moments.mechanism, guarantee.neighbours) == ("covariance", mechanism, neighbours)
    assert [column.noise for column in made.columns] == [None] * 3
    assert matrix.shape == (4, 4)
    if moments.distribution is not None:
        noise = matrix - exact_sum(table, moments.constant) - moments.bias * np.eye(4)
        noise[3, 3] += moments.bias if neighbours == "replace-one" else 0.0
        assert np.abs(noise[np.triu_indices(4, 1)]).max() < 12 * math.sqrt(moments.off_diagonal_variance)
        assert np.abs(np.diag(noise)).max() < 12 * math.sqrt(moments.diagonal_variance)
    if neighbours == "replace-one":
        assert made.n_rows == len(table)
        assert matrix[3, 3] == len(table) * moments.constant**2
        assert guarantee.public == ("the number of the rows",)
    else:
        assert guarantee.public == ()
        assert matrix[3, 3] != len(table) * moments.constant**2


def test_auto_chooses_by_the_number_of_rows_only_where_that_is_public(
    table: pd.DataFrame, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With replaced rows the count decides and is said; where rows come and go no row is read to choose."""
    gaps = {"height": {"bounds": [0, 300], "missing": "drop"}, "weight": {"bounds": [0, 300]}, "visits": {"drop": True}}
    for number, given, columns in (
        (400, table, {**gaps, "visits": {"bounds": [0, 9]}}),
        (390, table.assign(height=table["height"].where(table.index > 9)), gaps),
    ):
        public = publish_here(given, make_policy(columns, epsilon=1.0), out=f"{number}.tar")
        assert f"for {number} rows and {len(columns) - (number == 390)} columns" in public.remark
    monkeypatch.setattr(covariance_release.CovarianceMaker, "_count_rows", lambda _: pytest.fail("rows were counted"))
    for privacy, name in (
        ({"epsilon": 1.0}, "wishart-difference"),
        ({"mu": 1.0}, "gaussian"),
    ):
        policy = make_policy(neighbours="add-remove", **privacy)
        hidden = publish_here(table, policy, out=f"{len(Ledger().entries())}-b.tar")
        assert hidden.release.second_moments.mechanism == name


def test_missing_values_are_treated_as_the_policy_says(tmp_path: Path, publish_here: Publish) -> None:
    """Dropped rows and filled cells are counted for the publisher, fill the middle, and a refusal costs nothing."""
    frame = pd.DataFrame({"a": [0.5, None, 1.0, 1.0], "b": pd.array([1, 2, None, 4], dtype="Int64")})
    columns = {"a": {"bounds": [0, 1], "missing": "drop"}, "b": {"bounds": [0, 8], "missing": "midpoint"}}
    receipt = publish_here(frame, make_policy(columns, mu=1e4, mechanism="gaussian"))
    matrix = read(receipt)

    assert receipt.release.n_rows == 3
    assert (receipt.report.n_rows, receipt.report.n_dropped, receipt.report.filled) == (3, 1, {"b": 1})
    rows = np.array([[0.0, -0.75], [1.0, 0.0], [1.0, 0.0]])
    np.testing.assert_allclose(matrix[:2, :2], rows.T @ rows, atol=4e-3)
    refusing = make_policy({"a": {"bounds": [0, 1]}, "b": {"drop": True}}, mu=1.0)
    with pytest.raises(MissingValuesError, match="'a'"):
        publish_here(frame, refusing, out="b.tar")
    assert [entry.state for entry in Ledger().entries()] == ["published"]
    assert not (tmp_path / "b.tar").exists()


def test_rows_outside_are_clipped_and_counted(publish_here: Publish) -> None:
    """Values outside bounds, even infinite ones, count as if at them; with l2_radius long rows are shortened."""
    frame = pd.DataFrame({"x": [0.5, 9.0, -np.inf], "y": [0.5, 1.0, 1.0]})
    columns = {"x": {"bounds": [0, 1]}, "y": {"bounds": [0, 1]}}
    receipt = publish_here(frame, make_policy(columns, mu=1e4, mechanism="gaussian"))
    np.testing.assert_allclose(read(receipt)[:2, :2], [[2, 0], [0, 2]], atol=4e-3)
    assert receipt.report.n_clipped_rows == 2
    small = make_policy(columns, mu=1e4, mechanism="gaussian", l2_radius=1.0)
    receipt = publish_here(frame, small, out="b.tar")
    np.testing.assert_allclose(read(receipt)[:2, :2], [[1, 0], [0, 1]], atol=4e-3)
    assert receipt.release.second_moments.radius == 1.0


def test_manifest_does_not_depend_on_private_values(tmp_path: Path, publish_here: Publish) -> None:
    """Tables of one size, otherwise as different as can be, get equal manifests; so do tables of different size
    where that is protected, but for the estimate.
    """
    columns = {"x": {"bounds": [0, 1]}, "y": {"bounds": [0, 1]}}
    frames = [pd.DataFrame({"x": np.zeros(50), "y": np.zeros(50)}), pd.DataFrame(np.inf, range(50), ["x", "y"])]
    frames.append(frames[1].head(20))
    for neighbours, chosen in (("replace-one", frames[:2]), ("add-remove", frames)):
        found = []
        for index, frame in enumerate(chosen):
            ledger = Ledger(tmp_path / f"{neighbours}{index}.sqlite")
            policy = make_policy(columns, mu=1.0, neighbours=neighbours, mechanism="gaussian")
            out = tmp_path / f"{neighbours}{index}.tar"
            made = publish_here(frame, policy, out=out, ledger=ledger).release
            hidden = {"n_rows"} if neighbours == "add-remove" else set()
            times = {"lineage": {"created", "ledger_head"}}
            found.append(made.model_dump(exclude={**times, **dict.fromkeys(hidden, True)}))
        assert all(document == found[0] for document in found)


def test_estimated_errors_follow_from_the_release_alone(publish_here: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the table was, the same noisy matrix and the same random bits give the same estimate of its errors."""
    honest, released, fresh = Eigenvectors.draw, [], [True]

    def draw(mechanism: Any, sums: Any, rng: Any) -> Any:
        if not fresh:
            return honest(mechanism, sums, rng)
        fresh.clear()
        released.append(honest(mechanism, sums, insecure_keystream(1)))
        return released[0]

    monkeypatch.setattr(Eigenvectors, "draw", draw)
    columns = {name: {"bounds": [-1, 1]} for name in "abc"}
    policy, stated = make_policy(columns, epsilon=50.0, mechanism="eigenvectors"), []
    for index, frame in enumerate((pd.DataFrame(np.eye(3)), pd.DataFrame(np.zeros((3, 3))))):
        fresh[:] = [True]
        table = frame.set_axis(list("abc"), axis=1)
        receipt = publish_here(table, policy, out=f"{index}.tar", keystream=insecure_keystream(5))
        moments = receipt.release.second_moments
        stated.append((moments.estimated_diagonal_error, moments.estimated_off_diagonal_error))
    assert stated[0][0] is not None
    assert stated[0] == stated[1]
