"""The tables of a plan's page: the numbers behind its figures, and the columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dp_bundle.page.tables import PageTable, TableColumn
from dp_publish.forecast.assumptions import assumed_spreads
from dp_publish.forecast.outlook import DELTA, TARGETS
from dp_publish.forecast.page.positions import Position
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.power import describe_count
from dp_publish.forecast.printed import printed_epsilon, printed_mu

_FORM = ",.12g"


def strengths_table(plan: Plan, positions: Sequence[Position]) -> PageTable:
    """Return what every strength would show."""
    rows = [position.row for position in positions]
    epsilon = "epsilon is pure" if plan.is_pure else f"epsilon is at delta = {DELTA:g}"
    seen = "the smallest partial correlation that would be seen; empty where there is none."
    hidden = f"how many of the {len(plan.kinds)} columns have a variance that cannot be told from the noise."
    columns = [
        TableColumn("mu", [row.mu for row in rows], printed_mu),
        TableColumn("epsilon", [row.epsilon for row in rows], printed_epsilon),
        TableColumn("seen: rows", [row.seen_in_rows for row in rows], ".2g", about=seen),
        TableColumn("seen: moments", [row.seen_in_moments for row in rows], ".2g"),
        TableColumn(
            "error: rows",
            _rounded([row.error_in_rows for row in rows]),
            _FORM,
            about="the standard error of a correlation near zero.",
        ),
        TableColumn("error: moments", _rounded([row.error_in_moments for row in rows]), _FORM),
        TableColumn("hidden: rows", [row.drowned_in_rows for row in rows], "d", about=hidden),
        TableColumn("hidden: moments", [row.drowned_in_moments for row in rows], "d"),
    ]
    moments = plan.focus.moments_possible
    return PageTable(
        "strengths",
        f"What every strength of the slider would show, from rows{' and from second moments' * moments}; {epsilon}.",
        [column for column in columns if moments or not column.label.endswith(": moments")],
    )


def needed_table(plan: Plan, positions: Sequence[Position]) -> PageTable:
    """Return how many rows every strength would take."""
    columns = [
        TableColumn(
            f"{rho:g}: {name}",
            [describe_count(each[rho]) if rho in each else "" for each in counts],
        )
        for rho in TARGETS
        for name, counts in (
            ("rows", [position.row.rows_needed for position in positions]),
            ("moments", [position.row.rows_needed_for_moments for position in positions]),
        )
        if name == "rows" or plan.focus.moments_possible
    ]
    targets = " and ".join(f"{rho:g}" for rho in TARGETS)
    mus = TableColumn("mu", [position.row.mu for position in positions], printed_mu)
    return PageTable(
        "rows-needed",
        f"How many rows it takes to see partial correlations of {targets}; there are {plan.n_rows:,}.",
        [mus, *columns],
    )


def _rounded(values: Sequence[float]) -> list[float]:
    """Return numbers of two significant digits, which `_FORM` spells without an exponent."""
    return [float(f"{value:.2g}") for value in values]


def noise_table(plan: Plan) -> PageTable:
    """Return what is publicly known of every column, and the noise that rows would get."""
    entries = [plan.policy.column(name) for name in plan.kinds]
    spreads = assumed_spreads(plan.policy, plan.kinds, plan.spread)
    limits = [
        "found privately" if each.bounds is None else f"{each.bounds[0]:g} to {each.bounds[1]:g}" for each in entries
    ]
    if plan.release == "covariance":
        limits = [limit.replace("found privately", "yet to be declared") for limit in limits]
    columns = [
        TableColumn("column", list(plan.kinds)),
        TableColumn("kind", list(plan.kinds.values())),
        TableColumn("bounds", limits, about="values outside are clipped; they must be public knowledge."),
        TableColumn(
            "assumed spread",
            list(spreads.values()),
            ".3g",
            about="the standard deviation over the width of the bounds, which the forecast assumes.",
        ),
    ]
    if plan.release == "rows" and plan.focus.sigma:
        sigma = [plan.focus.sigma.get(name, math.nan) for name in plan.kinds]
        about = f"the standard deviation of the noise at mu = {printed_mu(plan.focus.mu)}, in the column’s own unit."
        columns.append(TableColumn("noise: sigma", [float(f"{each:.3g}") for each in sigma], _FORM, about=about))
    return PageTable("columns-planned", "The columns that would be published.", columns)
