"""What strangers write into a bundle, on the page of its result; and how large a page is, and how long it takes."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_learn.output.page.network import MOST_EDGES, MOST_NODES, find_network, network_data
from dp_learn.output.summary import Result
from dp_learn.pipeline.graph import GraphEstimate
from dp_publish import Policy, Receipt, publish

Run = Callable[..., "subprocess.CompletedProcess[str]"]
HOSTILE = [
    "</script><script>alert(1)</script>",
    "{{7*7}}",
    "$$x^2$$",
    "<img src=x onerror=alert(1)>",
    "עמודה",
    "列名",
    "x" * 200,
]
MOST = 3_000_000  # bytes


def make_bundle(path: Path, names: list[str], key: Ed25519PrivateKey, **dataset: str) -> None:
    """Publish 300 rows of columns that depend on each other, with these names."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(300, len(names))).cumsum(axis=1) / 2.0
    described = {
        "dataset": {"name": "strange", **dataset},
        "privacy": {"unit": "row", "mu": 100.0},
        "columns": {name: {"bounds": [-15.0, 15.0]} for name in names},
    }
    publish(pd.DataFrame(rows, columns=names), Policy.model_validate(described), out=path, key=key)


def test_names_of_strangers_are_text(key: Ed25519PrivateKey, command: Run, tmp_path: Path) -> None:
    """Hostile names of columns, titles and citations are shown as they are, and make no element and no script."""
    words = {"title": "<b>{{7*7}}</b>", "creator": "</pre><script>alert(2)</script>", "citation": "{% raw %}<!--"}
    make_bundle(tmp_path / "strange.tar", HOSTILE, key, **words)
    done = command("dp-learn", "strange.tar", "--alpha", 0.1, "--report", "--out", "found")
    assert done.returncode == 0, done.stderr

    page = (tmp_path / "found" / "report.html").read_text(encoding="utf-8")
    for script in re.findall("<script>(.*?)</script>", page, re.DOTALL):  # each is one of those that the policy allows
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"&#39;sha256-{digest}&#39;" in page or f"'sha256-{digest}'" in page
    shown = re.sub("<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search("<script>|<b>{{|<img|<!--", shown)
    assert "&lt;b&gt;{{7*7}}&lt;/b&gt;" in page
    assert "列名" in page
    data = json.loads(re.search('<script type="application/json" id="data">(.*?)</script>', page)[1])
    assert data["graph"]["names"][:2] == HOSTILE[:2]


def test_colours_of_figures_can_be_swapped(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """No source of a figure holds a colour, where the script that swaps light for dark would not find it."""
    assert command("dp-learn", bundle.path, "--report", "--out", "found").returncode == 0
    page = (tmp_path / "found" / "report.html").read_text(encoding="utf-8")
    figures = re.search('<script type="application/json" id="figures">(.*?)</script>', page)[1]
    sources = [entry for entry in _objects(json.loads(figures)) if entry.get("name") == "ColumnDataSource"]
    assert len(sources) > 5
    assert not re.search('"#[0-9a-f]{6}"', json.dumps(sources))


def _objects(part: object) -> Iterator[dict[str, object]]:
    if isinstance(part, dict):
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _objects(inner)


def test_page_of_thirty_columns_is_small(key: Ed25519PrivateKey, command: Run, tmp_path: Path) -> None:
    """With 30 columns of which all are linked, a page is not larger than it may be."""
    make_bundle(tmp_path / "thirty.tar", [f"column {place}" for place in range(30)], key)
    done = command("dp-learn", "thirty.tar", "--estimator", "ridge", "--report", "--out", "found")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "found" / "report.html").stat().st_size < MOST


@pytest.mark.parametrize("n_columns", [400, 1200])
def test_graph_of_very_many_columns_is_cut_to_what_can_be_drawn(n_columns: int) -> None:
    """A graph with more links than can be drawn is drawn in part, and fits in the page."""
    rng = np.random.default_rng(1)
    precision = n_columns * np.eye(n_columns) + np.triu(rng.normal(size=(n_columns, n_columns)), 1)
    precision = np.where(rng.random(precision.shape) < 0.05, precision, np.diag(np.diagonal(precision)))
    np.fill_diagonal(precision, n_columns)
    graph = GraphEstimate(tuple(map(str, range(n_columns))), precision + np.triu(precision, 1).T, np.eye(n_columns))
    network = find_network(Result([], {}, graph))
    assert network is not None
    data = network_data(network, None)
    assert len(data["edges"]["weight"]) <= MOST_EDGES  # what bounds the time that the places take
    assert len(data["names"]) - len(data["hidden"]) <= MOST_NODES
    assert len(json.dumps(data)) < MOST / 6
