"""Criteria that choose alpha: the extended Bayesian one, with a row count that knows the noise, and parts of the rows.

Parts of the rows are for cross-validation, and for stability selection (StARS). Cross-validation takes the alpha whose
estimate from some rows agrees best with the others. The noise is subtracted from the held-out matrix as well as from
the one that is learnt from. So either score estimates the agreement with the rows before the noise. StARS takes the
densest graph that the sampling error does not shake.

Every rule sees debiased matrices on one scale and nothing else, and walks the path from the empty graph downwards. It
says in a `Selection` what it chose and, where the choice needs a word, why.

References
----------
Friedman, Hastie & Tibshirani (2008), Sparse inverse covariance estimation with the graphical lasso, section 4. Guo et
al. (2025), Graph Structure Learning with Privacy Guarantees for Open Graph Data, appendix B.2. Liu, Roeder & Wasserman
(2010), Stability approach to regularization selection for high dimensional graphical models.

The path of alphas that all rules walk, and how a walk ends in a choice.

A smaller alpha allows fewer dual matrices: where one alpha has no solution, no smaller one has, and the path ends.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_bundle.base.quoting import Brief
from dp_learn.covariance.sample import Split
from dp_learn.glasso.problem import Solution, make_groups, make_problem
from dp_learn.glasso.solving import solve, solve_on_graph
from dp_learn.matrices.checks import check_covariance, check_weights, column_labels
from dp_learn.matrices.linalg import FloatArray, Mask, is_positive_definite, logdet, negative_part
from dp_learn.matrices.repair import nearest_psd_max_norm

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
        The rule's score of each alpha, larger being better. It is NaN where there is none: past the end of the path,
        and after a rule has stopped early.
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

    The graph is empty exactly when no entry exceeds its penalty. So the first alpha is ``max |s_ij| / w_ij`` over the
    penalised pairs, and at every later one there is at least one edge. On a noisy matrix the small ones may have no
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


def columns_within(groups: ArrayLike | None, n_features: int) -> Mask:
    """Return which pairs of columns belong to one node, shape (p, p): each column with itself, without groups."""
    if groups is None:
        return np.eye(n_features, dtype=bool)
    labels = np.asarray(groups)
    within: Mask = np.equal.outer(labels, labels)
    return within


DRAWN = 0.02  # towards the diagonal, where S^ is indefinite
LEAST = 1e-4  # of a smallest eigenvalue relative to unit variances: below it, fits cannot be computed reliably
WIDE = 500  # columns: with fewer, fits are exact enough to tell the price of one edge
PATIENCE = 5  # so many different graphs in a row without a better score end the walk
HELD_OUT_PATIENCE = 3  # so many alphas in a row without a better score end the walk
SHARP = 0.5  # the share of its whole fall by which the error has dropped sharply
CLEAR = 2.0  # a fall of no more than so many standard errors, over the folds, is none
UNSTABLE = 0.05  # the most instability, as in the paper
SPARSE = 0.5  # up to this share of all pairs of columns
LARGEST_SHARE = 0.8  # of the rows, where ten times their root is nearly all of them


def select_ebic(
    matrix: FloatArray,
    n_effective: float | Callable[[FloatArray], float],
    alphas: Sequence[float] | FloatArray,
    *,
    gamma: float = 0.5,
    patience: int | None = PATIENCE,
    why_last: str = SMALLEST,
    **options: Unpack[PathOptions],
) -> Selection:
    r"""Choose alpha by the extended Bayesian information criterion of its graph.

    The chosen graph has the largest

    .. math:: \log\det\Theta_E - \langle \hat S, \Theta_E\rangle
              - \frac{|E|}{n_\mathrm{eff}} (\log n_\mathrm{eff} + 4 \gamma \log p),

    which is minus the criterion over n_eff. Theta_E is fitted to the graph's edges E without any penalty, as in the
    paper. At the penalised estimate, the shrinkage of the true edges rewards ever smaller alphas and many more edges.

    Subtracting the noise leaves more sampling error in S^ than the rows would have without it. An edge too many raises
    the likelihood by n / n_eff times as much, and must pay as many times more. How many rows are left depends on the
    graph, since noise hurts most where the other columns nearly determine one. They are therefore counted at the
    penalised estimate of every alpha, which stays moderate where an unpenalised fit to an indefinite matrix does not.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        The debiased matrix of all rows, its diagonal positive.
    n_effective : float or callable
        How many rows without noise would be as good. Or a function of a precision matrix that says how many would fix
        its partial correlations as well, such as `effective_rows`.
    alphas : sequence of float
        Decreasing, from `alpha_grid`: at the first the graph is empty.
    gamma : float
        0 is the ordinary criterion, 1 the strictest.
    patience : int or None
        The walk ends once so many different graphs in a row have not improved the score, however many alphas share
        them. A graph without a certified fit does not count. None walks the whole path.
    why_last : str
        The note on a choice of the last alpha.
    **options
        As of `solve_path`. A node's own block is part of every model, and each entry of another block is a parameter.

    Returns
    -------
    Selection
        Its scores are as above, NaN also for a graph whose fit has no solution.

    Raises
    ------
    EstimationError
        Not even the first alpha has a solution.

    References
    ----------
    Foygel & Drton (2010), Extended Bayesian information criteria for Gaussian graphical models, eq. 1.
    """
    if not 0.0 <= gamma <= 1.0:
        raise ParameterError("gamma", "in [0, 1]", gamma)
    if not (callable(n_effective) or n_effective > 0.0):
        raise ParameterError("n_effective", "> 0, or a function", n_effective)
    alphas = check_path(alphas, patience)
    scores, n_edges, judge = np.full(len(alphas), np.nan), np.full(len(alphas), np.nan), near_definite(matrix)
    path = solve_path(matrix, alphas, **options)
    groups = options.get("groups")
    within = columns_within(groups, len(matrix))
    n_nodes = len(matrix) if groups is None else len(np.unique(np.asarray(groups)))
    best, n_worse, ended = 0, 0, False
    edges: Mask | None = None
    fitted: Solution | None = None
    likelihood = math.nan
    for index, (_, solution) in enumerate(path):
        if solution is None:
            ended = True
            break
        n = n_effective(solution.precision) if callable(n_effective) else n_effective
        price = (math.log(max(n, 1.0)) + 4.0 * gamma * math.log(len(matrix))) / n

        support = (solution.precision != 0.0) | within
        is_new = edges is None or not np.array_equal(edges, support)
        if is_new:
            edges = support
            tol = PATH_TOL if len(matrix) >= WIDE else min(PATH_TOL, price / len(matrix))
            likelihood, fitted = _fit(judge, support, fitted or solution, options.get("solver", "cd"), tol, n_nodes)
        n_edges[index] = int(np.count_nonzero(support & ~within)) // 2
        scores[index] = likelihood - n_edges[index] * price

        if scores[index] > np.nan_to_num(scores[best], nan=-math.inf):
            best, n_worse = index, 0
        elif is_new and np.isfinite(scores[index]):  # neither a graph seen before nor one without a fit says anything
            n_worse += 1
        if patience is not None and n_worse >= patience:
            break
    if np.isnan(scores[best]):
        if ended and index == 0:
            raise EstimationError(
                f"no alpha of the path has a solution, as {why_ended([matrix])}: repair the covariance, or learn from "
                "more rows"
            )
        raise EstimationError(
            "no graph of the path could be fitted without the penalty: give alpha, or choose it by another rule"
        )
    return choose_alpha(
        best,
        f"the extended Bayesian information criterion (gamma = {gamma:g})",
        alphas,
        scores,
        n_edges,
        why_empty="no edge improves the fit enough to be worth its parameter",
        ended=why_ended([matrix]) if ended else None,
        why_last=why_last,
    )


def near_definite(matrix: FloatArray) -> FloatArray:
    """Return a positive definite matrix near S^, or S^ itself, in which every graph has a best fit.

    The likelihood of an indefinite matrix has no maximum for most graphs. A positive semidefinite matrix near it is
    drawn a little towards its diagonal, which bounds the likelihood. It is the one with the negative eigenvalues set to
    zero and the same variances. That is taken if it differs from S^ by no more than the drawing does. Or else it is the
    nearest in the max norm, which is no further from S^ than the truth. A matrix that is nearly singular is drawn far
    less.
    """
    diagonal = np.diagonal(matrix)
    if is_positive_definite(matrix - np.diag(LEAST * diagonal)):
        return matrix
    if is_positive_definite(matrix + np.diag(LEAST * diagonal)):
        return _drawn(matrix, 2.0 * LEAST)
    raised = matrix + negative_part(matrix)
    unit, root = np.sqrt(diagonal / np.diagonal(raised)), np.sqrt(diagonal)
    clipped = raised * np.outer(unit, unit)
    if (np.abs(clipped - matrix) <= DRAWN * np.outer(root, root)).all():
        return _drawn(clipped, DRAWN)
    return _drawn(nearest_psd_max_norm(matrix, fix_diagonal=True, rtol=1e-2).matrix, DRAWN)


def _drawn(matrix: FloatArray, share: float) -> FloatArray:
    return (1.0 - share) * matrix + share * np.diag(np.diagonal(matrix))


def _fit(
    matrix: FloatArray, edges: Mask, start: Solution, solver: str, tol: float, n_nodes: int
) -> tuple[float, Solution | None]:
    """Return the largest likelihood on a graph, NaN where it could not be certified, and a start for the next fit."""
    fitted = solve_on_graph(matrix, edges, solver=solver, tol=tol, max_iter=PATH_MAX_ITER, start=start, n_nodes=n_nodes)
    return (-fitted.objective, fitted) if fitted is not None and fitted.converged else (math.nan, None)


def cross_validate(
    splits: Sequence[Split],
    alphas: Sequence[float] | FloatArray,
    *,
    score: str = "likelihood",
    patience: int | None = HELD_OUT_PATIENCE,
    **options: Unpack[PathOptions],
) -> Selection:
    """Choose alpha by the held-out rows.

    ``"likelihood"`` takes the alpha with the largest mean of ``logdet Theta - <S^_test, Theta>``: twice the Gaussian
    log-likelihood a row, up to a constant. A penalty on the diagonal inflates all variances, which would reward
    smaller alphas whatever the edges do: Theta is rescaled to the variances of the training rows first. The rule looks
    for the best fit, which needs more edges than the graph has.

    ``"mse"`` compares the implied covariance with S^_test, over pairs of columns (the penalty merely shifts the
    diagonal). It takes the largest alpha by which the mean squared difference has made half of its whole fall from the
    empty graph to its minimum. It takes the empty graph, unless that fall exceeds twice its standard error over the
    folds. Guo et al. choose "where the error first drops sharply while the graph still has edges", and define no more.
    Half its height is where one locates a smooth step. The steepest single step of the path, the other candidate,
    depends on how fine the path is and on the sampling error of two neighbouring values.

    Parameters
    ----------
    splits : sequence of Split
        One for every fold, at least two.
    alphas : sequence of float
        Decreasing, from `alpha_grid` of the whole matrix: at the first the graph is empty.
    score : {"likelihood", "mse"}
        The rule.
    patience : int or None
        The walk ends once so many alphas in a row have not improved the mean score, since both curves have one hump
        but for sampling error; None walks the whole path.
    **options
        As of `solve_path`; edges between nodes of several columns are counted by entries.

    Returns
    -------
    Selection
        Its scores are means over the folds: the likelihood's as above, and minus the squared difference. An alpha has
        none if it lacks a solution in any fold.

    Raises
    ------
    EstimationError
        Not even the first alpha has a solution in every fold.
    """
    if len(splits) < 2:
        raise ParameterError("splits", "at least two", len(splits))
    if score not in _SCORES:
        raise ParameterError("score", "one of " + ", ".join(_SCORES), score)
    alphas = check_path(alphas, patience)
    within = columns_within(options.get("groups"), len(splits[0].train))
    judge, title = _SCORES[score]

    # all folds' paths at once, until the score stops improving
    by_fold, n_edges = np.full((len(alphas), len(splits)), np.nan), np.full(len(alphas), np.nan)
    best, ended = 0, False
    paths = [solve_path(split.train, alphas, **options) for split in splits]
    for index, step in enumerate(zip(*paths, strict=True)):
        solutions = [solution for _, solution in step if solution is not None]
        ended = len(solutions) < len(splits)
        if ended:
            break
        n_edges[index] = np.mean([np.count_nonzero((each.precision != 0.0) & ~within) // 2 for each in solutions])
        by_fold[index] = [judge(solution, split, within) for solution, split in zip(solutions, splits, strict=True)]
        best = index if by_fold[index].mean() > by_fold[best].mean() else best
        if patience is not None and index - best >= patience:
            break

    scores: FloatArray = by_fold.mean(axis=1)
    if np.isnan(scores[0]):
        raise EstimationError(
            "no alpha of the path has a solution in every fold: the folds are too small for this noise, give --alpha"
        )
    index = int(np.nanargmax(scores))
    chosen = choose_alpha(
        _sharp_drop(by_fold, index) if score == "mse" else index,
        f"{len(splits)}-fold cross-validation of the {title}",
        alphas,
        scores,
        n_edges,
        why_empty="no edge made the estimate agree better with the held-out rows",
        ended=why_ended([split.train for split in splits]) if ended else None,
    )
    return replace(chosen, by_fold=by_fold)


def _sharp_drop(scores: FloatArray, best: int) -> int:
    """Return the index of the alpha at which the error has made half of its fall from the first alpha to the best."""
    falls = scores[best] - scores[0]
    if falls.mean() <= CLEAR * falls.std(ddof=1) / np.sqrt(falls.size):
        return 0
    return int(np.argmax((scores - scores[0]).mean(axis=1) >= SHARP * falls.mean()))


def _likelihood(solution: Solution, split: Split, _: Mask) -> float:
    implied, variance = solution.covariance.diagonal(), split.train.diagonal()
    unit = np.sqrt(implied / np.where(variance > 0.0, variance, implied))  # 1 where the diagonal is not penalised
    precision = solution.precision * np.outer(unit, unit)
    return logdet(precision) - float(np.vdot(split.test, precision))


def _minus_squared_difference(solution: Solution, split: Split, within: Mask) -> float:
    difference = solution.covariance - split.test
    squares = float(np.vdot(difference, difference)) - float(np.square(difference[within]).sum())
    return -squares / float(within.size - np.count_nonzero(within))


_SCORES = {
    "likelihood": (_likelihood, "likelihood"),
    "mse": (_minus_squared_difference, "covariance error, at half its fall"),
}


def stars_subsample_share(n_effective: float) -> float:
    """Return the share of the rows that a subsample holds: ``10 sqrt(n)`` of n, or 0.8 where that is more.

    n is the number of rows without noise that would fix the correlations as well. Noise makes every row worth less, and
    a subsample of the same size as without it would see nothing but sampling error.

    Parameters
    ----------
    n_effective : float
        How many, at least 1; see `effective_rows`.

    References
    ----------
    Liu, Roeder & Wasserman (2010), section 4.
    """
    if not n_effective >= 1.0:
        raise ParameterError("n_effective", "at least 1", n_effective)
    return min(LARGEST_SHARE, 10.0 / math.sqrt(n_effective))


def select_stars(
    subsamples: Sequence[FloatArray],
    alphas: Sequence[float] | FloatArray,
    **options: Unpack[PathOptions],
) -> Selection:
    """Choose the smallest alpha at which the graphs of random subsamples agree.

    Let theta be the share of the subsamples whose graph has an edge. Then the instability is the mean of ``2 theta (1 -
    theta)`` over all pairs of columns. It is small again where nearly all pairs are edges. So the walk ends where it
    exceeds the threshold and more than half of all pairs are edges. (In the paper it ends as soon as the threshold is
    exceeded. On a few columns that is at the very first alphas, where the true edges appear, each in some subsamples
    before it does in all.)

    Parameters
    ----------
    subsamples : sequence of ndarray, each of shape (p, p)
        Debiased matrices of subsamples of the rows, on one scale; 20 are usual, at least two.
    alphas : sequence of float
        Decreasing, from `alpha_grid` of the whole matrix: at the first the graph of all rows is empty.
    **options
        As of `solve_path`.

    Returns
    -------
    Selection
        Its scores are the instability with the sign turned.

    Raises
    ------
    EstimationError
        Not even the first alpha has a solution in every subsample.

    References
    ----------
    Liu, Roeder & Wasserman (2010), section 3.
    """
    if len(subsamples) < 2:
        raise ParameterError("subsamples", "at least two", len(subsamples))
    alphas = check_path(alphas)

    groups = options.get("groups")
    labels = np.arange(len(subsamples[0])) if groups is None else np.asarray(groups)
    first = np.unique(labels, return_index=True)[1]  # column of each node, as a block is zero as a whole or not at all
    scores, n_edges = np.full(len(alphas), np.nan), np.full(len(alphas), np.nan)
    ended = False

    for index, step in enumerate(zip(*(solve_path(matrix, alphas, **options) for matrix in subsamples), strict=True)):
        graphs = [solution.precision[np.ix_(first, first)] != 0.0 for _, solution in step if solution is not None]
        ended = len(graphs) < len(step)
        if ended:
            break
        shares = np.sum(graphs, axis=0)[np.triu_indices(len(first), 1)] / len(graphs) if len(first) > 1 else np.zeros(1)
        n_edges[index] = shares.sum()
        scores[index] = -float(np.mean(2.0 * shares * (1.0 - shares)))
        if scores[index] < -UNSTABLE and shares.mean() > SPARSE:
            break

    if np.isnan(scores[0]):
        raise EstimationError(
            "no alpha of the path has a solution in every subsample: the subsamples are too small for this noise, "
            "give --alpha"
        )

    stable = np.flatnonzero(scores >= -UNSTABLE)
    return choose_alpha(
        int(stable[-1]) if stable.size else 0,
        f"the stability of the graph over {len(subsamples)} subsamples (threshold {UNSTABLE:g})",
        alphas,
        scores,
        n_edges,
        why_empty="the edges of any larger graph change from subsample to subsample",
        ended=why_ended(subsamples) if ended else None,
    )
