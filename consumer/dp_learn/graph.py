"""The estimate as a graph with names and units, and as files that other tools read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["GraphEstimate", "partial_correlations", "to_networkx", "write_estimate"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GraphEstimate:
    """A precision matrix with labels, and what it came from.

    Attributes
    ----------
    columns : tuple of str
    precision : ndarray of shape (n_features, n_features)
        The sparse estimate, in inverse data units; zero where there is no edge.
    covariance : ndarray of shape (n_features, n_features)
        The debiased covariance, in data units, before any repair or penalty.
    """

    columns: tuple[str, ...]
    precision: Floats
    covariance: Floats

    def edges(self) -> pd.DataFrame:
        """Return the edges, strongest first: source, target, partial_correlation, precision."""
        rows, targets = np.nonzero(np.triu(self.precision, 1))
        partial = partial_correlations(self.precision)[rows, targets]
        frame = pd.DataFrame(
            {
                "source": [self.columns[index] for index in rows],
                "target": [self.columns[index] for index in targets],
                "partial_correlation": partial,
                "precision": self.precision[rows, targets],
            }
        )
        return frame.iloc[np.argsort(-np.abs(partial), kind="stable")].reset_index(drop=True)


def partial_correlations(precision: Floats) -> Floats:
    """Return -Theta_ij / sqrt(Theta_ii Theta_jj), with ones on the diagonal."""
    root = np.sqrt(np.diagonal(precision))
    partial: Floats = 0.0 - precision / np.outer(root, root)  # 0 - x, as -x would write negative zeros into files
    np.fill_diagonal(partial, 1.0)
    return partial


def to_networkx(estimate: GraphEstimate) -> nx.Graph:
    """Return an undirected graph: every column a node, every non-zero partial correlation an edge."""
    graph = nx.Graph()
    graph.add_nodes_from(estimate.columns)
    edges = estimate.edges()
    for source, target, partial in zip(edges["source"], edges["target"], edges["partial_correlation"], strict=True):
        graph.add_edge(source, target, partial_correlation=float(partial), weight=abs(float(partial)))
    return graph


def write_estimate(estimate: GraphEstimate, summary: dict[str, Any], folder: Path) -> None:
    """Write edges.csv, precision.csv, covariance.csv, graph.graphml and summary.json into a folder."""
    names = list(estimate.columns)
    estimate.edges().to_csv(folder / "edges.csv", index=False)
    pd.DataFrame(estimate.precision, names, names).to_csv(folder / "precision.csv")
    pd.DataFrame(estimate.covariance, names, names).to_csv(folder / "covariance.csv")
    nx.write_graphml(to_networkx(estimate), folder / "graph.graphml")
    (folder / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
