"""Figure 2: the grid of 14 buses at 20 dB, by several estimators; the grid of 33 beside it.

All but G-Wishart, which knows no noise, get the debiased covariance. G-Wishart is R's package BDgraph.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dp_bundle.base.errors import EstimationError
from dp_learn import DebiasedCLIME, DebiasedNeighborhoodSelection, DebiasedSCIO
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.settings import Settings
from reproduction.data_sets import Floats
from reproduction.figures import new_figure, save
from reproduction.guo.grids import grid_voltages
from reproduction.pieces import Piece
from reproduction.rules import above, area_under_curve, rank, read_rows
from reproduction.setting import Setting, seed
from reproduction.simulation import add_gaussian_noise, noise_deviation
from reproduction.tables import markdown_table, mean_and_sd

DATA = ("grid of 14 buses", "grid of 33 buses")
DRAWN = DATA[0]
SNR_DB = "20"
METHODS = {
    "default": "dp-learn, default",
    "cv": "dp-learn, cross-validation",
    "neighbourhood": "neighbourhood selection",
    "scio": "SCIO",
    "clime": "CLIME",
    "gwishart": "G-Wishart (BDgraph), noise ignored",
    "evidence": "dp-learn, ranking by evidence",
}
G_WISHART = """
suppressMessages(library(BDgraph))
words <- commandArgs(trailingOnly = TRUE)
set.seed(as.integer(words[3]))
rows <- as.matrix(read.csv(words[1], header = FALSE))
found <- bdgraph(rows, method = "ggm", iter = 5000, burnin = 2500, verbose = FALSE)
links <- plinks(found, round = 10)
write.table(links + t(links), words[2], sep = ",", row.names = FALSE, col.names = FALSE)
"""


def _jobs(setting: Setting) -> Iterator[tuple[str, int, Path]]:
    if setting.data is not None:
        names = DATA[:1] if setting.quick else DATA
        yield from ((name, repetition, setting.data) for name in names for repetition in setting.repetitions(3))


def _measure(name: str, repetition: int, data: Path) -> list[dict[str, Any]]:
    """Return the records of one noisy table by every method."""
    rows, linked = grid_voltages(name, data)
    truth = above(linked)
    sigma = noise_deviation(rows, SNR_DB)
    rng = np.random.default_rng(seed("guo_figure_2", name, repetition))
    noisy = add_gaussian_noise(rows, sigma, rng)
    records = []
    for method in METHODS:
        try:
            scores, edges = _find(method, noisy, sigma**2, repetition)
        except EstimationError:
            records.append({"data": name, "method": method, "solved": 0.0})
            continue
        record: dict[str, Any] = {"data": name, "method": method, "solved": 1.0, "auc": area_under_curve(truth, scores)}
        if edges is not None:
            record |= {"wrong": (above(edges) != truth).sum(), "edges": above(edges).sum()}
            if name == DRAWN:
                pairs = zip(*np.triu_indices(len(edges), 1), strict=True)
                record |= {f"{i}-{j}": float(edges[i, j]) for i, j in pairs}
        records.append(record)
    if name == DRAWN:
        pairs = zip(*np.triu_indices(len(linked), 1), strict=True)
        records.append({"data": name, "method": "truth"} | {f"{i}-{j}": float(linked[i, j]) for i, j in pairs})
    return records


def _find(method: str, noisy: Floats, variance: float, repetition: int) -> tuple[Floats, NDArray[np.bool_] | None]:
    """Return the scores of all pairs, and the edges if it has any, by a method."""
    if method == "gwishart":
        links = _g_wishart(noisy, repetition)
        return links, links > 0.5
    if method == "evidence":
        return rank(read_rows(noisy, variance), "evidence").scores, None
    if method == "default":
        scores = rank(read_rows(noisy, variance), "default").scores
    elif method == "cv":
        scores = np.abs(fit_graph(read_rows(noisy, variance, folds=True), Settings(select="cv")).precision)
    else:
        kinds = {"neighbourhood": DebiasedNeighborhoodSelection, "scio": DebiasedSCIO, "clime": DebiasedCLIME}
        scores = np.abs(kinds[method](noise_variance=variance).fit(noisy).precision_)
    return scores, scores > 0.0


def _g_wishart(noisy: Floats, repetition: int) -> Floats:
    """Return the posterior probabilities of all links by BDgraph's birth-death process."""
    with tempfile.TemporaryDirectory() as folder:
        script, table, links = (Path(folder) / name for name in ("links.R", "rows.csv", "links.csv"))
        script.write_text(G_WISHART, encoding="utf-8")
        np.savetxt(table, noisy, delimiter=",")
        words = ["Rscript", str(script), str(table), str(links), str(repetition + 1)]
        subprocess.run(words, check=True, capture_output=True)
        found: Floats = np.loadtxt(links, delimiter=",")
        return found


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    table = cells.set_index(["data", "method", "measure"])
    rows, repetitions = [], int(cells["repetitions"].max())
    for method, title in METHODS.items():
        line = [title]
        for name in DATA:
            for measure, digits in (("auc", 3), ("wrong", 1), ("edges", 1)):
                place = (name, method, measure)
                line.append(mean_and_sd(*table.loc[place, ["mean", "sd"]], digits) if place in table.index else "-")
        rows.append(line)
    head = ["method", *(f"{name[8:]}: {measure}" for name in DATA for measure in ("AUC", "wrong edges", "edges"))]
    solved = cells[(cells["data"] == DATA[1]) & (cells["measure"] == "solved")].set_index("method")["mean"]
    counts = {f"{name}_solved": round(solved.get(name, 0.0) * repetitions) for name in ("scio", "clime")}
    return {"table": markdown_table(head, rows), "repetitions": repetitions, **counts}


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    shown = [method for method in ("truth", *METHODS) if method != "evidence" and method in set(cells["method"])]
    figure = new_figure(9.0, 4.9)
    panels = figure.subplots(2, 4).ravel()
    for axes in panels[len(shown) :]:
        axes.set_visible(False)
    image = None
    for axes, method in zip(panels, shown, strict=False):
        links = cells[(cells["data"] == DRAWN) & (cells["method"] == method)]
        links = links[links["measure"].str.contains("-")]
        ends = links["measure"].str.split("-", expand=True).astype(int).to_numpy()
        size = ends.max() + 1
        matrix = np.zeros((size, size))
        matrix[ends[:, 0], ends[:, 1]] = matrix[ends[:, 1], ends[:, 0]] = links["mean"]
        image = axes.imshow(matrix, cmap="Blues", vmin=0.0, vmax=1.0)
        title = METHODS.get(method, "lines of the grid").replace("dp-learn, ", "dp-learn:\n").replace(" (B", "\n(B")
        axes.set_title(title, fontsize=9)
        axes.grid(visible=False)
        axes.set_xticks([], [])
        axes.set_yticks([], [])
    figure.colorbar(image, ax=panels.tolist(), label="share of repetitions with the link", shrink=0.7)
    save(figure, stem.with_suffix(".png"))


PIECE = Piece(
    "guo_figure_2", ("data", "method"), _jobs, _measure, _describe, _draw, needs=("powergrid",), packages=("BDgraph",)
)
