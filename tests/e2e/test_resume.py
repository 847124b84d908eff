"""A driver that is killed (SIGKILL) after each step of a release, and the one that resumes it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_publish.ledger.ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]

# Every step is done by a process that is forked from one that has only imported: publish and be killed, then resume.
SCRIPT = """
import json, os, signal
from pathlib import Path

import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from dp_bundle.data import rows as parts
from dp_bundle.trust.keys import signing_key
from dp_publish import Policy, publish
from dp_publish.release.resuming import resume
from tests.unit.publisher.release import stopped_jobs as steps

parts.batch_rows, parts._PART_CELLS = lambda _: 100, 100
key, found = signing_key()[0], {}

def in_a_process(work):
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    return os.waitpid(pid, 0)[1]

for stop in ("plan", "bounds", "part 6", "sealed", "promotion", "manifest"):
    owner, name, when = steps.STOPS[stop]
    table, job, out = (Path(f"{stop}{suffix}") for suffix in (".parquet", ".job", ".tar"))
    values = np.random.default_rng(1).normal(size=(2, steps.N_ROWS))
    pq.write_table(pa.table({"x": values[0], "y": pa.array(values[1], mask=values[1] > 2)}), table)
    policy = steps.policy_of()
    policy = policy.model_copy(update={"dataset": policy.dataset.model_copy(update={"name": stop})})
    original = getattr(owner, name)

    def killed(*given, **named):
        if when is steps.before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*given, **named)
        if when(*given, **named):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def begin():
        setattr(owner, name, killed)
        publish(table, policy, out=out, key=key, job=job)

    assert os.WTERMSIG(in_a_process(begin)) == signal.SIGKILL
    drawn = steps.digests_of(job)
    assert in_a_process(lambda: resume(job, key=key)) == 0
    found[stop] = drawn
print(json.dumps(found))
"""


@pytest.mark.slow
def test_killed_after_every_step(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Each time the release is finished with one entry, and what was drawn before the kill is what is published."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    drawn = json.loads(ended.stdout)
    n_recorded = {stop: sum(name.startswith("place-") for name in names) for stop, names in drawn.items()}

    for stop, names in drawn.items():
        (entry,) = Ledger().entries(stop)
        with open_bundle(tmp_path / f"{stop}.tar") as opened:
            assert (entry.state, entry.manifest_sha256) == ("published", opened.manifest_sha256)
            published = {name: opened.sha256(name) for name in opened.members if name.startswith("data/")}
            found = {column.name: list(column.bounds or ()) for column in opened.release.columns}
            centers = {column.name: column.fill for column in opened.release.columns}
        assert len(published) == 10
        for name, digest in names.items():
            if name.startswith("place-"):
                assert published[f"data/part-{name[6:]}.parquet"] == digest
        assert names.get("bounds", found) == found
        assert names.get("centers", centers) == centers
    assert n_recorded["plan"] == n_recorded["bounds"] == 0
    assert 0 < n_recorded["part 6"] <= 10
    assert {n_recorded[stop] for stop in ("sealed", "promotion", "manifest")} == {10}
    assert not list(tmp_path.glob("*.job"))
