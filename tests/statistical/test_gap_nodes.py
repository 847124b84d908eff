"""Numbers with published gaps, learned as nodes of two columns: moments, tests and effects are those of the truth."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import policy_with, publish_alone

from dp_bundle import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn import Learned, learn_graph
from dp_learn.pipeline.graph import partial_correlations

INDICATOR = {"missing": "indicator"}


def learn(table: pd.DataFrame, columns: dict[str, Any], folder: Path, seed: int, **privacy: Any) -> Learned:
    """Publish a table with this noise, and learn from it."""
    path = publish_alone(table, policy_with(columns, **privacy), folder / f"{seed}.tar", seed)
    with open_bundle(path, UnsafeTrustAnyone()) as bundle:
        learned = learn_graph(bundle, measures=False)
    path.unlink()
    return learned


def people(rng: np.random.Generator, n_rows: int) -> pd.DataFrame:
    """Return rows in which pay follows from age, is often not told by the ill, and says nothing else of them."""
    age, ill = rng.normal(45, 10, n_rows), rng.random(n_rows) < 0.3
    pay = 50 + 1.0 * (age - 45) + rng.normal(0, 8, n_rows)
    told = rng.random(n_rows) >= np.where(ill, 0.5, 0.1)
    return pd.DataFrame(
        {
            "pay": np.where(told, pay, np.nan),
            "age": age,
            "ill": ill.astype(int),
            "other": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(0, 1, n_rows)),
        }
    )


PEOPLE = {
    "pay": {"bounds": [-20, 200], **INDICATOR},  # the middle is four standard deviations off
    "age": {"bounds": [0, 100]},
    "ill": {"kind": "boolean"},
    "other": {"bounds": [-4, 4], **INDICATOR},
}


@pytest.mark.slow
def test_tests_hold_their_level_where_gaps_come_at_random(tmp_path: Path) -> None:
    """Of unrelated columns, gaps included, 5 % of pairs are rejected at 5 %, with an error of 1.5."""
    p_values: list[float] = []
    columns = {
        **{name: {"bounds": [-4, 4], **INDICATOR} for name in ("a", "b", "c")},
        "x": {"bounds": [-4, 4]},
        "g": {"kind": "category", "categories": ["u", "v", "w"]},
    }
    for seed in range(130):
        rng = np.random.default_rng([3, seed])
        table = pd.DataFrame({name: rng.normal(size=3000) for name in "abcx"})
        for name, share in {"a": 0.3, "b": 0.1, "c": 0.05}.items():
            table.loc[rng.random(3000) < share, name] = np.nan
        table["g"] = rng.choice(["u", "v", "w"], 3000, p=[0.5, 0.3, 0.2])
        tests = learn(table, columns, tmp_path, seed, unit="cell", mu=6.0).estimate.tests
        p_values += tests.p_values[np.triu_indices(len(tests.nodes), 1)].tolist()
    assert abs(np.mean(np.array(p_values) < 0.05) - 0.05) < 0.015


@pytest.mark.parametrize(
    ("privacy", "bounds"),
    [
        ({"unit": "cell", "mu": 8.0}, [-20.0, 200.0]),
        ({"unit": "row", "mu": 1.0, "release": "covariance", "mechanism": "gaussian"}, [-20.0, 200.0]),
        ({"unit": "row", "mu": 1.0, "release": "covariance"}, [-50_000.0, 100_000.0]),  # in two rounds
    ],
    ids=["rows", "one sum", "two rounds"],
)
def test_values_and_gaps_are_told_apart(privacy: dict[str, Any], bounds: list[float], tmp_path: Path) -> None:
    """Pay goes with age by its values, and with being ill by its gaps alone, however far off the middle is."""
    rng = np.random.default_rng(5)
    table = people(rng, 40_000)
    columns = {**PEOPLE, "pay": {"bounds": bounds, **INDICATOR}}
    graph = learn(table, columns, tmp_path, 1, **privacy).estimate
    edges = {frozenset((row.source, row.target)) for row in graph.edges().itertuples()}
    assert {frozenset(("pay", "age")), frozenset(("pay", "ill"))} <= edges
    effects = pd.DataFrame(graph.variables.loadings).set_index(["source", "level", "target", "target_level"])["effect"]

    present = table.dropna(subset="pay")
    together = np.corrcoef(present["pay"], present["age"])[0, 1]
    assert effects["pay", "(value)", "age", ""] == pytest.approx(together, abs=0.08)
    assert effects["pay", "(no value)", "age", ""] == pytest.approx(0.0, abs=0.1)
    more_ill = table.loc[table["pay"].isna(), "ill"].mean() - table["ill"].mean()
    assert effects["pay", "(no value)", "ill", ""] == pytest.approx(more_ill / table["ill"].std(), abs=0.12)
    assert effects["pay", "(value)", "ill", ""] == pytest.approx(0.0, abs=0.08)


def test_gaps_that_are_too_few_are_named(tmp_path: Path) -> None:
    """A number with hardly a gap is one column, and a note says that its gaps are left out."""
    table = people(np.random.default_rng(6), 3000)
    table["other"] = 0.5
    table.loc[:1500, "other"] = -0.5
    table.loc[5, "other"] = np.nan
    learned = learn(table, PEOPLE, tmp_path, 1, unit="cell", mu=9.0)
    assert "other" in learned.fit.nodes.names
    assert "other=(no value)" not in learned.sample.pooled.columns
    assert any("gaps too few" in note and "other" in note for note in learned.notes)


def test_gaps_that_come_together_are_named(tmp_path: Path) -> None:
    """Where two columns have gaps in the same rows, a note says so, and what would help."""
    table = people(np.random.default_rng(6), 10_000)
    table["other"] = table["other"].fillna(0.0).mask(table["pay"].isna())
    learned = learn(table, PEOPLE, tmp_path, 1, unit="cell", mu=20.0)
    assert learned.fit.nodes.columns.alike == ("pay", "other")
    assert any("gaps come together in 'pay', 'other'" in note for note in learned.notes)
    assert learned.estimate.edge_columns["source"]


@pytest.mark.slow
def test_gaps_make_fewer_false_links_than_the_middle_alone(tmp_path: Path) -> None:
    """In chains with gaps in every third column, far from the middle, absent links have p-values that are hardly small.

    With the middle alone, ends of a link that passes through such a column get p-values of 1e-20 (ADR 0015).
    """
    smallest: dict[str, list[float]] = {"indicator": [], "midpoint": []}
    absent = [(0, 2), (3, 5), (6, 8), (0, 5), (2, 7)]
    for seed in range(10):
        rng = np.random.default_rng([9, seed])
        x = rng.normal(size=(20_000, 10))
        for place in range(1, 10):
            x[:, place] = 0.5 * x[:, place - 1] + np.sqrt(0.75) * x[:, place]
        for place in (1, 4, 7):
            x[rng.random(20_000) < 0.05, place] = np.nan
        table = pd.DataFrame(x, columns=list("abcdefghij"))
        for how, found in smallest.items():
            columns = {
                name: {"bounds": [-4, 12], "missing": how if table[name].isna().any() else "refuse"} for name in table
            }
            graph = learn(table, columns, tmp_path, seed, unit="row", mu=80.0).estimate
            p_values = graph.tests.p_values if how == "indicator" else graph.inference.p_values
            found.append(min(float(p_values[pair]) for pair in absent))
    assert max(smallest["midpoint"]) < 1e-15
    assert min(smallest["indicator"]) > 1e-5


@pytest.mark.slow
def test_few_gaps_cost_no_link_its_sign_or_interval(tmp_path: Path) -> None:
    """With 1 % of gaps in every answer, every link has its sign, an interval that holds, and about its weight."""
    rng = np.random.default_rng(11)
    behind = np.where(np.abs(np.subtract.outer(range(12), range(12))) == 1, 0.45, 0.0) + np.eye(12)
    true = partial_correlations(np.linalg.inv(behind))
    scores = np.clip(np.round(3.5 + 1.2 * rng.normal(size=(2500, 12)) @ np.linalg.cholesky(behind).T), 1, 6)
    table = pd.DataFrame(scores).rename(columns=lambda place: f"q{place}").mask(rng.random((2500, 12)) < 0.01)
    columns = {"*": {"kind": "integer", "bounds": [1, 6], **INDICATOR}}
    learned = learn(table, columns, tmp_path, 2, unit="row", mu=2.0, scale="scores")
    assert any("gaps too few" in note and "q3" in note for note in learned.notes)
    edges = {(edge.source, edge.target): edge.partial_correlation for edge in learned.estimate.edges().itertuples()}
    for place in range(11):
        assert edges[f"q{place}", f"q{place + 1}"] == pytest.approx(true[place, place + 1], abs=0.15)
    low, high = learned.estimate.inference.partial_intervals()
    upper = np.triu_indices(12, 1)
    assert np.mean((low <= true)[upper] & (true <= high)[upper]) > 0.9
