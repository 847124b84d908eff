"""The surest links with their intervals: names at the left, or above each interval where the screen is narrow.

The script forest.js chooses between the two.
"""

from __future__ import annotations

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, Range1d
from bokeh.models.annotations import Span

from dp_bundle.page.colours import shade
from dp_bundle.page.figures import FONT, Figure, by_sign, figure_text, hover, new_figure
from dp_bundle.page.tables import number
from dp_learn.pipeline.graph import GraphEstimate

_MOST = 30
_LINE = 36  # pixels, a name and its interval
_ABOVE = 13  # pixels
_LONGEST_NAME = 24


def draw_forest(graph: GraphEstimate) -> Figure | None:
    """Return the figure of the surest links, None without links or without intervals."""
    edges = graph.edge_columns
    n_edges = len(edges["source"])
    if not n_edges or "ci_low" not in edges:
        return None

    shown = min(n_edges, _MOST)
    value, low, high = (edges[name][:shown] for name in ("desparsified", "ci_low", "ci_high"))
    fitted, q_value = edges["partial_correlation"][:shown], edges["q_value"][:shown]
    pairs = list(zip(edges["source"][:shown], edges["target"][:shown], strict=True))
    ends = [" – ".join(figure_text(name, _LONGEST_NAME) for name in pair) for pair in pairs]
    source = ColumnDataSource(
        {
            "row": -np.arange(shown),
            "pair": ends,
            "ends": [" – ".join(figure_text(name, 80) for name in pair) for pair in pairs],
            "value": value,
            "low": low,
            "high": high,
            "fitted": fitted,
            "sign": ["+" if each > 0.0 else "-" for each in value],
            "words": [
                f"{number(middle, '+.3f')} ({number(least, '+.3f')} to {number(most, '+.3f')})"
                for middle, least, most in zip(value, low, high, strict=True)
            ],
            "graph": [number(each, "+.3f") for each in fitted],
            "q": [f"{each:.2g}" for each in q_value],
        }
    )
    largest = min(1.02, 1.06 * float(np.nanmax(np.abs([low, high, fitted, value]))))
    least = -largest if np.nanmin(low) < 0.0 else -0.02
    plot = new_figure(
        height=70 + _LINE * shown,
        x_range=Range1d(start=least, end=largest),
        y_range=Range1d(start=0.5 - shown, end=0.7),
        x_axis_label="partial correlation",
    )
    rows, axis = plot.ygrid[0], plot.yaxis[0]
    rows.name, axis.name = "forest-rows", "forest-axis"
    rows.visible = axis.visible = False
    rows.ticker = axis.ticker = FixedTicker(ticks=[-place for place in range(shown)], minor_ticks=[])
    axis.major_label_overrides = {float(-place): pair for place, pair in enumerate(ends)}
    axis.axis_line_color = axis.major_tick_line_color = None
    plot.add_layout(Span(location=0.0, dimension="height", line_color=shade("control").light, line_width=1))
    font = {"text_font": {"value": FONT}, "text_font_size": "12px", "text_color": shade("ink").light}
    above = plot.text(least, "row", "pair", source=source, x_offset=4, y_offset=-_ABOVE, text_baseline="middle", **font)
    above.name = "forest-names"
    colour = by_sign("sign")
    plot.segment("low", "row", "high", "row", source=source, line_width=2.5, line_color=colour, line_cap="round")
    discs = plot.scatter("value", "row", source=source, size=9, fill_color=colour, line_color=shade("paper").light)
    plot.scatter(
        "fitted",
        "row",
        source=source,
        size=11,
        marker="x",
        line_color=shade("ink").light,
        fill_color=None,
        line_width=1.5,
    )
    lines = [("", "<b>@ends</b>"), ("without a graph, 95 %", "@words"), ("on this graph", "@graph"), ("q-value", "@q")]
    plot.add_tools(hover(lines, renderers=[discs]))
    title = f"The {shown} surest links" if shown < n_edges else f"{shown} link{'' if shown == 1 else 's'}"
    return Figure("forest", f"{title}, with intervals", _caption(graph), _alternative(graph, shown), plot)


def _caption(graph: GraphEstimate) -> str:
    penalised = (
        ""
        if graph.fdr is not None
        else " The links were chosen by the sparse estimate, not by tests: an interval may hold zero."
    )
    return (
        "Each disc is an estimate that assumes no graph, with its 95 % interval, which accounts for the noise; blue is "
        "positive and orange negative. Each cross is the estimate on this graph, which supposes that all other links "
        f"are absent.{penalised} An interval holds for one pair at a time, not for all of them at once."
    )


def _alternative(graph: GraphEstimate, shown: int) -> str:
    edges = graph.edge_columns
    low, high = edges["ci_low"][:shown], edges["ci_high"][:shown]
    sure = int(np.count_nonzero((low > 0.0) | (high < 0.0)))
    whole = (
        f"{sure} of these {shown} intervals exclude"
        if shown > 1
        else f"The interval {'excludes' if sure else 'includes'}"
    )
    return (
        f"{whole} zero; the first link is between “{figure_text(edges['source'][0])}” and "
        f"“{figure_text(edges['target'][0])}”, "
        f"{number(float(edges['desparsified'][0]), '+.3f')}, from {number(float(low[0]), '+.3f')} to "
        f"{number(float(high[0]), '+.3f')}. All numbers are in the table of links."
    )
