"""The look of the pictures: that of the site's explanations."""

from __future__ import annotations

from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

style.use(Path(__file__).parents[2] / "docs" / "explanation" / "figures.mplstyle")
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, BLACK = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
)  # fmt: skip


def new_figure(width: float = 8.0, height: float = 4.0) -> Figure:
    """Return an empty figure, its size in inches."""
    return Figure(figsize=(width, height))


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, the same bytes wherever it is drawn by the same matplotlib."""
    figure.savefig(path, dpi=130, metadata={"Software": None})
