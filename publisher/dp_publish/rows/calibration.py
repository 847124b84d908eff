"""From what the publisher decided to the noise on each column, and to what that guarantees.

A strength becomes a mu for the unit of privacy, a part of which goes into finding the bounds that the policy leaves out
(`bounds_share` of mu^2), a hundredth of what is left into the means at which rows with gaps stand, if any do, and the
rest is shared out over the columns: a row's mu^2 in proportion to their weights, so that without weights width over
sigma is equal; a cell's is each column's own. In a wide table sigmas are rounded up to a common `ladder`. The guarantee
is that of the Gaussian mechanism on the rows themselves: it rests on bounds and on sigma, and no number in it is
computed from the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import optimize

from dp_bundle.errors import PolicyError, PrivacyError
from dp_bundle.manifest import (
    GAPS_PUBLIC,
    ORDER_PUBLIC,
    PARTITION_PUBLIC,
    TOGETHER_PUBLIC,
    Ball,
    Column,
    Guarantee,
    release_mu,
)
from dp_bundle.privacy import MIN_SIGMA
from dp_bundle.quoting import listed
from dp_publish.accounting import (
    Cost,
    Loss,
    epsilon_of_unit,
    mu_for_epsilon_delta,
    mu_for_rho,
    privacy_curve,
    rho_for_epsilon_delta,
    rho_for_mu,
)
from dp_publish.policy import EntityUnit, Policy
from dp_publish.rows.ladder import N_RUNGS, rung_above
from dp_publish.rows.mechanism import noise_for
from dp_publish.rows.private_bounds import Bounds, histogram_mu, histogram_sigma
from dp_publish.rows.private_centers import centers_mu as mu_of_centers
from dp_publish.rows.private_centers import centers_sigma

__all__ = ["ENOUGH_SIGMA", "Shares", "account", "calibrate", "cost_of", "set_noise", "share_mu"]

ENOUGH_SIGMA = 0.31  # from which on discrete noise moves more than one whole number in a hundred
_MUS = (1e-100, 1e100)  # so that rho and sigma are far from the ends of float64
_CENTERS_SHARE = 0.01  # of rho: their noise is far below the sampling error of a mean
_ROUND_UP = 1 + 1e-12  # sigmas and printed mus are rounded to the safe side by far more than their float error


@dataclass(frozen=True)
class Shares:
    """How the unit's mu is spent.

    Attributes
    ----------
    target : float
        The whole; infinite where sigma itself was given, so that mu is whatever follows.
    columns : dict of str to float
        Each column's own mu: its width over its sigma. Empty for strength by SNR.
    searched : tuple of str
        The columns whose bounds have to be found.
    histogram_sigma : float
        The noise on the counts of that search, in counts; infinite if there is none.
    centers_sigma : float
        The noise on the sums for the columns' means, in half-widths; infinite if they are not needed.
    """

    target: float
    columns: dict[str, float]
    searched: tuple[str, ...] = ()
    histogram_sigma: float = math.inf
    centers_sigma: float = math.inf


def share_mu(policy: Policy, kinds: Mapping[str, str]) -> Shares:
    """Return how the policy's strength is spent on the columns to be published."""
    privacy, max_rows = policy.privacy, _max_rows(policy)
    centered = _require_centers(policy, kinds)
    if privacy.snr_db is not None:
        return Shares(math.inf, {})
    if privacy.sigma is not None:
        widths = {name: _width(policy, name, policy.column(name).bounds) for name in kinds}
        return Shares(math.inf, {name: _checked_mu(width / privacy.sigma) for name, width in widths.items()})
    ball = privacy.l2_radius is not None
    searched = () if ball else tuple(name for name in kinds if policy.column(name).bounds is None)
    target = _checked_mu(_target_mu(policy, kinds, searched))
    left = (1 - (privacy.bounds_share if searched else 0.0)) * (1 - (_CENTERS_SHARE if centered else 0.0))
    spread = target * math.sqrt(left)
    per_row = spread / math.sqrt(max_rows)
    weights = {name: policy.column(name).weight for name in kinds}
    total = math.fsum(weights.values())
    alone = ball or privacy.unit_name == "cell"
    columns = {name: per_row if alone else per_row * math.sqrt(weight / total) for name, weight in weights.items()}
    counts_sigma = sums_sigma = math.inf
    if searched:
        cost = target * math.sqrt(privacy.bounds_share)
        counts_sigma = histogram_sigma(privacy.unit_name, len(searched), cost, max_rows) * _ROUND_UP
    if centered:
        cost = target * math.sqrt((1 - (privacy.bounds_share if searched else 0.0)) * _CENTERS_SHARE)
        sums_sigma = centers_sigma(len(kinds), cost, max_rows) * _ROUND_UP
    return Shares(target, columns, searched, counts_sigma, sums_sigma)


def cost_of(policy: Policy, kinds: Mapping[str, str], shares: Shares, columns: Sequence[Column] | None = None) -> Cost:
    """Return what the release will cost, for every unit of privacy that it protects, before anything is drawn.

    That is what the shares allow, or the little less that the `columns` take, where these are known already.
    """
    privacy, continuous = policy.privacy, "integer" not in kinds.values()
    if not shares.columns:
        return Cost(privacy.account, {}, continuous)
    mus = list(shares.columns.values())
    if columns is not None:
        mus = [min(mu, column.cell_mu) for mu, column in zip(mus, columns, strict=True)]
    cell = max(mus)
    row = cell if privacy.l2_radius is not None else math.hypot(*mus)
    if math.isfinite(shares.centers_sigma):
        cell = row  # whether it has a value decides over its row
    spent = {"cell": (cell, 1), "row": (row, 1)}
    if isinstance(privacy.unit, EntityUnit):
        spent[privacy.account] = (math.sqrt(privacy.unit.max_rows) * row, privacy.unit.max_rows)
    mu = {
        account: math.hypot(mu, _search_mu(shares, account, max_rows), _centers_mu(shares, max_rows)) * _ROUND_UP
        for account, (mu, max_rows) in spent.items()
    }
    return Cost(privacy.account, mu, continuous)


def calibrate(policy: Policy, kinds: Mapping[str, str]) -> tuple[Column, ...]:
    """Return the columns as they will be published, where the policy alone decides: all bounds given, no SNR."""
    return set_noise(policy, kinds, share_mu(policy, kinds))


def set_noise(
    policy: Policy,
    kinds: Mapping[str, str],
    shares: Shares,
    *,
    found: Mapping[str, Bounds] | None = None,
    deviations: Mapping[str, float] | None = None,
) -> tuple[Column, ...]:
    """Return the published columns with their bounds and calibrated noise.

    Parameters
    ----------
    policy : Policy
    kinds : mapping of str to {"continuous", "integer"}
        The columns to publish, in order.
    shares : Shares
        As `share_mu` gives them.
    found : mapping of str to (float, float), optional
        Bounds found privately, for the columns that the policy gives none.
    deviations : mapping of str to float, optional
        Every column's own standard deviation, for strength by SNR.

    Raises
    ------
    PolicyError, PrivacyError
        The strength, the bounds and the kinds do not go together.
    """
    wide = len(kinds) > N_RUNGS
    return tuple(
        _set_column(policy, name, kind, shares, (found or {}).get(name), (deviations or {}).get(name), wide=wide)
        for name, kind in kinds.items()
    )


def account(
    policy: Policy, columns: tuple[Column, ...], shares: Shares, partition: str | None = None
) -> tuple[Guarantee | None, float | None]:
    """Return what a release guarantees, and, where that is nothing, the conditional mu of a cell if there is one."""
    privacy, max_rows = policy.privacy, _max_rows(policy)
    if privacy.snr_db is not None:
        mu_cell = release_mu("cell", columns)
        return None, mu_cell if math.isfinite(mu_cell) else None
    continuous = all(column.kind == "continuous" for column in columns)
    bounds_mu = _search_mu(shares, privacy.account, max_rows) * _ROUND_UP
    centers_mu = _centers_mu(shares, max_rows) * _ROUND_UP
    whole = math.hypot(release_mu(privacy.unit_name, columns, max_rows), bounds_mu, centers_mu) * _ROUND_UP
    mu = min(shares.target, whole)  # the target, to which the sigmas, rounded up, keep
    if continuous:
        curve = privacy_curve("row", [Loss(mu, 1.0, discrete=False)])
    else:
        curve = privacy_curve(privacy.unit_name, _losses(columns), max_rows, bounds_mu)
    entity = privacy.unit if isinstance(privacy.unit, EntityUnit) else None
    guarantee = Guarantee(
        unit=privacy.unit_name,
        entity=entity.entity if entity else None,
        max_rows=entity.max_rows if entity else None,
        mu=mu if continuous else None,
        rho=rho_for_mu(mu),
        bounds_mu=bounds_mu,
        centers_mu=centers_mu,
        epsilon_delta=curve,
        accountant="gaussian-dp" if continuous else "privacy-loss-distribution",
        public=tuple(_public(entity, partition, columns)),
    )
    return guarantee, None


def _checked_mu(mu: float) -> float:
    least, most = _MUS
    if not least <= mu <= most:
        raise PrivacyError(
            f"this strength amounts to mu = {mu:.3g}, which is neither protection nor data: choose one that amounts to "
            f"{least:g} to {most:g}"
        )
    return mu


def _target_mu(policy: Policy, kinds: Mapping[str, str], searched: tuple[str, ...]) -> float:
    """Return the unit's mu: given, from rho, or the largest whose curve passes under (epsilon, delta)."""
    privacy = policy.privacy
    if privacy.mu is not None:
        return privacy.mu
    if privacy.rho is not None:
        return mu_for_rho(privacy.rho)
    epsilon, delta = privacy.epsilon or 0.0, privacy.delta or 0.0
    gaussian = mu_for_epsilon_delta(epsilon, delta)
    if "integer" not in kinds.values():
        return gaussian
    safe = mu_for_rho(rho_for_epsilon_delta(epsilon, delta))  # whatever the discrete noise's sigma
    if searched:
        return safe

    def excess(mu: float) -> float:
        trial = privacy.model_copy(update={"mu": mu, "epsilon": None, "delta": None})
        columns = calibrate(policy.model_copy(update={"privacy": trial}), kinds)
        return epsilon_of_unit(privacy.unit_name, _losses(columns), delta, _max_rows(policy)) - epsilon

    if excess(safe) >= 0 or excess(1.5 * gaussian) <= 0:
        return safe
    best = float(optimize.brentq(excess, safe, 1.5 * gaussian, rtol=1e-6))
    while excess(best) > 0:
        best *= 1 - 1e-6
    return max(best, safe)


def _set_column(
    policy: Policy,
    name: str,
    kind: str,
    shares: Shares,
    found: Bounds | None,
    deviation: float | None,
    *,
    wide: bool,
) -> Column:
    entry, privacy = policy.column(name), policy.privacy
    bounds = entry.bounds if entry.bounds is not None else found
    if kind == "integer" and bounds is not None and not (bounds[0].is_integer() and bounds[1].is_integer()):
        raise PolicyError(f'column {name!r} is an integer column: give it integer bounds, or kind = "continuous"')
    ball, obtained = None, "private-histogram" if entry.bounds is None else "declared"
    if privacy.l2_radius is not None:
        ball, obtained = Ball(center=entry.center, scale=entry.scale, radius=privacy.l2_radius), "ball"
    elif bounds is None:
        obtained = "none"
    width = _width(policy, name, bounds)
    if deviation is not None:
        sigma = 10 ** (-(privacy.snr_db or 0.0) / 20) * deviation
        sigma = max(sigma, MIN_SIGMA) if kind == "integer" else sigma
    else:
        sigma = privacy.sigma or width / shares.columns[name] * _ROUND_UP
        if kind == "integer" and entry.bounds is None and ball is None:  # they may turn out to be few
            sigma = max(sigma, ENOUGH_SIGMA)
    if wide and privacy.sigma is None:
        sigma = rung_above(sigma)
    if kind == "integer" and sigma < MIN_SIGMA:
        raise PolicyError(
            f"integer column {name!r} would get noise of sigma {sigma:.3g}, which hardly ever moves a value: choose a "
            f'strength that gives at least {MIN_SIGMA:g}, or kind = "continuous"'
        )
    limits = (ball.center - width / 2, ball.center + width / 2) if ball else bounds
    return Column.model_validate(
        {
            "name": name,
            "kind": kind,
            "description": entry.description,
            "unit": entry.unit,
            "bounds": bounds,
            "bounds_obtained": obtained,
            "ball": ball,
            "missing": entry.missing,
            "noise": noise_for(kind, sigma, limits),
        }
    )


def _width(policy: Policy, name: str, bounds: Bounds | None) -> float:
    if policy.privacy.l2_radius is not None:
        return 2 * policy.privacy.l2_radius * policy.column(name).scale
    return math.inf if bounds is None else bounds[1] - bounds[0]


def _search_mu(shares: Shares, account: str, max_rows: int) -> float:
    unit = account.split(":")[0]
    return histogram_mu(unit, len(shares.searched), shares.histogram_sigma, max_rows) if shares.searched else 0.0


def _centers_mu(shares: Shares, max_rows: int) -> float:
    sigma = shares.centers_sigma
    return mu_of_centers(len(shares.columns), sigma, max_rows) if math.isfinite(sigma) else 0.0


def _require_centers(policy: Policy, kinds: Mapping[str, str]) -> bool:
    """Return whether means are to be found for rows with gaps; refuse that where rows cannot stand at them."""
    privacy = policy.privacy
    centered = [name for name in kinds if policy.column(name).missing == "center"]
    if not centered:
        return False
    said = f'missing = "center", of {listed(centered)},'
    if privacy.snr_db is not None or privacy.sigma is not None or privacy.l2_radius is not None:
        raise PolicyError(
            f"{said} goes with bounds, and with mu, epsilon and delta, or rho, of which a part finds the means; for "
            'other strengths, and in a ball, give missing = "drop"'
        )
    if privacy.unit == "cell":
        raise PolicyError(
            f'{said} puts whole rows at the means, so that a cell cannot be protected alone: give unit = "row", or '
            'missing = "drop" where it may be known which rows have gaps'
        )
    whole = [name for name, kind in kinds.items() if kind == "integer"]
    if whole:
        raise PolicyError(
            f'{said} puts whole rows at the means, which are no integers: give kind = "continuous" for '
            f'{listed(whole)}, or missing = "drop"'
        )
    return True


def _losses(columns: tuple[Column, ...]) -> list[Loss]:
    if columns[0].ball is not None:
        return [Loss(max(column.cell_mu for column in columns), 1.0, discrete=False)]
    return [Loss(column.width, column.cell_noise.sigma, discrete=column.kind == "integer") for column in columns]


def _max_rows(policy: Policy) -> int:
    return policy.privacy.unit.max_rows if isinstance(policy.privacy.unit, EntityUnit) else 1


def _public(entity: EntityUnit | None, partition: str | None, columns: tuple[Column, ...]) -> list[str]:
    public = [ORDER_PUBLIC]
    if entity is not None:
        public.append(TOGETHER_PUBLIC)
    if partition is not None:
        public.append(f"{PARTITION_PUBLIC}{partition!r}")
    dropping = [column.name for column in columns if column.missing == "drop"]
    if dropping:
        public.append(f"{GAPS_PUBLIC}{listed(dropping)}")
    return public
