"""The fit where nodes are categories: whitened within nodes, penalised by the norms of blocks, and refitted.

In units in which every node's own block of the covariance is the identity nothing depends on which level of a category
is the reference. Everything else is as in `fit`: alpha by EBIC, whose price is for every entry of a block, on a path
that ends where chance alone would make edges, or by another rule, which compares blocks; the penalised estimate; and a
fit on its graph without the penalty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import NotConvergedError, ParameterError
from dp_learn.covariance.estimate import keep_columns
from dp_learn.covariance.levels import Levels
from dp_learn.covariance.node_columns import choose_node_columns
from dp_learn.covariance.pooling import effective_rows
from dp_learn.covariance.sample import Sample
from dp_learn.glasso.graph_fit import solve_on_graph
from dp_learn.glasso.problem import Solution
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.glasso.whitening import whiten_nodes
from dp_learn.matrices.linalg import FloatArray
from dp_learn.matrices.repair import repair_covariance
from dp_learn.pipeline.node_layout import Nodes
from dp_learn.pipeline.node_penalties import block_errors, block_weights, chance_alpha_of_nodes
from dp_learn.pipeline.resamples import Resamples, select_by_rows
from dp_learn.pipeline.settings import AT_CHANCE, GAMMA, PATIENCE, REFIT_MAX_ITER, Fit, Settings
from dp_learn.pipeline.weights import Weights
from dp_learn.selection.ebic import select_ebic
from dp_learn.selection.path import SMALLEST, Selection, alpha_grid
from dp_learn.selection.rules import Rule


def fit_nodes(sample: Sample, levels: Levels, settings: Settings) -> Fit:
    """Estimate the sparse precision matrix between nodes; see `fit_graph`.

    Raises
    ------
    ParameterError
        A setting does not go with categories.
    DrownedColumnError
        Fewer than two nodes have variance left.
    NoSolutionError, EstimationError, NotConvergedError
        As `fit_graph`.
    """
    _check(settings)
    columns = choose_node_columns(sample.pooled, sample.location, levels)
    pooled = keep_columns(sample.pooled, columns.kept)
    own = [levels.nodes[place] for place in columns.kept]
    names = tuple(dict.fromkeys(own))
    labels = np.array([names.index(name) for name in own], dtype=np.intp)
    whitened, root = whiten_nodes(pooled.covariance, labels)
    nodes = Nodes(names, labels, root, columns, levels)

    repair = repair_covariance(whitened, settings.repair)
    errors = block_errors(pooled, nodes)
    weights = block_weights(errors, nodes.sizes) if settings.weights_for(blocks=True) == Weights.NOISE else None
    alpha, selection = settings.alpha, None
    if alpha is None:
        resamples = Resamples(
            sample, pooled, columns.kept, lambda covariance: root @ covariance @ root, settings.repair
        )
        selection = _select(resamples, repair.covariance, nodes, errors, weights, settings)
        alpha = selection.alpha

    solution = graphical_lasso(
        repair.covariance,
        alpha,
        weights=weights,
        penalize_diagonal=settings.penalize_diagonal,
        tol=settings.tol,
        max_iter=settings.max_iter,
        groups=labels,
    )
    if not solution.converged:
        raise NotConvergedError(
            f"the {solution.solver} solver stopped at a duality gap of {solution.duality_gap:.3g}: "
            f"{solution.status.message}",
            solution,
        )

    reported, share = solution.precision, 1.0
    if settings.refit and (refitted := _refit(repair.covariance, solution, nodes, settings)) is not None:
        reported, share = refitted, 0.0
    precision = root @ reported @ root
    precision = np.where(nodes.spread(nodes.linked(reported)), precision, 0.0)
    return Fit(
        pooled, columns.kept, columns.drowned, precision, share, solution, selection, repair, whitened, weights, nodes
    )


def fit_node_edges(fit: Fit, edges: npt.NDArray[np.bool_], settings: Settings) -> FloatArray | None:
    """Return the unpenalised precision matrix on these pairs of nodes, in data units; None if there is none."""
    assert fit.nodes is not None  # noqa: S101  it is a fit of nodes
    mask = fit.nodes.spread(edges | np.eye(len(edges), dtype=bool))
    n_nodes = len(fit.nodes.names)
    fitted = solve_on_graph(fit.repair.covariance, mask, tol=settings.tol, max_iter=REFIT_MAX_ITER, n_nodes=n_nodes)
    if fitted is None or not fitted.converged:
        return None
    return np.where(mask, fit.nodes.root @ fitted.precision @ fit.nodes.root, 0.0)


def _check(settings: Settings) -> None:
    """Refuse settings that mean nothing for nodes of several columns."""
    if settings.scale != "correlation":
        raise ParameterError("scale", '"correlation" for a table with categories', settings.scale)
    if settings.solver != "auto":
        allowed = '"auto" for a table with categories, for which there is one method'
        raise ParameterError("solver", allowed, settings.solver)
    if not isinstance(settings.weights, str):
        raise ParameterError("weights", '"auto", "equal" or "noise" for a table with categories', "a matrix")


def _select(
    resamples: Resamples,
    matrix: FloatArray,
    nodes: Nodes,
    errors: FloatArray,
    weights: FloatArray | None,
    settings: Settings,
) -> Selection:
    """Choose alpha by the rule of the settings; EBIC's path ends where chance alone would make edges."""
    path, by_ebic = settings.alphas, settings.select == Rule.EBIC
    alphas = (
        alpha_grid(matrix, path, weights=weights, groups=nodes.labels)
        if isinstance(path, int)
        else np.asarray(path, dtype=float)
    )
    problem: dict[str, Any] = {
        "weights": weights,
        "penalize_diagonal": settings.penalize_diagonal,
        "groups": nodes.labels,
    }
    if not by_ebic:
        return select_by_rows(resamples, alphas, settings, **problem)

    why_last = SMALLEST
    if isinstance(path, int):
        smallest, why_last = chance_alpha_of_nodes(errors, nodes.sizes, weights), AT_CHANCE
        above = alphas[alphas > smallest]
        alphas = np.append(above, smallest) if above.size else alphas[:1]
    return select_ebic(
        matrix,
        lambda theta: effective_rows(resamples.pooled, nodes.root @ theta @ nodes.root),
        alphas,
        gamma=GAMMA,
        patience=PATIENCE,
        why_last=why_last,
        solver=settings.solver,
        **problem,
    )


def _refit(matrix: FloatArray, solution: Solution, nodes: Nodes, settings: Settings) -> FloatArray | None:
    """Return the fit on the graph of the penalised estimate without the penalty; None if there is none."""
    mask = nodes.spread(nodes.linked(solution.precision))
    fitted = solve_on_graph(matrix, mask, tol=settings.tol, max_iter=REFIT_MAX_ITER, n_nodes=len(nodes.names))
    return fitted.precision if fitted is not None and fitted.converged else None
