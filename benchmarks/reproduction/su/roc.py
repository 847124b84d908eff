"""Figures 1 and 3b: how well the path of private graphical lassos ranks the pairs, beside the path without noise.

A pair's score is the largest penalty at which the graphical lasso links it, so that the ROC curve is that of its path.
Of cell signalling, logarithms are taken, centred: the penalties of the paper's figure 4 link something only there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from dp_learn import graphical_lasso, smallest_solvable_alpha
from reproduction.data_sets import cell_signalling
from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, new_figure, save
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.simulation import Floats, into_the_ball, symmetric_noise
from reproduction.su.models import edges_of, precision_of, printed_sigma, rows_in_the_ball
from reproduction.tables import markdown_table, mean_and_sd

N_COLUMNS, N_ROWS, DELTA = 20, 2000, 0.001
EPSILONS = ("none", "2", "1", "0.5", "0.1")
PRINTED_EPSILONS = ("none", "2", "1")
FALSE_RATES = np.linspace(0.0, 1.0, 21)
TABLES = {"model3": "model 3", "model4": "model 4", "signalling": "cell signalling"}
N_PENALTIES = 30


def _jobs(setting: Setting) -> Iterator[tuple[str, int, str]]:
    data = str(setting.data)
    for table in ("model3", "model4", *(["signalling"] if setting.has("sachs") else [])):
        yield from ((table, repetition, data) for repetition in setting.repetitions(20, 4))


def _measure(table: str, repetition: int, data: str) -> list[dict[str, Any]]:
    """Return area and curve of one table of rows at every epsilon."""
    rng = np.random.default_rng(seed("su_roc", table, repetition))
    if table == "signalling":
        rows, linked = cell_signalling(Path(data), logarithms=True)
        rows, truth = into_the_ball(rows), edges_of(linked.astype(float))
    else:
        theta = precision_of(table, N_COLUMNS, rng)
        rows, truth = rows_in_the_ball(N_ROWS, theta, rng), edges_of(theta)
    sample = rows.T @ rows / len(rows)

    records = []
    for epsilon in EPSILONS:
        sigma = 0.0 if epsilon == "none" else printed_sigma(len(rows), float(epsilon), DELTA)
        scores = _entry_penalties(sample + symmetric_noise(len(sample), sigma, rng))
        record: dict[str, Any] = {"table": table, "epsilon": epsilon, "auc": roc_auc_score(truth, scores)}
        records.append(record | _curve(truth, scores))
    return records


def _entry_penalties(covariance: Floats) -> Floats:
    """Return for every pair the largest penalty at which it is linked, down to the least that has a solution.

    Pairs that are not linked by then come last.
    """
    largest = float(np.abs(covariance - np.diag(np.diag(covariance))).max())
    least = max(largest / 1000.0, 1.001 * smallest_solvable_alpha(covariance))
    scores = np.zeros(math.comb(len(covariance), 2))
    if least >= largest:  # every problem with an edge is without a solution
        return scores
    for alpha in np.geomspace(largest, least, N_PENALTIES):
        linked = edges_of(graphical_lasso(covariance, float(alpha), tol=1e-4, max_iter=500).precision)
        scores = np.where((scores == 0.0) & linked, alpha, scores)
    return scores


def _curve(truth: NDArray[np.bool_], scores: Floats) -> dict[str, float]:
    """Return the share of edges found at shares of other pairs found, along the path and straight between its steps."""
    steps = np.r_[np.inf, np.unique(scores)[::-1]]
    found = np.array([[(scores[truth == kind] >= step).mean() for kind in (False, True)] for step in steps])
    return {f"tpr_{rate:.2f}": float(np.interp(rate, *found.T)) for rate in FALSE_RATES}


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    areas = cells.query("measure == 'auc'").set_index(["table", "epsilon"])
    rows = [
        [name, *(mean_and_sd(*areas.loc[(table, epsilon), ["mean", "sd"]]) for epsilon in EPSILONS)]
        for table, name in TABLES.items()
        if table in areas.index
    ]
    head = ["", *("no noise" if epsilon == "none" else f"epsilon {epsilon}" for epsilon in EPSILONS)]
    return {"table": markdown_table(head, rows)}


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    figure = new_figure(9.0, 3.4)
    tables = [table for table in TABLES if table in set(cells["table"])]
    panels = figure.subplots(1, len(tables), sharey=True)
    colours = dict(zip(EPSILONS, (BLACK, BLUE, GREEN, ORANGE, "#999999"), strict=True))
    for axes, table in zip(panels, tables, strict=True):
        for epsilon in EPSILONS:
            here = cells[(cells["table"] == table) & (cells["epsilon"].astype(str) == epsilon)]
            curve = here[here["measure"].str.startswith("tpr")]["mean"]
            label = "no noise" if epsilon == "none" else f"epsilon {epsilon}"
            style = "-" if epsilon in PRINTED_EPSILONS else "--"
            axes.plot(FALSE_RATES, curve, style, color=colours[epsilon], lw=1.4, label=label)
        axes.plot([0, 1], [0, 1], color="#cccccc", lw=0.8, zorder=0)
        axes.set(title=TABLES[table], xlabel="share of other pairs linked")
    panels[0].set_ylabel("share of edges linked")
    panels[-1].legend(loc="lower right")
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("su_roc", ("table", "epsilon"), _jobs, _measure, _describe, _draw)
