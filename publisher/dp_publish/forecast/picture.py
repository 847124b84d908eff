"""The forecast as a picture: what could still be seen, and how many rows it would take, against the strength."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from dp_publish.forecast.outlook import DELTA, GRID, TARGETS
from dp_publish.forecast.own_file import OwnFile
from dp_publish.forecast.plan import Plan
from dp_publish.forecast.strengths import describe_count, printed_epsilon

_MARK = "dpgraph plan"  # by which an earlier picture is known
_OWN = "#666666"
_PICTURE = OwnFile(
    "--picture",
    "a picture is a PNG file",
    (".png",),
    lambda start: start.startswith(b"\x89PNG\r\n") and f"Software\0{_MARK}".encode() in start,
)


def draw_plan(plan: Plan, path: Path) -> None:
    """Draw a plan to a PNG file.

    Above, the smallest partial correlation that is seen from rows and from second moments; a curve ends where nothing
    is seen. Below, the number of rows it takes. The policy's own strength, if there is one, is a vertical line.

    Raises
    ------
    DpGraphError
        The path does not end in .png, there is something at it that is no earlier picture of a plan, or it cannot be
        written.
    """
    _PICTURE.require(path)
    figure = Figure(figsize=(8.5, 8), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True)
    _draw_seen(upper, plan)
    _draw_needed(lower, plan)

    for axes in (upper, lower):
        axes.grid(color="#e4e4e0", lw=0.8)
        if plan.own is not None:
            axes.axvline(plan.own.mu, color=_OWN, lw=1, ls="--")

    ticks = {mu: row for mu in GRID for row in plan.rows if math.isclose(mu, row.mu, rel_tol=1e-6)}
    lower.set_xticks(list(ticks), [f"{mu:g}\n{printed_epsilon(row.epsilon, 2)}" for mu, row in ticks.items()])
    lower.xaxis.set_minor_locator(NullLocator())
    epsilon = "pure epsilon" if plan.is_pure else f"epsilon at delta = {DELTA:g}"
    lower.set_xlabel(f"weaker protection to the right: mu, and below it {epsilon}")

    image = io.BytesIO()
    figure.savefig(image, dpi=130, format="png", metadata={"Software": _MARK})
    _PICTURE.write(path, image.getvalue())


def _sources(plan: Plan) -> list[tuple[str, str, str]]:
    """Return what a release can be made of, each with its label and colour: of changes of cells, of rows alone."""
    both = [("rows", "rows", "#c4452d"), ("covariance", "second moments only", "#1f6fb4")]
    return both if plan.focus.moments.is_possible else both[:1]


def _draw_seen(axes: Axes, plan: Plan) -> None:
    mus = [row.mu for row in plan.curve]
    for release, label, colour in _sources(plan):
        seen = [row.of(release).seen for row in plan.curve]
        found = [math.nan if rho is None else rho for rho in seen]
        nothing = all(math.isnan(rho) for rho in found)
        axes.plot(mus, found, color=colour, lw=2, label=f"{label}: nothing is seen" if nothing else label)
        first = next((index for index, rho in enumerate(found) if not math.isnan(rho)), 0)
        if first and not nothing:
            axes.plot(mus[first], found[first], "o", color=colour, ms=5)
            note: dict[str, Any] = {"textcoords": "offset points", "xytext": (-8, 2), "ha": "right", "color": colour}
            axes.annotate("nothing is\nseen here", (mus[first], found[first]), fontsize=8, **note)

    axes.set(xscale="log", ylim=(0, 1), ylabel="smallest partial correlation seen")
    axes.set_xlim(GRID[0] / 1.1, GRID[-1] * 1.1)
    axes.set_title(
        f"{plan.name}: {plan.n_rows:,} rows, {len(plan.kinds)} columns, one {plan.unit} protected", loc="left"
    )
    axes.legend(frameon=False, loc="upper right", title="what is published")

    if plan.own is not None:
        place: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "top", "fontsize": 8, "color": _OWN}
        axes.text(plan.own.mu * 0.98, 0.98, "the policy", **place)


def _draw_needed(axes: Axes, plan: Plan) -> None:
    mus = [row.mu for row in plan.curve]
    for rho, style in zip(TARGETS, ("-", ":"), strict=True):
        for release, label, colour in _sources(plan):
            needed = [row.of(release).needed.get(rho, math.nan) for row in plan.curve]
            axes.plot(mus, needed, style, color=colour, lw=2, label=f"{label}, to see {rho:g}")
    axes.axhline(plan.n_rows, color="black", lw=1)
    axes.annotate(
        f"there are {plan.n_rows:,}",
        (GRID[-1], plan.n_rows),
        textcoords="offset points",
        xytext=(0, 4),
        ha="right",
        fontsize=8,
        bbox={"fc": "white", "ec": "none", "pad": 0.5},
    )
    axes.set(yscale="log", ylabel="rows needed")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: describe_count(round(value))))
    axes.legend(frameon=False, loc="upper right", fontsize=9)
