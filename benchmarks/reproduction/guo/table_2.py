"""Table 2: AUC on real tables, by level of noise, with the printed epsilon and the guarantee that holds.

Where no graph is known, the truth is what the same rule finds without noise; for the ranking by evidence, as many of
its surest pairs without noise as the graphical lasso at the fixed lambda links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_bundle.base.errors import EstimationError
from dp_bundle.base.quoting import counted
from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, PINK, SKY, new_figure, save
from reproduction.guo.cases import CASES, Case, known_or_found, noisy_sample
from reproduction.guo.guarantees import figures_of
from reproduction.pieces import Piece
from reproduction.rules import area_under_curve, rank
from reproduction.setting import Setting, seed
from reproduction.simulation import noise_deviation
from reproduction.tables import LEVELS, level_name, markdown_table, mean_and_sd, number, short

PRINTED = Path(__file__).parents[1] / "printed" / "guo_table_2.csv"
COLUMNS = {
    "evidence": "evidence",
    "fixed": "fixed lambda",
    "paper": "error drop",
    "default": "default",
    "neighbourhood": "neighbourhood",
}
REAL = ("cell signalling", "Congress", "chickenpox", "soil")  # the grids are simulated
UNTUNED = ("evidence", "paper", "default", "neighbourhood")  # rules that take nothing from the printed table


def _jobs(setting: Setting) -> Iterator[tuple[str, tuple[str, ...], int, Path]]:
    for name, case in CASES.items():
        if setting.data is not None and setting.has(case.folder):
            for repetition in setting.repetitions():
                yield name, case.rules_of(1 if setting.quick else repetition), repetition, setting.data


def _measure(name: str, rules: tuple[str, ...], repetition: int, data: Path) -> list[dict[str, Any]]:
    """Return the records of one table under all levels of noise."""
    case = CASES[name]
    rows, known = case.load(name, data)
    rng = np.random.default_rng(seed("guo_table_2", name, repetition))
    truths = known_or_found(case, rows, known, rules)

    records = []
    for snr_db in LEVELS:
        sample = noisy_sample(case, rows, snr_db, rng)
        for rule, truth in truths.items():
            record: dict[str, Any] = {"data": name, "snr_db": snr_db, "rule": rule, "clean_edges": truth.sum()}
            if snr_db != "none" and rule == "evidence":
                figures = figures_of(rows, noise_deviation(rows, snr_db))
                record |= {"epsilon": figures.epsilon, "cell_mu": figures.cell_mu, "row_mu": figures.row_mu}
            try:
                found = rank(sample, rule, case.alpha)
            except EstimationError:
                records.append(record | {"solved": 0.0})
                continue
            record |= {"auc": area_under_curve(truth, found.scores), "solved": 1.0}
            if rule != "evidence":
                record |= {"alpha": found.alpha, "edges": found.edges.sum()}
            records.append(record)
    return records


def _printed() -> pd.DataFrame:
    """Return the printed table; what it calls 10 dB has the epsilon, and so the noise, of 0 dB."""
    printed = pd.read_csv(PRINTED, keep_default_na=False, dtype=str)
    printed["snr_db"] = printed["snr_db"].replace("10", "0")
    numbers = ["auc_mean", "auc_std"]
    return printed.astype(dict.fromkeys(numbers, float)).set_index(["dataset", "snr_db"])


def _cell(table: pd.DataFrame, name: str, snr_db: str, rule: str, measure: str) -> tuple[float, float]:
    place = (name, snr_db, rule, measure)
    return (table.loc[place, "mean"], table.loc[place, "sd"]) if place in table.index else (np.nan, np.nan)


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    printed, table = _printed(), cells.set_index(["data", "snr_db", "rule", "measure"]).sort_index()
    found, counts, below = {}, {"all": 0, "within": 0, "above": 0}, []
    for name, case in CASES.items():
        if name not in table.index:
            continue
        get = partial(_cell, table, name)
        aucs, details, missed = [], [], {}
        for snr_db in LEVELS:
            mean, sd, epsilon = _printed_cell(printed, case.printed, snr_db)
            ours = get(snr_db, "evidence", "auc")
            is_printed = not np.isnan(mean)
            counts["all"] += is_printed
            counts["above"] += round(ours[0], 2) >= mean
            counts["within"] += round(ours[0], 2) >= mean - 2 * sd - 1e-9
            if round(ours[0], 2) < mean - 2 * sd - 1e-9:
                missed[snr_db] = mean, sd
            rules = [mean_and_sd(*get(snr_db, rule, "auc")) for rule in COLUMNS if rule in case.rules]
            what = mean_and_sd(mean, sd if sd > 1e-9 else np.nan, 2) if is_printed else "not printed"
            aucs.append([level_name(snr_db), what, *rules])
            figures = [short(get(snr_db, "evidence", measure)[0]) for measure in ("epsilon", "cell_mu", "row_mu")]
            details.append([level_name(snr_db), epsilon, *figures, *_penalties(get, case, snr_db)])
        if missed:
            below.append(_missed(name, case, get, missed))
        titles = {rule: title for rule, title in COLUMNS.items() if rule in case.rules}
        fitted = [f"{title}: lambda; edges" for rule, title in titles.items() if rule != "evidence"]
        epsilons = ["epsilon, printed", "epsilon, ours", "cell mu", "row mu"]
        found[name] = {
            "aucs": markdown_table(["noise", "printed", *titles.values()], aucs),
            "details": markdown_table(["noise", *epsilons, *fitted], details),
        }
    mus = table.xs(("20", "evidence", "cell_mu"), level=["snr_db", "rule", "measure"])["mean"]
    least_and_largest = {"least_mu": short(mus.min()), "largest_mu": short(mus.max())}
    return {"data": found, "below": below, **_chosen_elsewhere(table, printed), **least_and_largest, **counts}


def _missed(
    name: str,
    case: Case,
    get: Callable[[str, str, str], tuple[float, float]],
    missed: Mapping[str, tuple[float, float]],
) -> dict[str, str]:
    """Return the cells of a table that evidence misses, how many neighbourhood selection meets, and those none does."""
    meets = {
        rule: [
            snr_db
            for snr_db, (mean, sd) in missed.items()
            if round(get(snr_db, rule, "auc")[0], 2) >= mean - 2 * sd - 1e-9
        ]
        for rule in case.rules
    }
    nobody = [level_name(level) for level in missed if not any(level in met for met in meets.values())]
    gap = max(mean - get(snr_db, "evidence", "auc")[0] for snr_db, (mean, _) in missed.items())
    return {
        "name": name,
        "cells": counted(len(missed), "cell"),
        "gap": f"{gap:.2f}",
        "neighbourhood": str(len(meets["neighbourhood"])),
        "nobody": ", ".join(nobody) or "none",
    }


def _chosen_elsewhere(table: pd.DataFrame, printed: pd.DataFrame) -> dict[str, Any]:
    """Return which rule does best on the other real tables, and its mean AUC over the printed levels on each table.

    A rule that finds nothing, with noise or without, has an AUC of 0.5.
    """
    present = [name for name in REAL if name in table.index]
    means = pd.DataFrame(0.5, index=present, columns=[*UNTUNED], dtype=float)
    theirs = {}
    for name in present:
        levels = printed.loc[CASES[name].printed].index
        theirs[name] = printed.loc[CASES[name].printed, "auc_mean"].mean()
        for rule in UNTUNED:
            found = [_cell(table, name, level, rule, "auc")[0] for level in levels]
            means.loc[name, rule] = np.nan_to_num(found, nan=0.5).mean()

    rows, chosen = [], []
    for name in present:
        best = means.drop(index=name).mean().idxmax()
        chosen.append(best)
        rows.append([name, COLUMNS[best], *(f"{means.loc[name, rule]:.3f}" for rule in UNTUNED), f"{theirs[name]:.3f}"])
    of_all = [f"{means[rule].mean():.3f}" for rule in UNTUNED]
    rows.append(["mean of all", "", *of_all, f"{np.mean([*theirs.values()]):.3f}"])
    head = ["table", "best on the others", *(COLUMNS[rule] for rule in UNTUNED), "printed"]
    return {
        "elsewhere": markdown_table(head, rows, left=2),
        "chosen": sorted({COLUMNS[rule] for rule in chosen}),
    }


def _printed_cell(printed: pd.DataFrame, column: str, snr_db: str) -> tuple[float, float, str]:
    """Return printed mean, standard deviation and epsilon."""
    if (column, snr_db) not in printed.index:
        return np.nan, np.nan, "not printed"
    mean, sd, epsilon = printed.loc[(column, snr_db), ["auc_mean", "auc_std", "epsilon_as_printed"]]
    return mean, sd, epsilon or "-"


def _penalties(get: Callable[[str, str, str], tuple[float, float]], case: Case, snr_db: str) -> list[str]:
    """Return lambda and number of edges of every rule that fits a graph."""
    fitted = [rule for rule in COLUMNS if rule in case.rules and rule != "evidence"]
    return [f"{short(get(snr_db, rule, 'alpha')[0])}; {number(get(snr_db, rule, 'edges')[0], 0)}" for rule in fitted]


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    printed = _printed()
    figure = new_figure(10.5, 5.4)
    panels = figure.subplots(2, 4, sharey=True, sharex=True).ravel()
    panels[-1].set_visible(False)
    places = {level: index for index, level in enumerate(LEVELS)}
    styles = {
        "fixed": (BLUE, "o"), "paper": (ORANGE, "s"), "default": (GREEN, "^"), "evidence": (PINK, "d"),
        "neighbourhood": (SKY, "v"),
    }  # fmt: skip
    names = {"fixed": "fixed lambda", "paper": "error drop"}
    for axes, (name, case) in zip(panels, CASES.items(), strict=False):
        for rule, (colour, marker) in styles.items():
            here = cells.query("data == @name and rule == @rule and measure == 'auc'")
            axes.errorbar(
                here["snr_db"].map(places), here["mean"], here["sd"], color=colour, marker=marker, ms=4, lw=1.4,
                capsize=2, label=names.get(rule, rule),
            )  # fmt: skip
        there = printed.loc[case.printed]
        axes.plot([places[level] for level in there.index], there["auc_mean"], "x", color=BLACK, ms=7, label="printed")
        axes.set_xticks(range(len(LEVELS)), LEVELS)
        axes.set_title(name)
    for axes in panels[3:-1]:
        axes.set_xlabel("signal to noise (dB)")
        axes.tick_params(labelbottom=True)
    for axes in panels[::4]:
        axes.set_ylabel("AUC")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    save(figure, stem.with_suffix(".png"))
    _draw_privacy(cells, stem.with_name(f"{stem.name}-privacy.png"))


def _draw_privacy(cells: pd.DataFrame, path: Path) -> None:
    """Draw AUC against the mu of one cell."""
    figure = new_figure(8.0, 3.8)
    axes = figure.subplots()
    evidence = cells[cells["rule"] == "evidence"].pivot(index=["data", "snr_db"], columns="measure", values="mean")
    for name, marker in zip(CASES, "osd^vPX", strict=True):
        here = evidence.loc[name].dropna(subset="cell_mu").sort_values("cell_mu")
        axes.plot(here["cell_mu"], here["auc"], marker=marker, ms=4, lw=1.4, label=name)
    axes.axvspan(axes.get_xlim()[0], 6.0, color=GREEN, alpha=0.12, lw=0)
    axes.text(2.2, 0.98, "mu < 6", va="top", fontsize=9, transform=axes.get_xaxis_transform())
    axes.set(xscale="log", xlim=(2.0, 1e7), xlabel="mu of one cell (bounds as wide as the data)", ylabel="AUC")
    axes.set_title("Privacy and utility: ranked by evidence, noise from 0 dB (left) to 100 dB (right)")
    figure.legend(loc="outside right center")
    save(figure, path)


PIECE = Piece("guo_table_2", ("data", "snr_db", "rule"), _jobs, _measure, _describe, _draw)
