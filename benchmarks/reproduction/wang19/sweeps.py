"""Figure 1: the relative error by number of rows, for shares of entries, numbers of columns, and values of epsilon."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, PINK, new_figure, save
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.tables import markdown_table, number
from reproduction.wang19.models import dp_thresholding, printed_noise, relative_error, second_moment, sparse_covariance

N_ROWS = (1000, 10_000, 100_000, 1_000_000)
SWEEPS = {
    "share": [(100, share, 1.0) for share in (0.1, 0.2, 0.3, 0.5)],
    "columns": [(p, 0.2, 1.0) for p in (50, 100, 200, 500)],
    "epsilon": [(200, 0.2, epsilon) for epsilon in (0.1, 0.5, 1.0, 2.0)],
}
TITLES = {"share": "share of entries", "columns": "columns", "epsilon": "epsilon"}
KEYS = ("sweep", "n_columns", "share", "epsilon", "n_rows")
ESTIMATES = {
    "thresholded": "algorithm 1",
    "plain": "no threshold",
    "diagonal": "the diagonal alone",
    "no_noise": "algorithm 1 without noise",
    "sound": "algorithm 1, noise that holds",
}


def _jobs(setting: Setting) -> Iterator[tuple[str, int, float, float, int]]:
    for sweep, settings in SWEEPS.items():
        for p, share, epsilon in settings:
            count = 2 if p == 500 else 5
            yield from ((sweep, p, share, epsilon, index) for index in setting.repetitions(20, count))


def _measure(sweep: str, n_columns: int, share: float, epsilon: float, repetition: int) -> list[dict[str, Any]]:
    """Return the relative errors of one covariance at every number of rows."""
    rng = np.random.default_rng(seed("wang19_sweeps", sweep, n_columns, share, epsilon, repetition))
    covariance = sparse_covariance(n_columns, share, rng)
    radius = math.sqrt(np.trace(covariance) + 4.0 * math.sqrt(2.0) * np.linalg.norm(covariance))
    factor = math.sqrt(2.0) * radius**2  # replace-one neighbours, and the norm that rows really have

    records = []
    for n in N_ROWS:
        moment = second_moment(covariance, n, rng)
        noise = printed_noise(n_columns, n, epsilon, 1.0, rng)
        found = {
            "thresholded": dp_thresholding(moment + noise, n, epsilon),
            "plain": moment + noise,
            "diagonal": np.diag(np.diag(moment + noise)),
            "no_noise": dp_thresholding(moment, n, math.inf),
            "sound": dp_thresholding(moment + factor * noise, n, epsilon, factor),
        }
        place = {"sweep": sweep, "n_columns": n_columns, "share": share, "epsilon": epsilon, "n_rows": n}
        errors = {name: relative_error(estimate, covariance) for name, estimate in found.items()}
        records.append(place | errors | {"radius": radius})
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    table = cells.pivot_table(index=list(KEYS), columns="measure", values="mean").reset_index()
    rows = []
    for sweep, settings in SWEEPS.items():
        for p, share, epsilon in settings:
            here = table[(table["sweep"] == sweep) & (table["n_columns"] == p)]
            here = here[np.isclose(here["share"], share) & np.isclose(here["epsilon"], epsilon)]
            for n in N_ROWS:
                cell = here[here["n_rows"] == n].iloc[0]
                rows.append([p, f"{share:.0%}", f"{epsilon:g}", f"{n:,}", *(number(cell[name]) for name in ESTIMATES)])
    apart = (table["thresholded"] - table["diagonal"]).abs().groupby(table["n_rows"]).max()
    by_columns = table[table["sweep"] == "columns"]
    return {
        "table": markdown_table(["columns", "share", "epsilon", "rows", *ESTIMATES.values()], rows, left=0),
        "radius_lowest": f"{table['radius'].min():.1f}",
        "radius_highest": f"{table['radius'].max():.1f}",
        "apart_1000": f"{apart[1000] + 0.0005:.3f}",
        "apart_10000": f"{apart[10_000] + 0.0005:.3f}",
        "columns_50": number(by_columns.query("n_columns == 50 and n_rows == 1000")["thresholded"].iloc[0]),
        "columns_500": number(by_columns.query("n_columns == 500 and n_rows == 1000")["thresholded"].iloc[0]),
    }


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    figure = new_figure(9.0, 3.6)
    panels = figure.subplots(1, 3, sharey=True)
    for axes, (sweep, settings) in zip(panels, SWEEPS.items(), strict=True):
        for (p, share, epsilon), colour in zip(settings, (BLUE, ORANGE, GREEN, PINK), strict=True):
            here = cells[(cells["sweep"] == sweep) & (cells["n_columns"] == p)]
            here = here[np.isclose(here["share"], share) & np.isclose(here["epsilon"], epsilon)]
            label = f"{ {'share': share, 'columns': p, 'epsilon': epsilon}[sweep]:g}"
            for measure, style in (("thresholded", "-"), ("plain", ":")):
                line = here[here["measure"] == measure]
                axes.plot(
                    line["n_rows"], line["mean"], style, color=colour, lw=1.5, label=label if style == "-" else None
                )
        axes.set(xscale="log", yscale="log", xlabel="rows", title=TITLES[sweep])
        axes.legend(fontsize="small")
    panels[0].set_ylabel("relative error (spectral)")
    panels[1].plot([], [], "-", color=BLACK, label="algorithm 1")
    panels[1].plot([], [], ":", color=BLACK, label="no threshold")
    panels[1].legend(fontsize="small")
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("wang19_sweeps", KEYS, _jobs, _measure, _describe, _draw)
