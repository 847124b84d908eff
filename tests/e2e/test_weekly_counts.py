"""Weekly counts, published so that one case more or less cannot be told, and the contagion learned from them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from tests.conftest import Run

N_REGIONS, N_WEEKS = 20, 500
POLICY = """
[dataset]
name = "weekly"
[privacy]
unit = "change"
mu = 0.5
[columns."*"]
kind = "integer"
bounds = [0, 5000]
max_change = 1
"""


def neighbours(rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which of the regions of a map touch: those with no third one in the circle between them."""
    places = rng.random((N_REGIONS, 2))
    touching = np.zeros((N_REGIONS, N_REGIONS), dtype=bool)
    for one in range(N_REGIONS):
        for other in range(one):
            middle, radius = (places[one] + places[other]) / 2, np.linalg.norm(places[one] - places[other]) / 2
            inside = np.linalg.norm(places - middle, axis=1) < radius * (1 - 1e-9)
            touching[one, other] = touching[other, one] = not inside.any()
    return touching


def cases(touching: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the cases of every week and region, where each case infects others on the next day, near by or next door.

    A region has some 20 to 35 a week: in the mean, a case infects .2 in its region and up to .7 next door.
    """
    infections = 0.2 * np.eye(N_REGIONS) + 0.7 * touching / np.linalg.eigvalsh(touching.astype(float)).max()
    from_elsewhere = 20 / 7 * (1 - infections.sum(axis=1)).clip(0.1)
    today = np.full(N_REGIONS, 3)
    days = []
    for _ in range(7 * (N_WEEKS + 20)):
        today = rng.poisson(from_elsewhere + infections @ today)
        days.append(today)
    return np.array(days).reshape(-1, 7, N_REGIONS).sum(axis=1)[20:]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_contagion_is_learned_from_weekly_counts(seed: int, tmp_path: Path, command: Run) -> None:
    """At mu = .5 a case, neighbours rank above others, by evidence and by the weights of the graph."""
    rng = np.random.default_rng(seed)
    touching = neighbours(rng)
    names = [f"region{index:02}" for index in range(N_REGIONS)]
    pd.DataFrame(cases(touching, rng), columns=names).to_parquet(tmp_path / "weekly.parquet")
    (tmp_path / "weekly.policy.toml").write_text(POLICY)

    published = command("dp-publish", "weekly.parquet")
    assert published.returncode == 0, published.stderr
    learned = command("dp-learn", "weekly.bundle.tar")
    assert learned.returncode == 0, learned.stderr

    pairs = np.triu_indices(N_REGIONS, 1)
    ranking = pd.read_csv(tmp_path / "weekly.graph" / "ranking.csv")
    place = {frozenset(pair): rank for rank, pair in enumerate(zip(ranking["source"], ranking["target"], strict=True))}
    by_evidence = [-place[frozenset((names[one], names[other]))] for one, other in zip(*pairs, strict=True)]
    assert roc_auc_score(touching[pairs], by_evidence) >= 0.9
    precision = pd.read_csv(tmp_path / "weekly.graph" / "precision.csv", index_col=0).to_numpy()
    scale = np.sqrt(np.diag(precision))
    assert roc_auc_score(touching[pairs], np.abs(precision / np.outer(scale, scale))[pairs]) >= 0.9
