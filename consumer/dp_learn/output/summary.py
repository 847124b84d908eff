"""The contents of `summary.json`: numbers and names, and where they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from dp_bundle import Bundle
from dp_bundle.describe.sentences import describe_gaps
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.standard_errors import typical_errors
from dp_learn.pipeline.learn import Learned
from dp_learn.selection.path import Selection


class BundleSummary(TypedDict):
    """One bundle, and its weight in the pooled covariance."""

    dataset: str
    kind: str
    release_number: int
    manifest_sha256: str
    signer: str
    n_rows: int
    gaps: list[str]
    weight: float


class StandardError(TypedDict):
    """The median standard error of a correlation that is zero."""

    with_noise: float
    without: float


class Origin(TypedDict):
    """The bundles that an estimate comes from, and what their rows and noise allow."""

    bundles: list[BundleSummary]
    same_rows: bool
    n_rows: int
    correlation_standard_error: StandardError | None
    errors_are_estimates: bool
    kurtosis_factor: float


class Summary(Origin):
    """The entries that every estimator's summary has."""

    columns: list[str]
    drowned_columns: list[str]
    noise_share_of_variance: dict[str, float] | None
    contradictions: list[str]
    smallest_eigenvalue: float | None
    repair: str
    estimator: str
    alpha: float | None
    notes: list[str]


class Score(TypedDict):
    """One alpha of the path, and the selection rule's score of it."""

    alpha: float
    score: float | None


class GraphSummary(Summary):
    """The summary of a graphical lasso."""

    n_features: int
    collinear_columns: list[str]
    smallest_solvable_alpha: float | None
    repair_distance: float
    solver: str
    alpha_chosen_by: str
    path: list[Score]
    status: str
    n_iter: int
    objective: float
    duality_gap: float
    penalty_share: float
    n_edges: int
    fdr: float | None
    error_bars: bool
    weights: str
    scale: str
    refit: bool
    penalize_diagonal: bool


class EdgesSummary(Summary):
    """The summary of a thresholded covariance."""

    n_edges: int


class PrecisionSummary(EdgesSummary):
    """The summary of a precision matrix by another estimator."""

    penalty_share: float


class RegressionSummary(Summary):
    """The summary of a regression."""

    target: str
    intercept: float
    r_squared: float
    excess_bound: float | None


class DiscriminantSummary(Summary):
    """The summary of a discriminant analysis."""

    target: str
    classes: list[float]
    priors: list[float]
    intercept: float


def summarize(learned: Learned, bundles: Sequence[Bundle]) -> GraphSummary:
    """Return the summary of a graph."""
    fit, settings = learned.fit, learned.settings
    solution, selection = fit.solution, fit.selection
    weights = settings.weights_for(blocks=not fit.nodes.are_numbers)

    return {
        **describe_origin(bundles, learned.sample.pooled),
        "n_features": len(learned.estimate.columns),
        "columns": list(learned.estimate.columns),
        "drowned_columns": list(fit.drowned),
        "collinear_columns": list(learned.collinear),
        "noise_share_of_variance": _share_by_node(learned),
        "contradictions": learned.contradictions,
        "smallest_eigenvalue": learned.smallest_eigenvalue,
        "smallest_solvable_alpha": None if math.isinf(learned.smallest_alpha) else learned.smallest_alpha,
        "repair": fit.repair.method.value,
        "repair_distance": fit.repair.distance,
        "estimator": "graphical-lasso",
        "solver": solution.solver,
        "alpha": solution.alpha,
        "alpha_chosen_by": selection.rule if selection else "the user",
        "path": [] if selection is None else _path(selection),
        "status": str(solution.status),
        "n_iter": solution.n_iter,
        "objective": solution.objective,
        "duality_gap": solution.duality_gap,
        "penalty_share": learned.penalty_share,
        "n_edges": len(learned.estimate.edge_columns["source"]),
        "fdr": learned.estimate.fdr,
        "error_bars": learned.estimate.inference is not None,
        "notes": learned.notes,
        "weights": weights if isinstance(weights, str) else "a matrix",
        "scale": settings.scale,
        "refit": settings.refit,
        "penalize_diagonal": settings.penalize_diagonal,
    }


def _share_by_node(learned: Learned) -> dict[str, float] | None:
    """Return the noise's share of the published variance, of a category the mean over its columns."""
    shares = share_by_column(learned.sample.pooled)
    if shares is None or learned.fit.nodes.are_numbers:
        return shares
    own: dict[str, list[float]] = {}
    for node, share in zip(learned.fit.nodes.levels.nodes, shares.values(), strict=True):
        own.setdefault(node, []).append(share)
    return {node: sum(each) / len(each) for node, each in own.items()}


def describe_origin(bundles: Sequence[Bundle], pooled: PooledCovariance) -> Origin:
    """Return the bundles with their weights, the number of rows, and the error that these leave."""
    described: list[BundleSummary] = [
        {
            "dataset": bundle.release.dataset.name,
            "kind": bundle.release.kind,
            "release_number": bundle.release.lineage.number,
            "manifest_sha256": bundle.manifest_sha256,
            "signer": bundle.signer.key.fingerprint,
            "n_rows": bundle.release.n_rows,
            "gaps": describe_gaps(bundle.release),
            "weight": weight,
        }
        for bundle, weight in zip(bundles, pooled.weights, strict=True)
    ]

    errors = typical_errors(pooled)
    return {
        "bundles": described,
        "same_rows": pooled.same_rows,
        "n_rows": pooled.n_rows,
        "correlation_standard_error": None if errors is None else {"with_noise": errors[0], "without": errors[1]},
        "errors_are_estimates": pooled.has_errors and not pooled.has_error_law,
        "kurtosis_factor": pooled.kurtosis,
    }


def share_by_column(pooled: PooledCovariance) -> dict[str, float] | None:
    """Return the noise's share of each published variance by the column's name, None where it is unknown."""
    share = pooled.noise_share
    return None if share is None else dict(zip(pooled.columns, share.tolist(), strict=True))


def _path(selection: Selection) -> list[Score]:
    scores = [None if np.isnan(score) else float(score) for score in selection.scores]
    return [{"alpha": float(alpha), "score": score} for alpha, score in zip(selection.alphas, scores, strict=True)]
