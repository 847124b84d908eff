"""S20's experiment: one setting after the other, literally and by other readings of what is printed."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from dp_learn import smallest_solvable_alpha
from dp_learn.estimators.ridge import ridge_precision
from dp_learn.glasso import make_problem, solve
from dp_publish.sampling import insecure_keystream
from printed_noise import Floats, moments_of, release_as_printed

P = 100
RIDGE_GRID = np.logspace(-7, 0, 36)
LASSO_SHARES = np.geomspace(1.0, 0.15, 7)  # of the largest entry off the diagonal

Setting = tuple[str, int, float, str]  # algorithm, n, epsilon, model


@dataclass
class Losses:
    """What S20's experiment gave: losses by setting, literally and by other readings, and what no noise leaves."""

    literal: dict[Setting, list[Floats]] = field(default_factory=lambda: defaultdict(list))
    other: dict[str, dict[Setting, list[Floats]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    best_clean: dict[tuple[str, int, str], float] = field(default_factory=dict)
    matched: dict[Setting, float] = field(default_factory=dict)  # the penalty with the printed Frobenius loss
    raised: int = 0  # literal runs whose chosen penalty had no solution


def run_setting(
    n: int,
    number: int,
    model: str,
    epsilon: float,
    algorithms: list[str],
    n_repetitions: int,
    fixed: float,
    target: float,
    found: Losses,
) -> None:
    """Run one setting with its algorithms, literally and by the other readings; rows as they are only twice."""
    alphas: dict[tuple[str, float], float] = {}
    for repetition in range(n_repetitions):
        rng = np.random.default_rng([n, number, repetition])
        theta = model_precision(model, rng)
        rows = rng.multivariate_normal(np.zeros(P), np.linalg.inv(theta), size=n)
        length = np.linalg.norm(rows, axis=1).max()
        moments = moments_of(rows / length)
        ball = moments.matrix / n
        stream = insecure_keystream(int(rng.integers(2**31)))
        noise = release_as_printed(moments, math.sqrt(2), epsilon, 1 / n, stream) / n - ball
        quiet = noise / math.sqrt(2) if epsilon > 1 else noise
        for name in algorithms:
            key = (name, n, epsilon, model)
            diagonal = 2 * np.diag(quiet)
            entries = [np.abs(diagonal).sum(), np.linalg.norm(diagonal), np.abs(diagonal).max()]
            found.other["the noise's diagonal, doubled; l1 over all entries; less beyond 1"][key].append(
                np.array(entries)
            )
            if name == "ridge":
                found.other["literal, one penalty for all epsilon, noise / sqrt(2) beyond 1"][key].append(
                    norms(ridge_precision(ball + quiet, fixed) - theta)
                )
                if repetition == 0:
                    tried = [(norms(ridge_precision(ball + noise, a) - theta), a) for a in np.logspace(-5, 1, 61)]
                    nearest, alpha = min(tried, key=lambda pair: abs(math.log(pair[0][1] / target)))
                    found.other["literal, the penalty that gives the printed Frobenius loss"][key].append(nearest)
                    found.matched[key] = alpha
            for factor in (1.0, length**2)[: 1 if repetition > 1 else 2]:
                place = (name, float(factor != 1.0))
                clean = ball * factor
                if place not in alphas:
                    alphas[place] = cross_validated(name, rows / length * math.sqrt(factor), epsilon, rng)
                alpha = alphas[place]
                private = estimate_precision(name, clean + noise, alpha)
                if private is None:  # this noise needs more than the folds': the least that has a solution
                    found.raised += factor == 1.0
                    alpha = 1.05 * smallest_solvable_alpha(clean + noise)
                    private = estimate_precision(name, clean + noise, alpha)
                unnoised = estimate_precision(name, clean, alpha)
                if private is None or unnoised is None:
                    raise SystemExit(f"{key} was not solved")
                if factor == 1.0:
                    found.literal[key].append(norms(private - theta))
                    found.other["literal, Theta of scaled rows"][key].append(norms(private - length**2 * theta))
                    found.other["literal, distance to the estimate without noise"][key].append(
                        norms(private - unnoised)
                    )
                    continue
                found.other["rows as they are"][key].append(norms(private - theta))
                found.other["rows as they are, distance to the estimate without noise"][key].append(
                    norms(private - unnoised)
                )
                if (name, n, model) not in found.best_clean:
                    found.best_clean[name, n, model] = smallest_clean_loss(name, clean, theta)


def fixed_penalty(n: int, number: int, model: str) -> float:
    """Return the ridge penalty that cross-validation chooses at epsilon = 0.3, for a reading without any choice."""
    rng = np.random.default_rng([n, number, 0])
    rows = rng.multivariate_normal(np.zeros(P), np.linalg.inv(model_precision(model, rng)), size=n)
    return cross_validated("ridge", rows / np.linalg.norm(rows, axis=1).max(), 0.3, rng)


def smallest_clean_loss(name: str, matrix: Floats, theta: Floats) -> float:
    """Return the least Frobenius loss that any penalty reaches without privacy."""
    found = []
    for alpha in np.geomspace(1e-3, 3.0, 12):
        estimate = estimate_precision(name, matrix, float(alpha))
        if estimate is not None:
            found.append(float(np.linalg.norm(estimate - theta)))
    return min(found)


def cross_validated(name: str, rows: Floats, epsilon: float, rng: np.random.Generator) -> float:
    """Return the penalty with the smallest mean of the negative log-likelihood on folds that are held out."""
    n, fold = len(rows), np.arange(len(rows)) % 5
    sigma = math.sqrt(2) / (0.8 * n) * math.sqrt(2 * math.log(1.25 * n)) / epsilon
    grid: Floats = RIDGE_GRID
    scores: Floats | None = None
    for k in range(5):
        upper = np.triu(rng.normal(scale=sigma, size=(P, P)))
        train = rows[fold != k].T @ rows[fold != k] / (fold != k).sum() + upper + np.triu(upper, 1).T
        held = rows[fold == k].T @ rows[fold == k] / (fold == k).sum()
        if scores is None:
            if name != "ridge":
                grid = LASSO_SHARES * np.abs(train - np.diag(np.diag(train))).max()
            scores = np.zeros(len(grid))
        for index, alpha in enumerate(grid):
            estimate = estimate_precision(name, train, float(alpha))
            scores[index] += math.inf if estimate is None else -np.linalg.slogdet(estimate)[1] + np.vdot(held, estimate)
    if scores is None or not np.isfinite(scores).any():
        return float(grid[0])
    return float(grid[int(np.argmin(scores))])


def estimate_precision(name: str, matrix: Floats, alpha: float) -> Floats | None:
    """Return the estimate, or None where the problem has no solution."""
    if name == "ridge":
        return ridge_precision(matrix, alpha)
    solution = solve(make_problem(matrix, alpha), solver="auto", tol=1e-4, max_iter=200)
    return None if solution is None else solution.precision


def model_precision(model: str, rng: np.random.Generator) -> Floats:
    """Return S20's Theta; the diagonal of model 3 is 1, which is printed as 0."""
    eye = np.eye(P)
    if model == "model1":
        w = rng.normal(size=(10_000, P))
        return w.T @ w / 10_000
    if model == "model2":
        return 0.5 + 0.5 * eye
    if model == "model3":
        return sum((c * (np.eye(P, k=k) + np.eye(P, k=-k)) for k, c in ((1, 0.5), (2, 0.25))), start=eye)
    upper = np.triu(0.5 * (rng.random((P, P)) < 0.1), 1)
    eigenvalues = np.linalg.eigvalsh(upper + upper.T)
    lift = (eigenvalues[-1] - P * eigenvalues[0]) / (P - 1)  # condition number P
    theta: Floats = (upper + upper.T) / lift + eye
    return theta


def norms(difference: Floats) -> Floats:
    """Return the largest column sum, the Frobenius and the spectral norm."""
    return np.array([np.linalg.norm(difference, order) for order in (1, "fro", 2)])
