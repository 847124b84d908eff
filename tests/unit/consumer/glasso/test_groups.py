"""Tests of the group graphical lasso."""

import json
from pathlib import Path

import numpy as np
import pytest

from dp_bundle.base.errors import NoSolutionError, ParameterError
from dp_learn.glasso import group_solving
from dp_learn.glasso.group_solving import split_components
from dp_learn.glasso.groups import make_group_problem, make_groups
from dp_learn.glasso.solvers.admm import improve
from dp_learn.glasso.solvers.standard_form import Incumbent
from dp_learn.glasso.solving import graphical_lasso

REFERENCES = json.loads(Path(__file__).with_name("group_references.json").read_text(encoding="utf-8"))


def _nodes(case):
    return np.repeat(np.arange(len(case["sizes"])), case["sizes"]), len(case["covariance"])


def _penalty(case):
    weights = None if case["weights"] == "sizes" else np.ones((len(case["sizes"]),) * 2)
    return {"alpha": case["alpha"], "weights": weights, "penalize_diagonal": case["penalize_diagonal"]}


def _solve(case, tol=1e-12):
    return graphical_lasso(case["covariance"], groups=_nodes(case)[0], tol=tol, **_penalty(case))


def _chain(labels, seed=0, rows=200):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, len(labels)))
    x[:, 1:] += 0.5 * x[:, :-1]
    return np.corrcoef(x.T)


@pytest.mark.parametrize("name", REFERENCES)
def test_agrees_with_cvxpy(name):
    """The precision matrix is the one that cvxpy found, and the gap proves it; a rough answer's is a bound, too."""
    case = REFERENCES[name]
    solution, rough = _solve(case), _solve(case, tol=1e-3)
    assert np.abs(solution.precision - case["precision"]).max() <= 1e-5
    assert solution.objective == pytest.approx(case["objective"], abs=1e-7)
    assert 0.0 <= solution.duality_gap <= 1e-9

    problem = make_group_problem(case["covariance"], groups=make_groups(*_nodes(case)), **_penalty(case))
    assert (problem.norms(rough.covariance - problem.covariance) <= problem.penalty + 1e-9).all()
    assert np.linalg.eigvalsh(rough.covariance)[0] > 0.0
    assert rough.objective - case["objective"] <= rough.duality_gap + 1e-8


def test_scalar_groups_are_the_problem_without_groups():
    """Nodes of one column each give the same bits as no groups."""
    s = _chain(range(12))
    plain, grouped = graphical_lasso(s, 0.1), graphical_lasso(s, 0.1, groups=list("abcdefghijkl"))
    assert (plain.precision == grouped.precision).all()
    assert plain.objective == grouped.objective


def test_order_of_columns_does_not_matter():
    """Columns of a node need not stand beside each other."""
    labels = np.array(["a", "b", "a", "c", "b", "b", "d", "a"])
    s, shuffled = _chain(labels), np.random.default_rng(1).permutation(8)
    first = graphical_lasso(s, 0.1, groups=labels, tol=1e-12)
    second = graphical_lasso(s[np.ix_(shuffled, shuffled)], 0.1, groups=labels[shuffled], tol=1e-12)
    assert np.abs(first.precision[np.ix_(shuffled, shuffled)] - second.precision).max() < 1e-5


def test_blocks_are_zero_or_not_as_a_whole():
    """A block of the answer has all its entries or none, and screening finds no more components than the answer."""
    labels = np.repeat(np.arange(8), [1, 3, 2, 4, 1, 2, 5, 2])
    s = _chain(labels, rows=100)
    s[:10, 10:], s[10:, :10] = 0.3 * s[:10, 10:], 0.3 * s[10:, :10]
    solution = graphical_lasso(s, 0.12, groups=labels)
    problem = make_group_problem(s, 0.12, make_groups(labels, 20))
    blocks = problem.norms(solution.precision) > 0.0
    assert (problem.spread(blocks) == (solution.precision != 0.0)).all()
    assert 8 < blocks.sum() < 64
    assert solution.n_components == len(split_components(problem)) > 1


def test_forbidden_and_free_edges():
    """An infinite weight empties a block; with a zero weight the covariance of a block is reproduced."""
    labels = [0, 0, 1, 1, 1, 2]
    weights = np.array([[1.0, np.inf, 0.0], [np.inf, 1.0, 1.0], [0.0, 1.0, 1.0]])
    s = _chain(labels)
    solution = graphical_lasso(s, 0.05, groups=labels, weights=weights, penalize_diagonal=False, tol=1e-12)
    assert (solution.precision[:2, 2:5] == 0.0).all()
    assert np.abs(np.linalg.inv(solution.precision)[:2, 5] - s[:2, 5]).max() < 1e-5


def test_no_solution_names_an_alpha_that_has_one(monkeypatch):
    """An indefinite matrix is refused at a small alpha with a larger one, which is sought once it is asked for."""
    case = REFERENCES["indefinite"]
    labels = np.repeat(np.arange(len(case["sizes"])), case["sizes"])
    ask = {"groups": labels, "penalize_diagonal": False}
    sought, is_feasible = [], group_solving._is_feasible
    monkeypatch.setattr(group_solving, "_is_feasible", lambda problem: sought.append(1) or is_feasible(problem))
    with pytest.raises(NoSolutionError) as refused:
        graphical_lasso(case["covariance"], 1e-4, **ask)
    assert not sought
    smallest = refused.value.smallest_alpha
    assert sought
    assert graphical_lasso(case["covariance"], smallest, tol=1e-2, **ask).duality_gap < np.inf
    with pytest.raises(NoSolutionError):
        graphical_lasso(case["covariance"], 0.95 * smallest, **ask)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"groups": [0, 0, 1]}, "groups"),
        ({"groups": [[0], [0], [1], [1]]}, "groups"),
        ({"weights": np.ones((4, 4))}, "weights"),
        ({"alpha": -1.0}, "alpha"),
        ({"tol": 0.0}, "tol"),
    ],
)
def test_bad_input_is_named(change, name):
    """Each bad argument is refused by name."""
    with pytest.raises(ParameterError, match=name):
        graphical_lasso(**({"covariance": np.eye(4), "alpha": 0.1, "groups": [0, 0, 1, 2]} | change))


def _factor(p, noise):
    """Correlations of one market factor with four sectors, and symmetric noise."""
    rng = np.random.default_rng(0)
    loadings = np.column_stack([rng.uniform(0.3, 1.5, p), 0.6 * (np.arange(p)[:, None] % 4 == np.arange(4))])
    covariance = loadings @ loadings.T + np.diag(rng.uniform(0.5, 1.5, p))
    d = 1.0 / np.sqrt(covariance.diagonal())
    errors = noise * rng.normal(size=(p, p))
    return covariance * np.outer(d, d) + (errors + errors.T) / np.sqrt(2.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "noise", "alpha"),
    [
        ([4] * 15, 0.0, 0.02),  # a dense answer
        ([30] + [3] * 10, 0.0, 0.02),  # a node of many columns
        ([1, 2, 3, 4, 5] * 4, 0.1, 0.1),  # an indefinite matrix
        ([1, 2, 3, 4, 5] * 4, 0.1, None),  # the same near the smallest alpha
    ],
)
def test_hard_problems_agree_with_admm(sizes, noise, alpha):
    """Dense and indefinite problems have the value that ADMM finds, a proof that holds, and the same bits twice."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    s = _factor(60, noise)
    if alpha is None:
        with pytest.raises(NoSolutionError) as refused:
            graphical_lasso(s, 1e-3, groups=labels)
        alpha = 1.1 * refused.value.smallest_alpha
    solution = graphical_lasso(s, alpha, groups=labels, tol=1e-9)
    problem = make_group_problem(s, alpha, make_groups(labels, 60))
    assert solution.status == "optimal"
    value, gap = problem.certify(solution.precision, problem.project(solution.covariance))
    assert value == pytest.approx(solution.objective, abs=1e-9)
    assert gap <= 1e-7

    best = Incumbent(problem)
    improve(problem, best, None, gap=1e-6, max_iter=20_000)
    assert best.duality_gap <= 1e-6
    assert abs(best.value - solution.objective) <= 2e-6
    again = graphical_lasso(s, alpha, groups=labels, tol=1e-9)
    assert (again.precision == solution.precision).all()
    assert (again.covariance == solution.covariance).all()


def test_few_iterations_are_not_taken_for_no_solution():
    """One iteration gives a rough answer with its gap where there is a solution, and none where there is none."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 2)
    loadings = np.column_stack([rng.uniform(0.3, 1.5, 40), 0.6 * (np.arange(40)[:, None] % 4 == np.arange(4))])
    noise = 0.3 * rng.normal(size=(40, 40))
    covariance = loadings @ loadings.T + np.diag(rng.uniform(0.5, 1.5, 40)) + noise + noise.T
    assert np.linalg.eigvalsh(covariance)[0] < 0.0

    exact = graphical_lasso(covariance, 0.5, groups=labels)
    rough = graphical_lasso(covariance, 0.5, groups=labels, max_iter=1)
    assert rough.status == "max_iter"
    assert exact.duality_gap < rough.duality_gap < np.inf
    assert rough.objective - rough.duality_gap <= exact.objective <= rough.objective + 1e-6
    with pytest.raises(NoSolutionError):
        graphical_lasso(covariance, 0.01, groups=labels, max_iter=1)
