"""The quadratic model of the graphical lasso around a precision matrix, and its minimum between proven bounds.

    m(X) = <S - W, D> + 1/2 <W D W, D> + sum_ij L_ij |X_ij|,   D = X - Theta,   W = Theta^-1

A matrix V of the box ``|V - S| <= L`` bounds it from below, with ``R = V - W``:
``m >= <V - S, Theta> - 1/2 <Theta R Theta, R>``. At the minimum ``V = W - W D W``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_learn.glasso.feasibility import soft_threshold
from dp_learn.glasso.solvers._newton_kernels import descend_once
from dp_learn.matrices.linalg import Anderson, FloatArray, balancing_factor, eigendecomposition

MAX_PASSES = 20  # of coordinate descent
FAST = 0.3  # a pass that lowers the model by less than this share of the pass before is worth another one
RELAXATION = 1.6
MAX_SPLITTING_STEPS = 500
CHECK_EVERY = 5  # splitting steps between two evaluations of the bounds
BALANCE_EVERY = 10  # splitting steps between two changes of rho


@dataclass(frozen=True, eq=False)
class NewtonModel:
    """The model: all shape (p, p), `w` the inverse of `theta`."""

    s: FloatArray
    penalty: FloatArray
    theta: FloatArray
    w: FloatArray

    def in_units(self, root: FloatArray) -> NewtonModel:
        """Return the model with column i of a dual matrix multiplied by ``root[i]``, its row too."""
        factor = np.outer(root, root)
        return NewtonModel(self.s * factor, self.penalty * factor, self.theta / factor, self.w * factor)

    def decrease(self, x: FloatArray, u: FloatArray) -> float:
        """Return ``m(Theta) - m(X)``, given ``U = D W``."""
        linear = float(np.vdot(self.s - self.w, x - self.theta))
        return self._norm(self.theta) - self._norm(x) - linear - 0.5 * float(np.vdot(u, u.T))

    def decrease_bound(self, v: FloatArray) -> float:
        """Return a number that ``m(Theta) - m`` exceeds nowhere, from a matrix of the box."""
        bent = self.theta @ (v - self.w)
        curved = 0.5 * float(np.vdot(bent, bent.T))
        return self._norm(self.theta) - float(np.vdot(v - self.s, self.theta)) + curved

    def dual_matrix(self, u: FloatArray) -> FloatArray:
        """Return ``W - W D W``, moved into the box, given ``U = D W``."""
        bent = self.w @ u
        v = self.w - 0.5 * (bent + bent.T)
        return self.s + np.clip(v - self.s, -self.penalty, self.penalty)

    def _norm(self, x: FloatArray) -> float:
        nonzero = x != 0.0
        return float(self.penalty[nonzero] @ np.abs(x[nonzero]))


@dataclass(frozen=True, eq=False)
class ModelMinimum:
    """The point found, a matrix of the box that bounds its error, and the rho to begin with next time."""

    x: FloatArray
    v: FloatArray
    decrease: float
    rho: float


def minimise_model(model: NewtonModel, *, rho: float, rtol: float, atol: float) -> ModelMinimum:
    """Return the minimum of the model within a tolerance.

    Coordinate descent on the free entries, as long as its passes gain enough; after that a splitting method, whose
    steps cost four matrix products each and do not depend on the condition of W.

    Parameters
    ----------
    model : Model
        What is to be minimised.
    rho : float
        First penalty parameter of the splitting method.
    rtol, atol : float
        The model is solved once its error is proven to be at most ``rtol`` times the decrease, or ``atol``.

    References
    ----------
    Hsieh, Sustik, Dhillon and Ravikumar (2014), sections 3.2 to 3.4.
    """
    x, u = _descend(model, rtol)
    minimum = ModelMinimum(x, model.dual_matrix(u), model.decrease(x, u), rho)
    bound = model.decrease_bound(minimum.v)
    if bound - minimum.decrease <= max(rtol * minimum.decrease, atol):
        return minimum
    return _split(model, minimum, bound, rtol=rtol, atol=atol)


def _descend(model: NewtonModel, rtol: float) -> tuple[FloatArray, FloatArray]:
    """Return the point at which coordinate descent on the free entries becomes slow, and ``D W`` there."""
    free = (model.theta != 0.0) | (np.abs(model.s - model.w) > model.penalty)
    cols, rows = np.nonzero(np.tril(free))
    x, u = model.theta.copy(), np.zeros_like(model.w)
    total = before = 0.0
    for _ in range(MAX_PASSES):
        fell = descend_once(model.s, model.penalty, model.w, x, u, rows, cols)
        total += fell
        if fell <= 0.1 * rtol * total or (before > 0.0 and fell > FAST * before):
            break
        before = fell
    return x, u


def _split(model: NewtonModel, first: ModelMinimum, most: float, *, rtol: float, atol: float) -> ModelMinimum:
    """Go on by ADMM with Anderson acceleration, in units in which Theta and W have the same diagonal."""
    root = (model.theta.diagonal() / model.w.diagonal()) ** 0.25
    factor = np.outer(root, root)
    scaled = model.in_units(root)
    d, q = eigendecomposition(scaled.w)
    curvature = np.outer(d, d)
    linear = q.T @ (2.0 * scaled.w - scaled.s) @ q

    best_x, best_v, least, rho = first.x, first.v, first.decrease, first.rho
    anderson = Anderson(root.size)
    h = best_x / factor + (best_v * factor - scaled.s) / rho

    for n_iter in range(MAX_SPLITTING_STEPS):
        z = soft_threshold(h, scaled.penalty / rho)
        dual = h - z
        if n_iter % CHECK_EVERY == 0:
            v = scaled.s + rho * dual
            decrease, bound = scaled.decrease(z, (z - scaled.theta) @ scaled.w), scaled.decrease_bound(v)
            if decrease > least:
                best_x, least = z * factor, decrease
            if bound < most:
                best_v, most = v / factor, bound
            if most - least <= max(rtol * least, atol):
                break

        free = q @ ((rho * (q.T @ (z - dual) @ q) + linear) / (curvature + rho)) @ q.T
        free = 0.5 * (free + free.T)
        h = anderson.next_point(h, RELAXATION * free + (1.0 - RELAXATION) * z + dual)

        if n_iter % BALANCE_EVERY == BALANCE_EVERY - 1:
            after = soft_threshold(h, scaled.penalty / rho)
            multiple = balancing_factor(free - z, z, after - z, h - after)
            if multiple != 1.0:
                rho, h = rho * multiple, after + (h - after) / multiple
                anderson.forget()
    return ModelMinimum(best_x, best_v, least, rho)
