"""Laplace noise on the second moments: pure epsilon.

Every entry of the upper triangle gets discrete Laplace noise of scale b = D / epsilon on the grid (`noisy`), where D is
the tight L1 sensitivity (`sensitivity`) plus a step for every noisy entry that is rounded. The printed form,
``Lap(2 d / epsilon)`` for rows in the unit ball, has between 2 and 2.8 times that scale.

References
----------
Dwork, McSherry, Nissim & Smith (2006). Wang, Huai & Xu (2018), theorem 4, and Amin et al. (2019) for the printed form.
"""

from __future__ import annotations

from dp_bundle.errors import ParameterError
from dp_bundle.privacy import discrete_laplace_variance, mu_implied_by_epsilon
from dp_publish.covariance.mechanisms.base import Cost, NoisyMoments, grid_for
from dp_publish.covariance.second_moments import SecondMoments
from dp_publish.covariance.sensitivity import check_neighbours, l1_sensitivity
from dp_publish.sampling import Keystream, sample_discrete_laplace

__all__ = ["EPSILONS", "check_epsilon", "release_laplace"]

EPSILONS = (1e-6, 700.0)
_FINENESS = 45  # so that rounding thousands of entries adds next to nothing to their L1 norm
_UP = 1 + 2.0**-48


def release_laplace(
    moments: SecondMoments,
    *,
    epsilon: float,
    neighbours: str = "replace-one",
    sensitivity: str = "tight",
    rng: Keystream | None = None,
) -> NoisyMoments:
    """Return the second moments with Laplace noise, epsilon-differentially private.

    Parameters
    ----------
    moments : SecondMoments
        The exact sums.
    epsilon : float
        The guarantee, from 1e-6 to 700.
    neighbours : {"replace-one", "add-remove"}
        What it speaks of.
    sensitivity : {"tight", "printed"}
        "printed" is 2 d for rows in the unit ball: for comparison.
    rng : Keystream, optional
        Where random bits come from; a new `SecureKeystream` unless given.

    Raises
    ------
    ParameterError, PrivacyError
        An argument is not allowed.
    """
    check_epsilon(epsilon)
    check_neighbours(moments.scaling, neighbours)
    if sensitivity not in ("tight", "printed"):
        raise ParameterError("sensitivity", '"tight" or "printed"', sensitivity)
    d = moments.scaling.n_coordinates
    tight = sensitivity == "tight"
    moved = l1_sensitivity(moments.scaling, neighbours) if tight else 2 * d * moments.scaling.square
    grid = grid_for(moved / epsilon, _FINENESS)
    scale = (moved + grid.rounding * d * (d + 1) / 2) / epsilon * _UP
    steps = scale / grid.step
    variance = grid.step**2 * discrete_laplace_variance(steps)
    public_rows = neighbours == "replace-one"
    return NoisyMoments(
        matrix=grid.add(moments, sample_discrete_laplace(steps, (d, d), rng), exact_corner=public_rows),
        mechanism="laplace",
        neighbours=neighbours,
        scaling=moments.scaling,
        n_rows=moments.n_rows if public_rows else None,
        granularity=grid.step,
        distribution="discrete-laplace",
        parameters={"scale": scale},
        diagonal_variance=variance,
        off_diagonal_variance=variance,
        bias=0.0,
        cost=Cost(mu_implied_by_epsilon(epsilon), epsilon, 0.0),
    )


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon outside [1e-6, 700].

    Raises
    ------
    ParameterError
    """
    if not EPSILONS[0] <= epsilon <= EPSILONS[1]:
        raise ParameterError("epsilon", f"from {EPSILONS[0]:g} to {EPSILONS[1]:g}", epsilon)
