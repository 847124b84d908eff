"""Figures 1 and 2: the error of private covariances by epsilon, on three tables and on the paper's generator.

Vectors are drawn in floating point, by the law of a release. The paper rounds the eigenvalues of every covariance into
[0, n], and so does this. Gaussian noise is calibrated by the exact curve; beside its delta it has the paper's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dp_publish.accounting.strength import ApproximateDP, GaussianDP, PureDP
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.scaling import scaling_for
from dp_publish.sampling.keystream import Keystream, insecure_keystream
from printed_forms import (
    OneVariance,
    PrintedEigenvectors,
    PrintedKapralovTalwar,
    PrintedLaplace,
    PrintedUniformEigenvectors,
    insecure_release,
    release,
)
from reproduction.amin.tables import REAL, SCALINGS, rows_of
from reproduction.figures import BLACK, BLUE, GREEN, ORANGE, PINK, SKY, new_figure, save
from reproduction.pieces import Piece
from reproduction.setting import Setting, seed
from reproduction.simulation import Floats
from reproduction.tables import markdown_table, short

EPSILONS = (0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
GENERATED = tuple(f"synthetic-{d}-{n}" for d in (10, 100) for n in (1000, 10_000, 50_000))
SHOWN = (*REAL, *GENERATED)
RESCALED = tuple(f"{table}, {scaling}" for table in ("wine", "airfoil") for scaling in SCALINGS)
TABLES = (*SHOWN, *RESCALED)
Draw = Callable[[ExactMoments, float, Keystream], NoisyMoments]


def _pure(kind: Any) -> Draw:
    return lambda moments, epsilon, rng: insecure_release(kind, moments, PureDP(epsilon), rng)


def _gaussian(delta: float) -> Draw:
    def draw(moments: ExactMoments, epsilon: float, rng: Keystream) -> NoisyMoments:
        return release(OneVariance, moments, GaussianDP(ApproximateDP(epsilon, delta).mu), rng=rng)

    return draw


MECHANISMS: dict[str, Draw] = {
    "AD": _pure(PrintedEigenvectors),
    "IT-U": _pure(PrintedUniformEigenvectors),
    "KT": _pure(PrintedKapralovTalwar),
    "L": _pure(PrintedLaplace),
    "G-3": _gaussian(1e-3),
    "G-10": _gaussian(1e-10),
    "ours": _pure(Eigenvectors),
}
WORDS = {"ours": "dpgraph's eigenvectors"}


def _jobs(setting: Setting) -> Iterator[tuple[str, int, str]]:
    for table in TABLES:
        needed = REAL.get(table.split(", ")[0])
        if needed and not setting.has(needed):
            continue
        is_wide = table == "adult" or "-100-" in table
        repetitions = setting.repetitions(3, 0) if is_wide else setting.repetitions(10 if table in RESCALED else 50, 5)
        yield from ((table, index, str(setting.data)) for index in repetitions)


def _measure(table: str, repetition: int, data: str) -> list[dict[str, Any]]:
    """Return the normalised errors of every mechanism at every epsilon on one table."""
    words = ("amin_errors", table, repetition)
    rows = rows_of(table, Path(data), np.random.default_rng(seed(*words)))
    moments = moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * rows.shape[1], radius=1.0, with_mean=False))
    exact = moments.matrix

    records = []
    for epsilon in EPSILONS:
        record: dict[str, Any] = {"table": table, "epsilon": epsilon}
        for index, (name, draw) in enumerate(MECHANISMS.items()):
            stream = insecure_keystream(seed(*words, epsilon, index)[0] % 2**31 + 1000 * repetition + index)
            noisy = _into_range(draw(moments, epsilon, stream).matrix, len(rows))
            record[name] = float(np.linalg.norm(noisy - exact) / len(rows))
            if name in ("AD", "KT", "L"):
                record[f"rank2_{name}"] = float(np.linalg.norm(_rank(noisy, 2) - _rank(exact, 2)) / len(rows))
        zero = float(np.linalg.norm(exact) / len(rows))
        records.append(record | {"zero": zero, "theorem_2": _theorem_2(exact, epsilon) / len(rows)})
    return records


def _theorem_2(exact: Floats, epsilon: float) -> float:
    """Return theorem 2's bound for equal parts of epsilon, without the constants and logarithms that it leaves out."""
    d = len(exact)
    return float(np.sqrt(d * np.trace(exact) * 2 * d / epsilon) + np.sqrt(d) * 2 / epsilon)


def _corollary_2(d: int, epsilon: float, zeta: float) -> float:
    """Return the least eigenvalue of corollary 2, which no table of fewer rows can have."""
    return 2 * d**3 / (epsilon * zeta**2) * float(np.log(d / (epsilon * zeta)))


def _into_range(matrix: Floats, n_rows: int) -> Floats:
    """Return the matrix with its eigenvalues rounded into [0, n]."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    rounded: Floats = (vectors * np.clip(eigenvalues, 0.0, n_rows)) @ vectors.T
    return rounded


def _rank(matrix: Floats, k: int) -> Floats:
    """Return the best approximation of rank k.

    It is not unique where eigenvalues are rounded to the same bound. A tilt of a millionth chooses, as rounding would,
    which differs between processors.
    """
    tilt = 1e-6 * np.linalg.norm(matrix) * np.diag(np.sqrt(np.arange(2.0, len(matrix) + 2.0)))
    _, vectors = np.linalg.eigh(matrix + tilt)
    best: Floats = (vectors[:, -k:] * np.linalg.eigvalsh(matrix)[-k:]) @ vectors[:, -k:].T
    return best


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    means = cells.pivot_table(index=["table", "epsilon"], columns="measure", values="mean")
    found = [table for table in TABLES if table in means.index.get_level_values(0)]
    rows = [
        [_title(table), f"{epsilon:g}", *(short(means.loc[(table, epsilon), name]) for name in (*MECHANISMS, "zero"))]
        for table in found
        for epsilon in EPSILONS
    ]
    head = ["table", "epsilon", *(WORDS.get(name, name) for name in MECHANISMS), "a matrix of zeros"]
    real = means.loc[[table for table in REAL if table in found]]
    rescaled = means.loc[[table for table in RESCALED if table in found]]
    beaten = real[["L", "KT", "G-3"]].lt(real["AD"], axis=0)
    rank = [
        [
            _title(table),
            f"{epsilon:g}",
            *(short(means.loc[(table, epsilon), f"rank2_{name}"]) for name in ("AD", "KT", "L")),
        ]
        for table in found
        for epsilon in (0.1, 1.0, 4.0)
    ]
    return {
        "table": markdown_table(head, rows, left=2),
        "rank_table": markdown_table(["table", "epsilon", "AD", "KT", "L"], rank, left=2),
        "n_real": len(real),
        "n_laplace_better": int(beaten["L"].sum()),
        "n_kt_better": int(beaten["KT"].sum()),
        "n_gaussian_better": int(beaten["G-3"].sum()),
        "n_rescaled": len(rescaled),
        "n_rescaled_gaussian_better": int((rescaled["G-3"] < rescaled["AD"]).sum()),
        "n_worse_than_zero": int((real["AD"] > real["zero"]).sum()),
        "theorem_lowest": f"{(means['IT-U'] / means['theorem_2']).min():.2f}",
        "theorem_highest": f"{(means['IT-U'] / means['theorem_2']).max():.2f}",
        "corollary_10": f"{_corollary_2(10, 1.0, 0.1):,.0f}",
        "corollary_100": f"{_corollary_2(100, 1.0, 0.1):.1e}",
        "ours_over_ad": f"{(means['ours'] / means['AD']).median():.2f}",
    }


def _title(table: str) -> str:
    if not table.startswith("synthetic"):
        return table
    d, n = table.split("-")[1:]
    return f"d = {d}, n = {int(n):,}"


def _draw(cells: pd.DataFrame, stem: Path) -> None:
    found = [table for table in SHOWN if table in set(cells["table"])]
    figure = new_figure(9.0, 8.4)
    panels = figure.subplots(3, 3, sharex=True).ravel()
    colours = dict(
        zip((*MECHANISMS, "zero"), (BLUE, SKY, ORANGE, PINK, GREEN, "#777777", BLACK, "#cccccc"), strict=True)
    )
    for axes, table in zip(panels, found, strict=False):
        for name, colour in colours.items():
            here = cells[(cells["table"] == table) & (cells["measure"] == name)]
            label = "zeros" if name == "zero" else WORDS.get(name, name)
            axes.plot(here["epsilon"], here["mean"], color=colour, lw=1.4, label=label)
        axes.set(xscale="log", yscale="log", title=_title(table))
    for axes in panels[-3:]:
        axes.set_xlabel("epsilon")
    for axes in panels[::3]:
        axes.set_ylabel("error / n (Frobenius)")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=8, fontsize="small")
    save(figure, stem.with_suffix(".png"))


PIECE = Piece("amin_errors", ("table", "epsilon"), _jobs, _measure, _describe, _draw)
