"""Publication, and verification with moments, by two Dask workers against one.

    python benchmarks/workers.py [ROWS ...]

publishes ROWS x 10 made-up numbers (20 million by default) and learns from them. For every run it prints the wall
seconds, without the start of the workers (imports, and the load of compiled kernels), the seconds of processors that it
took and that others took meanwhile, and the peak memory of the largest worker; then the least seconds of one
worker over those of two, and how many digests the moments had, which has to be one. Runs take turns, as a machine may
be busy: figures hold where others took little. It needs Linux.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from parts import NAMES, make_table

REPETITIONS = 3
START = """
import json, os, sys, time
from pathlib import Path
from dp_bundle.engines.dask import Dask

def warm_up(_):
    import dp_learn, dp_learn.covariance.moments, dp_publish.release
    from dp_publish.sampling.gaussian import sample_rounded_gaussian
    sample_rounded_gaussian(1e4, 1000)
    time.sleep(1)  # so that each worker has one

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))

def processor():
    used = os.times()
    return used.user + used.system

def busy():
    with open("/proc/stat") as status:
        user, nice, system, _, _, hard, soft, *_ = map(int, status.readline().split()[1:])
    return (user + nice + system + hard + soft) / os.sysconf("SC_CLK_TCK")

source, out, n_workers = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
"""
PUBLISH = f"""
import secrets
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.release.workers.cluster import Cluster

def work(engine):
    columns = {{name: {{"bounds": [-6, 6]}} for name in {NAMES}}}
    document = {{"dataset": {{"name": "made-up"}}, "privacy": {{"mu": 1.0}}, "columns": columns}}
    policy, key = Policy.model_validate(document), Ed25519PrivateKey.generate()
    ledger = Ledger(out.with_name(f"{{secrets.token_hex(8)}}.sqlite"))
    out.unlink(missing_ok=True)
    cluster = Cluster(engine, str(out.with_name("staging")))
    started = time.perf_counter()
    publish(source, policy, out=out, key=key, ledger=ledger, cluster=cluster)
    return time.perf_counter() - started, ""
"""
LEARN = """
import hashlib
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn import estimate_moments

def work(engine):
    started = time.perf_counter()
    with open_bundle(out, UnsafeTrustAnyone(), engine=engine) as bundle:
        moments = estimate_moments(bundle)
    wall = time.perf_counter() - started
    return wall, hashlib.sha256(moments.mean.tobytes() + moments.scatter.tobytes()).hexdigest()[:16]
"""
END = """
if __name__ == "__main__":
    with Dask(n_workers=n_workers) as engine:
        list(engine.map_unordered(warm_up, range(2 * n_workers)))
        def ours():
            return processor() + sum(engine._client.run(processor).values())
        before, all_before = ours(), busy()
        wall, said = work(engine)
        all_of_it, used = busy() - all_before, ours() - before
        print(json.dumps([wall, used, all_of_it - used, max(engine._client.run(peak).values()), said]))
"""


def main(sizes: list[int]) -> None:
    """Print the figures of every run."""
    with tempfile.TemporaryDirectory() as name:
        for n_rows in sizes:
            source, out = Path(name) / "made-up.parquet", Path(name) / "made-up.tar"
            make_table(source, n_rows)
            for task, code in (("publish", PUBLISH), ("learn", LEARN)):
                least: dict[int, float] = {}
                moments = set()
                script = Path(name) / f"{task}.py"
                script.write_text(START + code + END, encoding="utf-8")
                for _ in range(REPETITIONS):
                    for n_workers in (1, 2):
                        command = [sys.executable, str(script), str(source), str(out), str(n_workers)]
                        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
                        found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                        wall, used, others, peak, said = json.loads(found.stdout.splitlines()[-1])
                        least[n_workers] = min(wall, least.get(n_workers, wall))
                        moments.add(said)
                        seconds = f"{wall:6.2f} s, of processors {used:5.2f} and {others:5.2f} of others"
                        print(f"{n_rows} rows, {task}, {n_workers}: {seconds}, {peak:4.0f} MB a worker", flush=True)
                faster = least[1] / least[2]
                said = f"two workers {faster:.2f} x as fast as one, {len(moments)} digest(s)"
                print(f"{n_rows} rows, {task}: {said}", flush=True)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [20_000_000])
