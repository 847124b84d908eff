"""Publication, and moments of a bundle's rows, on every core against another version of the code, and against one core.

    python benchmarks/parts.py [ROWS] [OLD]

publishes ROWS x 10 made-up numbers (20 million by default) and learns from them. For every run it prints the wall
seconds, processor seconds and peak memory of publishing a Parquet file, or of verifying the bundle that it published
itself and computing its moments. OLD is a checkout of another version
(`git worktree add OLD COMMIT`). Every run is a process of its own, and they take turns, as a machine may be busy: the
least of several is what counts. It needs Linux.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_COLUMNS, REPETITIONS, AT_ONCE = 10, 5, 2**20
NAMES = [f"x{index}" for index in range(N_COLUMNS)]
START = """
import os, resource, sys, time
if len(sys.argv) > 3:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
"""
PUBLISH = f"""
import secrets, tempfile
from pathlib import Path
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger
source, out = map(Path, sys.argv[1:3])
columns = {{name: {{"bounds": [-6, 6]}} for name in {NAMES}}}
document = {{"dataset": {{"name": "made-up"}}, "privacy": {{"mu": 1.0}}, "columns": columns}}
policy, key = Policy.model_validate(document), Ed25519PrivateKey.generate()
ledger = Ledger(out.with_name(f"{{secrets.token_hex(8)}}.sqlite"))
out.unlink(missing_ok=True)
started = time.perf_counter()
publish(source, policy, out=out, key=key, ledger=ledger)
wall = time.perf_counter() - started
"""
LEARN = """
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn import estimate_moments
started = time.perf_counter()
with open_bundle(sys.argv[2], UnsafeTrustAnyone()) as bundle:
    moments = estimate_moments(bundle)
wall = time.perf_counter() - started
"""
END = """
usage = resource.getrusage(resource.RUSAGE_SELF)
cpu = usage.ru_utime + usage.ru_stime
with open("/proc/self/status") as status:  # ru_maxrss would be the parent's
    peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
print(f"{wall:6.2f} s, {cpu:6.2f} s of processor with imports, {peak:4.0f} MB")
"""


def make_table(path: Path, n_rows: int) -> None:
    """Write correlated normal columns."""
    rng = np.random.default_rng(11)
    schema = pa.schema([(name, pa.float64()) for name in NAMES])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n_rows, AT_ONCE):
            size = min(AT_ONCE, n_rows - start)
            common = rng.normal(size=size)
            writer.write_table(pa.table({name: common + rng.normal(size=size) for name in NAMES}))


def main(n_rows: int, old: Path | None) -> None:
    """Print the figures of every run."""
    runs: list[tuple[str, list[str], dict[str, str]]] = [("every core", [], {}), ("one core", ["1"], {})]
    if old is not None:
        places = os.pathsep.join(str(old / side) for side in ("common", "publisher", "consumer"))
        runs.append((str(old), [], {"PYTHONPATH": places}))
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "made-up.parquet"
        make_table(source, n_rows)
        for task, code in (("publish", PUBLISH), ("learn", LEARN)):
            for _ in range(REPETITIONS):
                for place, (label, words, more) in enumerate(runs):
                    out = Path(name) / f"made-up-{place}.tar"
                    command = [sys.executable, "-c", START + code + END, str(source), str(out), *words]
                    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"} | more
                    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                    print(f"{task}, {label}: {found.stdout.strip()}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000, Path(sys.argv[2]) if len(sys.argv) > 2 else None)
