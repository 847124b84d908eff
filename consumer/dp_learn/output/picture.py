"""The graph as a picture: who is linked to whom, how strongly, and with which sign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dp_bundle.page.colours import SHADES
from dp_learn.output.arrangement import MOST_IN_CIRCLE, Box, Label, arrange_by_forces, arrange_in_circle
from dp_learn.output.labels import Face, drawable_labels, drawable_title
from dp_learn.output.sheet import Colour, Line, Mark, Point, Sheet, Text, draw_sheet, text_width
from dp_learn.pipeline.graph import GraphEstimate

_POSITIVE, _NEGATIVE = (tuple(bytes.fromhex(SHADES[name].light[1:])) for name in ("positive", "negative"))
_MAX_DRAWN_EDGES = 400
_INCH = 72.0  # points, as all lengths
_CAPTION, _TITLE = 10.0, 12.0  # heights of letters
_LINE = 1.5  # of these heights
_MARGIN = 0.12 * _INCH
_SAMPLE, _APART = 20.0, 8.0  # of the legend: how long the lines are, and how far from their texts
_IN_A_ROW = 2  # entries of the legend
_LONGEST_NAME = 36
_FULL_WIDTH = 0.2  # a partial correlation of this size is drawn at full width, if there is no stronger one


@dataclass(frozen=True)
class _Kind:
    """The shape, size and colours of one kind of nodes and of their names."""

    shape: str
    size: float
    fill: Colour
    outline: Colour
    name: Colour

    def mark(self, place: Point) -> Mark:
        return Mark(place, self.shape, self.size, self.fill, self.outline)


_LINKED = _Kind("disc", 7.0, (242, 242, 238), (51, 51, 51), (34, 34, 34))
_WEAKER = _Kind("disc", 7.0, (210, 210, 205), (51, 51, 51), (34, 34, 34))  # linked by edges that are not drawn
_UNLINKED = _Kind("disc", 7.0, (242, 242, 238), (170, 170, 170), (170, 170, 170))
_DROWNED = _Kind("cross", 8.0, (255, 255, 255), (138, 109, 26), (138, 109, 26))
_BLACK = (0, 0, 0)


def draw_graph(estimate: GraphEstimate, path: Path, title: str, drowned: Sequence[str] = ()) -> None:
    """Draw the estimate to a PNG file: width of a line for the size of an edge, colour and dashes for its sign.

    Columns without an edge are drawn in grey, and those that the noise drowned, which no estimate is about, as crosses
    after them; the legend says so. Of more than 400 edges only the strongest 400 are drawn, and the caption says so;
    columns that only weaker ones reach are darker discs.
    Up to 20 columns are drawn in a circle, more of them where forces between linked ones place them.
    """
    draw_sheet(lay_out(estimate, title, drowned), path)


def lay_out(estimate: GraphEstimate, title: str, drowned: Sequence[str] = ()) -> Sheet:
    """Return the sheet with everything in its place."""
    edges = _ranked_edges(estimate)
    names = [*estimate.columns, *drowned]
    in_circle = len(names) <= MOST_IN_CIRCLE
    labels, faces, numbered = drawable_labels(names, _LONGEST_NAME)
    kinds = _kinds(estimate, edges, drowned)
    entries = _entries(kinds, has_categories=bool(estimate.categories))
    sheet = Sheet(_side(len(names), max(map(len, labels)), in_circle=in_circle))

    said, title_faces = drawable_title(title)
    numbers = ["names that no font here can write are numbered as in the files"] if numbered else []
    above = _MARGIN + 1.2 * _LINE * _CAPTION * (said.count("\n") + 1)
    lines = 1 + len(numbers) + (not in_circle) + math.ceil(len(entries) / _IN_A_ROW)
    area = Box(_MARGIN, above, sheet.side - _MARGIN, sheet.side - 2 * _MARGIN - _LINE * _CAPTION * lines)

    labelled = [Label(label, kind.name) for label, kind in zip(labels, kinds, strict=True)]
    numbers_of = {name: number for number, name in enumerate(estimate.columns)}
    ends = [(numbers_of[source], numbers_of[target]) for source, target, _ in edges[:_MAX_DRAWN_EDGES]]
    circle = in_circle and arrange_in_circle(labelled, area, faces)
    arranged = circle or arrange_by_forces(labelled, ends, area, faces)

    places = arranged.places
    _draw_edges(sheet, [(places[one], places[other]) for one, other in ends], [weight for _, _, weight in edges])
    for drawn in (_LINKED, _WEAKER, _UNLINKED, _DROWNED):
        sheet.marks.extend(kinds[number].mark(place) for number, place in places.items() if kinds[number] is drawn)
    sheet.texts.extend(arranged.names)

    for index, line in enumerate(said.split("\n")[::-1]):
        place = _MARGIN, above - _LINE * _TITLE * (index + 0.6)
        sheet.texts.append(Text(place, line, _TITLE, _BLACK, title_faces))
    caption = [_caption(edges), *([arranged.left_out] if arranged.left_out else []), *numbers]
    for index, line in enumerate(caption):
        place = sheet.side / 2, area.bottom + _LINE * _CAPTION * (index + 0.6)
        sheet.texts.append(Text(place, line, _CAPTION, _BLACK, faces[:1], "m"))
    _draw_legend(sheet, entries, faces[:1])
    return sheet


def _side(n_nodes: int, longest: int, *, in_circle: bool) -> float:
    """Return the side of a sheet on which so many nodes and letters of names have room."""
    inches = 4 + 0.12 * n_nodes + 0.1 * longest if in_circle else 4 + 0.8 * math.sqrt(n_nodes) + 0.05 * longest
    return _INCH * float(np.clip(inches, 7, 24))


def _ranked_edges(estimate: GraphEstimate) -> list[tuple[str, str, float]]:
    """Return the ends and the partial correlation of every edge, strongest first."""
    edges = estimate.edge_columns
    rows = zip(edges["source"], edges["target"], edges["partial_correlation"].tolist(), strict=True)
    return sorted(rows, key=lambda edge: -abs(edge[2]))


def _caption(edges: Sequence[tuple[str, str, float]]) -> str:
    shown = "" if len(edges) <= _MAX_DRAWN_EDGES else f" (the strongest {_MAX_DRAWN_EDGES} drawn)"
    widest = f"; the widest line is a partial correlation of {abs(edges[0][2]):.2f} in size" if edges else ""
    return f"{len(edges)} edge{'' if len(edges) == 1 else 's'}{shown}{widest}"


def _draw_edges(sheet: Sheet, ends: Sequence[tuple[Point, Point]], weights: Sequence[float]) -> None:
    """Draw edges that are given strongest first, the weakest of them first."""
    strongest = max((abs(weight) for weight in weights), default=1.0)
    for (start, end), weight in list(zip(ends, weights, strict=False))[::-1]:
        relative = abs(weight) / max(strongest, _FULL_WIDTH)
        colour = (*(_POSITIVE if weight > 0 else _NEGATIVE), round(255 * (0.25 + 0.7 * relative)))
        sheet.lines.append(Line(start, end, 0.4 + 4 * relative, colour, dashed=weight < 0))


def _kinds(estimate: GraphEstimate, edges: Sequence[tuple[str, str, float]], drowned: Sequence[str]) -> list[_Kind]:
    kinds = dict.fromkeys(estimate.columns, _UNLINKED)
    for place, (source, target, _) in list(enumerate(edges))[::-1]:
        kinds[source] = kinds[target] = _LINKED if place < _MAX_DRAWN_EDGES else _WEAKER
    return [*kinds.values(), *(_DROWNED for _ in drowned)]


def _entries(kinds: Sequence[_Kind], *, has_categories: bool) -> list[tuple[Colour | _Kind, str]]:
    """Return the legend: both signs, and every kind of node that needs a word."""
    positive = "positive, or without a sign" if has_categories else "positive"
    entries: list[tuple[Colour | _Kind, str]] = [(_POSITIVE, positive), (_NEGATIVE, "negative")]
    labelled = (
        (_WEAKER, "with weaker edges only"),
        (_UNLINKED, "without an edge"),
        (_DROWNED, "drowned by the noise"),
    )
    for kind, label in labelled:
        count = sum(each is kind for each in kinds)
        if count:
            entries.append((kind, f"{count} column{'' if count == 1 else 's'} {label}"))
    return entries


def _draw_legend(sheet: Sheet, entries: Sequence[tuple[Colour | _Kind, str]], faces: Sequence[Face]) -> None:
    """Draw the legend in the lower right corner, some entries in a row."""
    columns = [entries[first::_IN_A_ROW] for first in range(_IN_A_ROW)]
    n_rows = max(map(len, columns))
    right = sheet.side - _MARGIN
    for column in columns[::-1]:
        left = right - max(text_width(text, _CAPTION, faces) for _, text in column)
        for row, (drawn, text) in enumerate(column):
            y = sheet.side - _MARGIN - _LINE * _CAPTION * (n_rows - row - 0.5)
            x = left - _APART - _SAMPLE
            if isinstance(drawn, _Kind):
                sheet.marks.append(drawn.mark((x + _SAMPLE / 2, y)))
            else:
                sheet.lines.append(Line((x, y), (x + _SAMPLE, y), 2.0, drawn, dashed=drawn is _NEGATIVE))
            sheet.texts.append(Text((left, y), text, _CAPTION, _BLACK, faces))
        right = left - 2 * _APART - _SAMPLE - _APART
