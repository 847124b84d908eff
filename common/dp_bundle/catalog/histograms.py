"""Pictures of histograms, of second moments or of levels replaced at random: plain drawings, which need no script."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dp_bundle.base.document import MINUS
from dp_bundle.data.margin_summary import Bar, bars_of, summarize_margin
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.columns import NO_VALUE, SourceKindName
from dp_bundle.manifest.release import Release

MOST_DRAWN = 60  # columns on a page
_STEPS: dict[SourceKindName, Literal["D", "s"]] = {"date": "D", "time": "s"}  # since 1970
_LATEST = 2.0**53


@dataclass(frozen=True)
class Picture:
    """One column of the raw table.

    Attributes
    ----------
    name : str
        The raw column.
    bars : sequence of tuple of (str, float, float or None, float or None)
        Of each bar what it stands for, its share of the rows, and the ends of the share's 95 % interval, if known.
    ends : tuple of str
        What stands below both ends, if bars are of numbers; else both are empty.
    numbers : sequence of tuple of str
        The name of a quantile, a mean or a share, its value, and the ends of its 95 % interval, empty if unknown.
    marks : sequence of float
        Where values were clipped before the noise, from 0 to 1 along the bars of noisy numbers.
    """

    name: str
    bars: Sequence[tuple[str, float, float | None, float | None]]
    ends: tuple[str, str]
    numbers: Sequence[tuple[str, str, str, str]]
    marks: Sequence[float] = ()


def draw_margins(margins: Sequence[Margin], release: Release) -> tuple[list[Picture], str]:
    """Return the pictures of a release's histograms, and a sentence on those that are not drawn; none without any."""
    variance, n_rows = release.margin_variance, release.n_rows
    kinds = {source.name: source.kind for source in release.sources}
    bounds = {name: column.bounds for name, column in release.first_columns.items()}
    left = len(margins) - MOST_DRAWN
    more = f"The histograms of the other {left:,} columns are in the file." if left > 0 else ""
    drawn = [
        draw_margin(margin, n_rows, variance, bounds.get(margin.name), kinds.get(margin.name, "number"))
        for margin in margins[:MOST_DRAWN]
    ]
    return drawn, more


def draw_margin(
    margin: Margin, n_rows: int, variance: float, bounds: tuple[float, float] | None, kind: SourceKindName
) -> Picture:
    """Return the picture of a histogram; the parameters are those of `summarize_margin`, and what numbers are."""
    bars, ends = bars_of(margin, n_rows, variance), ("", "")
    if not margin.counts_numbers:
        bars.sort(key=lambda bar: -bar.share)
    elif bars and not margin.labels:
        ends = spell_number(bars[0].low, kind), spell_number(bars[-1].high, kind)
        if kind not in _STEPS and all(bar.low % 1.0 == 0.5 for bar in bars):
            ends = bars[0].label, bars[-1].label  # whole numbers
    shown = [(_label(bar, kind), *bar[3:]) for bar in bars]
    found = [
        (name, share_text(value), share_text(low), share_text(high))
        if name == NO_VALUE
        else (name, spell_number(value, kind), spell_number(low, kind), spell_number(high, kind))
        for name, value, low, high in summarize_margin(margin, n_rows, variance, bounds)
    ]
    return Picture(margin.name, shown, ends, found)


def _label(bar: Bar, kind: SourceKindName) -> str:
    return f"{spell_number(bar.low, kind)} to {spell_number(bar.high, kind)}" if kind in _STEPS else bar.label


def share_text(share: float) -> str:
    """Return a share as a percentage."""
    return f"{share:.1%}".replace("%", " %")


def spell_number(value: float, kind: SourceKindName) -> str:
    """Return a number of a column as people write it: dates and times as such."""
    if math.isinf(value):
        return "no end" if value > 0 else "no beginning"
    if kind in _STEPS and abs(value) < _LATEST:
        return str(np.datetime64(round(value), _STEPS[kind])).replace("T", " ")
    return f"{float(f'{value:.4g}'):.10g}".replace("-", MINUS)
