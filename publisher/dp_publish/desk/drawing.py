"""The forecast as a drawing: what is seen at each strength, and where the slider is."""

from __future__ import annotations

import math
from collections.abc import Callable

from markupsafe import Markup

from dp_publish.desk.answer import Answer
from dp_publish.forecast.outlook import ForecastRow
from dp_publish.forecast.strengths import printed_mu

_WIDTH, _HEIGHT = 360, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 8, 10, 40  # margins
_TICKS = (0.1, 0.3, 1.0, 3.0, 10.0)


def draw_forecast(answer: Answer, ends: tuple[float, float]) -> Markup:
    """Return the drawing; nothing without a forecast."""
    if answer.row is None or not answer.curve:
        return Markup()

    def across(mu: float) -> float:
        share = math.log(mu / ends[0]) / math.log(ends[1] / ends[0])
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(share, 0.0), 1.0)

    parts = [_axis(across)]
    for kind in ("rows", "covariance"):
        points = [(across(row.mu), _down(seen)) for row in answer.curve if (seen := row.of(kind).seen) is not None]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="{kind}" points="{line}"/>' if points else "")

    at, seen = across(answer.row.mu), answer.row.of(answer.release).seen
    parts.append(f'<line class="here" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
    if seen is not None:
        parts.append(f'<circle class="{answer.release}" cx="{at:.1f}" cy="{_down(seen):.1f}" r="5"/>')
    says = _alternative(answer.row, answer.release)
    head = f'<svg class="forecast" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{says}">'
    return Markup(f"{head}{''.join(parts)}</svg>")  # noqa: S704  numbers and words of ours


def _axis(place: Callable[[float], float]) -> str:
    base = _HEIGHT - _BOTTOM
    lines = [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_down(rho):.1f}" y2="{_down(rho):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{_down(rho) + 4:.1f}" text-anchor="end">{rho:g}</text>'
        for rho in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    lines += [f'<text x="{place(mu):.1f}" y="{base + 16}" text-anchor="middle">{mu:g}</text>' for mu in _TICKS]
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    lines.append(
        f'<text x="{middle:.1f}" y="{_HEIGHT - 6}" text-anchor="middle">mu: weaker protection to the right</text>'
    )
    return "".join(lines)


def _down(rho: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1.0 - min(rho, 1.0))


def _alternative(row: ForecastRow, release: str) -> str:
    seen = row.of(release).seen
    shown = "no partial correlation" if seen is None else f"partial correlations from {seen:.2g} on"
    what = "noisy rows" if release == "rows" else "second moments"
    return f"Forecast: at mu = {printed_mu(row.mu)}, {what} show {shown}."
