"""Columns that are no numbers in a policy, or whose gaps are published: as what, and the sections of those columns.

Everything here follows from the policy and the columns' declared types; no cell is read.
"""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import listed
from dp_bundle.base.wording import LEAVE_IT_OUT
from dp_bundle.manifest.columns import MAX_LEVELS, NO_VALUE, Source
from dp_publish.data.cells import SIGNS
from dp_publish.data.dates import has_date
from dp_publish.data.kinds import KINDS, OF_TEXT, ColumnType, WrittenSource
from dp_publish.data.table import Table, coded
from dp_publish.policy.model import ColumnPolicy, Policy

_GAPS_SPREAD = 0.3  # the standard deviation of an indicator of gaps in a tenth of the rows, for forecasts


def is_coded(entry: ColumnPolicy, declared: ColumnType) -> bool:
    """Return True if a column is published as something else than its numbers, or as more."""
    if entry.holds.read_from:
        return not entry.holds.is_truth or entry.levels is not None
    return entry.missing == "indicator" and declared.may_be_numbers


def signs_of(policy: Policy) -> dict[str, tuple[str, ...]]:
    """Return what numbers in text may carry: units without digits; like an earlier release, signs that it may have had.

    A release does not tell how its cells were written.
    """
    signs = SIGNS if policy.like else ()
    return {
        name: (entry.unit, *signs) if re.fullmatch(r"\D+", entry.unit) else signs
        for name, entry in policy.columns.items()
    }


def with_numbers_in_text(table: Table, policy: Policy) -> Table:
    """Return the table, in which text is read as numbers and truth values where its own section says that it is some.

    So are text files, and a data frame's objects.
    """
    open_types = {
        name: ColumnType.OBJECT
        for name, entry in policy.columns.items()
        if table.types.get(name) is ColumnType.TEXT and entry.kind is not None and not is_coded(entry, ColumnType.TEXT)
    }
    return replace(table, types={**table.types, **open_types}) if open_types else table


def other_type(name: str, kind: str, declared: ColumnType) -> PolicyError:
    """Return what refuses a column of a type that its kind is not read from."""
    packed = declared is ColumnType.INTEGER and kind in ("date", "time")
    hint = 'give format = "%Y%m%d" if its numbers are like 20260131, ' if packed else ""
    return PolicyError(
        f'column {name!r} is of a type ({declared.value}) that kind = "{kind}" is not read from: {hint}correct the '
        f"kind, convert the column in the data, or {LEAVE_IT_OUT}",
        "kind",
        name,
    )


def code_columns(table: Table, policy: Policy, skipped: Collection[str | None]) -> tuple[Table, Policy]:
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
    sources: list[WrittenSource] = []
    resolved = {column for source in policy.sources for column in source.columns}
    for name, entry in policy.columns.items():
        if entry.mechanism is not None and name not in resolved and not entry.holds.is_nominal:
            raise PolicyError(
                f"mechanism, of column {name!r}, is for categories: a number has the noise of its kind",
                "mechanism",
                name,
            )
        if entry.drop or name in skipped or name in resolved or not is_coded(entry, table.types[name]):
            sections[name] = entry
            continue
        if entry.missing == "indicator":
            _require_noise_beside(name, entry, table, policy)
        source = _source_of(name, entry, table.types[name])
        taken = [column for column in source.columns if column != name and column in {**table.types, **sections}]
        if taken:
            raise PolicyError(
                f"column {name!r} would be published as {listed(taken)}, a name that another column has: rename one",
                "kind",
                name,
            )
        sources.append(source)
        sections |= {column: _section_of(source, entry, table.types[name], policy) for column in source.columns}
        if source.has_gap_column:
            sections[source.columns[1]] = _section_of_gaps(policy)
    if not sources:
        return table, policy
    return coded(table, sources), policy.changed(columns=sections, sources=tuple(sources))


def _source_of(name: str, entry: ColumnPolicy, declared: ColumnType) -> WrittenSource:
    """Return what a column is published as."""
    if declared is ColumnType.NESTED:
        raise PolicyError(
            f"column {name!r} holds lists or structures: make columns of them in the data, of structures with "
            f"pyarrow.Table.flatten(), or {LEAVE_IT_OUT}",
            "kind",
            name,
        )
    written = (*OF_TEXT, ColumnType.INTEGER)  # whole numbers are text, too, such as 20260131
    if entry.format is not None and declared not in written:
        raise PolicyError(
            f"format, of column {name!r}, is for dates and times in text, and the column is of another type "
            f"({declared.value}): leave format out",
            "format",
            name,
        )
    of_day = entry.format is not None and not has_date(entry.format)
    kind = KINDS["time-of-day"] if of_day else entry.holds.of_type(declared)
    if not of_day and kind.read_from and declared not in (*kind.read_from, *(written if entry.format else ())):
        raise other_type(name, kind.name, declared)

    levels = [*(entry.levels_in_order or ())]
    gaps = {"category": NO_VALUE, "other": entry.other}.get(entry.missing)
    levels += [level for level in (entry.other, gaps) if level is not None and level not in levels]
    if len(levels) > MAX_LEVELS:
        raise PolicyError(
            f"column {name!r} has more than {MAX_LEVELS} levels: put rare ones together as other", "levels", name
        )
    has_level_columns = not kind.has_order and len(levels) > 2
    columns = [f"{name}={level}" for level in levels] if has_level_columns else [name]
    columns += [f"{name}={NO_VALUE}"] if entry.missing == "indicator" else []
    described: dict[str, Any] = {"name": name, "kind": kind.source, "columns": tuple(columns), "levels": tuple(levels)}
    return WrittenSource(**described, other=entry.other, gaps=gaps, format=entry.format or "")


def _section_of(source: Source, entry: ColumnPolicy, declared: ColumnType, policy: Policy) -> ColumnPolicy:
    """Return the section of a published column."""
    of_rows = policy.privacy.release == "rows"
    said: dict[str, Any] = entry.model_dump(exclude_unset=True, exclude={"categories", "levels", "other", "format"})
    continuous = of_rows and source.has_gap_column
    said["kind"] = "integer" if source.is_whole and not continuous else "continuous"
    said["missing"] = "refuse" if source.gaps is not None else entry.missing  # they are values by then
    said["unit"] = entry.unit or KINDS[source.kind].unit
    if source.levels:
        said |= _limits(1.0 if source.has_level_columns else len(source.levels) - 1.0, policy, source.has_level_columns)
        low, high = said["bounds"]
        said.setdefault("spread", _deviation(source) / (high - low))
    section = ColumnPolicy.model_validate(said)
    whole_numbers = source.kind == "number" and (entry.kind or declared.value) == "integer" and not continuous
    return section.changed(kind="integer") if whole_numbers else section


def _section_of_gaps(policy: Policy) -> ColumnPolicy:
    """Return the section of a column that is 1 where another one has no value."""
    limits = _limits(1.0, policy, around_zero=True)
    low, high = limits["bounds"]
    return ColumnPolicy(kind="continuous", spread=_GAPS_SPREAD / (high - low), **limits)


def _require_noise_beside(name: str, entry: ColumnPolicy, table: Table, policy: Policy) -> None:
    """Refuse indicated gaps beside what has no rounded Gaussian noise."""
    privacy, said = policy.privacy, f'missing = "indicator", of column {name!r},'
    if name in table.booleans:
        raise PolicyError(
            f'{said} is for numbers: give a truth value kind = "category" and missing = "category"', "missing", name
        )
    if privacy.release == "rows" and entry.kind == "integer":
        raise PolicyError(
            f'{said} goes with continuous noise: give kind = "continuous", whole numbers or not', "missing", name
        )
    if entry.max_change is not None:
        raise PolicyError(
            f"{said} does not go with max_change: counts whose changes are protected have no gaps", "missing", name
        )


def _deviation(source: Source) -> float:
    """Return the standard deviation of a published column if all levels are equally frequent, for forecasts."""
    n_levels = len(source.levels)
    return math.sqrt(n_levels - 1) / n_levels if source.has_level_columns else math.sqrt((n_levels**2 - 1) / 12)


def _limits(highest: float, policy: Policy, around_zero: bool) -> dict[str, Any]:
    """Return the bounds of a column of levels, or of an indicator, and its place where that is public.

    In a covariance release rows are put into a ball, in units of half-widths from the middle of the bounds. Between -1
    and 1 the columns of a category have a length of 1 together, in any row, as every other column has at most. So have
    a number and the indicator of its gaps, as a gap has the middle of the bounds.
    """
    privacy = policy.privacy
    if privacy.release == "rows":
        return {"bounds": (0.0, highest)}
    low = -highest if around_zero else 0.0
    placed = privacy.mechanism in ("auto", "two-round") and privacy.l2_radius is None and highest == 1.0
    middle = {"center": 0.5 * (low + highest), "scale": 0.5 * (highest - low)} if placed else {}
    return {"bounds": (low, highest), **middle}


def blocks_of(sources: Collection[Source]) -> Mapping[str, str]:
    """Return the raw column of each published one that others are published beside: of levels, or of gaps."""
    return {name: source.name for source in sources if source.is_block for name in source.columns}


def gap_columns(sources: Collection[Source]) -> list[str]:
    """Return the published columns that say where others have no value."""
    return [source.columns[1] for source in sources if source.has_gap_column]


def raw_names(names: Collection[str], sources: Collection[Source]) -> list[str]:
    """Return the names of the raw table's columns that these are published for, each once, in their order."""
    blocks = blocks_of(sources)
    return list(dict.fromkeys(blocks.get(name, name) for name in names))
