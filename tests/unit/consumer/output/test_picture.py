"""The picture of a graph: what is on it, and that nothing is over anything else."""

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.text import Annotation

from dp_learn.output.network import draw_network, network_of, new_sheet, save_picture
from dp_learn.pipeline.graph import GraphEstimate


def _drawn(graph: GraphEstimate, *drowned: str, **known: Any) -> Axes:
    """Return the picture of a graph."""
    network = network_of(graph, None, **known)
    axes = new_sheet(network, "A title")[1]
    draw_network(network, axes, "A title", drowned)
    return axes


def _chain(*names: str) -> GraphEstimate:
    """Return a chain over the names but the last, which has no edge: every other link is negative."""
    precision = np.eye(len(names))
    for index in range(len(names) - 2):
        precision[index, index + 1] = precision[index + 1, index] = 0.3 * (-1) ** index
    return GraphEstimate(names, precision, precision)


def _lines(axes: Axes) -> list[LineCollection]:
    """Return the positive links, and the negative ones."""
    return [each for each in axes.collections if isinstance(each, LineCollection)]


def _names(axes: Axes) -> list[Annotation]:
    return [each for each in axes.texts if isinstance(each, Annotation)]


@pytest.mark.parametrize("n_columns", [9, 21, 300])
def test_every_column_is_shown_and_no_name_is_over_another(n_columns: int) -> None:
    """Linked and unlinked columns have a disc, but for more of these than there is room for, which is told."""
    rng = np.random.default_rng(0)
    precision = np.eye(n_columns)
    for _ in range(n_columns):
        one, other = rng.choice(n_columns - 5, 2, replace=False)
        precision[one, other] = precision[other, one] = rng.uniform(-0.5, 0.5)
    names = (*(f"column {number}" for number in range(n_columns - 1)), "a name so long that it has to be cut off")
    axes = _drawn(GraphEstimate(names, precision, precision))
    boxes = [name.get_window_extent() for name in _names(axes)]

    discs = np.vstack([each.get_offsets() for each in axes.collections if not isinstance(each, LineCollection)])
    left_out = max(0, int((np.count_nonzero(precision, axis=0) == 1).sum()) - 60)
    assert np.isfinite(np.asarray(discs)).all(axis=1).sum() == n_columns - left_out
    assert (f"{left_out} more column" in axes.get_xlabel()) == bool(left_out)
    assert len(boxes) > n_columns / 4
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert ("without room" in axes.get_xlabel()) == (len(boxes) < n_columns)


def test_signs_and_sizes_are_told_apart_without_colours() -> None:
    """Negative links are dashed; weak ones, and those of determined columns, are thinner and paler than strong ones."""
    positive, negative = _lines(_drawn(_chain("a", "b", "c", "d", "e")))
    assert [len(each.get_segments()) for each in (positive, negative)] == [1, 2]
    assert positive.get_linestyle() != negative.get_linestyle()
    known = {"at_least": 0.31}, {}, {"determined": [*"ab"]}
    weak, strong, unsure = (_lines(_drawn(_chain("a", "b", "c"), **{"at_least": 0.3} | each))[1] for each in known)
    assert weak.get_linewidth()[0] == unsure.get_linewidth()[0] < strong.get_linewidth()[0]
    assert weak.get_color()[0][3] < strong.get_color()[0][3]


def test_drowned_columns_are_told_from_those_without_an_edge() -> None:
    """What no estimate is about is named in the caption, and a column without an edge has an entry in the legend."""
    axes = _drawn(_chain("a", "b", "lonely"), "gone", "lost")
    assert "1 without a link" in {text.get_text() for text in axes.get_legend().get_texts()}
    assert "left out: gone, lost" in axes.get_xlabel()


def test_other_scripts_are_drawn_and_what_no_font_has_is_numbered(tmp_path: Path) -> None:
    """Cyrillic, Arabic and dollars are drawn as they are; a letter of no font becomes its column's number."""
    graph = _chain("вес", "طول", "\U00013000x", "$\\frac$")
    axes = _drawn(graph)
    assert {"вес", "طول", "column 3", "$\\frac$"} <= {text.get_text() for text in _names(axes)}
    assert "numbered as in the files" in axes.get_xlabel()
    for kind in ("png", "svg", "pdf"):
        save_picture(network_of(graph, None), tmp_path / f"graph.{kind}", "\U00013000")
        assert (tmp_path / f"graph.{kind}").stat().st_size > 1000
