"""Correlations as maps of colours: as published, without the noise, and as estimated, all in one order."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from bokeh.models import BasicTicker, ColumnDataSource, LinearColorMapper, Range1d
from bokeh.models.annotations import ColorBar

from dp_bundle.page.colours import DIVERGING, shade
from dp_bundle.page.figures import FONT, Figure, figure_text, new_figure
from dp_bundle.page.tables import number
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.summary import Result
from dp_learn.pipeline.graph import GraphEstimate

MOST_COLUMNS = 400  # that a map can show, and a page can hold
_BEST_ORDER = 150  # columns, up to which neighbours are arranged as well as can be
_WIDE = 0.9  # over high, with the scale below
_ROUNDED = 0.005  # what two decimals show as nothing
_BEYOND = 1.005  # what is larger after rounding cannot be a correlation


class HeatMap(NamedTuple):
    """One map: its title, a sentence on what it shows, and the correlations, NaN where there is none."""

    name: str
    title: str
    caption: str
    correlation: FloatArray


@dataclass(frozen=True, eq=False)
class HeatMaps:
    """Maps of the same columns in the same order, and a sentence on columns that are left out."""

    names: tuple[str, ...]
    maps: tuple[HeatMap, ...]
    left_out: str = ""


def find_heat_maps(found: Result) -> HeatMaps | None:
    """Return the maps that a result has, or None where it has no matrix."""
    graph = found.graph
    if graph is None or len(graph.columns) < 2:
        return None

    debiased = _correlation(graph.covariance)
    caption = "The correlations after the noise's known part was subtracted."
    maps = [HeatMap("heat-debiased", "Without the noise", caption, debiased)]
    shares = found.summary["noise_share_of_variance"]
    if shares is not None:
        kept = np.sqrt([1.0 - shares[name] for name in graph.columns])
        published = debiased * np.outer(kept, kept)
        np.fill_diagonal(published, 1.0)
        caption = "The correlations of the values that were published; noise makes all of them smaller."
        maps.insert(0, HeatMap("heat-published", "As published", caption, published))
    if (estimated := _implied(graph)) is not None:
        caption = "The correlations that the graph implies: what its links explain, and nothing else."
        maps.append(HeatMap("heat-estimated", "As estimated", caption, estimated))

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


def _cluster(correlation: FloatArray) -> npt.NDArray[np.int64]:
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
    return [Figure(*each[:2], _caption(each), _alternative(each, maps.names), _draw(each)) for each in maps.maps]


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


def _caption(heat_map: HeatMap) -> str:
    beyond = int((np.abs(np.triu(np.nan_to_num(heat_map.correlation), 1)) > _BEYOND).sum())
    if not beyond:
        return heat_map.caption
    pairs = "1 pair is" if beyond == 1 else f"{beyond:,} pairs are"
    return (
        f"{heat_map.caption} {pairs} beyond 1 in size, which no correlation is: there the noise was larger than what "
        "is left. They are green."
    )


def _alternative(heat_map: HeatMap, names: tuple[str, ...]) -> str:
    off_diagonal = np.triu(np.nan_to_num(heat_map.correlation), 1)
    first, second = np.unravel_index(np.argmax(np.abs(off_diagonal)), off_diagonal.shape)
    if not np.any(off_diagonal):
        return "All of them are zero."
    value = number(float(off_diagonal[first, second]), "+.3f")
    size = float(np.nanmedian(np.abs(heat_map.correlation[np.triu_indices(len(names), 1)])))
    half = f"are below {size:.2f} in size" if size >= _ROUNDED else "are next to zero"
    return (
        f"The strongest is {value}, between “{names[int(first)]}” and “{names[int(second)]}”; half of all pairs {half}."
    )


def heat_map_data(maps: HeatMaps) -> dict[str, Any]:
    """Return what the script needs: the names of the columns in order, and of the maps."""
    titles = [{"name": each.name, "title": each.title} for each in maps.maps]
    return {"names": [figure_text(name, 60) for name in maps.names], "maps": titles}
