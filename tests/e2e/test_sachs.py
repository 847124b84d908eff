"""Protein signalling: a real table of 7466 cells with a known network."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.metrics import roc_auc_score

from dp_bundle import open_bundle
from dp_learn import graphical_lasso, learn_graph
from dp_learn.pipeline.graph import partial_correlations
from dp_publish import Policy, publish

ALPHA = 0.05
N_RELEASES = 10


@pytest.mark.data
def test_20_db_keeps_the_graph(tmp_path: Path, key: Ed25519PrivateKey, data_folder: Path) -> None:
    """At 20 dB ten learned graphs are the clean one's (mean AUC >= 0.98), and as near the known network within 0.02."""
    folder = data_folder / "sachs"
    raw = pd.read_csv(folder / "sachs.csv")
    table = (raw - raw.mean()) / raw.std(ddof=0)
    policy = Policy.model_validate(
        {
            "dataset": {"name": "sachs"},
            "privacy": {"unit": "cell", "sigma": 10 ** (-20 / 20)},
            "columns": {"*": {"bounds": [-30, 30]}},
        }
    )
    upper = np.triu_indices(table.shape[1], 1)
    clean = partial_correlations(graphical_lasso(table.corr().to_numpy(), ALPHA).precision)[upper]
    known = _known_network(folder / "sachs_edges.csv", list(table.columns))[upper]
    found = []
    for number in range(N_RELEASES):
        receipt = publish(table, policy, out=tmp_path / f"sachs-{number}.tar", key=key)
        with open_bundle(receipt.path) as bundle:
            noisy = np.abs(partial_correlations(learn_graph(bundle, alpha=ALPHA).estimate.precision)[upper])
        found.append((roc_auc_score(clean != 0, noisy), roc_auc_score(known, noisy)))
    auc_clean, auc_known = np.mean(found, axis=0)
    auc_known_clean = roc_auc_score(known, np.abs(clean))

    print(f"AUC against the clean graph {auc_clean:.4f}; known network {auc_known:.4f}, clean {auc_known_clean:.4f}")  # noqa: T201
    assert auc_clean >= 0.98
    assert abs(auc_known - auc_known_clean) <= 0.02


def _known_network(path: Path, names: list[str]) -> np.ndarray:
    edges = pd.read_csv(path).query("in_bnlearn17_undirected == 1")
    known = np.zeros((len(names), len(names)), dtype=bool)
    for source, target in zip(edges["source"], edges["target"], strict=True):
        known[names.index(source), names.index(target)] = known[names.index(target), names.index(source)] = True
    assert known.sum() == 34
    return known
