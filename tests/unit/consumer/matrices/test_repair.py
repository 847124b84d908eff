"""Repairs are positive semidefinite, named, and their distance is proven."""

import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_learn.matrices.choices import RepairMethod
from dp_learn.matrices.repair import nearest_psd_max_norm, repair_covariance


def indefinite(p: int, seed: int) -> np.ndarray:
    """Return a debiased covariance with negative eigenvalues and positive variances."""
    rng = np.random.default_rng(seed)
    s = np.cov(rng.normal(size=(p, p + 2))) * 3.0 - np.eye(p)
    np.fill_diagonal(s, np.maximum(s.diagonal(), 0.5))
    return s


@pytest.mark.parametrize("fix_diagonal", [True, False])
@pytest.mark.parametrize("p", [2, 10, 100])
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
    assert 0.0 < found.lower_bound <= found.distance <= found.lower_bound * 1.0002
    if fix_diagonal:
        np.testing.assert_allclose(matrix.diagonal(), s.diagonal(), rtol=1e-12)

    early = nearest_psd_max_norm(s, fix_diagonal=fix_diagonal, max_iter=20)  # wider bounds that hold the truth
    assert early.lower_bound <= found.distance
    assert found.lower_bound <= early.distance


def test_a_strong_factor_does_not_keep_bounds_apart() -> None:
    """Steps in single precision, which lose small eigenvalues beside a large one, end where it matters."""
    found = nearest_psd_max_norm(1e-3 * indefinite(160, seed=1) + 1.0, rtol=0.05)
    assert found.n_iter < 100


def test_repairs_are_what_their_names_say() -> None:
    """Clipping removes the negative eigenvalues and nothing else; shrinkage scales all covariances by one factor."""
    s, off = indefinite(10, seed=3), ~np.eye(10, dtype=bool)
    d, q = np.linalg.eigh(s)
    nearest = nearest_psd_max_norm(s, rtol=1e-3)
    found = {method: repair_covariance(s, method) for method in ("maxnorm", "clip", "shrink")}
    np.testing.assert_allclose(found["clip"].covariance, (q * np.maximum(d, 0)) @ q.T, atol=1e-12)
    np.testing.assert_array_equal(found["shrink"].covariance.diagonal(), s.diagonal())
    np.testing.assert_allclose(np.ptp((found["shrink"].covariance / s)[off]), 0.0, atol=1e-12)
    np.testing.assert_array_equal(found["maxnorm"].covariance, nearest.matrix)
    for method, repair in found.items():
        assert repair.method == method
        assert np.linalg.eigvalsh(repair.covariance)[0] >= -1e-12 * np.abs(s).max()
        assert repair.distance == pytest.approx(np.abs(repair.covariance - s).max())
        assert 0.0 < repair.lower_bound <= repair.distance
        assert repair.distance >= nearest.lower_bound


@pytest.mark.parametrize("method", list(RepairMethod))
def test_a_definite_matrix_is_left_alone(method: str) -> None:
    """Nothing is done, and the result says so, where nothing is needed or asked for."""
    s = np.array([[2.0, 1.0], [1.0, 2.0]])
    for matrix, how, bound in ((s, method, 0.0), (np.array([[1.0, 3.0], [3.0, 1.0]]), "none", 1.0)):
        repair = repair_covariance(matrix, how)
        assert (repair.method, repair.distance) == ("none", 0.0)
        assert repair.lower_bound == pytest.approx(bound)
        np.testing.assert_array_equal(repair.covariance, matrix)


@pytest.mark.parametrize(
    ("matrix", "method", "name"),
    [(np.eye(2), "nearest", "repair"), (np.diag([-1.0, 1.0]), "shrink", "covariance[0, 0]")],
)
def test_bad_input_is_named(matrix: np.ndarray, method: str, name: str) -> None:
    """An unknown method, and a variance that shrinkage cannot keep, are refused by name."""
    with pytest.raises(ParameterError) as refused:
        repair_covariance(matrix, method)
    assert refused.value.name == name


@pytest.mark.long
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
