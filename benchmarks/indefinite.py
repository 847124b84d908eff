"""Indefinite covariances, some with a solution and some without: what each solver makes of them, and two peers.

    python benchmarks/indefinite.py [COUNT]

200 seeded problems of 10, 30 and 100 columns with a smallest eigenvalue from -0.01 to -3: debiased sample covariances
and random symmetric matrices, at 0.9 times the smallest alpha that has a solution, where none exists, and at 1.02 to 3
times. An optimum counts as certified when the duality gap, computed again, is at most TOL per column; that there is
none counts as named when the solver says so and a positive semidefinite Z with <S, Z> + sum L |Z| <= 0 is at hand.
Peers are judged by the proven optimum: right within PEER_TOL per column. They leave the diagonal unpenalised, so where
it is penalised alpha is added to it, which is the same problem. `pip install gglasso` for the second one.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.covariance import graphical_lasso as sklearn_graphical_lasso

from dp_bundle.base.errors import NoSolutionError
from dp_learn import graphical_lasso
from dp_learn.glasso.feasibility import judge_box, smallest_solvable_alpha
from dp_learn.glasso.problem import Solution, duality_gap, make_problem, objective
from dp_learn.glasso.solvers.components import SOLVERS

SEED = 20
TOL = 1e-7  # duality gap per column
PEER_TOL = 1e-3
SIZES = (10, 30, 10, 30, 100)
FACTORS = (0.9, 1.02, 1.2, 0.9, 1.5, 3.0)  # of the smallest alpha
OURS = ("certified", "none, named", "not converged", "wrong")
THEIRS = ("right", "raised", "warned, wrong", "not finite", "silently wrong")


@dataclass(frozen=True, eq=False)
class Case:
    """One problem; `factor` is its alpha over the smallest one that has a solution, below 1 where none exists."""

    covariance: np.ndarray
    alpha: float
    penalize_diagonal: bool
    factor: float


def make_cases(count: int, sizes: tuple[int, ...] = SIZES) -> Iterator[Case]:
    """Yield seeded problems of every kind and size in turn."""
    rng = np.random.default_rng(SEED)
    for k in range(count):
        p, factor = sizes[k % len(sizes)], FACTORS[k % len(FACTORS)]
        lowest = -math.exp(rng.uniform(math.log(0.01), math.log(3.0)))
        s = (symmetric if k % 4 == 3 else debiased)(rng, p, lowest)
        penalize_diagonal = bool(k % 7 < 4 or s.diagonal().min() <= 0.05)
        smallest = smallest_solvable_alpha(s, penalize_diagonal=penalize_diagonal)
        yield Case(s, factor * smallest, penalize_diagonal, factor)


def debiased(rng: np.random.Generator, p: int, lowest: float) -> np.ndarray:
    """Return a sample covariance of noisy rows minus the noise's variance, with this smallest eigenvalue."""
    n = int(rng.integers(p // 2, 4 * p))
    edges = np.triu((rng.random((p, p)) < 2.0 / p) * rng.uniform(-0.5, 0.5, (p, p)), 1)
    theta = edges + edges.T
    theta += (0.3 - np.linalg.eigvalsh(theta)[0]) * np.eye(p)
    rows = rng.normal(size=(n, p)) @ np.linalg.cholesky(np.linalg.inv(theta)).T
    noise = rng.normal(size=(n, p))

    def at(sigma: float) -> np.ndarray:
        return np.cov((rows + sigma * noise).T) - sigma**2 * np.eye(p)

    low, high = 0.0, 1.0
    while np.linalg.eigvalsh(at(high))[0] > lowest:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.linalg.eigvalsh(at(middle))[0] > lowest else (low, middle)
    return at(high)


def symmetric(rng: np.random.Generator, p: int, lowest: float) -> np.ndarray:
    """Return the identity plus a random symmetric matrix, with this smallest eigenvalue."""
    a = rng.normal(size=(p, p))
    a += a.T
    np.fill_diagonal(a, 0.0)
    return np.eye(p) + (1.0 - lowest) / -np.linalg.eigvalsh(a)[0] * a


def proves_unsolvable(case: Case) -> bool:
    """Return whether a Z at hand rules out every solution, checked in the problem's own units and by numpy alone."""
    problem = make_problem(case.covariance, case.alpha, penalize_diagonal=case.penalize_diagonal)
    variance = problem.covariance.diagonal() + problem.penalty.diagonal()
    if (variance <= 0.0).any():
        return True
    root = np.sqrt(np.outer(variance, variance))
    standard, penalty = problem.covariance / root, problem.penalty / root
    np.fill_diagonal(standard, 1.0)
    np.fill_diagonal(penalty, 0.0)
    z = judge_box(standard, penalty).certificate / root
    eigenvalues = np.linalg.eigvalsh(z)
    reach = float((problem.covariance * z).sum() + (problem.penalty * np.abs(z)).sum())
    return bool(reach <= 0.0 < eigenvalues[-1] and eigenvalues[0] >= -1e-12 * eigenvalues[-1])


def judge_ours(case: Case, solver: str) -> tuple[str, Solution | None]:
    """Return the verdict on one of our solvers, and its solution if it is certified."""
    try:
        solution = graphical_lasso(
            case.covariance, case.alpha, solver=solver, penalize_diagonal=case.penalize_diagonal, tol=TOL
        )
    except NoSolutionError:
        return ("none, named" if case.factor < 1.0 and proves_unsolvable(case) else "wrong"), None
    if not solution.converged:
        return "not converged", None
    problem = make_problem(case.covariance, case.alpha, penalize_diagonal=case.penalize_diagonal)
    gap = duality_gap(problem, solution.precision, solution.covariance)
    return ("certified", solution) if gap <= 2.0 * TOL * problem.n_features else ("wrong", None)


def judge_peer(case: Case, solve: Callable[[np.ndarray, float], np.ndarray], proven: Solution | None) -> str:
    """Return the verdict on a peer, given our certified solution or None where none exists."""
    p = case.covariance.shape[0]
    s = case.covariance + case.alpha * np.eye(p) if case.penalize_diagonal else case.covariance
    with warnings.catch_warnings(record=True) as warned, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            theta = solve(s, case.alpha)
        except Exception:  # whatever a peer raises is its way to say no
            return "raised"
    if not np.isfinite(theta).all():
        return "not finite"
    if proven is not None:
        problem = make_problem(case.covariance, case.alpha, penalize_diagonal=case.penalize_diagonal)
        excess = objective(problem, 0.5 * (theta + theta.T)) - (proven.objective - proven.duality_gap)
        if excess <= PEER_TOL * p:
            return "right"
    return "warned, wrong" if warned else "silently wrong"


def solve_sklearn(s: np.ndarray, alpha: float) -> np.ndarray:
    """Return scikit-learn's precision matrix."""
    precision: np.ndarray = sklearn_graphical_lasso(s, alpha, max_iter=500)[1]
    return precision


def make_gglasso() -> Callable[[np.ndarray, float], np.ndarray] | None:
    """Return GGLasso's ADMM, if it is installed."""
    try:
        from gglasso.solver.single_admm_solver import ADMM_SGL
    except ImportError:
        return None

    def solve(s: np.ndarray, alpha: float) -> np.ndarray:
        with contextlib.redirect_stdout(io.StringIO()):
            found, info = ADMM_SGL(s, alpha, np.eye(s.shape[0]), tol=1e-6, rtol=1e-6, max_iter=5000)
        if info["status"] != "optimal":
            warnings.warn(info["status"], stacklevel=1)
        theta: np.ndarray = found["Theta"]
        return theta

    return solve


def disagreement(case: Case, found: list[Solution]) -> tuple[float, float]:
    """Return the largest differences between solutions: objective per column, and entries relative to the diagonals."""
    first = found[0]
    diagonal = np.sqrt(np.outer(first.precision.diagonal(), first.precision.diagonal()))
    return (
        max(abs(each.objective - first.objective) for each in found) / case.covariance.shape[0],
        max(float((np.abs(each.precision - first.precision) / diagonal).max()) for each in found),
    )


def main() -> None:
    """Print a table of verdicts and times for our solvers, then one for the peers."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    gglasso = make_gglasso()
    peers = {"scikit-learn": solve_sklearn} | ({"GGLasso": gglasso} if gglasso else {})
    verdicts = {name: Counter[str]() for name in (*SOLVERS, *peers)}
    seconds = dict.fromkeys(verdicts, 0.0)
    objectives, entries, n_solvable = 0.0, 0.0, 0
    graphical_lasso(np.eye(3) + 0.5, 0.1)
    for case in make_cases(count):
        n_solvable += case.factor > 1.0
        found = []
        for solver in SOLVERS:
            began = time.perf_counter()
            verdict, solution = judge_ours(case, solver)
            seconds[solver] += time.perf_counter() - began
            verdicts[solver][verdict] += 1
            if solution is not None:
                found.append(solution)
        if found:
            differences = disagreement(case, found)
            objectives, entries = max(objectives, differences[0]), max(entries, differences[1])
        for name, solve in peers.items():
            began = time.perf_counter()
            verdict = judge_peer(case, solve, found[0] if found else None)
            seconds[name] += time.perf_counter() - began
            verdicts[name][verdict] += 1
    print(f"{count} indefinite problems, {n_solvable} with a solution and {count - n_solvable} without")
    for title, names, labels in (("solver", list(SOLVERS), OURS), ("peer", list(peers), THEIRS)):
        print(f"{title:14}" + "".join(f"{label:>16}" for label in labels) + f"{'seconds':>10}")
        for name in names:
            print(f"{name:14}" + "".join(f"{verdicts[name][x]:16}" for x in labels) + f"{seconds[name]:10.1f}")
    if gglasso is None:
        print("GGLasso is not installed, so it was not measured: pip install gglasso")
    print(
        f"largest disagreement between solvers: {objectives:.1e} in the objective per column, {entries:.1e} in entries"
    )


if __name__ == "__main__":
    main()
