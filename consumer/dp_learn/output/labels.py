"""Labels that a picture can draw: fonts of this machine that have their letters, or a number where none has.

A letter that no font has would be drawn as a box. The first font is matplotlib's own, which has Latin, Greek, Cyrillic,
Arabic and Hebrew; other scripts need a font of the system's, and matplotlib to find it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

_OWN = "DejaVu Sans"
_OWN_FILE = Path("mpl-data", "fonts", "ttf", "DejaVuSans.ttf")
_BOXES = "Last Resort"  # has every letter, as a box with the script's name


@dataclass(frozen=True)
class Face:
    """A font's file, and the letters that it is there for: None for all that no other font is there for."""

    file: Path
    letters: frozenset[str] | None = None

    def has(self, letter: str) -> bool:
        """Return whether the font is there for a letter."""
        return self.letters is not None and letter in self.letters


def drawable_labels(names: Sequence[str], longest: int) -> tuple[list[str], list[Face], bool]:
    """Return a label for every name that can be drawn, the fonts to draw them with, and if any is a number.

    Parameters
    ----------
    names : sequence of str
        The columns' names; one with a letter that no font here has is shown as its number in this order, from 1.
    longest : int
        Letters of the longest label; longer names are cut.
    """
    faces, missing = _fonts_for(names)
    numbered = [bool(missing.intersection(name)) for name in names]
    labels = [
        f"column {place}" if unknown else _cut(name, longest)
        for place, (name, unknown) in enumerate(zip(names, numbered, strict=True), start=1)
    ]
    return labels, faces, any(numbered)


def drawable_title(text: str) -> tuple[str, list[Face]]:
    """Return the lines of a title, with a mark for every letter that no font here has, and the fonts."""
    faces, missing = _fonts_for([text])
    return "".join("\ufffd" if letter in missing else letter for letter in text), faces


def _fonts_for(texts: Sequence[str]) -> tuple[list[Face], set[str]]:
    """Return the fonts that draw the texts between them, matplotlib's own first, and the letters that none has."""
    own = _own_font()
    faces = [Face(own)]
    missing = {letter for text in texts for letter in text if letter.isprintable() and not letter.isascii()}
    if not missing:
        return faces, missing
    from matplotlib import font_manager

    missing -= _letters(own)
    for font in font_manager.fontManager.ttflist:
        if not missing:
            break
        if font.name == _OWN or font.name.startswith(_BOXES):
            continue
        found = missing & _letters(Path(font.fname))
        if found:
            faces.append(Face(Path(font.fname), frozenset(found)))
            missing -= found
    return faces, missing


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


def _cut(name: str, longest: int) -> str:
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
