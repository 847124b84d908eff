"""The private search chooses by its stated law, and finds columns where they are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dp_publish.sampling.keystream import insecure_keystream
from dp_publish.search.exponential import ExponentialMechanism
from dp_publish.search.places import CenterSearch, Grid, ScaleSearch, add_to_cells, find_place

MU = 0.3
CELLS = 64
GRID = Grid(0.0, 10.0, CELLS)


def counts_of(values: NDArray[np.float64], grid: Grid = GRID) -> NDArray[np.int64]:
    """Return the values' counts by cell."""
    counts = np.zeros(grid.cells, dtype=np.int64)
    add_to_cells(counts, values, grid)
    return counts


def p_value(chosen: list[int], log_probabilities: NDArray[np.float64]) -> float:
    """Return the p-value of a chi-square test, with rare outcomes taken together."""
    expected = np.exp(log_probabilities) * len(chosen)
    seen = np.bincount(chosen, minlength=len(expected))
    rare = expected < 10
    seen, expected = np.append(seen[~rare], seen[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    return float(stats.chisquare(seen, expected).pvalue)


def test_centers_follow_their_law() -> None:
    """4,000 centers pass a test against the stated law, and fail it at a strength that is off by a fifth."""
    counts, keystream = counts_of(np.random.default_rng(1).normal(4, 1, 60)), insecure_keystream(1)
    search = CenterSearch(ExponentialMechanism(MU))
    chosen = [search.choose(counts, keystream) - 1 for _ in range(4000)]
    assert p_value(chosen, search.log_probabilities(counts)) > 1e-3
    for factor in (0.8, 1.25):
        assert p_value(chosen, CenterSearch(ExponentialMechanism(factor * MU)).log_probabilities(counts)) < 1e-6


def test_scales_follow_their_law() -> None:
    """The same holds for scales around a center."""
    counts, keystream = counts_of(np.random.default_rng(1).normal(4, 1, 60)), insecure_keystream(1)
    search = ScaleSearch(ExponentialMechanism(MU), GRID)
    scales = search.radii / 0.8416212335729143
    chosen = [int(np.abs(scales - search.choose(counts, 25, keystream)).argmin()) for _ in range(4000)]
    assert p_value(chosen, search.log_probabilities(counts, 25)) > 1e-3
    for factor in (0.8, 1.25):
        wrong = ScaleSearch(ExponentialMechanism(factor * MU), GRID)
        assert p_value(chosen, wrong.log_probabilities(counts, 25)) < 1e-6


@pytest.mark.parametrize("outside", [0, 300])
def test_column_is_found_in_a_range_a_thousand_times_as_wide(outside: int) -> None:
    """Of 100 searches, all find the center within a quarter of the deviation, and the scale within a quarter."""
    rng, keystream = np.random.default_rng(2), insecure_keystream(2)
    values = np.concatenate([rng.normal(70, 2, 3000), np.full(outside, 1e9)])
    grid = Grid(-9000.0, 2000.0, 1 << 20)
    found = np.array([find_place(counts_of(values, grid), grid, 0.05, keystream) for _ in range(100)])
    assert np.abs(found[:, 0] - 70).max() < 0.5 + outside * 1e-3
    assert np.abs(np.log(found[:, 1] / 2)).max() < 0.25 + outside * 1e-3
