"""Nothing in the staging place is trusted, nothing is left there, and noise that was there stays on the books."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.publisher.release.conftest import Publish, private
from tests.unit.publisher.release.workers.conftest import CAPPED, EXACT, killed_in, policy_for, staged

from dp_bundle.base.errors import DpGraphError, MissingValuesError, ParameterError, SchemaError, StoreError
from dp_bundle.files.opening import open_store
from dp_publish import Receipt
from dp_publish.data import contribution_cap
from dp_publish.ledger.ledger import Ledger
from dp_publish.release.workers import staged_table
from dp_publish.release.workers.cluster import Cluster
from dp_publish.release.workers.distributed import ClusterJob


@pytest.mark.parametrize("by_workers", [False, True])
@pytest.mark.parametrize("privacy", [{"sigma": 0.05}, {"release": "covariance", "mu": 1.0}])
def test_a_table_that_changes_meanwhile_is_not_capped(
    by_workers: bool,
    privacy: dict[str, Any],
    source: Path,
    cluster: Cluster,
    tmp_path: Path,
    publish_here: Publish,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that change places after their entities were counted could pass a cap: nothing is published."""
    honest = contribution_cap.find_kept

    def find_and_change(*given: Any) -> bytes:
        found = honest(*given)
        os.utime(source, ns=(1, 1))
        return found

    monkeypatch.setattr(contribution_cap, "find_kept", find_and_change)
    monkeypatch.setattr(staged_table, "find_kept", find_and_change)
    policy = policy_for(EXACT, **privacy, unit={"entity": "who", "max_rows": 7})
    with pytest.raises(SchemaError, match="changed"):
        publish_here(source, policy, cluster=cluster if by_workers else None)
    assert not (tmp_path / "a.tar").exists()
    assert staged(cluster) == []


FORGED = {
    "table.json": lambda old: old.replace(b'"max_rows": 7', b'"max_rows": 700'),
    "counts.json": lambda _: b"[]",
    "quotas.json": lambda _: b"[]",
    "kept.json": lambda _: b"[]",
    "job.json": lambda old: old.replace(b"0.05", b"0.01"),
    "quotas-00000.arrow": lambda _: b"",
    "entities-00000-00001.arrow": lambda old: old[:-30],
    "kept-00001.bits": lambda old: b"\xff" * len(old),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGED)
def test_what_lies_in_the_staging_place_is_not_trusted(
    name: str, cluster: Cluster, tmp_path: Path, by_workers: Publish, gone_on: Callable[..., Receipt]
) -> None:
    """Whoever can put something under a name before us could lift the cap or the noise: it is refused."""
    seen: dict[str, bytes] = {}

    def look(job: ClusterJob, *given: Any, **named: Any) -> None:
        honest(job, *given, **named)
        seen.update({each: open_store(cluster.staging).read(each) for each in staged(cluster)})

    honest = ClusterJob.write
    with killed_in(ClusterJob, "write", look):
        by_workers(CAPPED, job=tmp_path / "a.job")
    (path,) = (Path(cluster.staging) / each for each in seen if each.endswith(f"/{name}"))
    forged = FORGED[name](path.read_bytes())
    assert forged != path.read_bytes()
    path.unlink()
    path.write_bytes(forged)

    with pytest.raises(StoreError, match="changed") as caught:
        gone_on(tmp_path / "a.job")
    assert "stays on the books" in caught.value.__notes__[0]
    assert [entry.state for entry in Ledger().entries()] == ["reserved"]
    assert not (tmp_path / "a.tar").exists()


def test_quotas_that_do_not_keep_to_the_cap_are_refused() -> None:
    """A quota names each crowded entity once, and keeps as many of its own rows as the cap says."""
    who = [pa.array(names) for names in (["a", "b", "a"], ["a", "a", "c"])]
    counts = [contribution_cap.count_entities([pa.record_batch({"who": each})], "who") for each in who]
    quotas = contribution_cap.draw_quotas(counts, 2)
    contribution_cap.require_quotas(counts, quotas, 2)
    kept = quotas[0].column("kept").to_pylist()[0] + quotas[1].column("kept").to_pylist()[0]
    assert len(kept) == 2
    quotas = [each.set_column(2, "kept", pa.array([[1]], pa.list_(pa.int64()))) for each in quotas]
    contribution_cap.require_quotas(counts, quotas, 2)
    places = pa.array([[0, 1]], pa.list_(pa.int64()))
    for wrong in (
        [quotas[0].slice(0, 0), quotas[1]],
        [quotas[0].set_column(2, "kept", places), quotas[1].set_column(2, "kept", places)],
        [quotas[0].set_column(2, "kept", pa.array([[0, 0]], pa.list_(pa.int64()))), quotas[1].slice(0, 0)],
        [quotas[0].set_column(2, "kept", pa.array([[0, 5]], pa.list_(pa.int64()))), quotas[1].slice(0, 0)],
        [pa.concat_tables([quotas[0], quotas[0]]), quotas[1]],
    ):
        with pytest.raises(ValueError, match="quota"):
            contribution_cap.require_quotas(counts, wrong, 2)


@pytest.mark.parametrize("with_job", [False, True])
def test_nothing_is_taken_back_once_noise_was_staged(
    with_job: bool, cluster: Cluster, tmp_path: Path, by_workers: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes the bundle's name while workers stage noisy parts: the release stays on the books."""
    honest, out = ClusterJob.write, tmp_path / "a.tar"

    def write(job: ClusterJob, *given: Any) -> Any:
        found = honest(job, *given)
        out.touch()
        return found

    monkeypatch.setattr(ClusterJob, "write", write)
    job = tmp_path / "a.job" if with_job else None
    with pytest.raises(DpGraphError):
        by_workers(policy_for(EXACT, sigma=0.05), job=job)
    assert [entry.state for entry in Ledger().entries()] == ["reserved"]
    assert with_job or staged(cluster) == []


def test_a_release_that_cannot_be_finished_leaves_nothing_staged(
    cluster: Cluster,
    tmp_path: Path,
    by_workers: Publish,
    monkeypatch: pytest.MonkeyPatch,
    gone_on: Callable[..., Receipt],
) -> None:
    """Resumed, a release whose table has a row that is nobody's is taken back, and names of entities are removed."""
    table = pa.table({"n": np.arange(1000.0), "who": pa.array([*["a"] * 999, None])})
    pq.write_table(table, tmp_path / "raw.parquet", row_group_size=100)
    policy = private({"n": {"bounds": [0, 1000]}}, sigma=9.0, unit={"entity": "who", "max_rows": 1})
    with monkeypatch.context() as patch:
        patch.setattr("dp_publish.release.publishing._take_back_or_explain", lambda *_: None)
        with pytest.raises(MissingValuesError):
            by_workers(policy, tmp_path / "raw.parquet", job=tmp_path / "j")
    assert any("/entities-" in name for name in staged(cluster))
    with pytest.raises(MissingValuesError):
        gone_on(tmp_path / "j")
    assert staged(cluster) == []
    assert not list(Path(cluster.staging).iterdir())
    assert Ledger().entries() == []


@pytest.mark.parametrize("where", ["job", "out"])
def test_staging_is_apart_from_job_and_bundle(
    where: str, cluster: Cluster, tmp_path: Path, by_workers: Publish
) -> None:
    """Noisy parts that lost would lie in what is kept or published."""
    places = {"job": tmp_path / "a.job", "out": tmp_path / "a"}
    other = Cluster(cluster.engine, str(places[where]))
    with pytest.raises(ParameterError, match="--staging"):
        by_workers(CAPPED, out=f"{places['out']}/", cluster=other, job=places["job"])
    assert Ledger().entries() == []
    assert not any(place.exists() for place in places.values())


@pytest.mark.parametrize("with_job", [False, True])
def test_staging_that_cannot_be_written_is_refused(
    with_job: bool, cluster: Cluster, tmp_path: Path, by_workers: Publish
) -> None:
    """It is looked at before anything is booked, and no job is begun."""
    (tmp_path / "taken").write_text("a file")
    other = Cluster(cluster.engine, str(tmp_path / "taken"))
    job = tmp_path / "a.job" if with_job else None
    with pytest.raises(StoreError, match="staged"):
        by_workers(CAPPED, out=tmp_path / "a.tar", cluster=other, job=job)
    assert Ledger().entries() == []
    assert not (tmp_path / "a.tar").exists()
    assert not (tmp_path / "a.job").exists()
    assert (tmp_path / "taken").read_text() == "a file"
