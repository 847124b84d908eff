"""The joint graphical lasso against its duality gap, which is computed here from nothing but the definition."""

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from dp_bundle.base.errors import NoSolutionError, ParameterError
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.joint import JointSolution, joint_graphical_lasso, refit_jointly
from dp_learn.glasso.problem import Status
from dp_learn.glasso.solving import graphical_lasso

N = np.array([0.5, 1.0, 0.7, 1.8])  # weights of periods, of mean 1
CASES = {  # columns, kind, alpha, coupling, diagonal penalised, least eigenvalue of the second period
    "fused": (15, "fused", 0.1, 0.05, True, 0.05),
    "fused, indefinite": (8, "fused", 0.3, 0.1, True, -0.2),
    "smooth": (8, "smooth", 0.1, 0.03, False, 0.05),
    "pairs": (8, "pairs", 0.1, 0.03, True, 0.05),
    "group": (8, "group", 0.08, 0.1, False, 0.05),
}


def periods(n_periods: int = 4, p: int = 8, least: float | None = None) -> np.ndarray:
    """Return related correlation matrices, of which the second has a given smallest eigenvalue."""
    rng = np.random.default_rng(7)
    root, found = np.eye(p) + 0.4 * rng.normal(size=(p, p)), []
    for k in range(n_periods):
        s = np.corrcoef((rng.normal(size=(60, p)) @ (root + 0.05 * rng.normal(size=(p, p)))).T)
        if k == 1 and least is not None:
            d, q = np.linalg.eigh(s)
            d[0] = least
            s = (q * d) @ q.T
        found.append((s + s.T) / 2)
    return np.array(found)


def symmetric(count: int, p: int) -> np.ndarray:
    """Return symmetric matrices of entries between a half and three halves."""
    a = np.random.default_rng(1).uniform(0.5, 1.5, size=(count, p, p))
    return (a + a.transpose(0, 2, 1)) / 2


def arguments(name: str) -> dict[str, Any]:
    """Return a problem with unequal weights of everything."""
    p, kind, alpha, coupling, diagonal, least = CASES[name]
    v = symmetric(3 if kind in {"fused", "smooth"} else 1, p)
    s = periods(4, p, least)
    if name == "pairs":  # components, and a column alone
        s[:, :4, 4:], s[:, 4:, :4], s[:, 7, :7], s[:, :7, 7] = 0.0, 0.0, 0.0, 0.0
    return {
        "covariances": s,
        "alpha": alpha,
        "coupling": coupling,
        "kind": kind,
        "penalize_diagonal": diagonal,
        "weights": symmetric(4, p),
        "difference_weights": v if len(v) > 1 else v[0],
        "period_weights": N,
    }


def gap_of(given: dict[str, Any], found: JointSolution) -> tuple[float, float]:
    """Return the objective, and its gap to the dual value of W, which is seen to be feasible.

    With P = n (W - S), R within alpha's box and Y dual to the coupling, P = R + Y is possible where for all sets of
    periods |sum P| is at most what the box and the coupling's cut of the set allow (generalised polymatroids).
    """
    s, theta, w, kind = given["covariances"], found.precisions, found.covariances, given["kind"]
    p, v = s.shape[1], given["coupling"] * np.broadcast_to(given["difference_weights"], (3, *s.shape[1:]))
    free = np.ones((p, p)) if given["penalize_diagonal"] else 1.0 - np.eye(p)
    box = N[:, None, None] * given["alpha"] * given["weights"] * free
    dual, conjugate = N[:, None, None] * (w - s), 0.0

    if kind == "smooth":
        steps = v * -np.diff(theta, axis=0)
        y = np.concatenate([steps, np.zeros((1, p, p))]) - np.concatenate([np.zeros((1, p, p)), steps])
        cost, conjugate = (v * np.diff(theta, axis=0) ** 2).sum() / 2, (steps**2 / v).sum() / 2
        assert (np.abs(dual - y) <= box + 1e-6).all()
    elif kind == "group":
        off = v[0] * (1.0 - np.eye(p))
        cost = (off * np.sqrt(np.tensordot(N, theta**2, 1))).sum()
        left = dual - np.clip(dual, -box, box)
        assert (np.sqrt((left**2 / N[:, None, None]).sum(axis=0)) <= off + 1e-9).all()
    else:
        ends = list(combinations(range(4), 2)) if kind == "pairs" else [(0, 1), (1, 2), (2, 3)]
        strength = dict(zip(ends, [v[0]] * 6 if kind == "pairs" else v, strict=True))
        cost = sum((g * np.abs(theta[k] - theta[n])).sum() for (k, n), g in strength.items())
        for chosen in (set(each) for size in range(1, 5) for each in combinations(range(4), size)):
            cut = sum((g for (k, n), g in strength.items() if (k in chosen) != (n in chosen)), np.zeros((p, p)))
            at = sorted(chosen)
            assert (np.abs(dual[at].sum(axis=0)) <= cut + box[at].sum(axis=0) + 1e-9).all()

    primal = cost + (box * np.abs(theta)).sum() + N @ ((s * theta).sum(axis=(1, 2)) - np.linalg.slogdet(theta)[1])
    return float(primal), float(primal + conjugate - N @ (np.linalg.slogdet(w)[1] + p))


@pytest.mark.parametrize("name", CASES)
def test_gap_is_proven(name: str) -> None:
    """The answer has the stated objective and a gap of nothing; a rough one's gap is that which it states."""
    given = arguments(name)
    for tol, most in ((1e-13, 1e-9), (1e-3, 1e-3 * CASES[name][0] * 4)):
        found = joint_graphical_lasso(**given, tol=tol)
        value, gap = gap_of(given, found)
        assert found.converged
        assert np.linalg.eigvalsh(found.covariances).min() > 0.0 < np.linalg.eigvalsh(found.precisions).min()
        assert found.objective == pytest.approx(value, abs=1e-9)
        assert -1e-9 <= gap <= most
        if given["kind"] != "smooth" or tol < 1e-9:
            assert found.duality_gap == pytest.approx(gap, abs=1e-9)


def test_without_coupling_it_is_the_single_graphs() -> None:
    """Every matrix has the same bits as alone."""
    s = periods()
    joint = joint_graphical_lasso(s, 0.1, 0.0, kind="smooth", period_weights=[1, 2, 3, 4])
    for own, together in zip(s, joint.precisions, strict=True):
        assert (graphical_lasso(own, 0.1, solver="auto").precision == together).all()


@pytest.mark.parametrize("kind", ["fused", "smooth", "pairs"])
def test_with_a_strong_coupling_it_is_the_pooled_graph(kind: str) -> None:
    """An infinite coupling gives the graph of the weighted mean, and so does a strong one but for smooth changes."""
    s = periods()
    pooled = graphical_lasso(np.tensordot(N / N.sum(), s, 1), 0.1, tol=1e-12).precision
    for strength in (np.inf,) if kind == "smooth" else (np.inf, 3.0):
        found = joint_graphical_lasso(s, 0.1, strength, kind=kind, period_weights=N, tol=1e-12)
        assert np.abs(found.precisions - pooled).max() <= 3e-6


def test_periods_that_have_no_solution_alone_may_have_one_together() -> None:
    """Where none is had, the alpha that is named has one in every period; a coupling may do with less."""
    s = periods()
    s[1][:3, :3] = [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]
    smallest = smallest_solvable_alpha(s[1])
    with pytest.raises(NoSolutionError) as refused:
        joint_graphical_lasso(s, 0.5 * smallest, 1e-4)
    assert refused.value.smallest_alpha == smallest
    assert joint_graphical_lasso(s, 0.5 * smallest, 1.0).converged


def test_an_unpenalised_fit_has_the_moments_that_it_may_fit() -> None:
    """Tied entries of the inverse have the weighted mean of the covariances; others are zero."""
    s, n = periods(3), np.array([1.0, 2.0, 3.0])
    chosen = joint_graphical_lasso(s, 0.15, 0.1, period_weights=n)
    fit = refit_jointly(s, chosen, n, tol=1e-12)
    assert ((fit.precisions != 0.0) == (chosen.precisions != 0.0)).all()
    misfit = n[:, None, None] * (np.linalg.inv(fit.precisions) - s)
    for number in range(1, 4):
        assert np.abs(np.where(chosen.ties == number, misfit, 0.0).sum(axis=0)).max() <= 1e-5


@pytest.mark.parametrize(
    "wrong",
    [
        {"covariances": np.eye(8)},
        {"alpha": 0.0},
        {"coupling": -1.0},
        {"kind": "none"},
        {"weights": np.full((8, 8), np.inf)},
        {"period_weights": [1.0]},
        {"difference_weights": -1},
    ],
)
def test_what_is_not_allowed_is_named(wrong: dict[str, Any]) -> None:
    """Bad arguments are refused by name."""
    with pytest.raises(ParameterError) as refused:
        joint_graphical_lasso(**{"covariances": periods(), "alpha": 0.1, "coupling": 0.1} | wrong)
    assert re.split(r"[.\[]", refused.value.name)[0] in wrong


def test_a_start_only_changes_the_time() -> None:
    """From the answer of another alpha there are fewer iterations to the same answer; too few end without one."""
    s = periods()
    near = joint_graphical_lasso(s, 0.11, 0.05, tol=1e-12)
    cold, warm = (joint_graphical_lasso(s, 0.1, 0.05, tol=1e-12, start=start) for start in (None, near))
    assert np.abs(cold.precisions - warm.precisions).max() <= 1e-6
    assert warm.n_iter <= cold.n_iter
    assert joint_graphical_lasso(s, 0.1, 0.05, tol=1e-14, max_iter=7).status is Status.MAX_ITER
