"""The fit of a sample: leave out drowned columns, scale, repair, choose alpha, solve, refit.

The one pipeline behind the command, `learn_graph` and the scikit-learn estimators.

How far an estimate can be relied on: whether it can be tested, and what is left of the penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import EstimationError, NotConvergedError
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.penalties import chance_alpha, null_standard_errors, penalty_weights
from dp_learn.covariance.pooling import effective_rows
from dp_learn.covariance.sample import Sample
from dp_learn.glasso.graph_fit import GraphFit, fit_on_graph, solve_on_graph
from dp_learn.glasso.problem import Solution, make_problem
from dp_learn.glasso.solving import graphical_lasso
from dp_learn.matrices.labels import align, column_labels
from dp_learn.matrices.linalg import FloatArray
from dp_learn.matrices.repair import repair_covariance
from dp_learn.matrices.repair_methods import RepairMethod
from dp_learn.pipeline.resamples import Resamples, select_by_rows
from dp_learn.pipeline.settings import AT_CHANCE, GAMMA, PATIENCE, REFIT_MAX_ITER, Fit, Settings
from dp_learn.pipeline.weights import Weights
from dp_learn.selection.ebic import select_ebic
from dp_learn.selection.path import SMALLEST, Selection, alpha_grid
from dp_learn.selection.rules import Rule

FEWEST_ROWS = 50  # with fewer, nothing is normal: tests at 5 % found false edges in 12 % and more


def require_testable(pooled: PooledCovariance) -> None:
    """Refuse tests of an estimate whose errors have no known law, or of too few rows.

    Raises
    ------
    EstimationError
        There are no error bars; the sentence says why.
    """
    if not pooled.has_error_law:
        raise EstimationError(
            "the distribution of a release's errors is not known, so there are no intervals and no tests"
        )
    fewest = min(source.n_rows for source in pooled.sources)
    if fewest < FEWEST_ROWS:
        raise EstimationError(f"error bars and tests need at least {FEWEST_ROWS} rows, and there are {fewest}")


def describe_share(share: float, settings: Settings) -> list[str]:
    """Return a note on weights that had to keep some of the penalty although a refit was asked for."""
    if not settings.refit or share == 0.0:
        return []
    if share < 1.0:
        return [
            "the debiased covariance is so indefinite that the graph has no unpenalised fit: its weights keep "
            f"{share:.0%} of the penalty and are shrunk by it"
        ]
    return ["the graph could not be fitted without the penalty: its weights are the penalised estimate's, and shrunk"]


def fit_graph(sample: Sample, settings: Settings) -> Fit:
    """Estimate the sparse precision matrix of the rows before the noise.

    Raises
    ------
    DrownedColumnError
        Fewer than two columns have variance left.
    NoSolutionError
        The problem is unbounded at the given alpha.
    EstimationError
        The rule found no alpha to choose.
    NotConvergedError
        The solver stopped before its tolerance.
    """
    if sample.levels is not None and sample.levels.blocks:
        from dp_learn.pipeline.nodes import fit_nodes

        return fit_nodes(sample, sample.levels, settings)
    kept, drowned = clear_columns(sample.pooled)
    pooled = keep_columns(sample.pooled, kept)
    units = _units(pooled, settings)

    debiased = pooled.covariance / units
    repair = repair_covariance(debiased, settings.repair)
    debiased = repair.covariance if repair.method == RepairMethod.NONE else debiased  # one copy of the same numbers
    weights = _weights(pooled, settings, units, sample.pooled.columns, kept)

    alpha, selection = settings.alpha, None
    if alpha is None:
        resamples = Resamples(sample, pooled, kept, lambda covariance: covariance / units, settings.repair)
        selection = _select(pooled, repair.covariance, resamples, weights, units, settings)
        alpha = selection.alpha

    solution = graphical_lasso(
        repair.covariance,
        alpha,
        solver=settings.solver,
        weights=weights,
        penalize_diagonal=settings.penalize_diagonal,
        tol=settings.tol,
        max_iter=settings.max_iter,
    )
    if not solution.converged:
        raise NotConvergedError(
            f"the {solution.solver} solver stopped at a duality gap of {solution.duality_gap:.3g}: "
            f"{solution.status.message}",
            solution,
        )

    reported = _refit(repair.covariance, solution, weights, settings)
    precision = reported.precision / units
    return Fit(pooled, kept, drowned, precision, reported.share, solution, selection, repair, debiased, weights)


def fit_edges(fit: Fit, edges: npt.NDArray[np.bool_], settings: Settings) -> FloatArray | None:
    """Return the unpenalised precision matrix on other edges than the fit's, in data units; None if there is none."""
    if fit.nodes is not None:
        from dp_learn.pipeline.nodes import fit_node_edges

        return fit_node_edges(fit, edges, settings)
    fitted = solve_on_graph(
        fit.repair.covariance, edges, solver=settings.solver, tol=settings.tol, max_iter=REFIT_MAX_ITER
    )
    return fitted.precision / _units(fit.pooled, settings) if fitted is not None and fitted.converged else None


class _ProblemOptions(TypedDict):
    """The settings that every rule solves its problems with."""

    solver: str
    weights: FloatArray | None
    penalize_diagonal: bool


def _select(
    pooled: PooledCovariance,
    matrix: FloatArray,
    resamples: Resamples,
    weights: FloatArray | None,
    units: FloatArray,
    settings: Settings,
) -> Selection:
    """Choose alpha by the rule of the settings."""
    path = settings.alphas
    alphas = alpha_grid(matrix, path, weights=weights) if isinstance(path, int) else np.asarray(path, dtype=float)
    ends_at_chance = isinstance(path, int) and settings.select == Rule.EBIC
    if ends_at_chance:
        alphas = _above_chance(alphas, pooled, weights, units, settings)

    problem = _ProblemOptions(solver=settings.solver, weights=weights, penalize_diagonal=settings.penalize_diagonal)
    if settings.select == Rule.EBIC:
        return select_ebic(
            matrix,
            lambda theta: effective_rows(pooled, theta / units),
            alphas,
            gamma=GAMMA,
            patience=PATIENCE,
            why_last=AT_CHANCE if ends_at_chance else SMALLEST,
            **problem,
        )

    return select_by_rows(resamples, alphas, settings, **problem)


def _above_chance(
    alphas: FloatArray, pooled: PooledCovariance, weights: FloatArray | None, units: FloatArray, settings: Settings
) -> FloatArray:
    """Return the path down to the alpha at which chance alone would make edges, or its first alpha alone."""
    errors = null_standard_errors(pooled)
    smallest = chance_alpha(errors if settings.scale == "correlation" else errors * units, weights)
    above = alphas[alphas > smallest]
    return np.append(above, smallest) if above.size else alphas[:1]


def _refit(matrix: FloatArray, solution: Solution, weights: FloatArray | None, settings: Settings) -> GraphFit:
    """Return the fit on the graph of the penalised estimate, or that estimate where none is wanted or certified."""
    penalised = GraphFit(solution.precision, 1.0)
    if not settings.refit:
        return penalised

    if weights is None and settings.penalize_diagonal:
        penalty = np.broadcast_to(np.float64(solution.alpha), matrix.shape)
    else:
        penalty = make_problem(
            matrix, solution.alpha, weights=weights, penalize_diagonal=settings.penalize_diagonal
        ).penalty

    edges = solution.precision != 0.0
    fitted = fit_on_graph(
        matrix, edges, penalty, solver=settings.solver, tol=settings.tol, max_iter=REFIT_MAX_ITER, start=solution
    )
    return fitted or penalised


def _units(pooled: PooledCovariance, settings: Settings) -> FloatArray:
    """Return the divisors that bring a precision matrix from the scale of the settings to data units."""
    unit = pooled.deviations if settings.scale == "correlation" else np.ones(len(pooled.columns))
    return np.outer(unit, unit)


def _weights(
    pooled: PooledCovariance,
    settings: Settings,
    units: FloatArray,
    columns: Sequence[str],
    kept: npt.NDArray[np.int64],
) -> FloatArray | None:
    """Return the weights of the columns that are kept; labelled ones are of all columns."""
    chosen = settings.weights_for(blocks=False)
    if not isinstance(chosen, str):
        given = np.asarray(align("weights", chosen, columns), dtype=float)
        return given if column_labels(chosen) is None else given[np.ix_(kept, kept)]
    if chosen == Weights.EQUAL:
        return None
    weights = penalty_weights(pooled)
    return weights if settings.scale == "correlation" else weights * units
