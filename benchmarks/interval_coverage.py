"""Coverage of the 95 % intervals for partial correlations, from few rows to many, as `dp-learn` reports them.

    OPENBLAS_NUM_THREADS=1 python benchmarks/interval_coverage.py [REPETITIONS]

Gaussian rows of a chain of 10 columns (partial correlations of 0.4 to 0.45 between neighbours), with noise of 20 dB
less than the signal: a hundredth of its variance. Every repetition draws rows and noise anew, 400 times by default. A
repetition without intervals, where the command would say why there are none, counts among the refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.pipeline.learn import infer_if_possible

SEED = 50
N_FEATURES, NOISE = 10, 0.01
N_ROWS = (50, 100, 200, 500, 2000)
FDR = 0.05

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Coverage:
    """One repetition: the shares of edges and of other pairs that are covered, and what tests find."""

    edges: float
    others: float
    false_discoveries: float
    power: float


def chain_precision() -> Floats:
    """Return the precision matrix of an autoregression with coefficient 1/2, for columns of unit variance."""
    p = N_FEATURES
    precision = np.diag(np.full(p, 1.25)) - 0.5 * (np.eye(p, k=1) + np.eye(p, k=-1))
    precision[0, 0] = precision[-1, -1] = 1.0
    root = np.sqrt(np.diagonal(np.linalg.inv(precision)))
    scaled: Floats = precision * np.outer(root, root)
    return scaled


def repeat(n_rows: int, repetitions: int) -> Iterator[Coverage | None]:
    """Yield what comes of each table of so many rows; None where there are no intervals."""
    rng = np.random.default_rng([SEED, n_rows])
    precision, names = chain_precision(), [f"c{index}" for index in range(N_FEATURES)]
    root = np.sqrt(np.diagonal(precision))
    upper = np.triu_indices(N_FEATURES, 1)
    truth = (-precision / np.outer(root, root))[upper]
    edge = np.abs(truth) > 1e-9
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    for _ in range(repetitions):
        rows = rng.normal(size=(n_rows, N_FEATURES)) @ factor.T
        sample = Sample([table_rows(rows + np.sqrt(NOISE) * rng.normal(size=rows.shape), names, NOISE)])
        inference, _ = infer_if_possible(sample, sample.pooled, np.arange(N_FEATURES))
        if inference is None:
            yield None
            continue
        bars = inference.error_bars_at(upper)
        covered = (bars["ci_low"] <= truth) & (truth <= bars["ci_high"])
        found = bars["q_value"] <= FDR
        yield Coverage(
            covered[edge].mean(), covered[~edge].mean(), (found & ~edge).sum() / max(1, found.sum()), found[edge].mean()
        )


def main() -> None:
    """Print a line for each number of rows."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print(f"{repetitions} repetitions; covered by 95 % intervals, and found at a false discovery rate of 5 %")
    print(f"{'rows':>6}{'edges':>10}{'other pairs':>14}{'false found':>14}{'edges found':>14}{'refused':>10}")
    for n_rows in N_ROWS:
        each = list(repeat(n_rows, repetitions))
        had = [one for one in each if one is not None]
        edges, others, false, power = (
            f"{100 * np.mean([getattr(one, name) for one in had]):.1f} %"
            for name in ("edges", "others", "false_discoveries", "power")
        )
        print(f"{n_rows:6}{edges:>10}{others:>14}{false:>14}{power:>14}{each.count(None):10}")


if __name__ == "__main__":
    main()
