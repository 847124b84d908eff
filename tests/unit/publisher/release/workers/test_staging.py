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
from tests.unit.publisher.release.conftest import Publish, private, states
from tests.unit.publisher.release.workers.conftest import CAPPED, EXACT, killed_in, policy_for, staged

from dp_bundle.base.errors import DpGraphError, MissingValuesError, ParameterError, SchemaError, StoreError
from dp_publish import Receipt
from dp_publish.data import contribution_cap
from dp_publish.release.workers import worker
from dp_publish.release.workers.cluster import Cluster
from dp_publish.release.workers.distributed import ClusterJob


@pytest.mark.parametrize("by_workers", [False, True])
def test_a_table_that_changes_meanwhile_is_not_capped(
    by_workers: bool,
    source: Path,
    cluster: Cluster,
    tmp_path: Path,
    publish_here: Publish,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that change places after their entities were counted could pass a cap: nothing is published."""
    honest = contribution_cap.find_kept

    def find_and_change(*given: Any) -> bytes:
        os.utime(source, ns=(1, 1))
        return honest(*given)

    monkeypatch.setattr(contribution_cap, "find_kept", find_and_change)
    monkeypatch.setattr(worker, "find_kept", find_and_change)
    policy = policy_for(EXACT, release="covariance", mu=1.0, unit={"entity": "who", "max_rows": 7})
    with pytest.raises(SchemaError, match="changed"):
        publish_here(source, policy, cluster=cluster if by_workers else None)
    assert not (tmp_path / "a.tar").exists()
    assert staged(cluster) == []


FORGED = {
    "table.json": lambda old: old.replace(b'"max_rows": 7', b'"max_rows": 700'),
    "job.json": lambda old: old.replace(b"0.05", b"0.01"),
    "entities-00000-00001.arrow": lambda old: old[:-30],
    "seed-00000": lambda old: old[::-1],
    "kept-00001.bits": lambda old: b"\xff" * len(old),
    **dict.fromkeys(("counts.json", "quotas.json", "kept.json", "quotas-00000.arrow"), lambda _: b"[]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGED)
def test_what_lies_in_the_staging_place_is_not_trusted(
    name: str, cluster: Cluster, tmp_path: Path, by_workers: Publish, gone_on: Callable[..., Receipt]
) -> None:
    """Whoever can put something under a name before us could lift the cap or the noise: it is refused."""
    with killed_in(ClusterJob, "write", ClusterJob.write):
        by_workers(CAPPED, job=tmp_path / "a.job")
    (path,) = Path(cluster.staging).glob(f"*/{name}")
    forged = FORGED[name](path.read_bytes())
    assert forged != path.read_bytes()
    path.unlink()
    path.write_bytes(forged)

    with pytest.raises(StoreError, match="changed") as caught:
        gone_on(tmp_path / "a.job")
    assert "stays on the books" in caught.value.__notes__[0]
    assert states() == ["reserved"]
    assert not (tmp_path / "a.tar").exists()


@pytest.mark.parametrize("with_job", [False, True])
def test_nothing_is_taken_back_once_noise_was_staged(
    with_job: bool, cluster: Cluster, tmp_path: Path, by_workers: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes the bundle's name while workers stage noisy parts: the release stays on the books."""
    honest = ClusterJob.write

    def write(job: ClusterJob, *given: Any) -> Any:
        (tmp_path / "a.tar").touch()
        return honest(job, *given)

    monkeypatch.setattr(ClusterJob, "write", write)
    with pytest.raises(DpGraphError):
        by_workers(policy_for(EXACT, sigma=0.05), job=tmp_path / "a.job" if with_job else None)
    assert states() == ["reserved"]
    assert with_job or staged(cluster) == []


def test_a_release_that_cannot_be_finished_leaves_nothing_staged(
    cluster: Cluster, tmp_path: Path, by_workers: Publish, gone_on: Callable[..., Receipt]
) -> None:
    """A row that is nobody's ends a release, begun or resumed, which is taken back; names of entities are removed."""
    table = pa.table({"n": np.arange(1000.0), "who": pa.array([*["a"] * 999, None])})
    pq.write_table(table, tmp_path / "raw.parquet", row_group_size=100)
    policy = private({"n": {"bounds": [0, 1000]}}, sigma=9.0, unit={"entity": "who", "max_rows": 1})
    data, job = tmp_path / "raw.parquet", tmp_path / "j"
    for given in (None, job):
        with pytest.raises(MissingValuesError):
            by_workers(policy, data, job=given)
        assert not job.exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dp_publish.release.publishing._take_back_or_explain", lambda *_: None)
        with pytest.raises(MissingValuesError):
            by_workers(policy, data, job=job)
    assert any("/entities-" in name for name in staged(cluster))
    with pytest.raises(MissingValuesError):
        gone_on(job)
    assert not list(Path(cluster.staging).iterdir())
    assert states() == []


@pytest.mark.parametrize("place", ["job", "out/", "taken"])
@pytest.mark.parametrize("with_job", [False, True])
def test_staging_that_cannot_be_used_is_refused(
    place: str, with_job: bool, cluster: Cluster, tmp_path: Path, by_workers: Publish
) -> None:
    """What cannot be written, or is where job or bundle go, is no place; nothing is booked, and no job is begun."""
    (tmp_path / "taken").write_text("a file")
    given = {"job": tmp_path / "job"} if with_job or place == "job" else {}
    with pytest.raises((ParameterError, StoreError), match="stag"):
        by_workers(CAPPED, out=f"{tmp_path}/out/", cluster=Cluster(cluster.engine, f"{tmp_path}/{place}"), **given)
    assert states() == []
    assert {path.name for path in tmp_path.iterdir()} <= {"home", "raw.parquet", "taken"}
    assert (tmp_path / "taken").read_text() == "a file"
