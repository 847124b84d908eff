"""What `summary.json` says of a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_bundle import Bundle
from dp_bundle.describe import describe_gaps
from dp_learn.covariance import PooledCovariance, typical_errors
from dp_learn.pipeline import Learned
from dp_learn.selection import Selection

__all__ = ["describe_origin", "summarize"]


def summarize(learned: Learned, bundles: Bundle | Sequence[Bundle]) -> dict[str, Any]:
    """Return what `summary.json` says: numbers, names and their origin."""
    opened = [bundles] if isinstance(bundles, Bundle) else list(bundles)
    fit, pooled = learned.fit, learned.sample.pooled
    solution, selection = fit.solution, fit.selection
    names, share = learned.sample.sources[0].columns, learned.noise_share
    return {
        **describe_origin(opened, pooled),
        "n_features": len(learned.estimate.columns),
        "columns": list(learned.estimate.columns),
        "drowned_columns": list(fit.drowned),
        "collinear_columns": list(learned.collinear),
        "noise_share_of_variance": None if share is None else dict(zip(names, share.tolist(), strict=True)),
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
    }


def describe_origin(bundles: Sequence[Bundle], pooled: PooledCovariance) -> dict[str, Any]:
    """Return which bundles an estimate comes from, with which weights, how many rows they hold, and what that gives."""
    errors = typical_errors(pooled)
    return {
        "bundles": [
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
        ],
        "same_rows": pooled.same_rows,
        "n_rows": pooled.n_rows,
        "correlation_standard_error": None if errors is None else {"with_noise": errors[0], "without": errors[1]},
        "errors_are_estimates": pooled.has_errors and not pooled.has_error_law,
    }


def _path(selection: Selection) -> list[dict[str, float | None]]:
    scores = [None if np.isnan(score) else float(score) for score in selection.scores]
    return [{"alpha": float(alpha), "score": score} for alpha, score in zip(selection.alphas, scores, strict=True)]
