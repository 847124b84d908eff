"""The cost of a release of rows, and its guarantee: one derivation, from bounds and noise alone, never from the data.

Noise on rows is the Gaussian mechanism on the rows themselves. For each unit of privacy, the mu of a release has two
parts, which compose: the noise on the unit's rows, and the search for bounds.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from dp_bundle.manifest.columns import Column, cells_of
from dp_bundle.manifest.guarantee import Guarantee, release_mu, release_rho
from dp_publish.accounting.conversions import ROUND_UP, Cost, rho_for_mu
from dp_publish.accounting.curve import Loss, privacy_curve
from dp_publish.policy.columns import public_facts
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import Shares, set_noise
from dp_publish.rows.noise import ROW_NOISE, losses_of
from dp_publish.rows.private_bounds import search_mu


def cost_of_rows(
    policy: Policy, kinds: Mapping[str, str], shares: Shares, columns: Sequence[Column] | None = None
) -> Cost:
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
        unit=privacy.unit_name,
        entity=privacy.entity.entity if privacy.entity else None,
        max_rows=privacy.entity.max_rows if privacy.entity else None,
        mu=mu if gaussian else None,
        rho=rho_for_mu(mu),
        bounds_mu=bounds_mu,
        epsilon_delta=curve,
        accountant="gaussian-dp" if gaussian else "privacy-loss-distribution",
        public=public_facts(policy, columns, partition),
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
