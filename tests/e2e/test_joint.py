"""What a researcher can ask of dp-learn joint, as one runs it."""

import json
from pathlib import Path

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run
from tests.e2e.test_comparing import AFTER, BEFORE, release

MONTHS = ("2026-01", "2026-02", "2026-03", "2026-04")
COLUMNS = ["source", "target", "from", "to", "before", "after", "difference", "standard_error", "p_value", "q_value"]


@pytest.fixture
def months(tmp_path: Path, key: Ed25519PrivateKey) -> list[Path]:
    """Publish four months, rows and second moments, of which the last two have another network."""
    moments = {"unit": "row", "mu": 3.0, "release": "covariance"}
    return [
        release(
            tmp_path / f"{month}.bundle.tar",
            key,
            BEFORE if place < 2 else AFTER,
            seed=place,
            **(moments if place % 2 else {}),
        )
        for place, month in enumerate(MONTHS)
    ]


@pytest.mark.slow
def test_the_folder_has_a_graph_a_period_and_what_changed(months: list[Path], command: Run, tmp_path: Path) -> None:
    """Periods have the files of a graph, in folders of their names; one pair changed, between February and March."""
    done = command("dp-learn", "joint", *months, "--json")
    folder = tmp_path / "2026-01+2026-04.joint"
    summary, changes = json.loads(done.stdout), pd.read_csv(folder / "changes.csv")

    assert done.returncode == 0, done.stderr
    assert summary == json.loads((folder / "summary.json").read_text())
    assert [each["name"] for each in summary["bundles"]] == list(MONTHS)
    assert summary["duality_gap"] >= 0.0
    (point,) = summary["change_points"]
    assert (point["from"], point["to"], point["before"]) == ("2026-02", "2026-03", ["2026-01", "2026-02"])

    assert list(changes) == COLUMNS
    assert changes.loc[:, "source":"to"].to_numpy().tolist() == [["v1", "v2", "2026-02", "2026-03"]]
    assert abs(changes.difference[0] + 0.5) < 4 * changes.standard_error[0]
    assert changes.after[0] - changes.before[0] == pytest.approx(changes.difference[0])
    for place, month in enumerate(MONTHS):
        period = folder / "periods" / month
        assert {path.name for path in period.iterdir()} == {
            *("edges.csv", "ranking.csv", "pairs.csv", "nodes.csv", "precision.csv", "covariance.csv"),
            *("graph.graphml", "graph.png", "summary.json"),
        }
        edges = pd.read_csv(period / "edges.csv")
        assert len(edges) == summary["n_edges"][place] == 3
        link = edges[(edges.source == "v1") & (edges.target == "v2")].partial_correlation.iloc[0]
        assert link == pytest.approx(0.3 if place < 2 else -0.2, abs=0.1)
