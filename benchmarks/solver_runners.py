"""Every solver of the graphical lasso that can be installed, ours first, behind one call that measures CPU-seconds."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import io
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from dp_learn.glasso.solving import SOLVERS, graphical_lasso
from solver_problems import GAP, Floats

Outcome = tuple[Floats, Floats | None, float]  # precision matrix, covariance if there is one, seconds
Runner = Callable[[Floats, float, float], Outcome]  # of covariance, alpha and tolerance

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
        "R glasso": (lambda: r_version("glasso"), r_runner("glasso")),
        "R huge": (lambda: r_version("huge"), r_runner("huge")),
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


def r_version(package: str) -> str:
    """Return the version of a package of R; raise ImportError where R or the package is not installed."""
    asks = [shutil.which("Rscript") or "false", "-e", f"cat(as.character(packageVersion('{package}')))"]
    answer = subprocess.run(asks, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ImportError(package)
    return answer.stdout
