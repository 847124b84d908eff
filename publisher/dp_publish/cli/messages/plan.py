"""A plan for a person, as tables and sentences, and for a machine, as one document."""

import math
import textwrap
from typing import Any

from dp_bundle.base.quoting import counted
from dp_bundle.base.wording import typed
from dp_bundle.describe.sentences import SEVERAL_CELLS, count_columns
from dp_publish.cli.messages.tables import say, table_lines
from dp_publish.forecast.outlook import TARGETS, Outlook
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.planned import DELTA
from dp_publish.forecast.refusal import describe_findings, describe_seen
from dp_publish.forecast.strengths import describe_count, printed_epsilon, printed_mu
from dp_publish.policy.coded_columns import raw_names

_WIDTH = 79  # of a line, on the narrowest terminal
_OF_STRENGTH = ("sigma", "sigma_over_width", "noise_to_signal")


def describe_plan(plan: Plan, *, looked: bool = False) -> str:
    """Return the forecast for a person to read; it says whether rows were read."""
    raw = raw_names(plan.kinds, plan.policy.sources)
    sources = ("from rows", "from moments") if plan.focus.moments.is_possible else ("from rows",)
    heads = [f"to see {rho:g}\n{source}" for rho in TARGETS for source in sources]
    several = [SEVERAL_CELLS] if plan.unit == "change" else []
    return say(
        "plan.txt",
        plan=plan,
        looked=looked,
        size=f"{counted(plan.n_rows, 'row')}, {count_columns(len(plan.kinds), len(raw))}",
        seen=_table(plan, _seen_head(plan), [_seen_cells(row) for row in plan.rows]),
        needed=_table(plan, ["mu", *heads], [_needed_cells(row) for row in plan.rows]),
        found=[*describe_findings(plan.focus, plan.own), *several, *plan.notes],
        typed=typed,
        folded=_folded,
    )


def _folded(text: str) -> str:
    """Return a text with its lines folded, as on a narrow terminal."""
    tied = text.strip("\n").replace(" %", "\xa0%").split("\n")
    folded = [line for text in tied for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False) or [""]]
    return "\n".join(folded).replace("\xa0", " ")


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the forecast for a machine to read."""
    return {
        "dataset": plan.name,
        "n_rows": plan.n_rows,
        "columns": plan.kinds,
        "unit": plan.unit,
        "release": plan.policy.privacy.release,
        "mechanism": plan.mechanism,
        "assumed_spread": plan.spread,
        "own_mu": None if plan.own is None else plan.own.mu,
        "forecast": [_numbers_of(row) for row in plan.rows],
        "notes": plan.notes,
    }


def _numbers_of(row: Outlook) -> dict[str, Any]:
    """Return one strength's numbers for a machine to read; what is no number is null."""
    both = {"rows": row.rows, "moments": row.moments}
    numbers: dict[str, Any] = {"mu": row.mu, "epsilon": row.planned.epsilon, "delta": DELTA}
    numbers |= {name: getattr(row, name) for name in _OF_STRENGTH}
    numbers |= {
        f"{name}_in_{source}": getattr(shown, name)
        for name in ("error", "seen", "clearest", "drowned")
        for source, shown in both.items()
    }
    numbers |= {"rows_needed": row.rows.needed, "rows_needed_for_moments": row.moments.needed}
    numbers["least_rows_for_moments"] = row.least_rows_for_moments
    return {name: None if value != value else value for name, value in numbers.items()}


def _seen_head(plan: Plan) -> list[str]:
    epsilon = "epsilon\n(pure)" if plan.is_pure else f"epsilon at\ndelta {DELTA:g}"
    noise = ["noise: sigma\n/ width", "noise /\nsignal"]
    seen = ["seen from\nrows", *(["seen from\nmoments"] if plan.focus.moments.is_possible else [])]
    return ["mu", epsilon, *noise, *seen]


def _table(plan: Plan, head: list[str], body: list[list[str]]) -> str:
    """Return a table with a row for each strength, the policy's own marked."""
    marked = [[*cells, "<- policy" * (row is plan.own)] for row, cells in zip(plan.rows, body, strict=True)]
    return "\n".join(f"  {line}".rstrip() for line in table_lines([*head, ""], marked, left=[len(head)], gap=2))


def _seen_cells(row: Outlook) -> list[str]:
    numbers = map(_number, (row.sigma_over_width, row.noise_to_signal))
    rows = describe_seen(row.rows.seen) if row.rows.is_possible else "-"
    moments = [describe_seen(row.moments.seen)] if row.moments.is_possible else []
    return [printed_mu(row.mu), printed_epsilon(row.planned.epsilon), *numbers, rows, *moments]


def _needed_cells(row: Outlook) -> list[str]:
    both = (row.rows.needed, row.moments.needed)[: 1 + row.moments.is_possible]
    return [printed_mu(row.mu), *(describe_count(needed[rho]) if needed else "-" for rho in TARGETS for needed in both)]


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if 100 <= value < 1e7 else f"{value:.3g}"
