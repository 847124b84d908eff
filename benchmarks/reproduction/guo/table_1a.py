"""Table 1(a): AUC on rows of a chain of 50 columns, by number of rows and level of noise.

The truth is what the same rule finds in the rows before the noise: the paper takes the graph of the vanilla
graphical lasso for the truth. A ranking has no graph: its truth is as many of its surest pairs without noise as the
graphical lasso at the fixed lambda links. Beside it, the AUC whose truth is the chain that made the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_bundle.base.errors import EstimationError
from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, PINK, new_figure, save
from reproduction.pieces import Piece
from reproduction.rules import above, area_under_curve, rank, read_rows, surest
from reproduction.setting import Setting, seed
from reproduction.simulation import add_gaussian_noise, chain_precision, gaussian_rows, noise_deviation
from reproduction.tables import LEVELS, level_name, markdown_table, mean_and_sd, number

N_COLUMNS, ALPHA = 50, 0.5
N_ROWS = (50, 500, 5000)
QUICK_LEVELS = ("none", "20", "0")
RULES = {"fixed": "lambda = 0.5", "paper": "error drop", "default": "default", "evidence": "evidence"}
COLUMNS, FITTED = ("evidence", "fixed", "paper", "default"), ("fixed", "paper", "default")
PRINTED = Path(__file__).parents[1] / "printed" / "guo_table_1a.csv"


def _jobs(setting: Setting) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    levels = QUICK_LEVELS if setting.quick else LEVELS
    return ((n_rows, repetition, levels) for n_rows in N_ROWS for repetition in setting.repetitions())


def _measure(n_rows: int, repetition: int, levels: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the records of one table of rows under all levels of noise."""
    rng = np.random.default_rng(seed("guo_table_1a", n_rows, repetition))
    theta = chain_precision(N_COLUMNS)
    rows, chain = gaussian_rows(n_rows, theta, rng), above(theta) != 0.0
    clean_sample = read_rows(rows, 0.0, folds=True)
    clean = {rule: rank(clean_sample, rule, ALPHA) for rule in RULES}
    truths = {rule: found.edges for rule, found in clean.items()}
    truths["evidence"] = surest(clean["evidence"].scores, int(truths["fixed"].sum()))

    records = []
    for snr_db in levels:
        sigma = noise_deviation(rows, snr_db)
        sample = read_rows(add_gaussian_noise(rows, sigma, rng), sigma**2, folds=True)
        for rule, truth in truths.items():
            record: dict[str, Any] = {"n_rows": n_rows, "snr_db": snr_db, "rule": rule, "clean_edges": truth.sum()}
            try:
                found = rank(sample, rule, ALPHA)
            except EstimationError:
                records.append(record | {"solved": 0.0})
                continue
            record |= {"auc": area_under_curve(truth, found.scores), "solved": 1.0}
            record |= {"chain_auc": area_under_curve(chain, found.scores)}
            if rule != "evidence":
                record |= {"alpha": found.alpha, "edges": found.edges.sum()}
            records.append(record)
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    printed = pd.read_csv(PRINTED, keep_default_na=False).astype({"snr_db": str}).set_index(["n", "snr_db"])
    table = cells.set_index(["n_rows", "snr_db", "rule", "measure"]).sort_index()

    def cell(n_rows: int, snr_db: str, rule: str, measure: str, digits: int = 3) -> str:
        place = (n_rows, snr_db, rule, measure)
        if place not in table.index:
            return "-"
        found = table.loc[place]
        return mean_and_sd(found["mean"], found["sd"], digits) if measure == "auc" else number(found["mean"], digits)

    rows, details, n_printed, n_above, largest, below_chain = [], [], 0, 0, 0.0, []
    for n_rows in N_ROWS:
        for snr_db in (level for level in LEVELS if (n_rows, level) in table.index):
            line, shown = [n_rows, level_name(snr_db)], "not printed"
            if (n_rows, snr_db) in printed.index:
                mean, sd = (float(each) for each in printed.loc[(n_rows, snr_db)])
                shown = mean_and_sd(mean, sd)
                ours = table.loc[(n_rows, snr_db)]["mean"]
                n_printed += 1
                n_above += ours[("evidence", "auc")] >= mean
                if ours[("evidence", "chain_auc")] < mean:
                    chains = [cell(n_rows, level, "evidence", "chain_auc") for level in (snr_db, "none")]
                    below_chain.append([*line, shown, *chains])
                largest = max(largest, abs(ours[("fixed", "auc")] - mean))
            rows.append([*line, shown, *(cell(n_rows, snr_db, rule, "auc") for rule in COLUMNS)])
            places = [(n_rows, snr_db, rule) for rule in FITTED]
            alphas = [f"{cell(*place, 'alpha', 2)}; {cell(*place, 'edges', 0)}" for place in places]
            chains = [cell(n_rows, snr_db, rule, "chain_auc") for rule in ("default", "evidence")]
            details.append([*line, *alphas, *chains])
    head = [f"{RULES[rule]}: lambda; edges" for rule in FITTED]
    return {
        "table": markdown_table(["rows", "noise", "printed", *(RULES[rule] for rule in COLUMNS)], rows, left=2),
        "details": markdown_table(["rows", "noise", *head, "chain, default", "chain, evidence"], details, left=2),
        "n_above": int(n_above),
        "n_printed": n_printed,
        "n_chain": n_printed - len(below_chain),
        "below_chain": markdown_table(["rows", "noise", "printed", "chain", "chain, no noise"], below_chain, left=2),
        "largest": number(largest, 3),
    }


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    printed = pd.read_csv(PRINTED, keep_default_na=False).astype({"snr_db": str, "auc_mean": float})
    figure = new_figure(9.0, 3.6)
    panels = figure.subplots(1, 3, sharey=True)
    places = {level: index for index, level in enumerate(LEVELS)}
    styles = {"fixed": (BLUE, "o"), "paper": (ORANGE, "s"), "default": (GREEN, "^"), "evidence": (PINK, "d")}
    for axes, n_rows in zip(panels, N_ROWS, strict=True):
        for rule, (colour, marker) in styles.items():
            here = cells.query("n_rows == @n_rows and rule == @rule and measure == 'auc'")
            axes.errorbar(
                here["snr_db"].map(places), here["mean"], here["sd"], color=colour, marker=marker, ms=4, lw=1.4,
                capsize=2, label=RULES[rule],
            )  # fmt: skip
        there = printed[printed["n"] == n_rows]
        axes.plot(there["snr_db"].map(places), there["auc_mean"], "x", color=BLACK, ms=7, label="printed")
        axes.set_xticks(range(len(LEVELS)), LEVELS)
        axes.set(title=f"{n_rows} rows", xlabel="signal to noise (dB)")
    panels[0].set_ylabel("AUC against the clean graph")
    panels[0].legend(loc="lower left")
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("guo_table_1a", ("n_rows", "snr_db", "rule"), _jobs, _measure, _describe, _draw)
