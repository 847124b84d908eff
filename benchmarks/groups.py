"""The group graphical lasso against the scalar one, on the same matrix at the same alpha, in one process.

Correlations of chains, of random graphs with 1 % edges, and of one market factor with ten sectors, 4p rows, and of a
chain with noise of standard deviation 0.05 added, which makes it indefinite; nodes of 1 to 8 columns; the alpha at
which the scalar answer has about 3.5 non-zeros a row, and 0.4 times it (indefinite: 0.8 times, as smaller ones need not
have a solution). Figures are CPU-milliseconds, medians of runs in turn, both proven to a gap of 1e-6 a column. A
group's answer has more non-zeros, as a block has all of its entries or none.

    python benchmarks/groups.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dp_learn.glasso.problem import Solution
from dp_learn.glasso.solving import graphical_lasso
from solver_problems import Floats, choose_alpha, sample_covariance

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LARGEST_NODE = 8
NOISE = 0.05
MOST = 3.0  # times the scalar solver's time
TIGHT, TIGHT_INDEFINITE = 0.4, 0.8


def correlation(kind: str, p: int, rng: np.random.Generator) -> Floats:
    """Return the matrix of a problem."""
    s = sample_covariance("chain" if kind == "indefinite" else kind, p, 4 * p)
    d = 1.0 / np.sqrt(s.diagonal())
    s = s * np.outer(d, d)
    if kind == "indefinite":
        noise = NOISE * rng.normal(size=(p, p))
        s += (noise + noise.T) / np.sqrt(2.0)
    np.fill_diagonal(s, 1.0)
    return (s + s.T) / 2.0


def nodes(p: int, rng: np.random.Generator) -> Floats:
    """Return the node of each column."""
    return np.repeat(np.arange(p), rng.integers(1, LARGEST_NODE + 1, p))[:p]


def timed(run: Callable[..., Solution], *arguments: Any, **settings: Any) -> tuple[Solution, float]:
    """Return an answer and its CPU-milliseconds."""
    start = time.process_time()
    return run(*arguments, **settings), 1e3 * (time.process_time() - start)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="p = 50 and 200")
    options = parser.parse_args()
    if any(os.environ.get(variable) != "1" for variable in THREADS):  # numpy reads them when it is imported
        command = [sys.executable, *sys.argv]
        sys.exit(subprocess.run(command, env=os.environ | dict.fromkeys(THREADS, "1"), check=False).returncode)
    sizes = (50, 200) if options.quick else (50, 200, 500)
    rng = np.random.default_rng(0)
    print(f"{'problem':10} {'p':>4} {'alpha':>6} {'scalar':>9} {'group':>9} {'ratio':>6} {'non-zeros a row':>16}")
    for kind in ("chain", "random", "factor", "indefinite"):
        for p in sizes:
            s, labels = correlation(kind, p, rng), nodes(p, rng)
            loose = choose_alpha(s)
            for alpha in (loose, (TIGHT_INDEFINITE if kind == "indefinite" else TIGHT) * loose):
                pairs = []
                for _ in range(6):  # the first is not counted
                    pairs.append((timed(graphical_lasso, s, alpha), timed(graphical_lasso, s, alpha, groups=labels)))
                scalar, group = (statistics.median(pair[k][1] for pair in pairs[1:]) for k in (0, 1))
                filled = [np.count_nonzero(each[0].precision) / p for each in pairs[0]]
                proven = all(each[0].duality_gap <= 1e-6 * p for each in pairs[0])
                verdict = "ok" if proven and group <= MOST * scalar else "FAILED"
                print(
                    f"{kind:10} {p:4} {alpha:6.3f} {scalar:9.2f} {group:9.2f} {group / scalar:6.2f} "
                    f"{filled[0]:7.1f} {filled[1]:7.1f}  {verdict}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
