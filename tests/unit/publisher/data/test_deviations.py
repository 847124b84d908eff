"""Standard deviations of columns, in one pass."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dp_bundle.base.errors import DataError
from dp_publish.data.deviations import standard_deviations
from dp_publish.data.table import open_table


def test_snr_is_the_same_in_any_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one-pass standard deviation of many batches, far from zero and with gaps, is that of the whole column."""
    values = np.random.default_rng(2).normal(1e8, 1, 5000)
    values[::7] = np.nan
    frame = pd.DataFrame({"a": values})
    monkeypatch.setattr("dp_publish.data.deviations.batch_rows", lambda _: 13)
    found = standard_deviations(open_table(frame), {"a": "continuous"}, {})
    assert found == {"a": pytest.approx(np.nanstd(values), rel=1e-9)}


@pytest.mark.parametrize("values", [[1.0, 1.0], [math.inf, 1.0], [math.nan, math.nan], [1e308, -1e308], []])
def test_snr_needs_columns_that_vary_and_are_finite(values: list[float]) -> None:
    """Constant, infinite, empty and overflowing columns are named, without a warning from numpy."""
    frame = pd.DataFrame({"fine": [1.0, 2.0][: len(values)], "bad": np.array(values, dtype=float)})
    with pytest.raises(DataError, match="'bad'"):
        standard_deviations(open_table(frame), dict.fromkeys(frame, "continuous"), {})
