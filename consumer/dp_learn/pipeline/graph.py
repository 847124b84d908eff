"""The estimate as a graph with names and units."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_bundle.base.quoting import Brief
from dp_learn.inference.edges import EdgeInference, Pairs, shrink_weights
from dp_learn.inference.nodes import NodeInference, node_strengths
from dp_learn.matrices.linalg import FloatArray, Mask, Places

if TYPE_CHECKING:  # slow to import, and the command has no use for it
    import pandas as pd

VALUE = "(value)"  # the level, in a table of effects, of a number whose gaps are published, where it has one
MOST_RANKED = 10_000  # of all pairs; those of 141 columns
AT_LEAST = 0.1  # the strength from which links count as strong, unless a reader says otherwise
_LABEL = re.compile(r"[\x00-\x1f\x7f]")  # what XML and pictures cannot show


@dataclass(frozen=True, eq=False)
class Variables:
    """The columns that the nodes are estimated from, n_variables of them.

    Attributes
    ----------
    names : tuple of str
        As they are published.
    labels : ndarray of int, shape (n_variables,)
        The node of each.
    precision, covariance : ndarray of shape (n_variables, n_variables)
        In data units.
    loadings : dict of str to list, or to ndarray
        The table of how levels and other nodes go together; see `tabulate_loadings`.
    """

    names: tuple[str, ...]
    labels: Places
    precision: FloatArray
    covariance: FloatArray
    loadings: dict[str, Any]

    @cached_property
    def order(self) -> Places:
        """The rows of `loadings`, the surest first, or the strongest where their errors are not known."""
        table = self.loadings
        size = np.abs(table.get("unpenalised", table["effect"])) / table.get("standard_error", 1.0)
        order: Places = np.argsort(-size, kind="stable")
        return order


@dataclass(frozen=True, eq=False)
class GraphEstimate(Brief):
    """A precision matrix with labels, the covariance it came from, and the uncertainty of its edges.

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
        The evidence for an edge between each pair, where it is known; see `score_pairs` and `score_nodes`.
    variables : Variables or None
        What the nodes were estimated from, where some of them have several columns. The matrices then hold strengths,
        as partial correlations, and correlations; see `graph_of_nodes`.
    tests : NodeInference or None
        Tests of every pair of such nodes.
    shrinks : bool
        Whether the weights of edges may differ from the precision matrix; see `shrink_weights`.
    """

    columns: tuple[str, ...]
    precision: FloatArray
    covariance: FloatArray
    inference: EdgeInference | None = None
    fdr: float | None = None
    evidence: FloatArray | None = None
    variables: Variables | None = None
    tests: NodeInference | None = None
    shrinks: bool = False

    @cached_property
    def categories(self) -> frozenset[str]:
        """The nodes of several columns, whose links have a strength without a sign."""
        if self.variables is None:
            return frozenset()
        n_columns = np.bincount(self.variables.labels, minlength=len(self.columns))
        return frozenset(name for name, number in zip(self.columns, n_columns, strict=True) if number > 1)

    def edges(self) -> pd.DataFrame:
        """Return the edges as a table: those of the precision matrix, or those found at the false discovery rate.

        Returns
        -------
        DataFrame
            The columns of `edge_columns`. Surest first: by the tests at a rate, else by the evidence; strongest first
            where neither is known.
        """
        import pandas as pd

        return pd.DataFrame(self.edge_columns)

    @cached_property
    def edge_columns(self) -> dict[str, Any]:
        """The table of edges as a list of names or an array of numbers for each of its columns.

        Between nodes of several columns the partial correlation has no sign.

        The columns:

        source, target : names
            two columns of the table; an edge has no direction
        partial_correlation : -1 to 1
            the weight, as `edge_weights` in `summary.json` says
        precision : inverse data units
            the entry of `precision.csv`
        evidence : standard errors
            an estimate over its standard error, for ranking; not a test
        desparsified : about -1 to 1
            the estimate of intervals and tests, which does not assume that the graph is right
        standard_error
            of `desparsified`, if there were no edge
        ci_low, ci_high : -1 to 1
            the 95 % interval of the partial correlation, for this pair alone
        p_value : 0 to 1
            of no edge, for this pair alone; at least 2.2e-308
        q_value : 0 to 1
            the least false discovery rate at which the pair would be found among all (Benjamini and Hochberg)
        """
        judge, pairs = self._judge, self._edges
        partial = self._weights
        numbers: dict[str, Any] = {"partial_correlation": partial}
        if self.variables is None:
            numbers["precision"] = self.precision[pairs]
        numbers |= self._judged(pairs)
        scores = numbers.get("evidence", np.abs(partial))
        return self._ranked(pairs, numbers, scores if judge is None else judge.scores[pairs])

    def strong_first(self, at_least: float = AT_LEAST) -> tuple[dict[str, Any], int]:
        """Return the table of edges with the strong ones before the weaker ones, and the number of strong ones.

        Parameters
        ----------
        at_least : float
            The strength that makes an edge strong; see `is_strong`. Within both parts the order stays as it is.
        """
        strong = is_strong(self.edge_columns["partial_correlation"], at_least)
        return take_rows(self.edge_columns, np.argsort(~strong, kind="stable")), int(np.count_nonzero(strong))

    @cached_property
    def shrunk_weights(self) -> FloatArray | None:
        """The partial correlations of edges that `shrink_weights` found; None where they are the precision matrix's."""
        if self.inference is None or not self.shrinks:
            return None
        return shrink_weights(self.inference, self._edges, self._fitted_weights)

    @property
    def _judge(self) -> EdgeInference | NodeInference | None:
        """The tests that list the edges, if tests do."""
        return None if self.fdr is None else self.tests or self.inference

    @cached_property
    def _edges(self) -> Pairs:
        """The positions of the edges' ends."""
        judge = self._judge
        chosen = self.precision != 0.0 if judge is None else judge.q_values <= (self.fdr or 0.0)
        return np.nonzero(np.triu(chosen, 1))

    @cached_property
    def weights(self) -> FloatArray:
        """The partial correlations of the edges, as `edges` has them, shape (n_features, n_features); else zero."""
        weights = np.zeros(self.precision.shape)
        weights[self._edges] = self._weights
        return weights + weights.T

    @cached_property
    def adjacency(self) -> Mask:
        """A mask of the edges, shape (n_features, n_features)."""
        listed = np.zeros(self.precision.shape, dtype=bool)
        listed[self._edges] = True
        return listed | listed.T

    @property
    def _weights(self) -> FloatArray:
        """The partial correlations of the edges, shrunk where they are."""
        return self._fitted_weights if self.shrunk_weights is None else self.shrunk_weights

    @property
    def _fitted_weights(self) -> FloatArray:
        """The partial correlations of the edges by the precision matrix."""
        return partial_correlations(self.precision)[self._edges]

    def ranking_columns(self) -> dict[str, Any]:
        """Return the pairs of columns by the evidence for an edge, edges or not, at most the 10,000 surest.

        Columns are source, target, evidence; with inference also desparsified and p_value. Empty without evidence.
        """
        if self.evidence is None:
            return {}
        places = np.flatnonzero(np.triu(np.ones(self.evidence.shape, dtype=bool), 1))
        scores = self.evidence.ravel()[places]
        if len(scores) > MOST_RANKED:
            surest = np.argpartition(-scores, MOST_RANKED)[:MOST_RANKED]
            places, scores = np.sort(places[surest]), self.evidence.ravel()[np.sort(places[surest])]
        pairs = np.divmod(places, len(self.columns))
        numbers = {"evidence": scores}
        if self.inference is not None:
            numbers["desparsified"] = self.inference.partial_correlation[pairs]
            numbers["p_value"] = self.inference.p_values_at(pairs)
        if self.tests is not None:
            numbers |= {"partial_correlation": self.tests.strength[pairs], "p_value": self.tests.p_values[pairs]}
        return self._ranked(pairs, numbers, scores)

    def pair_columns(self, pairs: Pairs) -> dict[str, Any]:
        """Return the numbers of some pairs, edges or not, given by the positions of their columns.

        `is_edge` is 1 or 0, and `partial_correlation` that of `edges`, 0 without an edge; of nodes of several columns
        `strength` assumes no graph. The others are those of `edges`.
        """
        numbers: dict[str, Any] = {"is_edge": self.adjacency[pairs].astype(np.int64)}
        numbers["partial_correlation"] = self.weights[pairs]
        judged = self._judged(pairs)
        if self.tests is None:
            return numbers | judged
        evidence = {name: judged.pop(name) for name in ("evidence",) if name in judged}
        return numbers | evidence | {"strength": self.tests.strength[pairs], **judged}

    def _judged(self, pairs: Pairs) -> dict[str, Any]:
        """Return the evidence, desparsified estimates with error bars, and tests of pairs, as far as there are any."""
        numbers: dict[str, Any] = {} if self.evidence is None else {"evidence": self.evidence[pairs]}
        if self.inference is not None:
            numbers["desparsified"] = self.inference.partial_correlation[pairs]
            numbers |= self.inference.error_bars_at(pairs)
        return numbers if self.tests is None else numbers | self.tests.at(pairs)

    def _ranked(self, pairs: Pairs, numbers: dict[str, FloatArray], scores: FloatArray) -> dict[str, Any]:
        """Return the names of the pairs and their numbers, by falling scores."""
        ends = ([self.columns[place] for place in side] for side in pairs)
        table = {**dict(zip(("source", "target"), ends, strict=True)), **numbers}
        return take_rows(table, np.argsort(-scores, kind="stable"))


def take_rows(table: dict[str, Any], rows: Places) -> dict[str, Any]:
    """Return these rows of a table that has a list or an array for each of its columns."""
    return {
        name: [values[row] for row in rows] if isinstance(values, list) else values[rows]
        for name, values in table.items()
    }


def is_strong(weights: FloatArray, at_least: float) -> Mask:
    """Return a mask of the links that a view shows first: those whose `partial_correlation` is as large, or larger.

    It is the number that tables of edges list. Of links between two columns it is the weight on the graph, shrunk for
    the noise where that is shrunk. Of links of categories, or of numbers with gaps, it is the largest of their columns,
    which has no sign. On made-up and public tables this finds those beyond 0.1 in the raw table as well as a cut at
    `desparsified`. Some graphs do not have that, and links of categories never have.

    Parameters
    ----------
    weights : ndarray
        With signs or without.
    at_least : float
        From 0, where all links are strong, to 1.
    """
    return np.abs(weights) >= at_least


def graph_of_nodes(
    nodes: tuple[str, ...],
    variables: Variables,
    evidence: FloatArray | None = None,
    tests: NodeInference | None = None,
    fdr: float | None = None,
) -> GraphEstimate:
    """Return the graph of an estimate between nodes of which some have several columns.

    Parameters
    ----------
    nodes : tuple of str
    variables : Variables
        Where there is no edge, all entries of the block of `precision` are zero.
    evidence, tests, fdr
        As of `GraphEstimate`.
    """
    strength = node_strengths(variables.precision, variables.labels, len(nodes))
    if tests is not None and fdr is not None:  # edges that have no fit of their own
        strength = np.where((tests.q_values <= fdr) & (strength == 0.0), tests.strength, strength)
    partial = 2.0 * np.eye(len(nodes)) - strength  # as a precision matrix of unit diagonal has them
    marginal = node_strengths(variables.covariance, variables.labels, len(nodes))
    single = np.bincount(variables.labels, minlength=len(nodes)) == 1
    marginal[np.outer(single, single)] *= -1.0  # a covariance has the sign of its correlation
    np.fill_diagonal(marginal, 1.0)
    return GraphEstimate(nodes, partial, marginal, None, fdr, evidence, variables, tests)


def partial_correlations(precision: FloatArray) -> FloatArray:
    """Return -Theta_ij / sqrt(Theta_ii Theta_jj), with ones on the diagonal."""
    root = np.sqrt(np.diagonal(precision))
    partial: FloatArray = 0.0 - precision / np.outer(root, root)  # 0 - x, as -x would write negative zeros into files
    np.fill_diagonal(partial, 1.0)
    return partial


def labelled_edges(estimate: GraphEstimate) -> tuple[list[str], list[str], dict[str, FloatArray]]:
    """Return the labels of the edges' ends, and the numbers of the table of edges with their weight and sign.

    The sign is 0 where there is none, as an end has several columns.
    """
    numbers = dict(estimate.edge_columns)
    ends = zip(numbers["source"], numbers["target"], strict=True)
    has_sign = np.array([estimate.categories.isdisjoint(each) for each in ends], dtype=float)
    sources, targets = labels(numbers.pop("source")), labels(numbers.pop("target"))
    strength = numbers["partial_correlation"]
    return sources, targets, {**numbers, "weight": np.abs(strength), "sign": has_sign * np.sign(strength)}


def labels(names: Sequence[str]) -> list[str]:
    """Return names without the characters that XML and pictures cannot show."""
    return [_LABEL.sub("\ufffd", name) for name in names]
