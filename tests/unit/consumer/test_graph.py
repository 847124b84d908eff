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
from PIL import Image

from dp_learn.output import picture
from dp_learn.output.graph_files import write_estimate
from dp_learn.output.labels import drawable_labels
from dp_learn.output.picture import draw_graph
from dp_learn.output.sheet import Sheet, Text, text_width
from dp_learn.pipeline.graph import GraphEstimate, partial_correlations

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


def _drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], **options: object) -> Sheet:
    """Return the sheet that is drawn of a chain over the names but the last, which has no edge."""
    sheets: list[Sheet] = []
    monkeypatch.setattr(picture, "draw_sheet", lambda sheet, _: sheets.append(sheet))
    precision = np.eye(len(names))
    for index in range(len(names) - 2):
        precision[index, index + 1] = precision[index + 1, index] = -0.3
    draw_graph(GraphEstimate(names, precision, precision), tmp_path / "graph.png", "A title", **options)  # type: ignore[arg-type]
    return sheets[0]


def _said(sheet: Sheet) -> dict[str, tuple[int, ...]]:
    """Return the colour of every text."""
    return {text.text: text.colour for text in sheet.texts}


def _corners(text: Text) -> np.ndarray:
    """Return the corners of the rectangle that a text fills, as complex numbers."""
    width = text_width(text.text, text.size, text.faces)
    left = {"l": 0.0, "m": -0.5, "r": -1.0}[text.anchor] * width
    ends = np.array([complex(x, y) for x in (left, left + width) for y in (-text.size / 2, text.size / 2)])
    return complex(*text.place) + ends * np.exp(-1j * np.radians(text.degrees))


def test_picture_tells_drowned_columns_from_those_without_an_edge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drowned column is drawn in a way of its own, and the legend counts it apart from one without an edge."""
    said = _said(_drawn(tmp_path, monkeypatch, ("a", "b", "lonely"), drowned=["gone", "lost"]))
    assert len({said["a"], said["lonely"], said["gone"]}) == 3
    assert said["gone"] == said["lost"]
    assert "1 column without an edge" in said
    assert "2 columns drowned by the noise" in said
    assert not any("drowned" in text for text in _said(_drawn(tmp_path, monkeypatch, ("a", "b", "lonely"))))


def test_picture_draws_other_scripts_and_numbers_what_no_font_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cyrillic and Arabic are drawn as they are; a letter of no font here becomes its column's number, and is told."""
    said = _said(_drawn(tmp_path, monkeypatch, ("вес", "طول", "\U00013000x", "height")))
    assert {"вес", "طول", "column 3", "height"} <= set(said)
    assert any("numbered as in the files" in text for text in said)


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

    labels, faces, numbered = drawable_labels([letter, "a"], 36)
    assert labels == [letter, "a"]
    assert [face.file for face in faces[1:]] == [tmp_path / "test.ttf"]
    assert faces[1].has(letter)
    assert not numbered


@pytest.mark.parametrize("n_columns", [9, 12])
def test_legend_hides_no_name(n_columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, caption and legend have places of their own on the sheet, however many columns are around the circle."""
    names = (*(f"column_{index}" for index in range(n_columns)), "a name so long that it has to be cut off somewhere")
    sheet = _drawn(tmp_path, monkeypatch, names, drowned=["gone_1", "gone_2"])
    corners = {text.text: _corners(text) for text in sheet.texts}
    shown = [each for text, each in corners.items() if text.startswith(("column_", "gone_", "a name"))]
    others = [each for text, each in corners.items() if text.endswith(("tive", "edge", "noise", "in size"))]
    everything = np.concatenate(list(corners.values()))

    assert len(shown) == n_columns + 3
    assert len(others) == 5
    assert max(each.imag.max() for each in shown) <= min(each.imag.min() for each in others)
    assert min(everything.real.min(), everything.imag.min()) >= 0.0
    assert max(everything.real.max(), everything.imag.max()) <= sheet.side


def test_picture_is_smooth_and_of_the_stated_colours(tmp_path: Path) -> None:
    """Edges have the colour of their sign, wider ones for stronger links, with edges that are mixed with the paper."""
    precision = np.array([[1.0, -0.4, 0.1], [-0.4, 1.0, 0.0], [0.1, 0.0, 1.0]])
    draw_graph(GraphEstimate(("a", "b", "c"), precision, precision), tmp_path / "graph.png", "A title")
    with Image.open(tmp_path / "graph.png") as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int)
    blue = pixels[(pixels[:, 2] > pixels[:, 0] + 20)]
    red = pixels[(pixels[:, 0] > pixels[:, 2] + 20)]

    assert len(blue) > 2 * len(red) > 0
    assert np.abs(blue - [43, 109, 175]).sum(axis=1).min() <= 3  # of the strongest, 95 % opaque
    assert len(np.unique(blue, axis=0)) > 5
