"""Write `group_references.json`: group problems solved by cvxpy.

Run with Python 3.11, cvxpy 1.9.3, clarabel 0.11.1 and numpy 2.4.6 in an environment of its own, as cvxpy is no
dependency of dpgraph:  python make_group_references.py
"""

import json
from pathlib import Path

import cvxpy as cp
import numpy as np

CASES = {  # sizes of the nodes, alpha, weights by sizes or ones, diagonal penalised, least eigenvalue of S
    "blocks": ([1, 3, 2, 4, 1, 2, 1], 0.12, "sizes", True, 0.05),
    "free diagonal": ([2, 1, 5, 3, 1], 0.1, "ones", False, 0.05),
    "indefinite": ([1, 3, 2, 2, 4], 0.3, "ones", False, -0.15),
    "twenty columns": ([8, 1, 1, 4, 2, 3, 1], 0.08, "ones", True, 0.02),
}


def covariance(sizes, least, rng):
    """Return a correlated matrix with a given smallest eigenvalue."""
    p = sum(sizes)
    x = rng.normal(size=(2 * p, p)) @ (np.eye(p) + 0.3 * rng.normal(size=(p, p)))
    s = np.corrcoef(x.T)
    d, q = np.linalg.eigh(s)
    d[0] = least
    s = (q * d) @ q.T
    return (s + s.T) / 2


def solve(s, sizes, alpha, weights, penalize_diagonal):
    """Return the optimum of the problem as it is written in `graphical_lasso`."""
    p, ends = len(s), np.cumsum(sizes)
    blocks = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    theta = cp.Variable((p, p), symmetric=True)
    penalty = sum(
        2 * (np.sqrt(sizes[g] * sizes[h]) if weights == "sizes" else 1.0) * cp.norm(theta[a, b], "fro")
        for g, a in enumerate(blocks)
        for h, b in enumerate(blocks)
        if g < h
    )
    if penalize_diagonal:
        penalty = penalty + cp.trace(theta)
    problem = cp.Problem(cp.Minimize(-cp.log_det(theta) + cp.sum(cp.multiply(s, theta)) + alpha * penalty))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return theta.value, problem.value


def main():
    """Write the cases beside this file."""
    rng, cases = np.random.default_rng(7), {}
    for name, (sizes, alpha, weights, diagonal, least) in CASES.items():
        s = covariance(sizes, least, rng)
        theta, value = solve(s, sizes, alpha, weights, diagonal)
        cases[name] = {
            "sizes": sizes,
            "alpha": alpha,
            "weights": weights,
            "penalize_diagonal": diagonal,
            "covariance": s.tolist(),
            "precision": theta.round(9).tolist(),
            "objective": value,
        }
    Path(__file__).with_name("group_references.json").write_text(json.dumps(cases) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
