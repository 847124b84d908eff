"""Figures 4, 5 and 7 to 14: one graph at several levels of noise, its nodes in the same places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.network import place_nodes
from dp_learn.pipeline.graph import partial_correlations
from reproduction.figures import BLACK, BLUE, ORANGE, new_figure, save
from reproduction.guo.cases import CASES, noisy_sample
from reproduction.pieces import Piece
from reproduction.rules import rank
from reproduction.setting import Setting, seed
from reproduction.tables import level_name, markdown_table

DRAWN = ("cell signalling", "grid of 14 buses", "Congress", "soil")
SHOWN = ("none", "40", "20", "0")


def _jobs(setting: Setting) -> Iterator[tuple[str, Path]]:
    for name in DRAWN:
        if setting.data is not None and setting.has(CASES[name].folder):
            yield name, setting.data


def _measure(name: str, data: Path) -> list[dict[str, Any]]:
    """Return the links of one repetition at all levels, by the lasso at the fixed lambda of table 2."""
    case = CASES[name]
    rows, _ = case.load(name, data)
    rng = np.random.default_rng(seed("guo_graphs", name))
    records = []
    for snr_db in SHOWN:
        theta = rank(noisy_sample(case, rows, snr_db, rng), "fixed", case.alpha).precision
        weights = partial_correlations(theta + np.diag((theta.diagonal() == 0.0).astype(float)))  # drowned columns
        for i, j in zip(*np.nonzero(np.triu(theta, 1)), strict=True):
            records.append({"data": name, "snr_db": snr_db, "one": i, "other": j, "weight": weights[i, j]})
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    rows = []
    for name in DRAWN:
        links = {snr_db: _links(cells, name, snr_db) for snr_db in SHOWN}
        for snr_db in SHOWN[1:]:
            clean, found = links["none"], links[snr_db]
            counts = (len(clean), len(clean & found), len(clean - found), len(found - clean))
            rows.append([name, level_name(snr_db), *counts])
    return {"table": markdown_table(["data", "noise", "without noise", "kept", "lost", "new"], rows, left=2)}


def _links(cells: pd.DataFrame, name: str, snr_db: str) -> set[tuple[int, int]]:
    here = cells[(cells["data"] == name) & (cells["snr_db"] == snr_db)]
    return set(zip(here["one"], here["other"], strict=True))


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    figure = new_figure(9.0, 9.2)
    panels = figure.subplots(len(DRAWN), len(SHOWN))
    for row, name in zip(panels, DRAWN, strict=True):
        clean = _links(cells, name, "none")
        linked = sorted({node for link in clean for node in link})
        numbers = {node: index for index, node in enumerate(linked)}
        places = place_nodes(len(linked), np.array([[numbers[node] for node in link] for link in sorted(clean)]))
        for axes, snr_db in zip(row, SHOWN, strict=True):
            here = _links(cells, name, snr_db)
            _draw_links(axes, cells[(cells["data"] == name) & (cells["snr_db"] == snr_db)], clean, numbers, places)
            kept = f"{snr_db} dB: {len(clean & here)} kept, {len(here - clean)} new"
            axes.set_title(f"{name}: {len(clean)} links" if snr_db == "none" else kept, fontsize=9)
    save(figure, stem.with_suffix(".png"))


def _draw_links(
    axes: Axes, links: pd.DataFrame, clean: set[tuple[int, int]], numbers: dict[int, int], places: FloatArray
) -> None:
    """Draw links between nodes that have a place, as wide as they are strong; new ones in another colour."""
    largest = links["mean"].abs().max()
    for one, other, weight in zip(links["one"], links["other"], links["mean"].abs(), strict=True):
        if one in numbers and other in numbers:
            ends = places[[numbers[one], numbers[other]]]
            colour = BLUE if (one, other) in clean else ORANGE
            axes.plot(ends[:, 0], ends[:, 1], color=colour, lw=0.4 + 2.6 * weight / largest, alpha=0.75, zorder=1)
    axes.scatter(places[:, 0], places[:, 1], s=12, color=BLACK, zorder=2)
    axes.set_axis_off()


PIECE = Piece("guo_graphs", ("data", "snr_db", "one", "other"), _jobs, _measure, _describe, _draw)
