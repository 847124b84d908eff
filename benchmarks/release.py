"""A release of 10 million rows x 11 float columns against the script that a user would write.

The script reads the table with pandas, adds numpy's normal noise, and writes Parquet: unsafe float noise, everything in
memory. Both run as processes of their own, in turn; the figures are wall time, peak memory, and bytes. Run it with
`python benchmarks/release.py [ROWS]`; it needs about 3 GB of disk for its temporary folder and as much memory as the
script takes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_COLUMNS, WIDTH, MU, REPETITIONS = 11, 12.0, 1.0, 3
Measured = tuple[float, float, float]  # wall seconds, processor seconds, peak megabytes
NAMES = [f"x{index}" for index in range(N_COLUMNS)]
SCRIPT = f"""
import numpy as np, pandas as pd
table = pd.read_parquet("data.parquet")
noise = np.random.default_rng().normal(scale={WIDTH / MU}, size=table.shape)
(table.clip(-6, 6) + noise).to_parquet("noisy.parquet")
"""
MEASURE = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


def make_table(path: Path, n_rows: int) -> None:
    """Write a table of correlated normal columns, a million rows at a time."""
    rng = np.random.default_rng(11)
    schema = pa.schema([(name, pa.float64()) for name in NAMES])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, 1_000_000):
            size = min(1_000_000, n_rows - start)
            common = rng.normal(size=size)
            writer.write_table(pa.table([common + rng.normal(size=size) for _ in NAMES], schema=schema))


def measure(folder: Path, words: list[str]) -> Measured:
    """Run a command; return its wall seconds, processor seconds and peak megabytes."""
    environment = os.environ | {"DPGRAPH_HOME": str(folder / "home")}
    measured = [sys.executable, "-c", MEASURE, *words]
    finished = subprocess.run(measured, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    code, wall, cpu, megabytes = json.loads(finished.stdout)
    if code:
        sys.exit(finished.stderr)
    return wall, cpu, megabytes


def publish_in_turn(folder: Path, n_rows: int, repetitions: int) -> tuple[list[Measured], list[Measured]]:
    """Return wall time, processor time and memory of `dp-publish`, and of a user's pandas script, each in turn."""
    make_table(folder / "data.parquet", n_rows)
    bounds = "\n".join(f"[columns.{column}]\nbounds = [-6, 6]" for column in NAMES)
    (folder / "data.policy.toml").write_text(f'[privacy]\nunit = "cell"\nmu = {MU}\n{bounds}\n')
    publish = [str(Path(sys.executable).with_name("dp-publish")), "data.parquet", "--quiet"]
    ours, theirs = [], []
    for _ in range(repetitions):
        for old in folder.glob("data.bundle.tar*"):  # and its signature
            old.unlink()
        ours.append(measure(folder, publish))
        theirs.append(measure(folder, [sys.executable, "-c", SCRIPT]))
    return ours, theirs


def entropy_bits(sigma: float, step: float) -> float:
    """Return the entropy of a noisy cell in bits, for values of variance 2: log2(sqrt(2 pi e v) / step)."""
    return float(np.log2(np.sqrt(2 * np.pi * np.e * (sigma**2 + 2.0)) / step))


def main() -> None:
    """Print wall time, memory and bytes of both, and the ratios."""
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, theirs = publish_in_turn(folder, n_rows, REPETITIONS)
        sizes = (folder / "data.bundle.tar").stat().st_size, (folder / "noisy.parquet").stat().st_size
        mine, other = np.median(ours, axis=0), np.median(theirs, axis=0)
        cells = n_rows * N_COLUMNS
        print(f"{n_rows:,} rows x {N_COLUMNS} float columns, cell mu = {MU}; medians of {REPETITIONS}, in turn")
        print(f"{'':16}{'wall s':>10}{'cpu s':>10}{'peak MB':>10}{'bytes/cell':>12}")
        for label, figures, size in (("dp-publish", mine, sizes[0]), ("pandas script", other, sizes[1])):
            print(f"{label:16}{figures[0]:10.2f}{figures[1]:10.2f}{figures[2]:10.0f}{size / cells:12.3f}")
        print(
            f"{'ratio':16}"
            + "".join(f"{a / b:10.3f}" for a, b in zip(mine, other, strict=True))
            + f"{sizes[0] / sizes[1]:12.3f}"
        )
        sigma = WIDTH / MU
        step = 2.0 ** np.floor(np.log2(sigma / 256))
        print(f"entropy of a noisy cell: {entropy_bits(sigma, step) / 8:.3f} bytes")


if __name__ == "__main__":
    main()
