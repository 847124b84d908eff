"""Every covariance mechanism by its name: `SoundMechanism` lists them, each has the file of its name here.

**Unsound** are mechanisms that the literature offers as pure epsilon and that are not private, refused by name.

Wishart noise is positive semidefinite, so an output X can only come from a matrix M for which X - M is. Take away a row
and put in another, and let X be close to M in a direction where the neighbour's matrix is larger. Under the neighbour
such an X has probability zero, whatever epsilon is. (Amin et al. 2019, section 1.2, after Imtiaz & Sarwate.)
"""

from importlib import import_module
from typing import get_args

from dp_bundle.base.errors import PrivacyError
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.policy.choices import SoundMechanism

_REASONS = {
    "wishart-pure": "the wishart-pure mechanism is not private: its noise is positive semidefinite, so that some "
    "outputs are possible with a row and impossible without it. Use wishart-difference, laplace or eigenvectors for "
    "a pure epsilon",
    "output-perturbation": "the output-perturbation mechanism is not private: its noise on the precision matrix is "
    "positive semidefinite, so that some outputs are possible with a row and impossible without it. Release a "
    "covariance by gaussian, wishart-difference or eigenvectors, and estimate from that",
}


def mechanism_named(name: str) -> type[Mechanism] | None:
    """Return the class of a mechanism; None for "auto", where it is still to be chosen.

    Raises
    ------
    PrivacyError
        It is known to be not private.
    """
    if name in _REASONS:
        raise PrivacyError(_REASONS[name])
    if name == "auto":
        return None
    module = import_module(f"dp_publish.covariance.mechanisms.{name.replace('-', '_')}")
    kind: type[Mechanism] = module.MECHANISM
    return kind


def all_mechanisms() -> list[type[Mechanism]]:
    """Return all that may be used."""
    return [kind for kind in map(mechanism_named, get_args(SoundMechanism)) if kind is not None]
