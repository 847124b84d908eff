"""Figure 2: linear discriminant analysis of the ionosphere table with a private ridge precision matrix.

As in the paper, only the precision matrix is private: the means of the classes, and the choice of the penalty, are not.
So no epsilon holds for the classifier as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dp_learn.estimators.linear import ridge_precision
from reproduction.figures import BLACK, BLUE, ORANGE, new_figure, save
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.simulation import Floats, into_the_ball, symmetric_noise
from reproduction.su.models import printed_sigma
from reproduction.tables import markdown_table, number

N_TRAINING, DELTA = 40, 0.001
EPSILONS = ("none", "0.1", "0.3", "1", "3", "10", "30", "100")
GRID = np.logspace(-6.0, 2.0, 17)


def _jobs(setting: Setting) -> Iterator[tuple[int, str]]:
    return ((repetition, str(setting.data)) for repetition in setting.repetitions(50, 10))


def _measure(repetition: int, data: str) -> list[dict[str, Any]]:
    """Return the share of test rows in the wrong class at every epsilon, for one division of the rows."""
    frame = pd.read_csv(Path(data) / "ionosphere" / "ionosphere.csv")
    rows, labels = frame.drop(columns="class_good").to_numpy(dtype=float), frame["class_good"].to_numpy() == 1
    rng = np.random.default_rng(seed("su_ionosphere", repetition))
    order = rng.permutation(len(rows))
    training, validation, test = np.split(order, [N_TRAINING, 2 * N_TRAINING])

    means = np.array([rows[training][labels[training] == kind].mean(axis=0) for kind in (False, True)])
    within = into_the_ball(rows[training] - means[labels[training].astype(int)])
    sample = within.T @ within / N_TRAINING

    records = []
    for epsilon in EPSILONS:
        sigma = 0.0 if epsilon == "none" else printed_sigma(N_TRAINING, float(epsilon), DELTA)
        noisy = sample + symmetric_noise(len(sample), sigma, rng)
        precisions = [ridge_precision(noisy, alpha) for alpha in GRID]
        wrong = [_share_wrong(theta, means, rows[validation], labels[validation]) for theta in precisions]
        best = precisions[int(np.argmin(wrong))]
        records.append({"epsilon": epsilon, "wrong": _share_wrong(best, means, rows[test], labels[test])})
    return records


def _share_wrong(theta: Floats, means: Floats, rows: Floats, labels: NDArray[np.bool_]) -> float:
    """Return the share of rows that are nearer the mean of the other class, in the distance of the precision matrix."""
    scores = rows @ theta @ (means[1] - means[0]) - 0.5 * (means[1] @ theta @ means[1] - means[0] @ theta @ means[0])
    return float(((scores > 0.0) != labels).mean())


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    means = cells.set_index(cells["epsilon"].astype(str))["mean"]
    head = ["", *("no noise" if epsilon == "none" else f"epsilon {epsilon}" for epsilon in EPSILONS)]
    return {"table": markdown_table(head, [["rows in the wrong class", *(number(means[e]) for e in EPSILONS)]])}


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    cells = cells.set_index(cells["epsilon"].astype(str))
    figure = new_figure(5.5, 3.4)
    axes = figure.subplots()
    private = cells.loc[list(EPSILONS[1:])]
    error = private["sd"] / np.sqrt(private["repetitions"])
    axes.errorbar([float(e) for e in EPSILONS[1:]], private["mean"], error, color=BLUE, marker="o", ms=4, capsize=2,
                  label="private precision matrix")  # fmt: skip
    axes.axhline(cells.loc["none", "mean"], color=BLACK, lw=1.0, label="no noise")
    axes.axhline(126 / 351, color=ORANGE, lw=1.0, ls="--", label="the larger class, always")
    axes.set(
        xscale="log",
        xlabel="epsilon (of the precision matrix alone)",
        ylabel="share in the wrong class",
        ylim=(0, None),
    )
    axes.legend()
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("su_ionosphere", ("epsilon",), _jobs, _measure, _describe, _draw, needs=("ionosphere",))
