"""What tables 1 and 2 share: who is compared, the reading that gives the printed numbers, and the tables of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, new_figure, save
from reproduction.su.models import EPSILONS, NORMS
from reproduction.tables import markdown_table, short

PRINTED = Path(__file__).parents[1] / "printed" / "su_losses.csv"
KEYS = ("n_rows", "model", "epsilon")
SIZES = (100, 200, 400)


def noise_factor(epsilon: float) -> float:
    """Return by how much more noise than algorithm 1 states gives the printed numbers: sqrt(2) below epsilon = 1.

    The sensitivity 2 / n in place of sqrt(2) / n would be such a factor; the paper does not mention one.
    """
    return math.sqrt(2) if epsilon < 1 else 1.0


def record(
    n_rows: int, model: str, epsilon: float, stated: Mapping[str, float], read: Mapping[str, float]
) -> dict[str, Any]:
    """Return a record of the distances with the noise as it is stated, and with the noise of the reading."""
    measures = {f"stated_{name}": value for name, value in stated.items()} | {f"read_{k}": v for k, v in read.items()}
    return {"n_rows": n_rows, "model": model, "epsilon": epsilon, **measures}


def describe(cells: pd.DataFrame, algorithm: str) -> Mapping[str, Any]:
    """Return the table of all cells, and how far the stated noise and the reading are from what is printed."""
    table, ratios, rows = _side_by_side(cells, algorithm), [], []
    for (n_rows, model, epsilon), cell in table.groupby(list(KEYS), sort=False):
        ratios.append({norm: cell[f"read_{norm}"].iloc[0] / cell[norm].iloc[0] for norm in NORMS})
        line = [n_rows, model.replace("model", ""), f"{epsilon:g}"]
        line += [f"{short(cell[f'read_{norm}'].iloc[0])} / {short(cell[norm].iloc[0])}" for norm in NORMS]
        rows.append([*line, f"{cell['stated_frobenius'].iloc[0] / cell['frobenius'].iloc[0]:.2f}"])
    found = pd.DataFrame(ratios).to_numpy()
    stated = table.assign(ratio=table["stated_frobenius"] / table["frobenius"])
    last = "Frobenius, noise as stated: ours over printed"
    head = ["rows", "model", "epsilon", "l1: ours / printed", "Frobenius", "spectral", last]
    return {
        "table": markdown_table(head, rows, left=3),
        "n_cells": found.size,
        "n_near": int((np.abs(found - 1.0) <= 0.1).sum()),
        "lowest": f"{found.min():.2f}",
        "highest": f"{found.max():.2f}",
        "stated_below_one": f"{stated.query('epsilon < 1')['ratio'].median():.2f}",
        "stated_above_one": f"{stated.query('epsilon > 1')['ratio'].median():.2f}",
    }


def draw(cells: pd.DataFrame, stem: Path, algorithm: str) -> None:
    """Draw the printed distances over ours, for every cell, by epsilon."""
    table = _side_by_side(cells, algorithm)
    figure = new_figure(8.0, 3.4)
    panels = figure.subplots(1, 2, sharey=True)
    places = {epsilon: index for index, epsilon in enumerate(EPSILONS)}
    for axes, reading, title in zip(panels, ("stated", "read"), ("as the text states it", "as read here"), strict=True):
        for shift, (norm, colour, marker) in enumerate(zip(NORMS, (BLUE, ORANGE, GREEN), "os^", strict=True)):
            ratio = table[f"{reading}_{norm}"] / table[norm]
            axes.plot(table["epsilon"].map(places) + 0.2 * (shift - 1), ratio, marker, color=colour, ms=4, label=norm)
        axes.axhline(1.0, color=BLACK, lw=0.8)
        axes.set_xticks(range(len(EPSILONS)), [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.set(title=title, xlabel="epsilon", yscale="log")
        axes.set_yticks([0.7, 1, 2, 5, 10], ["0.7", "1", "2", "5", "10"])
        axes.minorticks_off()
    panels[0].set_ylabel("ours over printed")
    panels[0].legend()
    save(figure, stem.with_suffix(".png"))


def _side_by_side(cells: pd.DataFrame, algorithm: str) -> pd.DataFrame:
    """Return a row for each cell: ours by measure, and what is printed by norm.

    From epsilon = 0.3 on, the printed spectral distances are over the Frobenius norm of the estimate.
    """
    printed = pd.read_csv(PRINTED).rename(columns={"n": "n_rows"})
    printed = printed[printed["algorithm"] == algorithm]
    printed = printed.pivot_table(index=list(KEYS), columns="norm", values="loss_mean")
    ours = cells.pivot_table(index=list(KEYS), columns="measure", values="mean")
    both = printed.join(ours, how="inner").reset_index().sort_values(list(KEYS))
    later = both["epsilon"] >= 0.3
    both["read_spectral"] = both["read_spectral"].where(~later, both["read_spectral_over_frobenius"])
    return both
