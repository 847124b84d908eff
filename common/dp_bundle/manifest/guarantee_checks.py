"""Checks that a stated guarantee follows from what a reader can see: bounds, radius and noise.

A release of rows is the Gaussian mechanism: mu is width over sigma, over a row the root of the sum of squares.

A covariance release adds noise to the sum of (z, c)(z, c)^T over rows with ||z|| <= R. Replacing a row moves it by at
most ``sqrt(2) (R^2 + c^2)`` in the Frobenius norm, as c <= R attains; one row more or less by at most ``R^2 + c^2``.
With standard deviations s on the diagonal and t beside it, where an entry counts twice in that norm, Gaussian noise has
``mu = D max(1 / s, 1 / (sqrt(2) t))``. For the other mechanisms a reader can see less, namely bounds from below:

- laplace: epsilon is at least the L1 norm by which a row with all z_j = R / sqrt(p) moves the sum, over the scale;
- wishart: the sum's entry along a direction u is chi-squared with m degrees of freedom, and a row can move it by R^2,
  or by R^2 + c^2 where it is taken away, over the noise's scale; delta at epsilon is at least that of this one entry;
- eigenvectors, kapralov-talwar: nothing of epsilon shows in the noise. Drawn to a finite precision, on a grid, they
  except an event from their guarantee; an older version drew floating-point numbers and excepted none.

References
----------
Dong, Roth & Su (2022) for mu; Bun & Steinke (2016), proposition 3.3, for rho; Balle & Wang (2018), theorem 8, for the
curve. Kairouz, Oh & Viswanath (2015), The composition theorem for differential privacy: what is (epsilon, delta)-DP is
post-processing of what is epsilon-DP but for an event of probability delta.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.moment_noise import SecondMoments
from dp_bundle.privacy import Neighbours, gaussian_delta, least_deltas, likely_worst, mu_implied_by_epsilon

__all__ = [
    "check_moments_guarantee",
    "check_rows_guarantee",
    "check_rows_without_guarantee",
    "release_mu",
]

_SLACK = 1e-9  # relative: what separately rounded floats may differ by
_CURVE_SLACK = 1e-5  # the same for delta, where tiny mu cancel most digits


def release_mu(unit: str, columns: Sequence[Column], max_rows: int = 1) -> float:
    """Return the mu that bounds and noise give: of the worst cell, of a row, or of an entity's rows together.

    A row's is the root of the sum of squares over columns; where rows are clipped to a ball, it is the worst column's.
    Where rows with gaps are put at the center whole, one cell decides over its row, and is protected as that is.
    """
    mus = [column.cell_mu for column in columns]
    together = _is_whole(unit, columns) and columns[0].ball is None
    return math.sqrt(max_rows) * (math.sqrt(math.fsum(mu * mu for mu in mus)) if together else max(mus))


def check_rows_guarantee(guarantee: Guarantee, columns: tuple[Column, ...]) -> None:
    """Refuse, by ValueError, a guarantee that the rows' bounds and noise do not give."""
    _check_unit(guarantee)
    if not guarantee.neighbours.n_rows_public or guarantee.epsilon is not None or guarantee.excepted_delta:
        raise ValueError("rows with Gaussian noise are private for replaced rows, and without exceptions")
    if (guarantee.bounds_mu > 0) != any(column.bounds_obtained == "private-histogram" for column in columns):
        raise ValueError("the cost of private bounds is stated exactly where there are any")
    if (guarantee.centers_mu > 0) != any(column.missing == "center" for column in columns):
        raise ValueError("the cost of private centers is stated exactly where there are any")
    if any((column.fill is not None) != (guarantee.centers_mu > 0) for column in columns):
        raise ValueError("every column has a fill exactly where rows with gaps stand at the center")

    own = release_mu(guarantee.unit, columns, guarantee.max_rows or 1)
    mu = math.hypot(own, guarantee.bounds_mu, guarantee.centers_mu)
    if not 0 < mu < math.inf:
        raise ValueError("the bounds and the noise give no guarantee")

    continuous = all(column.kind == "continuous" for column in columns)
    if (guarantee.mu is not None) != continuous:
        raise ValueError("mu is stated exactly where all columns are continuous")
    if guarantee.accountant != ("gaussian-dp" if continuous else "privacy-loss-distribution"):
        raise ValueError("the accountant is not the one for these columns")
    _check_gaussian(guarantee, mu, with_curve=continuous)
    if not continuous:
        _check_discrete_curve(guarantee, columns)


def check_rows_without_guarantee(columns: Sequence[Column], conditional_mu: float | None) -> None:
    """Refuse, by ValueError, rows that say they cost something, or that one cell's mu is smaller than it is."""
    if any(column.bounds_obtained == "private-histogram" or column.missing == "center" for column in columns):
        raise ValueError("bounds or centers were found privately, and no guarantee states their cost")
    if any(column.fill is not None for column in columns):
        raise ValueError("a column has a fill although no rows stand at a center")
    if conditional_mu is not None and conditional_mu < release_mu("cell", columns) * (1 - _SLACK):
        raise ValueError("the conditional mu is smaller than the bounds and the noise allow")


def check_moments_guarantee(guarantee: Guarantee, n_features: int, moments: SecondMoments) -> None:
    """Refuse, by ValueError, a guarantee of a covariance release that its noise cannot give."""
    _check_unit(guarantee)
    if guarantee.unit == "cell" and not guarantee.neighbours.n_rows_public:
        raise ValueError("rows and entities may come and go, cells may not")
    if guarantee.bounds_mu or guarantee.centers_mu:
        raise ValueError("a covariance release has declared bounds and no centers, which cost nothing")
    if not (guarantee.neighbours.n_rows_public or moments.constant):
        raise ValueError("the number of rows is private, and can only be read from a constant that is not there")
    max_rows = guarantee.max_rows or 1
    if moments.mechanism in ("gaussian", "sulq"):
        if guarantee.accountant != "gaussian-dp" or guarantee.mu is None:
            raise ValueError("Gaussian noise is accounted for by mu")
        if guarantee.epsilon is not None or guarantee.excepted_delta:
            raise ValueError("Gaussian noise gives no pure epsilon")
        mu = max_rows * _gaussian_mu(moments, guarantee.neighbours)
        if not 0 < mu < math.inf:
            raise ValueError("the radius and the noise give no guarantee")
        _check_gaussian(guarantee, mu, with_curve=True)
        return
    if max_rows > 1 and moments.mechanism == "wishart":
        raise ValueError("the guarantee of Wishart noise is for one row")
    by_eigenvectors = moments.mechanism in ("eigenvectors", "kapralov-talwar")
    on_a_grid = by_eigenvectors and moments.granularity is not None
    _check_epsilon(guarantee, excepted=moments.mechanism == "wishart" or on_a_grid)
    epsilon = guarantee.epsilon or 0.0
    if moments.mechanism == "laplace":
        least = max_rows * _l1_movement(moments, n_features, guarantee.neighbours) / moments.parameters["scale"]
        if epsilon < least * (1 - _SLACK):
            raise ValueError("the stated epsilon is smaller than the radius and the noise allow")
    if moments.mechanism == "wishart":
        moved = moments.radius**2 + (0.0 if guarantee.neighbours.n_rows_public else moments.constant**2)
        shift = moved / moments.parameters["scale"]
        least = _chi_squared_delta(moments.parameters["degrees_of_freedom"], shift, epsilon)
        if guarantee.excepted_delta < least * (1 - _CURVE_SLACK):
            raise ValueError("the stated delta is smaller than the radius and the noise allow")


def _check_unit(guarantee: Guarantee) -> None:
    if (guarantee.unit == "entity") != (guarantee.entity is not None) or (guarantee.entity is None) != (
        guarantee.max_rows is None
    ):
        raise ValueError("an entity is named, with a number of rows, exactly where it is the unit of privacy")


def _check_gaussian(guarantee: Guarantee, mu: float, *, with_curve: bool) -> None:
    if guarantee.mu is not None and guarantee.mu < mu * (1 - _SLACK):
        raise ValueError("the stated mu is smaller than the bounds and the noise allow")
    if guarantee.rho < 0.5 * mu * mu * (1 - _SLACK):
        raise ValueError("the stated rho is smaller than the bounds and the noise allow")
    points = guarantee.epsilon_delta if with_curve else ()
    if any(point.delta < gaussian_delta(mu, point.epsilon) * (1 - _CURVE_SLACK) for point in points):
        raise ValueError("a stated epsilon is smaller than the bounds and the noise allow")


def _check_discrete_curve(guarantee: Guarantee, columns: Sequence[Column]) -> None:
    """Check that no point of the curve is better than what integer columns, and others beside them, leave."""
    epsilons = [point.epsilon for point in guarantee.epsilon_delta]
    rows = guarantee.max_rows or 1
    common = math.hypot(guarantee.bounds_mu, guarantee.centers_mu)
    losses = Counter(column.discrete_loss for column in columns if column.kind == "integer")
    mus = [column.cell_mu for column in columns if column.kind == "continuous"]
    if _is_whole(guarantee.unit, columns) and columns[0].ball is None:
        together = math.hypot(math.sqrt(rows * math.fsum(mu * mu for mu in mus)), common)
        groups = [({loss: rows * number for loss, number in losses.items()}, together)]
    else:
        groups = [({loss: rows}, common) for loss in likely_worst(losses)]
        groups += [({}, math.hypot(math.sqrt(rows) * max(mus), common))] if mus else []
    for group in groups:
        least = least_deltas(epsilons, *group)
        if any(
            point.delta < bound * (1 - _CURVE_SLACK)
            for point, bound in zip(guarantee.epsilon_delta, least, strict=True)
        ):
            raise ValueError("a stated epsilon is smaller than the bounds and the noise allow")


def _is_whole(unit: str, columns: Sequence[Column]) -> bool:
    """Tell whether the columns of a row are protected together; rows with gaps move whole by a single cell."""
    return unit != "cell" or any(column.missing == "center" for column in columns)


def _check_epsilon(guarantee: Guarantee, *, excepted: bool) -> None:
    """Check that mu, rho and the table are those of a pure epsilon, up to the excepted delta."""
    epsilon = guarantee.epsilon
    if guarantee.accountant != "pure-epsilon" or epsilon is None or guarantee.mu is None:
        raise ValueError("this mechanism is accounted for by epsilon")
    if (guarantee.excepted_delta > 0) != excepted:
        raise ValueError("a delta is excepted exactly where the noise is Wishart's, or vectors are on a grid")
    if not math.isclose(guarantee.mu, mu_implied_by_epsilon(epsilon), rel_tol=_SLACK):
        raise ValueError("the stated mu is not that which the stated epsilon implies")
    if guarantee.rho < 0.5 * min(epsilon, mu_implied_by_epsilon(epsilon)) ** 2 * (1 - _SLACK):
        raise ValueError("the stated rho is smaller than the stated epsilon implies")
    for point in guarantee.epsilon_delta:
        left = 1 / (1 + math.exp(-epsilon)) * -math.expm1(min(0.0, point.epsilon - epsilon))  # (e^E - e^e) / (1 + e^E)
        if point.delta < (guarantee.excepted_delta + (1 - guarantee.excepted_delta) * left) * (1 - _CURVE_SLACK):
            raise ValueError("a stated point is better than the stated epsilon implies")


def _gaussian_mu(moments: SecondMoments, neighbours: Neighbours) -> float:
    sensitivity = moments.square * neighbours.frobenius
    sigma, beside = moments.parameters["diagonal_sigma"], moments.parameters["off_diagonal_sigma"]
    return sensitivity * max(1 / sigma, 1 / (math.sqrt(2.0) * beside))


def _l1_movement(moments: SecondMoments, n_features: int, neighbours: Neighbours) -> float:
    """Return the L1 norm of the upper triangle by which a row with all z_j = R / sqrt(p), for one at 0, moves it."""
    r, c = moments.radius, moments.constant
    corner = 0.0 if neighbours.n_rows_public else c * c
    return r * r * (n_features + 1) / 2 + c * r * math.sqrt(n_features) + corner


def _chi_squared_delta(degrees: float, shift: float, epsilon: float) -> float:
    """Return delta at epsilon of chi-squared noise against the same noise moved upwards.

    With a = degrees / 2 the likelihood ratio ``(q / (q - s))^(a - 1) e^(-s / 2)`` falls in q, so that delta is
    ``F(q) - e^eps F(q - s)`` where it is e^eps: at ``q = s / (1 - exp(-(eps + s / 2) / (a - 1)))``.
    """
    a = degrees / 2
    exponent = (epsilon + shift / 2) / (a - 1)
    if not 0 < exponent < math.inf:
        return 1.0 if exponent else 0.0
    q = -shift / math.expm1(-exponent)
    from scipy import special

    moved = float(special.gammainc(a, max(q - shift, 0.0) / 2))
    rest = math.exp(min(0.0, epsilon + math.log(moved))) if moved else 0.0
    return max(0.0, float(special.gammainc(a, q / 2)) - rest)
