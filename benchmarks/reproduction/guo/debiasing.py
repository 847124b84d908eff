"""What subtracting the noise's variance buys: edges, rankings and weights with and without it.

Rows of a chain of 20 columns whose neighbours have partial correlation 0.4. Noise is equal for all columns, or its
standard deviations run from 0.2 to 1.8 times as much. "ignored" fits the noisy rows as if there were no noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_bundle.base.errors import EstimationError
from dp_learn.pipeline.graph import partial_correlations
from reproduction.figures import BLUE, ORANGE, new_figure, save
from reproduction.pieces import Piece
from reproduction.rules import above, area_under_curve, rank, read_rows
from reproduction.setting import Setting, seed
from reproduction.simulation import gaussian_rows
from reproduction.tables import markdown_table, number

N_COLUMNS, LINK = 20, 0.4
N_ROWS = (200, 1000, 5000, 20_000)
SNR_DB = (20, 10, 0)
NOISES = ("equal", "unequal")


def _jobs(setting: Setting) -> Iterator[tuple[int, int]]:
    return ((n_rows, repetition) for n_rows in N_ROWS for repetition in setting.repetitions(quick=2))


def _measure(n_rows: int, repetition: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed("guo_debiasing", n_rows, repetition))
    theta = np.eye(N_COLUMNS) - LINK * (np.eye(N_COLUMNS, k=1) + np.eye(N_COLUMNS, k=-1))
    rows, truth = gaussian_rows(n_rows, theta, rng), above(theta) != 0.0
    true_weights = above(partial_correlations(theta))[truth]
    records = []
    for noise in NOISES:
        for snr_db in SNR_DB:
            spread = np.ones(N_COLUMNS) if noise == "equal" else rng.permutation(np.linspace(0.2, 1.8, N_COLUMNS))
            sigma = rows.std() * 10 ** (-snr_db / 20) * spread
            noisy = rows + sigma * rng.standard_normal(rows.shape)
            for fitted, variance in (("debiased", sigma**2), ("ignored", np.zeros(N_COLUMNS))):
                sample = read_rows(noisy, variance)
                record: dict[str, Any] = {"n_rows": n_rows, "noise": noise, "snr_db": snr_db, "fit": fitted}
                record["auc_evidence"] = area_under_curve(truth, rank(sample, "evidence").scores)
                try:
                    found = rank(sample, "default")
                except EstimationError:
                    records.append(record)
                    continue
                both = (found.edges & truth).sum()
                record["f1"] = 2 * both / (found.edges.sum() + truth.sum())
                record["auc"] = area_under_curve(truth, found.scores)
                drowned = np.diag((found.precision.diagonal() == 0.0).astype(float))
                weights = above(partial_correlations(found.precision + drowned))[truth]
                record["weight_error"] = np.abs(weights - true_weights).mean()
                records.append(record)
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    table = cells.pivot(index=["noise", "snr_db", "n_rows"], columns=["measure", "fit"], values="mean")
    rows = []
    for noise in NOISES:
        for snr_db in SNR_DB:
            for n_rows in N_ROWS:
                found = table.loc[(noise, str(snr_db), n_rows)]
                line = [noise, f"{snr_db} dB", f"{n_rows:,}"]
                for measure in ("weight_error", "f1", "auc", "auc_evidence"):
                    line += [number(found[(measure, fitted)]) for fitted in ("debiased", "ignored")]
                rows.append(line)
    head = ["noise", "strength", "rows"]
    for title in ("weight error", "F1 of edges", "AUC of weights", "AUC of evidence"):
        head += [title, "ignored"]
    return {"table": markdown_table(head, rows, left=2)}


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    figure = new_figure(9.0, 5.2)
    panels = figure.subplots(2, 3, sharex=True)
    shown = {"weight_error": "mean error of a link's weight", "f1": "F1 of the edges"}
    for line, (measure, label) in zip(panels, shown.items(), strict=True):
        for axes, snr_db in zip(line, SNR_DB, strict=True):
            for fitted, colour in (("debiased", BLUE), ("ignored", ORANGE)):
                for noise, style in (("equal", "o-"), ("unequal", "s--")):
                    here = cells[(cells["measure"] == measure) & (cells["snr_db"] == str(snr_db))]
                    here = here[(here["fit"] == fitted) & (here["noise"] == noise)]
                    name = f"{'debiased' if fitted == 'debiased' else 'noise ignored'}, {noise} noise"
                    axes.plot(here["n_rows"], here["mean"], style, color=colour, ms=4, lw=1.4, label=name)
            axes.set_xscale("log")
            axes.set_ylim(0, 0.42 if measure == "weight_error" else 1.03)
            if measure == "weight_error":
                axes.set_title(f"{snr_db} dB")
        line[0].set_ylabel(label)
    for axes in panels[1]:
        axes.set_xlabel("rows")
    panels[0, 0].legend(loc="upper right", fontsize=8)
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("guo_debiasing", ("n_rows", "noise", "snr_db", "fit"), _jobs, _measure, _describe, _draw)
