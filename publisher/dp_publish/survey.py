"""A look at the columns before anything is spent: identifiers, columns that hardly vary, and bounds that do not fit.

The first rows of the private table are read. What is found goes to the publisher and nowhere else: no release depends
on it, except that one which would clip most of a column is refused until she says that she means it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dp_bundle.arrays import to_numpy
from dp_bundle.errors import PolicyError
from dp_bundle.parts import batch_rows
from dp_publish.policy import Policy, listed
from dp_publish.table import Table

__all__ = ["named_like_an_identifier", "point_out_names", "refuse_misplaced", "survey"]

_IDENTIFIER = re.compile(r"(?i:(?:.*[_\-. ])?(?:id|uuid|guid)|unnamed: 0|)|.*[a-z0-9](?:Id|ID|Uuid|UUID|Guid|GUID)")
_LEAST_ROWS = 20  # of which distinct whole numbers, or one value alone, are worth a word
_MOST_OUTSIDE = 0.5  # share of a column's values
_SHOWN = 5  # columns
_SAME = 0.99  # share of the values that are one and the same
_CELLS = 2**20


def named_like_an_identifier(name: str) -> bool:
    """Tell whether a column's name says that it identifies rows: id, patient_id, customerId, uuid and the like."""
    return _IDENTIFIER.fullmatch(name.strip()) is not None


def point_out_names(names: Iterable[str]) -> list[str]:
    """Return what the publisher should hear of columns by their names alone."""
    found = [name for name in names if named_like_an_identifier(name)]
    return [_about_identifiers(found, "by name")] if found else []


def survey(table: Table, kinds: dict[str, str]) -> list[str]:
    """Return what the publisher should hear of the columns that are about to be published.

    Parameters
    ----------
    table : Table
        Its first rows are read, about a million cells.
    kinds : dict of str to str
        The columns, and what they are published as.
    """
    batch = _first_rows(table, kinds)
    notes = point_out_names(kinds)
    if batch is None or batch.num_rows < _LEAST_ROWS:
        return notes
    numbers, constant = [], []
    for index, name in enumerate(kinds):
        values = to_numpy(batch.column(index).drop_null()).astype(np.float64)
        values = np.sort(values[~np.isnan(values)])
        if len(values) < _LEAST_ROWS:
            continue
        if _share_of_one(values) >= _SAME:
            constant.append(name)
        elif _is_numbering(values) and not named_like_an_identifier(name):
            numbers.append(name)
    where = f"in the first {batch.num_rows:,} rows"
    if numbers:
        notes.append(_about_identifiers(numbers, f"as whole numbers that are all different {where}"))
    if constant:
        notes.append(
            f"hardly varying {where}: {listed(constant)}. Noise for such a column is spent on next to nothing: set "
            "drop = true in the policy to leave it out"
        )
    return notes


def refuse_misplaced(table: Table, policy: Policy, kinds: dict[str, str]) -> None:
    """Refuse declared bounds outside of which most of a column lies, and truth values that are none.

    Parameters
    ----------
    table : Table
        Its first rows are read, as in `survey`.
    policy : Policy
        Where the bounds are.
    kinds : dict of str to str
        The columns to be published.

    Raises
    ------
    PolicyError
        The columns, and how much of each would be clipped.
    """
    batch = _first_rows(table, kinds)
    if batch is None or batch.num_rows < _LEAST_ROWS:
        return
    found = []
    for index, name in enumerate(kinds):
        bounds = policy.column(name).bounds
        values = to_numpy(batch.column(index).drop_null()).astype(np.float64)
        values = values[~np.isnan(values)]
        if bounds is None or not len(values):
            continue
        outside = float(np.mean((values < bounds[0]) | (values > bounds[1])))
        two_values = bounds == (0.0, 1.0) and np.all(values == np.rint(values))
        if outside > (0.0 if two_values else _MOST_OUTSIDE):
            found.append(f"{outside:.0%} of {name!r} outside {bounds[0]:g} to {bounds[1]:g}")
    if found:
        more = f", and {len(found) - _SHOWN} columns more" if len(found) > _SHOWN else ""
        raise PolicyError(
            f"in the first {batch.num_rows:,} rows {'; '.join(found[:_SHOWN])}{more} would be clipped, so that little "
            "of it is published: correct the bounds, the unit or the kind in the policy, or pass --anyway"
        )


def _first_rows(table: Table, kinds: dict[str, str]) -> pa.RecordBatch | None:
    rows = min(batch_rows(len(kinds)), max(_LEAST_ROWS, _CELLS // len(kinds)))
    return next(table.read(kinds, rows), None)


def _about_identifiers(names: list[str], how: str) -> str:
    return (
        f"perhaps an identifier, {how}: {listed(names)}. Set drop = true in the policy to leave it out, or, if one "
        'person has several rows, unit = { entity = "...", max_rows = ... }'
    )


def _share_of_one(ordered: NDArray[np.float64]) -> float:
    """Return the share of the median, which is the most frequent value if one has more than half."""
    return float(np.mean(ordered == ordered[len(ordered) // 2]))


def _is_numbering(ordered: NDArray[np.float64]) -> bool:
    return bool(np.all(ordered == np.floor(ordered)) and np.all(ordered[1:] > ordered[:-1]))
