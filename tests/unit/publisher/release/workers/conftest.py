"""Workers of a test, and a table with gaps and owners for them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from tests.conftest import policy_with
from tests.unit.publisher.release.conftest import Publish, Sent

from dp_bundle.bundle.reading import open_bundle
from dp_bundle.data import rows as parts
from dp_bundle.files.opening import open_store
from dp_publish import Policy, Receipt
from dp_publish.release.workers import distributed
from dp_publish.release.workers.worker import Cluster

N_ROWS = 3_050
LEVELS = ["a", "b", "c"]
FORMS = ["{}", "{} ", "0{}", "{}.0", " 00{}"]  # in which one id may be spelled


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make row groups of 100 rows, parts of three of them, and grains of 70 raw rows."""
    monkeypatch.setattr(parts, "batch_rows", lambda _: 100)
    monkeypatch.setattr(parts, "_PART_CELLS", 300)
    monkeypatch.setattr(distributed, "_GRAIN", 70)


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """Return workers that run everything twice."""
    return Cluster(Sent(), str(tmp_path / "staging"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a table with gaps, a category, and owners of one to hundreds of rows."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, N_ROWS))
    table = pa.table(
        {
            "n": np.arange(N_ROWS) // 64.0,
            "m": np.arange(N_ROWS) % 64.0,
            "x": pa.array(x, mask=x > 1.5),
            "y": x + y,
            "level": pa.array(LEVELS).take(pa.array(rng.integers(0, 3, N_ROWS))),
            "who": [FORMS[place % 5].format(who) for place, who in enumerate(owners().tolist())],
        }
    )
    pq.write_table(table, tmp_path / "raw.parquet", row_group_size=777)
    return tmp_path / "raw.parquet"


@pytest.fixture
def by_workers(source: Path, cluster: Cluster, publish_here: Publish) -> Publish:
    """Return what publishes the table by these workers, under a policy."""

    def make(policy: Policy, data: Any = source, **others: Any) -> Receipt:
        return publish_here(data, policy, **{"cluster": cluster, **others})

    return make


def owners() -> NDArray[np.int64]:
    """Return whose row each is."""
    return np.floor(60 * np.random.default_rng(6).random(N_ROWS) ** 3).astype(int)


def policy_for(columns: dict[str, Any], **privacy: Any) -> Policy:
    """Return a policy that publishes these columns."""
    others = {name: {"drop": True} for name in ("n", "m", "x", "y", "level") if name not in columns}
    if "unit" not in privacy:
        others["who"] = {"drop": True}
    return policy_with(columns | others, name="d", **privacy)


def staged(cluster: Cluster) -> list[str]:
    """Return the names of everything that was staged and not removed."""
    return open_store(cluster.staging).names()


def published(path: Path) -> tuple[NDArray[np.int64], list[int]]:
    """Return which rows of the table are published, in order, and the sizes of the parts."""
    with open_bundle(path) as opened:
        numbers = [np.rint(batch.column(name).to_numpy()) for batch in opened.batches() for name in ("n", "m")]
        rows = np.concatenate([64 * n + m for n, m in zip(numbers[::2], numbers[1::2], strict=True)])
        sizes = [pq.read_metadata(opened.open(name)).num_rows for name in opened.members if name.startswith("data/")]
    return rows.astype(int), sizes


NUMBERED = {"n": {"bounds": [0, 64]}, "m": {"bounds": [0, 64]}}
EXACT = NUMBERED | {"x": {"bounds": [-4, 4], "missing": "drop"}}
CAPPED = policy_for(EXACT, sigma=0.05, unit={"entity": "who", "max_rows": 7})
