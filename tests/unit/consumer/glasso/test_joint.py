"""Tests of the joint graphical lasso."""

import json
from pathlib import Path

import numpy as np
import pytest

from dp_bundle.base.errors import NoSolutionError, ParameterError
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.joint import joint_graphical_lasso, refit_jointly
from dp_learn.glasso.joint_problem import Chain, Group, Kind, Pairs
from dp_learn.glasso.problem import Status
from dp_learn.glasso.solving import graphical_lasso

REFERENCES = json.loads(Path(__file__).with_name("joint_references.json").read_text(encoding="utf-8"))
NUMBERS = ("covariances", "weights", "difference_weights", "period_weights", "precisions")
REFERENCES = {
    name: {key: np.array(value) if key in NUMBERS else value for key, value in case.items()}
    for name, case in REFERENCES.items()
}


def _solve(case, **others):
    given = {key: value for key, value in case.items() if key not in {"precisions", "objective"}}
    return joint_graphical_lasso(**given | {"tol": 1e-13} | others)


def _periods(n_periods=4, p=8, seed=0, rows=60):
    rng = np.random.default_rng(seed)
    root = np.eye(p) + 0.4 * rng.normal(size=(p, p))
    return np.array([np.corrcoef((rng.normal(size=(rows, p)) @ root).T) for _ in range(n_periods)])


def _box_of(case):
    """Return the largest entry of the subgradient ``n_k (W_k - S_k)`` that alpha alone allows."""
    p = case["covariances"].shape[1]
    free = np.ones((p, p)) if case["penalize_diagonal"] else 1.0 - np.eye(p)
    n = case["period_weights"] / case["period_weights"].mean()
    return n[:, None, None] * case["alpha"] * case["weights"] * free, n


@pytest.mark.parametrize("name", REFERENCES)
def test_agrees_with_cvxpy(name):
    """The precision matrices are those that cvxpy found, and the gap proves it; a rough answer's is a bound, too."""
    case = REFERENCES[name]
    solution, rough = _solve(case), _solve(case, tol=1e-3)
    assert np.abs(solution.precisions - case["precisions"]).max() <= 1e-5
    assert solution.objective == pytest.approx(case["objective"], abs=1e-6)
    assert solution.converged
    assert 0.0 <= solution.duality_gap <= 1e-9
    assert rough.objective - case["objective"] <= rough.duality_gap + 1e-7
    assert np.linalg.eigvalsh(rough.covariances).min() > 0.0


def test_dual_matrices_along_a_chain_are_feasible():
    """What they differ by from the covariances splits in a part within alpha and differences within the coupling."""
    case = REFERENCES["fused, indefinite"]
    rough = _solve(case, tol=1e-3)
    box, n = _box_of(case)
    strength = case["coupling"] * case["difference_weights"]
    parts = n[:, None, None] * (rough.covariances - case["covariances"])
    low = high = np.zeros(parts.shape[1:])  # where sums of the coupling's dual may be
    for k, part in enumerate(parts):
        limit = strength[k] if k < len(strength) else 0.0
        low, high = low + part - box[k], high + part + box[k]
        assert (low <= limit + 1e-9).all()
        assert (high >= -limit - 1e-9).all()
        low, high = np.maximum(low, -limit), np.minimum(high, limit)


def test_without_coupling_it_is_the_single_graphs():
    """Every matrix has the same bits as alone."""
    s = _periods()
    joint = joint_graphical_lasso(s, 0.1, 0.0, kind="smooth", period_weights=[1, 2, 3, 4])
    for own, together in zip(s, joint.precisions, strict=True):
        assert (graphical_lasso(own, 0.1, solver="auto").precision == together).all()


@pytest.mark.parametrize("kind", ["fused", "smooth", "pairs"])
def test_with_a_strong_coupling_it_is_the_pooled_graph(kind):
    """An infinite coupling gives the graph of the weighted mean, and so does a strong one to 1e-6."""
    s, n = _periods(), np.array([1.0, 2.0, 3.0, 2.0])
    pooled = graphical_lasso(np.tensordot(n / n.sum(), s, 1), 0.1, tol=1e-12).precision
    infinite = joint_graphical_lasso(s, 0.1, np.inf, kind=kind, period_weights=n, tol=1e-12)
    assert np.abs(infinite.precisions - pooled).max() <= 1e-6
    if kind != "smooth":  # whose differences only shrink
        strong = joint_graphical_lasso(s, 0.1, 3.0, kind=kind, period_weights=n, tol=1e-12)
        assert np.abs(strong.precisions - pooled).max() <= 1e-6


def test_components_are_exact():
    """Two unrelated blocks are solved apart, with the answer of all columns at once."""
    s = np.zeros((3, 9, 9))
    s[:, :4, :4], s[:, 4:8, 4:8], s[:, 8, 8] = _periods(3, 4), _periods(3, 4, seed=1), 1.0
    whole = joint_graphical_lasso(s, 0.1, 0.05, tol=1e-10)
    part = joint_graphical_lasso(s[:, :4, :4], 0.1, 0.05, tol=1e-10)
    assert np.abs(whole.precisions[:, :4, :4] - part.precisions).max() <= 1e-6
    assert (whole.precisions[:, :4, 4:] == 0.0).all()
    assert whole.precisions[:, 8, 8] == pytest.approx(1.0 / 1.1, abs=1e-5)


def test_periods_that_have_no_solution_alone_may_have_one_together():
    """Where none is had, the alpha that is named has one in every period; a coupling may do with less."""
    s = _periods()
    s[1][:3, :3] = [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]
    smallest = smallest_solvable_alpha(s[1])
    with pytest.raises(NoSolutionError) as refused:
        joint_graphical_lasso(s, 0.5 * smallest, 1e-4)
    assert refused.value.smallest_alpha == smallest
    assert joint_graphical_lasso(s, 0.5 * smallest, 1.0).converged


def test_an_unpenalised_fit_has_the_moments_that_it_may_fit():
    """Tied entries of the inverse have the weighted mean of the covariances; others are zero."""
    s, n = _periods(3), np.array([1.0, 2.0, 3.0])
    chosen = joint_graphical_lasso(s, 0.15, 0.1, period_weights=n)
    fit = refit_jointly(s, chosen, n, tol=1e-12)
    assert ((fit.precisions != 0.0) == (chosen.precisions != 0.0)).all()
    misfit = n[:, None, None] * (np.linalg.inv(fit.precisions) - s)
    for number in range(1, 4):
        assert np.abs(np.where(chosen.ties == number, misfit, 0.0).sum(axis=0)).max() <= 1e-5


def _brute(coupling, a, c, l):  # noqa: E741
    """Return the cost at the answer, and the least cost at points nearby."""
    z = coupling.shrink(a, c, l, 1.0)
    rng = np.random.default_rng(1)

    def cost(x):
        return (c[:, None] * (x - a) ** 2 / 2 + l * np.abs(x)).sum(axis=0) + coupling.values(x)

    nearby = [
        cost(z + size * rng.normal(size=z.shape) * (rng.random(z.shape) < share))
        for size in (1e-1, 1e-2, 1e-3, 1e-4)
        for share in (0.2, 0.5, 1.0)
        for _ in range(60)
    ]
    # and along what keeps equal values equal, or zeros zero
    for size in (1e-2, 1e-3, 1e-4):
        for value in np.unique(z):
            nearby += [cost(z + sign * size * (z == value)) for sign in (-1, 1)]
    return cost(z), np.min(nearby, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", Kind)
def test_shrunk_entries_are_the_nearest(kind):
    """No point near the answer costs less, with unequal weights, penalties and strengths, some of them zero."""
    rng = np.random.default_rng(3)
    a, c = rng.normal(size=(7, 300)), rng.uniform(0.2, 3.0, size=7)
    l, strength = rng.uniform(-0.3, 1.0, size=(2, *a.shape)).clip(0.0)  # noqa: E741
    couplings = {
        Kind.FUSED: Chain(strength[1:]),
        Kind.SMOOTH: Chain(strength[1:], squared=True),
        Kind.PAIRS: Pairs(strength[0] / 4.0),
        Kind.GROUP: Group(strength[0], c),
    }
    found, least = _brute(couplings[kind], a, c, l)
    assert (found <= least + 1e-12).all()


def test_what_is_not_allowed_is_named():
    """Bad arguments are refused by name."""
    s = _periods()
    for name, arguments in {
        "covariances.shape": (s[0], 0.1, 0.1),
        "alpha": (s, 0.0, 0.1),
        "coupling": (s, 0.1, -1.0),
    }.items():
        with pytest.raises(ParameterError, match=name.split(".")[0]):
            joint_graphical_lasso(*arguments)
    wrong = {"kind": "none", "weights": np.full((8, 8), np.inf), "period_weights": [1.0], "difference_weights": -1}
    for named, value in wrong.items():
        with pytest.raises(ParameterError, match=named):
            joint_graphical_lasso(s, 0.1, 0.1, **{named: value})


def test_a_start_only_changes_the_time():
    """From the answer of another alpha there are fewer iterations to the same answer; too few end without one."""
    s = _periods()
    near = joint_graphical_lasso(s, 0.11, 0.05, tol=1e-12)
    cold, warm = (joint_graphical_lasso(s, 0.1, 0.05, tol=1e-12, start=start) for start in (None, near))
    assert np.abs(cold.precisions - warm.precisions).max() <= 1e-6
    assert warm.n_iter <= cold.n_iter
    assert joint_graphical_lasso(s, 0.1, 0.05, tol=1e-14, max_iter=7).status is Status.MAX_ITER
