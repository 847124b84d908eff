"""The private search on neighbouring tables: integer weights, scores and exact log-ratios, whatever the table."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import special

from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import insecure_keystream
from dp_publish.sampling.places import EqualCells, FloatGrid, ScaleSearch, add_to_cells, center_scores

MU = st.floats(0.01, 8)
SCORES = st.lists(st.tuples(st.integers(0, 300), st.integers(-1, 1)), min_size=1, max_size=40)
VALUES = st.lists(st.floats(-2, 12) | st.sampled_from([0.0, 3.0, math.inf, -math.inf, math.nan]), max_size=40)
ROUNDING = 1e-9  # of log-probabilities as float64
CELLS = 256


def range_of_log_ratio(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the largest less the smallest log-ratio of an outcome's probabilities."""
    return float(np.ptp(first - second))


@given(MU, SCORES)
def test_probabilities_have_a_bounded_range(mu: float, scores: list[tuple[int, int]]) -> None:
    """If scores move by at most 1, exact probabilities' ratios differ by at most the factor b^-2, as fractions."""
    mechanism = ExponentialMechanism(mu)
    before, moves = np.array(scores, dtype=np.int64).T
    after = np.maximum(before + moves, 0)
    weights = mechanism.weights(310)

    def weight(score: int) -> int:
        return weights[min(score, len(weights) - 1)]

    ratios = [
        Fraction(weight(int(new)), weight(int(old)))
        for old, new in zip(before - before.min(), after - after.min(), strict=True)
    ]
    assert max(ratios) * Fraction(mechanism._numerator, 2**40) ** 2 <= min(ratios)
    stated = range_of_log_ratio(mechanism.log_probabilities(before), mechanism.log_probabilities(after))
    assert stated <= mechanism.epsilon + ROUNDING


@given(st.floats(1e-3, 8), st.floats(1e-6, 1 - 1e-6))
def test_cost_is_that_of_the_worst_pair_of_outcomes(mu: float, p: float) -> None:
    """The symmetric pair costs what is stated, any other pair of logits epsilon apart less; and neither above mu."""
    mechanism = ExponentialMechanism(mu)
    assert mechanism.cost <= mu
    assert math.isclose(mechanism.cost, mu, rel_tol=1e-5)
    half = special.expit(mechanism.epsilon / 2)
    assert math.isclose(2 * special.ndtri(half), mechanism.cost, rel_tol=1e-6)
    other = special.expit(special.logit(p) - mechanism.epsilon)
    assert special.ndtri(p) - special.ndtri(other) <= mechanism.cost * (1 + 1e-6)


@given(
    VALUES,
    st.integers(0, 39),
    st.floats(-2, 12) | st.just(math.nan),
    st.integers(0, CELLS - 1),
    MU,
    st.sampled_from([EqualCells(-1.0, 10.0, CELLS), FloatGrid(CELLS)]),
)
def test_choices_keep_to_their_range_on_neighbours(
    values: list[float], index: int, other: float, center: int, mu: float, grid: EqualCells | FloatGrid
) -> None:
    """Replacing a value, adding one or leaving one out moves each score by at most 1, so log-ratios by epsilon."""
    mechanism = ExponentialMechanism(mu)
    scales = ScaleSearch(mechanism, grid)
    before, after = np.zeros(CELLS, dtype=np.int64), np.zeros(CELLS, dtype=np.int64)
    add_to_cells(before, np.array(values), grid)
    add_to_cells(after, np.array([*values[:index], other, *values[index + 1 :]]), grid)

    places = (center, int(np.argmax(before)))
    scores = [(center_scores(before), center_scores(after))]
    scores += [(scales.scores(before, place), scales.scores(after, place)) for place in places]
    for first, second in scores:
        assert np.abs(first - second).max() <= 1
        found = range_of_log_ratio(mechanism.log_probabilities(first), mechanism.log_probabilities(second))
        assert found <= mechanism.epsilon + ROUNDING


@pytest.mark.parametrize("mu", [0.1, 1.0])
def test_moved_median_uses_all_of_the_range(mu: float) -> None:
    """A value that passes the median moves scores both ways: the log-ratio's range is epsilon, and nothing less."""
    grid, mechanism = EqualCells(0.0, 1.0, CELLS), ExponentialMechanism(mu)
    values = np.array([0.1] * 20 + [0.5] * 10 + [0.9] * 20)
    before, after = np.zeros(CELLS, dtype=np.int64), np.zeros(CELLS, dtype=np.int64)
    add_to_cells(before, values, grid)
    add_to_cells(after, np.append(values[1:], 0.9), grid)
    scores = center_scores(before)
    found = range_of_log_ratio(mechanism.log_probabilities(scores), mechanism.log_probabilities(center_scores(after)))
    assert math.isclose(found, mechanism.epsilon, rel_tol=1e-9)
    first, second = insecure_keystream(3), insecure_keystream(3)
    assert [mechanism.choose(scores, first) for _ in range(5)] == [mechanism.choose(scores, second) for _ in range(5)]
