"""A look at the columns before anything is spent: identifiers, columns that hardly vary, codes, bounds that do not fit.

What the first rows show is told to the publisher and to nobody else. No release depends on it, except that a release
which she would probably regret is refused until she insists.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import counted, listed
from dp_publish.data.first_rows import LEAST_ROWS, Glance, find_codes
from dp_publish.data.table import Table
from dp_publish.policy.coded_columns import raw_names
from dp_publish.policy.model import Policy

_IDENTIFIER = re.compile(
    r"(?i:(?:.*[_\-. ])?(?:id|uuid|guid)|unnamed: 0|__index_level_[0-9]+__|)|.*[a-z0-9](?:Id|ID|Uuid|UUID|Guid|GUID)"
)
_MOST_OUTSIDE = 0.5  # share of a column's values
_SHOWN = 5  # columns
_NAMES = 20  # of a first line
_SAME = 0.99  # share of the values that are one and the same


def named_like_an_identifier(name: str) -> bool:
    """Return True for names that suggest identifiers of rows: id, patient_id, customerId, uuid and the like."""
    return _IDENTIFIER.fullmatch(name.strip()) is not None


def point_out_names(names: Iterable[str]) -> list[str]:
    """Return the warnings that column names alone give rise to."""
    found = [name for name in names if named_like_an_identifier(name)]
    return [_about_identifiers(found, "by name")] if found else []


def quote_header(table: Table, policy: Policy, names: Collection[str]) -> list[str]:
    """Return the names that a text file's first line gives to published columns, unless the policy has them.

    If the line of names is missing, only a person can tell a row of words from names. The policy is as it was written,
    not resolved, and `names` are those of the raw table.
    """
    if table.layout is None or not table.layout.has_header or policy.table.header is not None:
        return []
    unread = [name for name in names if name not in policy.columns]
    if not unread:
        return []
    shown = ", ".join(repr(name) for name in unread[:_NAMES])
    more = f" and {len(unread) - _NAMES} more" if len(unread) > _NAMES else ""
    return [f"columns are published under these names, from the first line of the file: {shown}{more}"]


def survey_columns(seen: Glance, policy: Policy, kinds: Collection[str]) -> list[str]:
    """Return the warnings about the columns that are about to be published.

    Parameters
    ----------
    seen : Glance
        Their first rows.
    policy : Policy
        Where declared bounds are; resolved.
    kinds : collection of str
        The columns.
    """
    notes, seen = point_out_names(raw_names(kinds, policy.sources)), _numbers_alone(seen, policy)
    numbers, constant = _numberings(seen), _constants(seen)
    where = f"in the first {seen.n_rows:,} rows"
    if numbers:
        notes.append(_about_identifiers(numbers, f"whole numbers that are all different {where}"))
    if constant:
        notes.append(
            f"columns that hardly vary {where}: {listed(constant)}. Such a column costs privacy and shows next to "
            "nothing: set drop = true in the policy to leave it out"
        )
    codes = _codes(seen, policy, inside=True)
    if codes:
        notes.append(f"numbers that may stand for missing values, {where} and within the bounds: {_described(codes)}")
    return notes


def find_regrettable(table: Table, seen: Glance, policy: Policy, kinds: Collection[str]) -> list[PolicyError]:
    """Return the reasons why a release would probably be regretted, each as the error that refuses it.

    Identifiers, and columns that hardly vary, of which the policy says nothing; numbers outside of the bounds that may
    stand for missing values; bounds outside of which most of a column lies; truth values that are none.

    Parameters
    ----------
    table : Table
        Whose rows they are.
    seen : Glance
        The first of them.
    policy : Policy
        Where the bounds are; resolved.
    kinds : collection of str
        The columns to be published.
    """
    numbers = _numbers_alone(seen, policy)
    found = (_unmeant(numbers, policy, kinds), _coded(table, numbers, policy), _misplaced(seen, policy))
    return [PolicyError(f"{said}, or pass --anyway") for said in found if said]


def _numbers_alone(seen: Glance, policy: Policy) -> Glance:
    """Return the first rows without columns that stand for levels or dates, which look like numberings or are rare."""
    meant = {name for source in policy.sources for name in source.columns}
    return Glance(seen.n_rows, {name: values for name, values in seen.values.items() if name not in meant})


def _unmeant(seen: Glance, policy: Policy, kinds: Collection[str]) -> str:
    """Return the complaint about suspicious columns, except those with declared bounds, which are meant."""
    privacy = policy.privacy
    if privacy.snr_db is not None or privacy.l2_radius is not None:
        return ""
    suspects = [name for name in kinds if named_like_an_identifier(name)] + _numberings(seen) + _constants(seen)
    unmeant = [name for name in kinds if name in suspects and policy.column(name).bounds is None]
    if not unmeant:
        return ""
    return (
        f"these columns look like identifiers or hardly vary, and may not be meant to be published: {listed(unmeant)}; "
        "set drop = true for each in the policy (`dp-publish policy DATA` writes one), or declare bounds to publish it"
    )


def _coded(table: Table, seen: Glance, policy: Policy) -> str:
    """Return the complaint about codes for missing values, which would be clipped, or widen bounds that are found."""
    codes = _codes(seen, policy, inside=False)
    if not codes:
        return ""
    words = ", ".join(f'"{code:.12g}"' for code in sorted({code for found in codes.values() for code in found}))
    remedy = (
        "empty those cells in the data"
        if table.layout is None
        else f"set missing_values = [{words}] under [table] in the policy"
    )
    return (
        f"these numbers may stand for missing values, in the first {seen.n_rows:,} rows: {_described(codes)}; if they "
        f"do, {remedy}; if not, give the column bounds that include them"
    )


def _misplaced(seen: Glance, policy: Policy) -> str:
    """Return the complaint about bounds that most of a column lies outside of, and about truth values that are none."""
    found = []
    for name, values in seen.values.items():
        bounds = policy.column(name).bounds
        if bounds is None or not len(values):
            continue
        outside = float(np.mean((values < bounds[0]) | (values > bounds[1])))
        two_values = bounds == (0.0, 1.0) and np.all(values == np.rint(values))
        if outside > (0.0 if two_values else _MOST_OUTSIDE):
            found.append(f"{outside:.0%} of {name!r} is outside {bounds[0]:g} to {bounds[1]:g}")
    if not found:
        return ""
    more = f"; and {len(found) - _SHOWN} more columns" if len(found) > _SHOWN else ""
    return (
        f"in the first {seen.n_rows:,} rows, {'; '.join(found[:_SHOWN])}{more}; clipping would leave little of that: "
        "correct the bounds, the unit or the kind in the policy"
    )


def _numberings(seen: Glance) -> list[str]:
    """Return the columns of whole numbers that are all different; those named like identifiers are known already."""
    return [
        name
        for name, values in seen.values.items()
        if len(values) >= LEAST_ROWS and _is_numbering(values) and not named_like_an_identifier(name)
    ]


def _constants(seen: Glance) -> list[str]:
    return [
        name for name, values in seen.values.items() if len(values) >= LEAST_ROWS and _share_of_one(values) >= _SAME
    ]


def _codes(seen: Glance, policy: Policy, *, inside: bool) -> dict[str, dict[float, int]]:
    """Return the columns with numbers that may stand for missing values, inside of their declared bounds or not."""
    found = {}
    for name, values in seen.values.items():
        bounds = policy.column(name).bounds
        codes = find_codes(values, bounds)
        chosen = {
            code: number
            for code, number in codes.items()
            if inside == (bounds is not None and bounds[0] <= code <= bounds[1])
        }
        if chosen:
            found[name] = chosen
    return found


def _described(codes: dict[str, dict[float, int]]) -> str:
    said = [
        f"{code:.12g} in {counted(number, 'cell')} of {name!r}"
        for name, found in codes.items()
        for code, number in found.items()
    ]
    return ", ".join(said[:_SHOWN]) + (f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else "")


def _about_identifiers(names: list[str], how: str) -> str:
    return (
        f"possible identifiers ({how}): {listed(names)}. Set drop = true in the policy to leave one out, or, if one "
        'person has several rows, unit = { entity = "...", max_rows = ... }'
    )


def _share_of_one(ordered: NDArray[np.float64]) -> float:
    """Return the share of the median, which is the most frequent value if one has more than half."""
    return float(np.mean(ordered == ordered[len(ordered) // 2]))


def _is_numbering(ordered: NDArray[np.float64]) -> bool:
    return bool(np.all(ordered == np.floor(ordered)) and np.all(ordered[1:] > ordered[:-1]))
