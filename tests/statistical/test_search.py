"""The private search chooses by its stated law, and finds columns where they are."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import insecure_keystream
from dp_publish.sampling.places import EqualCells, FloatGrid, ScaleSearch, add_to_cells, center_scores, find_place

MU = 0.3
CELLS = 64
GRID = EqualCells(0.0, 10.0, CELLS)


def counts_of(values: NDArray[np.float64], grid: EqualCells | FloatGrid = GRID) -> NDArray[np.int64]:
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
    mechanism, scores = ExponentialMechanism(MU), center_scores(counts)
    chosen = [mechanism.choose(scores, keystream) for _ in range(4000)]
    assert p_value(chosen, mechanism.log_probabilities(scores)) > 1e-3
    for factor in (0.8, 1.25):
        assert p_value(chosen, ExponentialMechanism(factor * MU).log_probabilities(scores)) < 1e-6


def test_scales_follow_their_law() -> None:
    """The same holds for scales around a center."""
    counts, keystream = counts_of(np.random.default_rng(1).normal(4, 1, 60)), insecure_keystream(1)
    mechanism = ExponentialMechanism(MU)
    scores = ScaleSearch(mechanism, GRID).scores(counts, 25)
    chosen = [mechanism.choose(scores, keystream) for _ in range(4000)]
    assert p_value(chosen, mechanism.log_probabilities(scores)) > 1e-3
    for factor in (0.8, 1.25):
        wrong = ExponentialMechanism(factor * MU)
        scores = ScaleSearch(wrong, GRID).scores(counts, 25)
        assert p_value(chosen, wrong.log_probabilities(scores)) < 1e-6


@pytest.mark.parametrize("outside", [0, 300])
@pytest.mark.parametrize("grid", [EqualCells(-9000.0, 2000.0, 1 << 20), FloatGrid(1 << 20)])
@pytest.mark.slow
def test_column_is_found_in_a_range_a_thousand_times_as_wide(grid: EqualCells | FloatGrid, outside: int) -> None:
    """Of 100 searches, all find the center within a quarter of the deviation, and the scale within a quarter."""
    rng, keystream = np.random.default_rng(2), insecure_keystream(2)
    values = np.concatenate([rng.normal(70, 2, 3000), np.full(outside, 1e9)])
    counts = counts_of(values, grid)
    found = np.array([find_place(counts, grid, 0.05, keystream) for _ in range(100)])
    assert np.abs(found[:, 0] - 70).max() < 0.5 + outside * 1e-3
    assert np.abs(np.log(found[:, 1] / 2)).max() < 0.25 + outside * 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("grid", [EqualCells(-9000.0, 2000.0, 1 << 20), FloatGrid(1 << 20)])
@pytest.mark.parametrize("value", [0.0, 700.0])
def test_column_of_which_most_is_one_value_gets_the_scale_of_the_others(
    grid: EqualCells | FloatGrid, value: float
) -> None:
    """Of 100 searches, all find the value, and about the median of the others' distances from it."""
    keystream = insecure_keystream(3)
    others = value + np.random.default_rng(3).exponential(5.0, 1000)
    counts = counts_of(np.concatenate([others, np.full(4000, value)]), grid)
    found = np.array([find_place(counts, grid, 0.2, keystream) for _ in range(100)])
    assert np.abs(found[:, 0] - value).max() < 0.1
    assert np.abs(np.log(found[:, 1] * 0.8416 / (5 * np.log(2)))).max() < 0.4


@pytest.mark.slow
@pytest.mark.parametrize("grid", [EqualCells(-9000.0, 2000.0, 1 << 20), FloatGrid(1 << 20)])
def test_constant_column_gets_the_least_scale(grid: EqualCells | FloatGrid) -> None:
    """Where nothing tells radii apart, all of 100 scales are the least one, and centers the value."""
    keystream, counts = insecure_keystream(4), counts_of(np.full(5000, 700.0), grid)
    found = np.array([find_place(counts, grid, 0.1, keystream) for _ in range(100)])
    assert np.abs(found[:, 0] - 700).max() < 0.1
    assert len(set(found[:, 1])) <= 3
    assert np.median(found[:, 1]) < 1
