"""Bounds found privately: what a change of table can do to them, by brute force; bounds on data with known places."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_publish.rows.private_bounds import count_values, find_bounds, half_width_for, merge_values
from dp_publish.sampling.keystream import insecure_keystream


def batch_of(*columns: Any) -> pa.RecordBatch:
    """Return a batch of columns given as lists."""
    arrays = [pa.array(values, None if len(values) else pa.float64()) for values in columns]
    return pa.RecordBatch.from_arrays(arrays, names=[str(index) for index in range(len(columns))])


def counts_of(*columns: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the exact counts of every column."""
    return count_values([batch_of(*columns)], len(columns))[0]


def test_counts_do_not_mind_types_and_batches() -> None:
    """Integers count like floats, batches and runs of them add up, and gaps are rows without a value."""
    values = [None, 0, 1, -7, 2**62, -(2**63)]
    floats = [None if value is None else float(value) for value in values]
    np.testing.assert_array_equal(counts_of(values), counts_of(floats))
    assert counts_of(values).sum() == 5
    batches = [pa.RecordBatch.from_arrays([pa.array([value], pa.int64())], names=["a"]) for value in values]
    counts, n_rows = merge_values(count_values(batches[:2], 1), count_values(batches[2:], 1))
    assert n_rows == 6
    np.testing.assert_array_equal(counts, counts_of(values))
    assert counts_of([]).sum() == 0


@pytest.mark.parametrize(
    ("values", "kind", "low", "high"),
    [
        (np.linspace(-3, 5, 4001), "continuous", -4.7, 6.7),
        (np.arange(-10, 11).repeat(100), "integer", -15, 15),
        (np.array([0] * 1000 + [1] * 1100), "integer", -1.5, 3.5),
        (np.full(2000, 2.0**60), "integer", 2.0**52, 2.0**52),
    ],
)
def test_bounds_are_scales_around_the_center(values: Any, kind: str, low: float, high: float) -> None:
    """At a great strength bounds are two scales from the center, for integers integers."""
    ((found_low, found_high),) = find_bounds(counts_of(values), [kind], 3.0, [2.0], insecure_keystream(1))
    assert found_low == pytest.approx(low, rel=0.03, abs=1.5 if kind == "integer" else 0.3)
    assert found_high == pytest.approx(high, rel=0.03, abs=1.5 if kind == "integer" else 0.3)
    assert kind == "continuous" or (found_low.is_integer() and found_high.is_integer())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["continuous", "integer"])
@pytest.mark.parametrize("n_rows", [0, 1, 30])
def test_hardly_any_rows_still_give_bounds(kind: str, n_rows: int) -> None:
    """However little is known, every column gets an interval that is fit for its kind."""
    counts = counts_of([1.0] * n_rows)
    for seed in range(20):
        ((low, high),) = find_bounds(counts, [kind], 0.01, [1.0], insecure_keystream(seed))
        assert -(2.0**52) <= low < high <= 2.0**52
        assert kind == "continuous" or (low.is_integer() and high.is_integer())


@given(st.integers(0, 10**9), st.floats(1e-6, 1e6))
def test_bounds_widen_with_what_they_can_afford(n_rows: int, mu: float) -> None:
    """Half-widths are 1 to 10 scales, and grow with the rows and with mu."""
    half_width = half_width_for(n_rows, mu)
    assert 1 <= half_width <= 10
    assert half_width <= half_width_for(4 * n_rows, mu)
    assert half_width <= half_width_for(n_rows, 2 * mu)


@pytest.mark.parametrize(("n_rows", "mu"), [(178, 3.0), (569, 3.0), (5000, 3.0), (5000, 20.0)])
def test_half_width_is_near_the_best_for_normal_columns(n_rows: int, mu: float) -> None:
    """With correlated normal columns, no other half-width has an error below 0.6 of that of the one in use."""
    rng = np.random.default_rng(1)
    loadings = rng.normal(size=(12, 12)) / np.sqrt(12) + 0.5 * np.eye(12)

    def error(half_width: float) -> float:
        errors = []
        for _ in range(6):
            raw = rng.normal(size=(n_rows, 12)) @ loadings
            raw /= raw.std(axis=0)
            sigma = 2 * half_width / mu
            noisy = np.clip(raw, -half_width, half_width) + sigma * rng.normal(size=raw.shape)
            covariance = np.cov(noisy.T) - sigma**2 * np.eye(12)
            deviations = np.sqrt(np.maximum(np.diag(covariance), 0.05))
            differences = covariance / np.outer(deviations, deviations) - np.corrcoef(raw.T)
            errors.append(float(np.median(np.abs(differences[np.triu_indices(12, 1)]))))
        return float(np.mean(errors))

    chosen = error(half_width_for(n_rows, mu))
    assert min(error(half_width) for half_width in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)) > 0.6 * chosen
