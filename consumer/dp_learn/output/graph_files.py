"""The files of a graph: edges, ranking, both matrices, and GraphML."""

from __future__ import annotations

from pathlib import Path

from dp_learn.output.wide_files import write_graphml, write_square, write_table
from dp_learn.pipeline.graph import GraphEstimate, labelled_edges, labels


def write_estimate(estimate: GraphEstimate, folder: Path) -> None:
    """Write edges.csv, ranking.csv if there is one, precision.csv, covariance.csv and graph.graphml into a folder.

    Of a graph between nodes of several columns the matrices are those of the columns, and loadings.csv says how levels
    go together with other nodes.
    """
    write_table(estimate.edge_columns, folder / "edges.csv")
    if ranking := estimate.ranking_columns():
        write_table(ranking, folder / "ranking.csv")
    names, precision, covariance = estimate.columns, estimate.precision, estimate.covariance
    if (variables := estimate.variables) is not None:
        names, precision, covariance = variables.names, variables.precision, variables.covariance
        write_table(variables.loadings, folder / "loadings.csv")
    write_square(precision, names, folder / "precision.csv")
    write_square(covariance, names, folder / "covariance.csv")
    write_graphml(labels(estimate.columns), *labelled_edges(estimate), folder / "graph.graphml")
