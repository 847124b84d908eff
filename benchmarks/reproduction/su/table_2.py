"""Table 2: the distance of the private graphical lasso from the one without noise, both stopped after 1000 iterations.

At a penalty that is chosen without noise, the problem with noise has no solution. What is printed is the state of ADMM
at the end of its iterations, and not an estimate: its norm is a few hundredths of that of the clean solution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dp_learn import graphical_lasso, smallest_solvable_alpha
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.simulation import Floats, symmetric_noise
from reproduction.su.losses import KEYS, SIZES, describe, draw, noise_factor, record
from reproduction.su.models import (
    EPSILONS,
    admm_state,
    distances,
    folds_of,
    precision_of,
    printed_sigma,
    rows_in_the_ball,
)

GRID = np.logspace(-2.0, -5.0, 13)


def _jobs(setting: Setting) -> Iterator[tuple[int, str, int]]:
    models, sizes = ("model2", "model3", "model4"), SIZES[::2] if setting.quick else SIZES
    return ((n, model, index) for n in sizes for model in models for index in setting.repetitions(3, 1))


def _measure(n_rows: int, model: str, repetition: int) -> list[dict[str, Any]]:
    """Return the distances of one table of rows at every epsilon."""
    rng = np.random.default_rng(seed("su_table_2", n_rows, model, repetition))
    rows = rows_in_the_ball(n_rows, precision_of(model, 100, rng), rng)
    sample, alpha = rows.T @ rows / n_rows, _chosen_penalty(rows)
    clean = admm_state(sample, alpha)
    solution = graphical_lasso(sample, alpha, tol=1e-4, max_iter=200).precision
    share = float(np.linalg.norm(clean) / np.linalg.norm(solution))

    records = []
    for epsilon in EPSILONS:
        noise = symmetric_noise(100, printed_sigma(n_rows, epsilon, 1 / n_rows), rng)
        read = distances(admm_state(sample + noise_factor(epsilon) * noise, alpha), clean)
        stated = read if epsilon > 1 else distances(admm_state(sample + noise, alpha), clean)
        least = smallest_solvable_alpha(sample + noise)
        measures = {"alpha": alpha, "least_over_alpha": least / alpha, "share_of_solution": share}
        records.append(record(n_rows, model, epsilon, stated, read) | measures)
    return records


def _chosen_penalty(rows: Floats) -> float:
    """Return the penalty of the largest likelihood of five folds, without noise, as the paper chooses it."""
    scores = np.zeros(len(GRID))
    for train, held in folds_of(rows):
        for index, alpha in enumerate(GRID):
            theta = graphical_lasso(train, float(alpha), tol=1e-3, max_iter=100).precision
            scores[index] += np.vdot(held, theta) - np.linalg.slogdet(theta)[1]
    return float(GRID[np.argmin(scores)])


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    """Add what the penalty and the state after 1000 iterations are to the table."""
    means = cells.groupby("measure")["mean"]
    least, share, alpha = (means.get_group(name) for name in ("least_over_alpha", "share_of_solution", "alpha"))
    return {
        **describe(cells, "graphical_lasso_admm"),
        "least_lowest": f"{least.min():,.0f}",
        "least_highest": f"{least.max():,.0f}",
        "share_lowest": f"{100 * share.min():.1f} %",
        "share_highest": f"{100 * share.max():.1f} %",
        "alpha_lowest": f"{alpha.min():.1g}",
        "alpha_highest": f"{alpha.max():.1g}",
    }


PIECE = Piece("su_table_2", KEYS, _jobs, _measure, _describe, partial(draw, algorithm="graphical_lasso_admm"))
