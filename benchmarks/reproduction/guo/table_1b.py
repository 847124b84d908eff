"""Table 1(b): AUC on 10,000 rows of 1000 columns, by the share of zeros in the precision matrix and level of noise.

The truth is the precision matrix that made the rows. `inverse` is the debiased
covariance's plain inverse, and `default`, which takes longer, is run at one level in a part of the repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, PINK, new_figure, save
from reproduction.pieces import Piece
from reproduction.rules import above, area_under_curve, rank, read_rows
from reproduction.setting import Setting, seed
from reproduction.simulation import add_gaussian_noise, gaussian_rows, noise_deviation, random_precision
from reproduction.tables import LEVELS, level_name, markdown_table, mean_and_sd, number

N_COLUMNS, N_ROWS = 1000, 10_000
SPARSITIES = (99, 98, 95, 90)
PRINTED = Path(__file__).parents[1] / "printed" / "guo_table_1b.csv"
DEFAULT_LEVEL, DEFAULT_REPETITIONS = "20", 3  # a fit takes up to ten seconds
OF_GRAPHS = (("alpha", 4), ("edges", 0), ("precision", 4), ("recall", 4), ("auc", 4))
QUICK_LEVELS = ("none", "20", "0")
DENSE, PAIR_LEVELS = (95, 90), ("none", "20")  # where it matters what zeros are a share of


def _jobs(setting: Setting) -> Iterator[tuple[int, str, int, tuple[str, ...]]]:
    levels, repetitions = QUICK_LEVELS if setting.quick else LEVELS, setting.repetitions()
    for sparsity in SPARSITIES:
        yield from ((sparsity, "entries", repetition, levels) for repetition in repetitions)
    for sparsity in () if setting.quick else DENSE:
        yield from ((sparsity, "pairs", repetition, PAIR_LEVELS) for repetition in repetitions)


def _measure(sparsity: int, zeros_of: str, repetition: int, levels: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the records of one model under all levels of noise."""
    reading = [] if zeros_of == "entries" else [zeros_of]
    rng = np.random.default_rng(seed("guo_table_1b", *reading, sparsity, repetition))
    theta = random_precision(N_COLUMNS, sparsity / 100, rng, zeros_of)
    rows, truth = gaussian_rows(N_ROWS, theta, rng), above(theta) != 0.0

    records = []
    for snr_db in levels:
        sigma = noise_deviation(rows, snr_db)
        sample = read_rows(add_gaussian_noise(rows, sigma, rng), sigma**2)
        rules = ["evidence"]
        if snr_db == DEFAULT_LEVEL and zeros_of == "entries" and repetition < DEFAULT_REPETITIONS:
            rules.append("default")
        for rule in rules:
            found = rank(sample, rule)
            record: dict[str, Any] = {"sparsity": sparsity, "zeros_of": zeros_of, "snr_db": snr_db, "rule": rule}
            record["auc"] = area_under_curve(truth, found.scores)
            if rule == "default":
                edges = found.edges
                hits = float((edges & truth).sum())
                record |= {"alpha": found.alpha, "edges": edges.sum()}
                record |= {"precision": hits / edges.sum() if edges.any() else np.nan, "recall": hits / truth.sum()}
            records.append(record)
        inverse = np.abs(np.linalg.inv(sample.pooled.covariance))
        record = {"sparsity": sparsity, "zeros_of": zeros_of, "snr_db": snr_db, "rule": "inverse"}
        records.append(record | {"auc": area_under_curve(truth, inverse)})
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    printed = pd.read_csv(PRINTED, keep_default_na=False).astype({"snr_db": str})
    printed = printed.set_index(["sparsity_percent", "snr_db"])
    auc = cells[cells["measure"] == "auc"].set_index(["zeros_of", "sparsity", "snr_db", "rule"]).sort_index()
    of_pairs = _read_pairs(auc.loc["pairs"], printed) if "pairs" in auc.index else ""
    auc = auc.loc["entries"]
    rows, n_above = [], 0
    for sparsity in SPARSITIES:
        for snr_db in (level for level in LEVELS if (sparsity, level, "evidence") in auc.index):
            ours = {rule: auc.loc[(sparsity, snr_db, rule)] for rule in ("evidence", "inverse")}
            line = [f"{sparsity} %", level_name(snr_db)]
            if (sparsity, snr_db) in printed.index:
                mean, sd = printed.loc[(sparsity, snr_db)]
                line.append(mean_and_sd(float(mean), float(sd), 4))
                n_above += ours["evidence"]["mean"] >= float(mean)
            else:
                line.append("not printed")
            rows.append([*line, *(mean_and_sd(found["mean"], found["sd"], 4) for found in ours.values())])

    default = cells[cells["rule"] == "default"].set_index(["sparsity", "measure"])
    graphs = []
    for sparsity in SPARSITIES:
        shown = [mean_and_sd(*default.loc[(sparsity, name), ["mean", "sd"]], digits) for name, digits in OF_GRAPHS]
        graphs.append([f"{sparsity} %", level_name(DEFAULT_LEVEL), *shown])
    return {
        "table": markdown_table(["zeros", "noise", "printed", "evidence", "plain inverse"], rows, left=2),
        "graphs": markdown_table(["zeros", "noise", "lambda", "edges", "true", "found", "AUC"], graphs, left=2),
        "n_graphs": int(default["repetitions"].max()),
        "edges_90": number(default.loc[(90, "edges"), "mean"], 0),
        "found_98": number(default.loc[(98, "recall"), "mean"], 2),
        "of_pairs": of_pairs,
        "n_above": int(n_above),
        "n_printed": len(printed),
    }


def _read_pairs(auc: pd.DataFrame, printed: pd.DataFrame) -> str:
    """Return a table of the other reading of sparsity."""
    rows = []
    for sparsity in DENSE:
        for snr_db in PAIR_LEVELS:
            ours = [auc.loc[(sparsity, snr_db, rule), ["mean", "sd"]] for rule in ("evidence", "inverse")]
            mean = float(printed.loc[(sparsity, snr_db), "auc_mean"])
            rows.append(
                [f"{sparsity} %", level_name(snr_db), number(mean, 4), *(mean_and_sd(*each, 4) for each in ours)]
            )
    return markdown_table(["zeros", "noise", "printed", "evidence", "plain inverse"], rows, left=2)


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    printed = pd.read_csv(PRINTED, keep_default_na=False).astype({"snr_db": str, "auc_mean": float})
    figure = new_figure(8.0, 3.8)
    axes = figure.subplots()
    places = {level: index for index, level in enumerate(LEVELS)}
    for sparsity, colour in zip(SPARSITIES, (BLUE, GREEN, ORANGE, PINK), strict=True):
        here = cells.query(
            "sparsity == @sparsity and zeros_of == 'entries' and rule == 'evidence' and measure == 'auc'"
        )
        axes.plot(here["snr_db"].map(places), here["mean"], "o-", ms=4, color=colour, label=f"{sparsity} % zeros")
        there = printed[printed["sparsity_percent"] == sparsity]
        axes.plot(there["snr_db"].map(places), there["auc_mean"], "x", color=BLACK, ms=7)
    axes.plot([], [], "x", color=BLACK, ms=7, label="printed")
    axes.set_xticks(range(len(LEVELS)), LEVELS)
    axes.set(xlabel="signal to noise (dB)", ylabel="AUC", title="1000 columns, 10,000 rows, ranked by evidence")
    figure.legend(loc="outside right center")
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("guo_table_1b", ("sparsity", "zeros_of", "snr_db", "rule"), _jobs, _measure, _describe, _draw)
