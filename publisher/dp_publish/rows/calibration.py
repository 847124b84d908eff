"""Calibration: from the publisher's decisions to the noise on each column, and what it costs and guarantees.

A strength becomes a mu for the unit of privacy. A part of it goes into finding the bounds that the policy leaves out
(`bounds_share` of mu^2). The rest is shared out over the raw table's columns. A row's mu^2 in proportion to their
weights, so that without weights width over sigma is equal; a cell's is each column's own. Discrete noise on whole
numbers gets the sigma for which its part of mu is true, which is more than width over mu
(`dp_bundle.manifest.discrete_mu`). Where the strength is rho, or epsilon and delta, its sigma is width over its part of
sqrt(2 rho), for which rho is exact. Its mu is what follows. Not so where bounds have to be found, as their cost is
booked before it is known how many steps they hold.

A category's own part goes to noise on the columns of all its levels, which move by the square root of 2 together. Or it
goes to randomised response. A number's own part goes to its noise. An indicator of its gaps gets so much noise that a
gap beside a value tells no more than two values. In a wide table sigmas are rounded up to a common ladder.

The cost of a release of rows, and its guarantee, are one derivation, from bounds and noise alone, never from the data.
Noise on rows is the Gaussian mechanism on the rows themselves. For each unit of privacy, the mu of a release has two
parts, which compose. One is the noise on the unit's rows, the other the search for bounds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dp_bundle.base.errors import PolicyError, PrivacyError
from dp_bundle.base.quoting import listed
from dp_bundle.manifest.columns import Column, Noise, RandomizedResponse, Source, cells_of, mu_of_gap
from dp_bundle.manifest.guarantee import Guarantee, release_mu, release_rho
from dp_bundle.manifest.noise import MAX_SIGMA
from dp_publish.accounting.conversions import ROUND_UP, Cost, mu_for_rho, rho_for_epsilon_delta, rho_for_mu
from dp_publish.accounting.curve import Loss, epsilon_of_unit, privacy_curve
from dp_publish.accounting.strength import ApproximateDP, GaussianDP, Strength
from dp_publish.data.kinds import KINDS, Kinds
from dp_publish.policy.coded_columns import blocks_of
from dp_publish.policy.columns import stated_of_policy
from dp_publish.policy.model import Policy
from dp_publish.rows.noise import (
    N_RUNGS,
    ROW_NOISE,
    Bounds,
    RowNoise,
    is_response_better,
    losses_of,
    response_for,
    rung_above,
)
from dp_publish.rows.private_bounds import choice_mu, search_mu

_MUS = (1e-100, 1e100)  # so that rho and sigma are far from the ends of float64


@dataclass(frozen=True)
class Shares:
    """The unit's mu, shared out.

    Attributes
    ----------
    target : float
        The whole; infinite where sigma itself was given, so that mu is whatever follows.
    columns : dict of str to float
        Each published column's own part.
    cells : dict of str to float
        The part of every cell of a row, by the raw column's name: that of its one column, or of a category's together.
    is_mu : bool
        Whether these parts are mu of discrete noise too. They are sqrt(2 rho) of it otherwise.
    responses : dict of str to RandomizedResponse
        The columns that have this in place of noise.
    searched : tuple of str
        The columns whose bounds have to be found.
    choice_mu : float
        What each of that search's choices may cost a cell; zero if there is none.
    """

    target: float
    columns: dict[str, float]
    cells: dict[str, float] = field(default_factory=dict)
    is_mu: bool = True
    responses: dict[str, RandomizedResponse] = field(default_factory=dict)
    searched: tuple[str, ...] = ()
    choice_mu: float = 0.0


def share_mu(policy: Policy, kinds: Kinds) -> Shares:
    """Share the policy's strength out over the columns to be published, and what has to be found for them."""
    privacy, strength = policy.privacy, policy.privacy.strength
    if strength is None:
        return _shares_of_sigma(policy, kinds, privacy.sigma or math.inf)

    searched = tuple(name for name in kinds if policy.column(name).bounds is None)
    target = _checked_mu(_target_mu(policy, strength, kinds, searched=bool(searched)))
    return _share_target(policy, kinds, searched, target)


def _share_target(policy: Policy, kinds: Kinds, searched: tuple[str, ...], target: float) -> Shares:
    """Share the unit's mu out."""
    privacy = policy.privacy
    is_mu = isinstance(privacy.strength, GaussianDP) or bool(searched)
    for_bounds = privacy.bounds_share if searched else 0.0

    per_row = target * math.sqrt(1 - for_bounds) / math.sqrt(privacy.max_rows)
    members = _cells(policy, kinds)
    weights = {cell: policy.column(names[0]).weight for cell, names in members.items()}
    total = math.fsum(weights.values())
    alone = privacy.unit_name in ("cell", "change")
    cells = {cell: per_row if alone else per_row * math.sqrt(weight / total) for cell, weight in weights.items()}
    responses = {
        name: response
        for source in policy.sources
        for response in [_response_of(policy, source, cells, is_mu=is_mu)]
        if response is not None
        for name in source.columns
    }
    columns = {name: cells[cell] / _moved(names, policy) for cell, names in members.items() for name in names}
    for cell, (name, *_) in members.items():  # randomised response may lose less than its part
        cells[cell] = min(cells[cell], responses[name].mu) if name in responses else cells[cell]

    each = 0.0
    if searched:
        cost = target * math.sqrt(for_bounds)
        each = choice_mu(privacy.unit_name, len(searched), cost, privacy.max_rows) / ROUND_UP
    return Shares(target, columns, cells, is_mu, responses, searched, each)


def _shares_of_sigma(policy: Policy, kinds: Kinds, sigma: float) -> Shares:
    """Return the parts that follow from a given sigma."""
    members = _cells(policy, kinds)
    asked = [source.name for source in policy.sources if _mechanism(policy, source) == "randomized-response"]
    if asked:
        raise PolicyError(
            f"randomised response, of {listed(asked)}, needs a strength: mu, epsilon and delta, or rho", "privacy.mu"
        )
    reaches = {name: _reach(policy, name, policy.column(name).bounds) for name in kinds}
    columns = {name: _checked_mu(reach / sigma) for name, reach in reaches.items()}
    cells = {cell: columns[names[0]] * _moved(names, policy) for cell, names in members.items()}
    for cell, (value, *others) in members.items():
        if _indicates_gaps(policy, value):
            noise = ROW_NOISE[kinds[value]].describe(sigma, policy.column(value).bounds)
            cells[cell] = max(cells[cell], mu_of_gap(reaches[value], noise, columns[others[0]]))
    return Shares(math.inf, columns, cells, is_mu=False)


def _cells(policy: Policy, kinds: Kinds) -> dict[str, list[str]]:
    """Return the published columns of each of a row's cells."""
    blocks = blocks_of(policy.sources)
    members: dict[str, list[str]] = {}
    for name in kinds:
        members.setdefault(blocks.get(name, name), []).append(name)
    return members


def _moved(names: Sequence[str], policy: Policy) -> float:
    """Return how far a cell moves its columns together, if it moves one by 1: of a category's, it moves two."""
    return math.sqrt(2) if len(names) > 1 and not _indicates_gaps(policy, names[0]) else 1.0


def _indicates_gaps(policy: Policy, name: str) -> bool:
    """Return True if the next column is an indicator of this one's gaps, and both are in one cell."""
    return policy.column(name).missing == "indicator"


def _response_of(
    policy: Policy, source: Source, cells: Mapping[str, float], *, is_mu: bool
) -> RandomizedResponse | None:
    """Return randomised response for a category or a truth value, where it is asked for, or is more accurate."""
    wanted = _mechanism(policy, source)
    if not KINDS[source.kind].is_nominal or wanted == "gaussian" or source.name not in cells:
        return None
    n_levels, mu = len(source.levels), cells[source.name]
    moved = math.sqrt(2) if n_levels > 2 else 1.0
    sigma = ROW_NOISE["integer"].sigma_for(1.0, mu / moved) if is_mu else moved / mu
    if wanted is None and not is_response_better(n_levels, mu, sigma):
        return None
    response = response_for(n_levels, mu / ROUND_UP)
    if response is None and wanted is not None:
        raise PrivacyError(f"randomised response on {source.name!r} would show nothing: choose another strength")
    return response


def _mechanism(policy: Policy, source: Source) -> str | None:
    return policy.column(source.columns[0]).mechanism


def calibrate(policy: Policy, kinds: Kinds) -> tuple[Column, ...]:
    """Return the columns as they will be published, where the policy alone decides: all bounds given."""
    return set_noise(policy, kinds, share_mu(policy, kinds))


def set_noise(
    policy: Policy,
    kinds: Kinds,
    shares: Shares,
    *,
    found: Mapping[str, Bounds] | None = None,
) -> tuple[Column, ...]:
    """Return the published columns with their bounds and calibrated noise.

    Parameters
    ----------
    policy : Policy
    kinds : mapping of str to {"continuous", "integer"}
        The columns to publish, in order; those of a category stand together.
    shares : Shares
        As `share_mu` gives them.
    found : mapping of str to (float, float), optional
        Bounds found privately, for the columns that the policy gives none.

    Raises
    ------
    PolicyError, PrivacyError
        The strength, the bounds and the kinds do not go together.
    """
    wide, blocks = len(kinds) > N_RUNGS, blocks_of(policy.sources)
    columns: list[Column] = []
    for name, kind in kinds.items():
        beside = columns[-1] if columns and _indicates_gaps(policy, columns[-1].name) else None
        bounds = (found or {}).get(name)
        columns.append(_set_column(policy, name, kind, shares, bounds, beside, blocks.get(name), wide=wide))
    return tuple(columns)


def _set_column(
    policy: Policy,
    name: str,
    kind: str,
    shares: Shares,
    found: Bounds | None,
    beside: Column | None,
    block: str | None,
    *,
    wide: bool,
) -> Column:
    entry, privacy, noise = policy.column(name), policy.privacy, ROW_NOISE[kind]
    bounds = entry.bounds if entry.bounds is not None else found
    noise.require(name, None, bounds)
    described: Noise | RandomizedResponse | None = shares.responses.get(name)
    if described is None:
        sigma = (
            _sigma(policy, name, noise, _reach(policy, name, bounds), shares)
            if beside is None
            else _sigma_beside(policy, beside, shares)
        )
        if found is not None and 1.01 * sigma > MAX_SIGMA and not noise.is_gaussian:  # up to a rung more
            kind, noise = "continuous", ROW_NOISE["continuous"]
            sigma = _sigma(policy, name, noise, _reach(policy, name, bounds), shares)
        if wide and privacy.sigma is None:
            sigma = rung_above(sigma)
        noise.require(block or name, sigma, bounds)
        described = noise.describe(sigma, bounds)
    return Column.model_validate(
        {
            "name": name,
            "kind": kind,
            "description": entry.description,
            "unit": entry.unit,
            "bounds": bounds,
            "bounds_obtained": "private-quantiles" if entry.bounds is None else "declared",
            "missing": entry.missing,
            "max_change": entry.max_change if privacy.unit == "change" else None,
            "noise": described,
            "block": block,
        }
    )


def _sigma(policy: Policy, name: str, noise: RowNoise, reach: float, shares: Shares) -> float:
    """Return a column's sigma: as it was given, or by its share of mu."""
    privacy = policy.privacy
    if privacy.sigma is not None:
        return privacy.sigma
    part = shares.columns[name]
    sigma = (noise.sigma_for(reach, part) if shares.is_mu else reach / part) * ROUND_UP
    return noise.sigma_for_found(sigma) if policy.column(name).bounds is None else sigma


def _sigma_beside(policy: Policy, value: Column, shares: Shares) -> float:
    """Return the sigma of an indicator of a column's gaps, with which a gap tells as much as the cell's mu allows."""
    if policy.privacy.sigma is not None:
        return policy.privacy.sigma
    mu = shares.columns[value.name]
    of_value = mu_of_gap(value.width, value.cell_noise, 0.0)
    if not of_value < 0.9 * mu:
        raise PrivacyError(
            f"the noise on {value.name!r} leaves nothing for an indicator of its gaps: choose another strength, or "
            'missing = "midpoint"'
        )
    return ROUND_UP / math.sqrt(mu * mu - of_value * of_value)


def _target_mu(policy: Policy, strength: Strength, kinds: Kinds, *, searched: bool) -> float:
    """Return the unit's mu: that of the strength; of discrete noise at (epsilon, delta) the largest sqrt(2 rho)."""
    discrete = [name for name, kind in kinds.items() if not ROW_NOISE[kind].is_gaussian]
    if not isinstance(strength, ApproximateDP) or not discrete:
        return strength.mu
    from scipy import optimize  # which takes a quarter of a second to import, and few policies need

    safe = mu_for_rho(rho_for_epsilon_delta(strength.epsilon, strength.delta))  # whatever the discrete noise's sigma
    if searched:
        return safe

    privacy, highest = policy.privacy, 1.5 * strength.mu

    def excess(mu: float) -> float:
        trial = policy.with_privacy(rho=rho_for_mu(mu), epsilon=None, delta=None)
        losses = losses_of(calibrate(trial, kinds), privacy.unit_name)
        return epsilon_of_unit(privacy.unit_name, losses, strength.delta, privacy.max_rows) - strength.epsilon

    if excess(safe) >= 0 or excess(highest) <= 0:
        return safe
    best = float(optimize.brentq(excess, safe, highest, rtol=1e-6))
    while excess(best) > 0:  # the root finder may end on the wrong side
        best *= 1 - 1e-6
    return max(best, safe)


def _checked_mu(mu: float) -> float:
    least, most = _MUS
    if not least <= mu <= most:
        raise PrivacyError(
            f"this strength amounts to mu = {mu:.3g}, where a release protects nothing or shows nothing: "
            f"choose one that amounts to {least:g} to {most:g}"
        )
    return mu


def _reach(policy: Policy, name: str, bounds: Bounds | None) -> float:
    """Return how far a unit of privacy can move a column."""
    limit = policy.column(name).max_change if policy.privacy.unit == "change" else None
    width = math.inf if bounds is None else bounds[1] - bounds[0]
    return min(width, math.inf if limit is None else limit)


def cost_of_rows(policy: Policy, kinds: Kinds, shares: Shares, columns: Sequence[Column] | None = None) -> Cost:
    """Return what the release will cost, for every unit of privacy that it protects, before anything is drawn.

    That is what the shares allow, or the little less that the `columns` take, where these are known already. Where
    the shares are sqrt(2 rho), it is the mu of the noise.
    """
    privacy = policy.privacy
    gaussian = all(ROW_NOISE[kind].is_gaussian or name in shares.responses for name, kind in kinds.items())
    if columns is None and not shares.is_mu:
        columns = set_noise(policy, kinds, shares)

    mu = _by_unit(policy, shares, lambda unit: _noise_mu(shares, unit, policy, columns))
    roots = {}
    if not gaussian:
        roots = (
            mu
            if columns is None or shares.is_mu
            else _by_unit(policy, shares, lambda unit: _root_of_rho(unit, columns))
        )
    rho = {unit: rho_for_mu(root) for unit, root in roots.items()}
    changes = {name: policy.column(name).max_change for name in kinds} if privacy.unit == "change" else {}
    return Cost(privacy.account, mu, gaussian, changes=changes, rho=rho)


def _by_unit(policy: Policy, shares: Shares, of_noise: Callable[[str], float]) -> dict[str, float]:
    """Return what a release costs in every unit that it protects, given what the noise costs in one, as mu."""
    privacy = policy.privacy
    noise = {unit: (of_noise(unit), 1) for unit in ("cell", "row")}
    if privacy.unit == "change":
        noise["change"] = (of_noise("change"), 1)
    if privacy.entity:
        noise[privacy.account] = (math.sqrt(privacy.max_rows) * noise["row"][0], privacy.max_rows)
    return {unit: _with_search(shares, unit, alone, rows) for unit, (alone, rows) in noise.items()}


def _noise_mu(shares: Shares, unit: str, policy: Policy, columns: Sequence[Column] | None) -> float:
    """Return the mu of the noise on a cell or a row: what the shares allow, or what the columns take of that."""
    mus = list(shares.cells.values())
    if columns is not None:
        cells = cells_of(columns, unit)
        # a part of sqrt(2 rho) says nothing of mu, and a cell may move farther than what a change is shared out for
        within = shares.is_mu and (unit == "change" or policy.privacy.unit != "change")
        mus = [min(mu, cell.mu) if within else cell.mu for mu, cell in zip(mus, cells, strict=True)]
    return max(mus) if unit != "row" else math.hypot(*mus)


def guarantee_of_rows(
    policy: Policy, columns: tuple[Column, ...], shares: Shares, partition: str | None = None
) -> Guarantee:
    """Return what a release guarantees."""
    privacy = policy.privacy
    measure = release_mu if shares.is_mu else _root_of_rho  # the same, unless noise is discrete
    of_noise = measure(privacy.unit_name, columns, privacy.max_rows)
    bounds_mu = _search_mu(shares, privacy.account, privacy.max_rows) * ROUND_UP
    spent = _with_search(shares, privacy.account, of_noise, privacy.max_rows)  # rounded up once, as the books have it
    mu = min(shares.target, spent)

    gaussian = all(column.is_gaussian for column in columns)
    if gaussian:
        curve = privacy_curve("row", [Loss(mu, 1.0, discrete=False)])
    else:
        losses = losses_of(columns, privacy.unit_name)
        curve = privacy_curve(privacy.unit_name, losses, privacy.max_rows, bounds_mu)
    return Guarantee(
        **stated_of_policy(policy, columns, partition),
        mu=mu if gaussian else None,
        rho=rho_for_mu(mu),
        bounds_mu=bounds_mu,
        epsilon_delta=curve,
        accountant="gaussian-dp" if gaussian else "privacy-loss-distribution",
    )


def _root_of_rho(unit: str, columns: Sequence[Column], max_rows: int = 1) -> float:
    return math.sqrt(2 * release_rho(unit, columns, max_rows))


def _with_search(shares: Shares, unit: str, of_noise: float, max_rows: int) -> float:
    """Return a unit's mu, given that of the noise on its rows, of which it has at most so many."""
    return math.hypot(of_noise, _search_mu(shares, unit, max_rows)) * ROUND_UP


def _search_mu(shares: Shares, unit: str, max_rows: int) -> float:
    if not shares.searched:
        return 0.0
    return search_mu(unit.split(":")[0], len(shares.searched), shares.choice_mu, max_rows)
