"""The files of a graph: edges, ranking, both matrices, and GraphML."""

from __future__ import annotations

from pathlib import Path

from dp_learn.graph import GraphEstimate, labelled_edges, labels
from dp_learn.output.wide_files import write_graphml, write_square, write_table


def write_estimate(estimate: GraphEstimate, folder: Path) -> None:
    """Write edges.csv, ranking.csv if there is one, precision.csv, covariance.csv and graph.graphml into a folder."""
    write_table(estimate.edge_columns, folder / "edges.csv")
    if ranking := estimate.ranking_columns():
        write_table(ranking, folder / "ranking.csv")
    write_square(estimate.precision, estimate.columns, folder / "precision.csv")
    write_square(estimate.covariance, estimate.columns, folder / "covariance.csv")
    write_graphml(labels(estimate.columns), *labelled_edges(estimate), folder / "graph.graphml")
