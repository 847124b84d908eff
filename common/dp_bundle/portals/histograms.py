"""Pictures of histograms, of second moments or of levels replaced at random: plain drawings, which need no script."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dp_bundle.data.margin_summary import Bar, Estimate, bars_of, cell_shares, summarize_margin
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.release import Release
from dp_bundle.manifest.sources import SourceKindName
from dp_bundle.page.tables import MINUS

_MOST = 60  # pictures on a page
_MOST_LEVELS = 12
_STEPS: dict[SourceKindName, Literal["D", "s"]] = {"date": "D", "time": "s"}  # since 1970
_LATEST = 2.0**53


@dataclass(frozen=True)
class Picture:
    """One histogram.

    Attributes
    ----------
    name : str
        The raw column.
    bars : sequence of tuple of (float, str)
        Of each bar its share of the rows, and what it says.
    ends : tuple of str
        What stands below both ends, if cells are numbers.
    says : str
        The column in words: levels with their shares, or quantiles with intervals.
    """

    name: str
    bars: Sequence[tuple[float, str]]
    ends: tuple[str, str]
    says: str


def draw_margins(margins: Sequence[Margin], release: Release) -> tuple[list[Picture], str]:
    """Return the pictures of a release's histograms, and a sentence on those that are not drawn; none without any."""
    variance, n_rows = release.margin_variance, release.n_rows
    kinds = {source.name: source.kind for source in release.sources}
    bounds = {column.source_name: column.bounds for column in reversed(release.columns)}
    left = len(margins) - _MOST
    more = f"The histograms of the other {left:,} columns are in the file." if left > 0 else ""
    drawn = [
        _draw(margin, n_rows, variance, bounds.get(margin.name), kinds.get(margin.name, "number"))
        for margin in margins[:_MOST]
    ]
    return drawn, more


def _draw(
    margin: Margin, n_rows: int, variance: float, bounds: tuple[float, float] | None, kind: SourceKindName
) -> Picture:
    bars = bars_of(margin, n_rows, variance)
    shown = [(bar.share, f"{_ends(bar, kind) if kind in _STEPS else bar.label}: {bar.share:.1%}") for bar in bars]
    ends = (_number(bars[0].low, kind), _number(bars[-1].high, kind)) if bars and not margin.labels else ("", "")
    if bars and not margin.labels and kind not in _STEPS and all(bar.low % 1.0 == 0.5 for bar in bars):
        ends = (bars[0].label, bars[-1].label)  # whole numbers
    found = summarize_margin(margin, n_rows, variance, bounds)
    shares = zip(margin.labels, *cell_shares(margin, n_rows, variance), strict=False)  # gaps have no label
    levels = [f"{label} {share:.1%} ({low:.1%} to {high:.1%})" for label, share, low, high in shares]
    return Picture(margin.name, shown, ends, _in_words(levels, found, kind))


def _ends(bar: Bar, kind: SourceKindName) -> str:
    return f"{_number(bar.low, kind)} to {_number(bar.high, kind)}"


def _in_words(levels: Sequence[str], found: Sequence[Estimate], kind: SourceKindName) -> str:
    known = {each.name: each for each in found}
    said = list(levels[:_MOST_LEVELS])
    said += [f"{len(levels) - len(said)} more"] if len(levels) > len(said) else []
    for name in ("mean", "median"):
        if name in known and not levels:
            value, low, high = (_number(each, kind) for each in known[name][1:])
            said.append(f"{name} {value} ({low} to {high})")
    if {"25 %", "75 %"} <= known.keys() and not levels:
        low, high = (_number(known[name].value, kind) for name in ("25 %", "75 %"))
        said.append(f"middle half from {low} to {high}")
    if "(no value)" in known:
        said.append(f"no value in {known['(no value)'].value:.1%}")
    return "; ".join(said)


def _number(value: float, kind: SourceKindName) -> str:
    if math.isinf(value):
        return "no end" if value > 0 else "no beginning"
    if kind in _STEPS and abs(value) < _LATEST:
        return str(np.datetime64(round(value), _STEPS[kind])).replace("T", " ")
    return f"{value:.4g}".replace("-", MINUS)
