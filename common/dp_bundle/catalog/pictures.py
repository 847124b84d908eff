"""Pictures of a page as SVG, drawn when the page is made, so that they need no script; colours follow the page's."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

_STEP, _RADIUS = 16, 5.5  # of a dot
_WIDTH, _HEIGHT = 300, 64  # of a histogram
_BY_CHANCE = 50


def hundred_guesses(n_right: int) -> Markup:
    """Return a hundred dots: guesses that are right by chance, right because of the release, and wrong.

    Parameters
    ----------
    n_right : int
        At most so many of a hundred are right, 50 to 100.
    """
    dots = []
    for place in range(100):
        x, y = _STEP // 2 + place % 10 * _STEP, _STEP // 2 + place // 10 * _STEP
        kind = "chance" if place < _BY_CHANCE else "gained" if place < n_right else "wrong"
        dots.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="{_RADIUS}"/>')
    side = 10 * _STEP
    says = f"Of 100 guesses between two candidates, at most {n_right} are right with this release, and 50 without it."
    head = f'<svg class="guesses" viewBox="0 0 {side} {side}" role="img" aria-label="{says}">'
    return Markup(f"{head}{''.join(dots)}</svg>")  # noqa: S704  numbers and words of ours


def histogram(counts: Sequence[int], low: float, high: float, bounds: Sequence[float] | None) -> Markup:
    """Return bars of equal width from low to high, and the bounds as dashed lines.

    Parameters
    ----------
    counts : sequence of int
        The height of every bar.
    low, high : float
        Where the first bar begins and the last one ends.
    bounds : sequence of float or None
        What values were clipped to before the noise.
    """
    tallest, width = max(*counts, 1), _WIDTH / len(counts)
    bars = "".join(
        f"M{place * width:g} {_HEIGHT}v{-count * (_HEIGHT - 4) / tallest:.4g}h{width - 1:g}V{_HEIGHT}z"
        for place, count in enumerate(counts)
        if count
    )
    lines = "".join(
        f'<path class="bound" d="M{(bound - low) / (high - low) * _WIDTH:.4g} 0V{_HEIGHT}"/>' for bound in bounds or ()
    )
    peak = counts.index(max(counts))
    step = (high - low) / len(counts)
    first, last = low + peak * step, low + (peak + 1) * step
    says = f"Histogram of noisy values from {low:.4g} to {high:.4g}; most lie between {first:.4g} and {last:.4g}."
    picture = f'<path class="bars" d="{bars}"/><path class="base" d="M0 {_HEIGHT}H{_WIDTH}"/>{lines}'
    head = f'<svg class="histogram" viewBox="0 0 {_WIDTH} {_HEIGHT + 1}" role="img" aria-label="{says}">'
    return Markup(f"{head}{picture}</svg>")  # noqa: S704  numbers alone
