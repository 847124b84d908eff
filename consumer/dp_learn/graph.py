"""The estimate as a graph with names and units, and as files that other tools read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd

from dp_learn.inference import EdgeInference
from dp_learn.linalg import FloatArray
from dp_learn.wide_files import write_graphml, write_square

__all__ = ["GraphEstimate", "partial_correlations", "to_networkx", "write_estimate"]

MOST_RANKED = 10_000  # of all pairs; those of 141 columns
_LABEL = re.compile(r"[\x00-\x1f\x7f]")  # what XML and pictures cannot show


@dataclass(frozen=True, eq=False)
class GraphEstimate:
    """A precision matrix with labels, what it came from, and how sure its edges are.

    Attributes
    ----------
    columns : tuple of str
    precision : ndarray of shape (n_features, n_features)
        The reported estimate, in inverse data units; zero where there is no edge.
    covariance : ndarray of shape (n_features, n_features)
        The debiased covariance, in data units, before any repair or penalty.
    inference : EdgeInference or None
        Error bars and tests for every pair, where they could be had.
    fdr : float or None
        The false discovery rate at which edges are listed; None lists those of the precision matrix.
    evidence : ndarray of shape (n_features, n_features) or None
        How much speaks for an edge between each pair, where that is known; see `score_pairs`.
    """

    columns: tuple[str, ...]
    precision: FloatArray
    covariance: FloatArray
    inference: EdgeInference | None = None
    fdr: float | None = None
    evidence: FloatArray | None = None

    def ranking(self) -> pd.DataFrame | None:
        """Return the pairs of columns by the evidence for an edge, edges or not, at most the 10,000 surest.

        Returns
        -------
        DataFrame or None
            source, target, evidence; with inference also desparsified and p_value. None without evidence.
        """
        if self.evidence is None:
            return None
        places = np.flatnonzero(np.triu(np.ones(self.evidence.shape, dtype=bool), 1))
        scores = self.evidence.ravel()[places]
        if len(scores) > MOST_RANKED:
            surest = np.argpartition(-scores, MOST_RANKED)[:MOST_RANKED]
            places, scores = np.sort(places[surest]), self.evidence.ravel()[np.sort(places[surest])]
        rows, columns = np.divmod(places, len(self.columns))
        table = {
            "source": [self.columns[index] for index in rows],
            "target": [self.columns[index] for index in columns],
            "evidence": scores,
        }
        if self.inference is not None:
            table |= {"desparsified": self.inference.partial_correlation[rows, columns]}
            table |= {"p_value": self.inference.p_values_at((rows, columns))}
        return pd.DataFrame(table).iloc[np.argsort(-scores, kind="stable")].reset_index(drop=True)

    def edges(self) -> pd.DataFrame:
        """Return the edges as a table: those of the precision matrix, or those found at the false discovery rate.

        Returns
        -------
        DataFrame
            source, target; partial_correlation and precision of the reported estimate; `evidence` where it is known;
            with inference also `desparsified`, the partial correlation that the tests are about, which supposes no
            graph, and its standard_error, ci_low, ci_high (95 %), p_value and q_value. Surest first: by the tests at a
            rate, else by the evidence, else by strength.
        """
        return self._edges.copy()

    @cached_property
    def _edges(self) -> pd.DataFrame:
        tests = self.inference if self.fdr is not None else None
        chosen = self.precision != 0.0 if tests is None else tests.q_values <= (self.fdr or 0.0)
        pairs = np.nonzero(np.triu(chosen, 1))
        root = np.sqrt(np.diagonal(self.precision))
        partial = 0.0 - self.precision[pairs] / (root[pairs[0]] * root[pairs[1]])
        table = {
            "source": [self.columns[index] for index in pairs[0]],
            "target": [self.columns[index] for index in pairs[1]],
            "partial_correlation": partial,
            "precision": self.precision[pairs],
        }
        order = np.abs(partial)
        if self.evidence is not None:
            order = table["evidence"] = self.evidence[pairs]
        if self.inference is not None:
            table |= {"desparsified": self.inference.partial_correlation[pairs]}
            table |= self.inference.error_bars_at(pairs)
        if tests is not None:
            order = tests.scores[pairs]
        return pd.DataFrame(table).iloc[np.argsort(-order, kind="stable")].reset_index(drop=True)


def partial_correlations(precision: FloatArray) -> FloatArray:
    """Return -Theta_ij / sqrt(Theta_ii Theta_jj), with ones on the diagonal."""
    root = np.sqrt(np.diagonal(precision))
    partial: FloatArray = 0.0 - precision / np.outer(root, root)  # 0 - x, as -x would write negative zeros into files
    np.fill_diagonal(partial, 1.0)
    return partial


def to_networkx(estimate: GraphEstimate) -> nx.Graph:
    """Return an undirected graph: every column a node, every edge with the numbers of the table of edges.

    `weight` is the size of the partial correlation, and `sign` its sign.
    """
    graph = nx.Graph()
    labels = {name: _LABEL.sub("\ufffd", name) for name in estimate.columns}
    graph.add_nodes_from(labels.values())
    for edge in estimate.edges().to_dict("records"):
        ends = labels[edge.pop("source")], labels[edge.pop("target")]
        numbers = {str(name): float(value) for name, value in edge.items()}
        strength = numbers["partial_correlation"]
        graph.add_edge(*ends, **numbers, weight=abs(strength), sign=float(np.sign(strength)))
    return graph


def write_estimate(estimate: GraphEstimate, folder: Path) -> None:
    """Write edges.csv, ranking.csv if there is one, precision.csv, covariance.csv and graph.graphml into a folder."""
    names = list(estimate.columns)
    estimate.edges().to_csv(folder / "edges.csv", index=False)
    if (ranking := estimate.ranking()) is not None:
        ranking.to_csv(folder / "ranking.csv", index=False)
    write_square(estimate.precision, names, folder / "precision.csv")
    write_square(estimate.covariance, names, folder / "covariance.csv")
    write_graphml(to_networkx(estimate), folder / "graph.graphml")
