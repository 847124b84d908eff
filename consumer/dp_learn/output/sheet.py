"""A picture of lines, marks and texts, drawn by Pillow: matplotlib takes half a second to import.

Lengths are in points, 1/72 inch, from the upper left corner. Shapes are drawn twice as large and reduced, which smooths
them, a band at a time, which takes little memory; texts are turned before they are reduced. A picture has few colours,
so that a palette of them makes it smaller, and sooner compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from math import cos, hypot, radians, sin
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from dp_learn.output.labels import Face

Point = tuple[float, float]
Colour = tuple[int, ...]  # red, green and blue up to 255, and opacity

_PIXELS = 130 / 72  # a point
_FINE = 2  # times as large, before it is reduced
_BAND = 1024  # rows of pixels
_DASH, _GAP = 6.0, 4.0
_HALO = 5  # fine pixels around letters
_CROSS = ((-1, -2), (0, -1), (1, -2), (2, -1), (1, 0), (2, 1), (1, 2), (0, 1), (-1, 2), (-2, 1), (-1, 0), (-2, -1))
_UNIT = {  # the corners of marks of size one
    "disc": [(0.5 * cos(radians(degrees)), 0.5 * sin(radians(degrees))) for degrees in range(0, 360, 20)],
    "cross": [(x / 4, y / 4) for x, y in _CROSS],
}


@dataclass(frozen=True)
class Line:
    """A straight line, whole or dashed."""

    start: Point
    end: Point
    width: float
    colour: Colour
    dashed: bool = False


@dataclass(frozen=True)
class Mark:
    """A disc or a cross of this size, with an outline of one point."""

    place: Point
    shape: str
    size: float
    fill: Colour
    outline: Colour


@dataclass(frozen=True)
class Text:
    """One line of text, at one height with its anchor: "l", its left end, "m", its middle, or "r"; turned about it.

    A halo of white keeps it readable over lines.
    """

    place: Point
    text: str
    size: float
    colour: Colour
    faces: Sequence[Face]
    anchor: str = "l"
    degrees: float = 0.0
    halo: bool = False


@dataclass(frozen=True)
class Sheet:
    """A square white sheet, with lines below marks below texts, each in their order."""

    side: float
    lines: list[Line] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def draw_sheet(sheet: Sheet, path: Path) -> None:
    """Draw a sheet to a PNG file."""
    side = round(sheet.side * _PIXELS)
    image = Image.new("RGB", (side, side), "white")
    shapes = [(min(ys), max(ys), xys, colour) for xys, colour in _shapes(sheet) for ys in [[y for _, y in xys]]]
    for top in range(0, side, _BAND):
        height = min(_BAND, side - top)
        first, end = top * _FINE, (top + height) * _FINE
        band = Image.new("RGB", (side * _FINE, height * _FINE), "white")
        draw = ImageDraw.Draw(band, "RGBA")  # which mixes what is not opaque with what is below it
        for highest, lowest, corners, colour in shapes:
            if highest < end and lowest >= first:
                draw.polygon([(x, y - first) for x, y in corners], fill=colour)
        image.paste(band.reduce(_FINE), (0, top))
    for text in sheet.texts:
        if text.halo:
            _write(image, text, halo=_HALO)
    for text in sheet.texts:
        _write(image, text)
    few = image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.putpalette([255 if part == 254 else part for part in few.getpalette() or []])  # as white is rounded down
    few.save(path, "PNG", dpi=(72 * _PIXELS, 72 * _PIXELS), compress_level=1)


def text_width(text: str, size: float, faces: Sequence[Face]) -> float:
    """Return the width of a text."""
    return sum(_font(file, size).getlength(part) for part, file in _runs(text, faces)) / _PIXELS / _FINE


def _shapes(sheet: Sheet) -> Iterator[tuple[list[Point], Colour]]:
    """Yield the corners of all shapes in fine pixels, and their colours, the lowest first."""
    for line in sheet.lines:
        for start, end in _dashes(line) if line.dashed else [(line.start, line.end)]:
            yield _strip(_fine(start), _fine(end), line.width * _PIXELS * _FINE), line.colour
    for mark in sheet.marks:
        if mark.shape == "disc":
            yield _corners(mark, mark.size + 1.0), mark.outline
            yield _corners(mark, mark.size - 1.0), mark.fill
            continue
        corners = _corners(mark, mark.size)
        yield corners, mark.fill
        for corner, following in zip(corners, [*corners[1:], corners[0]], strict=True):
            yield _strip(corner, following, _PIXELS * _FINE), mark.outline


def _dashes(line: Line) -> Iterator[tuple[Point, Point]]:
    """Yield the ends of the dashes of a line."""
    (x, y), (u, v) = line.start, line.end
    length = hypot(u - x, v - y)
    at = 0.0
    while at < length:
        first, last = at / length, min(1.0, (at + _DASH) / length)
        yield (x + first * (u - x), y + first * (v - y)), (x + last * (u - x), y + last * (v - y))
        at += _DASH + _GAP


def _corners(mark: Mark, size: float) -> list[Point]:
    """Return the corners of a mark of this size, in fine pixels."""
    x, y = mark.place
    return [_fine((x + dx * size, y + dy * size)) for dx, dy in _UNIT[mark.shape]]


def _strip(start: Point, end: Point, width: float) -> list[Point]:
    """Return the corners of a straight line of this width, all in fine pixels."""
    (x, y), (u, v) = start, end
    half = 0.5 * width / (hypot(u - x, v - y) or 1.0)
    across, along = half * (y - v), half * (u - x)
    return [(x + across, y + along), (u + across, v + along), (u - across, v - along), (x - across, y - along)]


def _fine(place: Point) -> Point:
    return place[0] * _PIXELS * _FINE, place[1] * _PIXELS * _FINE


def _write(image: Image.Image, text: Text, *, halo: int = 0) -> None:
    """Write a text, or its halo: drawn large, turned about its middle, and reduced on the image's own pixels."""
    runs = [(part, _font(file, text.size)) for part, file in _runs(text.text, text.faces)]
    width = sum(font.getlength(part) for part, font in runs)
    room = Image.new("L", (round(width) + 4 + 2 * halo, round(2 * text.size * _PIXELS * _FINE)))
    draw, x = ImageDraw.Draw(room), 2.0 + halo
    for part, font in runs:
        draw.text((x, room.height / 2), part, fill=255, font=font, anchor="lm", stroke_width=halo)
        x += font.getlength(part)
    if text.degrees:
        room = room.rotate(text.degrees, Image.Resampling.BILINEAR, expand=True)

    to_middle = {"l": 0.5, "m": 0.0, "r": -0.5}[text.anchor] * width
    x, y = _fine(text.place)
    left = round(x + to_middle * cos(radians(text.degrees)) - room.width / 2)
    top = round(y - to_middle * sin(radians(text.degrees)) - room.height / 2)
    size = (room.width + 2 * _FINE) // _FINE * _FINE, (room.height + 2 * _FINE) // _FINE * _FINE
    mask = Image.new("L", size)
    mask.paste(room, (left % _FINE, top % _FINE))
    colour = (255, 255, 255) if halo else text.colour[:3]
    image.paste(colour, (left // _FINE, top // _FINE), mask.reduce(_FINE))


def _runs(text: str, faces: Sequence[Face]) -> list[tuple[str, Path]]:
    """Return the parts of a text that one font writes, and its file: the first that has the letter, or the first."""

    def file_for(letter: str) -> Path:
        return next((face.file for face in faces if face.has(letter)), faces[0].file)

    return [("".join(letters), file) for file, letters in groupby(text, file_for)]


@lru_cache
def _font(file: Path, size: float) -> ImageFont.FreeTypeFont:
    """Return a font in fine pixels."""
    return ImageFont.truetype(str(file), size * _PIXELS * _FINE)
