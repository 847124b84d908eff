"""The graphical lasso against every solver that can be installed, to one certified gap on one thread each.

Problems: chains (precision matrix 1 / 0.45), random graphs with 1 % edges (at small p many small components), one
market factor with ten sectors, and blocks of 10 equally correlated columns, p = 50 to 1000, 4p rows, the penalty chosen
for about 3.5 non-zeros a row; dense precision matrices with condition 1e3 to 1e6 at p = 100 and 300, with 5 to 40 % of
the edges kept; the diagonal not penalised (what all solvers can do). Every solver is given the loosest tolerance, in
steps of half a decade (a decade where a run takes seconds), at which `dp_learn.problem.duality_gap` proves its answer
within 1e-6 p, for the dual matrix its own covariance or the inverse of its precision matrix, whichever is better,
clipped into the box. Figures are CPU-seconds, which a busy machine hardly changes, medians over runs in turn; R's are
measured inside R.

    python benchmarks/solvers.py [--quick] [--glassofast LIBRARY]
    python benchmarks/solvers.py --large            p = 5000, 20,000 rows: memory, and time in Cholesky inverses

Peers are used where they are installed: `pip install -r benchmarks/requirements.txt`, and for R
`apt install r-cran-glasso r-cran-huge`. glassoFast is not packaged: its glassofast.f90 compiled with
`gfortran -O3 -march=native -shared -fPIC` and a C file that holds `void intpr_(void) {}` is a library for --glassofast.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import io
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from dp_learn.problem import Problem, duality_gap, make_problem
from dp_learn.solvers import SOLVERS, graphical_lasso

Floats = NDArray[np.float64]
Outcome = tuple[Floats, Floats | None, float]  # precision matrix, covariance if there is one, seconds
Runner = Callable[[Floats, float, float], Outcome]  # of covariance, alpha and tolerance

GAP = 1e-6  # per column
MEMORY = 2048  # megabytes
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
OURS = "cd"
SHARE, SMALL_SHARE, SMALL = 0.67, 1.0, 50  # of the best other solver's time; up to p = 50 the second
AHEAD = {("chain", 500): 26, ("random", 500): 33, ("chain", 1000): 41, ("random", 1000): 41}  # of scikit-learn
LOOSEST = {"scikit-learn": 1.1e-4, "R huge": 0.0}  # its default, with more it cycles; and huge has none
TOLERANCES = [10.0 ** (-k / 2) for k in range(2, 25)]
SLOW = 2.0  # seconds a run: for slower ones the steps are whole decades
PATIENCE = 150.0  # seconds of search for a tolerance
BUDGET = 8.0  # seconds of repetitions of one solver
R_SCRIPT = """
a <- commandArgs(TRUE); p <- as.integer(a[3]); alpha <- as.numeric(a[4]); t <- as.numeric(a[5])
S <- matrix(readBin(a[2], "double", p * p), p)
invisible(loadNamespace(a[1]))
run <- if (a[1] == "glasso") {
  function() { f <- glasso::glasso(S, alpha, thr = t, penalize.diagonal = FALSE); list(f$wi, f$w) }
} else {  # huge penalises the diagonal and takes no tolerance
  diag(S) <- diag(S) - alpha
  function() { f <- huge::huge.glasso(S, alpha, cov.output = TRUE, verbose = FALSE)
               list(as.matrix(f$icov[[1]]), as.matrix(f$cov[[1]])) }
}
n <- 1
repeat {
  start <- sum(proc.time()[1:2])
  for (i in 1:n) answer <- run()
  spent <- sum(proc.time()[1:2]) - start
  if (spent > 0.1) break
  n <- 4 * n
}
writeBin(c(as.vector(answer[[1]]), as.vector(answer[[2]])), a[6])
cat(spent / n)
"""


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


# Problems


def sample_covariance(kind: str, p: int, n_rows: int, seed: int = 0) -> Floats:
    """Return the sample covariance of normal rows under a chain or a random sparse precision matrix.

    It is drawn from its own distribution, Wishart's (Bartlett 1933), which spares drawing the rows.
    """
    rng = np.random.default_rng(seed)
    if kind == "chain":
        theta = np.eye(p) + 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1))
    elif kind == "factor":
        sectors = np.arange(p)[:, None] % 10 == np.arange(10)
        loadings = np.column_stack([rng.uniform(0.3, 1.5, p), 0.6 * sectors])
        theta = np.linalg.inv(loadings @ loadings.T + np.diag(rng.uniform(0.5, 1.5, p)))
    elif kind == "block":
        block = np.arange(p) // 10
        theta = np.linalg.inv(0.5 * np.eye(p) + 0.5 * (block[:, None] == block))
    elif kind.startswith("dense"):
        basis = np.linalg.qr(rng.normal(size=(p, p)))[0]
        theta = (basis * np.geomspace(1.0, 10.0 ** int(kind[5]), p)) @ basis.T
    else:
        edges = np.triu((rng.random((p, p)) < 0.01) * rng.uniform(-0.8, 0.8, (p, p)), 1)
        theta = edges + edges.T
        smallest = eigsh(csr_array(theta), k=1, which="SA", v0=np.ones(p), return_eigenvectors=False)[0]
        theta += np.eye(p) * (0.3 - smallest)
    factor = np.tril(rng.normal(size=(p, p)), -1)
    factor[np.diag_indices(p)] = np.sqrt(rng.chisquare(n_rows - 1 - np.arange(p)))
    root = solve_triangular(np.linalg.cholesky(theta), factor, trans=1, lower=True, overwrite_b=True)
    s = root @ root.T / (n_rows - 1)
    return (s + s.T) / 2


def choose_alpha(s: Floats, wanted: float = 3.5) -> float:
    """Return a penalty that leaves about so many non-zeros a row."""
    low, high = 0.0, float(np.abs(s - np.diag(s.diagonal())).max())
    for _ in range(12):
        alpha = (low + high) / 2
        solution = graphical_lasso(s, alpha, penalize_diagonal=False, tol=1e-4)
        found = np.count_nonzero(solution.precision) / len(s)
        if abs(found - wanted) < 0.05 * wanted:
            break
        low, high = (alpha, high) if found > wanted else (low, alpha)
    return alpha


# Solvers


def timed(solve: Callable[[], Any]) -> tuple[Any, float]:
    """Return a function's value and its CPU-seconds: the mean over as many calls as take a tenth of a second."""
    n_calls = 1
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        while True:
            started = time.process_time()
            for _ in range(n_calls):
                value = solve()
            spent = time.process_time() - started
            if spent > 0.1:
                return value, spent / n_calls
            n_calls *= 4


def our_runner(name: str) -> Runner:
    """Return a solver of this package."""

    def run(s: Floats, alpha: float, _: float) -> Outcome:
        solution, seconds = timed(lambda: graphical_lasso(s, alpha, solver=name, penalize_diagonal=False, tol=GAP))
        return solution.precision, solution.covariance, seconds

    return run


def run_scikit_learn(s: Floats, alpha: float, tolerance: float) -> Outcome:
    """Run scikit-learn; its own stopping rule is a gap, so the tolerance is the inner solver's."""
    from sklearn.covariance import graphical_lasso as peer

    (w, theta), seconds = timed(lambda: peer(s, alpha, tol=GAP * len(s), enet_tol=tolerance, max_iter=15))
    return theta, w, seconds


def run_skglm(s: Floats, alpha: float, tolerance: float) -> Outcome:
    """Run skglm's dual algorithm, which is the faster of its two."""
    from skglm.covariance import GraphicalLasso

    model = GraphicalLasso(alpha=alpha, tol=tolerance, inner_tol=tolerance, max_iter=1000)
    _, seconds = timed(lambda: model.fit(s, mode="precomputed"))
    return model.precision_, model.covariance_, seconds


def run_gglasso(s: Floats, alpha: float, tolerance: float) -> Outcome:
    """Run GGLasso's ADMM."""
    from gglasso.solver.single_admm_solver import ADMM_SGL

    start = np.eye(len(s))
    (answer, _), seconds = timed(
        lambda: ADMM_SGL(s, alpha, start, tol=tolerance, rtol=tolerance, max_iter=5000, verbose=False)
    )
    return answer["Theta"], None, seconds


def load_quic() -> ModuleType:
    """Import skggm's compiled QUIC without the rest of skggm, which needs an old scikit-learn."""
    package = importlib.util.find_spec("inverse_covariance")
    if package is None or not package.submodule_search_locations:
        raise ImportError("skggm is not installed")
    library = next(Path(package.submodule_search_locations[0]).glob("pyquic/pyquic.*.so"), None)
    spec = None if library is None else importlib.util.spec_from_file_location("pyquic", library)
    if spec is None or spec.loader is None:
        raise ImportError("skggm's QUIC is not compiled")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_quic(s: Floats, alpha: float, tolerance: float) -> Outcome:
    """Run skggm's QUIC."""
    quic, p = load_quic(), len(s)
    penalty = np.full((p, p), alpha)
    np.fill_diagonal(penalty, 0.0)

    def solve() -> tuple[Floats, Floats]:
        theta, w = np.eye(p), np.eye(p)
        iterations = np.zeros(1, dtype=np.uint32)
        outputs = theta, w, np.zeros(1), np.zeros(1), iterations, np.zeros(1)
        quic.quic(b"default", p, s, penalty, 1, np.empty(1), tolerance, 0, 1000, *outputs)
        return theta, w

    (theta, w), seconds = timed(solve)
    return theta, w, seconds


def r_runner(package: str) -> Runner:
    """Return R's glasso or huge."""

    def run(s: Floats, alpha: float, tolerance: float) -> Outcome:
        p = len(s)
        with tempfile.TemporaryDirectory() as folder:
            given, answer = Path(folder, "s"), Path(folder, "answer")
            given.write_bytes(s.tobytes())
            words = [package, str(given), str(p), repr(alpha), repr(tolerance), str(answer)]
            done = subprocess.run(["Rscript", "-e", R_SCRIPT, *words], capture_output=True, text=True, check=True)
            theta, w = np.fromfile(answer).reshape(2, p, p)
        return theta, w, float(done.stdout.split()[-1])

    return run


def glassofast_runner(library: str) -> Runner:
    """Return glassoFast, from a compiled library."""
    routine = ctypes.CDLL(library).glassofast_

    def run(s: Floats, alpha: float, tolerance: float) -> Outcome:
        p = len(s)
        penalty = np.full((p, p), alpha)
        np.fill_diagonal(penalty, 0.0)
        theta, w = np.zeros((p, p)), np.zeros((p, p))

        def integer(value: int) -> Any:
            return ctypes.byref(ctypes.c_int(value))

        def solve() -> None:
            routine(
                integer(p), s.ctypes, penalty.ctypes, ctypes.byref(ctypes.c_double(tolerance)), integer(1000),
                integer(0), integer(0), theta.ctypes, w.ctypes, np.empty(p).ctypes, np.empty(p).ctypes, integer(0),
            )  # fmt: skip

        _, seconds = timed(solve)
        return theta, w, seconds

    return run


def find_solvers(glassofast: str | None) -> tuple[dict[str, Runner], list[str]]:
    """Return the solvers that are here, ours first, and the names of those that are not."""
    found = {name: our_runner(name) for name in SOLVERS}
    peers: dict[str, tuple[Callable[[], object], Runner]] = {
        "scikit-learn": (lambda: importlib.import_module("sklearn"), run_scikit_learn),
        "skglm": (lambda: importlib.import_module("skglm.covariance"), run_skglm),
        "GGLasso": (lambda: importlib.import_module("gglasso"), run_gglasso),
        "QUIC (skggm)": (load_quic, run_quic),
        "R glasso": (lambda: need_r("glasso"), r_runner("glasso")),
        "R huge": (lambda: need_r("huge"), r_runner("huge")),
    }
    missing = []
    for name, (check, runner) in peers.items():
        try:
            check()
            found[name] = runner
        except ImportError:
            missing.append(name)
    if glassofast:
        found["glassoFast"] = glassofast_runner(glassofast)
    else:
        missing.append("glassoFast")
    return found, missing


def need_r(package: str) -> None:
    """Raise ImportError where R or its package is not installed."""
    loads = [shutil.which("Rscript") or "false", "-e", f"library({package})"]
    if subprocess.run(loads, capture_output=True, check=False).returncode:
        raise ImportError(package)


# Measurement


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


# One large problem


def measure_large(path: str, n_rows: int) -> None:
    """Solve a large problem in this process; print its time, its memory, and its time in Cholesky inverses."""
    s = np.load(path)
    p = len(s)
    noise = 2.3 * math.sqrt(math.log(p) / n_rows)  # a little above the largest sampling error of a correlation
    alpha = max(noise, float(np.quantile(np.abs(s[:300]), 1.0 - 5.0 / p)))  # leaves about four pairs a column
    graphical_lasso(s[:300, :300], alpha, penalize_diagonal=False)  # compiles
    before = peak_megabytes()
    solution, seconds = timed(lambda: graphical_lasso(s, alpha, penalize_diagonal=False, tol=GAP))
    peak = peak_megabytes()
    nonzeros, gap = np.count_nonzero(solution.precision) / p, solution.duality_gap / p
    del solution
    _, inverse = timed(lambda: dpotri(dpotrf(s.T)[0], overwrite_c=1))
    print(
        f"p = {p}, {n_rows} rows: {seconds:.2f} s = {seconds / inverse:.2f} Cholesky inverses ({inverse:.2f} s), "
        f"{nonzeros:.2f} nonzeros a row, gap / p {gap:.1e}\n"
        f"  {'ok' if peak < MEMORY else 'FAILED'}: {peak:.0f} MB at the peak ({before:.0f} MB before), {MEMORY} wanted"
    )


def peak_megabytes() -> float:
    """Return the most memory this process has held (VmHWM; ru_maxrss begins with the parent's)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def run_large() -> None:
    """Draw the large problems, and solve each in a process of its own."""
    for kind in ("chain", "random"):
        s = sample_covariance(kind, 5000, 20_000)
        scale = 1.0 / np.sqrt(s.diagonal())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "s.npy")
            np.save(path, s * np.outer(scale, scale))
            del s
            print(kind, end=", ", flush=True)
            command = [sys.executable, __file__, "--solve-large", str(path)]
            subprocess.run(command, check=True)


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
