"""Colours: legible on both papers, told apart by the colour-blind, and each with a partner of its own."""

import pytest

from dp_bundle.base.document import COMMUNITIES, SHADES, shade


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of WCAG 2.2."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("paper", ["paper", "raised"])
@pytest.mark.parametrize("name", ["ink", "quiet", "link", "warning"])
def test_text_is_legible(name: str, paper: str) -> None:
    """Text stands out from both papers by 4.5 to 1 at least (WCAG 2.2, 1.4.3)."""
    for ink, ground in zip(shade(name), shade(paper), strict=True):
        assert contrast(ink, ground) >= 4.5


def test_marks_stand_out() -> None:
    """Lines, nodes and controls stand out from the paper by 3 to 1 at least (WCAG 2.2, 1.4.11)."""
    for each in (*COMMUNITIES, *(shade(name) for name in ("positive", "negative", "node", "control"))):
        for colour, ground in zip(each, SHADES["paper"], strict=True):
            assert contrast(colour, ground) >= 3.0
