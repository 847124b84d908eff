"""The cost of one release in every unit of privacy that it protects, from the bounds and noise that it states.

In rows, one changed cell is a part of its row, and that a part of its entity's rows; noise on an entity's rows protects
each row as well, and better. A reader compares totals with it, and a publisher rebuilds her ledger from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.guarantee_checks import release_mu
from dp_bundle.privacy import mu_implied_by_epsilon


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
    if columns[0].noise is None:
        return _of_moments(guarantee, unit)
    return _of_rows(guarantee, columns, unit)


def _of_rows(guarantee: Guarantee, columns: Sequence[Column], unit: str) -> dict[str, float]:
    """Return the mu of the columns' noise, and of the searches for bounds and for the means of rows with gaps.

    A row moves the counts of the one in each column, and the sums of the other as far as any of its cells can.
    """
    max_rows = guarantee.max_rows or 1
    searched = sum(column.bounds_found for column in columns)
    moved = {"row": math.sqrt(searched), unit: math.sqrt(searched) * max_rows}
    moved["cell"] = 1.0
    noise = {"cell": release_mu("cell", columns), "row": release_mu("row", columns)}
    noise.setdefault(unit, release_mu("change" if unit == "change" else "entity", columns, max_rows))
    search = {each: guarantee.bounds_mu * moved[each] / moved[unit] if searched else 0.0 for each in noise}
    centers = {each: guarantee.centers_mu * (1.0 if each == unit else 1 / max_rows) for each in noise}
    return {each: math.hypot(noise[each], search[each], centers[each]) for each in noise}


def _of_moments(guarantee: Guarantee, unit: str) -> dict[str, float]:
    """Return the mu of rows being replaced, as the publisher's books have it; a cell is part of its row."""
    max_rows = guarantee.max_rows or 1
    steps = guarantee.neighbours.per_replacement
    if guarantee.epsilon is None:
        whole = (guarantee.mu or 0.0) * math.sqrt(steps)
        row = whole / max_rows
    else:
        epsilon = guarantee.epsilon * steps
        whole, row = mu_implied_by_epsilon(epsilon), mu_implied_by_epsilon(epsilon / max_rows)
    return {"cell": row, "row": row, unit: whole}
