"""Table 1: the distance of the private ridge estimate from the one without noise, at the same penalty."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dp_learn.estimators.linear import ridge_precision
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.simulation import Floats, symmetric_noise
from reproduction.su.losses import KEYS, SIZES, describe, draw, noise_factor, record
from reproduction.su.models import EPSILONS, distances, folds_of, precision_of, printed_sigma, rows_in_the_ball

GRID = np.logspace(-8.0, 2.0, 61)


def _jobs(setting: Setting) -> Iterator[tuple[int, str, int]]:
    models = ("model1", "model2", "model3")
    return ((n, model, index) for n in SIZES for model in models for index in setting.repetitions(50, 5))


def _measure(n_rows: int, model: str, repetition: int) -> list[dict[str, Any]]:
    """Return the distances of one table of rows at every epsilon."""
    rng = np.random.default_rng(seed("su_table_1", n_rows, model, repetition))
    rows = rows_in_the_ball(n_rows, precision_of(model, 100, rng), rng)
    sample, alpha = rows.T @ rows / n_rows, _chosen_penalty(rows)
    clean = ridge_precision(sample, alpha)

    records = []
    for epsilon in EPSILONS:
        noise = symmetric_noise(100, printed_sigma(n_rows, epsilon, 1 / n_rows), rng)
        stated, read = (
            distances(ridge_precision(sample + factor * noise, alpha), clean) for factor in (1.0, noise_factor(epsilon))
        )
        records.append(record(n_rows, model, epsilon, stated, read))
    return records


def _chosen_penalty(rows: Floats) -> float:
    """Return the penalty of the largest likelihood of five folds, without noise, as the paper chooses it."""
    scores = np.zeros(len(GRID))
    for train, held in folds_of(rows):
        phi, vectors = np.linalg.eigh(train)
        along = np.einsum("ij,ij->j", vectors, held @ vectors)
        precisions = 2.0 / (phi + np.sqrt(phi**2 + 8.0 * GRID[:, None]))
        scores += (precisions * along - np.log(precisions)).sum(axis=1)
    return float(GRID[np.argmin(scores)])


PIECE = Piece(
    "su_table_1", KEYS, _jobs, _measure, partial(describe, algorithm="ridge"), partial(draw, algorithm="ridge")
)
