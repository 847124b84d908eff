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
from dp_bundle.describe.sentences import describe_guarantee, describe_moments
from dp_bundle.privacy.normal import mu_implied_by_epsilon
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import covariance as covariance_release
from dp_publish.release import publishing as release
from dp_publish.sampling.keystream import insecure_keystream


def exact_sum(table: pd.DataFrame, constant: float) -> np.ndarray:
    """Return the sum of (z, c)(z, c)^T over the table's rows, computed afresh."""
    low, high = np.array(list(BOUNDS.values()), dtype=float).T
    z = (table[list(BOUNDS)].to_numpy(float).clip(low, high) - (low + high) / 2) / ((high - low) / 2)
    v = np.column_stack([z, np.full(len(z), constant)])
    return v.T @ v


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("mechanism", STRENGTHS)
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


@pytest.mark.parametrize(
    ("privacy", "mu", "epsilon", "rho", "excepted"),
    [
        ({"mechanism": "gaussian", "mu": 0.5}, 0.5, None, 0.125, 0.0),
        ({"mechanism": "gaussian", "rho": 2.0}, 2.0, None, 2.0, 0.0),
        ({"mechanism": "gaussian", "epsilon": 4.887, "delta": 1e-6}, 1.0, None, 0.5, 0.0),
        ({"mechanism": "laplace", "epsilon": 2.0}, mu_implied_by_epsilon(2.0), 2.0, 2.0, 0.0),
        ({"mechanism": "laplace", "epsilon": 2.0, "delta": 1e-6}, mu_implied_by_epsilon(2.0), 2.0, 2.0, 0.0),
        ({"mechanism": "laplace", "rho": 2.0}, mu_implied_by_epsilon(2.0), 2.0, 2.0, 0.0),
        ({"mechanism": "wishart-difference", "epsilon": 2.0}, mu_implied_by_epsilon(2.0), 2.0, 2.0, 2.0**-40),
        ({"mechanism": "eigenvectors", "mu": 1.0}, 1.0, 0.8070, 0.3256, 2.0**-40),
        ({"mechanism": "wishart", "epsilon": 1.0, "delta": 1e-5}, mu_implied_by_epsilon(1.0), 1.0, 0.5, 1e-5),
        ({"mechanism": "gaussian", "mu": 0.5, "unit": "cell"}, 0.5, None, 0.125, 0.0),
    ],
)
def test_guarantee_is_the_strength_asked_for(
    privacy: dict[str, Any],
    mu: float,
    epsilon: float | None,
    rho: float,
    excepted: float,
    table: pd.DataFrame,
    publish_here: Publish,
) -> None:
    """Whatever the strength is given by, what is stated is that, and the ledger has it for rows and cells."""
    made = publish_here(table, make_policy(**privacy)).release
    guarantee = made.guarantee
    (entry,) = Ledger().entries()

    assert guarantee.mu == pytest.approx(mu, rel=1e-3)
    assert guarantee.rho == pytest.approx(rho, rel=1e-3)
    assert guarantee.epsilon == (None if epsilon is None else pytest.approx(epsilon, rel=1e-4))
    assert guarantee.excepted_delta == entry.cost.excepted_delta == made.cumulative.excepted_delta == excepted
    assert entry.cost.mu == {name: pytest.approx(guarantee.mu, rel=1e-9) for name in ("cell", "row")}
    assert guarantee.mu <= entry.cost.mu["row"]


def test_sulq_states_what_its_noise_really_gives(table: pd.DataFrame, publish_here: Publish) -> None:
    """The printed noise is far more than its (epsilon, delta) needs, and mu says by how much."""
    policy = make_policy(mechanism="sulq", epsilon=1.0, delta=1e-6)
    guarantee = publish_here(table, policy).release.guarantee
    assert guarantee.epsilon is None
    assert 0 < guarantee.mu < 0.1
    assert guarantee.accountant == "gaussian-dp"


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_entities_share_their_strength_among_their_rows(mechanism: str, publish_here: Publish) -> None:
    """Of an entity at most four rows are summed, each with a quarter of its strength, and the column is not named."""
    frame = pd.DataFrame({"who": ["a"] * 50 + ["b"] * 2 + ["c"] * 9, "x": np.arange(61) / 61})
    policy = make_policy({"x": {"bounds": [0, 1]}}, mu=1.0, mechanism=mechanism, unit={"entity": "who", "max_rows": 4})
    receipt = publish_here(frame, policy)
    guarantee, moments = receipt.release.guarantee, receipt.release.second_moments
    read(receipt)
    (entry,) = Ledger().entries()

    assert receipt.release.n_rows == 10
    assert (guarantee.entity, guarantee.max_rows, guarantee.mu) == ("who", 4, pytest.approx(1.0))
    assert guarantee.public == ("the number of the rows", "which rows belong together")
    assert entry.cost.mu["entity:who"] == pytest.approx(1.0)
    one = pytest.approx(0.25 if mechanism == "gaussian" else mu_implied_by_epsilon(0.80697 / 4), rel=1e-4)
    assert entry.cost.mu["row"] == entry.cost.mu["cell"] == one
    sensitivity = math.sqrt(2) * (1 + moments.constant**2)
    if mechanism == "gaussian":
        assert moments.parameters["diagonal_sigma"] == pytest.approx(4 * sensitivity, rel=1e-6)


def test_auto_chooses_by_the_number_of_rows_only_where_that_is_public(
    table: pd.DataFrame, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With replaced rows the count decides and is said; where rows come and go no row is read to choose."""
    public = publish_here(table, make_policy(epsilon=1.0), out="1.tar")
    assert "for 400 rows and 3 columns" in public.remark
    monkeypatch.setattr(covariance_release.CovarianceMaker, "_count_rows", lambda _: pytest.fail("rows were counted"))
    for privacy, name in (
        ({"epsilon": 1.0}, "wishart-difference"),
        ({"mu": 1.0}, "gaussian"),
        ({"rho": 1.0}, "gaussian"),
    ):
        policy = make_policy(neighbours="add-remove", **privacy)
        hidden = publish_here(table, policy, out=f"{len(Ledger().entries())}-b.tar")
        assert hidden.release.second_moments.mechanism == name
        assert hidden.remark == f"{name} was chosen without a look at the number of rows, which is protected"


def test_auto_counts_what_is_summed(publish_here: Publish) -> None:
    """Rows that are dropped for want of a value do not count."""
    frame = pd.DataFrame({"x": [0.5] * 10 + [None] * 5, "y": 0.5})
    columns = {"x": {"bounds": [0, 1], "missing": "drop"}, "y": {"bounds": [0, 1]}}
    receipt = publish_here(frame, make_policy(columns, epsilon=1.0))
    assert "for 10 rows and 2 columns" in receipt.remark


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
    assert "which rows have no value in 'a'" in receipt.release.guarantee.public  # type: ignore[union-attr]
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


@pytest.mark.parametrize("mechanism", ["eigenvectors", "kapralov-talwar"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_eigenvector_releases_are_on_a_grid_and_say_what_they_except(
    mechanism: str, neighbours: str, table: pd.DataFrame, publish_here: Publish
) -> None:
    """Every noisy entry is a multiple of the granularity; the exception is stated, booked, and said."""
    policy = make_policy(mechanism=mechanism, epsilon=2.0, neighbours=neighbours)
    receipt = publish_here(table, policy)
    moments, guarantee = receipt.release.second_moments, receipt.release.guarantee
    noisy = read(receipt)[np.triu_indices(4)]
    assert not np.remainder(noisy[: None if neighbours == "add-remove" else -1], moments.granularity).any()
    assert guarantee.excepted_delta == receipt.release.cumulative.excepted_delta == 2.0**-40
    assert any("except with a probability of 9.0" in line for line in describe_guarantee(receipt.release))
    assert not any("older version" in line for line in describe_moments(moments, receipt.release.columns))
    older = moments.model_copy(update={"granularity": None})
    assert "epsilon may not hold" in describe_moments(older, receipt.release.columns)[1]


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


def test_outputs_of_neighbours_differ_by_the_sensitivity_at_most(
    publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same random bits, replacing one row moves the released matrix by mu sigma in Frobenius norm at most."""
    monkeypatch.setattr(release, "SecureKeystream", lambda: insecure_keystream(5))
    columns = {"x": {"bounds": [0, 1]}, "y": {"bounds": [0, 1]}}
    policy = make_policy(columns, mu=1.0, mechanism="gaussian")
    frames = [pd.DataFrame({"x": [0.3, value], "y": [0.2, 1e300]}) for value in (1e300, -1e300)]
    receipts = [publish_here(frame, policy, out=f"{i}.tar") for i, frame in enumerate(frames)]
    moved = np.linalg.norm(read(receipts[0]) - read(receipts[1]))
    moments = receipts[0].release.second_moments
    assert 0.5 * moments.parameters["diagonal_sigma"] < moved <= moments.parameters["diagonal_sigma"]
