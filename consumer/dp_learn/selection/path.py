"""The path of alphas that all rules walk, and how a walk ends in a choice.

A smaller alpha allows fewer dual matrices: where one alpha has no solution, no smaller one has, and the path ends.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_bundle.base.quoting import Brief
from dp_learn.glasso.problem import Solution, make_groups, make_problem
from dp_learn.glasso.solving import solve
from dp_learn.matrices.checks import check_covariance, check_weights
from dp_learn.matrices.labels import column_labels
from dp_learn.matrices.linalg import FloatArray, is_positive_definite

PATH_TOL = 1e-6  # as `graphical_lasso` by default, so that a rule judges the graph that the final fit will have
PATH_MAX_ITER = 1000  # next to the smallest solvable alpha solvers crawl, and no rule chooses there
SMALLEST = "the smallest alpha of the path was chosen: a smaller one might be better still"
_ABOVE = 1e-9  # of the largest entry: so far above it solvers tell that the graph is empty
_EMPTIEST = "the emptiest graph of the path was chosen"  # on a path from `alpha_grid` it has no edges


class PathOptions(TypedDict, total=False):
    """The arguments of `solve_path` that every rule passes on, as of `graphical_lasso`.

    `groups` are the nodes of the columns: what a rule counts or compares is then what is between nodes.
    """

    solver: str
    weights: ArrayLike | None
    penalize_diagonal: bool
    groups: ArrayLike | None


@dataclass(frozen=True, eq=False)
class Selection(Brief):
    """An alpha and why it was chosen.

    Attributes
    ----------
    alpha : float
        The chosen penalty.
    rule : str
        The rule that chose it, as the end of the sentence "alpha was chosen by ...".
    alphas : ndarray, shape (n_alphas,)
        The path, largest first.
    scores : ndarray, shape (n_alphas,)
        The rule's score of each alpha, larger being better; NaN where there is none: past the end of the path, and
        after a rule has stopped early.
    note : str or None
        A sentence on a choice at an end of the path: why no edge was worth including, or why the path ended.
    n_edges : ndarray, shape (n_alphas,)
        The number of edges at each alpha, the mean over folds or subsamples of the rows; NaN where the rule did not go.
    ended : bool
        Whether the path ended for want of a solution.
    by_fold : ndarray, shape (n_alphas, n_folds), or None
        The score of each alpha in each fold, of a rule that has folds.
    """

    alpha: float
    rule: str
    alphas: FloatArray
    scores: FloatArray
    note: str | None = None
    n_edges: FloatArray = field(default_factory=lambda: np.empty(0))
    ended: bool = False
    by_fold: FloatArray | None = None


def alpha_grid(
    matrix: ArrayLike,
    n_alphas: int = 20,
    ratio: float = 0.01,
    *,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> FloatArray:
    """Return alphas from the smallest that empties the graph down to `ratio` of it, evenly spaced in the logarithm.

    The graph is empty exactly when no entry exceeds its penalty, so the first alpha is ``max |s_ij| / w_ij`` over the
    penalised pairs; at every later one there is at least one edge. On a noisy matrix the small ones may have no
    solution: the path then ends before the grid does.

    Parameters
    ----------
    matrix : array, shape (p, p)
        The debiased covariance or correlation matrix.
    n_alphas : int
        How many, at least 2.
    ratio : float
        The last alpha relative to the first, in (0, 1).
    weights : array, shape (p, p), optional
        As in `graphical_lasso`; pairs with weight 0 or inf play no part.
    groups : sequence of length p, optional
        As in `graphical_lasso`: the norms of blocks then take the place of entries.

    Raises
    ------
    EstimationError
        No penalised pair of columns is correlated at all.

    References
    ----------
    Witten, Friedman & Simon (2011), New insights and faster computations for the graphical lasso, theorem 1.
    """
    if n_alphas < 2:
        raise ParameterError("n_alphas", "at least 2", n_alphas)
    if not 0.0 < ratio < 1.0:
        raise ParameterError("ratio", "in (0, 1)", ratio)
    s = check_covariance(matrix)
    nodes = None if groups is None else make_groups(groups, len(s), column_labels(matrix))
    if nodes is None or nodes.are_scalar:  # whose variances need not be positive
        w = check_weights(weights, s.shape[0], penalize_diagonal=False, columns=column_labels(matrix))
    else:
        problem = make_problem(s, 1.0, weights=weights, groups=nodes)
        s, w = problem.norms(problem.covariance), problem.penalty
    penalised = w > 0.0
    largest = float((np.abs(s[penalised]) / w[penalised]).max(initial=0.0))
    if not largest > 0.0:
        raise EstimationError("no two columns are correlated at all: there is no graph to select")
    largest *= 1.0 + _ABOVE
    return np.geomspace(largest, largest * ratio, n_alphas)


def solve_path(
    matrix: FloatArray,
    alphas: Sequence[float] | FloatArray,
    *,
    tol: float = PATH_TOL,
    max_iter: int = PATH_MAX_ITER,
    **options: Unpack[PathOptions],
) -> Iterator[tuple[float, Solution | None]]:
    """Solve for one alpha after the other, each from the last answer.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        The debiased matrix.
    alphas : sequence of float
        Decreasing.
    tol, max_iter
        As in `graphical_lasso`.
    **options
        See `PathOptions`.

    Yields
    ------
    tuple of float and Solution or None
        The alpha and its certified solution. None says that there is no solution at this alpha, or none that the
        solver could certify, and is the last item.
    """
    groups = options.get("groups")
    unit = make_problem(
        matrix,
        1.0,
        weights=options.get("weights"),
        penalize_diagonal=options.get("penalize_diagonal", True),
        groups=None if groups is None else make_groups(groups, len(matrix)),
    )
    last: Solution | None = None
    for alpha in map(float, alphas):
        last = solve(unit.at(alpha), solver=options.get("solver", "cd"), tol=tol, max_iter=max_iter, start=last)
        if last is None or not last.converged:
            yield alpha, None
            return
        yield alpha, last


def check_path(alphas: Sequence[float] | FloatArray, patience: int | None = None) -> FloatArray:
    """Return the path as an array, or say what is wrong with it, or with a patience of no alphas at all."""
    if patience is not None and patience < 1:
        raise ParameterError("patience", "at least 1, or None", patience)
    path = np.asarray(alphas, dtype=np.float64)
    if path.ndim != 1 or path.size == 0 or not (np.isfinite(path).all() and (path > 0.0).all()):
        raise ParameterError("alphas", "one or more finite numbers > 0", alphas)
    if (np.diff(path) >= 0.0).any():
        raise ParameterError("alphas", "in decreasing order", path.tolist())
    return path


def why_ended(matrices: Sequence[FloatArray]) -> str:
    """Return why a path on these matrices has no further solution, or none that could be certified."""
    if all(is_positive_definite(matrix) for matrix in matrices):
        return "the debiased covariance is too nearly singular for a certified solution"
    return "the debiased covariance is indefinite"


def choose_alpha(
    index: int,
    rule: str,
    alphas: FloatArray,
    scores: FloatArray,
    n_edges: FloatArray,
    *,
    why_empty: str,
    ended: str | None,
    why_last: str = SMALLEST,
) -> Selection:
    """Return the selection of one alpha of the path, with the note that a choice at either end needs.

    Parameters
    ----------
    index : int
        Of the chosen alpha.
    rule, alphas, scores, n_edges
        As in `Selection`.
    why_empty : str
        The reason to give when the first alpha is chosen.
    ended : str or None
        Why the path ended for want of a solution after the last score, from `why_ended`; None where it did not.
    why_last : str
        What to say when the last alpha of the path is chosen.
    """
    last = index == np.flatnonzero(np.isfinite(scores))[-1]
    note = None
    if last and ended:
        note = (
            f"{_EMPTIEST if index == 0 else 'the last alpha of the path was chosen'} because smaller alphas "
            f"have no solution, as {ended}: repair it, or learn from more rows or less noise"
        )
    elif index == 0:
        note = f"{_EMPTIEST} because {why_empty}"
    elif index == len(alphas) - 1:
        note = why_last
    return Selection(float(alphas[index]), rule, alphas, scores, note, n_edges, ended is not None)


def columns_within(groups: ArrayLike | None, n_features: int) -> npt.NDArray[np.bool_]:
    """Return which pairs of columns belong to one node, shape (p, p): each column with itself, without groups."""
    if groups is None:
        return np.eye(n_features, dtype=bool)
    labels = np.asarray(groups)
    within: npt.NDArray[np.bool_] = np.equal.outer(labels, labels)
    return within
