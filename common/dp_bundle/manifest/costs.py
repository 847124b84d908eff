"""The cost of one release in every unit of privacy that it protects, from the bounds and noise that it states.

In rows, one changed cell is a part of its row, and that a part of its entity's rows. Noise on an entity's rows protects
each row as well, and better. A publisher rebuilds her ledger from it, and a reader compares totals with it.

Somebody who is in several units, in k rows where rows are protected, say, loses more. Noise on different cells is
independent, so that its mu^2 and rho add up over rows: mu grows as sqrt(k). What was found in all rows together, bounds
and means, he moves k times as far, so that its mu grows as k. So does that of second moments, and their epsilon. Let
something be (epsilon, delta)-private for one row. Then it is ``(k epsilon, delta (1 + e^epsilon + ... + e^((k - 1)
epsilon)))``-private for k, row by row from one table to the other. So grows the probability with which a guarantee does
not hold.

Checks that a stated total can be that of all releases so far, of which this one is the last.

References
----------
Dong, Roth & Su (2022), Gaussian differential privacy, JRSS B 84(1), theorem 2.14, corollary 3.3. Bun & Steinke (2016),
proposition 1.9, for rho of groups. Dwork, Kenthapadi, McSherry, Mironov & Naor (2006); Vadhan (2017), The complexity of
differential privacy, lemma 2.2, for delta of groups.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import SLACK, Cumulative, Discovery, Guarantee, release_mu, release_rho
from dp_bundle.manifest.noise import mu_implied_by_epsilon

_LARGEST_EXPONENT = 700.0  # of e, in float64


class Strength(NamedTuple):
    """A guarantee in numbers, as a manifest has them; but mu is true of discrete noise as well.

    Attributes
    ----------
    mu, rho : float
        Both hold.
    epsilon : float or None
        Where the guarantee is by epsilon.
    excepted_delta : float
        The probability with which none of that holds; at 1 nothing is guaranteed.
    """

    mu: float
    rho: float
    epsilon: float | None
    excepted_delta: float


def unit_costs(guarantee: Guarantee, columns: Sequence[Column], unit: str) -> dict[str, float]:
    """Return the mu of a release for a cell, for a row, and for its own unit, by that unit's name.

    Parameters
    ----------
    guarantee : Guarantee
        What the release states.
    columns : sequence of Column
        Its columns: with noise, or of a covariance release.
    unit : str
        "cell", "row", "change", or "entity:" and the entity's column.
    """
    return _of_all(guarantee, columns, unit, release_mu)


def unit_rhos(guarantee: Guarantee, columns: Sequence[Column], unit: str) -> dict[str, float]:
    """Return the least rho of a release in the same units: mu^2 / 2, or less of discrete noise; see `unit_costs`."""
    # Roots of rhos add up as mu does.
    roots = _of_all(guarantee, columns, unit, lambda *place: math.sqrt(2 * release_rho(*place)))
    return {each: 0.5 * root * root for each, root in roots.items()}


def booked_rhos(guarantee: Guarantee, columns: Sequence[Column], unit: str) -> dict[str, float]:
    """Return the rho that a publisher books: where noise was calibrated by mu, that which mu implies.

    By the rho that is stated it shows which of the two a release was calibrated by.
    """
    implied = {each: 0.5 * mu * mu for each, mu in unit_costs(guarantee, columns, unit).items()}
    return implied if guarantee.rho >= implied[unit] * (1 - SLACK) else unit_rhos(guarantee, columns, unit)


def sound_mu(guarantee: Guarantee, columns: Sequence[Column]) -> float:
    """Return the mu of a release: as it is stated, or as it follows from columns with discrete noise."""
    return cost_of_several(guarantee, columns).mu if guarantee.mu is None else guarantee.mu


def cost_of_several(
    guarantee: Guarantee, columns: Sequence[Column], number: int = 1, discovery: Discovery | None = None
) -> Strength:
    """Return what protects somebody who is in so many of a release's units, of all of them together.

    Parameters
    ----------
    guarantee : Guarantee
        What the release states.
    columns : sequence of Column
        Its columns: with noise, or of a covariance release.
    number : int
        In how many units: cells, rows, changes, or entities.
    discovery : Discovery, optional
        What was found of the columns before, with a delta that is larger for several units.
    """
    rows = guarantee.max_rows or 1
    delta = 0.0 if discovery is None else max(guarantee.excepted_delta, discovery.excepted_delta(number * rows))
    if columns[0].noise is not None:
        found = number * math.hypot(guarantee.bounds_mu, guarantee.discovery_mu)
        mu = math.hypot(math.sqrt(number) * release_mu(guarantee.unit, columns, rows), found)
        return Strength(mu, number * release_rho(guarantee.unit, columns, rows) + 0.5 * found**2, None, delta)

    rho = number**2 * guarantee.rho
    if guarantee.epsilon is None:
        return Strength(number * (guarantee.mu or 0.0), rho, None, delta)
    epsilon = number * guarantee.epsilon
    excepted = min(1.0, guarantee.excepted_delta * steps_of_exception(guarantee.epsilon, number))
    return Strength(mu_implied_by_epsilon(epsilon), rho, epsilon, excepted)


def steps_of_exception(epsilon: float, number: int) -> float:
    """Return 1 + e^epsilon + ... + e^((number - 1) epsilon): by what an excepted delta grows over so many steps."""
    if number * epsilon > _LARGEST_EXPONENT:
        return 1.0 if number == 1 else math.inf
    return (
        math.fsum(math.exp(step * epsilon) for step in range(number))
        if number < 100
        else (math.expm1(number * epsilon) / math.expm1(epsilon))
    )


def _of_all(
    guarantee: Guarantee, columns: Sequence[Column], unit: str, of_noise: Callable[[str, Sequence[Column], int], float]
) -> dict[str, float]:
    """Return the mu of the columns' noise, and of the search for bounds.

    A row moves the counts of the search in each column. Of second moments it is the mu of rows being replaced, as the
    publisher's books have it; a cell is part of its row.
    """
    if columns[0].noise is None:
        return _of_moments(guarantee, unit)
    max_rows = guarantee.max_rows or 1
    searched = sum(column.bounds_found for column in columns)
    moved = {"row": math.sqrt(searched), unit: math.sqrt(searched) * max_rows}
    moved["cell"] = 1.0
    noise = {"cell": of_noise("cell", columns, 1), "row": of_noise("row", columns, 1)}
    noise.setdefault(unit, of_noise("change" if unit == "change" else "entity", columns, max_rows))
    search = {each: guarantee.bounds_mu * moved[each] / moved[unit] if searched else 0.0 for each in noise}
    whole = {each: guarantee.discovery_mu * (1.0 if each == unit else 1 / max_rows) for each in noise}
    return {each: math.hypot(noise[each], search[each], whole[each]) for each in noise}


def _of_moments(guarantee: Guarantee, unit: str) -> dict[str, float]:
    max_rows = guarantee.max_rows or 1
    steps = guarantee.neighbours.per_replacement
    if guarantee.epsilon is None:
        whole = (guarantee.mu or 0.0) * math.sqrt(steps)
        row = whole / max_rows
    else:
        epsilon = guarantee.epsilon * steps
        whole, row = mu_implied_by_epsilon(epsilon), mu_implied_by_epsilon(epsilon / max_rows)
    return {"cell": row, "row": row, unit: whole}


def check_total(total: Cumulative, guarantee: Guarantee) -> None:
    """Refuse, by ValueError, a total that is smaller than the release's own cost."""
    if total.unit != (guarantee.unit if guarantee.entity is None else f"entity:{guarantee.entity}"):
        raise ValueError("the stated total is about another unit of privacy")
    if total.mu is not None and total.rho is None:
        raise ValueError("the stated total has a mu and no rho")
    if total.mu is not None and (guarantee.mu is None or total.mu < guarantee.mu * (1 - SLACK)):
        raise ValueError("the stated total mu is smaller than this release's own")
    if total.rho is not None and total.rho < guarantee.rho * (1 - SLACK):
        raise ValueError("the stated total rho is smaller than this release's own")
    if total.excepted_delta < guarantee.excepted_delta * (1 - SLACK):
        raise ValueError("the stated total delta is smaller than this release's own")


def check_total_in_every_unit(total: Cumulative, guarantee: Guarantee, columns: Sequence[Column]) -> None:
    """Refuse, by ValueError, totals that leave out a unit that the release protects, or are below its cost in it."""
    own = unit_rhos(guarantee, columns, total.unit)
    others = {*own} - {total.unit} if total.rho is not None else set[str]()
    if {*total.other_units_rho} != others:
        raise ValueError("totals are stated in all units that this release protects, or in none")
    for unit, rho in {total.unit: total.rho, **total.other_units_rho}.items():
        if rho is not None and rho < own[unit] * (1 - SLACK):
            raise ValueError(f"the stated total per {unit} is smaller than this release's own")
