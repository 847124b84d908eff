"""The entries of the debiased covariance vary as stated, noise included."""

from dataclasses import replace

import numpy as np
import pytest
from tests.statistical.worlds import discrete_noise, gaussian_noise, observe

from dp_learn.covariance.estimate import PooledCovariance, combine_sources
from dp_learn.covariance.standard_errors import form_variances

N_REPETITIONS = 2000
ENTRY_CASES = {
    "discrete": ([discrete_noise(0.4)], [300], False),
    "independent rows": ([gaussian_noise(0.03), discrete_noise(0.4)], [300, 300], False),
    "same rows": ([gaussian_noise(0.03), discrete_noise(0.4)], [300, 300], True),
}


def without_fourth_cumulant(pooled: PooledCovariance) -> PooledCovariance:
    """Take the noise for Gaussian."""
    sources = tuple(replace(source, noise_fourth_cumulant=np.zeros(3)) for source in pooled.sources)
    return replace(pooled, sources=sources)


def with_rows_confused(pooled: PooledCovariance) -> PooledCovariance:
    """Take the same rows for independent ones, or the other way round."""
    return replace(pooled, same_rows=not pooled.same_rows)


WRONG = {
    "discrete": without_fourth_cumulant,
    "independent rows": with_rows_confused,
    "same rows": with_rows_confused,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["same rows", *(pytest.param(each, marks=pytest.mark.long) for each in ("discrete", "independent rows"))]
)
def test_entries_vary_as_stated(case: str) -> None:
    """Over 2000 repetitions every entry has the variance stated at the true covariance, within 4.5 standard errors.

    With Gaussian noise in place of discrete, or the rows' relation mistaken, variances are off beyond doubt.
    """
    noises, n_rows, same_rows = ENTRY_CASES[case]
    weights = [0.6, 0.4][: len(noises)]
    covariance = 0.25 * np.array([[1.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 1.0]])
    factor = np.linalg.cholesky(covariance)
    rng = np.random.default_rng(8)
    entries = []
    for _ in range(N_REPETITIONS):
        rows = [rng.normal(size=(n, 3)) @ factor.T for n in n_rows]
        drawn = zip([rows[0]] * len(rows) if same_rows else rows, noises, strict=True)
        pooled = combine_sources("abc", [observe(*one, rng)[1] for one in drawn], weights, same_rows=same_rows)
        entries.append(pooled.covariance)
    true = replace(pooled, covariance=covariance)
    right, wrong = (
        (np.var(entries, axis=0, ddof=1) / form_variances(each, np.eye(3)) - 1) / np.sqrt(2 / N_REPETITIONS)
        for each in (true, WRONG[case](true))
    )

    assert np.abs(right).max() < 4.5
    assert np.abs(wrong).max() > 8
