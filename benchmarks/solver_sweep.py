"""Which of our solvers is the fastest, on 100 hard problems of 20 to 2000 columns.

    OPENBLAS_NUM_THREADS=1 python benchmarks/solver_sweep.py [--only 20,50] [--limit 60]

Chains, random graphs, factors, dense precision matrices of condition 1e3 and 1e6, and indefinite matrices, as they are
once the noise's part is subtracted: with a noise on the rows that outweighs them, and of fewer rows than columns. The
penalty is at 2, 10 and 40 % of the way, in logarithms, from the smallest that has a solution (or 1e-3 of the largest)
to the largest correlation. Each solver has `--limit` CPU-seconds in a process of its own to reach a gap of 1e-6 p.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import time
from multiprocessing import get_context

import numpy as np

from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.solver_names import AUTO, SOLVER_NAMES
from dp_learn.glasso.solving import graphical_lasso
from solver_problems import GAP, Floats, sample_covariance

SIZES = (20, 50, 100, 300, 800, 2000)
KINDS = ("chain", "random", "factor", "dense3", "dense6", "noisy", "few")
WAYS = (0.02, 0.1, 0.4)
FEWER = {800: (0.1, 0.4), 2000: (0.4,)}
LEVEL = 1.2  # times the fastest counts as level


def make(kind: str, p: int, seed: int) -> Floats:
    """Return a covariance in units of correlations."""
    rng = np.random.default_rng(seed)
    if kind == "noisy":
        s = sample_covariance("random", p, 4 * p, seed)
        noise = rng.normal(size=(p, p)) * np.sqrt(np.outer(s.diagonal(), s.diagonal()) / p)
        s = s + np.triu(noise, 1) + np.triu(noise, 1).T
    elif kind == "few":
        rows = rng.normal(size=(p // 2, p)) @ np.linalg.cholesky(sample_covariance("factor", p, 4 * p, seed)).T
        s = np.cov(rows, rowvar=False) - 0.3 * np.diag(rows.var(axis=0))
    else:
        s = sample_covariance(kind, p, 4 * p, seed)
    scale = np.sqrt(s.diagonal())
    return s / np.outer(scale, scale)


def penalty(s: Floats, way: float) -> float:
    """Return the penalty that is so far on the way from the smallest to the largest."""
    largest = float(np.abs(s - np.diag(s.diagonal())).max())
    smallest = max(smallest_solvable_alpha(s) * 1.001, 1e-3 * largest)
    return float(smallest * (largest / smallest) ** way)


def run(s: Floats, alpha: float, solver: str, limit: float) -> tuple[float, str]:
    """Return the CPU-seconds of a solver, infinite beyond the limit, and the solvers that it says it used."""
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), math.ceil(limit) + 1))
        graphical_lasso(np.eye(3) + 0.1, 0.05, solver=solver)
        before = time.process_time()
        found = graphical_lasso(s, alpha, solver=solver, tol=GAP)
        good = found.status.name == "OPTIMAL"
        sender.send((time.process_time() - before if good else np.inf, found.solver if good else found.status.name))

    process = context.Process(target=work)
    process.start()
    process.join()
    found: tuple[float, str] = receiver.recv() if receiver.poll() else (np.inf, "not in time")
    return found


def main() -> None:
    """Print a line for every problem, and how often which solver was the fastest."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", default=",".join(map(str, SIZES)), help="numbers of columns")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds")
    options = parser.parse_args()
    names = (*SOLVER_NAMES, AUTO)
    print(f"{'':24}" + "".join(f"{name:>10}" for name in names))
    times = []
    for p in map(int, options.only.split(",")):
        for place, kind in enumerate(KINDS):
            s = make(kind, p, place + 1)
            for way in FEWER.get(p, WAYS):
                found = [run(s, penalty(s, way), name, options.limit) for name in names]
                times.append([seconds for seconds, _ in found])
                line = "".join(f"{seconds:10.3g}" for seconds, _ in found)
                print(f"{kind:8} p {p:<5} {way:<6}{line}  {found[-1][1]}", flush=True)
    for own in range(len(SOLVER_NAMES)):
        others = [place for place in range(len(SOLVER_NAMES)) if place != own]
        ahead = [each[own] * LEVEL < min(each[place] for place in others) for each in times]
        print(f"{SOLVER_NAMES[own]} is the fastest by more than {LEVEL} times on {sum(ahead)} of {len(times)}")


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
