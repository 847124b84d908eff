"""The colours of every page, each for light and for dark paper; styles, figures and legends take them from here.

Figures are drawn in the colours for light paper, and a script swaps each for its partner when the paper is dark. So no
two shades may share a colour for light paper.

References
----------
Harrower & Brewer (2003), ColorBrewer.org, The Cartographic Journal 40, for the oranges of PuOr and the blues of RdBu,
which the colour-blind tell apart. Wong (2011), Points of view: Color blindness, Nature Methods 8, 441, for the first
communities.
"""

from itertools import pairwise
from typing import NamedTuple


class Shade(NamedTuple):
    """One colour, as it is on light paper and on dark paper."""

    light: str
    dark: str


SHADES = {
    "paper": Shade("#ffffff", "#14181d"),
    "raised": Shade("#f4f6f8", "#1d232a"),
    "ink": Shade("#1a1f26", "#e8ebef"),
    "quiet": Shade("#55606d", "#a4aeba"),
    "line": Shade("#d5dae0", "#38414c"),
    "grid": Shade("#e8ebef", "#29313a"),
    "control": Shade("#76818e", "#828d99"),
    "link": Shade("#0b5394", "#8cc0f0"),
    "marked": Shade("#fff3d6", "#43361a"),
    "positive": Shade("#2065ab", "#72b4e8"),
    "negative": Shade("#b25708", "#f0983f"),
    "node": Shade("#6b7683", "#98a3af"),
    "faint": Shade("#c3cad2", "#4a5561"),
    "warning": Shade("#8a5a00", "#e6b450"),
    "beyond": Shade("#13893d", "#57d683"),  # no colour of a diverging scale
}

# Communities of a graph, in the order of their size, none like the two signs; further ones begin again.
COMMUNITIES = (
    Shade("#007d5c", "#2fc29a"),
    Shade("#a8487f", "#e39ac6"),
    Shade("#8a6d00", "#e3c64a"),
    Shade("#5b4bb3", "#a99df0"),
    Shade("#00788f", "#4cc3d9"),
    Shade("#803a3a", "#d98f8f"),
    Shade("#4f6574", "#9fb4c4"),
    Shade("#6b7d1f", "#b6cc5a"),
)

_DIVERGING_LIGHT = "7f3b08b35806e08214fdb863fee0b6f7f7f7d1e5f092c5de4393c32166ac053061"  # six digits a colour
_DIVERGING_DARK = "ffd9adf7b060d983249a5b1d573a1e242b331f3f572a648d3f8fc47dbbe8cbe6f9"
_SEQUENTIAL_LIGHT = "f7fbffdeebf7c6dbef9ecae16baed64292c62171b508519c08306b"
_SEQUENTIAL_DARK = "1b21291d2f42204261245a872b75ad3f90cb66acdd97c8ecd2e8f8"
_STEPS = 4  # between two colours of a scale


def shade(name: str) -> Shade:
    """Return one of the named shades: paper, ink, line, positive, negative and so on."""
    return SHADES[name]


def _scale(light: str, dark: str) -> tuple[Shade, ...]:
    return tuple(map(Shade, _finer(light), _finer(dark)))


def _finer(colours: str) -> list[str]:
    """Return the colours with others between them, in equal steps of red, green and blue."""
    known = [bytes.fromhex(colours[place : place + 6]) for place in range(0, len(colours), 6)]
    finer = [
        bytes(round(old + (new - old) * step / _STEPS) for old, new in zip(first, second, strict=True))
        for first, second in pairwise(known)
        for step in range(_STEPS)
    ]
    return [f"#{colour.hex()}" for colour in [*finer, known[-1]]]


DIVERGING = _scale(_DIVERGING_LIGHT, _DIVERGING_DARK)  # from the most negative to the most positive
SEQUENTIAL = _scale(_SEQUENTIAL_LIGHT, _SEQUENTIAL_DARK)  # from nothing to much


PARTNERS = dict([*SHADES.values(), *COMMUNITIES, *DIVERGING, *SEQUENTIAL])  # dark paper's colour, by light paper's


def style() -> str:
    """Return the shades as CSS variables, which follow the colour scheme."""
    named = [(name, *pair) for name, pair in SHADES.items()]
    named += [(f"community-{place}", *pair) for place, pair in enumerate(COMMUNITIES)]
    lines = [f"  --{name}: light-dark({light}, {dark});" for name, light, dark in named]
    return "\n".join([":root {", *lines, "}"])
