"""Workers that sum a table, leave out rows with gaps and cap entities: what they find is what one process finds."""

from __future__ import annotations

import pickle
import pickletools
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.unit.publisher.release.conftest import Publish, Sent
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

from dp_bundle.bundle.reading import open_bundle
from dp_publish.release.workers.cluster import Cluster
from dp_publish.sampling.keystream import insecure_keystream

BOUNDED = {"n": {"bounds": [0, 64]}, "x": {"bounds": [-4, 4], "missing": "drop"}, "y": {"bounds": [-6, 6]}}
MIXED = BOUNDED | {"level": {"kind": "category", "categories": LEVELS}}
CASES = {
    "two rounds": policy_for(BOUNDED, release="copula", mu=2.0),
    "levels": policy_for(MIXED, release="covariance", mechanism="gaussian", mu=1.0),
    "found bounds": policy_for({"x": {"missing": "midpoint"}, "y": {}}, mu=4.0),
}


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
        functions.add(getattr(function, "func", function).__name__)
        assert key.private_bytes_raw() not in each
        assert len(each) < 4000
        for opcode, argument, _ in pickletools.genops(each):
            assert opcode.name not in ("BINBYTES", "BINBYTES8", "BYTEARRAY8") or len(argument) < 16
    assert functions == {"_with_its_place", "publish_part"}
    assert len(sent) > 15
