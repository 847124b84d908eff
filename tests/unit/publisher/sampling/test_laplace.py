"""Discrete Laplace noise has its distribution, and a scale out of range is refused."""

import pytest

from dp_bundle.base.errors import ParameterError
from dp_bundle.privacy.noise import discrete_laplace_variance
from dp_publish.sampling.keystream import insecure_keystream
from dp_publish.sampling.laplace import _digit_probabilities, sample_discrete_laplace


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
