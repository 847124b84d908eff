"""What a covariance release of a small real table is worth, beside a release of its rows at the same guarantee."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score

from dp_bundle import open_bundle
from dp_bundle.base.errors import DrownedColumnError
from dp_learn import graphical_lasso, learn_graph
from dp_learn.pipeline.graph import partial_correlations
from dp_publish import Policy, publish
from dp_publish.forecast.plan import make_plan
from dp_publish.policy.file import load_policy

ALPHA, N_RELEASES = 0.3, 20
RADIUS = 0.3  # in half-widths of the bounds: nearly all rows are shortened to it, and only their directions count


def wine_table() -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the table, and bounds of three standard deviations about the mean that the data set's page prints."""
    wine = load_wine(as_frame=True)
    printed = re.findall(r"^[^\n=]+:[ ]+[\d.]+[ ]+[\d.]+[ ]+([\d.]+)[ ]+([\d.]+)$", wine.DESCR, re.MULTILINE)
    assert len(printed) == wine.data.shape[1]
    bounds = [[float(mean) - 3 * float(sd), float(mean) + 3 * float(sd)] for mean, sd in printed]
    return wine.data, {name: {"bounds": pair} for name, pair in zip(wine.data.columns, bounds, strict=True)}


def learned_edges(path: Path, columns: list[str]) -> np.ndarray:
    """Return the size of every partial correlation of the penalised estimate; zero where a column is drowned."""
    scores = pd.DataFrame(0.0, columns, columns)
    with open_bundle(path, allow_older=True) as bundle:
        try:
            estimate = learn_graph(bundle, alpha=ALPHA, error_bars=False, refit=False).estimate
        except DrownedColumnError:
            return scores.to_numpy()[np.triu_indices(len(columns), 1)]
    found = list(estimate.columns)
    scores.loc[found, found] = np.abs(partial_correlations(estimate.precision))
    return scores.to_numpy()[np.triu_indices(len(columns), 1)]


@pytest.mark.slow
def test_covariance_release_of_wine_shows_its_graph_where_rows_show_nothing(
    tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """At row-level mu = 1, the covariance's graph has an AUC of at least 0.85, the rows' one is at chance."""
    table, columns = wine_table()
    clean = graphical_lasso(table.corr().to_numpy(), ALPHA).precision[np.triu_indices(13, 1)] != 0
    assert 10 < clean.sum() < 40
    privacy = {
        "covariance": {"unit": "row", "mu": 1.0, "release": "covariance", "l2_radius": RADIUS},
        "rows": {"unit": "row", "mu": 1.0},
    }
    auc: dict[str, list[float]] = {}
    for kind, section in privacy.items():
        policy = Policy.model_validate({"dataset": {"name": kind}, "privacy": section, "columns": columns})
        for index in range(N_RELEASES):
            path = publish(table, policy, out=tmp_path / f"{kind}{index}.tar", key=key).path
            auc.setdefault(kind, []).append(roc_auc_score(clean, learned_edges(path, list(table.columns))))

    assert np.mean(auc["covariance"]) >= 0.85
    assert abs(np.mean(auc["rows"]) - 0.5) < 0.1


def test_the_forecast_predicted_both(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Before anything is spent, the plan tells the error of a correlation from moments, and that rows show nothing."""
    table, columns = wine_table()
    table.columns = [name.replace("/", "_") for name in table.columns]
    table.to_parquet(tmp_path / "wine.parquet")
    lines = ["[privacy]", 'unit = "row"', "mu = 1.0", 'release = "covariance"', f"l2_radius = {RADIUS}"]
    for name, entry in columns.items():
        lines += [f'[columns."{name.replace("/", "_")}"]', f"bounds = {entry['bounds']}"]
    (tmp_path / "wine.policy.toml").write_text("\n".join(lines) + "\n")
    forecast = make_plan(tmp_path / "wine.parquet", None, "wine", spread=1 / 6).focus
    policy = load_policy(tmp_path / "wine.policy.toml", "wine", {})
    released = publish(tmp_path / "wine.parquet", policy, out=tmp_path / "wine.tar", key=key).path
    with open_bundle(released) as bundle:
        found = learn_graph(bundle, alpha=ALPHA, error_bars=False).typical_errors

    assert forecast.rows.seen is None
    assert forecast.rows.error > 1.0
    assert forecast.moments.seen is not None
    assert found is not None
    assert found[0] == pytest.approx(forecast.moments.error, rel=0.4)
