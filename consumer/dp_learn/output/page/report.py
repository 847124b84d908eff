"""The page of a result, put together.

What a result comes from: files, signers, digests, versions and settings, and how to cite it.

The graph as a figure for a browser; the script graph.js fills it, and answers to the reader.

Two choices as curves, and correlations as maps of colours.

The curves are the path of penalties that alpha was chosen from, and the links that could be found at all. The maps are
correlations as published, without the noise, and as estimated, all in one order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from bokeh.models import (
    BasicTicker,
    CategoricalColorMapper,
    ColumnDataSource,
    FixedTicker,
    LinearColorMapper,
    PanTool,
    PrintfTickFormatter,
    Range1d,
    TapTool,
)
from bokeh.models.annotations import BoxAnnotation, ColorBar, Span

from dp_bundle.base.document import (
    COMMUNITIES,
    DIVERGING,
    FONT,
    Figure,
    Page,
    PageTable,
    TableColumn,
    by_sign,
    figure_text,
    hover,
    new_figure,
    number,
    render_page,
    shade,
)
from dp_bundle.base.quoting import round_up
from dp_bundle.catalog.histograms import draw_margins
from dp_bundle.describe import sentences
from dp_bundle.manifest.guarantee import Guarantee
from dp_learn.inference.edges import LEVEL, POWER, detection_power, rows_to_see, smallest_visible
from dp_learn.matrices.choices import Rule
from dp_learn.matrices.linalg import FloatArray, Places
from dp_learn.output.description import Description
from dp_learn.output.folder import Result
from dp_learn.output.messages import (
    SOFTWARE,
    describe_methods,
    describe_notes,
    fill_lines,
    summarize_plainly,
)
from dp_learn.output.network import MOST_UNLINKED, Network
from dp_learn.output.page.links import (
    columns_table,
    edges_tables,
    find_forest,
    loadings_table,
    nodes_table,
    plain_table,
)
from dp_learn.output.summary import GraphResult
from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.learn import Learned
from dp_learn.pipeline.selection import Selection


def origin(result: Result, command: str) -> dict[str, Any]:
    """Return what every page says of its own origin: the command, the software, the methods, and the releases."""
    methods = describe_methods(result)
    return {"command": command, "software": SOFTWARE, "methods": methods, "bundles": result.bundles, "say": sentences}


TEMPLATES = Path(__file__).with_name("templates")
_SCRIPTS = {"graph": "graph.js", "heat": "heat_maps.js"}
_CAPTIONS = {
    "edges.csv": "The pairs of columns whose correlation exceeds the threshold, surest first.",
    "coefficients.csv": "The coefficient of every column; also without the penalty, with its 95 % interval, noise "
    "included, where errors are known.",
    "means.csv": "The mean of every column in each class.",
}


def make_report(found: GraphResult, command: str) -> str:
    """Return the page of a graph, or of what another estimator found; see `dp_learn.output.page.make_page`."""
    network, maps, seen = found.network, find_heat_maps(found), find_visibility(found)
    graph = network if network is not None and network.n_edges else None
    figures = {
        "graph": [] if graph is None else [draw_network(graph)],
        "heat": [] if maps is None else draw_heat_maps(maps),
        "alpha": draw_paths(found),
        "visible": [] if seen is None else [draw_visibility(seen)],
    }
    names = [bundle.release.dataset.title or bundle.release.dataset.name for bundle in found.bundles]
    columns, drowned = found.summary["columns"], found.summary["drowned_columns"]
    values: dict[str, Any] = {
        "names": list(dict.fromkeys(names)),
        "summary": found.summary,
        "sentences": summarize_plainly(found, network),
        "notes": describe_notes(found),
        "n_published": len({*columns, *drowned, *found.summary.get("determined_columns", ())}),
        "strengths": list(dict.fromkeys(_strength(bundle.release.guarantee) for bundle in found.bundles)),
        "network": network,
        "median": median,
        "graph": found.graph,
        "figures": figures,
        "tables": _tables(found),
        "nodes": nodes_table(found),
        "columns": columns_table(found, network),
        "maps": maps,
        "learned": found.learned,
        "n_links": (0, 0) if found.learned is None else count_links(found.learned),
        "visible": [] if seen is None else describe_visibility(seen),
        "visible_table": None if seen is None else visibility_table(seen),
        "margins": draw_margins(found.histograms, found.bundles[0].release),
        "forest": None if found.graph is None else find_forest(found.graph, found.summary["at_least"]),
        **origin(found, command),
    }
    data = {} if graph is None else {"graph": network_data(graph, found.summary["noise_share_of_variance"])}
    data |= {} if maps is None else {"heat": heat_map_data(maps, figures["heat"])}
    title = f"{', '.join(values['names'])}: {found.summary['estimator']}"
    scripts = [script for name, script in _SCRIPTS.items() if figures[name]]
    drawn = [figure for group in figures.values() for figure in group]
    return render_page(Page(TEMPLATES, "report.html", title, values, drawn, scripts, data))


def _strength(guarantee: Guarantee) -> str:
    strengths = (("ε", guarantee.epsilon), ("μ", guarantee.mu), ("ρ", guarantee.rho))
    return next(f"{symbol} = {round_up(value, 3)}" for symbol, value in strengths if value is not None)


def make_description_page(found: Description, command: str) -> str:
    """Return the page of what columns hold; see `dp_learn.output.page.make_page`."""
    values = {"found": found, **origin(found, command)}
    return render_page(Page(TEMPLATES, "description.html", "what columns hold", values))


def _tables(found: GraphResult) -> list[PageTable]:
    if found.graph is not None:
        return edges_tables(found.graph, found.summary["at_least"]) + loadings_table(found.graph)
    return [
        plain_table(f"table-{place}", _CAPTIONS[file], table, file)
        for place, (file, table) in enumerate(found.tables.items())
        if file in _CAPTIONS and len(next(iter(table.values())))
    ]


_HEIGHT, _LOW, _FEW = 620, 320, 4  # pixels; the second for so few columns
_AT_FIRST = 250  # links that are shown before the reader asks for more
_LONGEST_NAME = 28


def draw_network(network: Network) -> Figure:
    """Return the empty figure that the page's script fills with `network_data`."""
    names = [str(place) for place in range(len(COMMUNITIES))]
    communities = CategoricalColorMapper(factors=names, palette=[each.light for each in COMMUNITIES])
    across, up = Range1d(start=-1.08, end=1.08), Range1d(start=-1.08, end=1.08)
    plot = new_figure(height=_LOW if len(network.columns) <= _FEW else _HEIGHT, x_range=across, y_range=up)
    plot.axis.visible = plot.grid.visible = False

    edges = empty_source("graph-edges", "x0 y0 x1 y1 sign width dash alpha")
    line = {"line_color": by_sign("sign"), "line_cap": "butt"}  # round ends would fill the gaps of wide dashed lines
    plot.segment("x0", "y0", "x1", "y1", source=edges, line_width="width", line_dash="dash", alpha="alpha", **line)
    middles = empty_source("graph-middles", "x0 y0 x1 y1 ends value interval q")
    touched = plot.segment("x0", "y0", "x1", "y1", source=middles, line_width=9, line_alpha=0.0)

    nodes = empty_source("graph-nodes", "x y name size community alpha ring width links noise")
    filled = {"fill_color": {"field": "community", "transform": communities}, "line_color": shade("ink").light}
    filled |= {"size": "size", "fill_alpha": "alpha", "line_alpha": "ring", "line_width": "width"}
    discs = plot.scatter("x", "y", source=nodes, **filled)
    discs.selection_glyph = discs.nonselection_glyph = touched.nonselection_glyph = None

    labels = empty_source("graph-labels", "x y text dx dy align")
    place = {"x_offset": "dx", "y_offset": "dy", "text_align": "align", "text_baseline": "middle"}
    write_names(plot, labels, **place)
    plot.add_tools(
        PanTool(),
        TapTool(renderers=[discs]),
        hover([("", "<b>@name</b>"), ("", "@links"), ("", "@noise")], renderers=[discs]),
        hover([("", "<b>@ends</b>"), ("", "@value"), ("", "@interval"), ("", "@q")], renderers=[touched]),
    )
    most = int(np.argmax(network.degrees))
    known = {"network": network, "most": most, "at_first": _AT_FIRST, "most_unlinked": MOST_UNLINKED}
    return new_drawing("graph", plot, **known)


def new_drawing(name: str, plot: Any, **known: Any) -> Figure:
    """Return a figure with what the template says of one of that name, by what is known of it."""
    title, caption, told = fill_lines("figures.txt", None, figure=name, short=figure_text, size=_size, **known)
    return Figure(name, title, caption, told, plot)


def write_names(plot: Any, source: ColumnDataSource, **place: Any) -> None:
    """Write the texts of a source over paper, so that they can be read above lines."""
    for ink, halo in (("paper", 3.0), ("ink", 0.0)):  # Bokeh draws a text's outline over the text
        outline = {"text_outline_color": shade(ink).light if halo else None, "text_outline_width": halo}
        font = {"text_font": {"value": FONT}, "text_font_size": "12px", "text_color": shade(ink).light}
        plot.text("x", "y", text="text", source=source, **place, **font, **outline)


def empty_source(name: str, columns: str) -> ColumnDataSource:
    """Return a source without rows, for a script to fill."""
    return ColumnDataSource({column: [] for column in columns.split()}, name=name)


def network_data(network: Network, noise: dict[str, float] | None) -> dict[str, Any]:
    """Return what the script fills the figure with.

    Parameters
    ----------
    network : Network
        The links.
    noise : dict of str to float, optional
        The share of noise in each published variance, by the column's name.
    """
    places = np.nan_to_num(network.places)
    group = np.full(len(network.columns), -1)
    for place, members in enumerate(network.communities):
        group[members] = place % len(COMMUNITIES)
    edges = {"source": network.sources.tolist(), "target": network.targets.tolist(), "weight": _short(network.weights)}
    return {
        "names": [figure_text(name, 80) for name in network.columns],
        "labels": [figure_text(name, _LONGEST_NAME) for name in network.columns],
        "x": _short(places[:, 0]),
        "y": _short(places[:, 1]),
        "hidden": np.flatnonzero(np.isnan(network.places[:, 0])).tolist(),
        "community": group.tolist(),
        "noise": None if noise is None else _short(np.array([noise[name] for name in network.columns])),
        "degrees": network.degrees.tolist(),
        "unsigned": network.unsigned.tolist(),
        "strong": network.strong.tolist(),
        "edges": edges | {name: _short(values) for name, values in network.tests.items()},
        "measure": network.measure,
        "n_edges": network.n_edges,
        "at_first": _AT_FIRST,
    }


def _short(values: FloatArray) -> list[float | None]:
    """Return numbers with five digits, which is what a reader sees of them."""
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in values.tolist()]


_TICKS = [float(f"{digit}e{power}") for power in range(-9, 7) for digit in (1, 2, 5)]  # of penalties
_ROOM = 1.15  # beyond the path, on either side
_SIZE = 0.1  # the partial correlation that readers ask about
_POINTS = 101
MOST_COLUMNS = 400  # that a map can show, and a page can hold
_BEST_ORDER = 150  # columns, up to which neighbours are arranged as well as can be
_WIDE = 0.9  # over high, with the scale below
_BEYOND = 1.005  # what is larger after rounding cannot be a correlation


def count_links(learned: Learned) -> tuple[int, int]:
    """Return the numbers of links that the chosen penalty leaves, and that the fit on these has."""
    estimates = (learned.fit.solution.precision, learned.fit.precision)
    chosen, left = (int(np.count_nonzero(np.triu(learned.fit.nodes.linked(each), 1))) for each in estimates)
    return chosen, left


def draw_paths(found: GraphResult) -> list[Figure]:
    """Return the figures of the scores and of the numbers of edges, none where alpha was not chosen from a path."""
    learned = found.learned
    selection = None if learned is None else learned.fit.selection
    if learned is None or selection is None or np.isfinite(selection.scores).sum() < 2:
        return []
    what = "link" if learned.fit.nodes.are_numbers or learned.settings.select == Rule.STARS else "parameter"
    best, smallest = int(np.flatnonzero(selection.alphas == selection.alpha)[0]), learned.smallest_alpha
    figures = []
    for name, values, label in (
        ("alpha-scores", selection.scores, "score (larger is better)"),
        ("alpha-edges", selection.n_edges, f"{what}s"),
    ):
        known = values[np.isfinite(values)]
        numbers = {"n": len(values), "n_known": len(known), "chosen": values[best]}
        ends = {"least": known.min(), "most": known.max(), "is_shaded": 0.0 < smallest < math.inf}
        plot = _draw_path(selection, values, smallest, label)
        figures.append(new_drawing(name, plot, what=what, **numbers, **ends))
    return figures


def _draw_path(selection: Selection, values: FloatArray, smallest: float, label: str) -> Any:
    known = np.isfinite(values)
    alphas, shown = selection.alphas[known], values[known]
    columns = {"alpha": alphas, "value": shown, "is_chosen": np.where(alphas == selection.alpha, 10, 6).tolist()}
    words = {"words": [f"{value:.5g}" for value in shown], "penalty": [f"{alpha:.3g}" for alpha in alphas]}
    source = ColumnDataSource(columns | words)
    shaded = 0.0 < smallest < math.inf
    least = min(alphas.min(), smallest) if shaded else alphas.min()
    low, high = float(least / _ROOM**2), float(alphas.max() * _ROOM)
    span = Range1d(start=low, end=high)
    plot = new_figure(height=300, x_axis_type="log", x_range=span, x_axis_label="penalty alpha", y_axis_label=label)
    plot.xaxis.ticker = FixedTicker(ticks=_TICKS)
    plot.xaxis.formatter = PrintfTickFormatter(format="%g")
    if shaded:
        area: dict[str, Any] = {"fill_color": shade("faint").light, "fill_alpha": 0.45, "line_color": None}
        plot.add_layout(BoxAnnotation(right=smallest, **area))
    line: dict[str, Any] = {"line_color": shade("negative").light, "line_width": 2}
    plot.add_layout(Span(location=selection.alpha, dimension="height", **line))
    plot.line("alpha", "value", source=source, line_color=shade("positive").light, line_width=2)
    colours = {"fill_color": shade("positive").light, "line_color": shade("paper").light}
    discs = plot.scatter("alpha", "value", source=source, size="is_chosen", **colours)
    plot.add_tools(hover([("alpha", "@penalty"), (label.split(" ")[0], "@words")], renderers=[discs]))
    return plot


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
        The partial correlation that is found with 80 % power at a 5 % level. The first is that of one pair that was
        named beforehand, the second among all pairs (the level divided by their number).
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


def find_visibility(found: GraphResult) -> Visibility | None:
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
    wanted = seen.n_rows_to_see or 0.0
    digits = max(0, math.floor(math.log10(wanted)) - 1) if wanted >= 1.0 else 0
    rounded = max(1, round(wanted / 10.0**digits) * int(10**digits)) if wanted else 0
    return fill_lines("visible.txt", None, seen=seen, wanted=rounded, size=_size)


def draw_visibility(seen: Visibility) -> Figure:
    """Return the figure of the chance to find a link, by its strength."""
    sizes = np.linspace(0.0, min(1.0, max(0.2, 1.6 * seen.smallest)), _POINTS)
    with_noise = 100.0 * detection_power(sizes, seen.standard_error)
    without = 100.0 * detection_power(sizes, seen.without_noise)
    source = ColumnDataSource({"size": sizes, "noisy": with_noise, "clean": without})
    ranges = {"x_range": Range1d(start=0.0, end=sizes[-1]), "y_range": Range1d(start=0.0, end=103.0)}
    labels = {"x_axis_label": "partial correlation, in size", "y_axis_label": "chance to be found, %"}
    plot = new_figure(height=320, **ranges, **labels)
    dotted: dict[str, Any] = {"line_color": shade("control").light, "line_dash": "dotted"}
    plot.add_layout(Span(location=100.0 * POWER, dimension="width", **dotted))
    dashed = {"line_color": shade("node").light, "line_dash": "dashed", "line_width": 2}
    plot.line("size", "clean", source=source, legend_label="without the noise", **dashed)
    whole = {"line_color": shade("positive").light, "line_width": 3}
    noisy = plot.line("size", "noisy", source=source, legend_label="as published", **whole)
    text = {"label_text_color": shade("ink").light, "label_text_font": FONT, "label_text_font_size": "12px"}
    plot.legend[0].update(location="bottom_right", background_fill_alpha=0.0, border_line_color=None, **text)
    lines = [("partial correlation", "@size{0.00}"), ("found", "@noisy{0} %"), ("without the noise", "@clean{0} %")]
    plot.add_tools(hover(lines, renderers=[noisy], mode="vline"))
    return new_drawing("visible", plot, seen=seen)


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


class HeatMap(NamedTuple):
    """One map: its name, and the correlations, NaN where there is none."""

    name: str
    correlation: FloatArray


@dataclass(frozen=True, eq=False)
class HeatMaps:
    """Maps of the same columns in the same order, and a sentence on columns that are left out."""

    names: tuple[str, ...]
    maps: tuple[HeatMap, ...]
    left_out: str = ""


def find_heat_maps(found: GraphResult) -> HeatMaps | None:
    """Return the maps that a result has, or None where it has no matrix."""
    graph = found.graph
    if graph is None or len(graph.columns) < 2:
        return None

    debiased = _correlation(graph.covariance)
    maps = [HeatMap("heat-debiased", debiased)]
    if (shares := found.summary["noise_share_of_variance"]) is not None:
        kept = np.sqrt([1.0 - shares[name] for name in graph.columns])
        published = debiased * np.outer(kept, kept)
        np.fill_diagonal(published, 1.0)
        maps.insert(0, HeatMap("heat-published", published))
    if (estimated := _implied(graph)) is not None:
        maps.append(HeatMap("heat-estimated", estimated))

    p = len(graph.columns)
    kept = np.arange(p)
    left_out = ""
    if p > MOST_COLUMNS:
        off_diagonal = np.abs(np.nan_to_num(debiased)) - np.eye(p)
        kept = np.sort(np.argsort(-off_diagonal.max(axis=1), kind="stable")[:MOST_COLUMNS])
        left_out = f"Of {p:,} columns, the {MOST_COLUMNS} with the strongest correlations are shown."
    order = kept[_cluster(debiased[np.ix_(kept, kept)])]
    shown = tuple(each._replace(correlation=each.correlation[np.ix_(order, order)]) for each in maps)
    return HeatMaps(tuple(graph.columns[place] for place in order), shown, left_out)


def _correlation(covariance: FloatArray) -> FloatArray:
    """Return the correlations, NaN for columns without a positive variance."""
    variances = np.diagonal(covariance)
    root = np.sqrt(np.where(variances > 0.0, variances, np.nan))
    correlation = np.asarray(covariance / np.outer(root, root))
    np.fill_diagonal(correlation, np.where(np.isnan(root), np.nan, 1.0))
    return correlation


def _implied(graph: GraphEstimate) -> FloatArray | None:
    """Return the correlations of the inverse of the estimated precision matrix, None if that is not definite."""
    root = np.sqrt(np.abs(np.diagonal(graph.precision)))
    try:
        factor = np.linalg.cholesky(graph.precision / np.outer(root, root))
    except np.linalg.LinAlgError:
        return None
    inverse = np.linalg.inv(factor)
    return _correlation(inverse.T @ inverse)


def _cluster(correlation: FloatArray) -> Places:
    """Return an order in which columns that are correlated stand together (average linkage on 1 - |r|)."""
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    if len(correlation) < 3:
        return np.arange(len(correlation))
    distance = 1.0 - np.minimum(np.abs(np.nan_to_num(correlation)), 1.0)
    np.fill_diagonal(distance, 0.0)
    condensed = squareform((distance + distance.T) / 2.0, checks=False)
    tree = hierarchy.linkage(condensed, "average", optimal_ordering=len(correlation) <= _BEST_ORDER)
    return np.asarray(hierarchy.leaves_list(tree), dtype=np.int64)


def draw_heat_maps(maps: HeatMaps) -> list[Figure]:
    """Return one figure for each map; the script heat_maps.js tells what the pointer is on."""
    figures = []
    for each in maps.maps:
        above = np.triu(np.nan_to_num(each.correlation), 1)
        first, second = np.unravel_index(np.argmax(np.abs(above)), above.shape)
        known = {
            "n_beyond": int((np.abs(above) > _BEYOND).sum()),
            "strongest": float(above[first, second]),
            "ends": [maps.names[int(first)], maps.names[int(second)]],
            "half": float(np.nanmedian(np.abs(each.correlation[np.triu_indices(len(above), 1)]))),
        }
        figures.append(new_drawing(each.name, _draw(each), **known))
    return figures


def _draw(heat_map: HeatMap) -> Any:
    p = len(heat_map.correlation)
    hundredths = np.round(100.0 * np.nan_to_num(heat_map.correlation[::-1], nan=-128.0)).clip(-128, 127).astype(np.int8)
    source = ColumnDataSource({"image": [hundredths], "x": [0], "y": [0], "dw": [p], "dh": [p]}, name=heat_map.name)
    shape: dict[str, Any] = {"height": None, "sizing_mode": "scale_width", "aspect_ratio": _WIDE}
    plot = new_figure(x_range=Range1d(start=0, end=p), y_range=Range1d(start=0, end=p), **shape)
    plot.axis.visible = plot.grid.visible = False
    beyond: dict[str, Any] = {"low_color": shade("beyond").light, "high_color": shade("beyond").light}
    mapper = LinearColorMapper(palette=[each.light for each in DIVERGING], low=-100, high=100, **beyond)
    plot.image("image", "x", "y", "dw", "dh", source=source, color_mapper=mapper)
    labels = {-100: "−1", -50: "−0.5", 0: "0", 50: "0.5", 100: "1"}
    look: dict[str, Any] = {"background_fill_color": None, "bar_line_color": None, "major_label_overrides": labels}
    look |= {"major_label_text_color": shade("ink").light, "major_label_text_font": FONT}
    look |= {"major_label_text_font_size": "11px", "orientation": "horizontal", "height": 10}
    plot.add_layout(ColorBar(color_mapper=mapper, ticker=BasicTicker(desired_num_ticks=5), **look), "below")
    return plot


def heat_map_data(maps: HeatMaps, figures: Sequence[Figure]) -> dict[str, Any]:
    """Return what the script needs: the names of the columns in order, and of the maps."""
    titles = [{"name": each.name, "title": each.title} for each in figures]
    return {"names": [figure_text(name, 60) for name in maps.names], "maps": titles}
