"""Whether iterations that were stopped explain the distances that are printed for Laplace and Gaussian noise.

With that noise the problem has no solution at the penalty 0.001. ADMM still has a state after every iteration, as in
Su et al.'s table 2; its distance to the state without noise, after as many, is compared with the printed one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.simulation import Floats, into_the_ball
from reproduction.su.models import admm_states
from reproduction.tables import markdown_table, short
from reproduction.wang18.errors import EPSILONS, PENALTY, PRINTED, noise_of, rows_of

TABLE, STEPS, ITERATIONS = "synthetic_r0.5", (1.0, 100.0), (1, 2, 5, 10, 20, 50, 100)
NOISE = {"laplace": "pure", "gaussian": "approximate"}


def _jobs(setting: Setting) -> Iterator[tuple[float]]:
    return ((step,) for step in STEPS if not setting.quick)  # half a minute each


def _measure(step: float) -> list[dict[str, Any]]:
    """Return the distances after each number of iterations, for both kinds of noise."""
    rng = np.random.default_rng(seed("wang18_stopped"))
    rows = into_the_ball(rows_of(TABLE, Path(), rng))
    n, d = rows.shape
    sample = rows.T @ rows / n
    clean = _states(sample, step)

    records = []
    for mechanism, guarantee in NOISE.items():
        for epsilon in EPSILONS:
            private = _states(sample + noise_of(mechanism, guarantee, n, d, epsilon, rng), step)
            for iterations, before, after in zip(ITERATIONS, clean, private, strict=True):
                error = float(np.linalg.norm(after - before) / np.linalg.norm(before))
                where = {"mechanism": mechanism, "epsilon": epsilon, "step": step, "iterations": iterations}
                records.append(where | {"error": error})
    return records


def _states(covariance: Floats, step: float) -> list[Floats]:
    states = list(islice(admm_states(covariance, PENALTY, step), max(ITERATIONS)))
    return [states[iterations - 1] for iterations in ITERATIONS]


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    printed = pd.read_csv(PRINTED).query("dataset == @TABLE").set_index(["mechanism", "epsilon"])["relative_error"]
    ours = cells.set_index(["step", "iterations", "mechanism", "epsilon"])["mean"].unstack(["mechanism", "epsilon"])
    rows = []
    for (step, iterations), found in ours.iterrows():
        row = [f"{step:g}", f"{iterations:g}"]
        for mechanism in NOISE:
            row += [short(float((found[mechanism] / printed[mechanism]).median()))]
            row += [short(found[mechanism][0.5] / found[mechanism][1.5])]
        rows.append(row)
    measures = ("ours over printed", "fall")
    heads = ["step", "iterations", *(f"{name.title()}: {what}" for name in NOISE for what in measures)]
    fall = {f"fall_{name}": short(printed[name][0.5] / printed[name][1.5]) for name in NOISE}
    return {"table": markdown_table(heads, rows, left=0), **fall}


PIECE = Piece("wang18_stopped", ("mechanism", "epsilon", "step", "iterations"), _jobs, _measure, _describe)
