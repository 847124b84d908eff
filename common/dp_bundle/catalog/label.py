"""The privacy label of a release: who is protected, from whom, how strongly, at what cost, and what is not.

Its sentences are those of `dp_bundle.describe`, which other pages show; a publisher's receipt has them from here.
"""

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

from dp_bundle.base.quoting import counted
from dp_bundle.describe.sentences import (
    chance_in_all,
    chance_of_guess,
    describe_bounds,
    describe_discovery,
    describe_gaps,
    describe_guess,
    describe_guess_in_all,
    describe_hundred,
    describe_moments,
    describe_noise,
    describe_promise,
    describe_sources,
    describe_total,
    describe_unprotected,
    first_columns,
)
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import Cumulative, Discovery, Guarantee
from dp_bundle.manifest.release import Release

_SHOWN_COLUMNS = 100  # of rows, with their noise
_PROTECTED = {"cell": "one cell", "row": "one row", "change": "one person’s part of a cell", "entity": "one entity"}
FROM_WHOM = "Anybody, with any other knowledge and any computer, who has this release and knows how it was made."
_WEAK = 0.9  # from this share of right guesses on, the protection is called weak


def worded_label(release: Release) -> dict[str, Any]:
    """Return the label as texts and numbers.

    Returns
    -------
    dict
        What it `protects` in a few words, and `who`, `from_whom` and `guess`, each in a sentence. `plainly`, how
        strongly, in sentences with no word of the field. `right`, the share of right guesses. `right_in_all` with all
        `releases` of the dataset so far, this one included; `is_weak`, of the latter. `strength`, `spent`, `noise` and
        `unprotected`, each a list of sentences. `columns`, for each of the first columns its bounds and its noise.
    """
    guarantee, total = release.guarantee, release.cumulative
    in_all = chance_in_all(total)
    first = first_columns(release.columns) if release.second_moments is None else {}
    common = {
        "spent": [describe_total(release), *([describe_guess_in_all(total)] if total.releases > 1 else [])],
        "releases": total.releases,
        "right_in_all": in_all,
        "noise": [
            *describe_discovery(release),
            *describe_moments(release.second_moments, release.columns),
            *describe_gaps(release),
            *describe_sources(release),
        ],
        "strength": describe_promise(release),
        "columns": [_column(name, *described) for name, described in islice(first.items(), _SHOWN_COLUMNS)],
    }
    protection = worded_protection(guarantee, release.kind, release.columns, release.discovery)
    guess, right = protection["guess"], protection["right"]
    return {
        **common,
        **protection,
        "protects": _PROTECTED[guarantee.unit] + ("" if guarantee.neighbours.n_rows_public else ", there or not"),
        "plainly": [guess, *(describe_all_releases(total) if total.releases > 1 else _describe_strength(right))],
        "is_weak": is_weak(in_all if total.releases > 1 else right),
    }


def worded_protection(
    guarantee: Guarantee, kind: str, columns: Sequence[Column], discovery: Discovery | None = None
) -> dict[str, Any]:
    """Return `who`, `from_whom`, `guess`, `right` and `unprotected` of a label, of what is released or may be.

    Parameters
    ----------
    guarantee : Guarantee
        Of the release.
    kind : str
        "rows" or "covariance".
    columns : sequence of Column
        Those of rows, or of a release that was made.
    discovery : Discovery, optional
        What was found of its columns before.
    """
    return {
        "who": describe_who(guarantee, kind),
        "from_whom": FROM_WHOM,
        "guess": describe_guess(guarantee, columns),
        "right": chance_of_guess(guarantee, columns),
        "unprotected": describe_unprotected(guarantee, kind, columns, discovery),
    }


def is_weak(right: float | None) -> bool:
    """Return True if so many guesses are right that the protection is called weak."""
    return right is not None and right >= _WEAK


def describe_all_releases(total: Cumulative) -> list[str]:
    """Return sentences that say how strongly all releases of a dataset so far protect, together."""
    return [describe_guess_in_all(total), *_describe_strength(chance_in_all(total), in_all=total.releases > 1)]


def _describe_strength(right: float | None, *, in_all: bool = False) -> list[str]:
    """Return how many guesses in a hundred are right, and what that is to be called; nothing without a total."""
    if right is None:
        return []
    weak = ["This is weak: at mu = 1 it would be 69.2 %."] if is_weak(right) else []
    return [describe_hundred(right, in_all=in_all), *weak]


def describe_who(guarantee: Guarantee, kind: str) -> str:
    """Return one sentence that says whom or what the noise protects; second moments move by whole rows."""
    if guarantee.unit == "cell" and kind == "covariance":
        return "Every single cell, and every row as well: all values of one row together."
    if guarantee.unit == "cell":
        return "Every single cell: one value of one row, but not a row as a whole."
    presence = "" if guarantee.neighbours.n_rows_public else ", and whether there is one at all"
    if guarantee.unit == "change":
        return (
            "Every change of one cell by as much as its column states, such as one case, and any where it states none."
        )
    if guarantee.unit == "row":
        return f"Every row: all values of one row together{presence}."
    rows = counted(guarantee.max_rows or 1, "row")
    return f"Every “{guarantee.entity}”: all values of its rows together, at most {rows}{presence}."


def _column(name: str, column: Column, number: int) -> list[str]:
    """Return a column's name, bounds and noise, and how large the noise is beside the bounds; a category's once."""
    share = f"{100 * column.noise_spread / column.width:.3g} %" if math.isfinite(column.width) else "none stated"
    whole = f"{name} ({number} columns)" if number > 1 else name
    return [whole, describe_bounds(column), describe_noise(column), share]
