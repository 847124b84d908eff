"""Which mechanism has the smallest expected error for a number of rows, of columns, and a guarantee.

The error is ``||C^ - C||_F / n`` with rows in the unit ball and d coordinates. Entry-wise noise has closed forms for
the root of its mean square, which do not depend on the data:

    gaussian       (D / mu) sqrt(d (d + 1) / 2) / n          D: Frobenius sensitivity
    laplace        sqrt(2) d (D_1 / epsilon) / n             D_1: L1 sensitivity
    wishart        sqrt(m d (d + 1)) / n                     m: degrees of freedom

`eigenvectors` depends on the data's eigenvalues lambda_i, and has a bound. With exact eigenvalues as coefficients,
``||C^ - C||^2 = 2 sum lambda_i (lambda_i - u_i^T C u_i)``. By interlacing, what is in brackets is at most the distance
between the largest eigenvalue left and the vector's score, on average about (d - i + 1) / (2 kappa_i) at most; and it
is at most lambda_i less the mean of lambda_i, ..., lambda_d. Noise of scale s on d eigenvalues adds sqrt(2 d) s, and
all of it is at most sqrt(n^2 + sum lambda_i^2), as both matrices are positive semidefinite, one with a trace of at most
n. The bound is taken at eigenvalues that stand for values spread evenly within their bounds, and related: in the
proportions 1, 1/2, 1/3, ..., with the sum ``n (R^2 / 3 + c^2) / (R^2 + c^2)``. That is an assumption, which `auto`
rests on; the guarantee does not.

A pure epsilon serves a guarantee by mu if its implied mu is at most that one, and (epsilon, delta) as it is.

Nothing is read from the data. With add-remove neighbours the number of rows is private: give a public estimate.

References
----------
Amin et al. (2019), theorem 1 and corollary 1, for the rates.
"""

from __future__ import annotations

import math

import numpy as np

from dp_bundle.errors import ParameterError, PrivacyError
from dp_bundle.privacy import epsilon_for_implied_mu
from dp_publish.accounting import mu_for_epsilon_delta
from dp_publish.covariance.mechanisms.eigenvectors import EXCEPTED_DELTA
from dp_publish.covariance.mechanisms.laplace import EPSILONS, check_epsilon
from dp_publish.covariance.mechanisms.wishart_curve import degrees_tight
from dp_publish.covariance.scaling import Scaling
from dp_publish.covariance.sensitivity import frobenius_sensitivity, l1_sensitivity, nuclear_sensitivity

__all__ = ["choose_mechanism", "expected_errors"]

_MOST_FOR_EIGENVECTORS = 100  # coordinates: their time grows with the fourth power, half a minute here
_MISS = 0.05


def choose_mechanism(
    n_rows: int,
    scaling: Scaling,
    *,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    neighbours: str = "replace-one",
) -> tuple[str, str]:
    """Return the mechanism with the smallest expected error, and a sentence that says why.

    Parameters
    ----------
    n_rows : int
        The number of rows, or a public estimate of it where it is private.
    scaling : Scaling
        Where rows are put, as `scaling_for` gives it from declared bounds.
    mu, epsilon, delta : float
        The guarantee: mu, or epsilon with or without delta.
    neighbours : {"replace-one", "add-remove"}
        What it speaks of.

    Raises
    ------
    ParameterError
        Not exactly one of `mu` and `epsilon` is given, or an argument is out of range.
    """
    errors = expected_errors(n_rows, scaling, mu=mu, epsilon=epsilon, delta=delta, neighbours=neighbours)
    names = sorted(errors, key=errors.__getitem__)
    best, others = names[0], ", ".join(f"{errors[name]:.3g} for {name}" for name in names[1:])
    kind, excepted = "its root mean square", ""
    if best == "eigenvectors":
        kind = "a bound on it for evenly spread values"
        excepted = f"; its guarantee holds except with a probability of {EXCEPTED_DELTA:.2g}"
    return best, (
        f"{best} has the smallest expected error for {n_rows} rows and {scaling.n_features} columns: "
        f"||C^ - C||_F / n = {errors[best]:.3g} ({kind}), rows being in the unit ball, against {others}{excepted}"
    )


def expected_errors(
    n_rows: int,
    scaling: Scaling,
    *,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    neighbours: str = "replace-one",
) -> dict[str, float]:
    """Return the expected ``||C^ - C||_F / n`` of every mechanism that serves the guarantee; arguments as above."""
    if n_rows < 1:
        raise ParameterError("n_rows", "at least 1", n_rows)
    if (mu is None) == (epsilon is None):
        raise ParameterError("mu, epsilon", "given one without the other", (mu, epsilon))
    for name, strength in (("mu", mu), ("epsilon", epsilon)):
        if strength is not None and not 0 < strength < math.inf:
            raise ParameterError(name, "in (0, inf)", strength)
    if epsilon is not None and not delta:
        check_epsilon(epsilon)
    if not 0 <= delta < 1:
        raise ParameterError("delta", "in [0, 1)", delta)
    d = scaling.n_coordinates
    errors: dict[str, float] = {}
    if epsilon is not None and delta:
        mu = mu_for_epsilon_delta(epsilon, delta)
        try:
            errors["wishart"] = math.sqrt(degrees_tight(d, epsilon, delta, neighbours) * d * (d + 1)) / n_rows
        except (ParameterError, PrivacyError):
            errors["wishart"] = math.inf
    if mu is not None:
        sigma = frobenius_sensitivity(scaling, neighbours) / scaling.square / mu
        errors["gaussian"] = sigma * math.sqrt(d * (d + 1) / 2) / n_rows
    pure = epsilon_for_implied_mu(mu) if epsilon is None and mu is not None else epsilon
    if pure is not None and EPSILONS[0] <= pure <= EPSILONS[1]:
        scale = l1_sensitivity(scaling, neighbours) / scaling.square / pure
        errors["laplace"] = math.sqrt(2) * d * scale / n_rows
        if d <= _MOST_FOR_EIGENVECTORS:
            errors["eigenvectors"] = _eigenvector_bound(n_rows, scaling, pure, neighbours)
    return errors


def _eigenvector_bound(n_rows: int, scaling: Scaling, epsilon: float, neighbours: str) -> float:
    d = scaling.n_coordinates
    places = np.arange(1, d + 1)
    trace = (float(scaling.squared_radius) / 3 + scaling.constant**2) / scaling.square
    eigenvalues = trace * n_rows / places / (1 / places).sum()
    shares = np.sqrt(eigenvalues + 4 / epsilon * math.log(2 * d / _MISS))
    kappas = epsilon / (4 if neighbours == "replace-one" else 2) * shares / shares.sum()
    left = places[::-1]  # d - i + 1
    means = np.cumsum(eigenvalues[::-1])[::-1] / left
    vectors = math.sqrt(2 * eigenvalues @ np.minimum(left / (2 * kappas), eigenvalues - means))
    scale = nuclear_sensitivity(scaling, neighbours) / scaling.square * 2 / epsilon
    return min(vectors + math.sqrt(2 * d) * scale, math.hypot(n_rows, *eigenvalues)) / n_rows
