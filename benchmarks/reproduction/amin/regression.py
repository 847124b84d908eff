"""Figures 3 to 5: ridge regression from one private covariance, and by output perturbation (Chaudhuri et al. 2011).

The solution of ``min |X w - y|^2 + alpha |w|^2`` is followed by noise of density proportional to
``exp(-epsilon |b| / sensitivity)``. The paper leaves the sensitivity open: Chaudhuri et al. ask for a loss whose slope
is at most 1, and that of squares has no bound. Here it follows from ``alpha |w|^2 <= |y|^2 <= n`` at the minimum: the
gradient of a row is at most 2 (|w| + 1), the objective is strongly convex with 2 alpha, and a replaced row moves the
solution by at most ``2 (sqrt(n / alpha) + 1) / alpha``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_publish.accounting.strength import PureDP
from dp_publish.covariance.exact_moments import moments_of_batch
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.scaling import scaling_for
from dp_publish.sampling.keystream import insecure_keystream
from printed_forms import PrintedEigenvectors, insecure_release
from reproduction.amin.tables import REAL, rows_of
from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, new_figure, save
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.simulation import Floats
from reproduction.tables import markdown_table, short

EPSILONS = (0.1, 0.5, 1.0, 4.0)
ALPHAS = (0.1, 1.0, 10.0, 100.0, 1000.0)
TABLES = ("synthetic-10-1000", "synthetic-10-10000", "synthetic-10-50000", "wine", "airfoil")
METHODS = {"AD": "covariance (AD)", "ours": "covariance (dpgraph)", "P": "output", "P_split": "output, all targets"}


def _jobs(setting: Setting) -> Iterator[tuple[str, int, str]]:
    tables = [table for table in TABLES if not REAL.get(table) or setting.has(REAL[table])]
    return ((table, index, str(setting.data)) for table in tables for index in setting.repetitions(20, 4))


def _measure(table: str, repetition: int, data: str) -> list[dict[str, Any]]:
    """Return mean squared errors on held-out rows at every epsilon and alpha: of one column, and of all in turn."""
    rng = np.random.default_rng(seed("amin_regression", table, repetition))
    rows = rng.permutation(rows_of(table, Path(data), rng))
    training, test = np.split(rows, [len(rows) * 4 // 5])
    n, d = training.shape
    moments = moments_of_batch(training, scaling_for([(-1.0, 1.0)] * d, radius=1.0, with_mean=False))

    records = []
    for index, epsilon in enumerate(EPSILONS):
        private = {
            name: insecure_release(kind, moments, PureDP(epsilon), insecure_keystream(1000 * repetition + index)).matrix
            for name, kind in (("AD", PrintedEigenvectors), ("ours", Eigenvectors))
        }
        for alpha in ALPHAS:
            record: dict[str, Any] = {"table": table, "epsilon": epsilon, "alpha": alpha}
            for name, matrix in (private | {"no_noise": moments.matrix}).items():
                losses = [_loss(_weights(matrix, alpha, target), test, target) for target in range(d)]
                record |= {name: losses[0], f"{name}_all": float(np.mean(losses))}
            record["P"] = _loss(_perturbed(moments.matrix, alpha, 0, n, epsilon, rng), test, 0)
            split = [_loss(_perturbed(moments.matrix, alpha, t, n, epsilon / d, rng), test, t) for t in range(d)]
            records.append(record | {"P_split_all": float(np.mean(split))})
    return records


def _weights(matrix: Floats, alpha: float, target: int) -> Floats:
    """Return the weights of all other columns, from sums of products; negative eigenvalues are rounded up to zero."""
    others = np.arange(len(matrix)) != target
    eigenvalues, vectors = np.linalg.eigh(matrix[np.ix_(others, others)])
    inverse = 1.0 / (np.maximum(eigenvalues, 0.0) + alpha)
    weights: Floats = (vectors * inverse) @ (vectors.T @ matrix[others, target])
    return weights


def _perturbed(matrix: Floats, alpha: float, target: int, n: int, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return the weights with noise in a uniform direction, of a Gamma distributed length."""
    weights = _weights(matrix, alpha, target)
    sensitivity = 2.0 * (math.sqrt(n / alpha) + 1.0) / alpha
    direction = rng.normal(size=len(weights))
    length = rng.gamma(len(weights), sensitivity / epsilon)
    return weights + length * direction / np.linalg.norm(direction)


def _loss(weights: Floats, test: Floats, target: int) -> float:
    """Return the mean squared error on rows that were not used."""
    return float(np.mean((np.delete(test, target, axis=1) @ weights - test[:, target]) ** 2))


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    means = cells.pivot_table(index=["table", "epsilon", "alpha"], columns="measure", values="mean")
    rows, spread = [], {"AD": [], "P": []}
    for (table, epsilon), here in means.groupby(level=["table", "epsilon"], sort=False):
        best = {name: here[name].min() for name in here}
        for name in spread:
            spread[name].append(here[name].max() / here[name].min())
        first = [short(best[name]) for name in ("no_noise", "AD", "ours", "P")]
        rows.append(
            [table, f"{epsilon:g}", *first, *(short(best[f"{name}_all"]) for name in ("AD", "ours", "P_split"))]
        )
    best_of = means.groupby(level=["table", "epsilon"]).min()
    ratio = best_of["P"] / best_of["AD"]
    head = ["table", "epsilon", "no noise", "AD", "dpgraph", "output", "all targets: AD", "dpgraph", "output"]
    return {
        "table": markdown_table(head, rows, left=2),
        "lowest": f"{ratio.min():.1f}",
        "highest": f"{ratio.max():.1f}",
        "median": f"{ratio.median():.1f}",
        "n_settings": len(best_of),
        "n_ad_wins": int((best_of["AD_all"] < best_of["P_split_all"]).sum()),
        "n_ours_wins": int((best_of["ours_all"] < best_of["P_split_all"]).sum()),
        "spread_covariance": f"{np.median(spread['AD']):,.1f}",
        "spread_output": f"{np.median(spread['P']):.1e}",
    }


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    found = [table for table in TABLES if table in set(cells["table"])]
    figure = new_figure(9.0, 3.2)
    panels = figure.subplots(1, len(found), sharey=True)
    for axes, table in zip(panels, found, strict=True):
        here = cells[cells["table"] == table]
        for name, colour in (("no_noise", BLACK), ("AD", BLUE), ("ours", GREEN), ("P", ORANGE)):
            best = here[here["measure"] == name].groupby("epsilon")["mean"].min()
            axes.plot(best.index, best, color=colour, marker="o", ms=3, label=METHODS.get(name, "no noise"))
        axes.set(xscale="log", yscale="log", xlabel="epsilon", title=table.replace("synthetic-10-", "n = "))
    panels[0].set_ylabel("mean squared error, best alpha")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("amin_regression", ("table", "epsilon", "alpha"), _jobs, _measure, _describe, _draw)
