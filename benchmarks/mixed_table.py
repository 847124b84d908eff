"""A table with categories, a boolean, a date and gaps against one of as many columns of numbers as it is published as.

    python benchmarks/mixed_table.py [ROWS ...]

publishes both through the commands, as rows and as second moments, and learns from them, for each number of rows (1 and
5 million by default). For every command it prints the processor seconds and the peak memory, and for every pair their
ratio, the mixed table's first; each is the least of three runs, in turn. It needs Linux.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

AT_ONCE, REPETITIONS = 2**19, 3
REGIONS, TRADES = [f"region {place}" for place in range(8)], [f"trade {place}" for place in range(49)]
MIXED = f"""
[columns.region]
kind = "category"
categories = {REGIONS}
[columns.trade]
kind = "category"
categories = {TRADES}
missing = "category"
[columns.member]
kind = "boolean"
[columns.joined]
kind = "date"
bounds = [1990-01-01, 2027-12-31]
[columns.pay]
bounds = [0, 100]
missing = "indicator"
[columns.age]
bounds = [0, 110]
"""
N_PUBLISHED = len(REGIONS) + len(TRADES) + 1 + 1 + 1 + 2 + 1
RELEASES = {"rows": 'unit = "cell"\nmu = 3.0', "covariance": 'unit = "row"\nmu = 1.0\nrelease = "covariance"'}


def mixed_rows(rng: np.random.Generator, n: int) -> pa.Table:
    """Return rows in which pay depends on the trade, and is often not told in one region."""
    region, trade = rng.integers(0, len(REGIONS), n), rng.integers(0, len(TRADES), n)
    pay = 50 + 0.5 * trade + rng.normal(0, 10, n)
    return pa.table(
        {
            "region": pa.array(REGIONS).take(pa.array(region)),
            "trade": pa.array(TRADES).take(pa.array(trade, mask=rng.random(n) < 0.03)),
            "member": pa.array(rng.random(n) < 0.4),
            "joined": pa.array(rng.integers(7305, 21184, n).astype(np.int32)).cast(pa.date32()),
            "pay": pa.array(pay, mask=rng.random(n) < np.where(region == 0, 0.3, 0.05)),
            "age": pa.array(rng.normal(45, 12, n)),
        }
    )


def number_rows(rng: np.random.Generator, n: int) -> pa.Table:
    """Return correlated normal columns."""
    common = rng.normal(size=n)
    return pa.table({f"x{place}": common + rng.normal(size=n) for place in range(N_PUBLISHED)})


def make_tables(folder: Path, n_rows: int) -> None:
    """Write both tables and their policies."""
    numbers = '[columns."*"]\nbounds = [-6, 6]\n'
    for name, make, columns in (("mixed", mixed_rows, MIXED), ("numbers", number_rows, numbers)):
        rng, schema = np.random.default_rng(11), make(np.random.default_rng(1), 1).schema
        with pq.ParquetWriter(folder / f"{name}.parquet", schema) as writer:
            for start in range(0, n_rows, AT_ONCE):
                writer.write_table(make(rng, min(AT_ONCE, n_rows - start)))
        for release, privacy in RELEASES.items():
            document = f'[dataset]\nname = "{name}"\n[privacy]\n{privacy}\n{columns}'
            (folder / f"{name}.{release}.toml").write_text(document)


def run(folder: Path, module: str, *words: str) -> tuple[float, float]:
    """Return the processor seconds and the peak memory in MB of a command."""
    places = {"DPGRAPH_HOME": str(folder / "home"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module, *words]
    process = subprocess.Popen(command, cwd=folder, env=os.environ | places, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(words)} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main(numbers_of_rows: list[int]) -> None:
    """Print the figures of every command."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for n_rows in numbers_of_rows:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            making = get_context("spawn").Process(target=make_tables, args=(folder, n_rows))  # a fork has our peak
            making.start()
            making.join()
            for release in RELEASES:
                found: dict[tuple[str, str], list[tuple[float, float]]] = {}
                for table in ("mixed", "numbers") * REPETITIONS:
                    shutil.copyfile(folder / f"{table}.{release}.toml", folder / f"{table}.policy.toml")
                    for file in folder.glob(f"{table}.tar*"):
                        file.unlink()
                    publish = (f"{table}.parquet", "--out", f"{table}.tar", "--quiet")
                    found.setdefault(("publish", table), []).append(run(folder, "dp_publish", *publish))
                    learn = (f"{table}.tar", "--out", f"{table}.graph", "--quiet")
                    found.setdefault(("learn", table), []).append(run(folder, "dp_learn", *learn))
                for task in ("publish", "learn"):
                    (mixed, peak), (plain, other) = (min(found[task, table]) for table in ("mixed", "numbers"))
                    print(
                        f"{n_rows:,} rows, {release}, {task}: {mixed:.2f} against {plain:.2f} s of processor, "
                        f"{mixed / plain:.2f} times; peak {peak:.0f} and {other:.0f} MB",
                        flush=True,
                    )


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1_000_000, 5_000_000])
