"""Whether iterations that were stopped explain the distances that are printed for Laplace and Gaussian noise.

With that noise the problem has no solution at the penalty 0.001. ADMM still has a state after every iteration, as in
Su et al.'s table 2; its distance to the state without noise, after as many, is compared with the printed one.

Of the state after one iteration from zeros, with step t and noise far above sqrt(t), the distance is
``2 d^1.5 / (sqrt(t) n epsilon)``: half of the noise's eigenvalues x are negative, and leave ``|x| / t``; without noise
the state is ``I / sqrt(t)`` where the covariance is small. The step 2.5, which gives sqrt(1.6), is the one constant
that is fitted. For Gaussian noise, step and iterations are fitted on one table, and checked on the others.
"""

from __future__ import annotations

import math
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
from reproduction.tables import markdown_table, number, short
from reproduction.wang18.errors import EPSILONS, N_COLUMNS, PENALTY, PRINTED, TABLES, noise_of, rows_of

FITTED, STEPS, ITERATIONS = "synthetic_r0.5", (0.01, 0.1, 1.0, 2.5, 10.0, 100.0, 1000.0), (1, 2, 3, 5, 10, 20)
CHECKED = ("synthetic_r1.0", "synthetic_r1.5", "colon")
CHOSEN = {"laplace": (2.5, 1), "gaussian": (10.0, 3)}  # the nearest on the first table, which a test holds
NOISE = {"laplace": "pure", "gaussian": "approximate"}
SIZES = {
    "synthetic_r0.5": (200, N_COLUMNS), "synthetic_r1.0": (400, N_COLUMNS), "synthetic_r1.5": (600, N_COLUMNS),
    "colon": (69, 300), "parkinsons": (192, 22),
}  # fmt: skip


def _jobs(setting: Setting) -> Iterator[tuple[str, float, tuple[int, ...], str]]:
    if setting.quick:
        return
    yield from ((FITTED, step, ITERATIONS, str(setting.data)) for step in STEPS)
    for table in CHECKED:
        if table != "colon" or setting.has("colon"):
            yield from ((table, step, (1, iterations), str(setting.data)) for step, iterations in CHOSEN.values())


def _measure(table: str, step: float, iterations: tuple[int, ...], data: str) -> list[dict[str, Any]]:
    """Return the distances after each number of iterations, for both kinds of noise."""
    rng = np.random.default_rng(seed("wang18_stopped", table))
    rows = into_the_ball(rows_of(table, Path(data), rng))
    sample = rows.T @ rows / len(rows)
    wanted = sorted(set(iterations))
    clean = _states(sample, step, wanted)
    n, d = SIZES[table]  # the rows that the paper states, on which the noise depends

    records = []
    for mechanism, guarantee in NOISE.items():
        for epsilon in EPSILONS:
            private = _states(sample + noise_of(mechanism, guarantee, n, d, epsilon, rng), step, wanted)
            for count, before, after in zip(wanted, clean, private, strict=True):
                error = float(np.linalg.norm(after - before) / np.linalg.norm(before))
                where = {"table": table, "mechanism": mechanism, "epsilon": epsilon, "step": step, "iterations": count}
                records.append(where | {"error": error})
    return records


def one_iteration(table: str, epsilon: float) -> float:
    """Return ``sqrt(1.6) d^1.5 / (n epsilon)``, the distance of one iteration with step 2.5 under Laplace noise."""
    n, d = SIZES[table]
    return math.sqrt(4.0 / CHOSEN["laplace"][0]) * d**1.5 / (n * epsilon)


def _states(covariance: Floats, step: float, iterations: list[int]) -> list[Floats]:
    states = list(islice(admm_states(covariance, PENALTY, step), max(iterations)))
    return [states[count - 1] for count in iterations]


def nearest(cells: pd.DataFrame, mechanism: str) -> tuple[float, int, float]:
    """Return the step and iterations that come nearest to the printed column of the first table, and by what factor.

    The factor is the largest over the values of epsilon, of ours over the printed distance or the other way round.
    """
    ours = cells.query("table == @FITTED and mechanism == @mechanism")
    ours = ours.pivot_table(index=["step", "iterations"], columns="epsilon", values="mean")
    factors = np.exp(np.abs(np.log(ours / _printed(FITTED, mechanism))).max(axis=1))
    step, iterations = factors.idxmin()
    return float(step), int(iterations), float(factors.min())


def _printed(table: str, mechanism: str) -> pd.Series:
    printed = pd.read_csv(PRINTED).set_index(["dataset", "mechanism", "epsilon"])["relative_error"].sort_index()
    found: pd.Series = printed.loc[table, mechanism]
    return found


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    ours = cells.set_index(["table", "mechanism", "step", "iterations", "epsilon"])["mean"].sort_index()
    laplace, gaussian, apart, factors = [], [], [], []
    for table in SIZES:
        for epsilon in EPSILONS:
            places = {name: (table, name, *chosen, epsilon) for name, chosen in CHOSEN.items()}
            found = {name: ours.get(place, np.nan) for name, place in places.items()}
            printed = {name: float(_printed(table, name)[epsilon]) for name in NOISE}
            start = [TABLES[table], f"{epsilon:g}"]
            by_formula = one_iteration(table, epsilon)
            laplace.append([*start, short(by_formula), short(found["laplace"]), f"{printed['laplace']:g}"])
            if table != "parkinsons":
                apart.append(abs(by_formula / printed["laplace"] - 1.0))
                gaussian.append([*start, number(found["gaussian"], 4), f"{printed['gaussian']:g}"])
                factors.append(found["gaussian"] / printed["gaussian"])
    fall = {f"fall_{name}": short(_printed(FITTED, name)[0.5] / _printed(FITTED, name)[1.5]) for name in NOISE}
    step, iterations, factor = nearest(cells, "gaussian")
    return {
        "laplace": markdown_table(["table", "epsilon", "formula", "ADMM", "printed"], laplace, left=2),
        "gaussian": markdown_table(["table", "epsilon", "ADMM", "printed"], gaussian, left=2),
        "laplace_apart": f"{100 * max(apart):.0f}",
        "n_laplace": len(apart),
        "step": f"{step:g}",
        "iterations": iterations,
        "factor": f"{factor:.1f}",
        "lowest": f"{np.nanmin(factors):.2f}",
        "highest": f"{np.nanmax(factors):.2f}",
        **fall,
    }


PIECE = Piece("wang18_stopped", ("table", "mechanism", "epsilon", "step", "iterations"), _jobs, _measure, _describe)
