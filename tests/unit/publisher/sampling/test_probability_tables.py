"""The integer tables against probabilities that mpmath computes to 260 bits."""

from collections.abc import Callable
from itertools import pairwise

import mpmath
import pytest

from dp_publish.sampling.probability_tables import ProbabilityTable, block_table, discrete_table, rounded_table

PRECISION = 260  # bits, of the judge
THRESHOLD_BITS = 159


def thresholds_of(table: ProbabilityTable) -> list[int]:
    """Return the thresholds of a table as whole integers."""
    parts = zip(table.head.tolist(), table.mid.tolist(), table.low.tolist(), strict=True)
    return [(head << 128) | (mid << 64) | low for head, mid, low in parts]


def _weights(sigma: float) -> list[mpmath.mpf]:
    return [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(sigma) ** 2)) for k in range(int(18 * sigma) + 18)]


def _discrete_magnitudes(sigma: float) -> list[mpmath.mpf]:
    weights = _weights(sigma)
    total = weights[0] + 2 * mpmath.fsum(weights[1:])
    return [weights[0] / total, *(2 * weight / total for weight in weights[1:])]


def _rounded_magnitudes(sigma: float) -> list[mpmath.mpf]:
    scale = 2 * mpmath.sqrt(2) * mpmath.mpf(sigma)
    above = [mpmath.erfc((2 * k + 1) / scale) for k in range(int(18 * sigma) + 18)]
    return [1 - above[0], *(left - right for left, right in pairwise(above))]


def _block_magnitudes(sigma: float) -> list[mpmath.mpf]:
    weights = _weights(sigma)
    return [mpmath.mpf(0), *(weight / mpmath.fsum(weights) for weight in weights)]


@pytest.mark.parametrize("sigma", [0.05, 1.0, 15.99, 16.0, 77.7, 256.0])
@pytest.mark.parametrize(
    ("make_table", "make_magnitudes"),
    [(discrete_table, _discrete_magnitudes), (rounded_table, _rounded_magnitudes), (block_table, _block_magnitudes)],
)
def test_tables_are_exact(
    make_table: Callable[[float], ProbabilityTable], make_magnitudes: Callable[[float], list[mpmath.mpf]], sigma: float
) -> None:
    """The table's distribution is within 2^-140 of mpmath's in total variation, and each threshold within 2^-157."""
    with mpmath.workprec(PRECISION):
        unit = mpmath.ldexp(1, -THRESHOLD_BITS)
        cumulative = [0, *thresholds_of(make_table(sigma)), 1 << THRESHOLD_BITS]
        expected = make_magnitudes(sigma)
        got = [(right - left) * unit for left, right in pairwise(cumulative)]
        assert all(difference >= 0 for difference in got)
        assert len(got) <= len(expected)
        got += [mpmath.mpf(0)] * (len(expected) - len(got))
        distance = mpmath.fsum(abs(p - q) for p, q in zip(got, expected, strict=True)) / 2
        assert distance < mpmath.ldexp(1, -140)
        below = mpmath.mpf(0)
        for threshold, probability in zip(cumulative[1:-1], expected, strict=False):
            below += probability
            assert abs(threshold * unit - below) < 4 * unit
