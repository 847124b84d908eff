"""Publication by Dask's workers, some of which are killed."""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_bundle.base.engine import Dask
from dp_bundle.base.errors import DpGraphError
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.release.workers.worker import Cluster

NAMES = [f"x{index}" for index in range(10)]
T = TypeVar("T")
R = TypeVar("R")


class _Twice:
    """Has every task done twice, which Dask does with one whose worker it takes for lost."""

    def __init__(self, engine: Dask) -> None:
        self._engine, self.n_workers = engine, engine.n_workers

    def map_unordered(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        tasks = list(tasks)
        return self._engine.map_unordered(function, [*tasks, *tasks])


@pytest.mark.filterwarnings("ignore")  # of Dask, when its workers are killed
@pytest.mark.parametrize(
    ("n_rows", "kills"),
    [pytest.param(3_000_000, 3, marks=pytest.mark.slow), pytest.param(18_000_000, 20, marks=pytest.mark.long)],
)  # 4 parts of 10 columns, and 22
def test_killed_workers_change_nothing(n_rows: int, kills: int, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Workers are killed, and tasks done twice: every row is published once, in its place."""
    numbers = np.arange(n_rows, dtype=float)
    table = pa.table({name: numbers + 10.0 * index for index, name in enumerate(NAMES)})
    pq.write_table(table, tmp_path / "raw.parquet", row_group_size=400_000)
    del table
    columns = {name: {"bounds": [0, n_rows + 100]} for name in NAMES}
    document = {"dataset": {"name": "d"}, "privacy": {"sigma": 5000.0}, "columns": columns}

    finished, killed = threading.Event(), list[int]()
    with Dask(n_workers=2) as engine:

        def kill() -> None:
            rng = random.Random(7)
            while len(killed) < kills and not finished.wait(rng.uniform(0.2, 1.5)):
                with contextlib.suppress(Exception):  # one that is just coming or going
                    pid = rng.choice(list(engine._cluster.workers.values())).pid
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            cluster = Cluster(_Twice(engine), str(tmp_path / "staging"))
            policy, raw, out = Policy.model_validate(document), tmp_path / "raw.parquet", tmp_path / "a.tar"
            receipt = publish(raw, policy, out=out, key=key, cluster=cluster)
        finally:
            finished.set()
            killer.join()

    assert len(killed) == kills
    with open_bundle(receipt.path) as opened:
        seen = 0
        for batch in opened.batches():
            expected = numbers[seen : seen + batch.num_rows]
            for index, column in enumerate(batch.columns):
                noise = column.to_numpy() - 10.0 * index - expected
                assert abs(noise.mean()) < 7 * 5000 / np.sqrt(len(noise))  # by chance in one of 10^12
                assert noise.std() == pytest.approx(5000, rel=0.05)
            seen += batch.num_rows
    assert seen == n_rows
    assert [(entry.number, entry.state) for entry in Ledger().entries()] == [(1, "published")]
    assert [path for path in (tmp_path / "staging").rglob("*") if path.is_file()] == []


def _fail_or_write(path: str) -> None:
    """Write a file after a while, or fail at once without a name."""
    if not path:
        raise DpGraphError("at once")
    time.sleep(2)
    Path(path).touch()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Dask, on a machine that is slow to start it
def test_tasks_that_run_are_waited_for_after_an_error(tmp_path: Path) -> None:
    """When the error is raised, no task does anything any more, so that what was staged can be removed; none begins."""
    with Dask(n_workers=2) as engine:
        names = [str(tmp_path / "running"), "", *[str(tmp_path / f"later-{index}") for index in range(20)]]
        with pytest.raises(DpGraphError, match="at once"):
            list(engine.map_unordered(_fail_or_write, names))
        there = {path.name for path in tmp_path.iterdir()}
        assert "running" in there
        assert len(there) <= 6
        time.sleep(3)
        assert {path.name for path in tmp_path.iterdir()} == there
