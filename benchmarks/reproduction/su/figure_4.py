"""Figure 4: the graph of cell signalling at two penalties, without noise and with it, its nodes in the same places.

At these penalties the measured values have no link, standardised or not; their logarithms, centred, have. So these are
taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_bundle.base.errors import NoSolutionError
from dp_learn import graphical_lasso
from dp_learn.output.network import place_nodes
from reproduction.data_sets import cell_signalling
from reproduction.figures import BLACK, BLUE, ORANGE, new_figure, save
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.simulation import into_the_ball, symmetric_noise
from reproduction.su.models import edges_of, printed_sigma
from reproduction.tables import markdown_table, number

ALPHAS, EPSILONS, DELTA = (0.0015, 0.002), ("none", "1", "2"), 0.001
PAIR, CELL = ["one", "other"], ["alpha", "epsilon"]
NAMES = ("Raf", "Mek", "PLCg", "PIP2", "PIP3", "Erk", "Akt", "PKA", "PKC", "p38", "JNK")  # the columns' order


def _jobs(setting: Setting) -> Iterator[tuple[int, Path]]:
    if setting.data is not None:
        yield from ((repetition, setting.data) for repetition in setting.repetitions(20, 5))


def _measure(repetition: int, data: Path) -> list[dict[str, Any]]:
    """Return for every pair whether it is linked, in the validated network and under each penalty and epsilon."""
    rng = np.random.default_rng(seed("su_figure_4", repetition))
    values, network = cell_signalling(data, logarithms=True)
    rows, known = into_the_ball(values), edges_of(network.astype(float))
    sample, pairs = rows.T @ rows / len(rows), np.transpose(np.triu_indices(len(network), 1))

    records: list[dict[str, Any]] = []
    for epsilon in EPSILONS:
        sigma = 0.0 if epsilon == "none" else printed_sigma(len(rows), float(epsilon), DELTA)
        noisy = sample + symmetric_noise(len(sample), sigma, rng)
        for alpha in ALPHAS:
            try:
                linked, solved = edges_of(graphical_lasso(noisy, alpha, tol=1e-6).precision), 1.0
            except NoSolutionError:
                linked, solved = np.zeros(len(pairs)), 0.0
            for (one, other), is_known, is_linked in zip(pairs, known, linked, strict=True):
                record = {"alpha": alpha, "epsilon": epsilon, "one": one, "other": other, "known": is_known}
                records.append(record | {"solved": solved, **({"linked": is_linked} if solved else {})})
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    table = cells.pivot_table(index=[*CELL, *PAIR], columns="measure", values="mean")
    rows = []
    for alpha, epsilon in product(ALPHAS, EPSILONS):
        here, clean = table.loc[(alpha, epsilon)], table.loc[(alpha, "none")]
        linked, was = here["linked"], clean["linked"] == 1.0
        counts = (linked.sum(), linked[was].sum(), linked[~was].sum(), linked[here["known"] == 1.0].sum())
        name = "no noise" if epsilon == "none" else f"epsilon {epsilon}"
        rows.append([f"{alpha:g}", name, f"{100 * here['solved'].iloc[0]:.0f} %", *(number(n, 1) for n in counts)])
    head = ["lambda", "noise", "has a solution", "links", "of those without noise", "others", "in the network"]
    return {"table": markdown_table(head, rows, left=2)}


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    linked = cells[cells["measure"] == "linked"].set_index([*CELL, *PAIR])["mean"].sort_index()
    clean = {alpha: _links(linked, alpha, "none") for alpha in ALPHAS}
    ends = np.array(sorted(clean[ALPHAS[0]].index))
    places = place_nodes(len(NAMES), ends)

    figure = new_figure(9.0, 6.0)
    panels = figure.subplots(len(ALPHAS), len(EPSILONS), sharex=True, sharey=True)
    for (alpha, epsilon), axes in zip(product(ALPHAS, EPSILONS), panels.ravel(), strict=True):
        for pair, share in _links(linked, alpha, epsilon).items():
            known = pair in clean[alpha].index
            axes.plot(
                *places[list(pair)].T, color=BLUE if known else ORANGE, lw=0.2 + 2.0 * share, alpha=share, zorder=1
            )
        axes.scatter(*places.T, s=14, color=BLACK, zorder=2)
        for name, place in zip(NAMES, places, strict=True):
            axes.annotate(name, place, xytext=(4, 4), textcoords="offset points", fontsize=7, zorder=3)
        axes.set_title(f"lambda {alpha:g}, " + ("no noise" if epsilon == "none" else f"epsilon {epsilon}"), fontsize=9)
        axes.set_axis_off()
    save(figure, stem.with_suffix(".png"))


def _links(linked: pd.Series, alpha: float, epsilon: str) -> pd.Series:
    """Return the pairs that are ever linked, with the share of draws in which they are."""
    here = linked.loc[(alpha, epsilon)]
    return here[here > 0.0]


PIECE = Piece("su_figure_4", (*CELL, *PAIR), _jobs, _measure, _describe, _draw, needs=("sachs",))
