"""Discrete Laplace noise has its distribution, and a scale out of range is refused."""

import numpy as np
import pytest
from scipy import stats

from dp_bundle.base.errors import ParameterError
from dp_bundle.privacy.noise import discrete_laplace_variance
from dp_publish.sampling.keystream import insecure_keystream
from dp_publish.sampling.laplace import _digit_probabilities, sample_discrete_laplace

N_DRAWS = 400_000


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.7])
def test_frequencies_are_those_of_the_definition(scale: float) -> None:
    """A chi-squared test accepts the true scale and rejects 0.97 and 1.03 of it."""
    values = sample_discrete_laplace(scale, N_DRAWS, insecure_keystream(1))

    def p_value(scale: float) -> float:
        law = stats.dlaplace(1 / scale)
        edges = np.arange(int(law.ppf(1e-4)), int(law.ppf(1 - 1e-4)) + 1)
        expected = np.diff(law.cdf(edges), prepend=0.0, append=1.0) * N_DRAWS
        counts = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
        return float(stats.chisquare(counts, expected).pvalue)

    assert p_value(scale) > 1e-4
    assert max(p_value(0.97 * scale), p_value(1.03 * scale)) < 1e-8


@pytest.mark.parametrize("scale", [1e4, 2.0**31, 2.0**50])
def test_large_scales_are_continuous_laplace(scale: float) -> None:
    """At a large scale a Kolmogorov-Smirnov test accepts the continuous law, and rejects 0.93 and 1.07 of its scale."""
    values = sample_discrete_laplace(scale, N_DRAWS // 4, insecure_keystream(2)) / scale

    assert stats.kstest(values, stats.laplace.cdf).pvalue > 1e-4
    assert all(stats.kstest(values / factor, stats.laplace.cdf).pvalue < 1e-8 for factor in (0.93, 1.07))


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 30.0, 1e6])
def test_variance_is_that_of_the_distribution(scale: float) -> None:
    """The variance agrees with scipy's."""
    assert discrete_laplace_variance(scale) == pytest.approx(float(stats.dlaplace(1 / scale).var()), rel=1e-9)


@pytest.mark.parametrize("scale", [0.0, 0.01, 2.0**51, float("nan")])
def test_scale_out_of_range_is_refused(scale: float) -> None:
    """A scale that the sampler does not cover is an error of ours."""
    with pytest.raises(ParameterError, match="scale"):
        sample_discrete_laplace(scale, 3)


def test_more_bits_are_more_digits_of_the_same_probabilities() -> None:
    """Where the last bits decide nothing, the same random bits give the same values; far digits are added."""
    few, many = (_digit_probabilities(3.0, bits) for bits in (192, 1024))
    assert len(many) > len(few)
    assert all(abs((one >> 832) - other) <= 1 for one, other in zip(many, few, strict=False))
    values = sample_discrete_laplace(3.0, 100_000, insecure_keystream(4), bits=1024)
    assert values.var() == pytest.approx(discrete_laplace_variance(3.0), rel=0.05)
