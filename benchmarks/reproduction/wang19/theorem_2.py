"""Theorem 2: whether the squared error grows with the sparsity s, as printed, or with its square.

Covariances of blocks of s + 1 columns whose entries are half the threshold: every one is set to zero, and the error is
the sum of a whole row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.tables import markdown_table, number
from reproduction.wang19.models import GAMMA, dp_thresholding, second_moment

N_COLUMNS, N_ROWS = 256, 1_000_000
SPARSITIES = (1, 3, 7, 15, 31, 63)


def _jobs(setting: Setting) -> Iterator[tuple[int]]:
    return ((repetition,) for repetition in setting.repetitions(5))


def _measure(repetition: int) -> list[dict[str, Any]]:
    """Return the squared errors of one draw for every sparsity, without noise."""
    rng = np.random.default_rng(seed("wang19_theorem_2", repetition))
    rate = math.log(N_COLUMNS) / N_ROWS
    records = []
    for sparsity in SPARSITIES:
        block = np.full((sparsity + 1, sparsity + 1), 0.5 * GAMMA * math.sqrt(rate))
        np.fill_diagonal(block, 0.25)
        covariance = np.kron(np.eye(N_COLUMNS // (sparsity + 1)), block)
        moment = second_moment(covariance, N_ROWS, rng)
        error = np.linalg.norm(dp_thresholding(moment, N_ROWS, math.inf) - covariance, 2) ** 2
        records.append({"s": sparsity, "over_s": error / (sparsity * rate), "over_s2": error / (sparsity**2 * rate)})
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    means = cells.pivot_table(index="s", columns="measure", values="mean")
    rows = [[s, number(means["over_s"][s], 2), number(means["over_s2"][s], 3)] for s in SPARSITIES]
    head = ["s", "squared error over s log(p) / n", "over s^2 log(p) / n"]
    return {"table": markdown_table(head, rows, left=0)}


PIECE = Piece("wang19_theorem_2", ("s",), _jobs, _measure, _describe)
