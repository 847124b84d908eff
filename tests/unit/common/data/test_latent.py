"""Latent correlations, against bivariate normal integrals and simulations."""

import numpy as np
import pytest
from scipy import stats

from dp_bundle.data.latent import (
    Steps,
    latent_correlations,
    linear_coefficients,
    nearest_correlations,
    race_matrix,
    winners,
)


def both_above(one: float, other: float, r: float) -> float:
    """Return the probability that two normal variables of correlation r are both above what these shares are above."""
    upper = [stats.norm.ppf(one), stats.norm.ppf(other)]
    return float(stats.multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf(upper))


@pytest.mark.parametrize(("one", "other"), [(0.5, 0.5), (0.3, 0.1), (0.7, 0.05)])
@pytest.mark.parametrize("r", [-0.4, 0.2, 0.8])
def test_two_values_have_the_latent_correlation_of_the_bivariate_normal_integral(
    one: float, other: float, r: float
) -> None:
    """The phi coefficient of two cut normal variables is turned back."""
    observed = (both_above(one, other, r) - one * other) / np.sqrt(one * (1 - one) * other * (1 - other))
    steps = [Steps.of_shares(np.array([1 - share, share]), np.array([0.0, 1.0])) for share in (one, other)]
    coefficients = np.array([each.coefficients() for each in steps])
    found = latent_correlations(np.array([[1.0, observed], [observed, 1.0]]), coefficients)
    assert found[0, 1] == found[1, 0] == pytest.approx(r, abs=2e-3)


def test_a_normal_column_and_one_of_two_values_have_the_biserial_correlation() -> None:
    """Cutting at a share takes phi(t) / sqrt(q (1 - q)) of the correlation."""
    share, r = 0.2, 0.6
    t = stats.norm.ppf(share)
    observed = r * stats.norm.pdf(t) / np.sqrt(share * (1 - share))
    cut = Steps.of_shares(np.array([1 - share, share]), np.array([3.0, 7.0])).coefficients()
    found = latent_correlations(np.array([[1.0, observed], [observed, 1.0]]), np.array([linear_coefficients(), cut]))
    assert found[0, 1] == pytest.approx(r, abs=1e-9)


def test_coefficients_have_the_variance_as_the_sum_of_their_squares() -> None:
    """Of fine steps little is missing; of a constant, and of one with a step of no share, all are right."""
    shares = np.full(50, 0.02)
    steps = Steps.of_shares(shares, stats.norm.ppf(np.cumsum(shares) - 0.01))
    assert 0.995 < float(np.sum(steps.coefficients() ** 2)) <= 1.0
    assert not Steps.of_shares(np.array([0.0, 1.0]), np.array([0.0, 1.0])).coefficients().any()


def test_what_is_out_of_reach_is_at_the_end_and_a_constant_has_none() -> None:
    """A correlation beyond what the margins allow becomes 1, and nothing is divided by zero."""
    cut = Steps.of_shares(np.array([0.9, 0.1]), np.array([0.0, 1.0])).coefficients()
    other = Steps.of_shares(np.array([0.1, 0.9]), np.array([0.0, 1.0])).coefficients()
    found = latent_correlations(np.full((3, 3), 0.9), np.array([cut, other, np.zeros(100)]))
    assert found[0, 1] == pytest.approx(1.0, abs=1e-6)
    assert found[2].tolist() == [0.0, 0.0, 1.0]


def test_levels_win_as_often_as_their_shares_and_follow_their_variables_as_stated() -> None:
    """A simulation of races, a level without a share among them."""
    shares = np.array([0.55, 0.3, 0.0, 0.15])
    normal = np.random.default_rng(0).standard_normal((400_000, 4))
    found = np.eye(4)[winners(normal, shares)]
    np.testing.assert_allclose(found.mean(axis=0), shares, atol=0.004)
    np.testing.assert_allclose(found.T @ normal / len(normal), race_matrix(shares), atol=0.006)
    assert not found[:, 2].any()


def test_the_nearest_correlations_are_positive_definite_with_independent_blocks() -> None:
    """An indefinite matrix is repaired no worse than by clipping eigenvalues; a definite one stays."""
    rng = np.random.default_rng(1)
    noisy = np.triu(rng.normal(0, 0.4, (12, 12)), 1)
    noisy += noisy.T + np.eye(12)
    found = nearest_correlations(noisy, [slice(2, 6)])
    assert np.linalg.eigvalsh(found)[0] > 0
    np.testing.assert_array_equal(np.diagonal(found), np.ones(12))
    np.testing.assert_array_equal(found[2:6, 2:6], np.eye(4))

    values, vectors = np.linalg.eigh(noisy)
    clipped = (vectors * np.maximum(values, 0)) @ vectors.T
    scale = np.sqrt(np.diagonal(clipped))
    assert np.linalg.norm(nearest_correlations(noisy) - noisy) < np.linalg.norm(
        clipped / np.outer(scale, scale) - noisy
    )
    fine = np.array([[1.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(nearest_correlations(fine), fine, atol=1e-12)


def test_variables_that_weigh_little_give_way() -> None:
    """Of three correlations that cannot be together, those of a variable of little weight change."""
    matrix = np.array([[1.0, 0.9, 0.9], [0.9, 1.0, -0.5], [0.9, -0.5, 1.0]])
    equal = np.abs(nearest_correlations(matrix) - matrix)
    found = np.abs(nearest_correlations(matrix, weights=np.array([1.0, 1.0, 0.05])) - matrix)
    assert found[0, 1] < 0.02 < 0.1 < equal[0, 1]
