"""ADMM for several precision matrices that are penalised together, over-relaxed, balanced and accelerated.

    Z <- prox(H),   U <- H - Z                                       exact, entry by entry; Z is what is returned
    X_k <- argmin -logdet X + <S_k, X> + rho/2 ||X - Z_k + U_k||^2   one eigendecomposition a period
    H <- a X + (1 - a) Z + U

In units of the periods' weights the first step is the single graph's. What it subtracts is a subgradient of the
penalties at Z, so that ``S_k + rho U_k`` is dual feasible in every step, and the certificate costs nothing.
"""

from __future__ import annotations

import math

import numpy as np

from dp_learn.glasso.joint_problem import JointIncumbent, JointProblem
from dp_learn.glasso.problem import Status
from dp_learn.glasso.solvers.admm import BALANCE_EVERY, CHECK_EVERY, LARGEST, LITTLE, PATIENCE, RELAXATION
from dp_learn.matrices.linalg import Anderson, FloatArray, balancing_factor

SEARCH_ITER = 500  # without a positive definite dual matrix after these, there is no solution


def improve_jointly(
    problem: JointProblem,
    best: JointIncumbent,
    start: tuple[FloatArray, FloatArray] | None,
    *,
    gap: float,
    max_iter: int,
) -> tuple[int, Status]:
    """Improve a certified pair until its gap is reached or no solution is seen; return the iterations, and the end.

    Parameters
    ----------
    problem : JointProblem
        With variances of about one.
    best : JointIncumbent
        What is improved.
    start : tuple of ndarray, shape (K, p, p), or None
        Precision and dual matrices of a problem like this.
    gap : float
        The duality gap of all periods together.
    max_iter : int
        Most iterations.

    References
    ----------
    Danaher, Wang & Witten (2014), section 3; Boyd, Parikh, Chu, Peleato and Eckstein (2011), sections 3.4 and 6.5.
    """
    s, rho, before = problem.pack(problem.covariances), 1.0, math.inf
    if start is None:
        h = np.repeat(problem.pack(np.eye(problem.n_features)[None]), len(s), axis=0)
    else:
        h = problem.pack(start[0]) + (problem.pack(start[1]) - s) / rho
    anderson = Anderson(1, packed=s.shape)

    for n_iter in range(1, max_iter + 1):
        z = problem.shrink(h, rho)
        u = h - z

        if n_iter % CHECK_EVERY == 1 or n_iter == max_iter:
            best.offer_theta(z)
            best.offer_w(problem.unpack(s + rho * u), z)
            if best.duality_gap <= gap:
                return n_iter, Status.OPTIMAL
            if best.unbounded or (best.w is None and n_iter > SEARCH_ITER):
                return n_iter, Status.NO_SOLUTION
        if n_iter % PATIENCE == 0:
            if best.duality_gap > LITTLE * before:
                return n_iter, Status.STALLED
            before = best.duality_gap

        x = problem.pack(_proximal_steps(problem.unpack(rho * (z - u) - s), rho))
        h = anderson.next_point(h, RELAXATION * x + (1.0 - RELAXATION) * z + u)
        if not np.abs(h).max() < LARGEST:
            return n_iter, Status.NO_SOLUTION if best.w is None else Status.STALLED

        if n_iter % BALANCE_EVERY == 0 and n_iter <= max_iter // 2:
            after = problem.shrink(h, rho)
            multiple = balancing_factor(x - z, z, after - z, h - after)
            if multiple != 1.0:
                rho *= multiple
                h = after + (h - after) / multiple
                anderson.forget()
    return max_iter, Status.MAX_ITER


def _proximal_steps(m: FloatArray, rho: float) -> FloatArray:
    """Return the positive definite X with ``rho X - X^-1 = M`` of every period."""
    d, q = np.linalg.eigh(m)
    root = q * np.sqrt((d + np.sqrt(d * d + 4.0 * rho)) / (2.0 * rho))[:, None, :]
    steps: FloatArray = root @ root.transpose(0, 2, 1)
    return steps
