"""Figure 3: ROC curves, ranked by evidence, at several levels of noise; the truths are those of table 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_curve

from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, PINK, new_figure, save
from reproduction.guo.cases import CASES, known_or_found, noisy_sample
from reproduction.pieces import Piece
from reproduction.rules import above, rank
from reproduction.setting import Setting, seed

SHOWN = {"none": BLACK, "20": BLUE, "10": GREEN, "0": ORANGE}
FALSE_ALARMS = np.linspace(0.0, 1.0, 26)


def _jobs(setting: Setting) -> Iterator[tuple[str, int, Path]]:
    for name, case in CASES.items():
        if setting.data is not None and setting.has(case.folder):
            yield from ((name, repetition, setting.data) for repetition in setting.repetitions(5))


def _measure(name: str, repetition: int, data: Path) -> list[dict[str, Any]]:
    case = CASES[name]
    rows, known = case.load(name, data)
    truth = known_or_found(case, rows, known)["evidence"]
    rng = np.random.default_rng(seed("guo_figure_3", name, repetition))
    records = []
    for snr_db in SHOWN:
        scores = above(rank(noisy_sample(case, rows, snr_db, rng), "evidence").scores)
        false_alarms, hits, _ = roc_curve(truth, scores)
        at = np.interp(FALSE_ALARMS, false_alarms, hits)
        records += [
            {"data": name, "snr_db": snr_db, "false_alarms": round(x, 2), "hits": y}
            for x, y in zip(FALSE_ALARMS, at, strict=True)
        ]
    return records


def _describe(_: pd.DataFrame) -> Mapping[str, Any]:
    return {}


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    figure = new_figure(10.5, 5.6)
    panels = figure.subplots(2, 4, sharey=True, sharex=True).ravel()
    panels[-1].set_visible(False)
    for axes, name in zip(panels, CASES, strict=False):
        for snr_db, colour in SHOWN.items():
            here = cells.query("data == @name and snr_db == @snr_db")
            label = "no noise" if snr_db == "none" else f"{snr_db} dB"
            axes.plot(here["false_alarms"], here["mean"], color=colour, lw=1.6, label=label)
        axes.plot([0, 1], [0, 1], color=PINK, lw=1, ls=":", label="chance")
        axes.set_title(name)
        axes.set_aspect("equal")
    for axes in panels[3:-1]:
        axes.set_xlabel("share of false pairs listed")
        axes.tick_params(labelbottom=True)
    for axes in panels[::4]:
        axes.set_ylabel("share of true pairs listed")
    panels[0].legend(loc="lower right")
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("guo_figure_3", ("data", "snr_db", "false_alarms"), _jobs, _measure, _describe, _draw)
