"""One large problem: our time in Cholesky inverses, and our memory."""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from dp_learn.glasso.solving import graphical_lasso
from solver_problems import GAP, sample_covariance
from solver_runners import timed

MEMORY = 2048  # megabytes


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
            command = [sys.executable, str(Path(__file__).with_name("solvers.py")), "--solve-large", str(path)]
            subprocess.run(command, check=True)
