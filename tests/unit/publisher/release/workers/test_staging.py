"""Workers find what one process finds; nothing staged is trusted or left, and noise there stays in the ledger."""

import os
import pickle
import pickletools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.publisher.release.conftest import Publish, R, Sent, T, killed_by, private, states
from tests.unit.publisher.release.workers.conftest import (
    CAPPED,
    EXACT,
    LEVELS,
    N_ROWS,
    NUMBERED,
    owners,
    policy_for,
    published,
    staged,
)

from dp_bundle.base.errors import DpGraphError, MissingValuesError, ParameterError, SchemaError, StoreError
from dp_bundle.bundle.reading import open_bundle
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import contribution_cap
from dp_publish.release.begun import cancel
from dp_publish.release.workers.distributed import ClusterJob
from dp_publish.release.workers.worker import Cluster
from dp_publish.sampling.keystream import insecure_keystream

BOUNDED = {"n": {"bounds": [0, 64]}, "x": {"bounds": [-4, 4], "missing": "drop"}, "y": {"bounds": [-6, 6]}}
MIXED = BOUNDED | {"level": {"kind": "category", "categories": LEVELS}}
CASES = {
    "two rounds": policy_for(BOUNDED, scale="scores", mu=2.0),
    "levels": policy_for(MIXED, release="covariance", mechanism="gaussian", mu=1.0),
    "found bounds": policy_for({"x": {"missing": "midpoint"}, "y": {}}, mu=4.0),
}


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
    policy = policy_for(EXACT, release="covariance", mu=1.0, unit={"entity": "who", "max_rows": 7})
    with pytest.raises(SchemaError, match="changed"):
        publish_here(source, policy, cluster=cluster if by_workers else None)
    assert not (tmp_path / "a.tar").exists()
    assert staged(cluster) == []


class Forging(Sent):
    """Workers between whose tasks somebody changes the bits that say which rows are kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def map_unordered(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Change them as soon as they are there."""
        for path in self.folder.glob("*/kept-*.bits"):
            path.write_bytes(b"\xff" * path.stat().st_size)
        return super().map_unordered(function, tasks)


@pytest.mark.parametrize("privacy", [{"sigma": 0.05}, {"release": "covariance", "mu": 1.0}], ids=str)
def test_what_lies_in_the_staging_place_is_not_trusted(
    privacy: dict[str, Any], tmp_path: Path, by_workers: Publish
) -> None:
    """Whoever can change which rows are kept could lift the cap: it is refused."""
    policy = policy_for(EXACT, unit={"entity": "who", "max_rows": 7}, **privacy)
    with pytest.raises(StoreError, match="changed"):
        by_workers(policy, cluster=Cluster(Forging(tmp_path / "staging"), str(tmp_path / "staging")))
    assert "published" not in states()
    assert not (tmp_path / "a.tar").exists()


def test_nothing_is_taken_back_once_noise_was_staged(
    cluster: Cluster, tmp_path: Path, by_workers: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes the bundle's name while workers stage noisy parts: the release stays in the ledger."""
    honest = ClusterJob.write

    def write(job: ClusterJob, *given: Any) -> Any:
        (tmp_path / "a.tar").touch()
        return honest(job, *given)

    monkeypatch.setattr(ClusterJob, "write", write)
    with pytest.raises(DpGraphError):
        by_workers(policy_for(EXACT, sigma=0.05))
    assert states() == ["reserved"]
    assert staged(cluster) == []


def test_what_a_killed_process_staged_stays_paid_and_is_removed_by_name(cluster: Cluster, by_workers: Publish) -> None:
    """Noisy parts that it left may have been seen: the same command pays again, and does not go on with its bounds.

    `cancel` says so of the first release, and cleans up.
    """
    policy = policy_for({"x": {"missing": "midpoint"}, "y": {}}, mu=4.0)
    with killed_by(SystemExit, ClusterJob, "remove", lambda _: None), pytest.MonkeyPatch.context() as patch:
        patch.setattr("dp_publish.release.publishing.settle", lambda _: (_ for _ in ()).throw(SystemExit))
        by_workers(policy)
    assert any("attempt-" in name for name in staged(cluster))
    by_workers(policy)
    assert "stays in the ledger as spent, as noisy numbers lay" in cancel(Ledger(), "d", 1)
    assert (states(), staged(cluster)) == (["reserved", "published"], [])


def test_a_release_that_cannot_be_finished_leaves_nothing_staged(
    cluster: Cluster, tmp_path: Path, by_workers: Publish
) -> None:
    """A row that is nobody's ends a release, which is taken back; names of entities are removed."""
    table = pa.table({"n": np.arange(1000.0), "who": pa.array([*["a"] * 999, None])})
    pq.write_table(table, tmp_path / "raw.parquet", row_group_size=100)
    policy = private({"n": {"bounds": [0, 1000]}}, sigma=9.0, unit={"entity": "who", "max_rows": 1})
    with pytest.raises(MissingValuesError):
        by_workers(policy, tmp_path / "raw.parquet")
    assert not list(Path(cluster.staging).iterdir())
    assert states() == []


@pytest.mark.parametrize("place", ["out/", "taken"])
def test_staging_that_cannot_be_used_is_refused(
    place: str, cluster: Cluster, tmp_path: Path, by_workers: Publish
) -> None:
    """What cannot be written, or is where the bundle goes, is no place; nothing is booked."""
    (tmp_path / "taken").write_text("a file")
    with pytest.raises((ParameterError, StoreError), match="stag"):
        by_workers(CAPPED, out=f"{tmp_path}/out/", cluster=Cluster(cluster.engine, f"{tmp_path}/{place}"))
    assert states() == []
    assert {path.name for path in tmp_path.iterdir()} <= {"home", "raw.parquet", "taken"}
    assert (tmp_path / "taken").read_text() == "a file"


@pytest.mark.parametrize("case", CASES)
def test_workers_find_the_same_bits(case: str, cluster: Cluster, by_workers: Publish) -> None:
    """With the same random bits, second moments and found bounds come out alike here and by workers."""
    found = []
    for place, name in ((None, "here"), (cluster, "there")):
        receipt = by_workers(CASES[case], out=f"{name}.tar", keystream=insecure_keystream(3), cluster=place)
        with open_bundle(receipt.path) as opened:
            moments = opened.second_moments().tolist() if opened.release.kind == "covariance" else None
        found.append((moments, receipt.release.columns, receipt.report, receipt.release.second_moments))
    assert found[0] == found[1]
    assert staged(cluster) == []


@pytest.mark.parametrize("dropping", [False, True])
def test_entities_keep_as_many_rows_as_they_may(
    dropping: bool, source: Path, cluster: Cluster, by_workers: Publish
) -> None:
    """An entity's rows are capped in the whole table, though workers race and see a split each; gaps come after."""
    unit = {"entity": "who", "max_rows": 7}
    columns = EXACT if dropping else NUMBERED
    receipt = by_workers(policy_for(columns, sigma=0.05, unit=unit))
    rows, sizes = published(receipt.path)
    kept, there = Counter(owners()[rows].tolist()), Counter(owners().tolist())
    allowed = {who: min(number, 7) for who, number in there.items()}
    assert np.array_equal(rows, np.unique(rows))
    assert receipt.report.n_over_cap == N_ROWS - sum(allowed.values())
    if dropping:
        complete = pq.read_table(source)["x"].is_valid().to_numpy()
        assert all(kept[who] <= allowed[who] for who in there)
        assert complete[rows].all()
        assert receipt.report.n_dropped == sum(allowed.values()) - len(rows) > 0
    else:
        assert kept == allowed
    assert set(sizes[:-1]) <= {100}
    assert staged(cluster) == []


def test_tasks_of_passes_hold_no_seed_and_no_key(cluster: Cluster, by_workers: Publish, key: Ed25519PrivateKey) -> None:
    """What goes through a scheduler has no bytes but numbers that were released, or that follow from the policy."""
    by_workers(CAPPED)
    assert isinstance(cluster.engine, Sent)
    functions, sent = set(), cluster.engine.all_tasks
    for each in sent:
        function, _ = pickle.loads(each)  # noqa: S301  as a worker does
        functions.add(function.args[0].func.__name__)
        assert key.private_bytes_raw() not in each
        assert len(each) < 4000
        for opcode, argument, _ in pickletools.genops(each):
            assert opcode.name not in ("BINBYTES", "BINBYTES8", "BYTEARRAY8") or len(argument) < 16
    assert functions == {"find_published", "publish_part"}
    assert len(sent) > 5
