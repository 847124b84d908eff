"""Statements of the paper at examples where they do not hold: what is stated, and what is found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from reproduction.guo.printed_figures import paper_figures
from reproduction.pieces import Piece
from reproduction.setting import Setting
from reproduction.simulation import Floats

N_ROWS, N_COLUMNS, SIGMA, SIZE = 200, 100, 0.5, math.sqrt(0.43)


def theorem_4_1() -> dict[str, float]:
    """Return the mu that is stated for one cell of a noisy covariance, and the one that a test of it proves.

    A row of ones, the others of plus and minus 0.66; one of the ones becomes -1. The test takes the sum of that
    column's covariances with the others, and the middle of its two expectations. Its errors are exact: rows are
    independent, and each adds the product of two independent normal numbers, whose characteristic function is known.
    """
    rows = SIZE * np.resize([1.0, -1.0, -1.0, 1.0], (N_ROWS, N_COLUMNS))
    rows[1::2] *= -1
    rows[0] = 1.0
    smallest = float(np.square(rows).mean(axis=0).min())
    stated = paper_figures(N_ROWS, 2.0, SIGMA, mean_square=smallest, smallest=SIZE).theorem_4_1

    cells, sums = rows[:, 0].copy(), rows[:, 1:].sum(axis=1)
    middle = float(cells[1:] @ sums[1:])
    missed = chance_below(middle, cells, sums, SIGMA, SIGMA * math.sqrt(N_COLUMNS - 1))
    cells[0] = -1.0
    false_alarm = 1.0 - chance_below(middle, cells, sums, SIGMA, SIGMA * math.sqrt(N_COLUMNS - 1))
    proved = float(stats.norm.isf(missed) + stats.norm.isf(false_alarm))
    return {"stated": stated, "found": proved, "missed": missed, "false_alarm": false_alarm}


def chance_below(limit: float, a: Floats, b: Floats, sigma_a: float, sigma_b: float) -> float:
    """Return the chance that a sum of products of normal numbers, of means a and b, is below a limit.

    By Gil-Pelaez (1951), from ``E exp(i u A B)`` of every product.
    """
    variance = np.sum((a * sigma_b) ** 2 + (b * sigma_a) ** 2 + (sigma_a * sigma_b) ** 2)
    u = (np.arange(20_000) + 0.5) * (0.002 / math.sqrt(variance))
    shrink = 1.0 + (u * sigma_a * sigma_b) ** 2
    exponent = 1j * u * (a @ b) - 0.5 * u**2 * np.sum((a * sigma_b) ** 2 + (b * sigma_a) ** 2)
    values = np.exp(exponent / shrink - 1j * u * limit) * shrink ** (-0.5 * len(a))
    return float(0.5 - np.sum(values.imag / u) * (u[1] - u[0]) / math.pi)


def lemma_4(shift: float, sigma: float = 10.0) -> dict[str, float]:
    """Return the total variation of a discrete Gaussian and its shift: what the lemma allows, and what it is.

    The lemma's lattice is that of the whole numbers, and it allows what two normal laws (shift + 2) / sigma apart have.
    """
    stated = 2.0 * float(stats.norm.cdf((shift + 2.0) / sigma / 2.0)) - 1.0
    if shift != round(shift):  # no point of one lattice lies on the other
        return {"stated": stated, "found": 1.0}
    law = discrete_gaussian(sigma)
    moved = np.roll(law, round(shift))
    return {"stated": stated, "found": float(0.5 * np.abs(law - moved).sum())}


def discrete_gaussian(sigma: float) -> Floats:
    """Return the law of a discrete Gaussian on the whole numbers from -400 to 400."""
    places = np.arange(-400.0, 401.0)
    law = np.exp(-np.square(places) / (2.0 * sigma**2))
    total: Floats = law / law.sum()
    return total


def proposition_2(sigma: float = 0.5) -> dict[str, float]:
    """Return the total variation of the sum of two discrete Gaussians and the one with both parameters added."""
    law = discrete_gaussian(sigma)
    both = np.convolve(law, law)[400:-400]
    return {"stated": 0.0, "found": float(0.5 * np.abs(both - discrete_gaussian(math.sqrt(2.0) * sigma)).sum())}


def proposition_3(sigma: float = 1.0) -> dict[str, float]:
    """Return the chance of at most 0 of a normal number, which is said to be the larger, and of a discrete Gaussian."""
    return {"stated": 0.5, "found": float(discrete_gaussian(sigma)[:401].sum())}


def corollary_1(alpha: float = 0.1) -> dict[str, float]:
    """Return the maximisers without noise and with it, for two rows of one column: 1 and -1, with noise 0.5 and 0."""
    variance = 0.25
    noisy = (1.5**2 + 1.0) / 2.0 - variance
    return {"stated": 1.0 / (1.0 + alpha), "found": 1.0 / (noisy + alpha)}


def _measure() -> list[dict[str, Any]]:
    return [
        {"statement": "theorem 4.1", "case": "one cell", **theorem_4_1()},
        {"statement": "lemma 4", "case": "shift 0.5", **lemma_4(0.5)},
        {"statement": "lemma 4", "case": "shift 3", **lemma_4(3.0)},
        {"statement": "proposition 2", "case": "sigma 0.5", **proposition_2()},
        {"statement": "proposition 3", "case": "sigma 1", **proposition_3()},
        {"statement": "corollary 1", "case": "one column", **corollary_1()},
    ]


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    found = cells.set_index(["statement", "case", "measure"])["mean"].sort_index()
    test, half = found["theorem 4.1", "one cell"], found["lemma 4", "shift 0.5"]
    one = found["corollary 1", "one column"]
    return {
        "mu_stated": f"{test['stated']:.2f}",
        "mu_proved": f"{test['found']:.2f}",
        "missed": f"{test['missed']:.3f}",
        "false_alarm": f"{test['false_alarm']:.3f}",
        "lemma_4_stated": f"{half['stated']:.2f}",
        "lemma_4_found": f"{half['found']:g}",
        "proposition_2": f"{found['proposition 2', 'sigma 0.5', 'found']:.2f}",
        "proposition_3": f"{found['proposition 3', 'sigma 1', 'found']:.2f}",
        "corollary_1_clean": f"{one['stated']:.2f}",
        "corollary_1_noisy": f"{one['found']:.2f}",
    }


def _jobs(_: Setting) -> list[tuple[()]]:
    return [()]


PIECE = Piece("guo_statements", ("statement", "case"), _jobs, _measure, _describe)
