"""Exact screening into connected components, each solved apart.

References
----------
Witten, Friedman & Simon (2011), New insights and faster computations for the graphical lasso, JCGS 20(4). Mazumder &
Hastie (2012), Exact covariance thresholding into connected components, JMLR 13. Their theorems hold for indefinite S as
well, and for blocks: zeros between components are dual feasible.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_learn.glasso.problem import IndexArray, Problem, Solution, Status
from dp_learn.glasso.solver_names import SOLVER_NAMES
from dp_learn.glasso.solvers.answers import Answer, Start
from dp_learn.matrices.linalg import FEW

PACK = 100  # nodes
_SEVERITY = list(Status)  # the worst component names the status of the whole


def split_components(linked: npt.NDArray[np.bool_]) -> list[IndexArray]:
    """Return the nodes of each connected component of a graph, given which two are linked, shape (G, G)."""
    if len(linked) <= FEW:  # whose users do without scipy
        linked = linked | np.eye(len(linked), dtype=bool)
        while not np.array_equal(further := linked @ linked, linked):  # twice as far every time
            linked = further
        label = np.unique(linked.argmax(axis=1), return_inverse=True)[1]
    else:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        label = connected_components(csr_array(linked.astype(np.int8)), directed=False)[1].astype(np.intp)
    order = np.argsort(label, kind="stable")
    return np.split(order, np.cumsum(np.bincount(label))[:-1])


def _packed(components: list[IndexArray]) -> Iterator[IndexArray]:
    """Yield the nodes of large components, and of several small ones together, as every step has a price."""
    pack: list[IndexArray] = []
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
