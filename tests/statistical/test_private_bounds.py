"""The search for bounds: its noise is the stated one, and what it finds is where the data are."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy import stats

from dp_publish.rows import private_bounds
from dp_publish.rows.private_bounds import Bounds, count_magnitudes, find_bounds, histogram_sigma
from dp_publish.sampling.keystream import insecure_keystream


def bounds_of(values: NDArray[np.float64], sigma: float, seed: int) -> Bounds:
    """Search the bounds of one column."""
    batch = pa.RecordBatch.from_arrays([pa.array(values)], names=["a"])
    (found,) = find_bounds(count_magnitudes([batch], 1), ["continuous"], sigma, insecure_keystream(seed))
    return found


def test_counts_carry_noise_of_the_stated_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noisy minus exact counts pass a variance and a normality test at sigma, and fail at 0.95 and 1.05 of it."""
    sigma = histogram_sigma("row", 50, 0.7)
    seen: list[NDArray[np.float64]] = []

    def spy(noisy: NDArray[np.float64], *_: object) -> Bounds:
        seen.append(noisy.copy())
        return 0.0, 1.0

    monkeypatch.setattr(private_bounds, "_bounds_of", spy)
    rng = np.random.default_rng(5)
    columns = [pa.array(rng.normal(size=1000)) for _ in range(50)]
    counts = count_magnitudes([pa.RecordBatch.from_arrays(columns, names=[str(i) for i in range(50)])], 50)
    for seed in range(10):
        find_bounds(counts, ["continuous"] * 50, sigma, insecure_keystream(seed))
    noise = np.array(seen).reshape(10, *counts.shape) - counts

    def p_value(factor: float) -> float:
        statistic = float((noise**2).sum()) / (factor * sigma) ** 2
        return 2 * min(stats.chi2.cdf(statistic, noise.size), stats.chi2.sf(statistic, noise.size))

    assert p_value(1.0) > 1e-3
    assert p_value(0.95) < 1e-9
    assert p_value(1.05) < 1e-9
    assert stats.kstest(noise.ravel() / sigma, "norm").pvalue > 1e-3
    assert stats.kstest(noise.ravel() / sigma / 1.05, "norm").pvalue < 1e-6
    assert abs(np.corrcoef(noise.reshape(10, -1))[np.triu_indices(10, 1)]).max() < 4.5 / math.sqrt(counts.size)


@pytest.mark.parametrize("magnitude", [-30, -3, 0, 10, 40])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_bounds_are_found_where_the_data_are(magnitude: int, sign: float) -> None:
    """All of 300 searches hold the values, and as many as chance says are no wider than these."""
    low, high = 2.0**magnitude, 2.0 ** (magnitude + 2)
    values = sign * np.random.default_rng(1).uniform(low, high, 4000)
    sigma = 40.0
    found = [bounds_of(values, sigma, seed) for seed in range(300)]
    inner, outer = min(sign * low, sign * high), max(sign * low, sign * high)
    assert all(bounds[0] <= inner and outer <= bounds[1] for bounds in found)
    exact = sum(bounds == (inner, outer) for bounds in found) / 300
    expected = stats.norm.cdf(1) ** 2  # neither neighbouring bin's noise exceeds sigma
    assert abs(exact - expected) < 4 * math.sqrt(expected * (1 - expected) / 300) + 0.01


def test_far_bins_are_rarely_taken_for_data() -> None:
    """With all values in one bin, a far one is taken in at most 1 % of searches, give or take chance."""
    values = np.full(4000, 1.5)
    sigma, n_searches = 40.0, 2000
    counts = count_magnitudes([pa.RecordBatch.from_arrays([pa.array(values)], names=["a"])], 1)
    found = [find_bounds(counts, ["continuous"], sigma, insecure_keystream(seed))[0] for seed in range(n_searches)]
    false_alarms = sum(bounds[0] < 2.0**-8 or bounds[1] > 2.0**10 for bounds in found)
    assert false_alarms <= stats.binom.isf(1e-4, n_searches, 0.01)
    assert false_alarms >= stats.binom.ppf(1e-4, n_searches, 0.004)
