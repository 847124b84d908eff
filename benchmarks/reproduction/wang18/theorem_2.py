"""Theorem 2: the error of output perturbation, which is the norm of its noise, beside the bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from printed_forms import insecure_output_perturbation
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.wang18.errors import EPSILONS, PENALTY

SIZES = {"0.5": (200, 400), "1": (400, 400), "1.5": (600, 400), "colon": (62, 300), "parkinsons": (192, 22)}
FAILURE = 0.05  # the delta of the theorem


def _jobs(setting: Setting) -> Iterator[tuple[str, int]]:
    return ((table, repetition) for table in SIZES for repetition in setting.repetitions(10, 2))


def _measure(table: str, repetition: int) -> list[dict[str, Any]]:
    """Return the Frobenius norm of the noise over ``d^4 log(d / delta) / (n epsilon rho^2)``."""
    n, d = SIZES[table]
    rng = np.random.default_rng(seed("wang18_theorem_2", table, repetition))
    records = []
    for epsilon in EPSILONS:
        noise = insecure_output_perturbation(np.zeros((d, d)), n, epsilon, PENALTY, rng)
        bound = d**4 * math.log(d / FAILURE) / (n * epsilon * PENALTY**2)
        records.append({"table": table, "epsilon": epsilon, "share": float(np.linalg.norm(noise)) / bound})
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    return {"lowest": f"{cells['mean'].min():.2f}", "highest": f"{cells['mean'].max():.2f}"}


PIECE = Piece("wang18_theorem_2", ("table", "epsilon"), _jobs, _measure, _describe)
