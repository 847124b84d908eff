"""Ridge precision and thresholded covariance against independent computations."""

import numpy as np
import pytest
from tests.unit.consumer.estimators.tables import noisy_wine

from dp_bundle.base.errors import DrownedColumnError, ParameterError
from dp_learn.estimators.linear import DebiasedRidgePrecision, ridge_precision
from dp_learn.estimators.thresholded_covariance import DebiasedThresholdedCovariance, threshold_covariance
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.estimator_results import ESTIMATORS


def indefinite(p: int = 6, seed: int = 0) -> FloatArray:
    """Return a random symmetric matrix with unit diagonal and negative eigenvalues."""
    a = np.random.default_rng(seed).uniform(-0.9, 0.9, size=(p, p))
    s = (a + a.T) / 2
    np.fill_diagonal(s, 1.0)
    assert np.linalg.eigvalsh(s)[0] < -0.1
    return s


@pytest.mark.parametrize("alpha", [1e-4, 0.1, 10.0])
@pytest.mark.parametrize("s", [np.cov(noisy_wine(0.0).T), indefinite()], ids=["definite", "indefinite"])
def test_ridge_is_stationary_and_positive_definite(s: FloatArray, alpha: float) -> None:
    """The gradient of the objective, which is convex, vanishes at the estimate, be the covariance definite or not."""
    theta = ridge_precision(s, alpha)

    assert np.linalg.eigvalsh(theta)[0] > 0.0
    np.testing.assert_allclose(-np.linalg.inv(theta) + s + 2.0 * alpha * theta, 0.0, atol=1e-10)


def test_default_alpha_lifts_a_zero_eigenvalue_by_the_universal_penalty() -> None:
    """It is half the square of sqrt(2 log p) median standard errors, which at a zero eigenvalue is what is added."""
    rows = noisy_wine()
    fitted = DebiasedRidgePrecision(noise_variance=0.49).fit(rows)
    share = 0.49 / (np.var(rows.to_numpy(), axis=0, ddof=1) - 0.49)
    errors = np.sqrt(np.outer(1.0 + share, 1.0 + share) / (len(rows) - 1))
    universal = np.sqrt(2.0 * np.log(13)) * np.median(errors[np.triu_indices(13, 1)])
    singular = ridge_precision(np.diag([1.0, 0.0]), fitted.alpha_)

    assert fitted.alpha_ == pytest.approx(universal**2 / 2.0, rel=1e-12)
    assert 1.0 / singular[1, 1] == pytest.approx(universal, rel=1e-12)


@pytest.mark.parametrize("soft", [False, True])
def test_thresholding_entry_by_entry(soft: bool) -> None:
    """Every entry is what the definition gives, and the diagonal stays."""
    s = indefinite()
    limits = np.abs(indefinite(seed=2)) / 2
    left = np.abs(s) - limits
    expected = np.where(left > 0.0, np.sign(s) * left if soft else s, 0.0)
    np.fill_diagonal(expected, 1.0)

    np.testing.assert_allclose(threshold_covariance(s, limits, soft=soft), expected, atol=1e-15)
    assert 0 < np.count_nonzero(expected) < 36
    np.testing.assert_array_equal(threshold_covariance(s, 0.3), threshold_covariance(s, np.full((6, 6), 0.3)))


def test_thresholds_are_standard_errors_with_the_noise() -> None:
    """The edges are the pairs whose correlation exceeds alpha times the standard error written out by hand."""
    rows, alpha = noisy_wine(), 3.0
    fitted = DebiasedThresholdedCovariance(alpha, noise_variance=0.49).fit(rows)
    published = np.cov(rows.T)
    s = published - 0.49 * np.eye(13)
    v = np.diagonal(s)
    errors = np.sqrt(((v[:, None] + 0.49) * (v + 0.49) + s * s) / (len(rows) - 1))
    pairs = np.triu(np.abs(s) > alpha * errors, 1)

    assert 0 < pairs.sum() < 78
    np.testing.assert_array_equal(np.triu(fitted.thresholded_, 1) != 0.0, pairs)
    assert len(fitted.edges_) == pairs.sum()
    assert np.linalg.eigvalsh(fitted.covariance_)[0] > -1e-10
    assert fitted.repair_ in {"clip", "none"}


@pytest.mark.parametrize("name", ["ridge", "thresholded-covariance", "neighborhood", "scio", "clime"])
def test_bad_tables_are_refused(name: str) -> None:
    """A constant column and a bad alpha are named; two columns are enough."""
    estimator, rows = ESTIMATORS[name], noisy_wine(0.0)
    with pytest.raises(DrownedColumnError) as drowned:
        estimator().fit(rows.assign(alcohol=3.0))
    assert drowned.value.columns == ["alcohol"]
    with pytest.raises(ParameterError, match="alpha"):
        estimator(alpha=-1.0).fit(rows)
    two = estimator(alpha=0.3).fit(rows[["flavanoids", "total_phenols"]])
    assert two.covariance_.shape == (2, 2)
    assert len(two.edges_) == 1
