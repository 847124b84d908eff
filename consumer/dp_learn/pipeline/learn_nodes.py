"""The rest of `learn` where nodes are categories: the ranking, tests, edges at a rate, effects of levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dp_bundle.base.errors import EstimationError
from dp_learn.covariance.sample import Sample
from dp_learn.glasso.group_solving import smallest_group_alpha
from dp_learn.glasso.groups import make_groups
from dp_learn.inference.nodes import NodeInference
from dp_learn.matrices.linalg import smallest_eigenvalue
from dp_learn.pipeline.fit import describe_share
from dp_learn.pipeline.graph import Variables
from dp_learn.pipeline.loadings import tabulate_loadings
from dp_learn.pipeline.node_graph import NodeGraph
from dp_learn.pipeline.node_layout import Nodes
from dp_learn.pipeline.node_ranking import score_nodes
from dp_learn.pipeline.node_tests import describe_merged, infer_node_pairs
from dp_learn.pipeline.nodes import fit_node_edges
from dp_learn.pipeline.settings import Fit, Settings

_FAR_BELOW = 1e-4  # an alpha that solves an indefinite matrix


@dataclass(frozen=True, eq=False)
class NodesLearned:
    """A graph between nodes.

    Attributes
    ----------
    graph : NodeGraph
    share : float
        The share of the penalty that its strengths keep.
    smallest_alpha : float
        The smallest alpha that has a solution; 0 where every alpha has one.
    notes : list of str
        Sentences that a reader should know.
    """

    graph: NodeGraph
    share: float
    smallest_alpha: float
    notes: list[str]


def learn_nodes(
    sample: Sample, fit: Fit, nodes: Nodes, settings: Settings, fdr: float | None, *, error_bars: bool
) -> NodesLearned:
    """Return the graph of a fit of nodes, with the evidence for all pairs, and tests if they could be had.

    Raises
    ------
    EstimationError
        Edges are wanted at a false discovery rate, and there are no tests.
    """
    notes: list[str] = []
    evidence = score_nodes(fit, nodes) if fit.pooled.has_errors else None
    tests: NodeInference | None = None
    if error_bars or fdr is not None:
        try:
            tests, doubts = infer_node_pairs(sample, fit, nodes)
            notes += doubts
        except EstimationError as error:
            if fdr is not None:
                raise
            notes.append(f"there are no tests: {error}")

    precision, share, linked = fit.precision, fit.share, nodes.linked(fit.precision)
    if fdr is not None and tests is not None:
        linked = (tests.q_values <= fdr) | np.eye(len(nodes.names), dtype=bool)
        found = fit_node_edges(fit, linked, settings)
        if found is None:
            notes.append(
                "the edges found have no unpenalised fit: where the sparse estimate has none of them, their "
                "strengths are desparsified estimates"
            )
        precision, share = (fit.precision, fit.share) if found is None else (found, 0.0)
    notes += [*describe_share(share, settings), *describe_merged(nodes)]

    loadings = tabulate_loadings(nodes, linked, precision, fit.pooled.covariance, sample.location)
    variables = Variables(fit.pooled.columns, nodes.labels, precision, fit.pooled.covariance, loadings)
    graph = NodeGraph.make(nodes.names, variables, evidence, tests, fdr)
    return NodesLearned(graph, share, _smallest_alpha(fit, nodes, settings), notes)


def _smallest_alpha(fit: Fit, nodes: Nodes, settings: Settings) -> float:
    if smallest_eigenvalue(fit.debiased) > 0.0:
        return 0.0
    return smallest_group_alpha(
        fit.debiased,
        fit.solution.alpha * _FAR_BELOW,
        make_groups(nodes.labels, len(nodes.labels)),
        weights=fit.weights,
        penalize_diagonal=settings.penalize_diagonal,
    )
