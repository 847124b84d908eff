"""Wine: 178 rows of thirteen columns, published at mu = 1 a row with nothing declared."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.covariance import graphical_lasso
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from tests.conftest import Run

N_RELEASES = 12
ALPHA = 0.2  # of the graph without noise


@pytest.mark.slow
def test_plain_commands_rank_the_edges_of_a_small_table(command: Run, tmp_path: Path) -> None:
    """A dozen plain releases rank the clean graph's edges with a mean AUC of 0.75, and most drown no column."""
    table = load_wine(as_frame=True).data.rename(columns=lambda name: name.replace("/", "_"))
    table.to_parquet(tmp_path / "wine.parquet")
    edges = graphical_lasso(table.corr().to_numpy(), ALPHA)[1] != 0

    found, drowned = [], []
    for number in range(N_RELEASES):
        bundle, folder = tmp_path / f"wine-{number}.tar", tmp_path / f"found-{number}"
        published = command("dp-publish", "wine.parquet", "--mu", "1", "--out", bundle)
        assert not published.returncode, published.stderr
        learned = command("dp-learn", bundle, "--out", folder)
        assert not learned.returncode, learned.stderr
        found.append(_auc(pd.read_csv(folder / "ranking.csv"), list(table.columns), edges))
        drowned.append("drowned" in learned.stdout)

    assert np.mean(found) >= 0.75
    assert np.mean(drowned) < 0.5


def _auc(ranking: pd.DataFrame, names: list[str], edges: np.ndarray) -> float:
    """Return the AUC of the evidence for pairs, drowned ones last, against edges."""
    evidence = np.zeros(edges.shape)
    for source, target, value in ranking[["source", "target", "evidence"]].itertuples(index=False):
        i, j = sorted((names.index(source), names.index(target)))
        evidence[i, j] = abs(value)
    upper = np.triu_indices(len(names), 1)
    return float(roc_auc_score(edges[upper], evidence[upper]))
