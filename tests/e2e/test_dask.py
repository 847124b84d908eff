"""Publication by Dask's workers, some of which are killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_bundle.engines import Dask
from dp_bundle.errors import ParameterError
from dp_publish import Policy, publish
from dp_publish.ledger import Ledger
from dp_publish.release import Cluster

N_ROWS, KILLS = 4_500_000, 5  # 6 parts of 10 columns
NAMES = [f"x{index}" for index in range(10)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Dask, when its workers are killed
def test_killed_workers_change_nothing(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """With workers killed at random moments every row is published once, in its place, and nothing stays staged."""
    numbers = np.arange(N_ROWS, dtype=float)
    table = pa.table({name: numbers + 10.0 * index for index, name in enumerate(NAMES)})
    pq.write_table(table, tmp_path / "raw.parquet", row_group_size=400_000)
    columns = {name: {"bounds": [0, N_ROWS + 100]} for name in NAMES}
    document = {"dataset": {"name": "d"}, "privacy": {"sigma": 5000.0}, "columns": columns}

    finished, killed = threading.Event(), []
    with Dask(n_workers=2) as engine:

        def kill() -> None:
            rng = random.Random(7)
            while len(killed) < KILLS and not finished.wait(rng.uniform(0.2, 1.5)):
                with contextlib.suppress(Exception):  # one that is just coming or going
                    pid = rng.choice(list(engine._cluster.workers.values())).pid
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            cluster = Cluster(engine, str(tmp_path / "staging"))
            policy = Policy.model_validate(document)
            receipt = publish(tmp_path / "raw.parquet", policy, out=tmp_path / "a.tar", key=key, cluster=cluster)
        finally:
            finished.set()
            killer.join()

    assert killed
    with open_bundle(receipt.path) as opened:
        seen = 0
        for batch in opened.batches():
            expected = numbers[seen : seen + batch.num_rows]
            for index, column in enumerate(batch.columns):
                noise = column.to_numpy() - 10.0 * index - expected
                assert abs(noise.mean()) < 5 * 5000 / np.sqrt(len(noise))  # 80 rows
                assert noise.std() == pytest.approx(5000, rel=0.05)
            seen += batch.num_rows
    assert seen == N_ROWS
    assert [(entry.number, entry.state) for entry in Ledger().entries()] == [(1, "published")]
    assert [path for path in (tmp_path / "staging").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("address", ["tcp://10.1.2.3:8786", "cluster:8786", "tcp://scheduler.example:8786"])
def test_a_scheduler_elsewhere_needs_tls(address: str) -> None:
    """Whoever could listen or send tasks on the way would have the raw table."""
    with pytest.raises(ParameterError, match="tls://"):
        Dask(address)
