"""The graphical lasso against every solver that can be installed, to one certified gap on one thread each.

Problems: chains (precision matrix 1 / 0.45), random graphs with 1 % edges (at small p many small components), one
market factor with ten sectors, and blocks of 10 equally correlated columns, p = 50 to 1000, 4p rows, the penalty chosen
for about 3.5 non-zeros a row; dense precision matrices with condition 1e3 to 1e6 at p = 100 and 300, with 5 to 40 % of
the edges kept; the diagonal not penalised (what all solvers can do). Every solver is given the loosest tolerance, in
steps of half a decade (a decade where a run takes seconds), at which `dp_learn.glasso.problem.duality_gap` proves its
answer within 1e-6 p, for the dual matrix its own covariance or the inverse of its precision matrix, whichever is
better, clipped into the box. Figures are CPU-seconds, which a busy machine hardly changes, medians over runs in turn;
R's are measured inside R.

    python benchmarks/solvers.py [--quick] [--glassofast LIBRARY]
    python benchmarks/solvers.py --large            p = 5000, 20,000 rows: memory, and time in Cholesky inverses

Peers are used where they are installed: `pip install -r benchmarks/requirements.txt`, and for R
`apt install r-cran-glasso r-cran-huge`. glassoFast is not packaged: its glassofast.f90 compiled with
`gfortran -O3 -march=native -shared -fPIC` and a C file that holds `void intpr_(void) {}` is a library for --glassofast.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from dp_learn.glasso.problem import Problem, duality_gap, make_problem
from dp_learn.glasso.solving import SOLVERS
from solver_memory import measure_large, run_large
from solver_problems import GAP, Floats, choose_alpha, sample_covariance
from solver_runners import Runner, find_solvers

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
OURS = "cd"
SHARE, SMALL_SHARE, SMALL = 0.67, 1.0, 50  # of the best other solver's time; up to p = 50 the second
AHEAD = {("chain", 500): 26, ("random", 500): 33, ("chain", 1000): 41, ("random", 1000): 41}  # of scikit-learn
LOOSEST = {"scikit-learn": 1.1e-4, "R huge": 0.0}  # its default, with more it cycles; and huge has none
TOLERANCES = [10.0 ** (-k / 2) for k in range(2, 25)]
SLOW = 2.0  # seconds a run: for slower ones the steps are whole decades
PATIENCE = 150.0  # seconds of search for a tolerance
BUDGET = 8.0  # seconds of repetitions of one solver


@dataclass
class Result:
    """What one solver did on one problem."""

    tolerance: float
    gap: float
    nonzeros: float
    seconds: list[float] = field(default_factory=list)

    @property
    def certified(self) -> bool:
        """Whether the gap was reached."""
        return self.gap <= GAP


def certified_gap(problem: Problem, theta: Floats, w: Floats | None) -> float:
    """Return the gap of a symmetrised answer, for the better of the two dual matrices that come with it."""
    theta = (theta + theta.T) / 2
    if not np.isfinite(theta).all():
        return math.inf
    candidates = [] if w is None or not np.isfinite(w).all() else [(w + w.T) / 2]
    factor, failed = dpotrf(theta)
    if not failed:
        inverse = np.triu(dpotri(factor)[0])
        candidates.append(inverse + np.triu(inverse, 1).T)
    s, penalty = problem.covariance, problem.penalty
    return min(
        (duality_gap(problem, theta, np.clip(each, s - penalty, s + penalty)) for each in candidates), default=math.inf
    )


def find_tolerance(problem: Problem, runner: Runner, loosest: float) -> Result:
    """Return the loosest tolerance that reaches the gap, or the best gap met."""
    p, best, spent = problem.n_features, Result(math.nan, math.inf, math.nan, [math.nan]), 0.0
    for step, tolerance in enumerate([each for each in TOLERANCES if each <= loosest] or [math.nan]):
        if step % 2 and spent > SLOW * step:  # the first step is never left out
            continue
        try:
            theta, w, seconds = runner(problem.covariance, problem.alpha, tolerance)
        except ArithmeticError:  # scikit-learn, when its inner solver is too loose
            continue
        gap = certified_gap(problem, theta, w) / p
        if gap < best.gap:
            best = Result(tolerance, gap, np.count_nonzero(theta) / p, [seconds])
        spent += seconds
        if best.certified or spent > PATIENCE:
            break
    return best


def compare(kind: str, p: int, solvers: dict[str, Runner], repetitions: int) -> Iterator[str]:
    """Measure all solvers on one problem; yield the lines of its table."""
    s = sample_covariance(kind, p, 4 * p)
    kept = float(kind.partition("-")[2] or 0.0) / 100  # of all pairs, in a dense problem
    problem = make_problem(s, choose_alpha(s, 1 + kept * p if kept else 3.5), penalize_diagonal=False)
    s = problem.covariance
    results = {}
    for name, runner in solvers.items():
        results[name] = find_tolerance(problem, runner, LOOSEST.get(name, 0.0 if name in SOLVERS else 1.0))
    for result in results.values():
        if result.certified and sum(result.seconds) < BUDGET:
            result.seconds.clear()  # the first run of all may have compiled something
    for _ in range(repetitions):
        for name, result in results.items():
            if result.certified and sum(result.seconds) < BUDGET:
                result.seconds.append(solvers[name](s, problem.alpha, result.tolerance)[2])
    medians = {name: 1e3 * statistics.median(result.seconds) for name, result in results.items()}
    best = min(medians[name] for name, result in results.items() if result.certified)
    yield f"\n{kind}, p = {p}, alpha = {problem.alpha:.4f}"
    yield f"  {'solver':14} {'ms':>10} {'of best':>9} {'gap / p':>9} {'nonzeros a row':>15} {'tolerance':>10}"
    for name, result in results.items():
        multiple = f"{medians[name] / best:9.2f}" if result.certified else f"{'no':>9}"
        yield (
            f"  {name:14} {medians[name]:10.2f} {multiple} {result.gap:9.1e} {result.nonzeros:15.2f} "
            f"{result.tolerance:10.1e}"
        )
    yield from judge(kind, p, results, medians)


def judge(kind: str, p: int, results: dict[str, Result], medians: dict[str, float]) -> Iterator[str]:
    """Yield the verdicts: against the best other solver, and against scikit-learn where a factor is asked for."""
    ours = medians[OURS]
    others = {name: medians[name] for name, result in results.items() if result.certified and name not in SOLVERS}
    if not results[OURS].certified or not others:
        yield "  FAILED: no certified answer to compare"
        return
    rival = min(others, key=others.__getitem__)
    share, most = ours / others[rival], SMALL_SHARE if p <= SMALL else SHARE
    yield f"  {'ok' if share <= most else 'FAILED'}: {share:.3f} of {rival}'s time, at most {most} wanted"
    if "scikit-learn" in others:
        factor, wanted = others["scikit-learn"] / ours, AHEAD.get((kind, p))
        if wanted is None:
            yield f"      {factor:.0f} times faster than scikit-learn"
        else:
            verdict = "ok" if factor >= wanted else "FAILED"
            yield f"  {verdict}: {factor:.0f} times faster than scikit-learn, {wanted} wanted"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="p = 50 and 200, three repetitions")
    parser.add_argument("--large", action="store_true", help="p = 5000 instead: time and memory of ours")
    parser.add_argument("--solve-large", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("--only", help="one problem, as chain:500 or dense6-40:100 (condition 1e6, 40 %% of edges)")
    parser.add_argument("--solvers", help="only these, separated by commas, as cd,scikit-learn")
    parser.add_argument(
        "--glassofast",
        metavar="LIBRARY",
        default=os.environ.get("GLASSOFAST"),
        help="glassoFast as a shared library; $GLASSOFAST by default",
    )
    options = parser.parse_args()
    if any(os.environ.get(variable) != "1" for variable in THREADS):  # numpy reads them when it is imported
        command = [sys.executable, *sys.argv]
        sys.exit(subprocess.run(command, env=os.environ | dict.fromkeys(THREADS, "1"), check=False).returncode)
    names = ("chain", "random", "factor", "block")
    kinds: list[tuple[str, int]] = [(kind, p) for p in (50, 100, 200, 500, 1000) for kind in names]
    kinds += [(f"dense{power}-{kept}", p) for p in (100, 300) for power in (3, 6) for kept in (5, 40)]
    if options.only:
        kind, p = options.only.split(":")
        kinds = [(kind, int(p))]
    if options.large or options.solve_large:
        measure_large(options.solve_large, 20_000) if options.solve_large else run_large()
        return
    solvers, missing = find_solvers(options.glassofast)
    if options.solvers:
        solvers = {name: solvers[name] for name in options.solvers.split(",")}
    elif missing:
        print("not installed: " + ", ".join(missing))
    for kind, p in kinds:
        if not (options.quick and p > 200):
            for line in compare(kind, p, solvers, 3 if options.quick else 5):
                print(line, flush=True)


if __name__ == "__main__":
    main()
