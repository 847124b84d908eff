"""Publication by workers that run tasks twice, fail and race: one release, every row once, nothing seen twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.publisher.release.conftest import Publish, nothing_happened, private, rows_of, states
from tests.unit.publisher.release.workers.conftest import N_ROWS, staged

from dp_bundle.base.errors import DpGraphError, MissingValuesError, ParameterError, StoreError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.files.opening import open_store
from dp_publish import Policy
from dp_publish.release.begun import Begun, Part
from dp_publish.release.workers import distributed
from dp_publish.release.workers.worker import Cluster


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a table in which every row is known by its value."""
    pq.write_table(pa.table({"x": np.arange(N_ROWS, dtype=float)}), tmp_path / "raw.parquet", row_group_size=777)
    return tmp_path / "raw.parquet"


def policy_for(**column: Any) -> Policy:
    """Return a policy with little noise."""
    return private({"x": {"bounds": [0, N_ROWS], **column}}, sigma=0.5)


def staged_parts(cluster: Cluster) -> list[str]:
    """Return the names of the parts among them."""
    return [name for name in staged(cluster) if name.endswith(".parquet")]


def test_of_tasks_that_run_twice_one_part_is_published(
    cluster: Cluster, by_workers: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two attempts at each part are staged with noise of their own, and one alone is published, once and in its place.

    What is in the bundle gives its room back at once, and what is in none at the end.
    """
    seen: dict[str, bytes] = {}
    left: list[str] = []
    take, remove = distributed._take, Begun.remove

    def look_and_take(*arguments: Any) -> Part:
        seen.update({name: open_store(cluster.staging).read(name) for name in staged_parts(cluster)})
        return take(*arguments)

    def look_and_remove(begun: Begun) -> None:
        left.extend(staged_parts(cluster))
        remove(begun)

    monkeypatch.setattr(distributed, "_take", look_and_take)
    monkeypatch.setattr(Begun, "remove", look_and_remove)
    receipt = by_workers(policy_for())
    assert np.abs(rows_of(receipt)["x"] - np.arange(N_ROWS)).max() < 5
    with open_bundle(receipt.path) as opened:
        published = [opened.open(name).read() for name in opened.members if name.startswith("data/")]
        sizes = [pq.read_metadata(pa.BufferReader(part)).num_rows for part in published]
    assert sizes == [300] * 10 + [50]
    assert len(seen) == len(set(seen.values())) == 22
    assert len(set(seen.values()) & set(published)) == len(left) == 11
    assert not {seen[name] for name in left} & set(published)
    assert (states(), staged(cluster)) == (["published"], [])


@pytest.mark.parametrize("lost", ["answer", "object"])
def test_staging_that_cannot_be_trusted_publishes_nothing(
    lost: str, cluster: Cluster, tmp_path: Path, by_workers: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A staged part that was changed, or is gone, ends the release, which stays in the ledger."""
    take = distributed._take

    def change(*words: Any) -> Any:
        for path in (tmp_path / "staging").rglob("part-00003.parquet"):
            content = path.read_bytes()
            path.unlink()
            if lost == "answer":
                path.write_bytes(content[:-50] + bytes(50))
        return take(*words)

    monkeypatch.setattr(distributed, "_take", change)
    with pytest.raises((StoreError, DpGraphError)) as caught:
        by_workers(policy_for())
    assert "stays in the ledger" in caught.value.__notes__[0]
    assert states() == ["reserved"]
    assert not (tmp_path / "a.tar").exists()
    assert staged(cluster) == []


def test_what_workers_cannot_do_is_refused_before_anything_is_spent(
    source: Path, tmp_path: Path, by_workers: Publish
) -> None:
    """Where workers cannot be told which rows are theirs, nothing is begun."""
    text = tmp_path / "raw.csv"
    text.write_text("x\n1\n2\n")
    for data in (text, pq.read_table(source)):
        with pytest.raises(ParameterError, match="--engine"):
            by_workers(policy_for(), data)
    assert nothing_happened(tmp_path, {source, text})


def test_an_error_of_a_worker_is_told_as_it_is(source: Path, by_workers: Publish) -> None:
    """A gap that a worker finds is the same error as here, and as noisy parts were staged, the cost stays."""
    pq.write_table(pa.table({"x": [*range(N_ROWS - 1), None]}), source)
    with pytest.raises(MissingValuesError, match="'x'"):
        by_workers(policy_for())
    assert states() == ["reserved"]
