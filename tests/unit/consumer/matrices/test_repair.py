"""Repairs are positive semidefinite, named, and their distance is proven."""

import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_learn.matrices import repair as max_norm
from dp_learn.matrices.repair import nearest_psd_max_norm, repair_covariance
from dp_learn.matrices.repair_methods import RepairMethod


def indefinite(p: int, seed: int) -> np.ndarray:
    """Return a debiased covariance with negative eigenvalues and positive variances."""
    rng = np.random.default_rng(seed)
    s = np.cov(rng.normal(size=(p, p + 2))) * 3.0 - np.eye(p)
    np.fill_diagonal(s, np.maximum(s.diagonal(), 0.5))
    return s


@pytest.mark.parametrize("fix_diagonal", [True, False])
@pytest.mark.parametrize("p", [2, 10, 30, 100])
def test_max_norm_distance_is_proven(p: int, fix_diagonal: bool) -> None:
    """The matrix bounds the distance from above and the certificate from below, within the tolerance."""
    s = indefinite(p, seed=p) if p > 2 else np.array([[1.0, 3.0], [3.0, 2.0]])
    found = nearest_psd_max_norm(s, fix_diagonal=fix_diagonal)
    z, matrix = found.certificate, found.matrix
    off = ~np.eye(p, dtype=bool) if fix_diagonal else np.ones((p, p), dtype=bool)
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-12 * np.abs(s).max()
    assert np.abs(matrix - s).max() == pytest.approx(found.distance)
    assert np.linalg.eigvalsh(z)[0] >= -1e-12
    assert -np.sum(s * z) / np.abs(z[off]).sum() == pytest.approx(found.lower_bound, rel=1e-9)
    assert 0.0 < found.lower_bound <= found.distance
    assert found.distance - found.lower_bound <= 1e-4 * found.distance
    if fix_diagonal:
        np.testing.assert_allclose(matrix.diagonal(), s.diagonal(), rtol=1e-12)


def test_bounds_are_proven_even_when_stopped_early() -> None:
    """Twenty iterations give wider bounds that hold the truth."""
    s = indefinite(30, seed=1)
    early, late = nearest_psd_max_norm(s, max_iter=20), nearest_psd_max_norm(s)
    assert early.n_iter == 20
    assert early.lower_bound <= late.distance
    assert late.lower_bound <= early.distance


@pytest.mark.parametrize("method", ["maxnorm", "clip", "shrink"])
def test_repair_is_semidefinite_and_priced(method: str) -> None:
    """Every method returns a positive semidefinite matrix, what it did, and how far it went."""
    s = indefinite(20, seed=2)
    repair = repair_covariance(s, method)
    assert repair.method == method
    assert np.linalg.eigvalsh(repair.covariance)[0] >= -1e-12 * np.abs(s).max()
    assert np.array_equal(repair.covariance, repair.covariance.T)
    assert repair.distance == pytest.approx(np.abs(repair.covariance - s).max())
    assert 0.0 < repair.lower_bound <= repair.distance
    assert repair.distance >= repair_covariance(s, "maxnorm").lower_bound


def test_repairs_are_what_their_names_say() -> None:
    """Clipping removes the negative eigenvalues and nothing else; shrinkage scales all covariances by one factor."""
    s = indefinite(10, seed=3)
    d, q = np.linalg.eigh(s)
    clipped, shrunk = (repair_covariance(s, method).covariance for method in ("clip", "shrink"))
    np.testing.assert_allclose(clipped, (q * np.maximum(d, 0)) @ q.T, atol=1e-12)
    np.testing.assert_array_equal(shrunk.diagonal(), s.diagonal())
    ratio = (shrunk / s)[~np.eye(10, dtype=bool)]
    np.testing.assert_allclose(ratio, ratio[0])


@pytest.mark.parametrize("method", list(RepairMethod))
def test_a_definite_matrix_is_left_alone(method: str) -> None:
    """Nothing is done, and the result says so, where nothing is needed."""
    s = np.array([[2.0, 1.0], [1.0, 2.0]])
    repair = repair_covariance(s, method)
    assert repair.method == "none"
    assert repair.distance == 0.0
    np.testing.assert_array_equal(repair.covariance, s)


def test_none_tells_how_far_it_is_from_definite() -> None:
    """Without repair the matrix stays, and the proven bound tells how wrong it must be."""
    s = np.array([[1.0, 3.0], [3.0, 1.0]])
    repair = repair_covariance(s, "none")
    assert repair.lower_bound == pytest.approx(1.0)
    np.testing.assert_array_equal(repair.covariance, s)


def test_bad_input_is_named() -> None:
    """An unknown method, and a variance that shrinkage cannot keep, get one sentence each."""
    with pytest.raises(ParameterError, match="repair must be one of none, maxnorm, clip, shrink, not 'nearest'"):
        repair_covariance(np.eye(2), "nearest")
    with pytest.raises(ParameterError, match=r"covariance\[0, 0\] must be positive"):
        repair_covariance(np.diag([-1.0, 1.0]), "shrink")


@pytest.mark.parametrize("fix_diagonal", [True, False])
def test_few_columns_are_projected_as_many_are(fix_diagonal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the compiled kernel or without it, every step is the same but for rounding."""
    s = indefinite(20, seed=3)
    few = nearest_psd_max_norm(s, fix_diagonal=fix_diagonal, max_iter=30)
    monkeypatch.setattr(max_norm, "FEW", 0)
    many = nearest_psd_max_norm(s, fix_diagonal=fix_diagonal, max_iter=30)
    np.testing.assert_allclose(few.matrix, many.matrix, atol=1e-9)
    assert few.lower_bound == pytest.approx(many.lower_bound, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "n_rows", "share"), [(40, 100, 0.03), (30, 35, 0.01), (100, 105, 0.01)])
def test_rounding_does_not_choose_the_matrix(p: int, n_rows: int, share: float) -> None:
    """Of the many matrices at the same distance one is found, whatever the last bits are, as processors differ there.

    Reference: the same matrix, with every entry of the covariance moved by a few units in the last place.
    """
    for seed in range(6):
        rng = np.random.default_rng(seed)
        walks = rng.normal(size=(n_rows, p)).cumsum(axis=1)
        noise = share * walks.var(axis=0)
        noisy = walks + np.sqrt(noise) * rng.normal(size=walks.shape)
        s = np.cov(noisy.T) - np.diag(noise)
        s = s / np.sqrt(np.outer(s.diagonal(), s.diagonal()))
        moved = s * (1.0 + rng.integers(-4, 5, s.shape) * np.finfo(float).eps)
        moved = np.triu(moved, 1) + np.triu(moved, 1).T + np.diag(s.diagonal())
        found, again = (nearest_psd_max_norm(each, fix_diagonal=True, rtol=1e-3).matrix for each in (s, moved))
        np.testing.assert_allclose(found, again, atol=1e-10)
