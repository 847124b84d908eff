"""Nodes and their names on a sheet: a few in a circle, more of them by forces, and those without an edge in rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.labels import Face
from dp_learn.output.layout import place_nodes
from dp_learn.output.sheet import Colour, Point, Text, text_width

MOST_IN_CIRCLE = 20  # nodes
NAME = 8.0  # points, as all lengths: height of letters
_AWAY = 11.0  # so far from the middles of their nodes are names around the circle,
_BESIDE = 6.0  # and so far elsewhere
_LINE = 1.3 * NAME  # height of a name, with what it needs around it
_MOST_IN_ROWS = 60  # of the columns that no edge reaches
_ROW = 14.0  # from one row of these to the next
_DISC = 4.5  # half of what a node fills
_CLEAR = 40.0  # degrees between a name and an edge of its node, where this can be had
_AROUND = (0.0, 180.0, 90.0, 270.0, 45.0, 135.0, 225.0, 315.0)  # degrees: where a name is tried, from its node


class Box(NamedTuple):
    """A part of the sheet."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Label:
    """The name of a node, and the colour that it is written in."""

    text: str
    colour: Colour


@dataclass
class Arrangement:
    """The places of nodes, by their numbers, their names, and a sentence on those that are left out, if any are."""

    places: dict[int, Point] = field(default_factory=dict)
    names: list[Text] = field(default_factory=list)
    left_out: str = ""


def arrange_in_circle(labels: Sequence[Label], area: Box, faces: Sequence[Face]) -> Arrangement:
    """Return nodes around a circle, with names that point away from its middle, upside down nowhere."""
    middle = (area.left + area.right) / 2, (area.top + area.bottom) / 2
    half = min(area.right - area.left, area.bottom - area.top) / 2
    radius = half - _AWAY - max(text_width(label.text, NAME, faces) for label in labels)

    arranged = Arrangement()
    for number, label in enumerate(labels):
        angle = 2 * math.pi * number / len(labels)
        across, up = math.cos(angle), math.sin(angle)
        arranged.places[number] = middle[0] + radius * across, middle[1] - radius * up
        place = middle[0] + (radius + _AWAY) * across, middle[1] - (radius + _AWAY) * up
        left = across < -1e-9
        degrees = (math.degrees(angle) + (180 if left else 0)) % 360
        arranged.names.append(Text(place, label.text, NAME, label.colour, faces, "r" if left else "l", degrees))
    return arranged


def arrange_by_forces(
    labels: Sequence[Label], ends: Sequence[tuple[int, int]], area: Box, faces: Sequence[Face]
) -> Arrangement:
    """Return linked nodes near each other, the others in rows below, and as many names as have room.

    Parameters
    ----------
    labels : sequence of Label
        Of every node.
    ends : sequence of tuple of int
        The numbers of both ends of every edge that is drawn, strongest first; their names are the first to be placed.
    area : Box
        The part of the sheet to use.
    faces : sequence of Face
        The fonts to write the names in.
    """
    linked: dict[int, list[int]] = {}
    for one, other in ends:
        linked.setdefault(one, []).append(other)
        linked.setdefault(other, []).append(one)
    alone = sorted(set(range(len(labels))) - set(linked))
    shown = alone[:_MOST_IN_ROWS]
    arranged = _arrange_in_rows(shown, labels, area, faces)

    least = min((y for _, y in arranged.places.values()), default=area.bottom + _ROW / 2)
    room = Box(area.left, area.top, area.right, least - 1.5 * _ROW)
    xs = room.left + 0.06 * (area.right - area.left), room.right - 0.06 * (area.right - area.left)
    ys = room.top + _ROW, room.bottom - _ROW
    aspect = (xs[1] - xs[0]) / (ys[1] - ys[0])
    unit = 0.5 * (place_nodes(len(labels), np.array(ends, dtype=np.int64).reshape(-1, 2), aspect=aspect) + 1.0)
    for node in linked:
        across, up = unit[node].tolist()
        arranged.places[node] = xs[0] + across * (xs[1] - xs[0]), ys[1] - up * (ys[1] - ys[0])

    names = _place_names(linked, arranged.places, labels, room, faces)
    arranged.names += names
    arranged.left_out = _describe_left_out(len(linked) - len(names), len(alone) - len(shown))
    return arranged


def _arrange_in_rows(nodes: Sequence[int], labels: Sequence[Label], area: Box, faces: Sequence[Face]) -> Arrangement:
    """Return nodes in rows at the bottom of an area, each with its name to the right of it."""
    arranged = Arrangement()
    if not nodes:
        return arranged

    widest = max(text_width(labels[node].text, NAME, faces) for node in nodes) + 3 * _BESIDE
    in_row = min(len(nodes), max(1, int((area.right - area.left) / widest)))
    n_rows = math.ceil(len(nodes) / in_row)
    for position, node in enumerate(nodes):
        row, column = divmod(position, in_row)
        x = area.left + _BESIDE + column * (area.right - area.left) / in_row
        y = area.bottom - _ROW * (n_rows - row + 0.5)
        arranged.places[node] = x, y
        arranged.names.append(Text((x + _BESIDE, y), labels[node].text, NAME, labels[node].colour, faces))
    return arranged


def _place_names(
    linked: dict[int, list[int]], places: dict[int, Point], labels: Sequence[Label], room: Box, faces: Sequence[Face]
) -> list[Text]:
    """Return the names that can be written beside their nodes and over no node and no other name, in this order."""
    discs = [Box(x - _DISC, y - _DISC, x + _DISC, y + _DISC) for x, y in (places[node] for node in linked)]
    taken = np.array([*discs, *[(math.inf,) * 4] * len(discs)])
    written: list[Text] = []
    for position, (node, others) in enumerate(linked.items()):
        width = text_width(labels[node].text, NAME, faces)
        around = np.delete(taken, position, axis=0)
        for degrees in _directions(places[node], [places[other] for other in others]):
            place, anchor, box = _name_place(places[node], degrees, width)
            if _lies_in(box, room) and not _overlaps(box, around):
                taken[len(discs) + position] = box
                written.append(Text(place, labels[node].text, NAME, labels[node].colour, faces, anchor, halo=True))
                break
    return written


def _directions(node: Point, others: Sequence[Point]) -> list[float]:
    """Return the directions in which a name is tried, those first that are away from all edges of its node."""
    edges = [math.degrees(math.atan2(node[1] - y, x - node[0])) for x, y in others]

    def nearest_edge(degrees: float) -> float:
        return min(abs((degrees - edge + 180.0) % 360.0 - 180.0) for edge in edges)

    return sorted(_AROUND, key=lambda degrees: nearest_edge(degrees) < _CLEAR)


def _name_place(node: Point, degrees: float, width: float) -> tuple[Point, str, Box]:
    """Return the place of a name in this direction from its node, its anchor, and the box that it fills."""
    across, up = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = node[0] + _BESIDE * across, node[1] - (_BESIDE + 0.3 * NAME * abs(up)) * up
    anchor = "m" if abs(across) < 1e-9 else "l" if across > 0.0 else "r"
    left = x - width * {"l": 0.0, "m": 0.5, "r": 1.0}[anchor]
    return (x, y), anchor, Box(left, y - _LINE / 2, left + width, y + _LINE / 2)


def _lies_in(box: Box, room: Box) -> bool:
    across = box.left >= room.left and box.right <= room.right
    return across and box.top >= room.top and box.bottom <= room.bottom


def _overlaps(box: Box, others: FloatArray) -> bool:
    """Return whether a box has points in common with one of the others, given as rows."""
    across = (box.left < others[:, 2]) & (others[:, 0] < box.right)
    return bool(np.any(across & (box.top < others[:, 3]) & (others[:, 1] < box.bottom)))


def _describe_left_out(unnamed: int, alone: int) -> str:
    """Return what a caption says of names that have no room, and of columns without an edge beyond those shown."""
    said = []
    if unnamed:
        said.append(
            f"{unnamed} name{'' if unnamed == 1 else 's'} without room {'is' if unnamed == 1 else 'are'} left out"
        )
    if alone:
        said.append(
            f"{alone} more column{'' if alone == 1 else 's'} without a line {'is' if alone == 1 else 'are'} not drawn"
        )
    return "; ".join(said)
