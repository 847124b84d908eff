"""Columns that are no numbers in a policy: what they are published as, and the sections of those columns.

Everything here follows from the policy and the columns' declared types; no cell is read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from dp_bundle.errors import PolicyError
from dp_bundle.manifest import MAX_LEVELS, Source
from dp_bundle.quoting import listed
from dp_publish.data import ColumnType, Table, coded
from dp_publish.policy.model import ColumnPolicy, Policy

GAPS = "(no value)"  # the level of cells without a value
_OF_TEXT = (ColumnType.TEXT, ColumnType.UNKNOWN)
_READABLE = {  # the declared types that a kind is read from
    "boolean": (*_OF_TEXT, ColumnType.INTEGER),
    "category": (*_OF_TEXT, ColumnType.INTEGER),
    "ordered": (*_OF_TEXT, ColumnType.INTEGER),
    "date": (*_OF_TEXT, ColumnType.DATE, ColumnType.TIME),
    "time": (*_OF_TEXT, ColumnType.TIME, ColumnType.TIME_OF_DAY),
    "duration": (ColumnType.DURATION,),
}
_UNITS = {
    "date": "days since 1970-01-01",
    "time": "seconds since 1970-01-01T00:00:00Z",
    "time-of-day": "seconds since midnight",
    "duration": "seconds",
}


def is_coded(entry: ColumnPolicy) -> bool:
    """Return True if a column is published as something else than its numbers."""
    return entry.kind in _READABLE and (entry.kind != "boolean" or entry.levels is not None)


def code_columns(table: Table, policy: Policy, skipped: Collection[str] = ()) -> tuple[Table, Policy]:
    """Return the table and the policy with published columns of numbers in place of those that are none.

    Parameters
    ----------
    table : Table
        As it is stored.
    policy : Policy
        With a section for every column.
    skipped : collection of str
        Columns that are not published.

    Raises
    ------
    PolicyError
        A column is not of a type that its kind can be read from, or two published columns have the same name.
    """
    sections: dict[str, ColumnPolicy] = {}
    sources: list[Source] = []
    resolved = {column for source in policy.sources for column in source.columns}
    for name, entry in policy.columns.items():
        if entry.mechanism is not None and name not in resolved and entry.kind not in ("category", "boolean"):
            raise PolicyError(f"mechanism, of column {name!r}, is for categories: a number has the noise of its kind")
        if entry.drop or name in skipped or not is_coded(entry):
            sections[name] = entry
            continue
        source = _source_of(name, entry, table.types[name])
        taken = [column for column in source.columns if column != name and column in {**table.types, **sections}]
        if taken:
            raise PolicyError(
                f"column {name!r} would be published as {listed(taken)}, a name that another column has: rename one"
            )
        sources.append(source)
        sections |= {column: _section_of(source, entry, policy) for column in source.columns}
    if not sources:
        return table, policy
    return coded(table, sources), policy.model_copy(update={"columns": sections, "sources": tuple(sources)})


def _source_of(name: str, entry: ColumnPolicy, declared: ColumnType) -> Source:
    """Return what a column is published as."""
    kind = str(entry.kind)
    if declared is ColumnType.NESTED:
        raise PolicyError(
            f"column {name!r} holds lists or structures: make columns of them in the data, of structures with "
            "pyarrow.Table.flatten(), or set drop = true for it"
        )
    if declared not in _READABLE[kind]:
        raise PolicyError(
            f'column {name!r} is of a type ({declared.value}) that kind = "{kind}" is not read from: correct the kind, '
            "convert the column in the data, or set drop = true for it"
        )
    if kind == "time" and declared is ColumnType.TIME_OF_DAY:
        kind = "time-of-day"

    levels = [*(entry.levels_in_order or ())]
    gaps = GAPS if entry.missing == "category" else None
    levels += [level for level in (entry.other, gaps) if level is not None and level not in levels]
    if len(levels) > MAX_LEVELS:
        raise PolicyError(f"column {name!r} has more than {MAX_LEVELS} levels: put rare ones together as other")
    is_block = kind == "category" and len(levels) > 2
    columns = [f"{name}={level}" for level in levels] if is_block else [name]
    described: dict[str, Any] = {"name": name, "kind": kind, "columns": tuple(columns), "levels": tuple(levels)}
    return Source(**described, other=entry.other, gaps=gaps)


def _section_of(source: Source, entry: ColumnPolicy, policy: Policy) -> ColumnPolicy:
    """Return the section of a published column."""
    privacy = policy.privacy
    in_ball = privacy.release == "rows" and privacy.l2_radius is not None
    said: dict[str, Any] = entry.model_dump(exclude_unset=True, exclude={"categories", "levels", "other"})
    said["kind"] = "integer" if source.is_whole and not in_ball else "continuous"
    said["missing"] = "refuse" if source.gaps is not None else entry.missing
    said["unit"] = entry.unit or _UNITS.get(source.kind, "")
    if source.levels and not in_ball:
        said |= _limits(source, 1.0 if source.is_block else len(source.levels) - 1.0, policy)
        low, high = said["bounds"]
        said.setdefault("spread", _deviation(source) / (high - low))
    return ColumnPolicy.model_validate(said)


def _deviation(source: Source) -> float:
    """Return the standard deviation of a published column if all levels are equally frequent, for forecasts."""
    n_levels = len(source.levels)
    return math.sqrt(n_levels - 1) / n_levels if source.is_block else math.sqrt((n_levels**2 - 1) / 12)


def _limits(source: Source, highest: float, policy: Policy) -> dict[str, Any]:
    """Return the bounds of a column of levels, and its place where that is public.

    In a covariance release rows are put into a ball, in units of half-widths from the middle of the bounds. Between -1
    and 1 the columns of a category have a length of 1 together, in any row, as every other column has at most.
    """
    privacy = policy.privacy
    if privacy.release == "rows":
        return {"bounds": (0.0, highest)}
    low = -highest if source.is_block else 0.0
    placed = privacy.mechanism in ("auto", "two-round") and privacy.l2_radius is None and highest == 1.0
    middle = {"center": 0.5 * (low + highest), "scale": 0.5 * (highest - low)} if placed else {}
    return {"bounds": (low, highest), **middle}


def blocks_of(sources: Collection[Source]) -> Mapping[str, str]:
    """Return the category that each of those published columns belongs to that stand for one of its levels."""
    return {name: source.name for source in sources if source.is_block for name in source.columns}


def raw_names(names: Collection[str], sources: Collection[Source]) -> list[str]:
    """Return the names of the raw table's columns that these are published for, each once, in their order."""
    blocks = blocks_of(sources)
    return list(dict.fromkeys(blocks.get(name, name) for name in names))
