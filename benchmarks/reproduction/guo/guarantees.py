"""The guarantee that holds for noisy rows, beside the epsilon that Guo et al. print for them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from reproduction.data_sets import Floats
from reproduction.guo.printed_figures import paper_figures


@dataclass(frozen=True)
class Figures:
    """What is printed for a release of rows, and what holds.

    Attributes
    ----------
    epsilon : float
        "The privacy parameter" of section 5.1, which is no guarantee.
    cell_mu, row_mu : float
        mu of the Gaussian mechanism for one cell and for one row, if every column's bounds were the range that it has
        here. A publisher may not read bounds off the data: declared ones are wider, and mu larger.
    """

    epsilon: float
    cell_mu: float
    row_mu: float


def figures_of(rows: Floats, sigma: float) -> Figures:
    """Return the figures of rows that are published with noise of one standard deviation."""
    widths = np.ptp(rows, axis=0)
    printed = paper_figures(
        len(rows), float(np.ptp(rows)), sigma, mean_square=float(np.square(rows).mean(axis=0).min()),
        smallest=float(np.abs(rows).min()),
    )  # fmt: skip
    mus = [float(width / sigma) for width in widths]
    return Figures(printed.section_5_1, max(mus), math.hypot(*mus))  # Dong, Roth & Su, corollary 3.3
