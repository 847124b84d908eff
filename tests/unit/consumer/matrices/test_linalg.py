"""Anderson acceleration finds fixed points in fewer steps, and quick ways give what LAPACK and scipy do."""

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
)


def test_a_slow_contraction_is_accelerated() -> None:
    """Where a hundred plain steps of X -> A X A + B leave much of the error, as many accelerated ones leave none."""
    rng = np.random.default_rng(0)
    q, d = np.linalg.qr(rng.normal(size=(6, 6)))[0], np.linspace(0.5, 0.999, 6)
    a, b = (q * d) @ q.T, rng.normal(size=(6, 6))
    b = b + b.T
    fixed = q @ ((q.T @ b @ q) / (1.0 - np.outer(d, d))) @ q.T
    plain, fast, anderson = np.zeros((6, 6)), np.zeros((6, 6)), Anderson(6)
    for _ in range(100):
        plain = a @ plain @ a + b
        image = a @ fast @ a + b
        fast = anderson.next_point(fast, 0.5 * (image + image.T))
    assert np.abs(plain - fixed).max() > 0.1 * np.abs(fixed).max()
    assert np.abs(fast - fixed).max() < 1e-6 * np.abs(fixed).max()


def test_what_does_not_converge_stays_within_bounds() -> None:
    """A drift is not extrapolated to infinity, and after a jump of the residual the last image is returned."""
    x, anderson = np.zeros((3, 3)), Anderson(3)
    for _ in range(10):
        x = anderson.next_point(x, x + np.eye(3))
    assert np.abs(x).max() <= 1e6

    anderson, one = Anderson(2), np.eye(2)
    assert np.array_equal(anderson.next_point(0.0 * one, one), one)
    assert np.array_equal(anderson.next_point(5.0 * one, 9.0 * one), one)
    assert np.array_equal(anderson.next_point(one, 1.5 * one), 1.5 * one)


def test_negative_part_and_sparse_products_are_exact() -> None:
    """Some of the eigenvectors give the same projection as all, and a sparse B the same product as a dense one."""
    rng = np.random.default_rng(1)
    s = rng.normal(size=(210, 210))
    s = s + s.T
    d, q = np.linalg.eigh(s)
    b = np.where(rng.random(size=(210, 210)) < 0.01, 1.0, 0.0)

    np.testing.assert_allclose(negative_part(s), (q * np.maximum(-d, 0.0)) @ q.T, atol=1e-10)
    np.testing.assert_allclose(sandwich(b, s), b @ s @ b.T, atol=1e-11)


@pytest.mark.parametrize("size", [12, 60_000])
def test_tails_are_those_of_scipy(size: int) -> None:
    """For few normal numbers and for many, far out too, and for both ends of chi-squared ones."""
    x = np.linspace(-10.0, 37.0, size).reshape(3, -1)
    np.testing.assert_allclose(normal_tails(x), special.ndtr(-x), rtol=1e-13)
    expected = [stats.chi2.ppf(1e-7, 999), stats.chi2.isf(1e-7, 999)]
    np.testing.assert_allclose(chi_squared_quantiles(999, 1e-7), expected, rtol=1e-10)


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


def test_scipys_threads_are_kept_too() -> None:
    """Where scipy is loaded after the threads were limited, its BLAS has one as numpy's has."""
    program = """
from dp_learn.matrices.linalg import few_threads
with few_threads(400):
    import scipy.linalg
    from threadpoolctl import threadpool_info
    print(*(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"))
"""
    settings = {"PATH": "", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"1"}
