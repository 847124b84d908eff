"""Workers that sum a table, leave out rows with gaps and cap entities: what they find is what one process finds."""

from __future__ import annotations

import json
import pickle
import pickletools
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.s3 import FaultyProxy
from tests.unit.publisher.release.conftest import Publish, Sent, private
from tests.unit.publisher.release.workers.conftest import (
    CAPPED,
    EXACT,
    LEVELS,
    N_ROWS,
    NUMBERED,
    killed_in,
    owners,
    policy_for,
    published,
    staged,
)

from dp_bundle.base.errors import MissingValuesError, StoreError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.files.opening import open_store
from dp_bundle.files.places import RemotePath
from dp_publish import Receipt
from dp_publish.ledger.ledger import Ledger
from dp_publish.release.workers import staged_table
from dp_publish.release.workers.cluster import Cluster
from dp_publish.release.workers.distributed import ClusterJob
from dp_publish.sampling.keystream import insecure_keystream

BOUNDED = {"n": {"bounds": [0, 64]}, "x": {"bounds": [-4, 4], "missing": "drop"}, "y": {"bounds": [-6, 6]}}
MIXED = BOUNDED | {"level": {"kind": "category", "categories": LEVELS}}
CASES = {
    "one sum": policy_for(BOUNDED, release="covariance", mechanism="gaussian", mu=1.0),
    "two rounds": policy_for(
        {**BOUNDED, "x": {**BOUNDED["x"], "transform": "asinh"}}, release="covariance", mechanism="two-round", mu=2.0
    ),
    "levels": policy_for(MIXED, release="covariance", mechanism="gaussian", mu=1.0),
    "gaps filled": policy_for(
        {**BOUNDED, "x": {"bounds": [-4, 4], "missing": "midpoint"}}, release="covariance", rho=1.0
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_workers_sum_to_the_same_bits(case: str, cluster: Cluster, by_workers: Publish) -> None:
    """With the same random bits, second moments come out alike here and by workers, and so does the receipt."""
    found = []
    for place, name in ((None, "here"), (cluster, "there")):
        receipt = by_workers(CASES[case], out=f"{name}.tar", keystream=insecure_keystream(3), cluster=place)
        with open_bundle(receipt.path) as opened:
            found.append(
                (opened.second_moments(), opened.release.n_rows, receipt.report, receipt.release.second_moments)
            )
    (one, *rest), (other, *others) = found
    assert np.array_equal(one, other)
    assert rest == others
    assert staged(cluster) == []


def test_workers_find_the_same_bounds(cluster: Cluster, by_workers: Publish) -> None:
    """Bounds that are found privately come out alike with the same random bits."""
    columns = []
    for place, name in ((None, "here"), (cluster, "there")):
        policy = policy_for({"x": {"missing": "drop"}, "y": {}}, mu=4.0)
        receipt = by_workers(policy, out=f"{name}.tar", keystream=insecure_keystream(3), cluster=place)
        columns.append([column.bounds for column in receipt.release.columns])
    assert columns[0] == columns[1]


def test_rows_with_gaps_are_left_out(source: Path, cluster: Cluster, by_workers: Publish) -> None:
    """The complete rows are published once each, in order, in parts that do not tell where the gaps were."""
    receipt = by_workers(policy_for(EXACT, sigma=0.05))
    rows, sizes = published(receipt.path)
    complete = np.flatnonzero(pq.read_table(source)["x"].is_valid().to_numpy())
    assert np.array_equal(rows, complete)
    assert sizes == [100] * (len(complete) // 100) + [len(complete) % 100]
    assert (receipt.report.n_rows, receipt.report.n_dropped) == (len(complete), N_ROWS - len(complete))
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


def test_which_rows_are_kept_is_by_chance(cluster: Cluster, tmp_path: Path, by_workers: Publish) -> None:
    """Of an entity's rows, those in each split of the table are kept in proportion, and not the first ones."""
    owner = Counter(owners().tolist()).most_common(1)[0][0]
    own = np.flatnonzero(owners() == owner)
    policy = policy_for(NUMBERED, sigma=0.05, unit={"entity": "who", "max_rows": 40})
    places = []
    for index in range(3):
        receipt = by_workers(policy, out=tmp_path / f"{index}.tar", cluster=cluster)
        rows = published(receipt.path)[0]
        places.append(np.searchsorted(own, rows[owners()[rows] == owner]) / len(own))
    assert all(len(each) == 40 for each in places)
    found = np.concatenate(places)
    assert abs(found.mean() - 0.5) < 4 / np.sqrt(12 * len(found))
    assert np.ptp(np.histogram(found, 4, (0, 1))[0]) < 30  # 30 in each
    assert len({each.tobytes() for each in places}) == 3


def test_a_capped_covariance_is_of_rows_within_the_cap(by_workers: Publish) -> None:
    """The number of rows of a covariance release by workers is that of the kept rows."""
    privacy = {"release": "covariance", "mechanism": "gaussian", "mu": 1.0, "unit": {"entity": "who", "max_rows": 7}}
    policy = policy_for({"n": BOUNDED["n"], "y": BOUNDED["y"]}, **privacy)
    receipt = by_workers(policy)
    assert receipt.release.n_rows == sum(min(number, 7) for number in Counter(owners().tolist()).values())
    assert receipt.report.n_over_cap == N_ROWS - receipt.release.n_rows


def test_quotas_are_not_drawn_again(
    source: Path,
    cluster: Cluster,
    tmp_path: Path,
    by_workers: Publish,
    monkeypatch: pytest.MonkeyPatch,
    gone_on: Callable[..., Receipt],
) -> None:
    """A release that is resumed by more workers keeps the rows that were drawn before, in the splits of before."""
    seen: dict[str, bytes] = {}

    def look(job: ClusterJob, *_: Any) -> None:
        job._split_tasks()
        store = open_store(cluster.staging)
        seen.update({name: store.read(name) for name in staged(cluster)})

    with killed_in(ClusterJob, "_part_tasks", look):
        by_workers(CAPPED, job=tmp_path / "a.job")
    assert sum("/quotas-" in name for name in seen) == 4

    more = Sent()
    more.n_workers = 5
    monkeypatch.setattr(staged_table, "draw_quotas", lambda *_: pytest.fail("quotas were drawn again"))
    others = Cluster(more, cluster.staging)
    receipt = gone_on(tmp_path / "a.job", others)

    by_end = {name.rpartition("/")[2]: content for name, content in seen.items()}
    edges = json.loads(by_end["table.json"])["edges"]
    bits = [np.unpackbits(np.frombuffer(by_end[f"kept-{place:05d}.bits"], np.uint8)) for place in range(len(edges) - 1)]
    kept = np.concatenate([each[: last - first] for each, (first, last) in zip(bits, pairwise(edges), strict=True)])
    complete = pq.read_table(source)["x"].is_valid().to_numpy()
    assert np.array_equal(published(receipt.path)[0], np.flatnonzero(kept.astype(bool) & complete))
    assert len(edges) > 3
    assert staged(cluster) == []


def test_what_is_kept_must_not_change(
    cluster: Cluster, tmp_path: Path, by_workers: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever can change which rows are kept could lift the cap: workers compare its digest."""
    honest = ClusterJob._published_rows

    def change(job: ClusterJob, *given: Any) -> Any:
        job._split_tasks()
        for path in (tmp_path / "staging").rglob("kept-00001.bits"):
            size = path.stat().st_size
            path.unlink()
            path.write_bytes(b"\xff" * size)
        return honest(job, *given)

    monkeypatch.setattr(ClusterJob, "_published_rows", change)
    with pytest.raises(StoreError, match="was changed"):
        by_workers(CAPPED)
    assert not (tmp_path / "a.tar").exists()
    assert staged(cluster) == []


def test_an_error_before_any_noise_costs_nothing(cluster: Cluster, tmp_path: Path, by_workers: Publish) -> None:
    """A row that is nobody's is found while rows are counted: the release is taken back, and its job is gone."""
    table = pa.table({"n": np.arange(5.0), "who": pa.array(["a", "b", None, "a", "b"])})
    pq.write_table(table, tmp_path / "raw.parquet")
    policy = private({"n": {"bounds": [0, 9]}}, sigma=1.0, unit={"entity": "who", "max_rows": 1})
    for job in (None, tmp_path / "a.job"):
        with pytest.raises(MissingValuesError, match="'who' says whose rows"):
            by_workers(policy, tmp_path / "raw.parquet", job=job)
    assert Ledger().entries() == []
    assert staged(cluster) == []
    assert not (tmp_path / "a.job").exists()


def test_tasks_of_passes_hold_no_seed_and_no_key(cluster: Cluster, by_workers: Publish, key: Ed25519PrivateKey) -> None:
    """What goes through a scheduler has no bytes but numbers that were released, or that follow from the policy."""
    by_workers(CAPPED)
    assert isinstance(cluster.engine, Sent)
    functions, sent = set(), cluster.engine.all_tasks
    for each in sent:
        function, _ = pickle.loads(each)  # noqa: S301  as a worker does
        functions.add(getattr(function, "func", function).__name__)
        assert key.private_bytes_raw() not in each
        assert len(each) < 4000
        for opcode, argument, _ in pickletools.genops(each):
            assert opcode.name not in ("BINBYTES", "BINBYTES8", "BYTEARRAY8") or len(argument) < 16
    assert functions == {"_with_its_place", "publish_part"}
    assert len(sent) > 15


@pytest.mark.slow
@pytest.mark.parametrize("release", ["rows", "covariance"])
def test_the_raw_table_may_lie_in_a_bucket(
    release: str, source: Path, cluster: Cluster, by_workers: Publish, s3: FaultyProxy
) -> None:
    """Workers read a table at a URI, and stage beside it, on a flaky server; the rows are those of the file."""
    store = open_store(f"s3://{s3.bucket}")
    for name in ("raw/1.parquet", "raw/2.parquet"):
        store.create(name, source.read_bytes())
    s3.unavailable = s3.reset = s3.cut = 0.05
    privacy = {"sigma": 0.05} if release == "rows" else {"release": release, "mu": 1.0}
    policy = policy_for(EXACT, **privacy, unit={"entity": "who", "max_rows": 7})
    there = Cluster(cluster.engine, f"s3://{s3.bucket}/private")
    table = RemotePath(f"s3://{s3.bucket}/raw")
    receipt = by_workers(policy, table, cluster=there)
    allowed = sum(min(2 * number, 7) for number in Counter(owners().tolist()).values())
    assert receipt.report.n_over_cap == 2 * N_ROWS - allowed
    assert receipt.release.n_rows == allowed - receipt.report.n_dropped > 0
    assert s3.faults.total() > 0
    assert staged(there) == []


def test_names_of_entities_need_not_be_text_in_utf8(tmp_path: Path, by_workers: Publish) -> None:
    """Bytes that are no text name entities, too, in any bucket; the job's folder is its owner's alone."""
    names = [bytes([200 + index % 7, 255]) for index in range(N_ROWS)]
    table = pa.table({"n": np.arange(N_ROWS) % 60.0, "who": pa.array(names, pa.binary())})
    pq.write_table(table, tmp_path / "raw.parquet", row_group_size=500)
    policy = private({"n": {"bounds": [0, 64]}}, sigma=9.0, unit={"entity": "who", "max_rows": 9})
    assert by_workers(policy, tmp_path / "raw.parquet").report.n_rows == 63
