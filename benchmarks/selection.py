"""Speed of a whole path with cross-validation against scikit-learn's `GraphicalLassoCV`, on one thread.

    OPENBLAS_NUM_THREADS=1 python benchmarks/selection.py

200 columns, 30 alphas from the smallest that empties the graph down to 0.05 (AR) and 0.1 (random) of it, evenly spaced
in the logarithm, the same 5 folds, the diagonal free as scikit-learn has it, no early end. scikit-learn runs with its
defaults (tol 1e-4, 100 iterations) and fits the whole table at its alpha, which is timed for both. The median of
5 runs of ours before and after one run of theirs; the held-out scores of both are compared alpha by alpha, and both
with paths solved to a gap of 1e-9.
"""

from __future__ import annotations

import statistics
import time
import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.covariance import GraphicalLassoCV, empirical_covariance
from sklearn.model_selection import KFold

from dp_learn import graphical_lasso
from dp_learn.covariance.sample import Split
from dp_learn.selection.cross_validation import cross_validate
from dp_learn.selection.path import Selection, alpha_grid, solve_path

N_FEATURES, N_ALPHAS, N_FOLDS, N_REPETITIONS = 200, 30, 5, 5
CASES = [("AR", 400, 0.05), ("AR", 1000, 0.05), ("random", 400, 0.1), ("random", 1000, 0.1)]

Floats = NDArray[np.float64]


def make_rows(model: str, n_rows: int, rng: np.random.Generator) -> Floats:
    """Return standardised Gaussian rows whose graph is a chain, or has 1 % of all edges at random."""
    p = N_FEATURES
    precision = np.zeros((p, p))
    if model == "AR":
        precision += np.diag(np.full(p - 1, 0.45), 1)
    else:
        i, j = np.triu_indices(p, 1)
        chosen = rng.random(i.size) < 0.01
        precision[i[chosen], j[chosen]] = rng.choice([-1, 1], chosen.sum()) * rng.uniform(0.2, 0.6, chosen.sum())
    precision += precision.T
    lift = 1.0 if model == "AR" else 0.2 - np.linalg.eigvalsh(precision)[0]
    rows = rng.multivariate_normal(np.zeros(p), np.linalg.inv(precision + lift * np.eye(p)), size=n_rows)
    centred: Floats = rows - rows.mean(axis=0)
    return centred / centred.std(axis=0)


def run_ours(rows: Floats, folds: list[tuple[NDArray[np.intp], NDArray[np.intp]]], alphas: Floats) -> Selection:
    """Cross-validate over the whole path, and fit the whole table."""
    splits = [Split(empirical_covariance(rows[train]), empirical_covariance(rows[test])) for train, test in folds]
    selection = cross_validate(splits, alphas, penalize_diagonal=False, patience=None)
    graphical_lasso(empirical_covariance(rows), selection.alpha, penalize_diagonal=False)
    return selection


def exact_scores(rows: Floats, folds: list[tuple[NDArray[np.intp], NDArray[np.intp]]], alphas: Floats) -> Floats:
    """Return the mean held-out scores of paths solved to a very small gap."""
    scores = np.zeros(len(alphas))
    for train, test in folds:
        held_out = empirical_covariance(rows[test])
        path = solve_path(empirical_covariance(rows[train]), alphas, penalize_diagonal=False, tol=1e-9)
        for index, (_, solution) in enumerate(path):
            if solution is None:
                raise SystemExit("the path was not solved")
            scores[index] += np.linalg.slogdet(solution.precision)[1] - np.vdot(held_out, solution.precision)
    return scores / len(folds)


def main() -> None:
    """Print one line for every case."""
    warnings.simplefilter("ignore")  # scikit-learn warns of every alpha that it did not solve
    graphical_lasso(np.eye(3) + 0.5, 0.1)  # compiles the kernels
    print(
        "model   rows last/first  ours (s)  theirs (s)   ratio   alpha ours  theirs   scores: |ours - exact|  "
        "|theirs - exact|  best ours - best theirs"
    )
    ratios = []
    for model, n_rows, ratio in CASES:
        rows = make_rows(model, n_rows, np.random.default_rng(0))
        alphas = alpha_grid(empirical_covariance(rows), N_ALPHAS, ratio)
        folds = list(KFold(N_FOLDS).split(rows))
        times = []

        def timed_ours(
            rows: Floats = rows, folds: list = folds, alphas: Floats = alphas, times: list[float] = times
        ) -> Selection:
            start = time.perf_counter()
            selection = run_ours(rows, folds, alphas)
            times.append(time.perf_counter() - start)
            return selection

        for _ in range(N_REPETITIONS):
            selection = timed_ours()
        start = time.perf_counter()
        theirs = GraphicalLassoCV(alphas=alphas, cv=folds, n_jobs=1).fit(rows)
        their_time = time.perf_counter() - start
        for _ in range(N_REPETITIONS):
            timed_ours()
        ours_time = statistics.median(times)
        order = np.argsort(theirs.cv_results_["alphas"])[::-1][:N_ALPHAS]
        half = 0.5 * (selection.scores - N_FEATURES * np.log(2.0 * np.pi))
        their_scores = np.asarray(theirs.cv_results_["mean_test_score"])[order]
        exact = 0.5 * (exact_scores(rows, folds, alphas) - N_FEATURES * np.log(2.0 * np.pi))
        at = {float(alpha): score for alpha, score in zip(alphas, exact, strict=True)}
        ratios.append(ours_time / their_time)
        print(
            f"{model:6} {n_rows:5} {ratio:10.2f} {ours_time:9.3f} {their_time:11.2f} {ratios[-1]:7.4f} "
            f"{selection.alpha:12.5f} {theirs.alpha_:7.5f} {np.abs(half - exact).max():24.1e} "
            f"{np.abs(their_scores - exact).max():17.1e} {at[selection.alpha] - at[float(theirs.alpha_)]:24.1e}",
            flush=True,
        )
    print(f"the largest ratio: {max(ratios):.4f}")


if __name__ == "__main__":
    main()
