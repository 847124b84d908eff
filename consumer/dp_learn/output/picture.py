"""The graph as a picture: who is linked to whom, how strongly, and with which sign.

It is drawn by Pillow, as matplotlib takes a fifth of a run's time to import. Lengths are in points, 1/72 inch, from the
upper left corner. All is drawn twice as large and reduced, which smooths it, a band at a time, which takes little
memory. A picture has few colours, so that a palette of them makes it smaller, and sooner compressed.

Texts are written with matplotlib's own font, which has Latin, Greek, Cyrillic, Arabic and Hebrew. Other scripts need a
font of the system's, and matplotlib to find it; a letter that no font has would be drawn as a box.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import chain, groupby
from math import hypot
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from dp_bundle.base.quoting import counted
from dp_bundle.page.colours import SHADES
from dp_learn.inference.edges import Pairs
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.layout import place_nodes
from dp_learn.output.messages import count_by_strength
from dp_learn.pipeline.graph import AT_LEAST, GraphEstimate, is_strong

MOST_IN_CIRCLE = 20  # nodes
_MAX_DRAWN_EDGES = 400
_LONGEST_NAME = 36
_FULL_WIDTH = 0.2  # a partial correlation of this size is drawn at full width, if there is no stronger one
_THIN = 0.1  # of full width, of all weaker edges
_MOST_IN_ROWS = 60  # of the columns that no edge reaches

_INCH = 72.0  # points, as all lengths
_NAME, _CAPTION, _TITLE = 8.0, 10.0, 12.0  # heights of letters
_LINE = 1.5  # of these heights
_MARGIN = 0.12 * _INCH
_SAMPLE, _APART = 20.0, 8.0  # of the legend: how long the lines are, and how far from their texts
_IN_A_ROW = 2  # entries of the legend
_BESIDE, _AWAY = 6.0, 10.0  # so far from the middles of their nodes are names, and so far around the circle
_HIGH = 1.3 * _NAME  # what a name fills, with what it needs around it,
_DISC = 4.5  # and half of what a node fills
_ROW = 14.0  # from one row of nodes without an edge to the next
_CLEAR = 40.0  # degrees between a name and an edge of its node, where this can be had
_AROUND = (0.0, 180.0, 90.0, 270.0, 45.0, 135.0, 225.0, 315.0)  # degrees: where a name is tried, from its node
Point = tuple[float, float]
Colour = tuple[int, ...]  # red, green and blue up to 255, and opacity
Fonts = Mapping[str, Path]  # by letters that the own font lacks

_FINE = 2  # times as large, before it is reduced
_DOTS = 260 / 72  # of these to a point
_BAND = 1024  # rows of pixels
_DASH, _GAP = 6.0, 4.0
_FILLED, _CROSS = 4.0, 3.0  # half of what they fill
_HALO = 5  # dots around letters
_OWN = "DejaVu Sans"
_OWN_FILE = Path("mpl-data", "fonts", "ttf", "DejaVuSans.ttf")
_BOXES = "Last Resort"  # has every letter, as a box with the script's name


class _Kind(NamedTuple):
    """One kind of nodes: the colours of its outline, its inside and its names, and what a legend says of it."""

    outline: Colour
    fill: Colour | None
    name: Colour
    said: str = ""


_POSITIVE, _NEGATIVE = (tuple(bytes.fromhex(SHADES[name].light[1:])) for name in ("positive", "negative"))
_BLACK, _DARK, _GREY, _BROWN = (0, 0, 0), (51, 51, 51), (170, 170, 170), (138, 109, 26)
_LINKED = _Kind(_DARK, (242, 242, 238), (34, 34, 34))
_WEAKER = _Kind(_DARK, (210, 210, 205), (34, 34, 34), "with weaker edges only")
_UNLINKED = _Kind(_GREY, (242, 242, 238), _GREY, "without an edge")
_DROWNED = _Kind(_BROWN, None, _BROWN, "drowned by the noise")


class _Box(NamedTuple):
    """A part of the sheet."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass
class _Arrangement:
    """The places of nodes, by their numbers, the places and anchors of their names, and what is left out, in words."""

    nodes: dict[int, Point] = field(default_factory=dict)
    names: dict[int, tuple[Point, str]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def lay_out(
    estimate: GraphEstimate,
    title: str,
    drowned: Sequence[str] = (),
    placed_by: Pairs | None = None,
    at_least: float = AT_LEAST,
) -> Sheet:
    """Return the picture of an estimate: width of a line for the size of an edge, colour and dashes for its sign.

    Weaker edges than `at_least` (see `is_strong`) are all as thin and as pale; the caption counts them apart.

    Columns without an edge are drawn in grey, and those that the noise drowned, which no estimate is about, as crosses
    after them; the legend says so. Of more than 400 edges only the strongest 400 are drawn, and the caption says so;
    columns that only weaker ones reach are darker discs.
    Up to 20 columns are drawn in a circle, more of them where forces between linked ones place them, or between other
    pairs, strongest first, so that pictures of several graphs can be compared.
    """
    names = [*estimate.columns, *drowned]
    fonts, missing = find_fonts([title, *names])
    labels = [
        f"column {place}" if missing.intersection(name) else _cut(name) for place, name in enumerate(names, start=1)
    ]
    said = "".join("\ufffd" if letter in missing else letter for letter in title).split("\n")
    numbers = ["names that no font here can write are numbered as in the files"]
    numbers = numbers if any(map(missing.intersection, names)) else []

    # of every edge, strongest first
    edges, number_of = estimate.edge_columns, {name: number for number, name in enumerate(estimate.columns)}
    order = np.argsort(-np.abs(edges["partial_correlation"]), kind="stable")
    ends = [(number_of[edges["source"][row]], number_of[edges["target"][row]]) for row in order]
    weights = edges["partial_correlation"][order]
    strong = is_strong(weights, at_least)
    drawn = ends[:_MAX_DRAWN_EDGES]
    pulling = drawn if placed_by is None else np.column_stack(placed_by).tolist()
    kinds = [*[_UNLINKED] * len(estimate.columns), *[_DROWNED] * len(drowned)]
    for kind, pairs in ((_WEAKER, ends), (_LINKED, drawn)):
        for node in chain.from_iterable(pairs):
            kinds[node] = kind
    entries: list[tuple[Colour | _Kind, str]] = [
        (_POSITIVE, "positive, or without a sign" if estimate.categories else "positive"),
        (_NEGATIVE, "negative"),
    ]
    counts = [(kind, kinds.count(kind)) for kind in (_WEAKER, _UNLINKED, _DROWNED)]
    entries += [(kind, f"{counted(count, 'column')} {kind.said}") for kind, count in counts if count]

    in_circle = len(names) <= MOST_IN_CIRCLE
    longest = max(map(len, labels))
    inches = 4 + 0.12 * len(names) + 0.1 * longest if in_circle else 4 + 0.8 * math.sqrt(len(names)) + 0.05 * longest
    sheet = Sheet(_INCH * min(max(inches, 7), 24), fonts)
    above = _MARGIN + _LINE * _TITLE * len(said)
    room = len(entries) if placed_by is None else 2 + len(counts)  # of which other graphs may need more
    n_lines = 1 + len(numbers) + (not in_circle) + math.ceil(room / _IN_A_ROW)
    area = _Box(_MARGIN, above, sheet.side - _MARGIN, sheet.side - 2 * _MARGIN - _LINE * _CAPTION * n_lines)
    widths = [text_width(label, _NAME, fonts) for label in labels]
    arranged = _arrange_in_circle(widths, area) if in_circle else _arrange_by_forces(widths, pulling, area)

    at = arranged.nodes
    strongest = np.abs(weights).max(initial=0.0)
    relative_sizes = np.where(strong, np.abs(weights) / max(strongest, _FULL_WIDTH), _THIN)
    lines = zip(drawn, weights.tolist(), relative_sizes.tolist(), strict=False)
    for (one, other), weight, relative in list(lines)[::-1]:  # the strongest above the others
        colour = (*(_POSITIVE if weight > 0 else _NEGATIVE), round(255 * (0.25 + 0.7 * relative)))
        sheet.lines.append(Line(at[one], at[other], 0.4 + 4 * relative, colour, dashed=weight < 0))
    for kind in (_LINKED, _WEAKER, _UNLINKED, _DROWNED):
        sheet.marks.extend(Mark(at[node], kind.outline, kind.fill) for node in at if kinds[node] is kind)
    for node, (place, anchor) in arranged.names.items():
        sheet.texts.append(Text(place, labels[node], _NAME, kinds[node].name, anchor, halo=True))
    for index, line in enumerate(said):
        sheet.texts.append(Text((_MARGIN, _MARGIN + _LINE * _TITLE * (index + 0.5)), line, _TITLE, _BLACK))
    caption = counted(len(ends), "edge")
    caption += f", {count_by_strength(int(strong.sum()), len(ends), at_least)}" if ends and at_least else ""
    caption += "" if len(ends) == len(drawn) else f" (the strongest {_MAX_DRAWN_EDGES} drawn)"
    caption += f"; the largest partial correlation is {strongest:.2f}" if ends else ""
    for index, line in enumerate([caption, *filter(None, ["; ".join(arranged.left_out)]), *numbers]):
        place = _MARGIN, area.bottom + _LINE * _CAPTION * (index + 0.6)
        sheet.texts.append(Text(place, line, _CAPTION, _BLACK))
    _draw_legend(sheet, entries)
    return sheet


def _cut(name: str) -> str:
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def _draw_legend(sheet: Sheet, entries: Sequence[tuple[Colour | _Kind, str]]) -> None:
    """Draw the legend at the bottom, some entries in a row."""
    n_rows = math.ceil(len(entries) / _IN_A_ROW)
    for index, (drawn, text) in enumerate(entries):
        row, column = divmod(index, _IN_A_ROW)
        x, y = _MARGIN + column * sheet.side / _IN_A_ROW, sheet.side - _MARGIN - _LINE * _CAPTION * (n_rows - row - 0.5)
        if isinstance(drawn, _Kind):
            sheet.marks.append(Mark((x + _SAMPLE / 2, y), drawn.outline, drawn.fill))
        else:
            sheet.lines.append(Line((x, y), (x + _SAMPLE, y), 2.0, drawn, dashed=drawn is _NEGATIVE))
        sheet.texts.append(Text((x + _SAMPLE + _APART, y), text, _CAPTION, _BLACK))


def _arrange_in_circle(widths: Sequence[float], area: _Box) -> _Arrangement:
    """Return nodes around a circle, narrower the longer their names are, which are written outside of it."""
    x, y = (area.left + area.right) / 2, (area.top + area.bottom) / 2
    across, up = x - area.left - _AWAY - max(widths), y - area.top - _AWAY - _HIGH
    arranged = _Arrangement()
    for number, width in enumerate(widths):
        angle = 2 * math.pi * number / len(widths)
        arranged.nodes[number] = x + across * math.cos(angle), y - up * math.sin(angle)
        arranged.names[number] = _beside(arranged.nodes[number], math.degrees(angle), width, _AWAY)[:2]
    return arranged


def _arrange_by_forces(widths: Sequence[float], ends: Sequence[tuple[int, int]], area: _Box) -> _Arrangement:
    """Return linked nodes near each other, the others in rows below, and as many names as have room.

    Parameters
    ----------
    widths : sequence of float
        Of the names of all nodes.
    ends : sequence of tuple of int
        The numbers of both ends of every edge that is drawn, strongest first; their names are the first to be placed.
    area : _Box
        The part of the sheet to use.
    """
    linked: dict[int, list[int]] = {}
    for one, other in ends:
        linked.setdefault(one, []).append(other)
        linked.setdefault(other, []).append(one)
    alone = sorted(set(range(len(widths))) - set(linked))
    arranged = _arrange_in_rows(alone[:_MOST_IN_ROWS], widths, area)

    least = min((y for _, y in arranged.nodes.values()), default=area.bottom + _ROW / 2)
    room = _Box(area.left, area.top, area.right, least - 1.5 * _ROW)
    low = np.array([room.left + 0.06 * (area.right - area.left), room.bottom - _ROW])
    high = np.array([room.right - 0.06 * (area.right - area.left), room.top + _ROW])
    aspect = (high[0] - low[0]) / (low[1] - high[1])
    unit = 0.5 * (place_nodes(len(widths), np.array(ends, dtype=np.int64).reshape(-1, 2), aspect=aspect) + 1.0)
    arranged.nodes |= {node: tuple((low + unit[node] * (high - low)).tolist()) for node in linked}

    named = _place_names(linked, arranged.nodes, widths, room)
    arranged.names |= named
    unnamed, hidden = len(linked) - len(named), len(alone) - _MOST_IN_ROWS
    if unnamed > 0:
        arranged.left_out.append(f"{counted(unnamed, 'name')} without room {'is' if unnamed == 1 else 'are'} left out")
    if hidden > 0:
        more = counted(hidden, "more column")
        arranged.left_out.append(f"{more} without a line {'is' if hidden == 1 else 'are'} not drawn")
    return arranged


def _arrange_in_rows(nodes: Sequence[int], widths: Sequence[float], area: _Box) -> _Arrangement:
    """Return nodes in rows at the bottom of an area, each with its name to the right of it."""
    arranged = _Arrangement()
    widest = max((widths[node] for node in nodes), default=0.0) + 3 * _BESIDE
    in_row = min(len(nodes), max(1, int((area.right - area.left) / widest)))
    for position, node in enumerate(nodes):
        row, column = divmod(position, in_row)
        x = area.left + _BESIDE + column * (area.right - area.left) / in_row
        y = area.bottom - _ROW * (math.ceil(len(nodes) / in_row) - row + 0.5)
        arranged.nodes[node] = x, y
        arranged.names[node] = (x + _BESIDE, y), "l"
    return arranged


def _place_names(
    linked: Mapping[int, Sequence[int]], nodes: Mapping[int, Point], widths: Sequence[float], room: _Box
) -> dict[int, tuple[Point, str]]:
    """Return the names that can be written beside their nodes and over no node and no other name, in this order."""
    discs = [_Box(x - _DISC, y - _DISC, x + _DISC, y + _DISC) for x, y in (nodes[node] for node in linked)]
    taken = np.array([*discs, *[(math.inf,) * 4] * len(discs)])
    written = {}
    for position, (node, others) in enumerate(linked.items()):
        around = np.delete(taken, position, axis=0)
        for degrees in _directions(nodes[node], [nodes[other] for other in others]):
            place, anchor, box = _beside(nodes[node], degrees, widths[node])
            inside = room.left <= box.left and box.right <= room.right and room.top <= box.top
            if inside and box.bottom <= room.bottom and not _overlaps(box, around):
                taken[len(discs) + position] = box
                written[node] = place, anchor
                break
    return written


def _directions(node: Point, others: Sequence[Point]) -> list[float]:
    """Return the directions in which a name is tried, those first that are away from all edges of its node."""
    edges = [math.degrees(math.atan2(node[1] - y, x - node[0])) for x, y in others]

    def is_near_an_edge(degrees: float) -> bool:
        return min(abs((degrees - edge + 180.0) % 360.0 - 180.0) for edge in edges) < _CLEAR

    return sorted(_AROUND, key=is_near_an_edge)


def _beside(node: Point, degrees: float, width: float, away: float = _BESIDE) -> tuple[Point, str, _Box]:
    """Return the place of a name in this direction from its node, its anchor, and the box that it fills."""
    across, up = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    x, y = node[0] + away * across, node[1] - (away + 0.3 * _NAME * abs(up)) * up
    anchor = "m" if abs(across) < 1e-9 else "l" if across > 0.0 else "r"
    left = x - width * {"l": 0.0, "m": 0.5, "r": 1.0}[anchor]
    return (x, y), anchor, _Box(left, y - _HIGH / 2, left + width, y + _HIGH / 2)


def _overlaps(box: _Box, others: FloatArray) -> bool:
    """Return whether a box has points in common with one of the others, given as rows."""
    across = (box.left < others[:, 2]) & (others[:, 0] < box.right)
    return bool(np.any(across & (box.top < others[:, 3]) & (others[:, 1] < box.bottom)))


class Line(NamedTuple):
    """A straight line, whole or dashed."""

    start: Point
    end: Point
    width: float
    colour: Colour
    dashed: bool = False


class Mark(NamedTuple):
    """A disc with an outline of this colour, or a cross if nothing fills it."""

    place: Point
    colour: Colour
    fill: Colour | None


class Text(NamedTuple):
    """One line of text, at one height with its anchor: "l", its left end, "m", its middle, or "r".

    A halo of white keeps it readable over lines.
    """

    place: Point
    text: str
    size: float
    colour: Colour
    anchor: str = "l"
    halo: bool = False


@dataclass(frozen=True)
class Sheet:
    """A square white sheet, with lines below marks below texts, each in their order."""

    side: float
    fonts: Fonts
    lines: list[Line] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Draw the sheet to a PNG file."""
        side = round(self.side * _DOTS / _FINE)
        image = Image.new("RGB", (side, side), "white")
        for top in range(0, side, _BAND):
            band = Image.new("RGB", (side * _FINE, min(_BAND, side - top) * _FINE), "white")
            _draw_band(ImageDraw.Draw(band, "RGBA"), self, top * _FINE)  # which mixes colours with those below
            image.paste(band.reduce(_FINE), (0, top))
        few = image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        few.putpalette([255 if part == 254 else part for part in few.getpalette() or []])  # as white is rounded down
        few.save(path, "PNG", dpi=(72 * _DOTS / _FINE, 72 * _DOTS / _FINE), compress_level=1)


def _draw_band(draw: ImageDraw.ImageDraw, sheet: Sheet, top: int) -> None:
    """Draw what a sheet has from this row of dots on."""

    def dots(place: Point) -> Point:
        return place[0] * _DOTS, place[1] * _DOTS - top

    for line in sheet.lines:
        for ends in _dashes(line) if line.dashed else [line[:2]]:
            draw.line([dots(end) for end in ends], line.colour, max(1, round(line.width * _DOTS)))
    for mark in sheet.marks:
        (x, y), half = dots(mark.place), (_FILLED if mark.fill else _CROSS) * _DOTS
        if mark.fill:
            draw.ellipse((x - half, y - half, x + half, y + half), mark.fill, mark.colour, round(_DOTS))
        else:
            draw.line((x - half, y - half, x + half, y + half), mark.colour, round(2.0 * _DOTS))
            draw.line((x - half, y + half, x + half, y - half), mark.colour, round(2.0 * _DOTS))
    for text in sheet.texts:
        if text.halo:
            _write(draw, dots(text.place), text._replace(colour=(255, 255, 255)), sheet.fonts, _HALO)
    for text in sheet.texts:
        _write(draw, dots(text.place), text, sheet.fonts)


def _dashes(line: Line) -> Iterator[tuple[Point, Point]]:
    """Yield the ends of the dashes of a line."""
    (x, y), (u, v) = line.start, line.end
    length, at = hypot(u - x, v - y), 0.0
    while at < length:
        first, last = at / length, min(1.0, (at + _DASH) / length)
        yield (x + first * (u - x), y + first * (v - y)), (x + last * (u - x), y + last * (v - y))
        at += _DASH + _GAP


def _write(draw: ImageDraw.ImageDraw, place: Point, text: Text, fonts: Fonts, halo: int = 0) -> None:
    x = place[0] - {"l": 0.0, "m": 0.5, "r": 1.0}[text.anchor] * text_width(text.text, text.size, fonts) * _DOTS
    for part, font in _runs(text.text, text.size, fonts):
        draw.text((x, place[1]), part, text.colour, font, "lm", stroke_width=halo)
        x += font.getlength(part)


def text_width(text: str, size: float, fonts: Fonts) -> float:
    """Return the width of a text."""
    return sum(font.getlength(part) for part, font in _runs(text, size, fonts)) / _DOTS


def _runs(text: str, size: float, fonts: Fonts) -> list[tuple[str, ImageFont.FreeTypeFont]]:
    """Return the parts of a text that one font writes, and the font in dots."""
    own = _own_font()
    parts = groupby(text, lambda letter: fonts.get(letter, own))
    return [("".join(letters), _open_font(file, size * _DOTS)) for file, letters in parts]


@cache
def _open_font(file: Path, size: float) -> ImageFont.FreeTypeFont:
    """Return a font; older versions of Pillow take the name of its file alone."""
    return ImageFont.truetype(str(file), size)


def find_fonts(texts: Iterable[str]) -> tuple[Fonts, set[str]]:
    """Return fonts for the letters that the own font lacks, and the letters that no font of this machine has."""
    fonts: dict[str, Path] = {}
    missing = {letter for text in texts for letter in text if letter.isprintable() and not letter.isascii()}
    if missing:
        missing -= _letters(_own_font())
    if missing:
        from matplotlib import font_manager

        for font in font_manager.fontManager.ttflist:
            if missing and font.name != _OWN and not font.name.startswith(_BOXES):
                found = missing & _letters(Path(font.fname))
                fonts |= dict.fromkeys(found, Path(font.fname))
                missing -= found
    return fonts, missing


@cache
def _own_font() -> Path:
    """Return the file of matplotlib's own font, without importing it where the file is where it usually is."""
    package = find_spec("matplotlib")
    if package is not None and package.origin and (file := Path(package.origin).parent / _OWN_FILE).is_file():
        return file
    from matplotlib import font_manager

    return Path(font_manager.findfont(_OWN))


def _letters(file: Path) -> set[str]:
    """Return every letter that a font has."""
    from matplotlib.ft2font import FT2Font

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fonts of the system's that are not quite in order
        try:
            return {chr(code) for code in FT2Font(str(file)).get_charmap()}
        except (OSError, RuntimeError):
            return set()
