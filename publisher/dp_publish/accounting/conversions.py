"""Privacy as numbers: mu, rho and (epsilon, delta), the noise that gives them, and how they add up.

A column whose values span `width` and carry Gaussian noise of standard deviation `sigma` lets one cell be told from
another with mu = width / sigma. A row's mu is the root of the sum of squares over columns; a cell's is the largest.
This mu is Gaussian differential privacy where the noise is continuous (then rounded). For continuous and discrete
Gaussian noise alike, rho = mu^2 / 2 is zero-concentrated differential privacy.

The cost of one release.

References
----------
Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1). Balle & Wang (2018), arXiv 1805.06530. Bun &
Steinke (2016), arXiv 1605.02065. Canonne, Kamath & Steinke (2020), arXiv 2004.00010, propositions 5 and 12.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from scipy import special

from dp_bundle.base.errors import ParameterError, PrivacyError

_LARGEST_EPSILON = 1e9


def rho_for_mu(mu: float) -> float:
    """Return rho = mu^2 / 2."""
    return 0.5 * mu * mu


def mu_for_rho(rho: float) -> float:
    """Return mu = sqrt(2 rho); the inverse of `rho_for_mu`."""
    return math.sqrt(2 * rho)


def delta_for_epsilon(mu: float, epsilon: float) -> float:
    """Return delta of a mu-GDP release at epsilon, without cancellation.

    delta = Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2) (Balle & Wang 2018, theorem 8). As
    e^epsilon phi(epsilon/mu + mu/2) = phi(epsilon/mu - mu/2), it is phi(a) (m(a) - m(b)) with the Mills ratio m.

    Parameters
    ----------
    mu : float
        In (0, inf).
    epsilon : float
        In [0, inf).
    """
    _require_positive("mu", mu)
    if not 0 <= epsilon < math.inf:
        raise ParameterError("epsilon", "in [0, inf)", epsilon)
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    root_half = math.sqrt(0.5)
    density = 0.5 * math.exp(-0.5 * a * a)
    if a < -5:
        return float(special.ndtr(-a) - density * special.erfcx(b * root_half))
    return density * float(special.erfcx(a * root_half) - special.erfcx(b * root_half))


def epsilon_for_delta(mu: float, delta: float) -> float:
    """Return the smallest epsilon at which a mu-GDP release has `delta`; the inverse of `delta_for_epsilon`."""
    _require_positive("mu", mu)
    return _epsilon_for(lambda epsilon: delta_for_epsilon(mu, epsilon), delta)


def mu_for_epsilon_delta(epsilon: float, delta: float) -> float:
    """Return the largest mu whose curve passes under (epsilon, delta)."""
    return _strength_for(lambda mu: delta_for_epsilon(mu, epsilon), epsilon, delta)


def delta_for_epsilon_zcdp(rho: float, epsilon: float) -> float:
    """Return an upper bound on delta of a rho-zCDP release at epsilon.

    min over a > 1 of exp((a - 1)(a rho - epsilon)) / (a - 1) * (1 - 1/a)^a (Canonne, Kamath & Steinke 2020, proposition
    12). Every a gives a valid bound, so the minimiser need not be exact.
    """
    _require_positive("rho", rho)
    if not 0 <= epsilon < math.inf:
        raise ParameterError("epsilon", "in [0, inf)", epsilon)

    def log_bound(log_order: float) -> float:
        excess = math.exp(log_order)  # a - 1
        order = 1 + excess
        return excess * (order * rho - epsilon) - log_order - order * math.log1p(1 / excess)

    low = math.log(max((epsilon + rho) / (2 * rho) - 1, 1e-3))
    high = max(low, -0.5 * math.log(2 * rho))
    from scipy import optimize  # which takes a quarter of a second to import

    found = optimize.minimize_scalar(
        log_bound, bounds=(low - 12, high + 12), method="bounded", options={"xatol": 1e-10}
    )
    return min(1.0, math.exp(min(0.0, float(found.fun))))


def epsilon_for_delta_zcdp(rho: float, delta: float) -> float:
    """Return an epsilon that a rho-zCDP release has at `delta`; the inverse of `delta_for_epsilon_zcdp`."""
    _require_positive("rho", rho)
    return _epsilon_for(lambda epsilon: delta_for_epsilon_zcdp(rho, epsilon), delta)


def rho_for_epsilon_delta(epsilon: float, delta: float) -> float:
    """Return the largest rho whose bound passes under (epsilon, delta)."""
    return _strength_for(lambda rho: delta_for_epsilon_zcdp(rho, epsilon), epsilon, delta)


def _epsilon_for(delta_at: Callable[[float], float], delta: float) -> float:
    if not 0 < delta < 1:
        raise ParameterError("delta", "in (0, 1)", delta)
    if delta_at(0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_at(high) > delta:
        high *= 2
        if high > _LARGEST_EPSILON:
            raise PrivacyError(f"no epsilon up to {_LARGEST_EPSILON:g} reaches delta = {delta:g}: add more noise")
    root = _root(lambda epsilon: math.log(max(delta_at(epsilon), 5e-324)) - math.log(delta), 0.0, high)
    while delta_at(root) > delta:  # the root finder may end on the wrong side by rounding
        root += max(1e-15, 1e-14 * root)
    return root


def _strength_for(delta_at: Callable[[float], float], epsilon: float, delta: float) -> float:
    if not 0 <= epsilon <= _LARGEST_EPSILON:
        raise ParameterError("epsilon", f"in [0, {_LARGEST_EPSILON:g}]", epsilon)
    if not 0 < delta < 1:
        raise ParameterError("delta", "in (0, 1)", delta)
    low, high = 1e-12, 1.0
    while delta_at(high) < delta:
        high *= 2
    if delta_at(low) > delta:
        raise PrivacyError(f"epsilon = {epsilon:g} with delta = {delta:g} needs more noise than any release can carry")
    root = math.exp(
        _root(lambda log: math.log(max(delta_at(math.exp(log)), 5e-324) / delta), math.log(low), math.log(high))
    )
    while delta_at(root) > delta:  # the root finder may end on the wrong side by rounding
        root *= 1 - 1e-14
    return root


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of a monotone function, by halves: in less time than it takes to import a root finder."""
    rises = function(low) < 0
    while low < (middle := 0.5 * (low + high)) < high:
        if (function(middle) < 0) == rises:
            low = middle
        else:
            high = middle
    return high


def _require_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ParameterError(name, "in (0, inf)", value)


ROUND_UP = 1 + 1e-12  # what is stated or booked is rounded to the safe side by far more than its float error
SLACK = 1 + 1e-9  # by which sums of the same costs may differ, being rounded one by one


@dataclass(frozen=True)
class Cost:
    """The cost of one release, for every unit of privacy that it protects.

    Attributes
    ----------
    unit : str
        The unit of privacy that it was made for.
    mu : dict of str to float
        The mu of every unit that it protects ("cell", "row", "entity:COLUMN"); empty if it states no guarantee.
    continuous : bool
        Whether its manifest states mu: no noise is discrete Gaussian.
    excepted_delta : float
        The probability with which none of that holds.
    changes : mapping of str to (float or None)
        Where the unit is "change", the `max_change` of every column, None where it has none.
    rho : mapping of str to float
        The rho of the same units where noise is discrete; empty where it is mu^2 / 2.
    """

    unit: str
    mu: dict[str, float]
    continuous: bool
    excepted_delta: float = 0.0
    changes: Mapping[str, float | None] = field(default_factory=dict)
    rho: Mapping[str, float] = field(default_factory=dict)

    @property
    def booked(self) -> dict[str, float]:
        """The mu of every unit that counts in a total: of a "change" at most that of the cell that it changes.

        Tables that differ by one change, of whatever size, differ in one cell.
        """
        cell = self.mu.get("cell")
        return self.mu if cell is None else {"change": cell, **self.mu}

    @property
    def booked_roots(self) -> dict[str, float]:
        """The same for sqrt(2 rho)."""
        return {**self.booked, **replace(self, mu={unit: math.sqrt(2 * rho) for unit, rho in self.rho.items()}).booked}
