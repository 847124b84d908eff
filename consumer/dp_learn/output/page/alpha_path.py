"""The path of penalties that alpha was chosen from: its scores, the edges at each, and where no solution exists."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, PrintfTickFormatter, Range1d
from bokeh.models.annotations import BoxAnnotation, Span

from dp_bundle.base.quoting import counted
from dp_bundle.page.colours import shade
from dp_bundle.page.figures import Figure, hover, new_figure
from dp_bundle.page.tables import number
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.summary import Result
from dp_learn.pipeline.learn import Learned
from dp_learn.selection.path import Selection

_ROOM = 1.15  # beyond the path, on either side


def explain_alpha(found: Result) -> list[str]:
    """Return sentences on how alpha was chosen, and from which alpha on there is a solution; none without a path."""
    learned = found.learned
    if learned is None:
        return []
    said = []
    alpha = number(learned.fit.solution.alpha, ".3g")
    if learned.estimate.fdr is not None:
        said.append("The links listed were found by tests; alpha decides on the graph that the tests start from.")
    if (selection := learned.fit.selection) is None:
        said.append(f"The penalty alpha = {alpha} was given with the command.")
    else:
        said.append(f"Of {len(selection.alphas)} penalties, alpha = {alpha} was chosen by {selection.rule}.")
    return [*said, *_left_by_fit(learned), _solvable(learned)]


def _left_by_fit(learned: Learned) -> list[str]:
    """Return how many links are left where the fit that followed, which keeps some of the penalty, dropped some."""
    chosen, left = (
        int(np.count_nonzero(np.triu(m, 1))) for m in (learned.fit.solution.precision, learned.fit.precision)
    )
    if left == chosen:
        return []
    return [
        f"It leaves {counted(chosen, 'link')}; the fit on these that followed keeps {learned.fit.share:.0%} of the "
        f"penalty, and left {left:,} of them."
    ]


def _solvable(learned: Learned) -> str:
    smallest = learned.smallest_alpha
    if smallest == 0.0:
        return "Every penalty has a solution, as the matrix is positive definite."
    if math.isinf(smallest):
        return "Which penalties have a solution is not known."
    return (
        f"Only penalties above {number(smallest, '.2g')} have a solution: with the noise subtracted the matrix is "
        f"indefinite, its smallest eigenvalue being {number(learned.smallest_eigenvalue, '.2g')}."
    )


def draw_paths(found: Result) -> list[Figure]:
    """Return the figures of the scores and of the numbers of edges, none where alpha was not chosen from a path."""
    learned = found.learned
    selection = None if learned is None else learned.fit.selection
    if learned is None or selection is None or np.isfinite(selection.scores).sum() < 2:
        return []
    smallest = learned.smallest_alpha
    return [_draw_scores(selection, smallest), _draw_edges(selection, smallest)]


def _draw_scores(selection: Selection, smallest: float) -> Figure:
    known = np.isfinite(selection.scores)
    best = int(np.flatnonzero(selection.alphas == selection.alpha)[0])
    plot = _draw(selection, selection.scores, smallest, "score (larger is better)")
    low, high = selection.scores[known].min(), selection.scores[known].max()
    told = (
        f"The score is known at {int(known.sum())} of {len(selection.alphas)} penalties, from {number(low, '.4g')} to "
        f"{number(high, '.4g')}; at the chosen one it is {number(selection.scores[best], '.4g')}."
    )
    left = "" if known.all() else " The rule ended before the smallest penalties of the path."
    caption = f"The score of each penalty by the rule that chose; the line marks the choice.{left}"
    return Figure("alpha-scores", "Score of each penalty", caption, told, plot)


def _draw_edges(selection: Selection, smallest: float) -> Figure:
    known = np.isfinite(selection.n_edges)
    best = int(np.flatnonzero(selection.alphas == selection.alpha)[0])
    plot = _draw(selection, selection.n_edges, smallest, "links")
    n_chosen, most = int(selection.n_edges[best]), int(selection.n_edges[known].max())
    are = "is" if n_chosen == 1 else "are"
    told = f"There {are} {counted(n_chosen, 'link')} at the chosen penalty, and up to {most:,} at others."
    shaded = " The shaded range has no solution." if 0.0 < smallest < math.inf else ""
    caption = f"The number of links at each penalty: a smaller penalty allows more of them.{shaded}"
    return Figure("alpha-edges", "Links at each penalty", caption, told, plot)


def _draw(selection: Selection, values: FloatArray, smallest: float, label: str) -> Any:
    known = np.isfinite(values)
    alphas, shown = selection.alphas[known], values[known]
    source = ColumnDataSource(
        {
            "alpha": alphas,
            "value": shown,
            "is_chosen": [10 if alpha == selection.alpha else 6 for alpha in alphas],
            "words": [f"{value:.5g}" for value in shown],
            "penalty": [f"{alpha:.3g}" for alpha in alphas],
        }
    )
    shaded = 0.0 < smallest < math.inf
    least = min(alphas.min(), smallest) if shaded else alphas.min()
    low, high = float(least / _ROOM**2), float(alphas.max() * _ROOM)
    span = Range1d(start=low, end=high)
    plot = new_figure(height=300, x_axis_type="log", x_range=span, x_axis_label="penalty alpha", y_axis_label=label)
    plot.xaxis.ticker = FixedTicker(ticks=_round_numbers(low, high))
    plot.xaxis.formatter = PrintfTickFormatter(format="%g")
    if shaded:
        plot.add_layout(
            BoxAnnotation(right=smallest, fill_color=shade("faint").light, fill_alpha=0.45, line_color=None)
        )
    plot.add_layout(
        Span(location=selection.alpha, dimension="height", line_color=shade("negative").light, line_width=2)
    )
    plot.line("alpha", "value", source=source, line_color=shade("positive").light, line_width=2)
    discs = plot.scatter(
        "alpha",
        "value",
        source=source,
        size="is_chosen",
        fill_color=shade("positive").light,
        line_color=shade("paper").light,
    )
    plot.add_tools(hover([("alpha", "@penalty"), (label.split(" ")[0], "@words")], renderers=[discs]))
    return plot


def _round_numbers(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten in a range, or numbers closer to each other where these are few."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        found = [float(f"{digit}e{power}") for power in powers for digit in digits]
        found = [each for each in found if low <= each <= high]
        if len(found) > 2:
            break
    return found
