"""Memory and time at the ends of what is supported: 2,000 columns learned from, and rows published by four workers.

    OPENBLAS_NUM_THREADS=1 python benchmarks/large.py columns [COLUMNS]
    OPENBLAS_NUM_THREADS=1 python benchmarks/large.py rows [ROWS]

Columns are a sparse graph: chains of five, and a link of every fifty. 40,000 rows of them are published as second
moments at mu = 20, and learned from by `dp-learn`. Rows have four columns; four workers of Dask publish them, and the
memory of each is looked at ten times a second. It needs Linux. What was found, on two cores that were shared:

    columns   said       peak      processor time of dp-learn
    500       .65 GB     .51 GB    11 s
    1,000     1.1 GB     .75 GB    22 s
    2,000     2.6 GB     1.45 GB   80 s

    rows          a worker's peak   processor time of all
    4,000,000     356 MB            9 s
    100,000,000   372 MB            36 s

10^9 rows take ten times as long as the latter, and as much memory: each worker holds one row group.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dp_bundle.base.engine import Dask
from dp_bundle.trust.signing import load_private_key
from dp_bundle.trust.store import new_key_pair, private_key_path, public_key_path
from dp_publish import Policy, publish
from dp_publish.release.workers.worker import Cluster

N_WORKERS, GROUP = 4, 2**20


def write_columns(path: Path, n_columns: int, n_rows: int = 40_000) -> None:
    """Write rows whose graph is sparse."""
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    for place in range(1, n_columns):
        if place % 5:
            rows[:, place] += 0.45 * rows[:, place - 1]
        elif place % 50 == 0:
            rows[:, place] += 0.3 * rows[:, place - 50]
    names = [f"x{place:04}" for place in range(n_columns)]
    pq.write_table(pa.table([*rows.T.round(3)], names=names), path, row_group_size=4_000)


def learn_columns(folder: Path, n_columns: int) -> None:
    """Publish second moments of many columns, learn from them, and print what it took."""
    write_columns(folder / "wide.parquet", n_columns)
    for words in (
        ["dp-publish", "wide.parquet", "--mu", "20", "--unit", "row", "--yes", "--quiet", "--out", "wide.tar"],
        ["dp-bundle", "trust", str(public_key_path()), "--name", "this"],
        ["dp-learn", "wide.tar", "--out", "found"],
    ):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, cwd=folder, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{words[0]}: {after.ru_utime - before.ru_utime:.0f} CPU-s, peak so far {after.ru_maxrss / 1e6:.2f} GB")


def write_rows(path: Path, n_rows: int) -> None:
    """Write four columns of numbers in groups of a million rows."""
    rng = np.random.default_rng(9)
    block = pa.table({f"x{place}": rng.normal(size=GROUP).round(4) for place in range(4)})
    with pq.ParquetWriter(path, block.schema) as writer:
        for start in range(0, n_rows, GROUP):
            writer.write_table(block.slice(0, min(GROUP, n_rows - start)), row_group_size=GROUP)


def watch(peaks: dict[int, int], over: threading.Event) -> None:
    """Keep the largest resident memory of every process below this one, in bytes, until the event."""
    while not over.wait(0.1):
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    said = dict(line.split(":", 1) for line in (entry / "status").read_text().splitlines())
                    parent = int(said["PPid"])
                    if int(entry.name) in peaks or parent in peaks:
                        peaks[int(entry.name)] = int(said["VmHWM"].split()[0]) * 1024
                except (OSError, KeyError):
                    continue  # it has ended


def publish_rows(folder: Path, n_rows: int) -> None:
    """Publish noisy rows by four workers, and print what it took."""
    write_rows(folder / "long.parquet", n_rows)
    columns = {f"x{place}": {"bounds": [-6, 6]} for place in range(4)}
    policy = Policy.model_validate(
        {"dataset": {"name": "long"}, "privacy": {"mu": 1.0, "unit": "row"}, "columns": columns}
    )
    peaks, over = {os.getpid(): 0}, threading.Event()
    watching = threading.Thread(target=watch, args=(peaks, over))
    watching.start()
    began, used = time.perf_counter(), os.times()
    with Dask(n_workers=N_WORKERS) as engine:
        idle = dict(peaks)
        cluster = Cluster(engine, str(folder / "staging"))
        (folder / "staging").mkdir(mode=0o700)
        key = load_private_key(private_key_path())
        receipt = publish(folder / "long.parquet", policy, out=folder / "long.tar", key=key, cluster=cluster)
    over.set()
    watching.join()

    took = os.times()
    seconds = sum(took[:4]) - sum(used[:4])
    print(
        f"{n_rows:,} rows, {receipt.path.stat().st_size / 1e9:.2f} GB: {time.perf_counter() - began:.0f} s by the clock"
    )
    print(f"{seconds:.0f} CPU-s; peaks in MB, of {len(idle)} processes at the start:")
    print("  this process", peaks[os.getpid()] // 10**6, "workers", sorted(peak // 10**6 for peak in peaks.values()))


def main() -> None:
    """Run one of both."""
    what, size = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPGRAPH_HOME"] = f"{folder}/home"
        new_key_pair()
        if what == "columns":
            learn_columns(Path(folder), size or 2_000)
        else:
            publish_rows(Path(folder), size or 10**8)


if __name__ == "__main__":
    main()
