"""The alternating direction method of multipliers: over-relaxed, balanced, rescaled and accelerated.

    Z <- soft(H, L / rho),   U <- H - Z                       Z is the sparse iterate, which is returned
    X <- argmin -logdet X + <S, X> + rho/2 ||X - Z + U||^2    one eigendecomposition
    H <- a X + (1 - a) Z + U

In every step ``S + rho U`` lies in the box ``|W - S| <= L``: the dual matrix of the certificate costs nothing. The
iteration is a map of H alone, so that Anderson acceleration applies to it. Near the boundary of solvability some
columns of Theta are far larger than others; a change to units in which Theta and W have the same diagonal, made ever
more rarely, lets one rho serve all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dp_learn.glasso.feasibility import soft_threshold
from dp_learn.glasso.problem import Status
from dp_learn.glasso.solvers.best_pair import Incumbent
from dp_learn.glasso.solvers.standard_form import Answer, StandardForm, Start
from dp_learn.matrices.linalg import Anderson, FloatArray, balancing_factor, eigendecomposition

RELAXATION = 1.6
CHECK_EVERY = 5  # iterations between two certificates
PATIENCE, LITTLE = 1000, 0.9  # so many iterations must lower the gap by a tenth: rounding stops what does not
BALANCE_EVERY = 10  # iterations between two changes of rho
FIRST_CHANGE_OF_UNITS = 10  # the next at twice as many iterations


@dataclass
class _Units:
    """The problem in the units of the moment; ``outer`` takes a dual matrix there and a precision matrix back."""

    s: FloatArray
    penalty: FloatArray
    outer: FloatArray

    def change(self, theta: FloatArray, w: FloatArray) -> FloatArray:
        """Go to the units in which both diagonals, given in the present ones, agree; return the factor of W."""
        root = (theta.diagonal() / w.diagonal()) ** 0.25
        factor: FloatArray = np.outer(root, root)
        self.s, self.penalty, self.outer = self.s * factor, self.penalty * factor, self.outer * factor
        return factor


def solve_admm(form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the first pair with a duality gap of at most `gap`, or the best one met.

    References
    ----------
    Boyd, Parikh, Chu, Peleato and Eckstein (2011), sections 3.4 and 6.5; Zhang, O'Donoghue and Boyd (2020) for the
    acceleration.
    """
    units = _Units(form.covariance, form.penalty, np.ones_like(start.w))
    incumbent, anderson = Incumbent(form, start), Anderson(start.w.shape[0])

    rho, balance_until, next_change = 1.0, max_iter // 2, FIRST_CHANGE_OF_UNITS
    before = math.inf

    theta, w = np.eye(start.w.shape[0]), start.w
    if start.theta is not None and (start.theta.diagonal() > 0.0).all():
        factor = units.change(start.theta, w)
        theta, w = start.theta / factor, w * factor
    h = theta + (w - units.s) / rho

    for n_iter in range(1, max_iter + 1):
        z = soft_threshold(h, units.penalty / rho)
        u = h - z

        if n_iter % CHECK_EVERY == 1 or n_iter == max_iter:
            incumbent.offer_theta(z * units.outer)
            incumbent.offer_w((units.s + rho * u) / units.outer)
            if incumbent.duality_gap <= gap:
                return incumbent.answer(n_iter, Status.OPTIMAL)
        if n_iter % PATIENCE == 0:
            if incumbent.duality_gap > LITTLE * before:
                return incumbent.answer(n_iter, Status.STALLED)
            before = incumbent.duality_gap

        x = proximal_step(rho * (z - u) - units.s, rho)
        h = anderson.next_point(h, RELAXATION * x + (1.0 - RELAXATION) * z + u)

        if n_iter % BALANCE_EVERY == 0 and n_iter <= balance_until:
            after = soft_threshold(h, units.penalty / rho)
            multiple = balancing_factor(x - z, z, after - z, h - after)
            if n_iter >= next_change:
                next_change *= 2
                factor = units.change(x, units.s + rho * (h - after))
                h = after / factor + (h - after) * factor
                anderson.forget()
            elif multiple != 1.0:
                rho *= multiple
                h = after + (h - after) / multiple
                anderson.forget()
    return incumbent.answer(max_iter, Status.MAX_ITER)


def proximal_step(m: FloatArray, rho: float) -> FloatArray:
    """Return the positive definite X with ``rho X - X^-1 = M``, on the eigenvectors of M."""
    d, q = eigendecomposition(m)
    root: FloatArray = q * np.sqrt((d + np.sqrt(d * d + 4.0 * rho)) / (2.0 * rho))
    return root @ root.T
