"""Tests between nodes, from a graph of their own, and what a reader should know of the levels."""

from __future__ import annotations

import contextlib

import numpy as np

from dp_bundle.base.errors import EstimationError, NoSolutionError
from dp_bundle.base.quoting import listed, quote_name
from dp_learn.covariance.sample import Sample
from dp_learn.glasso.graph_fit import solve_on_graph
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.inference.nodes import NodeInference, infer_nodes
from dp_learn.matrices.linalg import FloatArray, is_positive_definite
from dp_learn.pipeline.fit import require_testable
from dp_learn.pipeline.node_layout import Nodes
from dp_learn.pipeline.node_penalties import block_errors, chance_alpha_of_nodes
from dp_learn.pipeline.settings import REFIT_MAX_ITER, Fit

_SHARES = (0.01, 0.02, 0.04, 0.08, 0.16)  # of the penalty; with more, tests at 5 % found false edges in 8 %
_TOO_LITTLE = "too little information is left for tests: the debiased matrix is too indefinite"


def infer_node_pairs(sample: Sample, fit: Fit, nodes: Nodes) -> tuple[NodeInference, list[str]]:
    """Test all pairs of nodes, with errors from the rows themselves where there are any; also what the tests rest on.

    Raises
    ------
    EstimationError
        There are no tests; the sentence says why.
    """
    require_testable(fit.pooled)
    start, share = _start(fit, nodes)
    tests = infer_nodes(
        fit.pooled,
        nodes.root @ start @ nodes.root,
        nodes.labels,
        nodes.names,
        lambda b: sample.row_errors(fit.pooled, fit.kept, b, at_least=False),
    )
    if not share:
        return tests, []
    return tests, [
        "the debiased covariance is so indefinite that it has no unpenalised fit: tests rest on one with "
        f"{share:.0%} of the usual penalty, and p-values are approximate"
    ]


def _start(fit: Fit, nodes: Nodes) -> tuple[FloatArray, float]:
    """Return the whitened precision matrix that tests start from, and the share of the penalty that it keeps.

    It is the fit on a graph without its penalty, or with the smallest share of it that has a fit. An inverse would have
    the noise of all pairs in every residual, which makes tests of rare levels too timid.

    Raises
    ------
    EstimationError
        There is none.
    """
    matrix = fit.debiased
    alpha = chance_alpha_of_nodes(block_errors(fit.pooled, nodes), nodes.sizes, None)
    try:
        chosen = graphical_lasso(matrix, alpha, groups=nodes.labels)
    except NoSolutionError as error:
        raise EstimationError(_TOO_LITTLE) from error
    linked = nodes.linked(chosen.precision)
    fitted = solve_on_graph(matrix, nodes.spread(linked), max_iter=REFIT_MAX_ITER, n_nodes=len(nodes.names))
    if fitted is not None and fitted.converged:
        return fitted.precision, 0.0
    if is_positive_definite(matrix):
        return np.asarray(np.linalg.inv(matrix), dtype=np.float64), 0.0

    weights = np.where(linked, np.sqrt(np.outer(nodes.sizes, nodes.sizes)), np.inf)
    np.fill_diagonal(weights, 1.0)
    for share in _SHARES:
        with contextlib.suppress(NoSolutionError):
            fitted = graphical_lasso(
                matrix, share * alpha, weights=weights, groups=nodes.labels, max_iter=REFIT_MAX_ITER
            )
            if fitted.converged:
                return fitted.precision, share
    raise EstimationError(_TOO_LITTLE)


def describe_merged(nodes: Nodes) -> list[str]:
    """Return sentences on levels that count with another one, and on gaps that no estimate knows of."""
    sources = {source.name: source for source in nodes.levels.sources}
    named = []
    for name, columns in nodes.columns.merged.items():
        levels = dict(zip(sources[name].columns, sources[name].levels, strict=True))
        named.append(f"{quote_name(name)}: {listed([levels[column] for column in columns])}")
    rare = "levels too rare to be told from the noise count with the most frequent level of their category: "
    said = [rare + "; ".join(named)] if named else []
    if unseen := nodes.columns.unseen:
        said.append(f"gaps too few to be told from the noise count as the middle of the bounds: {listed(list(unseen))}")
    if alike := nodes.columns.alike:
        said.append(
            f"gaps come together in {listed(list(alike))}, so that their edges cannot be told apart: ask the publisher "
            'to leave such rows out, or to put them at the means (missing = "drop" or "center")'
        )
    return said
