"""The tables of a plan's page: the numbers behind its figures, and the columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter

from dp_bundle.page.tables import PageTable, TableColumn
from dp_publish.forecast.assumptions import assumed_spreads
from dp_publish.forecast.outlook import DELTA, TARGETS, Sight
from dp_publish.forecast.page.positions import Position
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.strengths import describe_count, printed_epsilon, printed_mu

_FORM = ",.12g"


def strengths_table(plan: Plan, positions: Sequence[Position]) -> PageTable:
    """Return what every strength would show."""
    rows = [position.row for position in positions]
    epsilon = "epsilon is pure" if plan.is_pure else f"epsilon is at delta = {DELTA:g}"
    columns = [
        TableColumn("mu", [row.mu for row in rows], printed_mu),
        TableColumn("epsilon", [row.epsilon for row in rows], printed_epsilon),
    ]
    hidden = f"how many of the {len(plan.kinds)} columns have a variance that cannot be told from the noise."
    for what, form, read, about in (
        (
            "seen",
            ".2g",
            attrgetter("seen"),
            "the smallest partial correlation that would be seen; empty where there is none.",
        ),
        ("error", _FORM, _error, "the standard error of a correlation near zero."),
        ("hidden", "d", attrgetter("drowned"), hidden),
    ):
        for name, release in _sources(plan):
            values = [read(row.of(release)) for row in rows]
            columns.append(TableColumn(f"{what}: {name}", values, form, about=about if name == "rows" else ""))
    moments = " and from second moments" * plan.focus.moments.is_possible
    return PageTable(
        "strengths", f"What every strength of the slider would show, from rows{moments}; {epsilon}.", columns
    )


def needed_table(plan: Plan, positions: Sequence[Position]) -> PageTable:
    """Return how many rows every strength would take."""
    columns = [TableColumn("mu", [position.row.mu for position in positions], printed_mu)]
    for rho in TARGETS:
        for name, release in _sources(plan):
            counts = [position.row.of(release).needed for position in positions]
            said = [describe_count(each[rho]) if rho in each else "" for each in counts]
            columns.append(TableColumn(f"{rho:g}: {name}", said))
    targets = " and ".join(f"{rho:g}" for rho in TARGETS)
    about = f"How many rows it takes to see partial correlations of {targets}; there are {plan.n_rows:,}."
    return PageTable("rows-needed", about, columns)


def _sources(plan: Plan) -> list[tuple[str, str]]:
    """Return what a release can be made of: of changes of cells, of rows alone."""
    return [("rows", "rows"), ("moments", "covariance")][: 1 + plan.focus.moments.is_possible]


def _error(shown: Sight) -> float:
    """Return a number of two significant digits, which `_FORM` spells without an exponent."""
    return float(f"{shown.error:.2g}")


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
