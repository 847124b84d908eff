"""The commands as people run them, from a table to a graph."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

POLICY = """
[dataset]
name = "people"
title = "Heights, weights and visits"
license = "CC0-1.0"
[privacy]
unit = "cell"
mu = 20.0
[columns.height]
bounds = [120, 220]
unit = "cm"
[columns.weight]
bounds = [20, 140]
unit = "kg"
[columns.visits]
bounds = [0, 30]
"""


@pytest.fixture
def people(tmp_path: Path, table: pd.DataFrame) -> Path:
    """Put the small table and its policy into the test's folder."""
    table.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "people.policy.toml").write_text(POLICY)
    return tmp_path / "people.parquet"


@pytest.mark.slow
def test_two_commands_from_table_to_graph(people: Path, program: Run, tmp_path: Path, table: pd.DataFrame) -> None:
    """A publisher and a researcher need one command each, and the graph finds the one true edge."""
    published = program("dp-publish", "people.parquet")
    assert published.returncode == 0, published.stderr
    assert "'name' (neither a number nor given a kind of its own)" in published.stdout
    assert "fingerprint" in published.stderr

    learned = program("dp-learn", "people.bundle.tar")
    assert learned.returncode == 0, learned.stderr
    folder = tmp_path / "people.graph"
    written = {path.name for path in folder.iterdir()}
    tables = {"edges.csv", "ranking.csv", "pairs.csv", "nodes.csv", "precision.csv", "covariance.csv"}
    assert written == tables | {
        "graph.graphml",
        "graph.png",
        "methods.txt",
        "report.html",
        "summary.json",
        ".dpgraph-result.json",
    }
    visible = {name for name in written if not name.startswith(".")}
    page = (Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text(encoding="utf-8")
    listed = re.findall(r"[\w.]+\.(?:csv|graphml|png|html|json|txt)", learned.stdout.rpartition("wrote ")[2])
    assert set(listed) == visible
    assert set(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)) >= visible
    named = {*re.findall(r"`(\w+)`", page)}
    assert all({*pd.read_csv(folder / name, nrows=0)} <= named for name in tables - {"precision.csv", "covariance.csv"})
    edges = pd.read_csv(folder / "edges.csv")
    assert list(edges.columns)[:3] == ["source", "target", "partial_correlation"]
    assert set(edges.loc[0, ["source", "target"]]) == {"height", "weight"}
    covariance = pd.read_csv(folder / "covariance.csv", index_col=0)
    assert covariance.loc["height", "weight"] == pytest.approx(table["height"].cov(table["weight"]), rel=0.2)
    assert json.loads((folder / "summary.json").read_text())["n_edges"] == len(edges)


def test_filled_gaps_are_told_wherever_a_bundle_is_read(
    people: Path, command: Run, tmp_path: Path, table: pd.DataFrame
) -> None:
    """The README, inspect, dp-learn and its summary warn of cells at the midpoint, and of which columns."""
    table.assign(weight=table["weight"].where(table.index % 9 > 0)).to_parquet(people)
    people.with_name("people.policy.toml").write_text(POLICY.replace("[20, 140]", '[20, 140]\nmissing = "midpoint"'))
    assert command("dp-publish", "people.parquet").returncode == 0
    warning = "Cells without a value, if any, in weight took the middle of the bounds"
    said = warning.replace(", if any,", "")  # in the bundle, as in older ones
    learned = command("dp-learn", "people.bundle.tar")
    summary = json.loads((tmp_path / "people.graph" / "summary.json").read_text())

    assert warning in learned.stdout
    assert warning in command("dp-bundle", "inspect", "people.bundle.tar").stdout
    assert said.encode() in (tmp_path / "people.bundle.tar").read_bytes()
    assert summary["bundles"][0]["gaps"][0].startswith(warning)


def test_unsolvable_alpha_exits_4_with_the_smallest(tmp_path: Path, command: Run) -> None:
    """A penalty below the smallest solvable one is refused, and the one that is named works."""
    rng = np.random.default_rng(3)
    names = [f"x{index}" for index in range(12)]
    common = rng.normal(size=(60, 1))
    pd.DataFrame(common + 0.3 * rng.normal(size=(60, 12)), columns=names).to_parquet(tmp_path / "few.parquet")
    bounds = "\n".join(f"[columns.{name}]\nbounds = [-4, 4]" for name in names)
    (tmp_path / "few.policy.toml").write_text(f'[privacy]\nunit = "cell"\nmu = 12\n{bounds}\n')
    assert command("dp-publish", "few.parquet", "--anyway").returncode == 0
    words = ["dp-learn", "few.bundle.tar", "--no-penalize-diagonal", "--alpha"]
    refused = command(*words, "1e-6")
    assert refused.returncode == 4
    smallest = float(refused.stderr.rstrip().rsplit(" ", 1)[1])

    assert command(*words, 1.001 * smallest).returncode == 0
    assert command(*words, 0.95 * smallest).returncode == 4
