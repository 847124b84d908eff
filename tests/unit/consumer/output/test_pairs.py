"""Tables of all pairs and of nodes, as files: what they hold, and what has no number."""

from pathlib import Path

import numpy as np
import pandas as pd
from tests.unit.consumer.pipeline.mixed import learn_mixed, mixed_sample

from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.output.folder import write_table
from dp_learn.output.pairs import write_pairs
from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.learn import Learned, learn_sample
from dp_learn.pipeline.settings import Settings


def learned(noise: float = 0.1) -> Learned:
    """Return the graph of four columns of 1000 rows, one with a name that a spreadsheet would take for a formula."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(1000, 4))
    rows[:, 1] += rows[:, 0]
    names = ("=a", 'b "x", y', "c", "d")
    noisy = rows + np.sqrt(noise) * rng.normal(size=rows.shape)
    return learn_sample(Sample([table_rows(noisy, names, noise)]), Settings())


def test_every_pair_has_a_line(tmp_path: Path) -> None:
    """All six pairs are there in the order of the columns, with the numbers of the edges, and 0 without an edge."""
    found = learned()
    assert found.measures is not None
    write_pairs(found.estimate, tmp_path / "pairs.csv", found.measures.together)
    table, edges = pd.read_csv(tmp_path / "pairs.csv"), found.estimate.edges()

    assert list(table["source"]) == ["'=a"] * 3 + ['b "x", y'] * 2 + ["c"]
    assert list(table["target"]) == ['b "x", y', "c", "d", "c", "d", "d"]
    assert table["is_edge"].sum() == len(edges) < 6
    assert table.loc[table["is_edge"] == 0, "partial_correlation"].eq(0.0).all()
    shared = [name for name in edges.columns[2:] if name != "precision"]
    listed = table[table["is_edge"] == 1].sort_values("evidence", ascending=False)
    np.testing.assert_allclose(listed[shared], edges[shared], rtol=1e-12)
    assert table["p_value"].notna().all()
    assert table["same_community"].between(0.0, 1.0).all()


def test_pairs_without_errors_have_weights_alone(tmp_path: Path) -> None:
    """A graph without evidence or tests still lists all pairs."""
    write_pairs(GraphEstimate(("a", "b"), np.eye(2), np.eye(2)), tmp_path / "pairs.csv")

    assert list(pd.read_csv(tmp_path / "pairs.csv").columns) == ["source", "target", "is_edge", "partial_correlation"]


def test_nodes_of_too_much_noise_have_empty_cells(tmp_path: Path) -> None:
    """What noise hides is an empty cell, and a note says so; the rest of the table is there."""
    found = learned(12.0)
    assert found.measures is not None
    write_table(found.measures.columns, tmp_path / "nodes.csv")
    table = pd.read_csv(tmp_path / "nodes.csv")

    assert len(table) == len(found.estimate.columns)
    assert table["predictability"].isna().all()
    assert any("predictability is left empty" in note for note in found.notes)


def test_categories_have_predictability() -> None:
    """Of a category it is the mean share of its levels: near 0 where it is unrelated, and clearly more where it is."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 3000)
    apart = rng.integers(0, 3, 3000)
    table = {"group": group, "score": 2.0 * group + rng.normal(size=3000), "apart": apart}
    found = learn_mixed(mixed_sample(table, 0.1))
    assert found.measures is not None
    columns = found.measures.columns
    explained = dict(zip(columns["node"], columns["predictability"], strict=True))

    assert abs(explained["apart"]) < 0.01
    assert 0.3 < explained["group"] < 0.5
    assert explained["score"] > 0.6
    assert found.measures.together is None
    assert np.isnan(columns["strength_low"]).all()
