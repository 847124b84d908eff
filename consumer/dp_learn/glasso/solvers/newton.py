"""Proximal Newton, in the manner of QUIC: minimise the quadratic model, then go along the line to its minimum.

The line search holds Theta positive definite. Before every step Theta is multiplied by the number that lowers the
objective most, ``p / (<S, Theta> + sum_ij L_ij |Theta_ij|)``: close to the boundary of solvability, where Theta is
huge, this replaces many steps. The model's own dual matrix, ``W - W D W`` up to what the model's gap allows, lies in
the box and is within O(||D||^2) of the inverse of the next Theta: it makes the certificate.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from dp_learn.glasso.problem import Status, objective
from dp_learn.glasso.solvers.newton_model import ModelMinimum, NewtonModel, minimise_model
from dp_learn.glasso.solvers.standard_form import Answer, Incumbent, StandardForm, Start
from dp_learn.matrices.linalg import FloatArray, is_positive_definite

MODEL_RTOL = 0.1  # the model is solved to this share of the decrease that it promises
MODEL_SHARE = 0.3  # but not beyond this share of the gap asked for,
LARGEST_GAP = 0.1  # or of this one: the model's dual matrix is sure to be definite only where gaps are well below one
SUFFICIENT = 1e-3  # Armijo's constant
SHORTEST = 1e-10  # step
ROUNDING = 1e-13  # relative to the objective and the number of columns
PATIENCE, LITTLE = 100, 0.9  # so many steps must lower the gap by a tenth: rounding stops what does not
MAX_IDLE = 5  # steps that promised no more than rounding and did not halve the gap


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
