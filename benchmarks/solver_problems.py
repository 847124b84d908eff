"""The problems that solvers are compared on: covariances of known graphs, the penalty, and the gap asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from dp_learn.glasso.solving import graphical_lasso

Floats = NDArray[np.float64]

GAP = 1e-6  # per column


def sample_covariance(kind: str, p: int, n_rows: int, seed: int = 0) -> Floats:
    """Return the sample covariance of normal rows under a chain or a random sparse precision matrix.

    It is drawn from its own distribution, Wishart's (Bartlett 1933), which spares drawing the rows.
    """
    rng = np.random.default_rng(seed)
    if kind == "chain":
        theta = np.eye(p) + 0.45 * (np.eye(p, k=1) + np.eye(p, k=-1))
    elif kind == "factor":
        sectors = np.arange(p)[:, None] % 10 == np.arange(10)
        loadings = np.column_stack([rng.uniform(0.3, 1.5, p), 0.6 * sectors])
        theta = np.linalg.inv(loadings @ loadings.T + np.diag(rng.uniform(0.5, 1.5, p)))
    elif kind == "block":
        block = np.arange(p) // 10
        theta = np.linalg.inv(0.5 * np.eye(p) + 0.5 * (block[:, None] == block))
    elif kind.startswith("dense"):
        basis = np.linalg.qr(rng.normal(size=(p, p)))[0]
        theta = (basis * np.geomspace(1.0, 10.0 ** int(kind[5]), p)) @ basis.T
    else:
        edges = np.triu((rng.random((p, p)) < 0.01) * rng.uniform(-0.8, 0.8, (p, p)), 1)
        theta = edges + edges.T
        smallest = eigsh(csr_array(theta), k=1, which="SA", v0=np.ones(p), return_eigenvectors=False)[0]
        theta += np.eye(p) * (0.3 - smallest)
    factor = np.tril(rng.normal(size=(p, p)), -1)
    factor[np.diag_indices(p)] = np.sqrt(rng.chisquare(n_rows - 1 - np.arange(p)))
    root = solve_triangular(np.linalg.cholesky(theta), factor, trans=1, lower=True, overwrite_b=True)
    s = root @ root.T / (n_rows - 1)
    return (s + s.T) / 2


def choose_alpha(s: Floats, wanted: float = 3.5) -> float:
    """Return a penalty that leaves about so many non-zeros a row."""
    low, high = 0.0, float(np.abs(s - np.diag(s.diagonal())).max())
    for _ in range(12):
        alpha = (low + high) / 2
        solution = graphical_lasso(s, alpha, penalize_diagonal=False, tol=1e-4)
        found = np.count_nonzero(solution.precision) / len(s)
        if abs(found - wanted) < 0.05 * wanted:
            break
        low, high = (alpha, high) if found > wanted else (low, alpha)
    return alpha
