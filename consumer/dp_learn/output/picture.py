"""The graph as a picture: who is linked to whom, how strongly, and with which sign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from dp_learn.graph import GraphEstimate
from dp_learn.output.labels import Face, drawable_labels, drawable_title
from dp_learn.output.sheet import Colour, Line, Mark, Point, Sheet, Text, draw_sheet, text_width

_POSITIVE, _NEGATIVE = (31, 111, 180), (196, 69, 45)
_MAX_DRAWN_EDGES = 400
_MAX_LABELS = 500  # around the largest picture
_INCH = 72.0  # points, as all lengths
_NAME, _CAPTION, _TITLE = 8.0, 10.0, 12.0  # heights of letters
_LINE = 1.5  # of these heights
_MARGIN = 0.12 * _INCH
_AWAY = 11.0  # so far from their nodes are the names
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
_UNLINKED = _Kind("disc", 7.0, (242, 242, 238), (170, 170, 170), (170, 170, 170))
_DROWNED = _Kind("cross", 8.0, (255, 255, 255), (138, 109, 26), (138, 109, 26))
_BLACK = (0, 0, 0)


def draw_graph(estimate: GraphEstimate, path: Path, title: str, drowned: Sequence[str] = ()) -> None:
    """Draw the estimate to a PNG file: width of a line for the size of a partial correlation, colour for its sign.

    Columns without an edge are drawn in grey, and those that the noise drowned, which no estimate is about, as crosses
    after them; the legend says so. Of more than 400 edges only the strongest 400 are drawn, and the caption says so.
    """
    draw_sheet(lay_out(estimate, title, drowned), path)


def lay_out(estimate: GraphEstimate, title: str, drowned: Sequence[str] = ()) -> Sheet:
    """Return the sheet with everything in its place."""
    edges = _ranked_edges(estimate)
    names = [*estimate.columns, *drowned]
    labels, faces, numbered = drawable_labels(names, _LONGEST_NAME)
    labels, unnamed = _keep_strongest(labels, estimate, edges)
    longest = max(len(label) for label in labels)
    sheet = Sheet(_INCH * float(np.clip(4 + 0.12 * len(names) + 0.1 * longest, 7, 24)))

    said, title_faces = drawable_title(title)
    numbers = "\nnames that no font here can write are numbered as in the files" if numbered else ""
    caption = (_caption(edges) + unnamed + numbers).split("\n")
    kinds = _kinds(estimate, edges, drowned)
    entries = _entries(kinds)
    above = _MARGIN + 1.2 * _LINE * _CAPTION * (said.count("\n") + 1)
    below = 2 * _MARGIN + _LINE * _CAPTION * (len(caption) + math.ceil(len(entries) / _IN_A_ROW))

    half = min(sheet.side / 2 - _MARGIN, (sheet.side - above - below) / 2)
    middle = sheet.side / 2, above + (sheet.side - above - below) / 2
    radius = half - _AWAY - max(text_width(label, _NAME, faces) for label in set(labels))
    angles = 2 * np.pi * np.arange(len(names)) / len(names)
    places = [(middle[0] + radius * math.cos(angle), middle[1] - radius * math.sin(angle)) for angle in angles]
    _draw_edges(sheet, edges, dict(zip(estimate.columns, places, strict=False)))
    for drawn in (_LINKED, _UNLINKED, _DROWNED):
        sheet.marks.extend(kind.mark(place) for kind, place in zip(kinds, places, strict=True) if kind is drawn)

    for label, angle, kind in zip(labels, angles, kinds, strict=True):
        if label:
            sheet.texts.append(_name(label, angle, middle, radius + _AWAY, kind, faces))
    top = middle[1] - half
    for index, line in enumerate(said.split("\n")[::-1]):
        place = middle[0] - half, top - _LINE * _TITLE * (index + 0.6)
        sheet.texts.append(Text(place, line, _TITLE, _BLACK, title_faces))
    for index, line in enumerate(caption):
        place = middle[0], middle[1] + half + _LINE * _CAPTION * (index + 0.6)
        sheet.texts.append(Text(place, line, _CAPTION, _BLACK, faces[:1], "m"))
    _draw_legend(sheet, entries, faces[:1])
    return sheet


def _ranked_edges(estimate: GraphEstimate) -> list[tuple[str, str, float]]:
    """Return the ends and the partial correlation of every edge, strongest first."""
    edges = estimate.edge_columns
    rows = zip(edges["source"], edges["target"], edges["partial_correlation"].tolist(), strict=True)
    return sorted(rows, key=lambda edge: -abs(edge[2]))


def _keep_strongest(
    labels: list[str], estimate: GraphEstimate, edges: Sequence[tuple[str, str, float]]
) -> tuple[list[str], str]:
    """Return the labels with only those left that there is room for, and what the caption says of it."""
    if len(labels) <= _MAX_LABELS:
        return labels, ""
    ends = dict.fromkeys(node for source, target, _ in edges[:_MAX_DRAWN_EDGES] for node in (source, target))
    kept = set(list(ends)[:_MAX_LABELS])
    shown = [label if node in kept else "" for node, label in zip_longest(estimate.columns, labels)]
    return shown, f"\nthe {len(kept)} columns at the ends of the strongest edges are named"


def _caption(edges: Sequence[tuple[str, str, float]]) -> str:
    shown = "" if len(edges) <= _MAX_DRAWN_EDGES else f" (the strongest {_MAX_DRAWN_EDGES} drawn)"
    widest = f"; the widest line is a partial correlation of {abs(edges[0][2]):.2f} in size" if edges else ""
    return f"{len(edges)} edge{'' if len(edges) == 1 else 's'}{shown}{widest}"


def _draw_edges(sheet: Sheet, edges: Sequence[tuple[str, str, float]], places: dict[str, Point]) -> None:
    """Draw the strongest edges, the weakest of them first."""
    drawn = edges[:_MAX_DRAWN_EDGES][::-1]
    strongest = max((abs(weight) for _, _, weight in drawn), default=1.0)
    for source, target, weight in drawn:
        relative = abs(weight) / max(strongest, _FULL_WIDTH)
        colour = (*(_POSITIVE if weight > 0 else _NEGATIVE), round(255 * (0.25 + 0.7 * relative)))
        sheet.lines.append(Line(places[source], places[target], 0.4 + 4 * relative, colour))


def _kinds(estimate: GraphEstimate, edges: Sequence[tuple[str, str, float]], drowned: Sequence[str]) -> list[_Kind]:
    linked = {end for source, target, _ in edges for end in (source, target)}
    return [*(_LINKED if name in linked else _UNLINKED for name in estimate.columns), *(_DROWNED for _ in drowned)]


def _name(label: str, angle: float, middle: Point, radius: float, kind: _Kind, faces: Sequence[Face]) -> Text:
    """Return a node's name, outside the circle and pointing away from its middle, upside down nowhere."""
    place = middle[0] + radius * math.cos(angle), middle[1] - radius * math.sin(angle)
    left = math.cos(angle) < -1e-9
    degrees = math.degrees(angle) + (180 if left else 0)
    return Text(place, label, _NAME, kind.name, faces, "r" if left else "l", degrees % 360)


def _entries(kinds: Sequence[_Kind]) -> list[tuple[Colour | _Kind, str]]:
    """Return the legend: both signs, and every kind of node that needs a word."""
    entries: list[tuple[Colour | _Kind, str]] = [(_POSITIVE, "positive"), (_NEGATIVE, "negative")]
    for kind, label in ((_UNLINKED, "without an edge"), (_DROWNED, "drowned by the noise")):
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
                sheet.lines.append(Line((x, y), (x + _SAMPLE, y), 2.0, drawn))
            sheet.texts.append(Text((left, y), text, _CAPTION, _BLACK, faces))
        right = left - 2 * _APART - _SAMPLE - _APART
