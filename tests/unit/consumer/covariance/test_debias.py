"""What is subtracted."""

from __future__ import annotations

import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_learn import debias_covariance


def test_only_the_diagonal_changes() -> None:
    """The noise variances come off the diagonal, nothing else changes, and the input stays as it was."""
    covariance = np.array([[2.0, 0.5], [0.5, 3.0]])
    debiased = debias_covariance(covariance, [0.5, 4.0])

    np.testing.assert_array_equal(debiased, [[1.5, 0.5], [0.5, -1.0]])
    np.testing.assert_array_equal(covariance, [[2.0, 0.5], [0.5, 3.0]])


@pytest.mark.parametrize("variance", [[1.0], [1.0, -1.0], [1.0, np.nan], [[1.0, 2.0], [2.0, 1.0]]])
def test_wrong_variances_are_refused(variance: object) -> None:
    """One finite, non-negative variance per column is needed, or a covariance matrix."""
    with pytest.raises(ParameterError, match="noise_variance"):
        debias_covariance(np.eye(2), variance)
