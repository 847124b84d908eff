"""The page of a plan, put together and written, and its figures, with tables of the numbers behind them.

They show what would be seen, how wrong a correlation is, and the trade-off curve. Each has a source by the
name of "chosen", which the slider fills with the numbers of one strength.
"""

import contextlib
import math
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from bokeh.models import ColumnDataSource, FixedTicker, NumeralTickFormatter, Range1d

from dp_bundle.base.document import FONT, Figure, Page, PageTable, TableColumn, hover, new_figure, render_page, shade
from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote, quote_path
from dp_bundle.catalog.label import FROM_WHOM, describe_who
from dp_bundle.describe.sentences import count_columns, describe_unprotected
from dp_bundle.files.new_files import write_whole
from dp_bundle.manifest.guarantee import Guarantee
from dp_publish.forecast.assumptions import assumed_spreads
from dp_publish.forecast.outlook import GRID, Outlook, Sight
from dp_publish.forecast.page.texts import (
    CANDIDATES,
    FALSE_ALARMS,
    SHARES,
    Asked,
    Position,
    positions_of,
    private_reasons,
    start_of,
    texts_of,
    trade_off_points,
)
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.planned import DELTA
from dp_publish.forecast.refusal import describe_findings
from dp_publish.forecast.strengths import fine_grid, printed_epsilon, printed_mu
from dp_publish.policy.coded_columns import raw_names

_TEMPLATES = Path(__file__).with_name("templates")
_MARK = b'<meta name="generator" content="dpgraph plan'  # by which an earlier page is known
_START = 4096  # bytes, in which a page has its mark
_ALPHAS = tuple(round(step / 50, 4) for step in range(51))
_FORM = ",.12g"  # of numbers of two significant digits
_FINE = (1e-6, 1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.006, 0.01, 0.015, 0.03)
DRAWN_ALPHAS = tuple(sorted({*_ALPHAS, *_FINE, *(1 - alpha for alpha in _FINE)}))

Read: TypeAlias = Callable[[Sight], float | None]
MARKED: dict[str, Read] = {
    "seen": lambda shown: shown.seen,
    "error": lambda shown: shown.error if math.isfinite(shown.error) else None,
}


def require_page(path: Path) -> None:
    """Refuse a path that no page can have, before any work is done.

    Raises
    ------
    DpGraphError
        There is anything at it but an earlier page, or its name ends in something else.
    """
    ours = not os.path.lexists(path)
    with contextlib.suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):
            with path.open("rb") as file:
                ours = _MARK in file.read(_START)
    if not ours:
        raise DpGraphError(
            f"there is something at {quote_path(path)} that dp-publish plan did not write: give another --report"
        )
    if path.suffix.lower() not in (".html", ".htm"):
        raise DpGraphError(f"a report is an HTML file: give --report a name that ends in .html, not {quote_path(path)}")


def write_page(plan: Plan, path: Path, asked: Asked) -> None:
    """Write the page of a plan, whole or not at all.

    Parameters
    ----------
    plan : Plan
        The forecast.
    path : Path
        The file to write; see `require_page`.
    asked : Asked
        What was typed, and told.

    Raises
    ------
    DpGraphError
        There is something else at the path by now, or it cannot be written.
    """
    content = make_page(plan, asked).encode()
    require_page(path)
    try:
        write_whole(path, content, replace=os.path.lexists(path))
    except OSError as error:
        raise DpGraphError(f"{quote_path(path)} cannot be written: {error.strerror}") from error


def make_page(plan: Plan, asked: Asked) -> str:
    """Return the page of a plan as one HTML document that needs no network, the same for the same plan."""
    positions = positions_of(plan)
    start = start_of(plan, positions)
    texts = [texts_of(plan, asked, position) for position in positions]
    guarantee = positions[start].guarantee
    seen, error, trade_off = figures_of(plan, positions, start)
    values: dict[str, Any] = {
        "plan": plan,
        "asked": asked,
        "texts": texts[start],
        "start": start,
        "last": len(positions) - 1,
        "private": private_reasons(plan, asked),
        "who": describe_who(guarantee, plan.release),
        "from_whom": FROM_WHOM,
        "unprotected": describe_unprotected(guarantee, plan.release),
        "candidates": CANDIDATES,
        "pairs": guarantee.neighbours.n_rows_public,
        "shares": SHARES,
        "false_alarms": FALSE_ALARMS,
        "deltas": [point.delta for point in guarantee.epsilon_delta],
        "findings": " ".join(describe_findings(plan.focus, plan.own)),
        "figure_seen": seen,
        "figure_error": error,
        "figure_trade_off": trade_off,
        "strengths_table": strengths_table(plan, positions),
        "columns_table": noise_table(plan),
        "provenance": _provenance(plan, asked, guarantee),
        "software": f"dpgraph {version('dpgraph')}",
    }
    data = {
        "positions": [
            {"mu": position.row.mu, "texts": said, **_marks(position)}
            for position, said in zip(positions, texts, strict=True)
        ]
    }
    figures = [seen, error, trade_off]
    return render_page(Page(_TEMPLATES, "plan.html", f"{plan.name}: a plan", values, figures, ["plan.js"], data))


def _marks(position: Position) -> dict[str, Any]:
    """Return the numbers of one strength that figures show."""
    marks = {name: [read(position.row.rows), read(position.row.moments)] for name, read in MARKED.items()}
    return {**marks, "missed": trade_off_points(position.trade_off, DRAWN_ALPHAS)}


def _provenance(plan: Plan, asked: Asked, guarantee: Guarantee) -> list[tuple[str, str | Sequence[str]]]:
    """Return what the page comes from, by labels."""
    raw = raw_names(plan.kinds, plan.policy.sources)
    noise = {"rows": "noisy rows", "covariance": f"second moments, with {plan.mechanism} noise"}[plan.release]
    unit = (
        guarantee.unit
        if guarantee.entity is None
        else f"{quote(guarantee.entity)}, at most {guarantee.max_rows} rows of each"
    )
    return [
        ("Table", asked.data),
        ("Dataset", plan.name),
        ("Size", f"{plan.n_rows:,} rows, {count_columns(len(plan.kinds), len(raw))}"),
        ("Would be published", noise),
        ("Unit of privacy", unit),
        ("Neighbouring tables", guarantee.neighbours.value),
        (
            "Policy",
            asked.policy.name if asked.policy else "none: one row at mu = 1, with bounds that are found privately",
        ),
        *([("Policy, SHA-256", asked.policy_sha256)] if asked.policy else []),
        ("Made by", f"dpgraph {version('dpgraph')}"),
    ]


@dataclass(frozen=True)
class _Source:
    """What a release can be made of, and how its curve is drawn."""

    release: str
    source: str
    name: str
    colour: str
    marker: str
    dash: str


_SOURCES = (
    _Source("rows", "rows", "noisy rows", "negative", "square", "dashed"),
    _Source("covariance", "moments", "second moments", "positive", "circle", "solid"),
)


def figures_of(plan: Plan, positions: Sequence[Position], start: int) -> list[Figure]:
    """Return the figures, with the strength at this place marked."""
    between = plan.at(fine_grid())
    rows = sorted([*between, *(position.row for position in positions)], key=lambda row: row.mu)
    row = positions[start].row
    return [
        _draw_seen(plan, rows, row),
        _draw_error(plan, rows, row),
        _draw_trade_off(positions, start),
    ]


def _draw_seen(plan: Plan, rows: Sequence[Outlook], chosen: Outlook) -> Figure:
    made = _against_mu(
        rows, chosen, "seen", ("smallest partial correlation seen", "0.00"), y_range=Range1d(start=0, end=1)
    )
    named = [f"{each.name.capitalize()}: {_end_of(rows, each)}" for each in _sources(chosen)]
    return Figure(
        "seen",
        "The smallest partial correlation seen",
        f"What would be found among {plan.n_rows:,} rows at each strength: lower is better. A curve "
        "begins where anything can be seen at all; to the left of it the noise hides everything.",
        f"{'. '.join(named)}. The numbers are in the table of all strengths.",
        made,
    )


def _end_of(rows: Sequence[Outlook], of: _Source) -> str:
    found = [(row.mu, rho) for row in rows if (rho := row.of(of.release).seen) is not None]
    if not found:
        return "nothing is seen at any strength"
    (first, most), (last, least) = found[0], found[-1]
    return f"from {most:.2g} at mu = {first:.2g} to {least:.2g} at mu = {last:.3g}"


def _draw_error(plan: Plan, rows: Sequence[Outlook], chosen: Outlook) -> Figure:
    chance = plan.n_rows**-0.5
    made = _against_mu(rows, chosen, "error", ("standard error of a correlation", "0.000"), y_axis_type="log")
    errors = [row.of(each.release).error for row in rows for each in _sources(chosen)]
    made.yaxis.ticker = FixedTicker(ticks=error_ticks([chance, *filter(math.isfinite, errors)]))
    made.yaxis.formatter = NumeralTickFormatter(format="0,0.[000000]")
    drawn = {"color": shade("quiet").light, "line_dash": "dotted", "line_width": 2, "legend_label": "chance alone"}
    made.line([rows[0].mu, rows[-1].mu], [chance] * 2, **drawn)
    falls = "Both curves fall" if chosen.moments.is_possible else "The curve falls"
    return Figure(
        "error",
        "How wrong a correlation would be",
        "The standard error of a correlation near zero that researchers compute from the release. The dotted line is "
        "what chance alone causes with this number of rows: no release can do better.",
        # how far bounds reach that are found is from a short list
        f"{falls}, if not at every step, as protection weakens, towards {chance:.2g}. The numbers are in the table of "
        "all strengths.",
        made,
    )


def _draw_trade_off(positions: Sequence[Position], start: int) -> Figure:
    made = new_figure(
        height=420,
        max_width=640,
        x_axis_label="probability of a false alarm (type I)",
        y_axis_label="probability of a miss (type II)",
        x_range=Range1d(start=0, end=1),
        y_range=Range1d(start=0, end=1),
    )
    quiet = shade("quiet").light
    made.line([0, 1], [1, 0], color=quiet, line_width=2, line_dash="dotted", legend_label="without the release")
    own = next((each for each in positions if each.is_own), None)
    if own is not None:
        made.line(
            list(DRAWN_ALPHAS),
            trade_off_points(own.trade_off, DRAWN_ALPHAS),
            color=shade("negative").light,
            line_width=2,
            line_dash="dashed",
            legend_label="the policy’s own strength",
        )
    missed = trade_off_points(positions[start].trade_off, DRAWN_ALPHAS)
    source = ColumnDataSource({"x": list(DRAWN_ALPHAS), "y": missed}, name="chosen")
    line = made.line(
        "x", "y", source=source, color=shade("positive").light, line_width=3, legend_label="chosen strength"
    )
    made.varea(x="x", y1=0, y2="y", source=source, fill_color=shade("positive").light, fill_alpha=0.12)
    made.add_tools(hover([("false alarms", "@x{0.0 %}"), ("misses", "@y{0.0 %}")], renderers=[line], mode="vline"))
    _dress_legend(made)
    return Figure(
        "trade-off",
        "The two errors of somebody who wants to know",
        "For every rate of false alarms, the smallest rate of misses that the guarantee allows. Nobody’s errors lie in "
        "the shaded area. The dotted line is guessing without the release: nearer is stronger.",
        "The curve bends from (0, 1) to (1, 0) below the dotted diagonal. The numbers are in the table below it.",
        made,
    )


def _against_mu(rows: Sequence[Outlook], chosen: Outlook, what: str, shown: tuple[str, str], **options: Any) -> Any:
    """Return a figure of what each source has at all strengths, with the chosen one marked.

    What is `shown` is the label of the axis, and the form of the numbers on it.
    """
    low, high = rows[0].mu, rows[-1].mu
    made = new_figure(
        height=340,
        x_axis_type="log",
        x_range=Range1d(start=low / 1.12, end=high * 1.12),
        x_axis_label="mu (smaller protects more)",
        y_axis_label=shown[0],
        **options,
    )
    ticks = error_ticks([low, high]) if high / low > 2 * GRID[-1] / GRID[0] else [*GRID]
    made.xaxis.ticker = made.xgrid.ticker = FixedTicker(ticks=ticks)
    made.xaxis.major_label_overrides = {tick: f"{tick:g}" for tick in ticks}

    lines = []
    for each in _sources(chosen):
        values = [_or_nan(MARKED[what](row.of(each.release))) for row in rows]
        source = ColumnDataSource({"mu": [row.mu for row in rows], "y": values, "of": [each.name] * len(rows)})
        label = each.name if any(math.isfinite(value) for value in values) else f"{each.name}: nothing is seen"
        drawn = {"color": shade(each.colour).light, "line_width": 2.5, "line_dash": each.dash, "legend_label": label}
        lines.append(made.line("mu", "y", source=source, **drawn))
    made.vspan(x="mu", source=ColumnDataSource({"mu": [chosen.mu]}, name="strength"), color=shade("control").light)
    for each in _sources(chosen):
        marked = _or_nan(MARKED[what](chosen.of(each.release)))
        own = ColumnDataSource({"mu": [chosen.mu], "y": [marked]}, name=each.source)
        made.scatter("mu", "y", source=own, marker=each.marker, size=11, color=shade(each.colour).light)
    made.add_tools(hover([("", "@of"), ("mu", "@mu{0.00}"), ("", f"@y{{{shown[1]}}}")], renderers=lines, mode="vline"))
    _dress_legend(made)
    return made


def _sources(row: Outlook) -> Sequence[_Source]:
    """Return what a release can be made of: of changes of cells, of rows alone."""
    return _SOURCES if row.moments.is_possible else _SOURCES[:1]


def _dress_legend(made: Any) -> None:
    legend = made.legend[0]
    legend.label_text_color = shade("ink").light
    legend.background_fill_color = shade("paper").light
    legend.background_fill_alpha = 0.85
    legend.border_line_color = None
    legend.label_text_font_size = "12px"
    legend.label_text_font = FONT
    legend.location = "top_right"


def error_ticks(values: Sequence[float]) -> list[float]:
    """Return powers of ten, and round numbers between them where the values span few."""
    powers = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    between = (1, 1.5, 2, 3, 5, 7) if max(values) < 10 * min(values) else (1,)
    return [each * 10.0**power for power in powers for each in between][:: max(1, len(powers) // 6)]


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)


def strengths_table(plan: Plan, positions: Sequence[Position]) -> PageTable:
    """Return what every strength would show."""
    rows = [position.row for position in positions]
    epsilon = "epsilon is pure" if plan.is_pure else f"epsilon is at delta = {DELTA:g}"
    columns = [
        TableColumn("mu", [row.mu for row in rows], printed_mu),
        TableColumn("epsilon", [row.planned.epsilon for row in rows], printed_epsilon),
    ]
    seen = "the smallest partial correlation that would be seen; empty where there is none."
    hidden = f"how many of the {len(plan.kinds)} columns have a variance that cannot be distinguished from the noise."
    for what, form, read, about in (
        ("seen", ".2g", attrgetter("seen"), seen),
        ("error", _FORM, lambda shown: float(f"{shown.error:.2g}"), "the standard error of a correlation near zero."),
        ("hidden", "d", attrgetter("drowned"), hidden),
    ):
        for each in _sources(plan.focus):
            values = [read(row.of(each.release)) for row in rows]
            columns.append(
                TableColumn(f"{what}: {each.source}", values, form, about=about if each.source == "rows" else "")
            )
    moments = " and from second moments" * plan.focus.moments.is_possible
    return PageTable(
        "strengths", f"What every strength of the slider would show, from rows{moments}; {epsilon}.", columns
    )


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
