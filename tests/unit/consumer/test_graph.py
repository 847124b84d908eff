"""The estimate as edges, files and a picture."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.figure import Figure

from dp_learn.graph import GraphEstimate, partial_correlations, write_estimate
from dp_learn.report import draw_graph
from dp_learn.report.labels import drawable_labels

PRECISION = np.array([[2.0, -0.6, 0.0], [-0.6, 1.0, 0.3], [0.0, 0.3, 1.5]])


@pytest.fixture
def estimate() -> GraphEstimate:
    """Return a graph of three columns and two edges."""
    return GraphEstimate(("a", "b, c", "d"), PRECISION, np.linalg.inv(PRECISION))


def test_partial_correlations_are_those_of_the_residuals() -> None:
    """They equal the correlation of two columns' residuals given the others, computed by regression."""
    covariance = np.linalg.inv(PRECISION)
    rest = [2]
    slope = covariance[np.ix_([0, 1], rest)] / covariance[2, 2]
    residual = covariance[:2, :2] - slope @ covariance[np.ix_(rest, [0, 1])]
    expected = residual[0, 1] / np.sqrt(residual[0, 0] * residual[1, 1])

    assert partial_correlations(PRECISION)[0, 1] == pytest.approx(expected, rel=1e-12)


def test_edges_are_the_nonzero_entries_strongest_first(estimate: GraphEstimate) -> None:
    """Every non-zero entry above the diagonal is one edge, and the strongest comes first."""
    edges = estimate.edges()

    assert list(zip(edges["source"], edges["target"], strict=True)) == [("a", "b, c"), ("b, c", "d")]
    np.testing.assert_allclose(edges["partial_correlation"], [0.6 / np.sqrt(2), -0.3 / np.sqrt(1.5)])


def test_files_read_back_as_they_were(estimate: GraphEstimate, tmp_path: Path) -> None:
    """Labelled matrices, edges, GraphML and summary survive a round trip through other tools."""
    write_estimate(estimate, tmp_path)
    precision = pd.read_csv(tmp_path / "precision.csv", index_col=0)
    covariance = pd.read_csv(tmp_path / "covariance.csv", index_col=0)
    graph = nx.read_graphml(tmp_path / "graph.graphml")

    np.testing.assert_allclose(precision, PRECISION, rtol=1e-15)
    np.testing.assert_allclose(covariance, estimate.covariance, rtol=1e-15)
    assert list(precision.index) == ["a", "b, c", "d"]
    assert graph["b, c"]["d"]["partial_correlation"] == pytest.approx(-0.3 / np.sqrt(1.5))
    assert len(pd.read_csv(tmp_path / "edges.csv")) == 2


@pytest.mark.parametrize("n_columns", [2, 70])
def test_picture_is_drawn_for_few_and_many(n_columns: int, tmp_path: Path) -> None:
    """A picture is made of an empty graph, and of one with more edges than are drawn."""
    precision = np.eye(n_columns) if n_columns == 2 else np.eye(n_columns) + 0.001
    names = tuple(f"column $x_{index}" for index in range(n_columns))
    draw_graph(GraphEstimate(names, precision, precision), tmp_path / "graph.png", "A $title with a dollar")

    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")


def _drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: tuple[str, ...], **options: object) -> Figure:
    """Return the figure that is drawn of a chain over the names but the last, which has no edge."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: figures.append(self))
    precision = np.eye(len(names))
    for index in range(len(names) - 2):
        precision[index, index + 1] = precision[index + 1, index] = -0.3
    draw_graph(GraphEstimate(names, precision, precision), tmp_path / "graph.png", "A title", **options)  # type: ignore[arg-type]
    return figures[0]


def _said(figure: Figure) -> dict[str, str]:
    """Return the colour of every label, and the entries of the legend."""
    (axes,) = figure.axes
    (legend,) = figure.legends
    texts = {text.get_text(): str(text.get_color()) for text in axes.texts}
    return texts | {text.get_text(): "legend" for text in legend.get_texts()}


def test_picture_tells_drowned_columns_from_those_without_an_edge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drowned column is drawn in a way of its own, and the legend counts it apart from one without an edge."""
    said = _said(_drawn(monkeypatch, tmp_path, ("a", "b", "lonely"), drowned=["gone", "lost"]))
    assert len({said["a"], said["lonely"], said["gone"]}) == 3
    assert said["gone"] == said["lost"]
    assert "1 column without an edge" in said
    assert "2 columns drowned by the noise" in said
    assert not any("drowned" in text for text in _said(_drawn(monkeypatch, tmp_path, ("a", "b", "lonely"))))


def test_picture_draws_other_scripts_and_numbers_what_no_font_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cyrillic and Arabic are drawn as they are; a letter of no font here becomes its column's number, and is told."""
    figure = _drawn(monkeypatch, tmp_path, ("вес", "طول", "\U00013000x", "height"))
    assert {"вес", "طول", "column 3", "height"} <= set(_said(figure))
    assert "numbered as in the files" in figure.axes[0].get_xlabel()


def test_picture_finds_a_font_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A letter that only another font on this machine has is drawn with that font."""
    letter = "\U00013000"  # an Egyptian hieroglyph
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder([".notdef", "sign"])
    builder.setupCharacterMap({ord(letter): "sign"})
    builder.setupGlyf({".notdef": TTGlyphPen(None).glyph(), "sign": TTGlyphPen(None).glyph()})
    builder.setupHorizontalMetrics({".notdef": (500, 0), "sign": (500, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Test Hieroglyphs", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "test.ttf")
    entry = font_manager.FontEntry(fname=str(tmp_path / "test.ttf"), name="Test Hieroglyphs")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*font_manager.fontManager.ttflist, entry])

    labels, families, numbered = drawable_labels([letter, "a"], 36)
    assert labels == [letter, "a"]
    assert families[1:] == ["Test Hieroglyphs"]
    assert not numbered


@pytest.mark.parametrize("n_columns", [9, 12])
def test_legend_hides_no_name(n_columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The legend has a place of its own, and covers no column however many there are around the circle."""
    names = tuple(f"column_{index}" for index in range(n_columns))
    figure = _drawn(monkeypatch, tmp_path, names, drowned=["gone_1", "gone_2"])
    figure.draw_without_rendering()
    (legend,), (axes,) = figure.legends, figure.axes
    box = legend.get_window_extent()

    assert not any(box.overlaps(text.get_window_extent()) for text in axes.texts)
    assert not box.overlaps(axes.xaxis.label.get_window_extent())
