"""Helpers for tests of releases."""

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import policy_with

from dp_bundle.base.errors import DpGraphError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.data import rows as parts
from dp_publish import Policy, Receipt, publish
from dp_publish.ledger.ledger import Ledger

T = TypeVar("T")
R = TypeVar("R")
Publish = Callable[..., Receipt]


class Sent:
    """An engine that sends tasks and results as a cluster would, every task twice, to workers that race."""

    n_workers = 2

    def __init__(self) -> None:
        self.tasks: list[bytes] = []
        self.all_tasks: list[bytes] = []

    def map_unordered(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results of all tasks, and of all of them again."""
        self.tasks = [pickle.dumps((function, task)) for task in tasks]
        self.all_tasks += self.tasks

        def work(sent: bytes) -> bytes:
            run, task = pickle.loads(sent)  # noqa: S301  as a worker does
            try:
                return pickle.dumps(run(task))
            except DpGraphError as error:
                return pickle.dumps(error)

        with ThreadPoolExecutor(4) as pool:
            for answer in pool.map(work, [*self.tasks, *reversed(self.tasks)]):
                found = pickle.loads(answer)  # noqa: S301
                if isinstance(found, DpGraphError):
                    raise found
                yield found


@pytest.fixture
def one_column() -> Policy:
    """Return a policy for a column x within [0, 1]."""
    return private({"x": {"bounds": [0, 1]}}, mu=1.0)


def states() -> list[str]:
    """Return what the ledger has of every release."""
    return [entry.state for entry in Ledger().entries()]


@contextlib.contextmanager
def killed_by(error: type[BaseException], owner: Any, name: str, call: Callable[..., Any]) -> Iterator[None]:
    """Call another function in place of one, whose error ends the block as a kill would: no handler runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        patch.setattr("dp_publish.release.publishing._take_back_or_explain", lambda *_: None)
        with pytest.raises(error):
            yield


def rows_of(receipt: Receipt) -> pd.DataFrame:
    """Verify a bundle and read all of it."""
    with open_bundle(receipt.path) as opened:
        return pa.Table.from_batches(list(opened.batches())).to_pandas()


def nothing_happened(folder: Path, before: set[Path]) -> bool:
    """Tell whether the folder holds what it held and the ledger nothing."""
    return {path for path in folder.iterdir() if path.name != "home"} == before and Ledger().entries() == []


def private(columns: dict[str, Any] | None = None, **privacy: Any) -> Policy:
    """Return a policy, which leaves bounds out unless some are given."""
    return policy_with(columns or {}, name="d", **privacy)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Make parts of 100 rows."""
    monkeypatch.setattr(parts, "batch_rows", lambda _: 100)
    monkeypatch.setattr(parts, "_PART_CELLS", 100)


@pytest.fixture
def with_gaps(tmp_path: Path) -> Path:
    """Return the path of a table whose columns have no bounds, and gaps."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=1000)
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"x": rng.normal(size=1000), "y": pa.array(y, mask=y > 2)}), path, row_group_size=130)
    return path


@pytest.fixture
def publish_here(one_column: Policy, tmp_path: Path, key: Ed25519PrivateKey) -> Publish:
    """Return `publish` with this test's key: by default of one row to a.tar, which a plain name is put beside."""

    def make(data: Any = None, policy: Policy = one_column, *, out: str | Path = "a.tar", **others: Any) -> Receipt:
        source = pd.DataFrame({"x": [0.5]}) if data is None else data
        return publish(source, policy, out=out if "/" in str(out) else tmp_path / out, key=key, **others)

    return make
