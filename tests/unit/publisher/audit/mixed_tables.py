"""Tables of all kinds of columns, and faults in what becomes of their cells, for tests of the audit."""

import datetime
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from dp_audit.checks import Check
from dp_publish import Policy
from dp_publish.data.table import open_table
from dp_publish.policy import columns as resolving
from dp_publish.policy.columns import choose_columns, resolve

ROW: dict[str, Any] = {
    "town": "a",
    "job": "a",
    "smoker": "no",
    "grade": "low",
    "rank": "low",
    "born": datetime.date(2000, 5, 1),
    "seen": datetime.time(5),
    "pay": 1.0,
    "x": 1.0,
    "n": 1,
    "who": "w",
}
COLUMNS: dict[str, Any] = {
    "town": {"kind": "category", "categories": ["a", "b", "c", "d"], "missing": "category", "mechanism": "gaussian"},
    "smoker": {"kind": "boolean", "levels": ["no", "yes"]},
    "grade": {"kind": "ordered", "levels": ["low", "middle", "high"]},
    "born": {"kind": "date", "bounds": [datetime.date(2000, 1, 1), datetime.date(2001, 1, 1)]},
    "pay": {"bounds": [0, 10], "missing": "indicator"},
    "x": {"bounds": [0, 10]},
}


def row_of(policy: Policy, **cells: Any) -> pa.Table:
    """Return a table of one row for a policy."""
    names = [*policy.columns, *(["who"] if policy.privacy.entity else [])]
    return pa.table({name: [{**ROW, **cells}[name]] for name in names})


def resolved(policy: Policy) -> tuple[Policy, dict[str, str]]:
    """Return the policy for a table of one row, and the columns that are published of it."""
    table, policy = resolve(open_table(row_of(policy)), policy)
    return policy, choose_columns(table, policy)[0]


def findings(checks: Iterable[Check]) -> list[str]:
    """Return what was found, by check."""
    return [f"{check.name}: {check.detail}" for check in checks if not check.passed]


def fill_at_the_lower_bound(patch: pytest.MonkeyPatch, module: Any) -> None:
    """Let gaps stand at the lower bound, which is twice as far from the upper one as the middle is."""
    honest = module.fill_missing

    def fill(values: Any, column: Any, report: Any) -> Any:
        low, _ = column.bounds
        lower = column.model_copy(update={"bounds": (low, low)}) if column.missing == "indicator" else column
        return honest(values, lower, report)

    patch.setattr(module, "fill_missing", fill)


def read_towns_off_the_data(patch: pytest.MonkeyPatch) -> None:
    """List the towns that occur in the table alone."""
    honest = resolving.resolve

    def cut(table: Any, policy: Policy, withheld: Any = ()) -> Any:
        if "town" not in {source.name for source in policy.sources}:
            return honest(table, policy, withheld)
        seen = {town for batch in table.read({"town": "text"}, 10_000) for town in batch.column(0).to_pylist()}
        sources, kept = [], set()
        for source in policy.sources:
            if source.name == "town":
                levels = tuple(each for each in source.levels if (None if each == source.gaps else each) in seen)
                gaps = source.gaps if source.gaps in levels else None
                update = {"levels": levels, "columns": tuple(f"town={each}" for each in levels), "gaps": gaps}
                source = source.model_copy(update=update)
            sources.append(source)
            kept |= {*source.columns}
        columns = {name: entry for name, entry in policy.columns.items() if "town" not in name or name in kept}
        return honest(table, policy.model_copy(update={"sources": tuple(sources), "columns": columns}), withheld)

    patch.setattr(resolving, "resolve", cut)
