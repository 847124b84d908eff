"""Tables of all pairs and of nodes, as files: what they hold, and what has no number."""

from pathlib import Path

import numpy as np
import pandas as pd

from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.output.folder import write_table
from dp_learn.output.pairs import write_pairs
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


def test_nodes_of_too_much_noise_have_empty_cells(tmp_path: Path) -> None:
    """What noise hides is an empty cell, and a note says so; the rest of the table is there."""
    found = learned(12.0)
    assert found.measures is not None
    write_table(found.measures.columns, tmp_path / "nodes.csv")
    table = pd.read_csv(tmp_path / "nodes.csv")

    assert len(table) == len(found.estimate.columns)
    assert table["predictability"].isna().all()
    assert any("predictability is left empty" in note for note in found.notes)
