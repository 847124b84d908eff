"""Proofs that the penalised problem has a solution, or has none.

It has one exactly when some positive definite W lies in the box ``|W - S| <= L``. It has none exactly when a positive
semidefinite ``Z != 0`` has ``<S, Z> + sum_ij L_ij |Z_ij| <= 0``. For that sum is the largest ``<W, Z>`` in the box.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dp_learn.glasso.admm import SEARCH_ITER, Incumbent, Start, improve
from dp_learn.glasso.problem import GroupProblem, Problem, split_components
from dp_learn.matrices.checks import check_covariance, check_free_diagonal, check_weights, column_labels
from dp_learn.matrices.linalg import FloatArray, few_threads, is_positive_definite, smallest_eigenvalue
from dp_learn.matrices.repair import project_max_norm

RESOLUTION = 1e-11  # a box in which no smallest eigenvalue exceeds this, in units of the variances, is at the boundary
MAX_ITER = 1000
TINIEST = 1e-12  # relative to the largest alpha that could be needed: rounding
RTOL = 1e-4  # width of the bounds on the smallest alpha, relative to it
GROUP_RTOL = 1e-2  # of the smallest alpha of groups
LARGEST_FACTOR = 1e9
MARGIN = 5e-5  # added to the upper one, so that the box at the alpha returned has an interior


@dataclass(frozen=True, eq=False)
class Feasibility:
    """Whether a box holds a positive definite matrix, with the proof; undecided where neither proof was found.

    Attributes
    ----------
    w : ndarray, shape (p, p), or None
        A positive definite matrix in the box.
    certificate : ndarray, shape (p, p)
        A positive semidefinite Z of unit trace, the proof of `reach`; zero when it was not needed.
    reach : float
        ``<S, Z> + sum_ij L_ij |Z_ij|``: no matrix in the box has a larger smallest eigenvalue. So at zero or below
        there is no positive definite one. 1 when no certificate was needed.
    """

    w: FloatArray | None
    certificate: FloatArray
    reach: float


def judge_box(s: FloatArray, penalty: FloatArray, *, max_iter: int = MAX_ITER) -> Feasibility:
    """Find a positive definite matrix in the box, or prove that there is none.

    Parameters
    ----------
    s : ndarray, shape (p, p)
        Unit diagonal.
    penalty : ndarray, shape (p, p)
        Zero diagonal; entries may be 0 or inf.
    max_iter : int
        Most eigendecompositions.

    Notes
    -----
    Three guesses cost one Cholesky factorisation each. Failing these, the smallest t is sought for which a positive
    semidefinite matrix with a diagonal of t has its other entries in the box. The box has a positive definite matrix
    exactly when t < 1, and ``1 - t`` is the largest smallest eigenvalue of any of its matrices.
    """
    soft = soft_threshold(s, penalty)
    for guess in (soft, s.copy(), 0.5 * (soft + s)):
        if is_positive_definite(guess):
            return Feasibility(guess, np.zeros_like(s), 1.0)
    unit = np.eye(s.shape[0])
    hollow = s - unit
    inside = soft + (0.1 - smallest_eigenvalue(soft)) * unit
    found = project_max_norm(hollow, penalty, unit, inside, decide=(1.0, 1.0 - RESOLUTION), max_iter=max_iter)
    reach = 1.0 - found.lower_bound
    if found.distance < 1.0:
        w = np.clip(found.matrix, s - penalty, s + penalty)
        np.fill_diagonal(w, 1.0)
        if is_positive_definite(w):
            return Feasibility(w, found.certificate, reach)
    return Feasibility(None, found.certificate, reach)


def smallest_solvable_alpha(
    covariance: ArrayLike, *, weights: ArrayLike | None = None, penalize_diagonal: bool = True, rtol: float = RTOL
) -> float:
    r"""Return the smallest alpha at which the graphical lasso has a solution.

    .. math:: \inf \{\alpha : W \succ 0, |W_{ij} - S_{ij}| \le \alpha w_{ij}\}

    Parameters
    ----------
    covariance, weights, penalize_diagonal
        As in `graphical_lasso`.
    rtol : float
        Relative accuracy.

    Returns
    -------
    float
        A solution exists at this alpha, and provably none at one smaller by a share of `rtol` plus 5e-5. 0 wherever
        any alpha will do, as with a positive definite covariance; inf where none will, because the unpenalised entries
        alone are indefinite.

    Raises
    ------
    ParameterError
        For a bad argument, and for a variance that is not positive where the diagonal is not penalised.
    """
    s = check_covariance(covariance)
    columns = column_labels(covariance)
    w = check_weights(weights, s.shape[0], penalize_diagonal=penalize_diagonal, columns=columns)
    check_free_diagonal(s, w)

    # in units in which no entry exceeds one
    largest = np.abs(s).max(axis=1)
    scale = 1.0 / np.sqrt(np.where(largest > 0.0, largest, 1.0))
    s, w = s * np.outer(scale, scale), w * np.outer(scale, scale)
    if is_positive_definite(s):
        return 0.0

    # bounds on alpha: `needed` empties the graph, and a little more allows a matrix inside
    costly = np.isfinite(w) & (w > 0.0)
    needed = float((np.abs(s[costly]) / w[costly]).max(initial=0.0))
    if needed == 0.0:  # all costly entries are zero, and the scale is that of the free ones
        needed = float(np.abs(s).max()) / float(w[costly].max(initial=1.0)) or 1.0

    inside = _find_inside(s, w, needed)
    if inside is None:
        return math.inf
    if not costly.any():
        return 0.0

    free, finite = np.where(np.isinf(w), np.inf, 0.0), np.where(np.isinf(w), 0.0, w)
    projection = project_max_norm(s, free, finite, inside, rtol=rtol, max_iter=MAX_ITER)
    alpha = projection.distance * (1.0 + MARGIN)
    if alpha <= TINIEST * needed:  # semidefinite, so that any alpha will do
        return 0.0

    # the box at the alpha returned must hold a definite matrix in double precision
    while alpha < needed:
        share = (alpha - projection.distance) / (2.0 * needed)
        if is_positive_definite((1.0 - share) * projection.matrix + share * inside):
            break
        alpha = 2.0 * alpha + 1e-15 * needed
    return alpha


def smallest_group_alpha(problem: GroupProblem) -> float:
    """Return the smallest alpha that has a solution, from above, where this one has none; inf where none has."""
    with few_threads(problem.n_features):
        low, high = problem.alpha, 2.0 * problem.alpha
        while not _is_feasible(problem.at(high)):
            low, high = high, 4.0 * high
            if high > LARGEST_FACTOR * problem.alpha:
                return math.inf
        while high - low > GROUP_RTOL * high:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if _is_feasible(problem.at(middle)) else (middle, high)
    return high


def _is_feasible(problem: GroupProblem) -> bool:
    """Return whether a dual feasible matrix was found that is positive definite."""
    for nodes in split_components(problem.linked):
        part, _ = problem.restrict(nodes)
        if part.variances.min() <= 0.0:
            return False
        scaled = part.in_even_units()[0]
        best = Incumbent(scaled)
        improve(scaled, best, Start(scaled.covariance), gap=0.0, max_iter=SEARCH_ITER, feasible_only=True)
        if best.w is None:
            return False
    return True


def soft_threshold(s: FloatArray, penalty: FloatArray) -> FloatArray:
    """Return the matrix of the box ``|W - S| <= L`` whose entries are nearest to zero."""
    shrunk: FloatArray = s - np.clip(s, -penalty, penalty)
    return shrunk


def _find_inside(s: FloatArray, w: FloatArray, needed: float) -> FloatArray | None:
    """Return a positive definite matrix that a large alpha allows, within about three times `needed` if possible."""
    for alpha in (2.0 * needed, 1e2 * needed, 1e4 * needed):
        form, units = Problem(s, alpha * w, alpha).in_even_units()
        found = judge_box(form.covariance, form.penalty).w
        if found is not None:
            inside: FloatArray = found / np.outer(units, units)
            return inside
    return None
