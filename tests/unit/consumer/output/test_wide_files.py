"""Matrices and graphs written fast say the same as those that pandas and networkx write."""

import csv
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd

from dp_learn.output.folder import write_graphml, write_square, write_table

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
    graph.add_nodes_from([*NAMES, "line\nbreak"])
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
