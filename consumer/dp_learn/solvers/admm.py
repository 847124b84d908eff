"""The alternating direction method of multipliers, with over-relaxation and a rho that balances the residuals.

    X <- argmin -logdet X + <S, X> + rho/2 ||X - Z + U||^2      one eigendecomposition
    Z <- soft(X^ + U, L / rho),   X^ = a X + (1 - a) Z          the sparse iterate, which is returned
    U <- U + X^ - Z

After every step ``S + rho U`` lies in the box ``|W - S| <= L``: the dual matrix of the certificate costs nothing.
"""

from __future__ import annotations

import numpy as np

from dp_learn.feasibility import soft_threshold
from dp_learn.linalg import FloatArray, balancing_factor, eigendecomposition
from dp_learn.problem import certify
from dp_learn.solution import Status
from dp_learn.solvers.standard_form import Answer, StandardForm, Start

__all__ = ["solve_admm"]

RELAXATION = 1.6
CHECK_EVERY = 5  # iterations between two certificates
BALANCE_EVERY = 10  # iterations between two changes of rho


def solve_admm(form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the first pair with a duality gap of at most `gap`, or the best one met.

    References
    ----------
    Boyd, Parikh, Chu, Peleato and Eckstein (2011), sections 3.4 and 6.5.
    """
    s, penalty = form.covariance, form.penalty
    rho, balance_until = 1.0, max_iter // 2
    z = np.eye(s.shape[0]) if start.theta is None else start.theta
    u = start.w - s
    best = _certified(form, np.eye(s.shape[0]), start.w, 0)
    for n_iter in range(1, max_iter + 1):
        x = _proximal_step(rho * (z - u) - s, rho)
        before, target = z, RELAXATION * x + (1.0 - RELAXATION) * z + u
        z = soft_threshold(target, penalty / rho)
        u = target - z
        if n_iter % CHECK_EVERY == 0 or n_iter == max_iter:
            answer = _certified(form, z, s + rho * u, n_iter)
            if answer.duality_gap < best.duality_gap:
                best = answer
            if best.duality_gap <= gap:
                return _ended(best, n_iter, Status.OPTIMAL)
        if n_iter % BALANCE_EVERY == 0 and n_iter <= balance_until:
            factor = balancing_factor(x - z, z, z - before, u)
            rho, u = rho * factor, u / factor
    return _ended(best, max_iter, Status.MAX_ITER)


def _proximal_step(m: FloatArray, rho: float) -> FloatArray:
    """Return the positive definite X with ``rho X - X^-1 = M``, on the eigenvectors of M."""
    d, q = eigendecomposition(m)
    root: FloatArray = q * np.sqrt((d + np.sqrt(d * d + 4.0 * rho)) / (2.0 * rho))
    return root @ root.T


def _certified(form: StandardForm, theta: FloatArray, w: FloatArray, n_iter: int) -> Answer:
    value, reached = certify(form.covariance, form.penalty, theta, w)
    return Answer(theta, w, value, reached, n_iter, Status.MAX_ITER)


def _ended(best: Answer, n_iter: int, status: Status) -> Answer:
    return Answer(best.theta, best.w, best.objective, max(best.duality_gap, 0.0), n_iter, status)
