"""The mechanism of a covariance release, set as the policy asks; and its cost and guarantee, from that alone.

The strength is for the unit of privacy. An entity of m rows is m rows in turn. What is mu-GDP, or epsilon-DP, for one
row is m mu-GDP, or m epsilon-DP, for the entity. So a row gets the m-th part. A cell is protected as its whole row is.
`accounting.strength` has what a strength stands for in another form.

**The choice** is the mechanism with the smallest expected error for a number of rows, of columns, and a guarantee.

The error is ``||C^ - C||_F / n`` with rows in the unit ball and d coordinates. Entry-wise noise has closed forms for
the root of its mean square, which do not depend on the data; `eigenvectors` has a bound. Each mechanism knows its own
(`Mechanism.expected_error`). A pure epsilon serves a guarantee by mu if its implied mu is at most that one, and
(epsilon, delta) as it is.

The error depends on the number of rows. Where that is protected the choice must not: then it is gaussian, or for a pure
epsilon laplace or wishart-difference. Their errors fall alike with the number of rows, so that one of them is smaller
for all. Nothing is read from the data.

References
----------
Amin et al. (2019), theorem 1 and corollary 1, for the rates.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from dp_bundle.base.errors import ParameterError, PolicyError, PrivacyError
from dp_bundle.base.quoting import round_up
from dp_bundle.manifest.columns import Column, Missing
from dp_bundle.manifest.guarantee import EpsilonDelta, Guarantee
from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.conversions import ROUND_UP, Cost, rho_for_mu
from dp_publish.accounting.curve import Loss, privacy_curve
from dp_publish.accounting.strength import ApproximateDP, ConcentratedDP, GaussianDP, PureDP, Strength
from dp_publish.covariance.mechanisms.base import (
    EPSILONS,
    EXCEPTED_DELTA,
    Mechanism,
    PureMechanism,
    all_mechanisms,
    check_epsilon,
    mechanism_named,
)
from dp_publish.covariance.mechanisms.gaussian import Gaussian, check_mu
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import MAX_FEATURES, Scaling, scaling_for
from dp_publish.data.kinds import Kinds
from dp_publish.policy.coded_columns import blocks_of, raw_names
from dp_publish.policy.columns import require_bounds, stated_of_policy
from dp_publish.policy.model import Policy, Privacy

_ANY_BOUNDS = (-1.0, 1.0)  # of a column without any, where none are needed


def set_mechanism(policy: Policy, kinds: Kinds, count_rows: Callable[[], int]) -> Mechanism:
    """Return the mechanism and its strength, from the policy and, where `auto` may ask for it, the number of rows.

    Parameters
    ----------
    policy : Policy
        For a covariance release; with bounds for every column, unless it is made in two rounds.
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
    privacy, strength, reason = policy.privacy, policy.privacy.strength, None
    kind = _kind_of(privacy)
    scaling = _scaling(policy, kinds)
    if strength is None:
        raise PolicyError(
            "a covariance release is made at mu, epsilon with or without delta, or rho: give one", "privacy.mu"
        )
    if kind is None:
        kind, reason = choose_for_policy(privacy, strength, scaling, count_rows)
    if kind is not TwoRound:
        require_bounds(policy, kinds)
    more = kind.settings(policy, kinds)
    mechanism = kind(scaling, privacy.neighbours, kind.form_of(strength), privacy.max_rows, reason, **more)
    require_what_was_asked(mechanism, strength)
    return mechanism


def in_two_rounds(policy: Policy, kinds: Kinds) -> bool:
    """Return whether a covariance release would be made in two rounds, which find centers and scales privately."""
    privacy, strength = policy.privacy, policy.privacy.strength
    kind = _kind_of(privacy)
    if kind is not None or strength is None:
        return kind is TwoRound
    return _prefers_two_rounds(privacy, strength, len(kinds))


def _kind_of(privacy: Privacy) -> type[Mechanism] | None:
    """Return the mechanism that a policy names, or that alone makes what it asks for; None if it is to be chosen."""
    return TwoRound if privacy.scale is not None else mechanism_named(privacy.mechanism)


def _prefers_two_rounds(privacy: Privacy, strength: Strength, n_columns: int) -> bool:
    takes = TwoRound.takes(n_columns, strength.mu / privacy.max_rows)
    return privacy.neighbours.n_rows_public and not isinstance(strength, PureDP) and privacy.l2_radius is None and takes


def require_what_was_asked(mechanism: Mechanism, asked: Strength) -> None:
    """Refuse a mechanism that gives less than a policy asks for, by what the mechanism itself says that a unit loses.

    So no mechanism has to be remembered as one that gives no pure epsilon, or only a larger delta.

    Raises
    ------
    PolicyError
    """
    spent = mechanism.spends(mechanism.max_rows)
    if isinstance(asked, PureDP) and not isinstance(spent, PureDP):
        raise PolicyError(
            f"the {mechanism.name} mechanism gives no pure epsilon: give delta as well, or mu, or rho; or another "
            "mechanism",
            "privacy.mu",
        )
    excepted, most = spent.excepted_delta, asked.delta if isinstance(asked, ApproximateDP) else EXCEPTED_DELTA
    if excepted > most:
        raise PolicyError(
            f"the guarantee of the {mechanism.name} mechanism fails with a probability of up to {excepted:.2g}, above "
            f"the {most:.2g} that may be: give a larger delta, or another mechanism",
            "privacy.mu",
        )
    if not _is_within(spent, asked):
        raise PolicyError(
            f"the {mechanism.name} mechanism gives less privacy than was asked for: choose another", "privacy.mu"
        )


def _is_within(spent: GaussianDP | PureDP, asked: Strength) -> bool:
    """Return whether what is spent is no more than what was asked for, its exception apart."""
    if isinstance(spent, PureDP) and isinstance(asked, PureDP | ApproximateDP):
        return spent.epsilon <= asked.epsilon * ROUND_UP
    if isinstance(spent, PureDP) and isinstance(asked, ConcentratedDP) and spent.epsilon <= asked.mu * ROUND_UP:
        return True  # rho is at most epsilon^2 / 2
    return spent.mu <= asked.mu * ROUND_UP


def ball_radius(policy: Policy, kinds: Kinds) -> float | None:
    """Return what rows are shortened to, in half-widths of their columns' bounds; None if none can be longer.

    Without one in the policy it is what no row exceeds. All columns that one raw column is published as have a length
    of 1 together.
    """
    n_cells, radius = len(raw_names(kinds, policy.sources)), policy.privacy.l2_radius
    return math.sqrt(n_cells) if radius is None and n_cells < len(kinds) else radius


def _scaling(policy: Policy, kinds: Kinds) -> Scaling:
    bounds = [policy.column(name).bounds or _ANY_BOUNDS for name in kinds]
    if len(bounds) > MAX_FEATURES:
        raise PolicyError(f"a covariance release takes at most {MAX_FEATURES} columns, not {len(bounds)}: drop some")
    try:
        return scaling_for(bounds, radius=ball_radius(policy, kinds))
    except ParameterError as error:
        name = "l2_radius" if error.name == "radius" else error.name
        raise PolicyError(f"{name} must be {error.allowed}, not {error.received}") from error


def choose_for_policy(
    privacy: Privacy, strength: Strength, scaling: Scaling, count_rows: Callable[[], int]
) -> tuple[type[Mechanism], str]:
    """Return the mechanism for a policy's unit, and a sentence that says why; see `choose_mechanism`."""
    if not privacy.neighbours.n_rows_public:
        kind: type[Mechanism] = Gaussian
        if isinstance(strength, PureDP):
            errors = expected_errors(1, scaling, _of_one_row(strength, privacy.max_rows), privacy.neighbours)
            kind = min((other for other in (WishartDifference, Laplace) if other in errors), key=errors.__getitem__)
        return kind, f"{kind.name} was chosen without the number of rows, which is protected"
    if _prefers_two_rounds(privacy, strength, scaling.n_features):
        return TwoRound, "two-round was chosen, as its correlations have the smallest error"

    one_row: Strength
    if isinstance(strength, PureDP):
        one_row = _of_one_row(strength, privacy.max_rows)
    elif isinstance(strength, ApproximateDP) and privacy.unit_name != "entity":
        one_row = strength
    else:
        one_row = GaussianDP(strength.mu / privacy.max_rows)
        check_mu(one_row.mu)
        if one_row.pure_epsilon > EPSILONS[1]:
            return Gaussian, "gaussian was chosen, as the others do not go up to this strength"
    return choose_mechanism(count_rows(), scaling, one_row)


def _of_one_row(strength: PureDP, max_rows: int) -> PureDP:
    one_row = PureDP(strength.epsilon / max_rows)
    check_epsilon(one_row.epsilon)
    return one_row


def choose_mechanism(n_rows: int, scaling: Scaling, strength: Strength) -> tuple[type[Mechanism], str]:
    """Return the mechanism with the smallest expected error, and a sentence that says why.

    Parameters
    ----------
    n_rows : int
        The number of rows, or a public estimate of it where it is private.
    scaling : Scaling
        Where rows are put, as `scaling_for` gives it from declared bounds.
    strength : GaussianDP, PureDP or ApproximateDP
        The guarantee for one row that is replaced.

    Raises
    ------
    ParameterError
        No mechanism serves it.
    """
    errors = expected_errors(n_rows, scaling, strength)
    best, *others = sorted(errors, key=errors.__getitem__)
    compared = ", ".join(f"{errors[kind]:.3g} for {kind.name}" for kind in others)
    excepted = ""
    if issubclass(best, PureMechanism) and best.excepted_delta:
        excepted = f"; its guarantee holds except with a probability of {round_up(best.excepted_delta, 2)}"
    return best, (
        f"{best.name} has the smallest expected error for {n_rows} rows and {scaling.n_features} columns: "
        f"||C^ - C||_F / n = {errors[best]:.3g} ({best.error_kind}), rows being in the unit ball, "
        f"against {compared}{excepted}"
    )


def expected_errors(
    n_rows: int, scaling: Scaling, strength: Strength, neighbours: Neighbours = Neighbours.REPLACE_ONE
) -> dict[type[Mechanism], float]:
    """Return the expected ``||C^ - C||_F / n`` of every mechanism that serves the guarantee; arguments as above."""
    found: dict[type[Mechanism], float] = {}
    for kind in all_mechanisms():
        with suppress(ParameterError, PolicyError, PrivacyError):  # it does not serve it
            mechanism = kind(scaling, neighbours, kind.form_of(strength))
            require_what_was_asked(mechanism, strength)
            error = mechanism.expected_error(n_rows)
            found |= {} if error is None else {kind: error}
    if not found:
        check_mu(strength.mu)
    return found


def cost_of_moments(policy: Policy, mechanism: Mechanism) -> Cost:
    """Return what the release will cost, for every unit of privacy that it protects, before anything is drawn.

    The ledger counts replaced rows, as every other release does: to replace one is to remove it and add another. A cell
    is part of its row.
    """
    row, unit = (mechanism.spends(rows, replaced=True) for rows in (1, mechanism.max_rows))
    spent = {"cell": row.mu, "row": row.mu, policy.privacy.account: unit.mu}
    booked = {name: mu * ROUND_UP for name, mu in spent.items()}
    return Cost(policy.privacy.account, booked, continuous=True, excepted_delta=unit.excepted_delta)


def guarantee_of_moments(
    policy: Policy, mechanism: Mechanism, columns: tuple[Column, ...], partition: str | None = None
) -> Guarantee:
    """Return what a covariance release guarantees."""
    spent = mechanism.spends(mechanism.max_rows)
    epsilon, mu = None, spent.mu
    curve: tuple[EpsilonDelta, ...] = ()
    if isinstance(spent, PureDP):
        epsilon, mu = spent.epsilon, spent.mu * ROUND_UP
        if spent.excepted_delta:
            curve = (EpsilonDelta(epsilon=epsilon, delta=spent.excepted_delta),)
    else:
        curve = privacy_curve("row", [Loss(mu, 1.0, discrete=False)])

    return Guarantee(
        **stated_of_policy(policy, columns, partition),
        mu=mu,
        rho=rho_for_mu(mu if epsilon is None else min(mu, epsilon)),  # both hold
        epsilon=epsilon,
        excepted_delta=spent.excepted_delta,
        epsilon_delta=curve,
        accountant="gaussian-dp" if epsilon is None else "pure-epsilon",
    )


def moment_columns(policy: Policy, kinds: Kinds) -> tuple[Column, ...]:
    """Return the columns as a covariance release describes them."""
    blocks = blocks_of(policy.sources)
    return tuple(
        Column(
            name=name,
            kind="continuous",
            description=entry.description,
            unit=entry.unit,
            bounds=entry.bounds,
            bounds_obtained="none" if entry.bounds is None else "declared",
            missing=cast(Missing, entry.missing),  # a category's gaps are a level by now
            noise=None,
            block=blocks.get(name),
        )
        for name, entry in ((name, policy.column(name)) for name in kinds)
    )
