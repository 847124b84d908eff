"""The evidence for an edge between each pair of columns: a score that ranks all pairs at any strength of the noise.

The score of a pair is ``|T_ij|`` over its standard error, T = 2 Theta - Theta S^ Theta, from a graphical lasso Theta at
twice the universal penalty, diagonal included, not refitted. That penalty is in proportion to the noise: with little of
it T is close to the inverse of S^, and the score to a test of the partial correlation; the more there is, the closer
Theta is to a diagonal matrix, and T to S^ itself. An unpenalised inverse multiplies the noise, and buries the ranking.
The score ranks, and does not test: what the penalty leaves of indirect links is in it.
"""

from __future__ import annotations

import numpy as np

from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.penalties import universal_penalty
from dp_learn.covariance.standard_errors import form_variances
from dp_learn.glasso.problem import make_problem
from dp_learn.glasso.solving import solve
from dp_learn.inference.edges import desparsify
from dp_learn.matrices.linalg import FloatArray

FACTOR = 2.0  # of the universal penalty; of 1 to 4, about the best at every strength of the noise, with the diagonal
_TOL = 1e-6


def score_pairs(pooled: PooledCovariance, *, solver: str = "auto") -> FloatArray:
    """Return the evidence for an edge between every pair of columns: the larger, the surer.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance, and errors that are known or estimated.
    solver : {"cd", "admm", "newton", "auto"}
        As in `graphical_lasso`.

    Returns
    -------
    ndarray of shape (n_features, n_features)
        Symmetric, not negative, zero on the diagonal.
    """
    alpha, _ = universal_penalty(pooled)
    solution = solve(make_problem(pooled.correlation, FACTOR * alpha), solver=solver, tol=_TOL)
    usable = solution is not None and solution.converged
    theta = solution.precision if solution is not None and usable else np.eye(len(pooled.columns))
    d = pooled.deviations
    theta = theta / np.outer(d, d)
    size, error = np.abs(desparsify(pooled, theta)), np.sqrt(form_variances(pooled, theta))
    scores = np.divide(size, error, out=np.zeros_like(size), where=error > 0.0)
    np.fill_diagonal(scores, 0.0)
    return scores
