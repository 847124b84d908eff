"""The picture of a graph: what is on it, and that nothing is over anything else."""

import numpy as np
import pytest

from dp_learn.output.picture import Sheet, lay_out, text_width
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


@pytest.mark.parametrize("n_columns", [9, 20, 21, 300])
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


def test_negative_edges_are_dashed() -> None:
    """A picture without colours still tells the signs apart, in its lines and in its legend."""
    assert sorted(line.dashed for line in lay_out(_chain("a", "b", "c", "d"), "").lines) == [False, False, True, True]


def test_weaker_edges_are_thin() -> None:
    """They are thinner and paler than strong ones of the same size."""
    weak, strong = (lay_out(_chain("a", "b", "c"), "", at_least=limit).lines[0] for limit in (0.31, 0.3))
    assert weak.width < strong.width
    assert weak.colour[3] < strong.colour[3]


def test_drowned_columns_are_told_from_those_without_an_edge() -> None:
    """A drowned column is drawn in a way of its own, and the legend counts it apart from one without an edge."""
    said = _said(lay_out(_chain("a", "b", "lonely"), "", drowned=["gone", "lost"]))
    assert len({said["a"], said["lonely"], said["gone"]}) == 3
    assert said["gone"] == said["lost"]
    assert {"1 column without an edge", "2 columns drowned by the noise"} <= set(said)


def test_other_scripts_are_drawn_and_what_no_font_has_is_numbered() -> None:
    """Cyrillic and Arabic are drawn as they are; a letter of no font here becomes its column's number, and is told."""
    said = _said(lay_out(_chain("вес", "طول", "\U00013000x", "height"), "A title \U00013000"))
    assert {"вес", "طول", "column 3", "height", "A title \ufffd"} <= set(said)
    assert any("numbered as in the files" in text for text in said)


def test_pictures_of_several_graphs_have_their_nodes_in_the_same_places() -> None:
    """Where the same pairs place the nodes of all; by their own edges they are elsewhere."""
    first, second = np.arange(24), np.arange(1, 25)
    drawn = []
    for own in (slice(10), slice(8, None)):
        precision = np.eye(25)
        precision[first[own], second[own]] = precision[second[own], first[own]] = 0.2
        graph = GraphEstimate(tuple(f"x{place}" for place in range(25)), precision, precision)
        drawn.append([lay_out(graph, "", placed_by=pairs) for pairs in ((first, second), None)])
    together, apart = (
        [{mark.place for mark in sheet.marks[:25]} for sheet in each] for each in zip(*drawn, strict=True)
    )

    assert together[0] == together[1]
    assert apart[0] != apart[1]
    assert len(drawn[0][0].lines) == 10 + 2  # of the legend
