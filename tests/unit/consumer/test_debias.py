"""What is subtracted, and which columns are left."""

from __future__ import annotations

import numpy as np
import pytest

from dp_bundle.errors import DrownedColumnError, ParameterError
from dp_learn import debias_covariance
from dp_learn.debias import keep_columns_with_signal


def test_only_the_diagonal_changes() -> None:
    """The noise variances come off the diagonal, nothing else changes, and the input stays as it was."""
    covariance = np.array([[2.0, 0.5], [0.5, 3.0]])
    debiased = debias_covariance(covariance, [0.5, 4.0])

    np.testing.assert_array_equal(debiased, [[1.5, 0.5], [0.5, -1.0]])
    np.testing.assert_array_equal(covariance, [[2.0, 0.5], [0.5, 3.0]])


@pytest.mark.parametrize("variance", [[1.0], [1.0, -1.0], [1.0, np.nan], [[1.0, 0.0], [0.0, 1.0]]])
def test_wrong_variances_are_refused(variance: object) -> None:
    """One finite, non-negative variance per column is needed."""
    with pytest.raises(ParameterError, match="noise_variance"):
        debias_covariance(np.eye(2), variance)


def test_drowned_columns_are_left_out_and_named() -> None:
    """A column whose debiased variance is not clearly positive is left out; the others keep their order."""
    doubt = 2 * np.sqrt(2 / 99)
    covariance = np.diag([1.0, -0.1, 2.0, 0.9 * doubt, 1.1 * doubt])
    debiased = keep_columns_with_signal(tuple("abcde"), covariance, np.ones(5), 100)

    assert debiased.columns == ("a", "c", "e")
    assert debiased.drowned == ("b", "d")
    np.testing.assert_allclose(np.diagonal(debiased.correlation), 1.0, rtol=1e-15)


def test_pure_noise_is_drowned_almost_always() -> None:
    """A column of noise alone is left out in about 97.7 % of samples, and one without noise never."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(400, 200, 3)) * [1.0, 1.0, 1e-3]
    variances = rows.var(axis=1, ddof=1)
    doubt = [len(_kept(np.diag(variance - [1.0, 0.0, 0.0]), [1.0, 0.0, 0.0])) == 3 for variance in variances]

    assert 0.0 < np.mean(doubt) < 0.06


def _kept(covariance: np.ndarray, noise: list[float]) -> tuple[str, ...]:
    return keep_columns_with_signal(("noise", "signal", "faint"), covariance, noise, 200).columns


def test_too_few_columns_left_are_refused() -> None:
    """With one column or none above the noise there is no graph, and the message names the drowned."""
    with pytest.raises(DrownedColumnError, match="b") as refusal:
        keep_columns_with_signal(("a", "b"), np.diag([5.0, -1.0]), [1.0, 1.0], 100)
    assert refusal.value.columns == ["b"]
