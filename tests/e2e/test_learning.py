"""What a researcher can ask of dp-learn, as one runs it."""

import io
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy

from dp_bundle import open_bundle
from dp_bundle.bundle.writing import write_bundle
from dp_bundle.data.rows import PartWriter
from dp_publish import Receipt, publish

N_ROWS, NAMES = 4000, [f"v{index}" for index in range(6)]
EDGES = {(f"v{index}", f"v{index + 1}") for index in range(5)}


@pytest.fixture
def chain(tmp_path: Path, key: Ed25519PrivateKey) -> Path:
    """Publish a chain of six columns with so little noise that every release shows all of it."""
    rng = np.random.default_rng(2)
    precision = np.eye(6) + np.diag(np.full(5, 0.45), 1) + np.diag(np.full(5, 0.45), -1)
    rows = rng.multivariate_normal(np.zeros(6), np.linalg.inv(precision), size=N_ROWS)
    policy = make_policy({name: [-6, 6] for name in NAMES}, name="chain", mu=20.0, unit="cell")
    return publish(pd.DataFrame(rows, columns=NAMES), policy, out=tmp_path / "chain.tar", key=key).path


def edges_in(folder: Path) -> set[tuple[str, str]]:
    """Return the edges in a folder of results, which edges.csv and graph.graphml agree on."""
    table = pd.read_csv(folder / "edges.csv")
    found = {(row.source, row.target) for row in table.itertuples()}
    assert {frozenset(edge) for edge in nx.read_graphml(folder / "graph.graphml").edges} == set(map(frozenset, found))
    return found


def test_false_discovery_rate_lists_the_edges_with_their_errors(chain: Path, command: Run, tmp_path: Path) -> None:
    """--fdr finds the chain, with intervals that hold the truth, p and q values, and weights fitted on them."""
    learned = command("dp-learn", chain, "--fdr", "0.05", "--out", "found")
    table = pd.read_csv(tmp_path / "found" / "edges.csv")

    assert learned.returncode == 0, learned.stderr
    assert (
        "at a false discovery rate of 0.05; partial correlations of the surest, shrunk for the noise, with"
        in learned.stdout
    )
    assert edges_in(tmp_path / "found") >= EDGES
    assert (table["q_value"] <= 0.05).all()
    assert (table["partial_correlation"] != 0).all()
    assert (table["ci_low"] <= table["desparsified"]).all()
    assert (table["desparsified"] <= table["ci_high"]).all()
    true = table[[(row.source, row.target) in EDGES for row in table.itertuples()]]
    for estimate in ("desparsified", "partial_correlation"):
        assert (np.abs(true[estimate] + 0.45) < 5 * true["standard_error"]).all()
    assert "q_value" in next(iter(nx.read_graphml(tmp_path / "found" / "graph.graphml").edges(data=True)))[2]


def test_the_penalty_does_not_shrink_weights_unless_that_is_asked_for(
    chain: Path, command: Run, tmp_path: Path
) -> None:
    """The precision matrix is fitted without the penalty, and weights are shrunk by the noise alone."""
    learned = command("dp-learn", chain, "--alpha", "0.2", "--out", "refitted")
    shrunk = command("dp-learn", chain, "--alpha", "0.2", "--no-refit", "--out", "shrunk")
    files = [tmp_path / name / "edges.csv" for name in ("refitted", "shrunk")]
    tables = [pd.read_csv(file).set_index(["source", "target"]) for file in files]
    strong = [table.loc[sorted(EDGES), "partial_correlation"].to_numpy() for table in tables]

    assert "of the surest, shrunk for the noise, with desparsified estimates and 95 % intervals in" in learned.stdout
    assert "the surest, shrunk by the penalty, with desparsified estimates" in shrunk.stdout
    np.testing.assert_allclose(strong[0], -0.45, atol=0.1)
    assert (np.abs(strong[1]) < 0.35).all()
    for name, share, kind in (("refitted", 0.0, "shrunk"), ("shrunk", 1.0, "penalised")):
        summary = json.loads((tmp_path / name / "summary.json").read_text())
        assert (summary["penalty_share"], summary["edge_weights"]) == (share, kind)


def test_pooled_bundles_say_how(chain: Path, tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> None:
    """Two releases of the same rows are pooled as such, and an older one is welcome beside the newer only."""
    rng = np.random.default_rng(8)
    table = pd.DataFrame(rng.normal(size=(N_ROWS, 6)), columns=NAMES)
    policy = make_policy({name: [-6, 6] for name in NAMES}, name="chain", mu=20.0, unit="cell")
    second = publish(table, policy, out=tmp_path / "second.tar", key=key).path
    pooled = command("dp-learn", chain, second, "--out", "pooled", "--json")
    summary = json.loads(pooled.stdout)
    alone = command("dp-learn", chain)

    assert pooled.returncode == 0, pooled.stderr
    assert summary["same_rows"]
    assert [bundle["weight"] for bundle in summary["bundles"]] == pytest.approx([0.5, 0.5], abs=0.01)
    assert summary["n_rows"] == N_ROWS
    assert alone.returncode == 3
    assert "and release 2 with the manifest" in alone.stderr
    assert command("dp-learn", second, second).returncode == 1


def test_rows_that_contradict_their_manifest_are_reported(
    bundle: Receipt, tmp_path: Path, key: Ed25519PrivateKey, command: Run
) -> None:
    """A well-signed bundle whose values lie off the grid that it states is learned from, with a warning."""
    honest = command("dp-learn", bundle.path, "--alpha", "0.2")
    with open_bundle(bundle.path) as opened:
        lineage = opened.release.lineage.model_copy(update={"number": 2})
        release = opened.release.model_copy(update={"lineage": lineage})
        rows = pa.Table.from_batches(list(opened.batches()))
    shifted = rows.column("height").to_numpy() + release.columns[0].noise.granularity / 3
    altered = rows.set_column(0, rows.schema.field("height"), pa.array(shifted))
    with PartWriter(release.columns, io.BytesIO) as writer:
        for batch in altered.to_batches():
            writer.write(batch)
    with (tmp_path / "altered.tar").open("wb") as file:
        write_bundle(file, release, writer.parts, key)
    learned = command("dp-learn", "altered.tar", "--alpha", "0.2")

    assert learned.returncode == 0, learned.stderr
    assert (
        "warning: altered.tar contradicts its manifest: values are not on the stated grid in height" in learned.stderr
    )
    summary = json.loads((tmp_path / "altered.graph" / "summary.json").read_text())
    assert "400 of 400 in height" in summary["contradictions"][0]
    assert "warning: altered.tar contradicts" in command("dp-learn", "altered.tar", "--estimator", "ridge").stderr
    assert honest.stderr == ""


def test_empty_graph_says_why(tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> None:
    """Independent columns give an empty graph, and the reason."""
    rows = np.random.default_rng(1).normal(size=(2000, 5))
    names = list("abcde")
    policy = make_policy({name: [-6, 6] for name in names}, name="nothing", mu=100.0, unit="cell")
    publish(pd.DataFrame(rows, columns=names), policy, out=tmp_path / "nothing.tar", key=key)
    learned = command("dp-learn", "nothing.tar", "--select", "ebic")

    assert learned.returncode == 0, learned.stderr
    assert "0 of 10 possible edges" in learned.stdout
    assert "no edge improves the fit enough to be worth its parameter" in learned.stdout
