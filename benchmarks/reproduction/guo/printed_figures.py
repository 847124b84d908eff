"""The privacy parameters that the source paper prints, for reproduction. None of them is a guarantee.

Theorems 4.1 and 4.4 of Guo et al. (2025) speak of the covariance of noisy rows, and the rows themselves are what is
published: whoever holds them tests a single cell with mu = width / sigma, whatever the number of rows is. Theorem 4.1
is false of the covariance as well: it takes one entry at a time, and a cell moves as many as there are columns. So no
bundle states these figures, whose constants C and K are functions of the private data.

References
----------
Guo, Wu, Weng, Liao & Chen (2025), Graph structure learning with privacy guarantees for open graph data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dp_bundle.base.errors import ParameterError


@dataclass(frozen=True)
class PaperFigures:
    """The figures that the paper prints for one release, beside those that hold.

    Attributes
    ----------
    theorem_4_1 : float
        mu for continuous noise, as printed.
    theorem_4_4 : float
        mu for discrete noise, as printed; it changes with the unit of the values, which a guarantee would not, and is
        infinite where one of them is zero.
    section_5_1 : float
        "The privacy parameter" of the experiments.
    true_mu : float
        The mu of one cell of the published rows: width / sigma.
    """

    theorem_4_1: float
    theorem_4_4: float
    section_5_1: float
    true_mu: float


def paper_figures(n_rows: int, width: float, sigma: float, *, mean_square: float, smallest: float) -> PaperFigures:
    """Return the paper's privacy parameters beside the true one.

    ``Delta_f = 2 width^2 / n``, ``C = min_k sum_l X_lk^2 / n^2``, ``K = min |X_lk| / n``; theorem 4.1 prints
    ``Delta_f / (sigma sqrt(2 C))``, theorem 4.4 ``(Delta_f + 2 K) / (sqrt(2 n) K sigma)``, section 5.1
    ``Delta_f / sigma``.

    Parameters
    ----------
    n_rows : int
        Number of rows, at least 1.
    width : float
        Largest value minus smallest, > 0.
    sigma : float
        The noise's standard deviation, in the same unit, > 0.
    mean_square : float
        The smallest column's mean of squared values, n C, > 0.
    smallest : float
        The smallest absolute value, n K, at least 0.

    References
    ----------
    Guo et al. (2025), theorems 4.1 and 4.4, section 5.1.
    """
    given = {"n_rows": n_rows, "width": width, "sigma": sigma, "mean_square": mean_square, "smallest": smallest}
    for name, value in given.items():
        if not 0 < value < math.inf and (name, value) != ("smallest", 0):
            raise ParameterError(name, "in [0, inf)" if name == "smallest" else "in (0, inf)", value)
    delta_f = 2 * width**2 / n_rows
    c, k = mean_square / n_rows, smallest / n_rows
    return PaperFigures(
        theorem_4_1=delta_f / (sigma * math.sqrt(2 * c)),
        theorem_4_4=(delta_f + 2 * k) / (math.sqrt(2 * n_rows) * k * sigma) if k else math.inf,
        section_5_1=delta_f / sigma,
        true_mu=width / sigma,
    )
