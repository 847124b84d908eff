"""Figure 6: the cross-validated error along the path of lambda, and where rules stop; one table for each level."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.settings import Settings
from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, new_figure, save
from reproduction.pieces import Piece
from reproduction.rules import rank, read_rows
from reproduction.setting import Setting, seed
from reproduction.simulation import add_gaussian_noise, chain_precision, gaussian_rows, noise_deviation

N_COLUMNS, N_ROWS = 50, 500
SHOWN = {"none": BLACK, "20": BLUE, "10": GREEN, "0": ORANGE}


def _jobs(_: Setting) -> Iterator[tuple[str]]:
    return ((snr_db,) for snr_db in SHOWN)


def _measure(snr_db: str) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed("guo_figure_6"))
    rows = gaussian_rows(N_ROWS, chain_precision(N_COLUMNS), rng)
    sigma = noise_deviation(rows, snr_db)
    sample = read_rows(add_gaussian_noise(rows, sigma, rng), sigma**2, folds=True)
    selection = fit_graph(sample, Settings(select="mse", scale="covariance", refit=False)).selection
    chosen = rank(sample, "paper").alpha
    walked = np.isfinite(selection.scores)
    path = zip(selection.alphas[walked], -selection.scores[walked], selection.n_edges[walked], strict=True)
    return [
        {"snr_db": snr_db, "step": step, "alpha": alpha, "error": error, "edges": edges, "chosen": alpha == chosen}
        for step, (alpha, error, edges) in enumerate(path)
    ]


def _describe(_: pd.DataFrame) -> Mapping[str, Any]:
    return {}


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    figure = new_figure(8.0, 3.6)
    left, right = figure.subplots(1, 2)
    for snr_db, colour in SHOWN.items():
        here = cells[cells["snr_db"] == snr_db].pivot(index="step", columns="measure", values="mean")
        label = "no noise" if snr_db == "none" else f"{snr_db} dB"
        left.plot(here["alpha"], here["error"] / here["error"].iloc[0], ".-", color=colour, lw=1.4, label=label)
        right.plot(here["alpha"], here["edges"], ".-", color=colour, lw=1.4)
        chosen = here[here["chosen"] == 1.0]
        left.plot(chosen["alpha"], chosen["error"] / here["error"].iloc[0], "o", ms=10, mfc="none", color=colour)
        right.plot(chosen["alpha"], chosen["edges"], "o", ms=10, mfc="none", color=colour)
    for axes, label in ((left, "held-out error, empty graph = 1"), (right, "edges (mean over folds)")):
        axes.set(xscale="log", xlabel="lambda", ylabel=label)
        axes.invert_xaxis()
    left.legend(loc="lower left")
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("guo_figure_6", ("snr_db", "step"), _jobs, _measure, _describe, _draw)
