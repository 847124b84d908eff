"""Sections of the policy: one for each column, with patterns of names and declared types worked in."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from dp_bundle.base.errors import PolicyError
from dp_bundle.base.quoting import listed
from dp_publish.data.table import ColumnType, Table, coded
from dp_publish.policy.coded_columns import code_columns, is_coded, other_type, with_numbers_in_text
from dp_publish.policy.mistakes import describe_mistake
from dp_publish.policy.model import ColumnPolicy, Policy

_OF_NUMBERS = ("bounds", "center", "scale", "spread", "max_change")


def resolve(table: Table, policy: Policy, withheld: Collection[str] = ()) -> tuple[Table, Policy]:
    """Return the policy with a section for every column of the table and no patterns, and the table that it is about.

    Columns that are no numbers (`coded_columns`) are replaced by those that are published for them, in both. What was
    resolved before may be resolved again.

    A name with `*` (any letters) or `?` (any one letter) that is no column's is a pattern. Each entry of a column is
    taken from the most specific place that gives it: the column's own section, else the longest pattern that matches,
    of equally long ones the last. A column of truth values has bounds 0 and 1 unless its own section gives others. A
    column that is not published keeps its own section alone.

    Parameters
    ----------
    table : Table
        The columns' names and types are taken from it.
    policy : Policy
        As it was written, or as it was returned from here.
    withheld : collection of str
        Columns that are never published.

    Raises
    ------
    PolicyError
        A name or a pattern is no column's, what patterns say of a column contradicts its own section, a column is not
        of its kind, or one of a data frame has neither a type nor a kind.
    """
    table = with_numbers_in_text(coded(table, policy.sources), policy)
    patterns = sorted((name for name in policy.columns if name not in table.types and {"*", "?"} & {*name}), key=len)
    unknown = [name for name in policy.columns if name not in table.types and name not in patterns]
    if unknown:
        raise PolicyError(f"the policy names columns that the table does not have: {listed(unknown)}")
    matched = {pattern: set(fnmatch.filter(table.types, pattern.replace("[", "[[]"))) for pattern in patterns}
    idle = [pattern for pattern in patterns if not matched[pattern]]
    if idle:
        raise PolicyError(f"the policy has patterns that match no column of the table: {listed(idle)}")
    sections = {
        name: _section(
            name, table, policy, [pattern for pattern in patterns if name in matched[pattern]], name in withheld
        )
        for name in table.types
    }
    skipped = {*withheld, *([policy.privacy.entity.entity] if policy.privacy.entity else [])}
    _require_types(table, {name: entry for name, entry in sections.items() if name not in skipped})
    return code_columns(table, policy.model_copy(update={"columns": sections}), skipped)


def _require_types(table: Table, sections: Mapping[str, ColumnPolicy]) -> None:
    """Refuse columns of a data frame of which neither the frame nor the policy says what they are."""
    objects = [name for name, entry in sections.items() if table.types[name] is ColumnType.OBJECT and not entry.drop]
    undeclared = [name for name in objects if sections[name].kind is None]
    if not undeclared:
        return
    column = f"frame[{undeclared[0]!r}]"
    raise PolicyError(
        "columns of the data frame have no type (their dtype is object, or category without one), so that a single "
        f"cell would decide how they are published: {listed(undeclared)}; give each a type, as in {column} = "
        f"{column}.astype('Float64') (or 'Int64', 'boolean', 'string'), or a kind in the policy, or set drop = true "
        "for it"
    )


def _section(name: str, table: Table, policy: Policy, patterns: list[str], withheld: bool) -> ColumnPolicy:
    own = policy.column(name)
    entry, privacy = own, policy.privacy
    if patterns:
        given: dict[str, Any] = {}
        for section in [*(policy.columns[pattern] for pattern in patterns), own]:
            given |= section.model_dump(exclude_unset=True)
        if given.get("categories") or given.get("levels"):
            meant = own.model_fields_set  # what patterns say of numbers is not about levels
            given = {entry: value for entry, value in given.items() if entry not in _OF_NUMBERS or entry in meant}
        try:
            entry = ColumnPolicy.model_validate(given)
        except ValidationError as error:
            said = describe_mistake(error, start=("columns", name))
            raise PolicyError(f"the policy's patterns and sections together, at {said}") from error

    entity = privacy.entity.entity if privacy.entity else None
    if not (entry.drop or name == entity or withheld) and is_coded(entry, table.types[name]):
        return entry
    if entry.drop or not table.types[name].may_be_numbers or name == entity or withheld:
        if own.kind is not None and not (entry.drop or name == entity or withheld):
            raise other_type(name, own.kind, table.types[name])
        return own.model_copy(update={"drop": entry.drop})

    if entry.kind != "boolean" and name not in table.booleans:
        whole = entry.kind is None and table.types[name] is ColumnType.INTEGER and privacy.release == "covariance"
        return entry.model_copy(update={"kind": "integer"}) if whole else entry
    in_ball = privacy.l2_radius is not None and privacy.release == "rows"
    kind = entry.kind if entry.kind != "boolean" else "continuous" if in_ball else "integer"
    bounds = own.bounds if own.bounds is not None or in_ball else (0.0, 1.0)
    return entry.model_copy(update={"kind": kind, "bounds": bounds})
