"""The errors of entries, and their sums over pairs, in closed form against the dense formulas of `uncertainty`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dp_learn.covariance.debias import NoisyCovariance, ReleasedCovariance
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.one_round import OneRound
from dp_learn.covariance.sample import effective_rows
from dp_learn.covariance.standard_errors import (
    entry_variances,
    form_variances,
    mechanism_entry_variances,
    mechanism_errors,
    sum_over_pairs,
    unexplained_variances,
)
from dp_learn.matrices.linalg import few_threads

KINDS = ["rows", "with a constant", "with a noisy constant", "without a constant", "pooled", "same rows"]


def model(p: int, seed: int = 0) -> np.ndarray:
    """Return a sparse precision matrix of a chain with a few more edges, its columns of different units."""
    rng = np.random.default_rng(seed)
    theta = np.eye(p) + np.diag(np.full(p - 1, 0.3), 1) + np.diag(np.full(p - 1, 0.3), -1)
    theta[0, p - 1] = theta[p - 1, 0] = 0.2
    units = rng.uniform(0.5, 2.0, p)
    return theta * np.outer(units, units)


def pooled_from(kind: str, covariance: np.ndarray) -> PooledCovariance:
    """Return a covariance whose sources have all that can differ between them."""
    rng = np.random.default_rng(len(kind))
    p = len(covariance)
    rows = tuple(
        NoisyCovariance(n, covariance, rng.uniform(0.1, 1.0, p), rng.normal(scale=0.1, size=p)) for n in (300, 300, 80)
    )
    constant = 0.0 if kind == "without a constant" else 0.7
    half, mean = rng.uniform(1.0, 3.0, p), rng.normal(scale=0.3, size=p)
    exact = kind != "with a noisy constant"
    noise = OneRound(90, half, mean, constant, 7.0, 5.0, exact_count=exact)
    released = ReleasedCovariance(90, covariance, noise, exact_count=exact)
    chosen: dict[str, tuple[tuple[NoisyCovariance | ReleasedCovariance, ...], tuple[float, ...]]] = {
        "rows": (rows[:1], (1.0,)),
        "pooled": ((rows[0], rows[2], released), (0.5, 0.3, 0.2)),
        "same rows": (rows[:2], (0.4, 0.6)),
    }
    sources, weights = chosen.get(kind, ((released,), (1.0,)))
    names = tuple(f"x{index}" for index in range(p))
    return PooledCovariance(names, covariance, sources, weights, same_rows=kind == "same rows")


@pytest.mark.parametrize("kind", KINDS)
def test_variances_of_entries_are_those_of_the_forms_of_the_identity(kind: str) -> None:
    """With and without correlations, and for the noise alone, every entry agrees."""
    s = np.linalg.inv(model(9))
    pooled = pooled_from(kind, s)
    units = np.outer(pooled.deviations, pooled.deviations) ** 2
    uncorrelated = replace(pooled, covariance=np.diag(np.diagonal(s)))
    eye = np.eye(9)

    for given, correlation in ((pooled, pooled.correlation), (uncorrelated, None)):
        for found, expected in (
            (entry_variances(pooled, correlation), form_variances(given, eye)),
            (mechanism_entry_variances(pooled, correlation), mechanism_errors(given, eye).products),
        ):
            np.testing.assert_allclose(found * units, expected, rtol=1e-10)
    nothing = mechanism_errors(replace(pooled, covariance=np.zeros((9, 9))), eye).products.diagonal()
    np.testing.assert_allclose(unexplained_variances(pooled), nothing, rtol=1e-10)


@pytest.mark.parametrize("p", [9, 210])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_over_pairs_are_those_of_the_forms(kind: str, p: int) -> None:
    """At a model, dense or so large and sparse that products are sparse too, both sums and the rows they give agree."""
    theta = model(p)
    s = np.linalg.inv(theta)
    pooled = pooled_from(kind, s)
    scale = np.outer(theta.diagonal(), theta.diagonal())
    upper = np.triu_indices(p, 1)
    noiseless = (1.0 + (theta**2 / scale)[upper]).sum()
    total = (form_variances(pooled, theta) / scale)[upper].sum()

    np.testing.assert_allclose(sum_over_pairs(pooled, theta), (noiseless, total), rtol=1e-10)
    assert effective_rows(pooled, theta) == pytest.approx(1.0 + noiseless / total, rel=1e-10)


def test_threads_are_limited_where_matrices_are_small() -> None:
    """BLAS has one thread in the body, and as many as before after it; large matrices change nothing."""
    from threadpoolctl import threadpool_info

    def threads() -> list[int]:
        return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]

    before = threads()
    with few_threads(30):
        assert set(threads()) == {1}
    with few_threads(10**6):
        assert threads() == before
    assert threads() == before
