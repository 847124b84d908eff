"""Proximal Newton, in the manner of QUIC: minimise the quadratic model, then go along the line to its minimum.

The line search holds Theta positive definite. Before every step Theta is multiplied by the number that lowers the
objective most, ``p / (<S, Theta> + sum_ij L_ij |Theta_ij|)``: close to the boundary of solvability, where Theta is
huge, this replaces many steps. The model's own dual matrix, ``W - W D W`` up to what the model's gap allows, lies in
the box and is within O(||D||^2) of the inverse of the next Theta: it makes the certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from dp_bundle.base.kernels import njit
from dp_learn.glasso.feasibility import soft_threshold
from dp_learn.glasso.problem import Status, objective
from dp_learn.glasso.solvers.standard_form import Answer, Incumbent, StandardForm, Start
from dp_learn.matrices.linalg import (
    Anderson,
    Array,
    FloatArray,
    balancing_factor,
    eigendecomposition,
    is_positive_definite,
)

MODEL_RTOL = 0.1  # the model is solved to this share of the decrease that it promises
MODEL_SHARE = 0.3  # but not beyond this share of the gap asked for,
LARGEST_GAP = 0.1  # or of this one: the model's dual matrix is sure to be definite only where gaps are well below one
SUFFICIENT = 1e-3  # Armijo's constant
SHORTEST = 1e-10  # step
ROUNDING = 1e-13  # relative to the objective and the number of columns
PATIENCE, LITTLE = 100, 0.9  # so many steps must lower the gap by a tenth: rounding stops what does not
MAX_IDLE = 5  # steps that promised no more than rounding and did not halve the gap
MAX_PASSES = 20  # of coordinate descent
FAST = 0.3  # a pass that lowers the model by less than this share of the pass before is worth another one
RELAXATION = 1.6
MAX_SPLITTING_STEPS = 500
CHECK_EVERY = 5  # splitting steps between two evaluations of the bounds
BALANCE_EVERY = 10  # splitting steps between two changes of rho


@np.errstate(over="ignore", invalid="ignore")  # a step that overflows is not taken
def solve_newton(form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the first pair with a duality gap of at most `gap`, or the best one met.

    References
    ----------
    Hsieh, Sustik, Dhillon and Ravikumar (2014); Lee, Sun and Saunders (2014) for inexact models.
    """
    s, penalty = form.covariance, form.penalty
    p = s.shape[0]
    incumbent = Incumbent(form, start)

    theta = np.eye(p) if start.theta is None or not is_positive_definite(start.theta) else start.theta
    theta = _rescaled(form, theta)
    value, rho, idle = incumbent.offer_theta(theta), 1.0, 0
    atol, earlier = MODEL_SHARE * min(gap, LARGEST_GAP), math.inf

    for n_iter in range(1, max_iter + 1):
        before = incumbent.duality_gap
        if before <= gap:
            return incumbent.answer(n_iter - 1, Status.OPTIMAL)

        w = _inverse(theta)
        if not (np.isfinite(w).all() and (w.diagonal() > 0.0).all()):  # singular in double precision
            return incumbent.answer(n_iter - 1, Status.STALLED)

        model = NewtonModel(s, penalty, theta, w)
        minimum = minimise_model(model, rho=rho, rtol=MODEL_RTOL, atol=atol)
        rho = minimum.rho
        incumbent.offer_w(minimum.v)
        slack = ROUNDING * (abs(value) + p)
        theta = _rescaled(form, _line_search(form, theta, minimum, value + slack))
        value = incumbent.offer_theta(theta)
        if incumbent.duality_gap <= gap:
            return incumbent.answer(n_iter, Status.OPTIMAL)

        idle = idle + 1 if minimum.decrease <= slack and incumbent.duality_gap > 0.5 * before else 0
        if idle >= MAX_IDLE:
            return incumbent.answer(n_iter, Status.STALLED)
        if n_iter % PATIENCE == 0:
            if incumbent.duality_gap > LITTLE * earlier:
                return incumbent.answer(n_iter, Status.STALLED)
            earlier = incumbent.duality_gap
    return incumbent.answer(max_iter, Status.MAX_ITER)


def _rescaled(form: StandardForm, theta: FloatArray) -> FloatArray:
    """Return the multiple of `theta` with the lowest objective."""
    nonzero = theta != 0.0
    t = theta[nonzero]
    linear = float(form.covariance[nonzero] @ t + form.penalty[nonzero] @ np.abs(t))
    if not linear > 0.0:  # it is at least <start.w, theta>, but for rounding
        return theta
    scaled: FloatArray = theta * (theta.shape[0] / linear)
    return scaled


def _inverse(theta: FloatArray) -> FloatArray:
    """Return the exactly symmetric inverse of a positive definite matrix."""
    half = dpotri(dpotrf(theta.T, lower=1)[0], lower=1)[0]
    lower = np.tril(half)
    inverse: FloatArray = np.ascontiguousarray(lower + np.tril(lower, -1).T)
    return inverse


def _line_search(form: StandardForm, theta: FloatArray, minimum: ModelMinimum, value: float) -> FloatArray:
    """Return the first of the points half as far each that lowers the objective enough, or `theta` where none does."""
    length = 1.0
    while length > SHORTEST:
        candidate = minimum.x if length == 1.0 else theta + length * (minimum.x - theta)
        if objective(form, candidate) <= value - SUFFICIENT * length * minimum.decrease:
            return candidate
        length *= 0.5
    return theta


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


@njit(cache=True, fastmath={"reassoc", "contract"})
def descend_once(S: Array, L: Array, W: Array, X: Array, U: Array, rows: Array, cols: Array) -> float:
    """Minimise ``<S - W, D> + 1/2 <W D W, D> + sum L |X|`` along each chosen entry of X in turn, once.

    The entries are (rows[k], cols[k]) with rows <= cols, sorted by column; their penalties are finite. Overwrites X and
    U; returns by how much the model fell.
    """
    p = S.shape[0]
    u = np.empty(p)
    column = -1
    decrease = 0.0

    for entry in range(rows.shape[0]):
        i, j = rows[entry], cols[entry]
        if j != column:
            column = j
            for k in range(p):
                u[k] = U[k, j]

        # the slope and the curvature along the entry and its mirror image
        curvature = 0.0
        for k in range(p):
            curvature += W[i, k] * u[k]
        slope = S[i, j] - W[i, j] + curvature
        a = W[i, j] * W[i, j]
        if i != j:
            a += W[i, i] * W[j, j]

        # the minimum along it
        old = X[i, j]
        z = old - slope / a
        threshold = L[i, j] / a
        if z > threshold:
            new = z - threshold
        elif z < -threshold:
            new = z + threshold
        else:
            new = 0.0
        step = new - old
        if step == 0.0:
            continue

        # the step
        gain = L[i, j] * (abs(old) - abs(new)) - step * (slope + 0.5 * a * step)
        X[i, j] = new
        for k in range(p):
            U[i, k] += step * W[j, k]
        u[i] += step * W[j, j]
        if i != j:
            X[j, i] = new
            for k in range(p):
                U[j, k] += step * W[i, k]
            u[j] += step * W[i, j]
            gain *= 2.0
        decrease += gain
    return decrease
