"""A plan for a person, as tables and sentences, and for a machine, as one document."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from dp_bundle.quoting import counted
from dp_publish.forecast import (
    DELTA,
    TARGETS,
    ForecastRow,
    Plan,
    changes_for_moments,
    describe_count,
    shows_something,
    smallest_seen,
    ways_out,
    why_hidden,
)
from dp_publish.messages.tables import table_lines

_THEOREMS = {"theorem_4_1": "4.1 (continuous columns)", "theorem_4_4": "4.4 (integer columns, at least)"}


def describe_plan(plan: Plan, *, looked: bool = False) -> str:
    """Return the forecast for a person to read; it says whether the first rows were read."""
    read = "only the first rows were read" if looked else "no value was read"
    size = f"{counted(plan.n_rows, 'row')}, {counted(len(plan.kinds), 'column')}"
    heads = [f"to see {rho:g}\n{source}" for rho in TARGETS for source in ("from rows", "from moments")]
    tables = [
        f"{plan.name}: {size}. Nothing was spent, and {read}.",
        "",
        f"Smallest partial correlation that a researcher would see, with one {plan.unit} protected at strength mu:",
        *_table(plan, _seen_head(plan), [_seen_cells(row) for row in plan.rows]),
        "",
        f"Rows needed to see a partial correlation of 0.1 or 0.3 (there are {plan.n_rows:,}):",
        *_table(plan, ["mu", *heads], [_needed_cells(row) for row in plan.rows]),
    ]

    legend = [
        "from rows: if noisy rows are published. from moments: if only second moments are (--release covariance), at",
        "the same mu.",
        "sigma / width: the noise's standard deviation over the width of a column's bounds. noise / signal: the",
        "ratio of their variances. If columns differ, the table shows their median.",
        "see: find with 80 % power at a false discovery rate of 5 %, by an estimator that corrects for the noise.",
        f"Assumed: {plan.assumed} (--spread, or spread in the policy), means",
        "are not in the middle of the bounds, and columns are related in pairs. Less spread or more relations",
        "need more rows.",
    ]

    findings = [*_verdict(plan), *_if_narrower(plan), *plan.notes]
    return "\n".join([*tables, "", *legend, "", *findings, "", *_paper_sentences(plan)])


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the forecast for a machine to read."""
    return {
        "dataset": plan.name,
        "n_rows": plan.n_rows,
        "columns": plan.kinds,
        "unit": plan.unit,
        "release": plan.release,
        "mechanism": plan.mechanism,
        "assumed_spread": plan.spread,
        "own_mu": None if plan.own is None else plan.own.mu,
        "forecast": [_numbers(row) for row in plan.rows],
        "forecast_if_narrower": [{"spread": spread, **_numbers(row)} for spread, row in plan.narrower.items()],
        "notes": plan.notes,
        "paper_figures_not_a_guarantee": {"at_mu": plan.focus.mu, **plan.paper},
    }


def _numbers(row: ForecastRow) -> dict[str, Any]:
    return {name: None if value != value else value for name, value in asdict(row).items()}


def _seen_head(plan: Plan) -> list[str]:
    epsilon = "epsilon\n(pure)" if plan.is_pure else f"epsilon at\ndelta {DELTA:g}"
    noise = ["noise: sigma\n/ width", "noise /\nsignal"]
    return ["mu", epsilon, *noise, "smallest seen\nfrom rows", "smallest seen\nfrom moments"]


def _table(plan: Plan, head: list[str], body: list[list[str]]) -> list[str]:
    """Return the lines of a table with a row for each strength, the policy's own marked."""
    marked = [[*cells, "<- the policy" * (row is plan.own)] for row, cells in zip(plan.rows, body, strict=True)]
    return [f"  {line}".rstrip() for line in table_lines([*head, ""], marked, left=[len(head)])]


def _seen_cells(row: ForecastRow) -> list[str]:
    numbers = (row.epsilon, row.sigma_over_width, row.noise_to_signal)
    return [f"{row.mu:.4g}", *map(_number, numbers), _seen(row.seen_in_rows), _seen(row.seen_in_moments)]


def _needed_cells(row: ForecastRow) -> list[str]:
    both = (row.rows_needed, row.rows_needed_for_moments)
    return [f"{row.mu:.4g}", *(describe_count(needed[rho]) if needed else "-" for rho in TARGETS for needed in both)]


def _verdict(plan: Plan) -> list[str]:
    row, target = plan.focus, TARGETS[-1]
    if not row.rows_needed:
        return ["A single column has no partial correlation to see."]
    if plan.release == "covariance":
        return _covariance_verdict(plan)
    if row.rows_needed[target] <= plan.n_rows:
        return [f"At mu = {row.mu:.4g}, rows would show partial correlations from {_seen(row.seen_in_rows)} on."]

    rows = "nothing" if row.seen_in_rows is None else f"partial correlations from {_seen(row.seen_in_rows)} on only"
    why = why_hidden(plan.n_rows, len(plan.kinds), row, "rows")
    lines = [
        f"At mu = {row.mu:.4g}, rows would show {rows}: {why}.",
        f"Seeing {target:g} would take {describe_count(row.rows_needed[target])} rows.",
    ]

    if row.seen_in_moments is None:
        needed = describe_count(row.rows_needed_for_moments[target])
        lines.append(f"Second moments alone would still need {needed} rows: {_remedy(plan)}.")
    else:
        seen = _seen(row.seen_in_moments)
        lines.append(
            f"Second moments alone (--release covariance) would show {seen} and above, under the same guarantee."
        )
        changes = changes_for_moments(plan.policy, plan.kinds, row.mu)
        lines += [f"For them, {' and '.join(changes)}."] if changes else []
    return lines


def _if_narrower(plan: Plan) -> list[str]:
    """Return the forecast for long-tailed values, which need wider bounds and so get more noise."""
    if not plan.narrower or len(plan.kinds) == 1:
        return []
    lines = ["Long-tailed values, such as incomes, fill less of their bounds:"]
    for spread, row in plan.narrower.items():
        shown = f"{_seen(row.seen_in_rows)} from rows and {_seen(row.seen_in_moments)} from moments"
        lines.append(f"if standard deviations are {spread:g} of the width, {shown}.")
    return lines


def _remedy(plan: Plan) -> str:
    p = len(plan.kinds)
    if smallest_seen(plan.n_rows, p, plan.n_rows**-0.5) is None:
        return "wait for more rows"
    return "publish fewer columns, narrow their bounds, declare their centers and scales, or protect them less"


def _covariance_verdict(plan: Plan) -> list[str]:
    row, target = plan.focus, TARGETS[-1]
    if plan.kind is not None and plan.kind.forecast_as is not None:
        return [f"What {plan.mechanism} would show depends on the values, and readers get no error bars from it."]
    lines = [
        f"At mu = {row.mu:.4g}, a correlation has a standard error of {row.error_in_moments:.2g} in the covariance",
        f"release, and of {row.error_in_rows:.2g} in a release of rows; chance alone makes it {plan.n_rows**-0.5:.2g}.",
    ]
    if row.seen_in_moments is not None:
        rows = "nothing" if row.seen_in_rows is None else f"{_seen(row.seen_in_rows)} and above"
        return [*lines, f"Partial correlations from {_seen(row.seen_in_moments)} on would be seen; in rows, {rows}."]
    needed, for_rows = row.rows_needed_for_moments[target], row.rows_needed[target]
    return [
        *lines,
        f"To see a partial correlation of {target:g} takes {describe_count(needed)} rows (there are {plan.n_rows:,}),",
        f"and {describe_count(for_rows)} in a release of rows. This release shows anything from",
        f"{describe_count(row.least_rows_for_moments)} rows on.",
        *(f"Or {way}." for way in _ways_out(plan)),
    ]


def _ways_out(plan: Plan) -> list[str]:
    """Return what would show something, where the policy's own release shows nothing."""
    if plan.own is None or shows_something(plan.own, plan.release, len(plan.kinds)):
        return []
    return ways_out(plan.policy, plan.kinds, plan.n_rows, plan.own)


def _paper_sentences(plan: Plan) -> list[str]:
    if not plan.paper:
        return ["The source paper (Guo et al. 2025) has no figure for this: its theorems need declared bounds."]
    figures = " and ".join(
        f"mu = {value:.3g} by theorem {_THEOREMS[name]}" for name, value in sorted(plan.paper.items())
    )
    return [
        f"The source paper's figure, which is not a guarantee: Guo et al. (2025) would print {figures}",
        f"for the noise of mu = {plan.focus.mu:.4g} and the assumed spread. That figure is about a covariance; the",
        f"rows themselves protect one {plan.unit} at mu = {plan.focus.mu:.4g}. No bundle states the paper's figure.",
    ]


def _seen(rho: float | None) -> str:
    return "nothing" if rho is None else f"{rho:.2g}"


def _number(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if 100 <= value < 1e7 else f"{value:.3g}"
