"""How near do correlations come that are released once, for one unit of mu? Ours, and two published methods.

    DPGRAPH_DATA=... OPENBLAS_NUM_THREADS=1 python benchmarks/accuracy.py [--only NAME,...] [--quick]

Rows are protected, for replace-one neighbours. The tables are six real ones, and normal ones of p columns and n rows
whose covariance has the condition c, drawn anew for every repetition. Their bounds are declared in three ways: R1 is
the 0.5 to 99.5 % range of every column, R3 and R1000 that range made 3 and 1,000 times wider, off-center at random.

- **two rounds**: `publish` with `mechanism = "two-round"`, read from its bundle as `dp-learn` does.
- **one round**: the same with `mechanism = "gaussian"`.
- **CoinPress**, **AdaptiveCov**: the best, in hindsight and for every line, of some settings (`accuracy_peers.py`).
  Both are given the true mean, and the same mu.

Printed are means over the repetitions. On the left: the median over pairs of |correlation released - correlation of
the table|, where a column whose variance is not positive has the correlation 0 with all others. On the right: AUC, how
well the partial correlations of a graphical lasso of what was released tell the edges of the table's own apart from
other pairs, both at the same alpha; there is none where the table's own has no edges. An asterisk marks the best. Last
come the figures that two rounds are held to, and every line in which a peer is ahead.

It takes about eleven minutes of one processor.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.covariance import graphical_lasso
from sklearn.metrics import roc_auc_score

from accuracy_peers import adaptive_cov, coinpress
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.sources import CovarianceSource, bundle_source
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.sampling.keystream import insecure_keystream

Floats = NDArray[np.float64]

REPETITIONS, QUICK = 40, 4
LEAST_EIGENVALUES = (1e-3, 1e-2, 1e-1, 1.0)  # of a correlation matrix that a graphical lasso is given
LEAST_EDGE = 1e-5  # of partial correlations
BOUNDS_CASES = ((1.0, 1.0), (3.0, 1.0), (1000.0, 1.0), (3.0, 0.3), (3.0, 3.0))  # times the range, and mu
OURS, ONE_ROUND, COINPRESS, ADAPTIVE_COV = "two rounds", "one round", "CoinPress", "AdaptiveCov"


@dataclass(frozen=True)
class Table:
    """Rows, or a way to draw them, and the alpha of their graph."""

    draw: Callable[[np.random.Generator], Floats]
    alpha: float


@dataclass(frozen=True)
class Cell:
    """One line of what is printed: a table, how many times too wide its bounds are, and mu."""

    table: str
    times: float
    mu: float

    def __str__(self) -> str:
        return f"{self.table:<16} R{self.times:<5g} {self.mu:>4g}"


WANTED = {  # the largest error, and the least AUC
    Cell("wine", 3, 1): (0.11, 0.75),
    Cell("breast cancer", 3, 1): (0.055, 0.85),
    Cell("sachs", 3, 1): (0.0045, 0.98),
    Cell("ionosphere", 3, 1): (0.13, 0.72),
    Cell("airfoil", 3, 1): (0.014, 0.97),
    Cell("wine", 3, 3): (0.037, 0.90),
    Cell("sachs", 3, 0.3): (0.019, 0.95),
    Cell("p30 c1e4 n5000", 3, 1): (0.005, 0.98),
    Cell("p100 c100 n5000", 3, 1): (0.016, 0.92),
}
ALIKE, ALIKE_WITHIN = ("sachs", "airfoil"), 0.1  # R1000 within 10 % of R3


def tables(folder: Path) -> dict[str, Table]:
    """Return all tables by name."""

    def real(rows: Floats, alpha: float = 0.2) -> Table:
        return Table(lambda _: rows, alpha)

    def read(name: str) -> pd.DataFrame:
        return pd.read_csv(folder / name / f"{name}.csv")

    adult = pd.read_parquet(folder / "adult" / "adult.parquet").select_dtypes("number")
    found = {
        "wine": real(datasets.load_wine().data),
        "breast cancer": real(datasets.load_breast_cancer().data),
        "sachs": real(np.log(read("sachs").to_numpy(float))),
        "ionosphere": real(read("ionosphere").drop(columns=["class_good", "V2"]).to_numpy(float)),
        "airfoil": real(read("airfoil").to_numpy(float)),
        "adult": real(adult.to_numpy(float), 0.05),
    }
    shapes = [(10, 1000, ("1", "100")), (30, 5000, ("1", "1e4")), (100, 5000, ("100",))]
    for p, n, conditions in shapes:
        for condition in conditions:
            draw = partial(draw_gaussian, p, float(condition), n)
            found[f"p{p} c{condition} n{n}"] = Table(draw, 0.1)
    return found


def draw_gaussian(p: int, condition: float, n: int, rng: np.random.Generator) -> Floats:
    """Return normal rows, standardised, with eigenvalues in geometric steps and at random directions before that."""
    directions = np.linalg.qr(rng.standard_normal((p, p)))[0]
    covariance = (directions * np.geomspace(1.0, 1.0 / condition, p)) @ directions.T
    deviations = np.sqrt(np.diag(covariance))
    root = np.linalg.cholesky(covariance / np.outer(deviations, deviations))
    rows: Floats = rng.standard_normal((n, p)) @ root.T
    return rows


def declare_bounds(rows: Floats, times: float, rng: np.random.Generator) -> Floats:
    """Return bounds, shape (p, 2): the central 99 % of every column, so many times wider, off-center at random."""
    low, high = np.quantile(rows, [0.005, 0.995], axis=0)
    width = np.where(high > low, high - low, 1.0)
    start = 0.5 * (low + high - width) - (times - 1) * width * rng.uniform(size=len(low))
    return np.column_stack([start, start + times * width])


class Releases:
    """Our releases: bundles in a folder of their own, with a ledger and a key of their own."""

    def __init__(self, folder: Path) -> None:
        self._out, self._ledger = folder / "release.tar", Ledger(folder / "ledger.sqlite")
        self._key = Ed25519PrivateKey.generate()

    def covariance(self, mechanism: str, rows: Floats, bounds: Floats, mu: float, seed: int) -> Floats:
        """Publish a covariance and return what `dp-learn` makes of it."""
        frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])
        policy = Policy.model_validate(
            {
                "dataset": {"name": "benchmark"},
                "privacy": {"release": "covariance", "mechanism": mechanism, "mu": mu},
                "columns": {
                    name: {"kind": "continuous", "bounds": limits}
                    for name, limits in zip(frame, bounds.tolist(), strict=True)
                },
            }
        )
        keystream = insecure_keystream(seed)
        publish(frame, policy, out=self._out, key=self._key, ledger=self._ledger, keystream=keystream)
        with open_bundle(self._out, UnsafeTrustAnyone()) as bundle:
            source = bundle_source(bundle)
        self._out.unlink()
        if not isinstance(source, CovarianceSource):
            raise TypeError("a covariance was published")
        return source.released.debiased


def peers(rows: Floats, bounds: Floats, mu: float, rng: np.random.Generator) -> Iterator[tuple[str, str, Floats]]:
    """Yield what both peers release under each of their settings: the peer, the setting, the covariance.

    Columns come in half-widths of their bounds, less their true mean. Their variances are then at most 1, and the
    eigenvalues of their covariance at most p: CoinPress takes either for its K.
    """
    p = rows.shape[1]
    low, high = bounds.T
    mean, half_widths = rows.mean(axis=0), 0.5 * (high - low)
    centred = np.clip(rows, low, high) - mean
    units = np.outer(half_widths, half_widths)
    for bound, iterations in product((1.0, float(p)), (1, 2, 3, 4, 5)):
        found = coinpress(centred / half_widths, bound, mu, iterations, rng)
        yield COINPRESS, f"K = {bound:g}, t = {iterations}", found * units

    farthest = np.maximum(high - mean, mean - low)
    found = adaptive_cov(centred / farthest, np.sqrt(p), mu, rng)
    yield ADAPTIVE_COV, "columns scaled by their farthest bound", found * np.outer(farthest, farthest)
    yield ADAPTIVE_COV, "by half-widths", adaptive_cov(centred / half_widths, 2 * np.sqrt(p), mu, rng) * units


def correlation(covariance: Floats) -> Floats:
    """Return correlations between -1 and 1, those of columns without a positive variance 0."""
    variance = np.diag(covariance)
    deviation = np.sqrt(np.where(variance > 0, variance, np.inf))
    result: Floats = np.clip(covariance / deviation / deviation[:, None], -1, 1)
    np.fill_diagonal(result, 1.0)
    return result


def graph(correlations: Floats, alpha: float) -> Floats:
    """Return the sizes of the partial correlations of a graphical lasso, for all pairs.

    Eigenvalues are raised to a thousandth, or as far above as scikit-learn's solver needs it.
    """
    values, vectors = np.linalg.eigh(correlations)
    for least in LEAST_EIGENVALUES:
        raised = correlation((vectors * np.maximum(values, least)) @ vectors.T)
        with contextlib.suppress(FloatingPointError):
            precision = graphical_lasso(raised, alpha, max_iter=200, tol=1e-3)[1]
            break
    deviation = np.sqrt(np.diag(precision))
    result: Floats = np.abs(precision / np.outer(deviation, deviation))[np.triu_indices(len(precision), 1)]
    return result


@dataclass(frozen=True)
class Score:
    """The mean error of a method, its standard error, its AUC, and the setting if it has several."""

    error: float
    standard_error: float
    auc: float
    setting: str = ""


def measure(table: Table, cell: Cell, repetitions: int, releases: Releases) -> dict[str, Score]:
    """Return the scores of all methods in one cell."""
    errors: dict[str, dict[str, list[float]]] = {}
    released: dict[str, dict[str, list[Floats]]] = {}
    truth = []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        rows = table.draw(rng)
        bounds = declare_bounds(rows, cell.times, rng)
        clean = np.corrcoef(rows.T)
        truth.append(graph(clean, table.alpha) > LEAST_EDGE)

        pairs = np.triu_indices(len(clean), 1)
        for method, setting, covariance in release_all(rows, bounds, cell.mu, seed, releases):
            found = correlation(covariance)
            released.setdefault(method, {}).setdefault(setting, []).append(found)
            error = float(np.median(np.abs(found - clean)[pairs]))
            errors.setdefault(method, {}).setdefault(setting, []).append(error)

    scores = {}
    for method, by_setting in errors.items():
        best = min(by_setting, key=lambda setting: float(np.mean(by_setting[setting])))
        mean, deviation = np.mean(by_setting[best]), np.std(by_setting[best])
        auc = mean_auc(truth, released[method][best], table.alpha)
        scores[method] = Score(float(mean), float(deviation) / math.sqrt(repetitions), auc, best)
    return scores


def release_all(
    rows: Floats, bounds: Floats, mu: float, seed: int, releases: Releases
) -> Iterator[tuple[str, str, Floats]]:
    """Yield what every method releases under each of its settings: the method, the setting, the covariance."""
    yield OURS, "", releases.covariance("two-round", rows, bounds, mu, seed)
    yield ONE_ROUND, "", releases.covariance("gaussian", rows, bounds, mu, seed)
    yield from peers(rows, bounds, mu, np.random.default_rng([seed, 1]))


def mean_auc(truth: list[NDArray[np.bool_]], released: list[Floats], alpha: float) -> float:
    """Return the mean AUC of graphs of what was released, for the edges of tables that have some, but not all."""
    told = [
        roc_auc_score(edges, graph(each, alpha))
        for edges, each in zip(truth, released, strict=True)
        if edges.any() and not edges.all()
    ]
    return float(np.mean(told)) if told else math.nan


def print_line(cell: Cell, scores: dict[str, Score]) -> None:
    """Print all errors, then all AUCs, with the figures wanted after both."""
    lowest, highest = min(s.error for s in scores.values()), max(s.auc for s in scores.values())
    errors = "".join(f"{s.error:>11.4f}{'*' if s.error == lowest else ' '}" for s in scores.values())
    aucs = "".join(f"{s.auc:>11.3f}{'*' if s.auc == highest else ' '}" for s in scores.values()).replace("nan", "  -")
    most, least = (f"{figure:g}" for figure in WANTED[cell]) if cell in WANTED else ("", "")
    print(f"{cell}{errors}{most:>8} |{aucs}{least:>8}  {scores[COINPRESS].setting}", flush=True)


def print_verdicts(found: dict[Cell, dict[str, Score]]) -> None:
    """Print which of the figures wanted were reached."""
    print("\nFigures that two rounds are held to")
    for cell, (most, least) in WANTED.items():
        if cell in found:
            ours = found[cell][OURS]
            print_verdict(
                ours.error <= most and ours.auc >= least,
                f"{cell}: error {ours.error:.4f}, at most {most}; AUC {ours.auc:.3f}, at least {least}",
            )

    for cell, scores in found.items():
        if cell.times == 1:
            two, one = scores[OURS].error, scores[ONE_ROUND].error
            print_verdict(two <= one, f"{cell}: error {two:.4f}, at most that of one round, {one:.4f}")

    for name in ALIKE:
        wide, narrow = Cell(name, 1000.0, 1.0), Cell(name, 3.0, 1.0)
        if wide in found:
            ratio = found[wide][OURS].error / found[narrow][OURS].error
            print_verdict(ratio <= 1 + ALIKE_WITHIN, f"{wide}: {ratio:.2f} times the error of R3, at most 1.1 times")


def print_verdict(reached: bool, sentence: str) -> None:
    """Print one figure, and whether it was reached."""
    print("  reached" if reached else "  MISSED ", sentence)


def print_ahead(found: dict[Cell, dict[str, Score]]) -> None:
    """Print where a peer is ahead of two rounds, and by how much more than chance explains."""
    print("\nLines in which a peer is ahead of two rounds, in error or in AUC")
    for cell, scores in found.items():
        ours = scores[OURS]
        for method in (COINPRESS, ADAPTIVE_COV):
            theirs = scores[method]
            if theirs.error < ours.error or theirs.auc > ours.auc:
                spread = math.hypot(theirs.standard_error, ours.standard_error)
                print(
                    f"  {cell}  {method}: error {theirs.error:.4f} against {ours.error:.4f} +- {spread:.4f}, "
                    f"AUC {theirs.auc:.3f} against {ours.auc:.3f}"
                )


def main() -> None:
    """Print a line for every cell, then the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="some of the tables, by name")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} repetitions")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not os.environ.get("DPGRAPH_DATA"):
        sys.exit("set DPGRAPH_DATA to the folder that holds the public tables")
    every = tables(Path(os.environ["DPGRAPH_DATA"]))
    chosen = options.only.split(",") if options.only else list(every)

    started, found = time.perf_counter(), {}
    heads = "".join(f"{method:>12}" for method in (OURS, ONE_ROUND, COINPRESS, ADAPTIVE_COV))
    print(f"{'table':<16} bounds   mu{heads}{'wanted':>8} |{heads}{'wanted':>8}  CoinPress's best", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        releases = Releases(Path(folder))
        for name, (times, mu) in product(chosen, BOUNDS_CASES):
            cell = Cell(name, times, mu)
            found[cell] = measure(every[name], cell, QUICK if options.quick else options.repetitions, releases)
            print_line(cell, found[cell])
    print_verdicts(found)
    print_ahead(found)
    print(f"\n{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
