"""The search for bounds: what it finds is where the data are."""

import numpy as np
import pyarrow as pa
import pytest

from dp_publish.rows.private_bounds import count_values, find_bounds, rows_for_search
from dp_publish.sampling.keystream import insecure_keystream

MU = 0.2
HALF_WIDTH = 2.0


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
