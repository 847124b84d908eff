"""The strength of a guarantee: one of four forms, each with the other forms that it stands for.

`mu` is the Gaussian strength that a form stands for. For rho it is the mu with the same rho, and for a pure epsilon the
one that it implies. For (epsilon, delta) it is the largest whose curve passes under that point. `pure_epsilon` is the
largest epsilon whose guarantee serves the form: sqrt(2 rho) for rho, and epsilon alone for (epsilon, delta).

References
----------
Dong, Roth & Su (2022), Gaussian differential privacy. Bun & Steinke (2016), proposition 3.3, for rho.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

from dp_bundle.manifest.noise import epsilon_for_implied_mu, mu_implied_by_epsilon


@dataclass(frozen=True)
class GaussianDP:
    """Gaussian differential privacy with this mu."""

    mu: float

    @property
    def pure_epsilon(self) -> float:
        """The epsilon that implies mu."""
        return epsilon_for_implied_mu(self.mu)

    @property
    def excepted_delta(self) -> float:
        """The probability of what the guarantee excepts: none."""
        return 0.0


@dataclass(frozen=True)
class ConcentratedDP:
    """Zero-concentrated differential privacy with this rho."""

    rho: float

    @property
    def mu(self) -> float:
        """The mu with this rho."""
        return math.sqrt(2 * self.rho)

    @property
    def pure_epsilon(self) -> float:
        """The epsilon that gives rho."""
        return self.mu


@dataclass(frozen=True)
class PureDP:
    """Differential privacy with this epsilon and no delta, except for an event of probability `excepted_delta`."""

    epsilon: float
    excepted_delta: float = 0.0

    @property
    def mu(self) -> float:
        """The mu that epsilon implies."""
        return mu_implied_by_epsilon(self.epsilon)

    @property
    def pure_epsilon(self) -> float:
        """Epsilon itself."""
        return self.epsilon


@dataclass(frozen=True)
class ApproximateDP:
    """Differential privacy with this epsilon and delta."""

    epsilon: float
    delta: float

    @property
    def mu(self) -> float:
        """The largest mu whose curve passes under the point."""
        from dp_publish.accounting.conversions import mu_for_epsilon_delta  # with scipy, which few policies need

        return mu_for_epsilon_delta(self.epsilon, self.delta)

    @property
    def pure_epsilon(self) -> float:
        """The same epsilon, without delta."""
        return self.epsilon


Strength: TypeAlias = GaussianDP | ConcentratedDP | PureDP | ApproximateDP
