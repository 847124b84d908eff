"""Results of the estimators other than the graphical lasso, as tables, a summary and sentences.

The estimators by the names that `dp-learn --estimator` takes.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import and_more, listed, quote_name
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.consistency import find_bundle_contradictions
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.levels import choose_node_columns
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import shown_names
from dp_learn.estimators.columnwise import DebiasedCLIME, DebiasedNeighborhoodSelection, DebiasedSCIO
from dp_learn.estimators.graphical_lasso import DebiasedGraphicalLasso
from dp_learn.estimators.linear import DebiasedLDA, DebiasedRidgePrecision, DebiasedRidgeRegression
from dp_learn.estimators.thresholded_covariance import DebiasedThresholdedCovariance
from dp_learn.glasso.solving import fit_on_graph
from dp_learn.inference.edges import (
    RowErrors,
    infer_coefficients,
    infer_discriminant,
    infer_r_squared,
    score_pairs,
    tabulate_unpenalised,
)
from dp_learn.matrices.linalg import FloatArray, Places, few_threads
from dp_learn.output.folder import Columns, Summary
from dp_learn.output.messages import NOISE, PENALTY
from dp_learn.output.summary import GraphResult, count_edges, describe_origin, name_weights, noise_shares
from dp_learn.pipeline.driver import Reading
from dp_learn.pipeline.graph import AT_LEAST, GraphEstimate, take_rows
from dp_learn.pipeline.learn import infer_if_possible
from dp_learn.pipeline.settings import REFIT_MAX_ITER

REFITTED = {"neighborhood", "scio", "clime"}  # their precision matrix has a graph, and is shrunk
PREDICTING = {"regression", "lda"}  # these have a target, and need no other column to be clear
_NAMED = 8  # columns


def learn_alternative(
    bundles: Sequence[Bundle],
    name: str,
    *,
    alpha: float | None,
    target: str | None = None,
    refit: bool = True,
    at_least: float = AT_LEAST,
) -> GraphResult:
    """Estimate by another estimator than the graphical lasso, from one bundle or several pooled.

    Parameters
    ----------
    bundles : sequence of Bundle
        Verified and open, with the same columns.
    name : str
        One of `ESTIMATORS`.
    alpha : float or None
        Its penalty or threshold; its own default, from the known noise, if left out.
    target : str, optional
        The column to predict, for regression; for lda the column that holds the classes 0 and 1.
    refit : bool
        Whether a sparse precision matrix is fitted again on its graph, without the penalty; see `REFITTED`.
    at_least : float
        The strength of the edges that views show first; see `is_strong`.

    Raises
    ------
    ParameterError
        A target is missing, unknown, or of no use.
    EstimationError
        There is no estimate.

    Notes
    -----
    The entries:

    target
        the column to predict
    intercept
        of the prediction
    r_squared
        of regression: estimated R^2
    r_squared_interval
        of regression: both ends of the 95 % interval of R^2 without the penalty, noise included; empty where it is
        not known
    excess_bound
        of regression: a bound on the accuracy lost to the noise
    classes
        of lda: the two classes
    priors
        of lda: their shares of the rows
    """
    if (target is not None) != (name in PREDICTING):
        came = () if target is None else (target,)
        raise ParameterError("--target", "given with regression and lda, and with no other estimator", *came)
    scored = {column.name for column in bundles[0].release.columns if column.transform is not None}
    if name == "lda" and target in scored:
        raise ParameterError("--target", "a column of 0 and 1, and not one of normal scores", target)
    target = shown_names(bundles[0]).get(target or "", target)
    (sample,), of_gaps = Reading(name).read(bundles)
    pooled, location = sample.pooled, sample.location

    kept, notes = _usable_columns(sample, target)
    notes = [*of_gaps, *notes]
    if name in PREDICTING and any(column.transform is not None for column in bundles[0].release.columns):
        notes.append(
            "coefficients with columns of normal scores are in standard deviations of their ranks, not in their units"
        )
    pooled, location = keep_columns(pooled, kept), location[kept]
    drowned: tuple[str, ...] = ()
    options: dict[str, Any] = {"alpha": alpha}
    if target is None:
        clear, drowned = clear_columns(pooled)
        pooled, location, kept = keep_columns(pooled, clear), location[clear], kept[clear]
    elif target in pooled.columns:
        options["target"] = target
    else:
        known = and_more([*map(quote_name, pooled.columns)], _NAMED)
        raise ParameterError("--target", f"a column of the bundle ({known})", target)

    fitted = ESTIMATORS[name](**options).fit_covariance(pooled, location)
    summary = {
        **describe_origin(bundles, sample.pooled),
        "estimator": name,
        "columns": list(pooled.columns),
        "drowned_columns": list(drowned or getattr(fitted, "drowned_", ())),
        "noise_share_of_variance": noise_shares(sample.pooled),
        "alpha": getattr(fitted, "alpha_", None),
        "repair": getattr(fitted, "repair_", "none"),
        "smallest_eigenvalue": getattr(fitted, "smallest_eigenvalue_", None),
        "contradictions": find_bundle_contradictions(bundles, sample),
        "notes": notes,
    }

    if name in _TOLD:
        own, tables = _TOLD[name](fitted, sample, kept)
        return GraphResult(bundles, {**summary, **own}, tables=tables)
    precision, share = refit_estimate(fitted, pooled) if refit and name in REFITTED else (fitted.precision_, 1.0)
    with few_threads(len(kept)):  # any estimate is judged by the same tests and evidence
        inference, doubts = infer_if_possible(sample, pooled, kept)
        evidence = score_pairs(pooled) if pooled.has_errors else None
    graph = GraphEstimate(
        pooled.columns, precision, pooled.covariance, inference, evidence=evidence, shrinks=share < 1.0
    )
    summary |= {"penalty_share": share, **count_edges(graph, at_least), "notes": [*notes, *doubts]}
    summary["edge_weights"] = name_weights(graph, share)
    return GraphResult(bundles, summary, graph, why_none=NOISE if alpha is None else PENALTY)


def _usable_columns(sample: Sample, target: str | None) -> tuple[Places, list[str]]:
    """Return the columns to estimate from, and a note: of a category all levels but the most frequent one.

    What else is published for the target's own cell, as its other levels or its gaps are, predicts nothing.
    """
    levels, columns = sample.levels, sample.pooled.columns
    if not levels.blocks:
        return np.arange(len(columns)), []
    chosen = choose_node_columns(sample.pooled, sample.location, levels)
    own = [columns.index(target)] if target in columns else []
    beside = {place for place in chosen.kept.tolist() if own and levels.nodes[place] == levels.nodes[own[0]]}
    left_out = [columns[place] for place in chosen.reference.values() if place not in own]
    said = f"levels are compared with the most frequent one of their category: {listed(left_out)}"
    usable = np.array(sorted({*chosen.kept.tolist(), *own} - (beside - {*own})), dtype=np.int64)
    return usable, [said] if left_out else []


def refit_estimate(fitted: Any, pooled: PooledCovariance) -> tuple[FloatArray, float]:
    """Return the fit on the estimator's graph, and the share of its penalty that it keeps; or its own estimate."""
    units = np.outer(pooled.deviations, pooled.deviations)
    matrix, edges = fitted.covariance_ / units, fitted.precision_ != 0.0
    refitted = fit_on_graph(matrix, edges, np.full_like(matrix, fitted.alpha_), max_iter=REFIT_MAX_ITER)
    return (fitted.precision_, 1.0) if refitted is None else (refitted.precision / units, refitted.share)


_Told = tuple[Summary, dict[str, Columns]]


def _tell_thresholded(fitted: Any, sample: Sample, kept: Places) -> _Told:
    pooled, edges = keep_columns(sample.pooled, kept), fitted.edges_
    columns = {name: list(edges[name]) if name in {"source", "target"} else edges[name].to_numpy() for name in edges}
    tables = {
        "edges.csv": columns,
        "covariance.csv": _with_names(pooled.columns, pooled.columns, pooled.covariance),
        "thresholded.csv": _with_names(pooled.columns, pooled.columns, fitted.covariance_),
    }
    return {"n_edges": len(edges)}, tables


def _with_names(rows: Sequence[str], names: Sequence[str], matrix: FloatArray) -> Columns:
    """Return a matrix as a table, before it the names of its rows."""
    return dict(zip(("", *names), (list(rows), *matrix.T), strict=True))


def _tell_regression(fitted: Any, sample: Sample, kept: Places) -> _Told:
    given = _for_inference(fitted, sample, kept)
    found = infer_coefficients(*given)
    ends = [] if found is None else infer_r_squared(*given, found[0])
    bound = float(fitted.excess_bound_)
    summary = {
        "target": fitted.target,
        "intercept": float(fitted.intercept_),
        "r_squared": float(fitted.r_squared_),
        "r_squared_interval": ends,
        "excess_bound": bound if math.isfinite(bound) else None,
    }
    return summary, {"coefficients.csv": _coefficients(fitted, fitted.coef_, found)}


def _tell_discriminant(fitted: Any, sample: Sample, kept: Places) -> _Told:
    names, classes = list(fitted.feature_names_in_), [f"{each:g}" for each in fitted.classes_]
    found = infer_discriminant(*_for_inference(fitted, sample, kept))
    table = _coefficients(fitted, fitted.coef_[1] - fitted.coef_[0], found)
    means = _with_names(classes, names, fitted.means_)
    summary = {
        "target": fitted.target,
        "classes": [float(each) for each in fitted.classes_],
        "priors": fitted.priors_.tolist(),
        "intercept": float(fitted.intercept_[1] - fitted.intercept_[0]),
    }
    return summary, {"coefficients.csv": table, "means.csv": means}


def _for_inference(fitted: Any, sample: Sample, kept: Places) -> tuple[PooledCovariance, int, RowErrors]:
    """Return the covariance of the columns that are not drowned, the target's place, and what tells errors of forms."""
    own = np.array([place for place in kept if sample.pooled.columns[place] not in fitted.drowned_])
    pooled = keep_columns(sample.pooled, own)
    return pooled, pooled.columns.index(fitted.target), lambda forms: sample.row_errors(pooled, own, forms)


def _coefficients(fitted: Any, coefficients: FloatArray, found: tuple[FloatArray, FloatArray] | None) -> Columns:
    """Return the coefficients of the columns that are not drowned, the surest first.

    Where their errors are not known they have no intervals, and the largest come first.
    """
    clear = np.flatnonzero(~np.isin(fitted.feature_names_in_, fitted.drowned_))
    table: dict[str, Any] = {"column": fitted.feature_names_in_[clear].tolist(), "coefficient": coefficients[clear]}
    size = table["coefficient"] if found is None else found[0] / found[1]
    table |= {} if found is None else tabulate_unpenalised(*found)
    return take_rows(table, np.argsort(-np.abs(size), kind="stable"))


_TOLD = {"thresholded-covariance": _tell_thresholded, "regression": _tell_regression, "lda": _tell_discriminant}


ESTIMATORS: dict[str, type] = {
    "graphical-lasso": DebiasedGraphicalLasso,
    "ridge": DebiasedRidgePrecision,
    "thresholded-covariance": DebiasedThresholdedCovariance,
    "neighborhood": DebiasedNeighborhoodSelection,
    "scio": DebiasedSCIO,
    "clime": DebiasedCLIME,
    "regression": DebiasedRidgeRegression,
    "lda": DebiasedLDA,
}
