"""The frame of the second round."""

import numpy as np
import pytest
from scipy import linalg

from dp_publish.covariance.two_rounds.rows import whiten


def test_without_noise_it_is_a_power_of_the_correlations() -> None:
    """The transform is R^(-3/8), and with it a typical row has the length sqrt(tr R^(1/4))."""
    correlation = 0.8 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    deviations = np.array([1.0, 2.0, 0.5, 3.0, 1.5, 0.7])

    transform, found, length = whiten(correlation * np.outer(deviations, deviations), 1e-9, np.zeros(6))

    assert found == pytest.approx(deviations)
    assert transform == pytest.approx(linalg.fractional_matrix_power(correlation, -0.375), abs=1e-5)
    assert length**2 == pytest.approx(np.trace(linalg.fractional_matrix_power(correlation, 0.25)), rel=1e-6)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 1.0, 100.0])
def test_noise_leaves_a_transform_that_can_be_undone(noise: float) -> None:
    """However indefinite the noisy covariance is, the transform is positive definite and well conditioned."""
    rng = np.random.default_rng(2)
    drawn = rng.normal(scale=noise, size=(20, 20))
    transform, deviations, length = whiten(np.eye(20) + drawn + drawn.T, noise, np.full(20, 0.2))

    assert (transform == transform.T).all()
    assert np.linalg.cond(transform) < 1e4
    assert np.linalg.eigvalsh(transform)[0] > 0
    assert (deviations > 0).all()
    assert 0 < length < 10


def test_columns_without_variance_are_not_blown_up() -> None:
    """A variance that the noise made negative, or nearly zero, counts as the least that a column is given."""
    _, deviations, _ = whiten(np.diag([1.0, -3.0, 1e-9]), 0.1, np.array([0.1, 0.2, 0.3]))
    assert deviations.tolist() == [1.0, 0.2, 0.3]
