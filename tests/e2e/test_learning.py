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
BOUNDS = {name: [-6, 6] for name in NAMES}


def rows_of_chain(n_rows: int, mean: float = 0.0) -> pd.DataFrame:
    """Return rows of six columns, of which neighbours are linked."""
    precision = np.eye(6) + np.diag(np.full(5, 0.45), 1) + np.diag(np.full(5, 0.45), -1)
    rows = np.random.default_rng(2).multivariate_normal(np.full(6, mean), np.linalg.inv(precision), size=n_rows)
    return pd.DataFrame(np.clip(rows, -6, 6), columns=NAMES)


@pytest.fixture
def chain(tmp_path: Path, key: Ed25519PrivateKey) -> Path:
    """Publish a chain of six columns with so little noise that every release shows all of it."""
    policy = make_policy(BOUNDS, name="chain", mu=20.0, unit="cell")
    return publish(rows_of_chain(N_ROWS), policy, out=tmp_path / "chain.tar", key=key).path


def edges_in(folder: Path) -> set[tuple[str, str]]:
    """Return the edges in a folder of results, which edges.csv and graph.graphml agree on."""
    table = pd.read_csv(folder / "edges.csv")
    found = {(row.source, row.target) for row in table.itertuples()}
    assert {frozenset(edge) for edge in nx.read_graphml(folder / "graph.graphml").edges} == set(map(frozenset, found))
    return found


def test_a_reader_chooses_which_links_come_first(chain: Path, command: Run, tmp_path: Path) -> None:
    """--at-least changes views and counts, and no file of the estimate; by default it is 0.1."""
    written = []
    for words, n_strong in ((), 5), (("--at-least", "0.99"), 0):
        summary = json.loads(command("dp-learn", chain, "--report", "--json", "--out", "found", *words).stdout)
        assert summary["n_strong_edges"] == n_strong == summary["n_edges"] - summary["n_weaker_edges"]
        written.append({(path.name, path.read_bytes()) for path in (tmp_path / "found").glob("[!.]*")})
    assert {name for name, _ in written[0] ^ written[1]} == {"graph.png", "report.html", "summary.json"}


def test_false_discovery_rate_lists_the_edges_with_their_errors(chain: Path, command: Run, tmp_path: Path) -> None:
    """--fdr finds the chain, with q values below the rate, and weights as near to the truth as their errors say."""
    learned = command("dp-learn", chain, "--fdr", "0.05", "--out", "found")
    table = pd.read_csv(tmp_path / "found" / "edges.csv")

    assert learned.returncode == 0, learned.stderr
    assert "at a false discovery rate of 0.05, 5 of at least 0.1 and " in learned.stdout
    assert ", shrunk for the noise, with" in learned.stdout
    assert edges_in(tmp_path / "found") >= EDGES
    assert (table["q_value"] <= 0.05).all()
    true = table[[(row.source, row.target) in EDGES for row in table.itertuples()]]
    assert (np.abs(true["partial_correlation"] + 0.45) < 5 * true["standard_error"]).all()


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


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["two-round", pytest.param("gaussian", marks=pytest.mark.long)])
def test_second_moments_are_taken_like_rows_and_pooled_with_them(
    mechanism: str, tmp_path: Path, key: Ed25519PrivateKey, command: Run
) -> None:
    """Of columns whose means are not in the middle of their bounds, with rows of the same table, the chain is found."""
    table = rows_of_chain(20_000, 0.7)
    rows = make_policy(BOUNDS, name="chain", unit="row", mu=5.0)
    moments = make_policy(BOUNDS, name="chain", unit="row", release="covariance", mechanism=mechanism, mu=1.0)
    publish(table, rows, out=tmp_path / "rows.tar", key=key)
    publish(table, moments, out=tmp_path / "moments.tar", key=key)
    both = command("dp-learn", "rows.tar", "moments.tar", "--out", "both", "--json")
    folds = command("dp-learn", "moments.tar", "--select", "cv", "--out", "folds")

    assert edges_in(tmp_path / "both") >= EDGES
    pooled = json.loads(both.stdout)
    assert pooled["same_rows"]
    assert [bundle["kind"] for bundle in pooled["bundles"]] == ["rows", "covariance"]
    assert pooled["bundles"][1]["weight"] > 0.9  # the covariance is far more accurate
    assert pooled["n_rows"] == len(table)
    assert folds.returncode == 0, folds.stderr  # drawn from the known errors
