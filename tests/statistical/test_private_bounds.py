"""The search for bounds: what it finds is where the data are, at any magnitude."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dp_publish.rows.private_bounds import Bounds, count_values, find_bounds, rows_for_search
from dp_publish.sampling.keystream import insecure_keystream

MU = 0.2
HALF_WIDTH = 2.0


def counts_of(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the counts of one column."""
    counts, _ = count_values([pa.RecordBatch.from_arrays([pa.array(values)], names=["a"])], 1)
    return counts


def bounds_of(counts: NDArray[np.int64], seed: int) -> Bounds:
    """Search the bounds of one column."""
    (found,) = find_bounds(counts, ["continuous"], MU, [HALF_WIDTH], insecure_keystream(seed))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sign", "magnitude"), [(-1.0, 10), *(pytest.param(1.0, each, marks=pytest.mark.long) for each in (-30, 0, 40))]
)
def test_bounds_are_found_where_the_data_are(magnitude: int, sign: float) -> None:
    """All of 60 searches hold nine tenths of the values, and are no wider than four times as wide as these."""
    values = sign * 2.0**magnitude * np.random.default_rng(1).uniform(1, 4, 4000)
    counts = counts_of(values)
    for seed in range(60):
        low, high = bounds_of(counts, seed)
        assert np.mean((low <= values) & (values <= high)) > 0.9
        assert high - low < 4 * np.ptp(values)


@pytest.mark.slow
@pytest.mark.parametrize("n_columns", [20, pytest.param(1, marks=pytest.mark.long)])
def test_rows_that_the_plan_asks_for_are_enough(n_columns: int) -> None:
    """With as many rows as `rows_for_search` says, bounds of all columns hold half of the values in 29 of 30 tables."""
    rng, missed = np.random.default_rng(6), 0
    n_rows = rows_for_search(MU, n_columns)
    for seed in range(30):
        values = rng.normal(size=(n_rows, n_columns)) + rng.normal(0, 30, n_columns)
        names = [str(index) for index in range(n_columns)]
        batch = pa.RecordBatch.from_arrays([pa.array(column) for column in values.T], names=names)
        counts, _ = count_values([batch], n_columns)
        kinds, half_widths = ["continuous"] * n_columns, [HALF_WIDTH] * n_columns
        low, high = np.array(find_bounds(counts, kinds, MU, half_widths, insecure_keystream(seed))).T
        held = np.mean((low <= values) & (values <= high), axis=0)
        missed += bool((held < 0.5).any() or ((high - low) > 20).any())
    assert missed <= 1
