"""Mechanisms that the literature offers as pure epsilon and that are not private, refused by name.

Wishart noise is positive semidefinite, so an output X can only come from a matrix M for which X - M is. Take away a row
and put in another: an X close to M in a direction where the neighbour's matrix is larger has probability zero under the
neighbour, whatever epsilon is. (Amin et al. 2019, section 1.2, after Imtiaz & Sarwate.)
"""

from __future__ import annotations

from dp_bundle.base.errors import PrivacyError

_REASONS = {
    "wishart-pure": "the wishart-pure mechanism is not private: its noise is positive semidefinite, so that some "
    "outputs are possible with a row and impossible without it; use wishart-difference, laplace or eigenvectors for "
    "a pure epsilon",
    "output-perturbation": "the output-perturbation mechanism is not private: it adds positive semidefinite noise to "
    "the precision matrix, so that some outputs are possible with a row and impossible without it; release a "
    "covariance by gaussian, wishart-difference or eigenvectors, and estimate from that",
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
