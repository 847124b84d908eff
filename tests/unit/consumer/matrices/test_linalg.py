"""Anderson acceleration finds fixed points in fewer steps, and never by leaving the map's own iterates for good."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats
from threadpoolctl import threadpool_info

from dp_learn.matrices.linalg import (
    Anderson,
    chi_squared_quantiles,
    few_threads,
    negative_part,
    normal_tails,
    sandwich,
    smallest_eigenpair,
)


def contraction(p: int, slowest: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A, B of the map ``X -> A X A + B`` and its fixed point; A has eigenvalues up to `slowest`."""
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.normal(size=(p, p)))
    d = np.linspace(0.5, slowest, p)
    b = rng.normal(size=(p, p))
    b = b + b.T
    fixed = q @ ((q.T @ b @ q) / (1.0 - np.outer(d, d))) @ q.T
    return (q * d) @ q.T, b, fixed


def test_a_slow_contraction_is_accelerated() -> None:
    """Where a hundred plain steps leave much of the error, a hundred accelerated ones leave none of it."""
    a, b, fixed = contraction(6, 0.999)
    plain, fast, anderson = np.zeros((6, 6)), np.zeros((6, 6)), Anderson(6)
    for _ in range(100):
        plain = a @ plain @ a + b
        image = a @ fast @ a + b
        fast = anderson.next_point(fast, 0.5 * (image + image.T))
    assert np.abs(plain - fixed).max() > 0.1 * np.abs(fixed).max()
    assert np.abs(fast - fixed).max() < 1e-6 * np.abs(fixed).max()
    assert np.array_equal(fast, fast.T)


def test_a_drift_is_not_extrapolated_to_infinity() -> None:
    """A map without a fixed point, whose residual never changes, moves on at a bounded rate."""
    x, anderson = np.zeros((3, 3)), Anderson(3)
    for _ in range(10):
        x = anderson.next_point(x, x + np.eye(3))
    assert np.isfinite(x).all()
    assert np.abs(x).max() <= 1e6


def test_a_point_with_a_larger_residual_is_refused() -> None:
    """After a jump of the residual the last image is returned, and the history starts again."""
    anderson = Anderson(2)
    zero, one = np.zeros((2, 2)), np.eye(2)
    assert np.array_equal(anderson.next_point(zero, one), one)
    assert np.array_equal(anderson.next_point(5.0 * one, 9.0 * one), one)
    assert np.array_equal(anderson.next_point(one, 1.5 * one), 1.5 * one)


@pytest.mark.parametrize("matrix", ["indefinite", "definite", "diagonal"])
def test_smallest_eigenpair_of_a_large_matrix_is_lapacks(matrix: str) -> None:
    """Lanczos iterations agree with a full decomposition to rounding, indefinite matrix or not."""
    rows = np.random.default_rng(0).normal(size=(900, 620))
    s = {"diagonal": np.diag(np.linspace(-1.0, 2.0, 620)), "definite": np.cov(rows.T)}.get(
        matrix, np.cov(rows.T) - 0.1 * np.eye(620)
    )
    d, q = smallest_eigenpair(s)

    assert d == pytest.approx(np.linalg.eigvalsh(s)[0], abs=1e-12)
    np.testing.assert_allclose(s @ q, d * q, atol=1e-9)


def test_negative_part_and_sparse_products_are_exact() -> None:
    """Some of the eigenvectors give the same projection as all, and a sparse B the same product as a dense one."""
    rng = np.random.default_rng(1)
    s = rng.normal(size=(210, 210))
    s = s + s.T
    d, q = np.linalg.eigh(s)
    b = np.where(rng.random(size=(210, 210)) < 0.01, 1.0, 0.0)

    np.testing.assert_allclose(negative_part(s), (q * np.maximum(-d, 0.0)) @ q.T, atol=1e-10)
    np.testing.assert_allclose(sandwich(b, s), b @ s @ b.T, atol=1e-11)


def test_scipys_threads_are_kept_too() -> None:
    """Where scipy is loaded after the threads were limited, its BLAS has one as numpy's has."""
    program = """
from dp_learn.matrices.linalg import few_threads
with few_threads(400):
    import scipy.linalg
    from threadpoolctl import threadpool_info
    print(*(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"))
"""
    environment = {"PATH": "", "OPENBLAS_NUM_THREADS": "2"}
    finished = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert set(finished.stdout.split()) == {"1"}


@pytest.mark.parametrize("size", [12, 60_000])
def test_normal_tails_are_those_of_scipy(size: int) -> None:
    """For few numbers and for many, of any shape, far out too."""
    x = np.linspace(-10.0, 37.0, size).reshape(3, -1)
    np.testing.assert_allclose(normal_tails(x), special.ndtr(-x), rtol=1e-13)


def test_chi_squared_quantiles_are_those_of_scipy() -> None:
    """Both at once."""
    found = chi_squared_quantiles(999, 1e-7)
    np.testing.assert_allclose(found, [stats.chi2.ppf(1e-7, 999), stats.chi2.isf(1e-7, 999)], rtol=1e-10)


def test_threads_are_limited_where_matrices_are_small() -> None:
    """BLAS has one thread in the body, and as many as before after it; large matrices change nothing."""

    def threads() -> list[int]:
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    before = threads()
    with few_threads(30):
        assert set(threads()) == {1}
    with few_threads(10**6):
        assert threads() == before
    assert threads() == before
