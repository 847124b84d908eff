"""Second moments are exact, bounded, independent of batches and order, and lead back to mean and covariance."""

import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from dp_bundle.base.errors import DataError, ParameterError
from dp_publish.covariance.exact_moments import merge, moments_of_batch
from dp_publish.covariance.scaling import GRID_BITS, Scaling, scaling_for

BOUNDS = [(-1.0, 3.0), (100.0, 200.0), (0.0, 1e-3), (-5.0, 0.0)]
UNIT = Fraction(1, 4**GRID_BITS)


def _rows(n: int, seed: int = 0) -> np.ndarray:
    low, high = np.array(BOUNDS).T
    rng = np.random.default_rng(seed)
    return low + (high - low) * rng.beta(2, 3, (n, len(BOUNDS))) @ np.diag([1, 0.9, 0.8, 1])


def _one(row: np.ndarray, scaling: Scaling) -> np.ndarray:
    return moments_of_batch(row[None, :], scaling).steps


def test_sum_is_exact_in_any_order_of_batches() -> None:
    """Sums over 20,000 rows equal those of any partition, and of a smaller sample those of single rows, to the bit."""
    scaling, rows = scaling_for(BOUNDS), _rows(20_000)
    whole = moments_of_batch(rows, scaling)
    order = np.random.default_rng(1).permutation(len(rows))
    parts = reduce(merge, (moments_of_batch(part, scaling) for part in np.array_split(rows[order], 7)))

    assert (whole.steps == parts.steps).all()
    assert whole.n_rows == parts.n_rows == 20_000
    single = sum(_one(row, scaling) for row in rows[:300])
    assert (single == moments_of_batch(rows[:300], scaling).steps).all()


@pytest.mark.parametrize("radius", [None, 1.9, 0.7, 0.01])
def test_no_row_leaves_the_ball(radius: float | None) -> None:
    """Whatever the raw values, a row's exact squared norm is at most R^2 + c^2, and its matrix has rank one."""
    scaling = scaling_for(BOUNDS, radius=radius)
    rng = np.random.default_rng(2)
    rows = np.vstack([_rows(200), rng.normal(0, 1e3, (200, 4)), rng.choice([-np.inf, np.inf], (100, 4))])
    most = scaling.squared_radius + Fraction(scaling.constant) ** 2
    norms = [sum(int(step) for step in np.diag(_one(row, scaling))) * UNIT for row in rows]

    assert max(norms) <= most <= scaling.square
    assert max(norms) > most * Fraction(999, 1000)
    steps = _one(rows[0], scaling)
    assert (steps[0, 0] * steps == np.outer(steps[0], steps[0])).all()


def test_sums_beyond_64_bits_do_not_overflow() -> None:
    """The sum of 2^26 equal rows, merged from copies of one batch, is 2^26 times one row's."""
    scaling = scaling_for([(-1.0, 1.0)])
    batch = moments_of_batch(np.ones((1 << 12, 1)), scaling)
    total = reduce(merge, [reduce(merge, [batch] * 128)] * 128)

    assert total.steps[0, 0] == (1 << 26) << (2 * GRID_BITS) > 2**63


@pytest.mark.parametrize("p", [1, 2, 13, 108])
def test_constant_minimises_the_largest_error(p: int) -> None:
    """No other constant up to R has a smaller factor (1 + x)^2 (p + 2 / x), up to the rounding of c."""
    scaling = scaling_for([(0.0, 1.0)] * p)
    x = np.linspace(1e-4, 1, 100_001)
    chosen = scaling.constant**2 / p

    assert (1 + chosen) ** 2 * (p + 2 / chosen) <= 1.0001 * ((1 + x) ** 2 * (p + 2 / x)).min()
    assert scaling.constant <= scaling.radius


def test_scalings_out_of_range_are_refused() -> None:
    """Every column needs a finite interval, there must be a column, and a radius is positive and at most sqrt(p)."""
    for bounds in ([], [(1.0, 1.0)], [(0.0, math.inf)], [(math.nan, 1.0)], [(0.0, 1.0), (-1.0, -2.0)]):
        with pytest.raises(ParameterError, match="bounds"):
            scaling_for(bounds)
    for radius in (0.0, 2.1, math.nan):
        with pytest.raises(ParameterError, match="radius"):
            scaling_for(BOUNDS, radius=radius)


def test_unusable_tables_are_refused() -> None:
    """Missing values, another number of columns, and parts of different scalings are errors of ours."""
    scaling = scaling_for(BOUNDS)
    with pytest.raises(DataError, match="missing"):
        moments_of_batch(np.full((3, 4), np.nan), scaling)
    with pytest.raises(ParameterError, match="4 columns"):
        moments_of_batch(np.ones((3, 5)), scaling)
    with pytest.raises(ParameterError, match="parts"):
        merge(moments_of_batch(_rows(3), scaling), moments_of_batch(_rows(3), scaling_for(BOUNDS, radius=1.0)))
