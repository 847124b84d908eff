"""A picture of lines, marks and texts, drawn by Pillow: matplotlib takes a fifth of a run's time to import.

Lengths are in points, 1/72 inch, from the upper left corner. All is drawn twice as large and reduced, which smooths it,
a band at a time, which takes little memory. A picture has few colours, so that a palette of them makes it smaller, and
sooner compressed.

Texts are written with matplotlib's own font, which has Latin, Greek, Cyrillic, Arabic and Hebrew. Other scripts need a
font of the system's, and matplotlib to find it; a letter that no font has would be drawn as a box.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import groupby
from math import hypot
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

Point = tuple[float, float]
Colour = tuple[int, ...]  # red, green and blue up to 255, and opacity
Fonts = Mapping[str, Path]  # by letters that the own font lacks

_FINE = 2  # times as large, before it is reduced
_DOTS = 260 / 72  # of these to a point
_BAND = 1024  # rows of pixels
_DASH, _GAP = 6.0, 4.0
_DISC, _CROSS = 4.0, 3.0  # half of what they fill
_HALO = 5  # dots around letters
_OWN = "DejaVu Sans"
_OWN_FILE = Path("mpl-data", "fonts", "ttf", "DejaVuSans.ttf")
_BOXES = "Last Resort"  # has every letter, as a box with the script's name


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
        (x, y), half = dots(mark.place), (_DISC if mark.fill else _CROSS) * _DOTS
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
