"""The fit of a sample: leave out drowned columns, scale, repair, choose alpha, solve, refit.

The one pipeline behind the command, `learn_graph` and the scikit-learn estimators. Where nodes are categories, it is
whitened within nodes and penalised by the norms of blocks; nothing then depends on which level of a category is the
reference.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import NotConvergedError, ParameterError
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.levels import choose_node_columns
from dp_learn.covariance.sample import Sample, Split, effective_rows
from dp_learn.covariance.standard_errors import chance_alpha, null_standard_errors
from dp_learn.glasso.graph_fit import GraphFit, fit_on_graph, solve_on_graph
from dp_learn.glasso.groups import IndexArray
from dp_learn.glasso.problem import Solution, make_problem
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.glasso.whitening import whiten_nodes
from dp_learn.matrices.labels import align_numbers, column_labels
from dp_learn.matrices.linalg import FloatArray, median_above_diagonal
from dp_learn.matrices.repair import repair_covariance
from dp_learn.matrices.repair_methods import RepairMethod
from dp_learn.pipeline.nodes import block_errors, block_weights, chance_alpha_of_nodes
from dp_learn.pipeline.settings import REFIT_MAX_ITER, Fit, Nodes, Settings
from dp_learn.pipeline.stages import (
    PATIENCE,
    end_path,
    estimate_first_stage,
    evidence_weights,
    select_one_stage,
    select_second_stage,
)
from dp_learn.selection.cross_validation import cross_validate, select_stars, stars_subsample_share
from dp_learn.selection.ebic import select_ebic
from dp_learn.selection.path import SMALLEST, PathOptions, Selection, alpha_grid
from dp_learn.selection.rules import Rule, Weights

GAMMA = 0.25  # less than usual, as edges of mere chance are kept out by where the path ends
AT_CHANCE = "the smallest alpha of the path was chosen: at a smaller one, chance alone would make edges"
N_SUBSAMPLES = 20  # Liu, Roeder & Wasserman (2010), section 4


def fit_graph(sample: Sample, settings: Settings) -> Fit:
    """Estimate the sparse precision matrix of the rows before the noise.

    Raises
    ------
    ParameterError
        A setting does not go with categories.
    DrownedColumnError
        Fewer than two nodes have variance left.
    NoSolutionError
        The problem is unbounded at the given alpha.
    EstimationError
        The rule found no alpha to choose.
    NotConvergedError
        The solver stopped before its tolerance.
    """
    nodes, pooled, debiased = _lay_out(sample, settings)
    return fit_nodes(sample, nodes, pooled, debiased, settings)


def fit_again(sample: Sample, nodes: Nodes, settings: Settings) -> Fit:
    """Return `fit_graph` of a sample of the kept columns alone, whatever their variances, so that its nodes are these.

    Raises
    ------
    ParameterError
        A variance is not positive.
    """
    nodes = replace(nodes, columns=replace(nodes.columns, kept=np.arange(len(nodes.labels))))
    debiased, units = _rescale(sample.pooled, nodes.labels, settings.scale if nodes.are_numbers else None)
    return fit_nodes(sample, replace(nodes, units=units), sample.pooled, debiased, settings)


def fit_nodes(sample: Sample, nodes: Nodes, pooled: PooledCovariance, debiased: FloatArray, settings: Settings) -> Fit:
    """Return the fit of nodes that are laid out: see `fit_graph`."""
    repair = repair_covariance(debiased, settings.repair)
    debiased = repair.covariance if repair.method == RepairMethod.NONE else debiased  # one copy of the same numbers
    first = estimate_first_stage(pooled, nodes, debiased) if settings.in_stages else None
    if first is None:
        weighting, weights = _weights(sample, pooled, nodes, settings)
    else:
        weighting, weights = "evidence", evidence_weights(first.evidence, nodes.sizes)
    problem = PathOptions(
        solver=settings.solver, weights=weights, penalize_diagonal=settings.penalize_diagonal, groups=nodes.labels
    )

    alpha, selection = settings.alpha, None
    if alpha is None:
        if first is None:
            selection = _select(sample, pooled, nodes, repair.covariance, weights, problem, settings)
        else:
            alphas = _alphas(settings, repair.covariance, weights, nodes)
            selection = select_second_stage(repair.covariance, pooled, alphas, problem)
        alpha = selection.alpha

    solution = graphical_lasso(repair.covariance, alpha, tol=settings.tol, max_iter=settings.max_iter, **problem)
    if not solution.converged:
        raise NotConvergedError(
            f"the {solution.solver} solver stopped at a duality gap of {solution.duality_gap:.3g}: "
            f"{solution.status.message}",
            solution,
        )

    refitted = _refit(repair.covariance, solution, nodes, weights, settings) if settings.refit else None
    reported = refitted or GraphFit(solution.precision, 1.0)
    precision, start = nodes.in_data_units(reported.precision), None if first is None else first.start
    return Fit(
        pooled, nodes, precision, reported.share, solution, selection, repair, debiased, weights, weighting, start
    )


def fit_edges(fit: Fit, edges: npt.NDArray[np.bool_], settings: Settings) -> FloatArray | None:
    """Return the unpenalised precision matrix on other edges between nodes, in data units; None if there is none."""
    linked = fit.nodes.spread(edges | np.eye(len(edges), dtype=bool))
    matrix, solver, tol = fit.repair.covariance, settings.solver, settings.tol
    fitted = solve_on_graph(matrix, linked, solver=solver, tol=tol, max_iter=REFIT_MAX_ITER, n_nodes=len(edges))
    return fit.nodes.in_data_units(fitted.precision) if fitted is not None and fitted.converged else None


def _lay_out(sample: Sample, settings: Settings) -> tuple[Nodes, PooledCovariance, FloatArray]:
    """Return the nodes, the covariance of their columns in data units, and the same on the scale of the penalty."""
    levels = sample.levels
    if levels.blocks:
        _require_settings_of_nodes(settings)
    columns = choose_node_columns(sample.pooled, sample.location, levels)
    pooled = keep_columns(sample.pooled, columns.kept)
    names, labels = pooled.columns, np.arange(len(pooled.columns))
    if levels.blocks:
        names = tuple(dict.fromkeys(levels.nodes[place] for place in columns.kept))
        labels = np.array([names.index(levels.nodes[place]) for place in columns.kept], dtype=np.intp)
    debiased, units = _rescale(pooled, labels, None if levels.blocks else settings.scale)
    return Nodes(names, labels, units, columns, levels), pooled, debiased


def _rescale(pooled: PooledCovariance, labels: IndexArray, scale: str | None) -> tuple[FloatArray, FloatArray]:
    """Return the covariance on the scale of the penalty, and the units that lead to it; None is of nodes of blocks."""
    if scale is None:
        return whiten_nodes(pooled.covariance, labels)
    unit = pooled.deviations if scale == "correlation" else np.ones(len(labels))
    units = np.outer(unit, unit)
    return pooled.covariance / units, units


def _require_settings_of_nodes(settings: Settings) -> None:
    """Refuse settings that mean nothing for nodes of several columns."""
    if settings.scale != "correlation":
        raise ParameterError("scale", '"correlation" for a table with categories', settings.scale)
    if settings.solver != "auto":
        allowed = '"auto" for a table with categories, for which there is one method'
        raise ParameterError("solver", allowed, settings.solver)
    if not isinstance(settings.weights, str):
        raise ParameterError("weights", '"auto", "equal" or "noise" for a table with categories', "a matrix")


def _weights(
    sample: Sample, pooled: PooledCovariance, nodes: Nodes, settings: Settings
) -> tuple[str, FloatArray | None]:
    """Return what the weights of the nodes are, and these; those given with labels are of all columns."""
    chosen = settings.weights_for(blocks=not nodes.are_numbers)
    if not isinstance(chosen, str):
        given = align_numbers("weights", chosen, sample.pooled.columns)
        if column_labels(chosen) is not None:
            given = given[np.ix_(nodes.columns.kept, nodes.columns.kept)]
        return "a matrix", given

    if chosen == Weights.EQUAL:
        return chosen, None
    if nodes.are_numbers:
        errors = _null_errors(pooled, nodes)
        return chosen, errors / median_above_diagonal(errors)
    return chosen, block_weights(block_errors(pooled, nodes), nodes.sizes)


def _null_errors(pooled: PooledCovariance, nodes: Nodes) -> FloatArray:
    """Return the errors of the entries between unrelated numbers, on the scale of the penalty."""
    return null_standard_errors(pooled) * nodes.rescale(np.outer(pooled.deviations, pooled.deviations))


def _select(
    sample: Sample,
    pooled: PooledCovariance,
    nodes: Nodes,
    matrix: FloatArray,
    weights: FloatArray | None,
    problem: PathOptions,
    settings: Settings,
) -> Selection:
    """Choose alpha by the rule of the settings; the path of EBIC ends where chance would make edges."""
    path, kept = settings.alphas, np.ix_(nodes.columns.kept, nodes.columns.kept)
    alphas = _alphas(settings, matrix, weights, nodes)

    def repaired(covariance: FloatArray) -> FloatArray:
        return repair_covariance(nodes.rescale(covariance[kept]), settings.repair).covariance

    if settings.select == Rule.STARS:
        share = stars_subsample_share(effective_rows(pooled))
        matrices = [repaired(drawn) for drawn in sample.subsamples(N_SUBSAMPLES, share)]
        return _say_if_drawn(sample, select_stars(matrices, alphas, **problem))
    if settings.select in {Rule.CV, Rule.MSE}:  # scores are unbiased, as what is held out is not repaired
        splits = [Split(repaired(split.train), nodes.rescale(split.test[kept])) for split in sample.splits()]
        score = "mse" if settings.select == Rule.MSE else "likelihood"
        return _say_if_drawn(sample, cross_validate(splits, alphas, score=score, **problem))
    if settings.in_stages:
        return select_one_stage(matrix, pooled, nodes, alphas, weights, problem)

    if isinstance(path, int):
        smallest = (
            chance_alpha(_null_errors(pooled, nodes), weights)
            if nodes.are_numbers
            else chance_alpha_of_nodes(block_errors(pooled, nodes), nodes.sizes, weights)
        )
        alphas = end_path(alphas, smallest)
    return select_ebic(
        matrix,
        lambda theta: effective_rows(pooled, nodes.rescale(theta)),
        alphas,
        gamma=GAMMA,
        patience=PATIENCE,
        why_last=AT_CHANCE if isinstance(path, int) else SMALLEST,
        **problem,
    )


def _say_if_drawn(sample: Sample, selection: Selection) -> Selection:
    """Return a selection that says where its parts of the rows are none, but draws."""
    if sample.has_rows:
        return selection
    return replace(selection, rule=f"{selection.rule}, on parts drawn from the law of the errors")


def _alphas(settings: Settings, matrix: FloatArray, weights: FloatArray | None, nodes: Nodes) -> FloatArray:
    """Return the path of the settings."""
    if isinstance(settings.alphas, int):
        return alpha_grid(matrix, settings.alphas, weights=weights, groups=nodes.labels)
    return np.asarray(settings.alphas, dtype=float)


def _refit(
    matrix: FloatArray, solution: Solution, nodes: Nodes, weights: FloatArray | None, settings: Settings
) -> GraphFit | None:
    """Return the fit on the graph of the penalised estimate; None where none is certified."""
    edges = nodes.spread(nodes.linked(solution.precision))
    if not nodes.are_numbers:
        n_nodes = len(nodes.names)
        fitted = solve_on_graph(matrix, edges, tol=settings.tol, max_iter=REFIT_MAX_ITER, n_nodes=n_nodes)
        return GraphFit(fitted.precision, 0.0) if fitted is not None and fitted.converged else None

    problem = make_problem(matrix, solution.alpha, weights=weights, penalize_diagonal=settings.penalize_diagonal)
    return fit_on_graph(
        matrix,
        edges,
        problem.penalty,
        solver=settings.solver,
        tol=settings.tol,
        max_iter=REFIT_MAX_ITER,
        start=solution,
    )
