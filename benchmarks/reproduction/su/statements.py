"""Theorems 3.1, 4.1 and 4.4 at examples where they do not hold: what is stated, and what is found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from reproduction.pieces import Piece
from reproduction.setting import Setting
from reproduction.su.models import printed_sigma
from reproduction.wang18.statements import delta_of, largest_epsilon

ROWS = (100, 200, 400)  # those of the paper; its delta is 1/n
CONSISTENCY_ROWS = (200, 400, 800)
COLUMNS, MANY = (10, 40, 160), 1_000_000  # columns and rows for theorem 4.4


def least_squared_error(n_rows: int) -> float:
    """Return the decimal logarithm of a lower bound on algorithm 1's mean squared error, with lambda = exp(-n^2).

    One column of plus and minus 1, so that S and Theta are 1; epsilon = 1, delta = 1/n. Where the noise is below -2,
    the estimate ``(sqrt(s^2 + 8 lambda) - s) / (4 lambda)`` is at least 1 / (2 lambda), as s is below -1.
    """
    chance = float(stats.norm.logcdf(-2.0 / printed_sigma(n_rows, 1.0, 1.0 / n_rows)))
    return (chance + 2.0 * (n_rows**2 - math.log(2.0))) / math.log(10.0)


def theorem_4_4(n_columns: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the error of algorithm 2 for the identity, theorem 4.4's bound, and the same bound with p + s for s.

    No entry beside the diagonal is larger than the penalty here, so the solution is diagonal: 1 / (S_ii + lambda).
    """
    p, n = n_columns, MANY
    order = p**2 * math.sqrt(math.log(n)) / n, math.sqrt(math.log(p) / n)
    alpha = 3.0 * sum(order)
    noise = np.triu(rng.normal(scale=printed_sigma(n, 1.0, 1.0 / n), size=(p, p)))
    sample = stats.wishart.rvs(n, np.eye(p) / n, random_state=rng) + noise + np.triu(noise, 1).T
    if np.abs(sample - np.diag(sample.diagonal())).max() > alpha:
        raise RuntimeError("the solution is not diagonal")
    error = float(np.linalg.norm(1.0 / (sample.diagonal() + alpha) - 1.0))
    return {"stated": 0.0, "found": error, "right": math.sqrt(p) * sum(order)}


def _measure() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for n in ROWS:
        found = {"found": delta_of(2.0, 1.0 / n, 1.0), "largest_epsilon": largest_epsilon(1.0 / n, 1.0)}
        records.append({"statement": "theorem 3.1", "case": f"n {n}", "stated": 1.0 / n, **found})
    for n in CONSISTENCY_ROWS:
        records.append({"statement": "theorem 4.1", "case": f"n {n}", "log10_found": least_squared_error(n)})
    rng = np.random.default_rng(1)
    for p in COLUMNS:
        records.append({"statement": "theorem 4.4", "case": f"p {p}", **theorem_4_4(p, rng)})
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    found = cells.set_index(["statement", "case", "measure"])["mean"].sort_index()
    ratios = [found["theorem 4.4", f"p {p}", "found"] / found["theorem 4.4", f"p {p}", "right"] for p in COLUMNS]
    epsilons = [found["theorem 3.1", f"n {n}", "largest_epsilon"] for n in ROWS]
    return {
        "powers": [f"{found['theorem 4.1', f'n {n}', 'log10_found']:,.0f}" for n in CONSISTENCY_ROWS],
        "errors": [f"{found['theorem 4.4', f'p {p}', 'found']:.2g}" for p in COLUMNS],
        "ratio_lowest": f"{min(ratios):.1f}",
        "ratio_highest": f"{max(ratios):.1f}",
        "largest_epsilon_lowest": f"{min(epsilons):.1f}",
        "largest_epsilon_highest": f"{max(epsilons):.1f}",
    }


def _jobs(_: Setting) -> list[tuple[()]]:
    return [()]


PIECE = Piece("su_statements", ("statement", "case"), _jobs, _measure, _describe)
