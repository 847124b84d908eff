"""The graphical lasso: checks, and whether the problem is one of few columns or for the compiled solvers.

The solvers of a problem of numbers, and the choice between them.

Block descent is the fastest on sparse answers by far, and on dense ones up to hundreds of columns. Close to the
smallest alpha that has a solution its sweeps gain less and less, more so than the iterations of ADMM. Once `PATIENCE`
sweeps have not made the gap ten times smaller, ADMM goes on from the best answer so far.

Block coordinate descent: one lasso per column, in the manner of glassoFast.

Every column solves ``min_b 1/2 b'W_11 b - b's_12 + sum_i L_i |b_i|`` on its active coordinates and sets ``w_12 = W_11
b``. So the dual matrix W stays in its box, and its determinant only grows. At the end ``theta_22 = 1 / (w_22 -
w_12'b)`` and ``theta_12 = -b theta_22``. Unlike the printed algorithm it starts from any positive definite matrix of
the box, which is what an indefinite covariance needs. It stops on the duality gap.

Exact screening into connected components, each solved apart.

References
----------
Witten, Friedman & Simon (2011), New insights and faster computations for the graphical lasso, JCGS 20(4). Mazumder &
Hastie (2012), Exact covariance thresholding into connected components, JMLR 13. Their theorems hold for indefinite S as
well, and for blocks: zeros between components are dual feasible.

The fit of a precision matrix on a given graph, without any penalty wherever that exists.

It is what judges a graph (EBIC), what is reported of it, and what its tests start from. The penalty that finds the
edges also shrinks them, often to a third.

References
----------
Dempster (1972), Covariance selection, Biometrics 28(1). Zhou, Rutimann, Xu & Buhlmann (2011), High-dimensional
covariance estimation based on Gaussian graphical models, JMLR 12, section 2.2.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dp_bundle.base.errors import NoSolutionError, ParameterError
from dp_learn.glasso.admm import Answer, Solver, Start, solve_admm, solve_at_once
from dp_learn.glasso.feasibility import judge_box, smallest_group_alpha, smallest_solvable_alpha
from dp_learn.glasso.problem import (
    GroupProblem,
    Problem,
    Solution,
    Status,
    make_groups,
    make_problem,
    split_components,
)
from dp_learn.matrices.checks import align, check_covariance, check_free_diagonal, column_labels
from dp_learn.matrices.choices import AUTO, SOLVER_NAMES
from dp_learn.matrices.linalg import (
    FEW,
    FloatArray,
    Mask,
    Places,
    few_threads,
    is_positive_definite,
    smallest_eigenvalue,
)

if TYPE_CHECKING:
    from dp_learn.glasso._column_kernels import Coefficients

RESOLUTION = 1e-3  # by so much a next alpha is larger where rounding hides whether there is a solution
FEW_COLUMNS = 200  # of `FEW` nodes: with more, a path takes as long as compiling kernels
ONE_THREAD = 64  # columns that BLAS takes one thread for anyway
GROUP = "group"
SWEEPS, DENSE = SOLVER_NAMES
MANY = 0.6  # of the entries: then ADMM takes a half to a thirtieth of the time from nothing, or little more

SETTLED, MORE = 1e-13, 12  # a gap for each column that tells the edges, and sweeps that may come to it
PATIENCE = 20  # sweeps
GAIN = 0.1  # of the gap is what so many sweeps leave of it at most, where more of them are worth while


def graphical_lasso(
    covariance: ArrayLike,
    alpha: float,
    *,
    solver: str = "cd",
    weights: ArrayLike | None = None,
    penalize_diagonal: bool = True,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    start: Solution | None = None,
    groups: ArrayLike | None = None,
) -> Solution:
    r"""Return the sparse precision matrix of a covariance that may be indefinite, with a certificate of its optimality.

    .. math:: \min_{\Theta \succ 0} -\log\det\Theta + \langle S, \Theta\rangle + \alpha \sum_{ij} w_{ij} |\Theta_{ij}|

    Parameters
    ----------
    covariance : array, shape (p, p)
        S, symmetric; solved as it is whenever a solution exists, positive definite or not. Labelled rows are put in the
        order of the columns.
    alpha : float
        Strength of the penalty, > 0, in the units of `covariance`.
    solver : {"cd", "admm", "auto"}
        Block coordinate descent, or the alternating direction method of multipliers. Prefer "cd" for sparse answers.
        Prefer "admm" for dense ones of hundreds of columns, and near the smallest alpha that has a solution, where
        sweeps gain little. By "auto" it is "admm" for few columns; else it begins with "cd" and changes to "admm" where
        that is faster.
    weights : array, shape (p, p), optional
        Symmetric, non-negative; 0 leaves an entry unpenalised, inf forbids the edge. Ones by default. Labels, if any,
        are those of `covariance`, or of the nodes.
    penalize_diagonal : bool
        Whether the sum includes the diagonal.
    tol : float
        The answer is optimal once the duality gap is at most ``tol * p``; the gap does not depend on units. Solvers
        then go on until the edges are those of the optimum, as far as a few steps show, whatever the tolerance.
    max_iter : int
        Most sweeps over the columns, or iterations, of any connected component.
    start : Solution, optional
        An earlier answer for as many columns, from which to start. It changes the time taken, not the optimum.
    groups : sequence of length p, optional
        The node of each column, by name or number; labels, if any, are those of `covariance`. A node may have several
        columns, as a category's indicators. A block of the precision matrix links it to another, and the block's
        Frobenius norm is penalised in place of absolute values of entries: ``alpha sum_{g != h} w_gh ||Theta_gh||_F``,
        each pair of nodes counted twice. A block on the diagonal is free off the diagonal. Then `weights` has the shape
        (G, G), by default ``sqrt(k_g k_h)`` for nodes of k_g and k_h columns, and 1 on the diagonal. There is one
        method, whatever `solver`. Nodes of one column each are the problem without groups.

    Returns
    -------
    Solution
        Its `status` says whether it converged; a solver that stops early raises and warns of nothing.

    Raises
    ------
    NoSolutionError
        When the problem is unbounded at this alpha; its `smallest_alpha` is the smallest that is not.
    ParameterError
        For an argument that is not allowed.

    References
    ----------
    Friedman, Hastie and Tibshirani (2008). Yuan and Lin (2006) for the norm of a block.
    """
    nodes = None
    if groups is not None:
        nodes = make_groups(groups, len(np.asarray(covariance)), column_labels(covariance))
        weights = align("weights", weights, [str(name) for name in nodes.names], what="nodes")
    problem = make_problem(covariance, alpha, weights=weights, penalize_diagonal=penalize_diagonal, groups=nodes)
    solution = solve(problem, solver=solver, tol=tol, max_iter=max_iter, start=start)
    if solution is None:
        raise NoSolutionError(problem.alpha, partial(_smallest_alpha, problem))
    return solution


def _smallest_alpha(problem: Problem) -> float:
    """Return the smallest alpha that has a solution, which in double precision is above one that has none."""
    if isinstance(problem, GroupProblem):
        return smallest_group_alpha(problem)
    relative = problem.penalty / problem.alpha
    smallest = smallest_solvable_alpha(problem.covariance, weights=relative)
    return smallest if smallest > problem.alpha else problem.alpha * (1.0 + RESOLUTION)


def solve(
    problem: Problem,
    *,
    solver: str = "cd",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    start: Solution | None = None,
    n_nodes: int | None = None,
) -> Solution | None:
    """Solve a checked problem as `graphical_lasso` does; None if it has no solution, at no further cost.

    Columns that are those of few nodes count as few.
    """
    _check_settings(problem.n_features, solver, tol, max_iter, start)
    if isinstance(problem, GroupProblem):
        return _solve_groups(problem, tol=tol, max_iter=max_iter, start=start)
    if solver == AUTO and (n_nodes or problem.n_features) <= FEW and problem.n_features <= FEW_COLUMNS:
        return solve_by_components(problem, solve_at_once, DENSE, tol=tol, max_iter=max_iter, start=start)
    if solver == AUTO and start is None and _looks_dense(problem):
        solver = DENSE
    method = partial(_solve_component, run=solve_auto if solver == AUTO else SOLVERS[solver])
    return solve_by_components(problem, method, solver, tol=tol, max_iter=max_iter, start=start)


def _solve_groups(problem: GroupProblem, *, tol: float, max_iter: int, start: Solution | None) -> Solution | None:
    """Solve a problem of groups, whose columns are in an order of their own."""
    p = problem.n_features
    order = np.arange(p) if problem.order is None else problem.order
    if start is not None:
        start = _reordered(start, order)
    with few_threads(p) if p > ONE_THREAD else contextlib.nullcontext():
        solved = solve_by_components(problem, solve_at_once, GROUP, tol=tol, max_iter=max_iter, start=start)
    return None if solved is None else _reordered(solved, np.argsort(order))


def _reordered(solution: Solution, order: Places) -> Solution:
    place = np.ix_(order, order)
    return replace(solution, precision=solution.precision[place], covariance=solution.covariance[place])


def _check_settings(p: int, solver: str, tol: Any, max_iter: Any, start: Solution | None) -> None:
    if solver not in (*SOLVER_NAMES, AUTO):
        raise ParameterError("solver", "one of " + ", ".join((*SOLVER_NAMES, AUTO)), solver)
    if not (isinstance(tol, (int, float, np.floating)) and 0.0 < tol < math.inf):
        raise ParameterError("tol", "a finite number > 0", tol)
    if not (isinstance(max_iter, (int, np.integer)) and max_iter >= 1):
        raise ParameterError("max_iter", "an integer >= 1", max_iter)
    if start is not None and start.precision.shape != (p, p):
        raise ParameterError("start", f"a solution with {p} columns", start.precision.shape)


def _solve_component(problem: Problem, start: Start | None, *, run: Solver, gap: float, max_iter: int) -> Answer | None:
    """Return the answer of a solver of numbers, in the problem's units; None where there is none."""
    form, units = problem.in_even_units()
    inside = _starting_point(form, start, np.outer(units, units))
    if inside is None:
        return None
    answer = run(form, inside, gap=gap, max_iter=max_iter)
    return (_settle(form, answer) if form.has_choice else answer).restored(units)


def _settle(form: Problem, answer: Answer) -> Answer:
    """Return an optimal answer with the edges of the optimum: sweeps go on where the gap does not tell them."""
    if answer.status is not Status.OPTIMAL:
        return answer
    start, gap = Start(answer.w, answer.theta), SETTLED * len(answer.w)
    settled = solve_block_descent(form, start, gap=gap, max_iter=MORE)
    if not settled.duality_gap <= answer.duality_gap:
        return answer
    n_iter = answer.n_iter + settled.n_iter
    return replace(settled, n_iter=n_iter, status=Status.OPTIMAL, solvers=answer.solvers)


def _looks_dense(problem: Problem) -> bool:
    """Return whether most entries are penalised, and less than their covariance is, as those of a dense answer are."""
    s, penalty = problem.covariance, problem.penalty
    return bool(np.isfinite(penalty).all() and np.mean((penalty > 0.0) & (np.abs(s) > penalty)) > MANY)


def _starting_point(form: Problem, start: Start | None, outer: FloatArray) -> Start | None:
    """Return a positive definite start in the box, warm if possible; None when the box holds none."""
    theta = None
    if start is not None and start.theta is not None:
        theta = np.where(np.isinf(form.penalty), 0.0, start.theta / outer)
        w = form.project(start.w * outer)
        if is_positive_definite(w):
            return Start(w, theta)
    inside = judge_box(form.covariance, form.penalty).w
    return None if inside is None else Start(inside, theta)


def solve_auto(form: Problem, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the answer of the first method that reaches the gap, ADMM going on from the best answer of the sweeps.

    Its `solvers` names the ones that ran. If none reaches the gap, the answer is the best one.
    """
    swept = _sweep_while_worth_it(form, start, gap=gap, max_iter=max_iter)
    if swept.status is Status.OPTIMAL:
        return replace(swept, solvers=(SWEEPS,))
    answer = solve_admm(form, Start(swept.w, swept.theta), gap=gap, max_iter=max_iter)
    return replace(min(answer, swept, key=lambda each: each.duality_gap), solvers=SOLVER_NAMES)


def _sweep_while_worth_it(form: Problem, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the best answer of block descent, run as long as its sweeps gain enough."""
    best = solve_block_descent(form, start, gap=gap, max_iter=min(max_iter, PATIENCE))
    n_iter, before = best.n_iter, math.inf
    while best.status is Status.MAX_ITER and n_iter < max_iter and best.duality_gap <= GAIN * before:
        before = best.duality_gap
        answer = solve_block_descent(
            form, Start(best.w, best.theta), gap=gap, max_iter=min(max_iter - n_iter, PATIENCE)
        )
        n_iter += answer.n_iter
        best = min(answer, best, key=lambda each: each.duality_gap)
    return replace(best, n_iter=n_iter)


LOOSEST, TIGHTEST = 1e-2, 1e-14  # tolerance of the lasso of one column
FIRST_CHECK = 40.0  # gaps: a sweep that gains less is followed by a certificate, as the gap is a hundredth of its gain
CHECK_EVERY = 10  # sweeps between two certificates at the latest
MAX_FAILURES = 6  # losses of positive definiteness, each answered by tighter lassos
MAX_IDLE = 20  # certificates without progress at the tightest lassos


def solve_block_descent(form: Problem, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the first pair with a duality gap of at most `gap`, or the best one met.

    References
    ----------
    Friedman, Hastie and Tibshirani (2008), algorithm 1; Sustik and Calderhead (2012).
    """
    from dp_learn.glasso._column_kernels import sweep_columns  # half a second, and kernels

    s, penalty = form.covariance, form.penalty
    w = safe = start.w
    coefficients = _regress(start.theta, len(s))
    best = None

    loosest, tol = LOOSEST, LOOSEST
    target, next_check, failures, idle = FIRST_CHECK * gap, CHECK_EVERY, 0, 0

    for n_iter in range(1, max_iter + 1):
        if w is safe:
            w = safe.copy()
        increase, definite = sweep_columns(s, penalty, w, coefficients, tol)
        if definite:
            step = math.sqrt(increase / len(s)) * float(coefficients.variance.min())
            tol = max(TIGHTEST, min(loosest, 0.03 * step))  # a small part of a typical step
            if increase > target and n_iter < next_check and n_iter < max_iter:
                continue
            theta = _precision(coefficients)
            value, reached = form.certify(theta, w)
            if reached <= gap:
                return Answer(theta, w, value, reached, n_iter, Status.OPTIMAL)
            next_check = n_iter + CHECK_EVERY
            target = 0.5 * increase * gap / reached if reached < math.inf else 0.1 * increase
            definite = reached < math.inf or is_positive_definite(w)

        if not definite:  # a lasso was solved too loosely for so ill-conditioned a matrix: go back, and tighter
            failures += 1
            loosest = tol = max(TIGHTEST, 1e-2 * loosest)
            w = safe
            if failures > MAX_FAILURES:
                return _ended(form, start, best, n_iter, Status.STALLED)
            continue

        safe = w
        reached_before = math.inf if best is None else best.duality_gap
        idle = idle + 1 if reached > 0.99 * reached_before and tol <= TIGHTEST else 0
        if reached < reached_before:
            best = Answer(theta, w, value, reached, n_iter, Status.MAX_ITER)
        if idle >= MAX_IDLE:
            return _ended(form, start, best, n_iter, Status.STALLED)
    return _ended(form, start, best, max_iter, Status.MAX_ITER)


def _regress(theta: FloatArray | None, p: int) -> Coefficients:
    """Return the regression coefficients and residual variances that belong to a precision matrix."""
    from dp_learn.glasso._column_kernels import Coefficients

    column, value, length = np.empty((p, p), dtype=np.int32), np.empty((p, p)), np.zeros(p, dtype=np.int64)
    if theta is None:
        return Coefficients(column, value, length, np.ones(p))
    variance, linked = 1.0 / theta.diagonal(), theta != 0.0
    np.fill_diagonal(linked, val=False)
    length[:] = linked.sum(axis=1)
    rows, others = np.nonzero(linked)
    places = np.arange(rows.size) - np.repeat(np.cumsum(length) - length, length)
    column[rows, places], value[rows, places] = others, theta[rows, others] * -variance[rows]
    return Coefficients(column, value, length, variance)


def _precision(regression: Coefficients) -> FloatArray:
    """Return the symmetric precision matrix: an entry is kept where both columns agree on its sign."""
    column, value, length, variance = regression
    width = length.max()
    used = np.arange(width) < length[:, None]
    rows = np.repeat(np.arange(length.size), length)
    half = np.diag(0.5 / variance)
    half[rows, column[:, :width][used]] = value[:, :width][used] * (-0.5 / variance[rows])
    theta: FloatArray = half + half.T
    theta[half * half.T <= 0.0] = 0.0
    return theta


def _ended(form: Problem, start: Start, best: Answer | None, n_iter: int, status: Status) -> Answer:
    """Return the best pair, or without any the identity and the start."""
    if best is None:
        theta = np.eye(start.w.shape[0])
        value, reached = form.certify(theta, start.w)
        best = Answer(theta, start.w, value, reached, 0, status)
    return Answer(best.theta, best.w, best.objective, best.duality_gap, n_iter, status)


SOLVERS: dict[str, Solver] = dict(zip(SOLVER_NAMES, (solve_block_descent, solve_admm), strict=True))


PACK = 100  # nodes
_SEVERITY = list(Status)  # the worst component names the status of the whole


def _packed(components: list[Places]) -> Iterator[Places]:
    """Yield the nodes of large components, and of several small ones together, as every step has a price."""
    pack: list[Places] = []
    for nodes in components:
        if nodes.size > PACK:
            yield nodes
            continue
        if sum(map(len, pack)) + nodes.size > PACK:
            yield np.concatenate(pack)
            pack = []
        pack.append(nodes)
    if pack:
        yield np.concatenate(pack)


def solve_by_components(
    problem: Problem,
    method: Callable[..., Answer | None],
    name: str,
    *,
    tol: float,
    max_iter: int,
    start: Solution | None,
) -> Solution | None:
    """Solve a checked problem with settings that are checked; None where a component has no solution.

    The method takes a problem and a `Start` or None, and by name a duality gap and the most iterations. The name is
    that of the solver, where answers name none.
    """
    if not (problem.variances > 0.0).all():
        return None
    components = split_components(problem.linked)
    parts = list(_packed(components))
    precision, w = np.zeros_like(problem.covariance), np.zeros_like(problem.covariance)
    objective, gap, n_iter, status, used = 0.0, 0.0, 0, Status.OPTIMAL, set[str]()

    place: Any
    for nodes in parts:
        part, place = problem, (slice(None), slice(None))
        if len(parts) > 1:  # copies of a large one take long
            part, index = problem.restrict(nodes)
            place = np.ix_(index, index)
        first = None if start is None else Start(start.covariance[place], start.precision[place])
        answer = method(part, first, gap=tol * len(part.covariance), max_iter=max_iter)
        if answer is None:
            return None
        precision[place], w[place] = answer.theta, answer.w
        objective, gap, n_iter = objective + answer.objective, gap + answer.duality_gap, max(n_iter, answer.n_iter)
        status = max(status, answer.status, key=_SEVERITY.index)
        used.update(answer.solvers)

    if gap <= tol * problem.n_features:
        status = Status.OPTIMAL
    name = ", ".join(each for each in SOLVER_NAMES if each in used) or name
    return Solution(precision, w, objective, gap, n_iter, status, problem.alpha, name, len(components))


_MARGIN = 1.05  # above the smallest penalty that has a solution, where the solution is still far from singular
_LEAST_SHARE = 0.01
_SHARE_RTOL = 1e-2  # a fifth of the margin
_DESCENTS, _MOST, _LITTLE = 30, 0.9, 0.02  # steps; shares of an eigenvalue taken at once, and not worth another step
_ROUGH, _ROUGH_ITER = 1e-3, 100
_LEAST_RAISE = 1e-8  # of a variance


@dataclass(frozen=True, eq=False)
class GraphFit:
    """A fit on a graph.

    Attributes
    ----------
    precision : ndarray of shape (n_features, n_features)
        Zero where the graph has no edge.
    share : float
        Which share of the penalty was kept: 0 unless the matrix is so indefinite on the graph that it has no
        unpenalised fit.
    """

    precision: FloatArray
    share: float


def fit_on_graph(
    matrix: FloatArray,
    edges: Mask,
    penalty: FloatArray,
    *,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    start: Solution | None = None,
) -> GraphFit | None:
    """Return the fit on a graph with the smallest share of a penalty that has one; None if not even all of it has.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_features)
        The debiased matrix, possibly indefinite.
    edges : ndarray of bool, shape (n_features, n_features)
        The graph; its diagonal does not matter.
    penalty : ndarray of shape (n_features, n_features)
        The whole penalty of every entry, diagonal included.
    solver, tol, max_iter, start
        As in `graphical_lasso`.
    """
    share, definite = 0.0, is_positive_definite(matrix)
    known = start if definite else find_start(matrix, _restrict(0.0, edges), solver=solver, start=start)

    while share < 1.0:
        solution = None
        if share > 0.0 or definite or known is not None:
            solution = solve_on_graph(
                matrix,
                edges,
                share * penalty if share > 0.0 else 0.0,
                solver=solver,
                tol=tol,
                max_iter=max_iter,
                start=known or start,
            )

        if solution is not None and solution.converged:
            return GraphFit(solution.precision, share)

        smallest = 0.0
        if solution is None:
            smallest = smallest_solvable_alpha(matrix, weights=_restrict(penalty, edges), rtol=_SHARE_RTOL)
        share = max(_MARGIN * smallest, 2.0 * share, _LEAST_SHARE)
    return None


def solve_on_graph(
    matrix: FloatArray,
    edges: Mask,
    penalty: FloatArray | float = 0.0,
    *,
    solver: str = "auto",
    tol: float = 1e-6,
    max_iter: int = 10_000,
    start: Solution | None = None,
    n_nodes: int | None = None,
) -> Solution | None:
    """Return the fit on a graph, its entries penalised or not; None if there is none.

    See `solve` for `n_nodes`.
    """
    restricted, s = _restrict(penalty, edges), check_covariance(matrix, copy=False)
    check_free_diagonal(s, restricted)
    problem = Problem(s, restricted, 1.0)
    return solve(problem, solver=solver, tol=tol, max_iter=max_iter, start=start, n_nodes=n_nodes)


def find_start(
    matrix: FloatArray, penalty: FloatArray, *, solver: str = "auto", start: Solution | None = None
) -> Solution | None:
    """Return a start for an indefinite matrix and a penalty that leaves its diagonal free; None if none was found.

    With its variances raised enough the matrix has a fit, whose own covariance is further from singular than the matrix
    itself was. Lowering the variances by most of its smallest eigenvalue gives the start of the next fit. This ends at
    variances that are raised no more, or where nothing is gained because the matrix has no fit.
    """
    variances = np.diagonal(matrix)
    unit = np.outer(np.sqrt(variances), np.sqrt(variances))
    raised = max(-2.0 * smallest_eigenvalue(matrix / unit), _LEAST_RAISE)
    found = start
    for _ in range(_DESCENTS):
        problem = make_problem(matrix + np.diag(raised * variances), 1.0, weights=penalty, penalize_diagonal=False)
        found = solve(problem, solver=solver, tol=_ROUGH, max_iter=_ROUGH_ITER, start=found)
        if found is None or not found.converged:
            return None

        gained = _MOST * smallest_eigenvalue(found.covariance / unit)
        found = replace(found, covariance=found.covariance - np.diag(min(gained, raised) * variances))
        if gained >= raised:
            return found
        if gained < _LITTLE * raised:
            return None
        raised -= gained
    return None


def _restrict(penalty: FloatArray | float, edges: Mask) -> FloatArray:
    """Return the penalty with every entry forbidden that is neither an edge nor on the diagonal."""
    return np.where(edges | np.eye(len(edges), dtype=bool), penalty, np.inf)
