"""The whole of `dp-learn`, mostly on wide tables: processor seconds and peak memory of the command, nothing set for it.

A factor model of 1257 rows and 452 columns at 10 dB, as daily returns are (one market factor, ten sectors,
t-distributed rests; its debiased matrix is indefinite), and sparse graphs of 30, 1000, 2000 and 5000 columns with
10,000 rows at 20 dB: trees of random shape with a few more edges. Defaults, intervals included. Columns have one of
four scales, so that publishing takes little time. Of three runs on 30 columns the median counts. Tables and bundles go
to a temporary folder, or to one that is kept.

    python benchmarks/learn.py [30 | factor | 1000 | 2000 | 5000 ...] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Floats = npt.NDArray[np.float64]

SCALES = np.array([0.5, 1.0, 2.0, 4.0])  # of the columns, in turn
FARTHEST = 8.0  # standard deviations: the bounds
LIMITS = {"30": (1.2, 512), "factor": (8.0, 600), "1000": (20.0, 4096), "2000": (40.0, 4096), "5000": (200.0, 4096)}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
MEASURE = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


def factor_table(n_rows: int = 1257, n_columns: int = 452, n_sectors: int = 10) -> Floats:
    """Return rows of unit variance that a market and ten sectors explain to between 40 and 90 %."""
    rng = np.random.default_rng(1)
    market = rng.standard_t(4, size=(n_rows, 1)) / np.sqrt(2.0)
    sectors = rng.standard_t(5, size=(n_rows, n_sectors)) / np.sqrt(5.0 / 3.0)
    rest = rng.standard_t(4, size=(n_rows, n_columns)) / np.sqrt(2.0)
    explained = rng.uniform(0.4, 0.9, n_columns)
    by_market = rng.uniform(0.3, 0.9, n_columns) * explained
    own = sectors[:, np.arange(n_columns) % n_sectors]
    return np.sqrt(by_market) * market + np.sqrt(explained - by_market) * own + np.sqrt(1.0 - explained) * rest


def sparse_table(n_columns: int, n_rows: int = 10_000) -> Floats:
    """Return Gaussian rows of unit variance: each column depends on an earlier one, and one in four on two."""
    rng = np.random.default_rng(n_columns)
    rows = np.empty((n_rows, n_columns), order="F")
    for column in range(n_columns):
        rows[:, column] = rng.standard_normal(n_rows)
        if column:
            parents = rng.choice(column, size=min(column, 1 + (column % 4 == 0)), replace=False)
            rows[:, column] += rows[:, parents] @ (rng.choice([-1.0, 1.0], len(parents)) * rng.uniform(0.4, 0.9))
            rows[:, column] /= rows[:, column].std()
    return rows


def make_bundle(name: str, folder: Path, environment: dict[str, str]) -> Path:
    """Publish a table under cell noise and return the bundle, or the one that is there."""
    bundle = folder / f"table-{name}.bundle.tar"
    if bundle.exists():
        return bundle
    rows, decibels = (factor_table(), 10.0) if name == "factor" else (sparse_table(int(name)), 20.0)
    scale = SCALES[np.arange(rows.shape[1]) % len(SCALES)]
    names = [f"c{index}" for index in range(rows.shape[1])]
    table = folder / f"table-{name}.parquet"
    pq.write_table(pa.table(list((rows * scale).T), names=names), table)
    mu = 2.0 * FARTHEST * 10.0 ** (decibels / 20.0)  # of a cell, whose sigma is its width over mu
    bounds = [
        f"[columns.{column}]\nbounds = [{-FARTHEST * each}, {FARTHEST * each}]"
        for column, each in zip(names, scale, strict=True)
    ]
    policy = folder / f"table-{name}.policy.toml"
    policy.write_text(f'[privacy]\nunit = "cell"\nmu = {mu!r}\n' + "\n".join(bounds) + "\n", encoding="utf-8")
    _run("dp-publish", table.name, "--quiet", folder=folder, environment=environment)
    table.unlink()
    return bundle


def measure(bundle: Path, folder: Path, environment: dict[str, str]) -> tuple[float, float, int]:
    """Learn from a bundle with defaults; return processor seconds, peak megabytes and the number of edges."""
    command = str(Path(sys.executable).with_name("dp-learn"))
    words = [command, str(bundle), "--allow-older", "--out", "found"]
    finished = subprocess.run(
        [sys.executable, "-c", MEASURE, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    code, seconds, megabytes = json.loads(finished.stdout)
    if code:
        sys.exit(finished.stderr)
    summary = json.loads((folder / "found" / "summary.json").read_text(encoding="utf-8"))
    return seconds, megabytes, summary["n_edges"]


def _run(command: str, *words: str, folder: Path, environment: dict[str, str]) -> None:
    program = str(Path(sys.executable).with_name(command))
    subprocess.run([program, *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)


def main() -> None:
    """Print a line for every table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(LIMITS), metavar="TABLE", help=", ".join(LIMITS))
    parser.add_argument("--keep", type=Path, help="a folder for bundles, used again")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (chosen.keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name not in THREADS}
        environment["DPGRAPH_HOME"] = str(folder / "home")
        if not (folder / "home").exists():
            _run("dp-bundle", "keys", "new", folder=folder, environment=environment)
        print("table   CPU s  limit     MB  limit   edges")
        for name in chosen.tables:
            most, largest = LIMITS[name]
            bundle = make_bundle(name, folder, environment)
            runs = [measure(bundle, folder, environment) for _ in range(3 if name == "30" else 1)]
            seconds, megabytes, n_edges = sorted(runs)[len(runs) // 2]
            print(f"{name:>6} {seconds:6.1f} {most:6.1f} {megabytes:6.0f} {largest:6d} {n_edges:7d}", flush=True)


if __name__ == "__main__":
    main()
