"""Moments of a bundle's rows on every core against another version of the code, and against one core.

    python benchmarks/parts.py [ROWS] [OLD]

publishes ROWS x 10 made-up numbers (20 million by default) and prints, for each of three runs, the wall seconds,
processor seconds and peak memory of verifying the bundle and computing its moments, with the digest of the moments,
which has to be the same. OLD is a checkout of another version (`git worktree add OLD COMMIT`). Every run is a process
of its own, and they take turns, as a machine may be busy. It needs Linux.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_publish import Policy, publish
from dp_publish.ledger import Ledger

N_COLUMNS, REPETITIONS = 10, 3
NAMES = [f"x{index}" for index in range(N_COLUMNS)]
LEARN = """
import hashlib, os, resource, sys, time
from dp_bundle.bundle import open_bundle
from dp_bundle.trust import UnsafeTrustAnyone
from dp_learn import estimate_moments
if len(sys.argv) > 2:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
started = time.perf_counter()
with open_bundle(sys.argv[1], UnsafeTrustAnyone()) as bundle:
    moments = estimate_moments(bundle)
wall, usage = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
digest = hashlib.sha256(moments.mean.tobytes() + moments.scatter.tobytes()).hexdigest()[:16]
cpu = usage.ru_utime + usage.ru_stime
with open("/proc/self/status") as status:  # ru_maxrss would be the parent's
    peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
print(f"{wall:6.2f} s, {cpu:6.2f} s of processor with imports, {peak:4.0f} MB, moments {digest}")
"""


def make_bundle(path: Path, n_rows: int) -> None:
    """Publish correlated normal columns."""
    rng = np.random.default_rng(11)
    common = rng.normal(size=n_rows)
    table = pa.table({name: common + rng.normal(size=n_rows) for name in NAMES})
    columns = {name: {"bounds": [-6, 6]} for name in NAMES}
    document = {"dataset": {"name": "made-up"}, "privacy": {"mu": 1.0}, "columns": columns}
    ledger = Ledger(path.parent / "ledger.sqlite")
    publish(table, Policy.model_validate(document), out=path, key=Ed25519PrivateKey.generate(), ledger=ledger)


def main(n_rows: int, old: Path | None) -> None:
    """Print the figures of every run."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "made-up.tar"
        make_bundle(path, n_rows)
        runs: list[tuple[str, list[str], dict[str, str]]] = [("every core", [], {}), ("one core", ["1"], {})]
        if old is not None:
            places = os.pathsep.join(str(old / side) for side in ("common", "publisher", "consumer"))
            runs.append((str(old), [], {"PYTHONPATH": places}))
        for _ in range(REPETITIONS):
            for label, words, more in runs:
                command = [sys.executable, "-c", LEARN, str(path), *words]
                environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | more
                found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                print(f"{label}: {found.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000, Path(sys.argv[2]) if len(sys.argv) > 2 else None)
