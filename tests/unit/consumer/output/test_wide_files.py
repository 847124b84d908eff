"""Tables, matrices and graphs written fast say the same as those that pandas and networkx write."""

import csv
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd

from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.output.folder import write_graphml, write_pairs, write_square, write_table
from dp_learn.output.page.links import NODES, make_table
from dp_learn.pipeline.learn import Learned, learn_sample
from dp_learn.pipeline.settings import Settings

NAMES = ['a, "b"', "µ <x> & 'y'", "", "d"]


def test_square_round_trips_with_its_labels(tmp_path: Path) -> None:
    """Every bit of every number is read again, tiny and huge ones too, and names with commas and quotes."""
    matrix = np.exp(np.random.default_rng(0).normal(scale=200.0, size=(4, 4)))
    matrix = np.tril(matrix) + np.tril(matrix, -1).T
    write_square(matrix, NAMES, tmp_path / "ours.csv")
    with (tmp_path / "ours.csv").open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)

    assert header == ["", *NAMES]
    assert [line[0] for line in lines] == NAMES
    np.testing.assert_array_equal(np.array([line[1:] for line in lines], dtype=float), matrix)


def test_graphml_is_read_as_the_graph_that_was_written(tmp_path: Path) -> None:
    """Nodes in order, with names that XML must escape, and all numbers of all edges; also of a graph without edges."""
    graph = nx.Graph()
    graph.add_nodes_from([*NAMES, "alone"])
    for target in NAMES[1:]:
        graph.add_edge(NAMES[0], target, weight=float(np.pi * len(target)), sign=-1.0, p_value=1e-300)
    for each in (graph, nx.create_empty_copy(graph)):
        table = nx.to_pandas_edgelist(each)
        numbers = {name: table[name].to_numpy(float) for name in table.columns if name not in {"source", "target"}}
        write_graphml(
            list(each.nodes), list(table["source"]), list(table["target"]), numbers, tmp_path / "graph.graphml"
        )
        read = nx.read_graphml(tmp_path / "graph.graphml")

        assert list(read.nodes) == list(each.nodes)
        for shown in ("name", "label"):  # networkx 3.2 reads an empty one as None
            assert {name: said or "" for name, said in read.nodes(data=shown)} == {name: name for name in each.nodes}
        assert {frozenset(ends): data for *ends, data in read.edges(data=True)} == {
            frozenset(ends): data for *ends, data in each.edges(data=True)
        }


def test_table_is_the_one_that_pandas_writes(tmp_path: Path) -> None:
    """Names that need quotes, tiny and huge numbers, and what is not a number, come out byte for byte alike."""
    table = {"source": NAMES, "a, b": np.array([0.1, 1e-300, np.nan, 1.0]), "c": np.array([-0.0, 1e22, np.inf, 2 / 3])}
    write_table(table, tmp_path / "ours.csv")
    pd.DataFrame(table).to_csv(tmp_path / "theirs.csv", index=False)
    assert (tmp_path / "ours.csv").read_bytes() == (tmp_path / "theirs.csv").read_bytes()


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
    write_pairs(found.estimate, tmp_path / "pairs.csv", found.measures)
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
    shown = make_table("nodes", "", found.measures.columns, NODES, "nodes.csv")
    assert "Predictability" not in {column.label for column in shown.columns}  # on a page, no column is empty
