"""Labels that a picture can draw: fonts of this machine that have their letters, or a number where none has.

matplotlib draws a letter that its font lacks as a box. Its own font has Latin, Greek, Cyrillic, Arabic and Hebrew;
other scripts need a font of the system's.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

__all__ = ["drawable_labels", "drawable_title"]

_OWN = "DejaVu Sans"
_BOXES = "Last Resort"  # has every letter, as a box with the script's name


def drawable_labels(names: Sequence[str], longest: int) -> tuple[list[str], list[str], bool]:
    """Return a label for every name that can be drawn, the font families to draw them with, and if any is a number.

    Parameters
    ----------
    names : sequence of str
        The columns' names; one with a letter that no font here has is shown as its number in this order, from 1.
    longest : int
        Letters of the longest label; longer names are cut.
    """
    families, missing = _fonts_for(names)
    numbered = [bool(missing.intersection(name)) for name in names]
    labels = [
        f"column {place}" if unknown else _cut(name, longest)
        for place, (name, unknown) in enumerate(zip(names, numbered, strict=True), start=1)
    ]
    return labels, families, any(numbered)


def drawable_title(text: str) -> tuple[str, list[str]]:
    """Return the lines of a title, with a mark for every letter that no font here has, and the font families."""
    families, missing = _fonts_for([text])
    return _literal("".join("\ufffd" if letter in missing else letter for letter in text)), families


def _fonts_for(texts: Sequence[str]) -> tuple[list[str], set[str]]:
    """Return the font families that draw the texts between them, matplotlib's own first, and the letters none has."""
    families = [_OWN]
    missing = {letter for text in texts for letter in text if letter.isprintable() and not letter.isascii()}
    if missing:
        missing -= _letters(Path(font_manager.findfont(_OWN)))
    for font in font_manager.fontManager.ttflist:
        if not missing:
            break
        if font.name in families or font.name.startswith(_BOXES):
            continue
        found = missing & _letters(Path(font.fname))
        if found:
            families.append(font.name)
            missing -= found
    return families, missing


def _letters(file: Path) -> set[str]:
    """Return every letter that a font has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fonts of the system's that are not quite in order
        try:
            return {chr(code) for code in FT2Font(str(file)).get_charmap()}
        except (OSError, RuntimeError):
            return set()


def _cut(name: str, longest: int) -> str:
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in name)
    return _literal(shown if len(shown) <= longest else f"{shown[: longest - 1]}…")


def _literal(text: str) -> str:
    """Return the text with its dollars escaped, or matplotlib would read mathematics."""
    return text.replace("$", r"\$")
