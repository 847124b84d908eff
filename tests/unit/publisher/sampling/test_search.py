"""The private search in its corners: few outcomes, scores far apart, lattices, empty columns."""

import math

import numpy as np
import pytest

from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import insecure_keystream
from dp_publish.sampling.places import (
    EqualCells,
    FloatGrid,
    ScaleSearch,
    add_to_cells,
    center_scores,
    find_place,
)


def counts_of(values: list[float], grid: EqualCells) -> np.ndarray:
    """Return the values' counts by cell."""
    counts = np.zeros(grid.cells, dtype=np.int64)
    add_to_cells(counts, np.array(values), grid)
    return counts


def test_far_better_outcome_is_chosen_however_bad_all_are() -> None:
    """Only differences between scores matter, at any size of scores."""
    scores = np.array([10**9 + 500, 10**9, 2 * 10**9])
    assert {ExponentialMechanism(1.0).choose(scores, insecure_keystream(seed)) for seed in range(20)} == {1}
    assert scores.tolist() == [10**9 + 500, 10**9, 2 * 10**9]


@pytest.mark.parametrize("mu", [0.0, 1e-100, 1e-13])
def test_no_strength_leaves_the_choice_to_chance(mu: float) -> None:
    """At a mu that 2^-40 cannot express, all outcomes are alike, and nothing is spent."""
    mechanism = ExponentialMechanism(mu)
    assert mechanism.epsilon == mechanism.cost == 0
    assert np.allclose(mechanism.log_probabilities(np.array([0, 10**6])), math.log(0.5))


def test_enormous_strength_costs_less_than_it_may() -> None:
    """At a strength beyond all use, the choice is the best outcome's, and the cost stays finite."""
    mechanism = ExponentialMechanism(1e100)
    assert 10 < mechanism.cost < 1e100
    assert mechanism.choose(np.array([5, 1, 6]), insecure_keystream(1)) == 1


def test_values_beyond_the_bounds_are_in_the_end_cells_and_missing_ones_in_none() -> None:
    """Batches add up; infinity is beyond any bound."""
    grid = EqualCells(0.0, 4.0, 4)
    counts = counts_of([-math.inf, -1, 0, 0.5, 3.9, 4, 5, math.inf, math.nan], grid)
    assert counts.tolist() == [4, 0, 0, 4]
    add_to_cells(counts, np.array([1.0, 2.5]), grid)
    assert counts.tolist() == [4, 1, 1, 4]


def test_scores_are_the_distances_from_the_quantiles() -> None:
    """Scores agree with a count of the values one by one."""
    grid = EqualCells(0.0, 8.0, 1 << 10)
    values = np.random.default_rng(1).uniform(0, 8, 37)
    counts = counts_of(values.tolist(), grid)
    mechanism = ExponentialMechanism(1.0)
    edges = np.array([grid.position(index) for index in range((1 << 10) + 1)])
    below, above = (values[:, None] < edges[:-1]).sum(axis=0), (values[:, None] >= edges[1:]).sum(axis=0)
    assert (center_scores(counts) == np.maximum(below, above)).all()

    search = ScaleSearch(mechanism, grid)
    radii, middle = search.radii(300), 300.5 * grid.cell
    reach = (np.floor(radii / grid.cell) + 0.5) * grid.cell
    within = (abs(values - middle)[:, None] < reach).sum(axis=0)
    own = int((abs(values - middle) < grid.cell / 2).sum())
    half, enough = math.ceil((37 - own) / 2), math.ceil(2 * math.log(100 * len(radii)) / mechanism.epsilon)
    target = max(math.ceil(0.6 * 37), own + half)
    expected = np.maximum(target - within, np.concatenate([[0], within[:-1]]) - target)
    expected[0] = min(expected[0], max(half - enough, math.ceil(0.6 * 37) - own))
    assert (search.scores(counts, 300) == expected).all()
    assert (radii[0], radii[-1]) == (2 * grid.cell, 8.0)
    assert np.allclose(np.diff(np.log2(radii))[:-1], 1 / 12)


@pytest.mark.parametrize("cells", [512, 1 << 20])
def test_cells_of_all_floats_hold_their_values(cells: int) -> None:
    """Every number, of either sign and any size, is in the cell that its edges say."""
    grid = FloatGrid(cells)
    values = np.array([0.0, 1e-300, 2.0**-41, 1e-6, 1.0, 3.7, 1e9, 2.0**52, 1e300, math.inf])
    for value in [*values, *-values]:
        (index,) = np.flatnonzero(counts_of([value], grid)).tolist()
        held = min(max(value, -(2.0**52)), 2.0**52)
        slack = 1e-9 * abs(held) + 1e-20
        assert grid.position(index) - slack <= held <= grid.position(index + 1) + slack
    assert grid.position(cells // 2) == 0
    assert grid.position(cells) == pytest.approx(2.0**52, rel=1e-9)
    ends = grid.position(cells // 4 * 3), grid.position(cells // 4 * 3 + 1)
    assert math.log(ends[1] / ends[0]) == pytest.approx(2 * math.asinh(2.0**92) / cells, rel=1e-6)


def test_lattice_column_keeps_a_scale() -> None:
    """Most rows of an integer column hold one value: the floor of half a unit is what is chosen."""
    grid = EqualCells(-1000.0, 1000.0, 1 << 20)
    counts = counts_of([0.0] * 900 + [1.0] * 100, grid)
    _, scale = find_place(counts, grid, 1.0, insecure_keystream(1), floor=0.5)
    assert scale >= 0.5 / 0.8416212335729143
    assert ScaleSearch(ExponentialMechanism(1.0), grid, 1e6).radii(7).tolist() == [2000.0]


def test_empty_column_gets_a_place_within_its_bounds() -> None:
    """Without a single value, the place is drawn from what is known before."""
    grid = EqualCells(5.0, 6.0, 1 << 12)
    center, scale = find_place(np.zeros(1 << 12, dtype=np.int64), grid, 1.0, insecure_keystream(1))
    assert 5 < center < 6
    assert 0 < scale <= 1 / 0.8416212335729143
