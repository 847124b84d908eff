"""The evidence for an edge between each pair of columns: a score that ranks all pairs at any strength of the noise.

The score of a pair is ``|T_ij|`` over its standard error, T = 2 Theta - Theta S^ Theta, from a graphical lasso Theta at
twice the universal penalty, diagonal included, not refitted. That penalty is in proportion to the noise. With little of
it T is close to the inverse of S^, and the score to a test of the partial correlation. The more there is, the closer
Theta is to a diagonal matrix, and T to S^ itself. An unpenalised inverse multiplies the noise, and buries the ranking.
The score ranks, and does not test: what the penalty leaves of indirect links is in it.

The power of a test: the smallest partial correlation that it finds most of the time, and the rows for less.

A test of a partial correlation r with standard error s finds it, at level a, when |estimate| > z s with z the normal
quantile of 1 - a/2. To first order s does not depend on r.
"""

import math

import numpy as np

from dp_bundle.privacy.normal import normal_quantile
from dp_learn.covariance.estimate import NoisyCovariance, PooledCovariance
from dp_learn.covariance.standard_errors import form_variances, universal_penalty
from dp_learn.glasso.problem import make_problem
from dp_learn.glasso.solving import solve
from dp_learn.inference.edges import desparsify
from dp_learn.matrices.linalg import FloatArray, normal_tails

FACTOR = 2.0  # of the universal penalty; of 1 to 4, about the best at every strength of the noise, with the diagonal
_TOL = 1e-6


def score_pairs(pooled: PooledCovariance, *, solver: str = "auto") -> FloatArray:
    """Return the evidence for an edge between every pair of columns: the larger, the surer.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance, and errors that are known or estimated.
    solver : {"cd", "admm", "auto"}
        As in `graphical_lasso`.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric, not negative, zero on the diagonal.
    """
    alpha, _ = universal_penalty(pooled)
    solution = solve(make_problem(pooled.correlation, FACTOR * alpha), solver=solver, tol=_TOL)
    theta = np.eye(len(pooled.columns)) if solution is None or not solution.converged else solution.precision
    return scores_from(pooled, theta / np.outer(pooled.deviations, pooled.deviations))


def scores_from(pooled: PooledCovariance, theta: FloatArray) -> FloatArray:
    """Return ``|T_ij|`` over its standard error for Gaussian rows, zero on the diagonal, from a Theta in data units."""
    size, error = np.abs(desparsify(pooled, theta)), np.sqrt(form_variances(pooled, theta))
    scores = np.divide(size, error, out=np.zeros_like(size), where=error > 0.0)
    np.fill_diagonal(scores, 0.0)
    return scores


POWER = 0.8
LEVEL = 0.05


def detection_power(size: FloatArray, standard_error: float) -> FloatArray:
    """Return the probability that a two-sided test of no edge, at the usual level, finds partial correlations.

    Parameters
    ----------
    size : ndarray
        The partial correlations.
    standard_error : float
        Of their estimate, positive.
    """
    z = normal_quantile(1.0 - LEVEL / 2.0)
    shift = size / standard_error
    return normal_tails(z - shift) + normal_tails(z + shift)


def smallest_visible(standard_error: float, level: float = LEVEL) -> float:
    """Return the partial correlation that a test finds in `POWER` of cases: (z_{1 - a/2} + z_power) standard errors.

    The test that finds it with the wrong sign, which has no part in the power here, has a probability below 1e-6 at the
    usual levels.
    """
    return (normal_quantile(1.0 - level / 2.0) + normal_quantile(POWER)) * standard_error


def rows_to_see(pooled: PooledCovariance, standard_error: float, size: float) -> float | None:
    """Return about how many rows, published with the same noise, would show a partial correlation.

    The noise on rows adds to the variance of their covariance like further rows of another kind: all of it falls as
    1/n. The noise of a covariance release is on sums over rows, whatever their number: its part falls as 1/n^2, the
    sampling error's as 1/n.

    Parameters
    ----------
    pooled : PooledCovariance
        What was learned from, of n rows.
    standard_error : float
        Of a partial correlation in it.
    size : float
        The partial correlation that the test is to find.

    Returns
    -------
    float or None
        None for rows pooled with covariance releases, whose noise falls in both ways.
    """
    wanted = (size / smallest_visible(1.0)) ** 2
    n_rows, variance = pooled.n_rows, standard_error**2
    of_rows = {isinstance(source, NoisyCovariance) for source in pooled.sources}
    if of_rows == {True}:
        return n_rows * variance / wanted
    if of_rows == {True, False}:
        return None
    sampling = min(pooled.sampling_factor, variance)
    linear, square = n_rows * sampling, n_rows**2 * (variance - sampling)
    return (linear + math.sqrt(linear**2 + 4.0 * square * wanted)) / (2.0 * wanted)
