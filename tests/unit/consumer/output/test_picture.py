"""The picture of a graph: what is on it, and that nothing is over anything else."""

from pathlib import Path

import numpy as np
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from PIL import Image

from dp_learn.output.picture import draw_graph, lay_out
from dp_learn.output.sheet import Sheet, find_fonts, text_width
from dp_learn.pipeline.graph import GraphEstimate


def _chain(*names: str) -> GraphEstimate:
    """Return a chain over the names but the last, which has no edge: every other link is negative."""
    precision = np.eye(len(names))
    for index in range(len(names) - 2):
        precision[index, index + 1] = precision[index + 1, index] = 0.3 * (-1) ** index
    return GraphEstimate(names, precision, precision)


def _said(sheet: Sheet) -> dict[str, tuple[int, ...]]:
    """Return the colour of every text."""
    return {text.text: text.colour for text in sheet.texts}


def _boxes(sheet: Sheet) -> np.ndarray:
    """Return the left, upper, right and lower ends of all texts."""
    width = np.array([text_width(text.text, text.size, sheet.fonts) for text in sheet.texts])
    left = [text.place[0] for text in sheet.texts] - width * ["lmr".index(text.anchor) / 2 for text in sheet.texts]
    top = np.array([text.place[1] - text.size / 2 for text in sheet.texts])
    return np.column_stack((left, top, left + width, top + [text.size for text in sheet.texts]))


@pytest.mark.parametrize("n_columns", [9, 12, 20, 21, 64, 300])
def test_every_column_is_shown_and_no_text_is_over_another(n_columns: int) -> None:
    """Linked, unlinked and drowned columns have a mark, around a circle or not, and every text a place of its own."""
    rng = np.random.default_rng(0)
    precision = np.eye(n_columns - 1)
    for _ in range(n_columns):
        one, other = rng.choice(n_columns - 5, 2, replace=False)
        precision[one, other] = precision[other, one] = rng.uniform(-0.5, 0.5)
    names = (*(f"column {number}" for number in range(n_columns - 2)), "a name so long that it has to be cut off")
    sheet = lay_out(GraphEstimate(names, precision, precision), "A title", ["gone"])
    boxes = _boxes(sheet)
    over = (boxes[:, None, :2] < boxes[None, :, 2:]).all(axis=2)

    n_unlinked = int((np.count_nonzero(precision, axis=0) == 1).sum())
    left_out = max(0, n_unlinked + 1 - 60) if n_columns > 20 else 0
    assert len(sheet.marks) == n_columns - left_out + 2  # in the legend
    assert any(f"{left_out} more column" in text.text for text in sheet.texts) == bool(left_out)
    assert np.count_nonzero(over & over.T) == len(boxes)  # each with itself
    assert boxes.min() >= 0.0
    assert boxes.max() <= sheet.side


def test_no_edge_at_all_is_drawn_as_rows() -> None:
    """Many columns without a single edge stand in rows with their names, and nothing is wrong."""
    names = tuple(f"column {number}" for number in range(30))
    sheet = lay_out(GraphEstimate(names, np.eye(30), np.eye(30)), "A title")

    assert {text.text for text in sheet.texts} >= set(names)
    assert len(sheet.lines) == 2  # the legend's


def test_negative_edges_are_dashed() -> None:
    """A picture without colours still tells the signs apart, in its lines and in its legend."""
    assert sorted(line.dashed for line in lay_out(_chain("a", "b", "c", "d"), "").lines) == [False, False, True, True]


def test_drowned_columns_are_told_from_those_without_an_edge() -> None:
    """A drowned column is drawn in a way of its own, and the legend counts it apart from one without an edge."""
    said = _said(lay_out(_chain("a", "b", "lonely"), "", drowned=["gone", "lost"]))
    assert len({said["a"], said["lonely"], said["gone"]}) == 3
    assert said["gone"] == said["lost"]
    assert {"1 column without an edge", "2 columns drowned by the noise"} <= set(said)
    assert not any("drowned" in text for text in _said(lay_out(_chain("a", "b", "lonely"), "")))


@pytest.mark.slow
def test_columns_with_weaker_edges_only_are_told_from_those_without_any() -> None:
    """Of 450 pairs of columns only 400 are drawn as linked: the legend counts the others' columns."""
    precision = np.eye(902)
    first = np.arange(0, 900, 2)
    precision[first, first + 1] = precision[first + 1, first] = np.linspace(-0.5, -0.1, 450)
    sheet = lay_out(GraphEstimate(tuple(f"c{place}" for place in range(902)), precision, precision), "A title")
    assert {"100 columns with weaker edges only", "2 columns without an edge"} <= set(_said(sheet))


def test_other_scripts_are_drawn_and_what_no_font_has_is_numbered() -> None:
    """Cyrillic and Arabic are drawn as they are; a letter of no font here becomes its column's number, and is told."""
    said = _said(lay_out(_chain("вес", "طول", "\U00013000x", "height"), "A title \U00013000"))
    assert {"вес", "طول", "column 3", "height", "A title \ufffd"} <= set(said)
    assert any("numbered as in the files" in text for text in said)


def test_fonts_of_the_system_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

    assert find_fonts([letter, "a"]) == ({letter: tmp_path / "test.ttf"}, set())


def test_pictures_of_several_graphs_have_their_nodes_in_the_same_places() -> None:
    """Where the same pairs place the nodes of all; by their own edges they are elsewhere."""
    n = 25
    edges = np.column_stack([np.arange(n - 1), np.arange(1, n)])

    def sheet(own: np.ndarray, *, together: bool) -> Sheet:
        precision = np.eye(n)
        precision[own[:, 0], own[:, 1]] = precision[own[:, 1], own[:, 0]] = 0.2
        graph = GraphEstimate(tuple(f"x{place}" for place in range(n)), precision, precision)
        return lay_out(graph, "", placed_by=(edges[:, 0], edges[:, 1]) if together else None)

    def places(own: np.ndarray, *, together: bool) -> set[tuple[float, float]]:
        return {mark.place for mark in sheet(own, together=together).marks[:n]}

    assert places(edges[:10], together=True) == places(edges[8:], together=True) == places(edges, together=True)
    assert places(edges[:10], together=False) != places(edges[8:], together=False)
    assert len(sheet(edges[:10], together=True).lines) == 10 + 2  # of the legend


def test_picture_is_smooth_and_of_the_stated_colours(tmp_path: Path) -> None:
    """Edges have the colour of their sign, wider ones for stronger links, with edges that are mixed with the paper."""
    many = GraphEstimate(tuple(f"$x_{index}" for index in range(70)), np.eye(70) + 0.001, np.eye(70))
    draw_graph(many, tmp_path / "graph.png", "A $title with a dollar", ["gone"])
    precision = np.array([[1.0, -0.4, 0.1], [-0.4, 1.0, 0.0], [0.1, 0.0, 1.0]])
    draw_graph(GraphEstimate(("a", "b", "c"), precision, precision), tmp_path / "graph.png", "A title")
    with Image.open(tmp_path / "graph.png") as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3).astype(int)
    blue = pixels[(pixels[:, 2] > pixels[:, 0] + 20)]
    red = pixels[(pixels[:, 0] > pixels[:, 2] + 20)]

    assert len(blue) > 2 * len(red) > 0
    assert np.abs(blue - [43, 109, 175]).sum(axis=1).min() <= 3  # of the strongest, 95 % opaque
    assert len(np.unique(blue, axis=0)) > 5
