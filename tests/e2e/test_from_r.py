"""The page for R does what it says: names, weights and the covariance are those that Python has."""

import json
import re
import subprocess
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "from_r.R"


@pytest.mark.tools
def test_qgraph_ebicglasso_and_igraph_read_what_is_written(tmp_path: Path, command: Run) -> None:
    """From a folder and from exported rows; with the effective number of rows, EBICglasso finds the chain and no more.

    With the number of rows it would find edges in the noise, which is why the script does not give it that.
    """
    rng, p = np.random.default_rng(2), 8
    rows = rng.normal(size=(20_000, p))
    for place in range(1, p):
        rows[:, place] = 0.5 * rows[:, place - 1] + 0.866 * rows[:, place]
    rows = rows.clip(-4, 4)
    pd.DataFrame(rows, columns=[f"node {i}" for i in range(p)]).to_parquet(tmp_path / "chain.parquet")
    columns = "".join(f'[columns."node {i}"]\nbounds = [-4, 4]\n' for i in range(p))
    Path("chain.policy.toml").write_text(f"[privacy]\nmu = 30.0\n{columns}")
    for words in (
        ["dp-publish", "chain.parquet"],
        ["dp-learn", "chain.bundle.tar"],
        ["dp-bundle", "export", "chain.bundle.tar", "--out", "chain.csv"],
    ):
        done = command(*words)
        assert done.returncode == 0, done.stderr
    Path("chain.json").write_text(command("dp-bundle", "inspect", "chain.bundle.tar", "--json").stdout)

    words = ["Rscript", str(SCRIPT), "chain.graph", "chain.csv", "chain.json"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = dict(line.split(": ", 1) for line in done.stdout.strip().splitlines())
    folder = Path("chain.graph")
    edges, nodes = pd.read_csv(folder / "edges.csv"), pd.read_csv(folder / "nodes.csv")
    assert int(said["edges by dp-learn"]) == len(edges)
    assert said["most predictable node"].strip() == nodes["node"][nodes["predictability"].idxmax()]
    strength = dict(nx.read_graphml(folder / "graph.graphml").degree(weight="weight"))
    assert said["strongest node by igraph"].strip() == max(strength, key=strength.__getitem__)
    assert float(said["largest difference from covariance.csv"]) < 1e-6
    assert p - 1 <= int(said["edges by EBICglasso"]) <= 2 * p
    assert json.loads((folder / "summary.json").read_text())["effective_rows"] < 20_000 * 0.9
    assert Path("graph-from-r.png").stat().st_size > 1000


@pytest.mark.tools
def test_combined_correlations_go_to_ebicglasso_as_the_page_has_it(tmp_path: Path, command: Run) -> None:
    """The lines of the page find a chain in second moments of two rounds, by the effective number of rows."""
    rng, p = np.random.default_rng(3), 6
    rows = rng.normal(size=(3000, p))
    for place in range(1, p):
        rows[:, place] = 0.6 * rows[:, place - 1] + 0.8 * rows[:, place]
    pd.DataFrame(rows, columns=[f"node {i}" for i in range(p)]).to_parquet(tmp_path / "wine.parquet")
    assert command("dp-publish", "wine.parquet", "--release", "covariance", "--mu", "3").returncode == 0
    assert command("dp-bundle", "export", "wine.bundle.tar", "--combined").returncode == 0

    page = (ROOT / "docs" / "how-to" / "use-from-r.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^```r\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "page.R").write_text(f"{lines}cat(n, colnames(r)[1], sum(graph != 0) / 2, sep = ';')\n")
    done = subprocess.run(["Rscript", "page.R"], check=True, capture_output=True, text=True)
    n, name, n_edges = done.stdout.strip().split("\n")[-1].split(";")
    assert float(n) == pytest.approx(json.loads(Path("wine-combined.json").read_text())["effective_rows"])
    assert name == "node 0"
    assert p - 1 <= int(n_edges) <= 2 * p
