"""The strength that a link must have to be found, with the noise and without it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from bokeh.models import ColumnDataSource, Range1d
from bokeh.models.annotations import Span

from dp_bundle.page.colours import shade
from dp_bundle.page.figures import FONT, Figure, hover, new_figure
from dp_bundle.page.tables import PageTable, number
from dp_bundle.page.tables import TableColumn as TableColumn
from dp_learn.inference.evidence import LEVEL, POWER, detection_power, rows_to_see, smallest_visible
from dp_learn.output.summary import Result

_SIZE = 0.1  # the partial correlation that readers ask about
_POINTS = 101


@dataclass(frozen=True)
class Visibility:
    """The strength that a link must have to be found.

    Attributes
    ----------
    standard_error : float
        Of the partial correlation of a typical pair: the median over all pairs.
    without_noise : float
        The same for the same rows without noise.
    smallest, strictest : float
        The partial correlation that is found with 80 % power at a 5 % level: of one pair that was named beforehand, and
        among all pairs (the level divided by their number).
    clean : float
        The smallest, without noise.
    n_rows : int
        Rows that there are.
    n_rows_to_see : float or None
        About the rows that would show a partial correlation of 0.1 in one pair, where that is known.
    """

    standard_error: float
    without_noise: float
    smallest: float
    strictest: float
    clean: float
    n_rows: int
    n_rows_to_see: float | None


def find_visibility(found: Result) -> Visibility | None:
    """Return how strong a link must be, or None where there are no tests."""
    graph, learned = found.graph, found.learned
    if graph is None or learned is None or graph.inference is None:
        return None

    p = len(graph.columns)
    errors = np.sqrt(graph.inference.errors.products[np.triu_indices(p, 1)])
    error = float(np.median(errors))
    pooled = learned.fit.pooled
    clean = min(math.sqrt(pooled.sampling_factor), error)
    return Visibility(
        error,
        clean,
        smallest_visible(error),
        smallest_visible(error, LEVEL / len(errors)),
        smallest_visible(clean),
        pooled.n_rows,
        rows_to_see(pooled, error, _SIZE),
    )


def describe_visibility(seen: Visibility) -> list[str]:
    """Return what could have been seen, in sentences."""
    if seen.smallest >= 1.0:
        first = "No link between two columns, however strong, would have been found reliably in these data."
    else:
        first = (
            "A link between two columns that were named beforehand is found about four times out of five if its "
            f"partial correlation is {_size(seen.smallest)} or more."
        )
    second = f"Without the noise, {_size(seen.clean)} would do."
    third = (
        f"Among all pairs at once it takes {_size(seen.strictest)}."
        if seen.strictest < 1.0
        else "Among all pairs at once, none would be found reliably."
    )
    last = "A pair that is not listed may therefore still be linked, more weakly."
    return [first, second, third, *_describe_rows(seen), last]


def _describe_rows(seen: Visibility) -> list[str]:
    """Return how many rows would show a partial correlation of 0.1, where that is known."""
    if seen.n_rows_to_see is None:
        return []
    rows = f"About {_two_digits(seen.n_rows_to_see):,} rows with the same noise"
    enough = "would show" if seen.n_rows_to_see > seen.n_rows else "are enough to show"
    return [f"{rows} {enough} a partial correlation of {_SIZE}; there are {seen.n_rows:,}."]


def draw_visibility(seen: Visibility) -> Figure:
    """Return the figure of the chance to find a link, by its strength."""
    sizes = np.linspace(0.0, min(1.0, max(0.2, 1.6 * seen.smallest)), _POINTS)
    with_noise = 100.0 * detection_power(sizes, seen.standard_error)
    without = 100.0 * detection_power(sizes, seen.without_noise)
    source = ColumnDataSource({"size": sizes, "noisy": with_noise, "clean": without})
    plot = new_figure(
        height=320,
        x_range=Range1d(start=0.0, end=sizes[-1]),
        y_range=Range1d(start=0.0, end=103.0),
        x_axis_label="partial correlation, in size",
        y_axis_label="chance to be found, %",
    )
    plot.add_layout(
        Span(location=100.0 * POWER, dimension="width", line_color=shade("control").light, line_dash="dotted")
    )
    plot.line(
        "size", "clean", source=source, line_color=shade("node").light, line_dash="dashed", line_width=2,
        legend_label="without the noise",
    )  # fmt: skip
    noisy = plot.line(
        "size", "noisy", source=source, line_color=shade("positive").light, line_width=3, legend_label="as published"
    )
    plot.legend.location = "bottom_right"
    plot.legend.background_fill_alpha = 0.0
    plot.legend.border_line_color = None
    plot.legend.label_text_color = shade("ink").light
    plot.legend.label_text_font = FONT
    plot.legend.label_text_font_size = "12px"
    lines = [("partial correlation", "@size{0.00}"), ("found", "@noisy{0} %"), ("without the noise", "@clean{0} %")]
    plot.add_tools(hover(lines, renderers=[noisy], mode="vline"))
    caption = (
        "How often a test at the 5 % level finds a link of this strength in a typical pair of columns; the dotted line "
        "is four times out of five. Even a pair without a link is found 5 % of the time."
    )
    reached = (
        f"four times out of five are reached at a partial correlation of {_size(seen.smallest)}"
        if seen.smallest < 1.0
        else "four times out of five are reached at no partial correlation"
    )
    told = f"With the noise, {reached}; without it, at {_size(seen.clean)}."
    return Figure("visible", "Which links could be found", caption, told, plot)


def visibility_table(seen: Visibility) -> PageTable:
    """Return the numbers of the figure."""
    sizes = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
    columns = [
        TableColumn("Partial correlation", sizes.tolist(), ".2f"),
        TableColumn("Found, %", (100.0 * detection_power(sizes, seen.standard_error)).tolist(), ".0f"),
        TableColumn("without the noise, %", (100.0 * detection_power(sizes, seen.without_noise)).tolist(), ".0f"),
    ]
    return PageTable("visible-table", "How often a link is found by a test at the 5 % level.", columns)


def _size(value: float) -> str:
    return number(value, ".2f") if value >= 0.095 else number(value, ".2g")


def _two_digits(value: float) -> int:
    digits = max(0, math.floor(math.log10(value)) - 1) if value >= 1.0 else 0
    return max(1, round(value / 10.0**digits) * int(10**digits))
