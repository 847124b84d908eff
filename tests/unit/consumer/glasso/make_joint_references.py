"""Write `joint_references.json`: joint problems solved by cvxpy.

Run with Python 3.11, cvxpy 1.9.3, clarabel 0.11.1 and numpy 2.4.6 in an environment of its own, as cvxpy is no
dependency of dpgraph:  python make_joint_references.py
"""

import json
from itertools import combinations
from pathlib import Path

import cvxpy as cp
import numpy as np

CASES = {  # columns, kind, alpha, coupling, diagonal penalised, least eigenvalue of the second period
    "fused": (15, "fused", 0.1, 0.05, True, 0.05),
    "fused, indefinite": (8, "fused", 0.3, 0.1, True, -0.2),
    "smooth": (8, "smooth", 0.1, 0.3, False, 0.05),
    "pairs": (8, "pairs", 0.1, 0.03, True, 0.05),
    "group": (8, "group", 0.08, 0.1, False, 0.05),
}
N_PERIODS = 4


def covariances(p, least, rng):
    """Return related correlation matrices, of which the second has a given smallest eigenvalue."""
    root, found = np.eye(p) + 0.4 * rng.normal(size=(p, p)), []
    for k in range(N_PERIODS):
        rows = rng.normal(size=(4 * p, p)) @ (root + 0.05 * rng.normal(size=(p, p)))
        s = np.corrcoef(rows.T)
        if k == 1:
            d, q = np.linalg.eigh(s)
            d[0] = least
            s = (q * d) @ q.T
        found.append(((s + s.T) / 2).round(6))
    return np.array(found)


def solve(s, kind, alpha, coupling, diagonal, w, v, n):
    """Return the optimum of the problem as it is written in `joint_graphical_lasso`."""
    p = s.shape[1]
    theta = [cp.Variable((p, p), symmetric=True) for _ in s]
    mask = np.ones((p, p)) if diagonal else 1 - np.eye(p)
    value = sum(
        nk * (-cp.log_det(t) + cp.sum(cp.multiply(sk, t)) + alpha * cp.sum(cp.multiply(wk * mask, cp.abs(t))))
        for nk, sk, wk, t in zip(n, s, w, theta, strict=True)
    )
    if kind == "fused":
        value += coupling * sum(
            cp.sum(cp.multiply(vk, cp.abs(a - b))) for vk, a, b in zip(v, theta[:-1], theta[1:], strict=True)
        )
    elif kind == "smooth":
        value += (
            coupling
            / 2
            * sum(cp.sum(cp.multiply(vk, cp.square(a - b))) for vk, a, b in zip(v, theta[:-1], theta[1:], strict=True))
        )
    elif kind == "pairs":
        value += coupling * sum(cp.sum(cp.multiply(v[0], cp.abs(a - b))) for a, b in combinations(theta, 2))
    else:
        value += coupling * sum(
            v[0][i, j] * cp.norm(cp.hstack([np.sqrt(nk) * t[i, j] for nk, t in zip(n, theta, strict=True)]))
            for i in range(p)
            for j in range(p)
            if i != j
        )
    problem = cp.Problem(cp.Minimize(value))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-11)
    return [t.value for t in theta], problem.value


def symmetric(rng, count, p):
    """Return symmetric matrices of entries between a half and three halves."""
    a = rng.uniform(0.5, 1.5, size=(count, p, p))
    return ((a + a.transpose(0, 2, 1)) / 2).round(2)


def main():
    """Write the cases beside this file."""
    rng, cases = np.random.default_rng(7), {}
    for name, (p, kind, alpha, coupling, diagonal, least) in CASES.items():
        s = covariances(p, least, rng)
        w, v = symmetric(rng, N_PERIODS, p), symmetric(rng, N_PERIODS - 1 if kind in ("fused", "smooth") else 1, p)
        n = np.array([0.5, 1.0, 0.7, 1.8])
        theta, value = solve(s, kind, alpha, coupling, diagonal, w, v, n)
        cases[name] = {
            "kind": kind,
            "alpha": alpha,
            "coupling": coupling,
            "penalize_diagonal": diagonal,
            "covariances": s.tolist(),
            "weights": w.tolist(),
            "difference_weights": (v if len(v) > 1 else v[0]).tolist(),
            "period_weights": n.tolist(),
            "precisions": np.round(theta, 7).tolist(),
            "objective": float(value),
        }
    text = json.dumps(cases, indent=None, separators=(",", ":"))
    Path(__file__).with_name("joint_references.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
