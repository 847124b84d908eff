"""From what the publisher decided to the mechanism of a covariance release.

The strength is for the unit of privacy. An entity of m rows is m rows in turn: what is mu-GDP, or epsilon-DP, for one
row is m mu-GDP, or m epsilon-DP, for the entity, so that a row gets the m-th part. A cell is protected as its whole row
is. A mechanism of pure epsilon serves rho by epsilon = sqrt(2 rho) (Bun & Steinke 2016, proposition 3.3),
mu by the epsilon that implies it, and (epsilon, delta) by epsilon alone. The eigenvector mechanisms except an event of
probability 2^-40, whatever the strength.

`auto` chooses by the expected error, which depends on the number of rows. Where that is protected it must not: then
the choice is gaussian, or laplace for a pure epsilon, whose noise a reader knows entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dp_bundle.errors import ParameterError, PolicyError
from dp_bundle.privacy import Neighbours, epsilon_for_implied_mu, mu_implied_by_epsilon
from dp_publish.accounting import mu_for_epsilon_delta, mu_for_rho
from dp_publish.covariance.choice import choose_mechanism
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.eigenvectors import (
    BY_EIGENVECTORS,
    EXCEPTED_DELTA,
    insecure_eigenvectors,
    insecure_kapralov_talwar,
    release_eigenvectors,
    release_kapralov_talwar,
)
from dp_publish.covariance.mechanisms.gaussian import check_mu, release_gaussian, release_sulq, sulq_mu, sulq_sigma
from dp_publish.covariance.mechanisms.laplace import EPSILONS, check_epsilon, release_laplace
from dp_publish.covariance.mechanisms.unsound import refuse_unsound
from dp_publish.covariance.mechanisms.wishart import release_wishart
from dp_publish.covariance.mechanisms.wishart_curve import degrees_tight
from dp_publish.covariance.scaling import MAX_FEATURES, Scaling, scaling_for
from dp_publish.covariance.second_moments import SecondMoments
from dp_publish.covariance.sensitivity import frobenius_sensitivity, l1_sensitivity
from dp_publish.policy import Policy, Privacy
from dp_publish.sampling import Keystream

__all__ = [
    "MechanismSetting",
    "draw_moments",
    "entry_variance",
    "insecure_draw",
    "mu_of_rows",
    "set_mechanism",
    "unit_mu_of",
]


@dataclass(frozen=True)
class MechanismSetting:
    """A covariance mechanism, set for one policy.

    Attributes
    ----------
    mechanism : str
        Its name; never "auto".
    neighbours : Neighbours
        What the guarantee speaks of.
    scaling : Scaling
        Where rows are put.
    max_rows : int
        How many rows the unit of privacy has at most.
    mu, epsilon, delta : float or None
        The unit's guarantee: mu alone for gaussian; epsilon alone for a pure one; all three for sulq; epsilon and delta
        for wishart.
    reason : str or None
        Why this mechanism, where it was not the publisher who chose.
    """

    mechanism: str
    neighbours: Neighbours
    scaling: Scaling
    max_rows: int
    mu: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    reason: str | None = None

    @property
    def excepted_delta(self) -> float:
        """The probability of what the guarantee excepts."""
        if self.mechanism in BY_EIGENVECTORS:
            return EXCEPTED_DELTA
        return self.delta or 0.0 if self.mechanism == "wishart" else 0.0


def set_mechanism(policy: Policy, kinds: Mapping[str, str], count_rows: Callable[[], int]) -> MechanismSetting:
    """Return the mechanism and its strength, from the policy and, where `auto` may ask for it, the number of rows.

    Parameters
    ----------
    policy : Policy
        For a covariance release, with bounds for every column.
    kinds : mapping of str to str
        The columns, in order.
    count_rows : callable
        Returns the number of rows; called only where that is public and `auto` needs it.

    Raises
    ------
    PolicyError, ParameterError
        The strength, the radius or the bounds do not go together.
    PrivacyError
        The mechanism has no guarantee.
    """
    privacy = policy.privacy
    refuse_unsound(privacy.mechanism)
    scaling = _scaling(policy, kinds)
    max_rows = privacy.max_rows
    name: str = privacy.mechanism
    reason = None
    if name == "auto":
        name, reason = _choose(privacy, scaling, max_rows, count_rows)
    strength: dict[str, float | None]
    if name == "gaussian":
        mu = unit_mu_of(privacy)
        check_mu(mu / max_rows)
        strength = {"mu": mu}
    elif name == "sulq" and privacy.epsilon is not None and privacy.delta is not None:
        mu = sulq_mu(scaling, privacy.epsilon, privacy.delta, privacy.neighbours)
        check_mu(mu)
        strength = {"mu": mu, "epsilon": privacy.epsilon, "delta": privacy.delta}
    elif name == "wishart":
        degrees_tight(scaling.n_coordinates, privacy.epsilon or 0.0, privacy.delta or 0.0, privacy.neighbours)
        strength = {"epsilon": privacy.epsilon, "delta": privacy.delta}
    else:
        strength = {"epsilon": _pure_epsilon(privacy)}
        check_epsilon((strength["epsilon"] or 0.0) / max_rows)
    return MechanismSetting(name, privacy.neighbours, scaling, max_rows, reason=reason, **strength)


def unit_mu_of(privacy: Privacy) -> float:
    """Return the mu that a strength stands for; the one that it implies, for a pure epsilon."""
    if privacy.mu is not None:
        return privacy.mu
    if privacy.rho is not None:
        return mu_for_rho(privacy.rho)
    epsilon = privacy.epsilon or 0.0
    return mu_implied_by_epsilon(epsilon) if privacy.delta is None else mu_for_epsilon_delta(epsilon, privacy.delta)


def mu_of_rows(setting: MechanismSetting, rows: int) -> float:
    """Return the mu of so many rows, at most the unit's."""
    share = rows / setting.max_rows
    return setting.mu * share if setting.mu is not None else mu_implied_by_epsilon((setting.epsilon or 0.0) * share)


def draw_moments(setting: MechanismSetting, moments: SecondMoments, rng: Keystream) -> NoisyMoments:
    """Return the second moments with the mechanism's noise.

    Raises
    ------
    ParameterError, PrivacyError
        The strength is outside what the mechanism can give.
    """
    neighbours, rows = setting.neighbours, setting.max_rows
    mu, epsilon, delta = setting.mu or 0.0, setting.epsilon or 0.0, setting.delta or 0.0
    if setting.mechanism == "gaussian":
        return release_gaussian(moments, mu=mu / rows, neighbours=neighbours, rng=rng)
    if setting.mechanism == "sulq":
        return release_sulq(moments, epsilon=epsilon, delta=delta, neighbours=neighbours, rng=rng)
    if setting.mechanism == "wishart":
        return release_wishart(moments, epsilon=epsilon, delta=delta, neighbours=neighbours, rng=rng)
    if setting.mechanism == "laplace":
        return release_laplace(moments, epsilon=epsilon / rows, neighbours=neighbours, rng=rng)
    release = release_eigenvectors if setting.mechanism == "eigenvectors" else release_kapralov_talwar
    return release(moments, epsilon=epsilon / rows, neighbours=neighbours, max_rows=rows, rng=rng)


def insecure_draw(setting: MechanismSetting, moments: SecondMoments, rng: Keystream) -> NoisyMoments:
    """Return what `draw_moments` would but for the last bits, sooner: to measure errors on, never to release."""
    if setting.mechanism not in BY_EIGENVECTORS:
        return draw_moments(setting, moments, rng)
    release = insecure_eigenvectors if setting.mechanism == "eigenvectors" else insecure_kapralov_talwar
    epsilon = (setting.epsilon or 0.0) / setting.max_rows
    return release(moments, epsilon=epsilon, neighbours=setting.neighbours, rng=rng)


def entry_variance(setting: MechanismSetting) -> float | None:
    """Return the noise's variance beside the diagonal, in the matrix's units; None if it has none of its own."""
    scaling, rows = setting.scaling, setting.max_rows
    epsilon, delta = setting.epsilon or 0.0, setting.delta or 0.0
    if setting.mechanism == "gaussian" and setting.mu is not None:
        return 0.5 * (frobenius_sensitivity(scaling, setting.neighbours) * rows / setting.mu) ** 2
    if setting.mechanism == "laplace":
        return 2 * (l1_sensitivity(scaling, setting.neighbours) * rows / epsilon) ** 2
    if setting.mechanism == "sulq":
        return (sulq_sigma(scaling.n_coordinates, epsilon, delta) * scaling.square) ** 2
    if setting.mechanism == "wishart":
        return degrees_tight(scaling.n_coordinates, epsilon, delta, setting.neighbours) * scaling.square**2
    return None


def _scaling(policy: Policy, kinds: Mapping[str, str]) -> Scaling:
    bounds = [limits for limits in (policy.column(name).bounds for name in kinds) if limits is not None]
    if len(bounds) > MAX_FEATURES:
        raise PolicyError(f"a covariance release takes at most {MAX_FEATURES} columns, not {len(bounds)}: drop some")
    try:
        return scaling_for(bounds, radius=policy.privacy.l2_radius)
    except ParameterError as error:
        name = "l2_radius" if error.name == "radius" else error.name
        raise PolicyError(f"{name} must be {error.allowed}, not {error.received}") from error


def _choose(privacy: Privacy, scaling: Scaling, max_rows: int, count_rows: Callable[[], int]) -> tuple[str, str]:
    pure = privacy.epsilon is not None and privacy.delta is None
    if privacy.neighbours == "add-remove":
        name = "laplace" if pure else "gaussian"
        return name, f"{name} was chosen without a look at the number of rows, which is protected"
    if pure and privacy.epsilon is not None:
        check_epsilon(privacy.epsilon / max_rows)
        return choose_mechanism(count_rows(), scaling, epsilon=privacy.epsilon / max_rows)
    if privacy.epsilon is not None and privacy.delta is not None and privacy.unit_name != "entity":
        return choose_mechanism(count_rows(), scaling, epsilon=privacy.epsilon, delta=privacy.delta)
    mu = unit_mu_of(privacy) / max_rows
    check_mu(mu)
    if epsilon_for_implied_mu(mu) > EPSILONS[1]:
        return "gaussian", "gaussian was chosen, as the others do not go up to this strength"
    return choose_mechanism(count_rows(), scaling, mu=mu)


def _pure_epsilon(privacy: Privacy) -> float:
    if privacy.epsilon is not None:
        return privacy.epsilon
    return mu_for_rho(privacy.rho) if privacy.rho is not None else epsilon_for_implied_mu(privacy.mu or 0.0)
