"""Lemma 5 and theorems 1, 3 and 6 at examples where they do not hold: what is stated, and what is found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, stats

from dp_learn import graphical_lasso
from reproduction.pieces import Piece
from reproduction.setting import Setting
from reproduction.simulation import Floats
from reproduction.wang18.errors import DELTA, EPSILONS

INDEFINITE = np.diag([-0.5, 1.0])


def lemma_5(sample: Floats, penalty: float) -> dict[str, float]:
    """Return the extreme eigenvalues of the solution, lemma 5's bounds, and an upper bound that holds for every S.

    With ``rho |Theta|_1 = d - <S, Theta>`` at the solution, and ``<S, Theta> >= -m |Theta|_1`` where -m is the least
    eigenvalue of S if that is negative, ``|Theta|_2 <= |Theta|_1 <= d / (rho - m)`` for rho above m.
    """
    d = len(sample)
    eigenvalues = np.linalg.eigvalsh(graphical_lasso(sample, penalty, tol=1e-9).precision)
    alpha = 1.0 / (np.linalg.norm(sample, 2) + penalty * d)
    below = max(0.0, -float(np.linalg.eigvalsh(sample)[0]))
    return {
        "least": float(eigenvalues[0]),
        "found": float(eigenvalues[-1]),
        "lower": float(alpha),
        "stated": float((d - alpha * np.trace(sample)) / penalty),
        "right": d / (penalty - below) if penalty > below else math.inf,
    }


def delta_of(epsilon: float, delta: float, excess: float = math.sqrt(2.0)) -> float:
    """Return the delta of Gaussian noise whose sigma is ``sqrt(2 ln(1.25 / delta)) / epsilon`` sensitivities.

    `excess` is the true sensitivity over the one that sigma is for: sqrt(2) where a row is replaced, and sigma is for
    1/n. The curve is exact (Balle & Wang 2018).
    """
    mu = excess * epsilon / math.sqrt(2.0 * math.log(1.25 / delta))
    return float(stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu))


def largest_epsilon(delta: float, excess: float = math.sqrt(2.0)) -> float:
    """Return the epsilon up to which that noise has the delta that it claims."""
    return float(optimize.brentq(lambda epsilon: delta_of(epsilon, delta, excess) - delta, 0.01, 20.0))


def least_eigenvalue_of_neighbour(mechanism: str) -> float:
    """Return the least eigenvalue of an output less what it was made of, had the one row been another.

    Wishart noise is positive definite, so a negative one shows an output that the neighbour cannot have. The row is the
    first unit vector, its neighbour's the second; the noise is a hundredth of the identity, which has a density.
    """
    one, other = np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    if mechanism == "output":  # algorithm 1: the estimates, with the penalty 1
        one, other = (np.diag(1.0 / (each.diagonal() + 1.0)) for each in (one, other))
    return float(np.linalg.eigvalsh(one + 0.01 * np.eye(2) - other)[0])


def _measure() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = [{"statement": "lemma 5", "case": "indefinite", **lemma_5(INDEFINITE, 1.0)}]
    records += [
        {"statement": "theorem 6", "case": f"epsilon {epsilon:g}", "stated": DELTA, "found": delta_of(epsilon, DELTA)}
        for epsilon in EPSILONS
    ]
    records.append({"statement": "theorem 6", "case": "largest epsilon", "found": largest_epsilon(DELTA)})
    for statement, mechanism in (("theorem 1", "output"), ("theorem 3", "covariance")):
        found = least_eigenvalue_of_neighbour(mechanism)
        records.append({"statement": statement, "case": "neighbour", "stated": 0.0, "found": found})
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    found = cells.set_index(["statement", "case", "measure"])["mean"].sort_index()
    bounds = found["lemma 5", "indefinite"]
    return {
        "beta": f"{bounds['stated']:.3f}",
        "largest": f"{bounds['found']:g}",
        "right": f"{bounds['right']:g}",
        "deltas": [f"{1e4 * found['theorem 6', f'epsilon {epsilon:g}', 'found']:.2f}e-4" for epsilon in EPSILONS],
        "largest_epsilon": f"{found['theorem 6', 'largest epsilon', 'found']:.2f}",
        "theorem_1": f"{found['theorem 1', 'neighbour', 'found']:.2f}",
        "theorem_3": f"{found['theorem 3', 'neighbour', 'found']:.2f}",
    }


def _jobs(_: Setting) -> list[tuple[()]]:
    return [()]


PIECE = Piece("wang18_statements", ("statement", "case"), _jobs, _measure, _describe)
