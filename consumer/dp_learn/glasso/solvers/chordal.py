"""The unpenalised fit on a chordal graph, which is known in closed form: no iteration, however nearly singular S is.

A graph is chordal if its columns have an order in which the earlier neighbours of each are all neighbours of each
other; trees and complete graphs are. Every column is then regressed on its earlier neighbours alone.

References
----------
Lauritzen (1996), Graphical Models, section 5.3.2. Tarjan & Yannakakis (1984), Simple linear-time algorithms to test
chordality of graphs, SIAM Journal on Computing 13(3), for the order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dp_learn.glasso.problem import Problem, Status
from dp_learn.glasso.solvers.answers import Answer


def solve_on_chordal_graph(form: Problem, *, gap: float) -> Answer | None:
    """Return the fit where every entry is either free or forbidden and the free ones are a chordal graph, else None.

    Its status is `stalled` where rounding alone keeps the gap from being proven: no iteration could do better.
    """
    s, penalty = form.covariance, form.penalty
    free = penalty == 0.0
    if not (free | np.isinf(penalty)).all():
        return None

    order = _cardinality_order(free)
    theta, w, before = np.zeros_like(s), np.zeros_like(s), np.zeros(len(s), dtype=np.bool_)
    for column in order:
        earlier, near = np.flatnonzero(before), np.flatnonzero(before & free[column])
        before[column] = True
        if not free[np.ix_(near, near)].all():
            return None

        try:
            beta = np.linalg.solve(s[np.ix_(near, near)], s[near, column]) if near.size else np.empty(0)
        except np.linalg.LinAlgError:
            return None
        variance = 1.0 - float(s[near, column] @ beta)
        if not variance > 0.0:
            return None

        residual = np.append(1.0, -beta)
        own = np.append(column, near)
        theta[np.ix_(own, own)] += np.outer(residual, residual / variance)
        w[column, earlier] = w[earlier, column] = w[np.ix_(earlier, near)] @ beta
        w[column, near] = w[near, column] = s[near, column]
        w[column, column] = 1.0

    theta = 0.5 * (theta + theta.T)
    value, reached = form.certify(theta, w)
    if not np.isfinite(reached):
        return None
    return Answer(theta, w, value, reached, 1, Status.OPTIMAL if reached <= gap else Status.STALLED)


def _cardinality_order(free: npt.NDArray[np.bool_]) -> list[int]:
    """Return the columns, each time the one with the most neighbours before it."""
    count, order = np.zeros(len(free), dtype=np.int64), []
    for _ in range(len(free)):
        column = int(np.argmax(count))
        order.append(column)
        count += free[column]
        count[order] = -1
    return order
