"""The alternating direction method of multipliers for the group problem: for what gradient steps are slow at.

It is the method of `admm` with the norms of blocks in place of absolute values, and needs no feasible start: in every
step ``S + rho U`` is dual feasible, and positive definite before long if there is a solution.
"""

from __future__ import annotations

import numpy as np

from dp_learn.glasso.groups import GroupProblem
from dp_learn.glasso.solvers.admm import proximal_step
from dp_learn.glasso.solvers.group_descent import GroupIncumbent
from dp_learn.matrices.linalg import Anderson, balancing_factor

RELAXATION = 1.6
CHECK_EVERY, BALANCE_EVERY = 5, 10
LARGEST = 1e12  # in units in which variances are one


def solve_group_admm(
    problem: GroupProblem, best: GroupIncumbent, *, gap: float, max_iter: int, feasible_only: bool = False
) -> int:
    """Improve a certified pair until its gap is reached or no solution exists; return the number of iterations.

    With `feasible_only` the search ends at the first positive definite matrix that is dual feasible.
    """
    s, p = problem.covariance, len(problem.covariance)
    anderson, rho = Anderson(p), 1.0
    theta = best.theta if best.theta is not None else np.eye(p)
    h = theta + ((best.w if best.w is not None else s) - s) / rho

    for n_iter in range(1, max_iter + 1):
        z = problem.shrink(h, 1.0 / rho)
        u = h - z

        if n_iter % CHECK_EVERY == 1 or n_iter == max_iter:
            best.offer_theta(z)
            best.offer_w(problem.project(s + rho * u))
            if best.unbounded or best.duality_gap <= gap or (feasible_only and best.w is not None):
                return n_iter

        x = proximal_step(rho * (z - u) - s, rho)
        h = anderson.next_point(h, RELAXATION * x + (1.0 - RELAXATION) * z + u)
        if not np.abs(h).max() < LARGEST:  # which only goes on where there is no solution
            return n_iter

        if n_iter % BALANCE_EVERY == 0 and n_iter <= max_iter // 2:
            after = problem.shrink(h, 1.0 / rho)
            multiple = balancing_factor(x - z, z, after - z, h - after)
            if multiple != 1.0:
                rho, h = rho * multiple, after + (h - after) / multiple
                anderson.forget()
    return max_iter
