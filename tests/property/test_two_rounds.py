"""Sums of a release in two rounds on random neighbours: exact, inside the ball, and moved by no more than is proved."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dp_publish.covariance.scaling import GRID_BITS, scaling_around
from dp_publish.covariance.two_rounds.rows import RADIUS_BITS, RoundMap, cut_to_integers, round_transform
from dp_publish.covariance.two_rounds.shares import radii
from dp_publish.covariance.two_rounds.sums import BinnedSums

SEEDS = st.integers(0, 2**32)
SIZES = st.sampled_from([2, 3, 10])
TAILS = st.sampled_from([0.6, 3.0, 30.0])  # degrees of freedom of rows: from wild to nearly normal
SHORT = 256 >> 3


def _rows(n: int, p: int, tails: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return rows of any size, with zeros and ties among them."""
    rows = rng.standard_t(tails, (n, p)) * rng.choice([0.0, 0.1, 1.0], (n, 1))
    return np.where(rng.random((n, p)) < 0.1, np.round(rows), rows)


def _frame(p: int, rng: np.random.Generator) -> RoundMap:
    """Return a frame with a transform far from the identity."""
    transform = rng.standard_normal((p, p)) + np.eye(p)
    centers, half_widths = 0.1 * rng.standard_normal(p), np.exp(rng.standard_normal(p))
    return RoundMap(np.full(p, -40.0), np.full(p, 25.0), centers, half_widths, round_transform(transform + transform.T))


def _sums(rows: NDArray[np.float64], frame: RoundMap, steps: NDArray[np.int64]) -> BinnedSums:
    sums = BinnedSums(rows.shape[1], steps)
    sums.add(rows, frame)
    return sums


def _scaling(frame: RoundMap, steps: NDArray[np.int64], chosen: int) -> Any:
    return scaling_around(frame.centers, frame.half_widths, int(steps[chosen]), 0.05)


@given(SEEDS, SIZES, TAILS)
@pytest.mark.slow
def test_rows_lie_in_the_ball(seed: int, p: int, tails: float) -> None:
    """The very integers that are summed of a row have at most the length of each radius; the constant's are exact."""
    rng = np.random.default_rng(seed)
    frame, steps = _frame(p, rng), radii(SHORT / 256, p)
    for row in _rows(5, p, tails, rng):
        alone = _sums(row[None], frame, steps)
        for chosen, step in enumerate(steps.tolist()):
            scaling = _scaling(frame, steps, chosen)
            exact = alone.moments(chosen, scaling).steps
            constant = Fraction(scaling.constant) ** 2
            assert sum(exact[j, j] for j in range(p)) <= (step << (GRID_BITS - RADIUS_BITS)) ** 2
            assert Fraction(exact[p, p], 4**GRID_BITS) == constant
            total, most = alone.fourth_powers(chosen)
            assert 0 <= total <= most


@given(SEEDS, SIZES, TAILS, st.integers(1, 40))
def test_replaced_row_moves_sums_by_no_more_than_the_sensitivity(seed: int, p: int, tails: float, n: int) -> None:
    """At every radius sums move by at most sqrt(2) (R^2 + c^2), counts by 1, and lengths by that of the radius."""
    rng = np.random.default_rng(seed)
    frame, steps = _frame(p, rng), radii(SHORT / 256, p)
    table, other = _rows(n, p, tails, rng), _rows(1, p, tails, rng)
    one, two = (_sums(np.vstack([table, last]), frame, steps) for last in (_rows(1, p, tails, rng), other))
    assert np.abs(one.counts_outside() - two.counts_outside()).max() <= 1

    for chosen in range(len(steps)):
        scaling = _scaling(frame, steps, chosen)
        moments = one.moments(chosen, scaling), two.moments(chosen, scaling)
        moved = moments[0].steps - moments[1].steps
        square = Fraction(sum(int(entry) ** 2 for entry in moved.flat), 16**GRID_BITS)
        assert square <= 2 * (scaling.squared_radius + Fraction(scaling.constant) ** 2) ** 2
        (total, most), (other_total, _) = one.fourth_powers(chosen), two.fourth_powers(chosen)
        assert abs(total - other_total) <= most


@given(SEEDS, SIZES, TAILS, st.integers(0, 60))
def test_sums_are_those_of_the_rows_one_by_one(seed: int, p: int, tails: float, n: int) -> None:
    """At every radius the sums are those of rows inside as they are, and outside shortened, in plain integers."""
    rng = np.random.default_rng(seed)
    frame, steps = _frame(p, rng), radii(SHORT / 256, p)
    table = _rows(n, p, tails, rng)
    sums = _sums(table, frame, steps)
    placed = cut_to_integers(frame.place(table), steps)

    for chosen, step in enumerate(steps.tolist()):
        products, total, outside = np.zeros((p, p), dtype=object), np.zeros(p, dtype=object), 0
        for q, u, place in zip(placed.inside, placed.directions, placed.bins, strict=True):
            row = np.array([int(entry) for entry in q], dtype=object)
            if place > chosen:
                row, outside = np.array([step * int(entry) for entry in u], dtype=object), outside + 1
            products, total = products + np.outer(row, row), total + row
        moments = sums.moments(chosen, _scaling(frame, steps, chosen))
        assert (moments.products == products).all()
        assert (moments.sums == total).all()
        assert (moments.n_rows, moments.n_clipped) == (n, outside)
        assert sums.counts_outside()[chosen] == outside


@given(SEEDS, SIZES, TAILS, st.integers(0, 89))
def test_row_is_placed_whatever_is_around_it(seed: int, p: int, tails: float, start: int) -> None:
    """Every bit of a placed row is the same alone, at another place in a batch, and among other rows."""
    rng = np.random.default_rng(seed)
    frame, table = _frame(p, rng), _rows(90, p, tails, rng)
    placed = frame.place(table)
    assert (frame.place(table[start:]) == placed[start:]).all()
    assert (frame.place(table[::-1])[::-1] == placed).all()
    assert (np.vstack([frame.place(row[None]) for row in table]) == placed).all()
