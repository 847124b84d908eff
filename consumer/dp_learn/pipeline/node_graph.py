"""A graph whose nodes are columns of the raw table: numbers, and categories with several columns of their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dp_learn.inference.edges import Pairs
from dp_learn.inference.nodes import NodeInference, node_strengths
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.graph import GraphEstimate, Variables


@dataclass(frozen=True, eq=False)
class NodeGraph(GraphEstimate):
    """A graph between nodes. Its matrices hold strengths, as partial correlations, and correlations; see `make`.

    Attributes
    ----------
    tests : NodeInference or None
        Tests of every pair.
    """

    tests: NodeInference | None = None

    @classmethod
    def make(
        cls,
        nodes: tuple[str, ...],
        variables: Variables,
        evidence: FloatArray | None,
        tests: NodeInference | None,
        fdr: float | None,
    ) -> NodeGraph:
        """Return the graph of an estimate.

        Parameters
        ----------
        nodes : tuple of str
        variables : Variables
            Where there is no edge, all entries of the block of `precision` are zero.
        evidence : ndarray of shape (G, G) or None
            The evidence for an edge between each pair, where it is known; see `score_nodes`.
        tests : NodeInference or None
            Tests of every pair.
        fdr : float or None
            The false discovery rate at which edges are listed; None lists those of the precision matrix.
        """
        strength = node_strengths(variables.precision, variables.labels, len(nodes))
        if tests is not None and fdr is not None:  # edges that have no fit of their own
            strength = np.where((tests.q_values <= fdr) & (strength == 0.0), tests.strength, strength)
        partial = 2.0 * np.eye(len(nodes)) - strength  # as a precision matrix of unit diagonal has them
        marginal = node_strengths(variables.covariance, variables.labels, len(nodes))
        single = np.bincount(variables.labels, minlength=len(nodes)) == 1
        marginal[np.outer(single, single)] *= -1.0  # a covariance has the sign of its correlation
        np.fill_diagonal(marginal, 1.0)
        return cls(nodes, partial, marginal, None, fdr, evidence, variables, tests)

    @cached_property
    def edge_columns(self) -> dict[str, Any]:
        """The table of edges; `partial_correlation` is without a sign unless both ends are one column."""
        chosen = self.precision != 0.0
        if self.tests is not None and self.fdr is not None:
            chosen = self.tests.q_values <= self.fdr
        pairs = np.nonzero(np.triu(chosen, 1))
        partial = 0.0 - self.precision[pairs]
        numbers: dict[str, Any] = {"partial_correlation": partial}
        scores = np.abs(partial)
        if self.evidence is not None:
            scores = numbers["evidence"] = self.evidence[pairs]
        if self.tests is not None:
            numbers |= {
                "statistic": self.tests.statistic[pairs],
                "degrees_of_freedom": self.tests.degrees[pairs],
                "p_value": self.tests.p_values[pairs],
                "q_value": self.tests.q_values[pairs],
            }
            scores = scores if self.fdr is None else self.tests.scores[pairs]
        return self._ranked(pairs, numbers, scores)

    def _tests_at(self, pairs: Pairs) -> dict[str, FloatArray]:
        """Return the strengths without a graph and the p-values of these pairs, nothing without tests."""
        if self.tests is None:
            return {}
        return {"partial_correlation": self.tests.strength[pairs], "p_value": self.tests.p_values[pairs]}
