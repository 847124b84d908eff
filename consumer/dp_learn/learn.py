"""From one verified bundle to one graph: the whole of `dp-learn`, without its options and files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle import Bundle
from dp_bundle.errors import NotConvergedError
from dp_learn.debias import DebiasedCovariance, debias_covariance, keep_columns_with_signal
from dp_learn.graph import GraphEstimate
from dp_learn.moments import Moments, estimate_fold_moments, merge_moments
from dp_learn.selection import Selection, alpha_grid, cross_validate
from dp_learn.solution import Solution
from dp_learn.solvers import graphical_lasso

__all__ = ["Learned", "learn_graph"]

Floats = npt.NDArray[np.float64]
N_FOLDS = 5


@dataclass(frozen=True)
class Learned:
    """A graph and everything that it rests on."""

    estimate: GraphEstimate
    moments: Moments
    debiased: DebiasedCovariance
    noise_share: Floats
    smallest_eigenvalue: float
    solution: Solution
    selection: Selection | None


def learn_graph(
    bundle: Bundle,
    *,
    alpha: float | None = None,
    solver: str = "cd",
    standardize: bool = True,
    penalize_diagonal: bool = True,
) -> Learned:
    """Estimate the sparse graph of the rows before the noise.

    Parameters
    ----------
    bundle : Bundle
        Verified and open.
    alpha : float, optional
        The penalty, on the correlation scale if `standardize`; chosen by 5-fold cross-validation by default.
    solver : {"cd", "admm"}
        As in `graphical_lasso`.
    standardize : bool
        Whether to work on the correlation scale, where one alpha means the same for every pair of columns.
    penalize_diagonal : bool
        As in `graphical_lasso`.

    Raises
    ------
    NoSolutionError
        The problem is unbounded at this alpha.
    NotConvergedError
        The solver stopped before its tolerance.
    DrownedColumnError
        Fewer than two columns have variance left.
    """
    release = bundle.release
    folds = estimate_fold_moments(bundle, 1 if alpha is not None else N_FOLDS)
    moments = folds[0]
    for fold in folds[1:]:
        moments = merge_moments(moments, fold)
    variance = np.array(release.noise_variance)
    names = tuple(column.name for column in release.columns)
    unbiased = debias_covariance(moments.covariance, variance)
    debiased = keep_columns_with_signal(names, unbiased, variance, moments.n_rows)
    scale = debiased.deviations if standardize else np.ones(len(debiased.kept))

    def prepare(covariance: Floats) -> Floats:
        chosen = debias_covariance(covariance, variance)[np.ix_(debiased.kept, debiased.kept)]
        return chosen / np.outer(scale, scale)

    matrix = prepare(moments.covariance)
    selection = None
    if alpha is None:
        grid = alpha_grid(matrix)
        selection = cross_validate(folds, prepare, grid, solver=solver, penalize_diagonal=penalize_diagonal)
        alpha = selection.alpha
    solution = graphical_lasso(matrix, alpha, solver=solver, penalize_diagonal=penalize_diagonal)
    if not solution.converged:
        raise NotConvergedError(
            f"the {solver} solver stopped at a duality gap of {solution.duality_gap:.3g} ({solution.status}): try a "
            "larger alpha or the other solver",
            solution,
        )
    precision = solution.precision / np.outer(scale, scale)
    return Learned(
        GraphEstimate(debiased.columns, precision, debiased.covariance),
        moments,
        debiased,
        variance / np.diagonal(moments.covariance),
        float(np.linalg.eigvalsh(matrix)[0]),
        solution,
        selection,
    )


def summarize(learned: Learned, bundle: Bundle) -> dict[str, Any]:
    """Return what `summary.json` says: numbers, names and their origin."""
    release, solution, selection = bundle.release, learned.solution, learned.selection
    shares = zip((column.name for column in release.columns), learned.noise_share.tolist(), strict=True)
    return {
        "dataset": release.dataset.name,
        "release_number": release.lineage.number,
        "manifest_sha256": bundle.manifest_sha256,
        "signer": bundle.signer.key.fingerprint,
        "n_rows": learned.moments.n_rows,
        "n_features": len(learned.estimate.columns),
        "columns": list(learned.estimate.columns),
        "drowned_columns": list(learned.debiased.drowned),
        "noise_share_of_variance": dict(shares),
        "smallest_eigenvalue": learned.smallest_eigenvalue,
        "estimator": "graphical-lasso",
        "solver": solution.solver,
        "alpha": solution.alpha,
        "alpha_chosen_by": selection.rule if selection else "the user",
        "path": [] if selection is None else _path(selection),
        "status": str(solution.status),
        "n_iter": solution.n_iter,
        "objective": solution.objective,
        "duality_gap": solution.duality_gap,
        "n_edges": int(np.count_nonzero(np.triu(learned.estimate.precision, 1))),
    }


def _path(selection: Selection) -> list[dict[str, float | None]]:
    scores = [None if np.isnan(score) else float(score) for score in selection.scores]
    return [{"alpha": float(alpha), "score": score} for alpha, score in zip(selection.alphas, scores, strict=True)]
