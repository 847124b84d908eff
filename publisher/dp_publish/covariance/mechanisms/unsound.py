"""What the literature offers as pure epsilon and is not private at all: for reproduction, never for release.

Wishart noise is positive semidefinite, so an output X can only come from a matrix M for which X - M is. Take away a row
and put in another: an X close to M in a direction where the neighbour's matrix is larger has probability zero under the
neighbour, whatever epsilon is. (Amin et al. 2019, section 1.2, after Imtiaz & Sarwate.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dp_bundle.errors import PrivacyError

__all__ = ["insecure_output_perturbation", "insecure_wishart_pure", "refuse_unsound"]

_REASONS = {
    "wishart-pure": "the wishart-pure mechanism is not private: its noise is positive semidefinite, so that some "
    "outputs are possible with a row and impossible without it; use laplace or eigenvectors for a pure epsilon",
    "output-perturbation": "the output-perturbation mechanism is not private: it adds positive semidefinite noise to "
    "the precision matrix, so that some outputs are possible with a row and impossible without it; release a "
    "covariance by gaussian, laplace or eigenvectors, and estimate from that",
}


def refuse_unsound(name: str) -> None:
    """Refuse a mechanism that has no guarantee; do nothing for any other name.

    Raises
    ------
    PrivacyError
        Says why.
    """
    if name in _REASONS:
        raise PrivacyError(_REASONS[name])


def insecure_wishart_pure(
    second_moment: NDArray[np.float64], n_rows: int, epsilon: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return S + W_d(d + 1, 3 / (2 n epsilon) I), which is not private (Wang, Huai & Xu 2018, lemma 2, theorem 3).

    Parameters
    ----------
    second_moment : ndarray, shape (d, d)
        S, the mean of x x^T over rows in the unit ball.
    n_rows : int
        n.
    epsilon : float
        What the paper claims.
    rng : numpy.random.Generator
        An ordinary generator: nothing here is fit for a release.
    """
    return second_moment + _wishart(len(second_moment), 1.5 / (n_rows * epsilon), rng)


def insecure_output_perturbation(
    precision: NDArray[np.float64], n_rows: int, epsilon: float, alpha: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return Theta + W_d(d + 1, d^(5/2) / (n epsilon alpha^2) I), which is not private (the same paper, algorithm 1).

    Parameters
    ----------
    precision : ndarray, shape (d, d)
        Theta, the graphical lasso's estimate from the private covariance.
    n_rows : int
        n.
    epsilon : float
        What the paper claims.
    alpha : float
        The penalty that gave Theta.
    rng : numpy.random.Generator
        An ordinary generator: nothing here is fit for a release.
    """
    d = len(precision)
    return precision + _wishart(d, d**2.5 / (n_rows * epsilon * alpha**2), rng)


def _wishart(d: int, scale: float, rng: np.random.Generator) -> NDArray[np.float64]:
    rows = rng.normal(scale=np.sqrt(scale), size=(d + 1, d))
    return rows.T @ rows
