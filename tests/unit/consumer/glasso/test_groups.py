"""The group graphical lasso against its duality gap, which is computed here from nothing but the definition."""

import numpy as np
import pytest

from dp_bundle.base.errors import NoSolutionError
from dp_learn.glasso.problem import Solution, make_group_problem, make_groups
from dp_learn.glasso.solving import graphical_lasso, split_components

CASES = {  # sizes of the nodes, noise, alpha, weights by sizes, diagonal penalised
    "few nodes": ([1, 3, 2, 4, 1, 2, 1], 0.0, 0.12, True, True),
    "free diagonal": ([2, 1, 5, 3, 1], 0.0, 0.1, False, False),
    "indefinite": ([1, 3, 2, 2, 4], 0.1, 0.3, False, False),
    "dense": ([4] * 7, 0.0, 0.02, True, True),
    "a wide node": ([12] + [3] * 4, 0.0, 0.02, True, True),
    "many nodes": ([6] + [1] * 50, 0.0, 0.3, True, True),
    "many nodes, indefinite": ([1, 2] * 30, 0.1, 0.15, True, True),
}


def factors(p: int, noise: float) -> np.ndarray:
    """Return correlations of one market factor with four sectors, and symmetric noise."""
    rng = np.random.default_rng(0)
    loadings = np.column_stack([rng.uniform(0.3, 1.5, p), 0.6 * (np.arange(p)[:, None] % 4 == np.arange(4))])
    covariance = loadings @ loadings.T + np.diag(rng.uniform(0.5, 1.5, p))
    d = 1.0 / np.sqrt(covariance.diagonal())
    errors = noise * rng.normal(size=(p, p))
    return covariance * np.outer(d, d) + (errors + errors.T) / np.sqrt(2.0)


def chain(p: int, rows: int = 200) -> np.ndarray:
    """Return correlations of columns that depend on the one before."""
    x = np.random.default_rng(0).normal(size=(rows, p))
    x[:, 1:] += 0.5 * x[:, :-1]
    return np.corrcoef(x.T)


def gap_of(s: np.ndarray, found: Solution, sizes: list[int], penalty: np.ndarray, diagonal: float) -> float:
    """Return the gap of a precision matrix to the dual value of W, which is seen to be feasible."""
    ends = np.cumsum([0, *sizes])

    def norms(matrix: np.ndarray) -> np.ndarray:
        return np.sqrt(np.add.reduceat(np.add.reduceat(matrix**2, ends[:-1], axis=0), ends[:-1], axis=1))

    apart = found.covariance - s - diagonal * np.eye(len(s))
    limits = penalty - np.diag(penalty.diagonal())
    assert (norms(apart) <= limits + 1e-9).all()
    theta = found.precision
    costs = (limits * norms(theta)).sum() + diagonal * np.trace(theta)
    primal = (s * theta).sum() + costs - np.linalg.slogdet(theta)[1]
    return float(primal - np.linalg.slogdet(found.covariance)[1] - len(s))


@pytest.mark.parametrize("name", CASES)
def test_gap_is_proven(name: str) -> None:
    """The answer's gap is nothing, a rough one's at most as stated; bits are the same twice, and it is a start."""
    sizes, noise, alpha, by_sizes, diagonal = CASES[name]
    s, labels = factors(sum(sizes), noise), np.repeat(np.arange(len(sizes)), sizes)
    weights = None if by_sizes else np.ones((len(sizes),) * 2)
    penalty = alpha * (np.sqrt(np.outer(sizes, sizes)) if by_sizes else weights)
    options = {"groups": labels, "weights": weights, "penalize_diagonal": diagonal}
    for tol in (1e-10, 1e-3):
        found, again = (graphical_lasso(s, alpha, tol=tol, **options) for _ in range(2))
        warm = graphical_lasso(s, alpha, tol=100 * tol, start=found, **options)
        gap = gap_of(s, found, sizes, penalty, alpha * diagonal)
        assert found.converged
        assert np.linalg.eigvalsh(found.covariance)[0] > 0.0 < np.linalg.eigvalsh(found.precision)[0]
        assert -1e-9 <= gap <= tol * len(s) + 1e-9
        assert gap - 1e-8 <= found.duality_gap <= 1.1 * gap + 1e-8
        assert (again.precision == found.precision).all()
        assert warm.n_iter <= 1


def test_scalar_groups_are_the_problem_without_groups() -> None:
    """Nodes of one column each give the same bits as no groups."""
    plain, grouped = (graphical_lasso(chain(12), 0.1, groups=each) for each in (None, list("abcdefghijkl")))
    assert (plain.precision == grouped.precision).all()


def test_order_of_columns_does_not_matter() -> None:
    """Columns of a node need not stand beside each other."""
    labels = np.array(["a", "b", "a", "c", "b", "b", "d", "a"])
    s, shuffled = chain(8), np.random.default_rng(1).permutation(8)
    first = graphical_lasso(s, 0.1, groups=labels, tol=1e-12)
    second = graphical_lasso(s[np.ix_(shuffled, shuffled)], 0.1, groups=labels[shuffled], tol=1e-12)
    assert np.abs(first.precision[np.ix_(shuffled, shuffled)] - second.precision).max() < 1e-5


def test_blocks_are_zero_or_not_as_a_whole() -> None:
    """A block of the answer has all its entries or none, and screening finds no more components than the answer."""
    labels = np.repeat(np.arange(8), [1, 3, 2, 4, 1, 2, 5, 2])
    s = chain(20, rows=100)
    s[:10, 10:], s[10:, :10] = 0.3 * s[:10, 10:], 0.3 * s[10:, :10]
    solution = graphical_lasso(s, 0.12, groups=labels)
    problem = make_group_problem(s, 0.12, make_groups(labels, 20))
    blocks = problem.norms(solution.precision) > 0.0
    assert (problem.spread(blocks) == (solution.precision != 0.0)).all()
    assert 8 < blocks.sum() < 64
    assert solution.n_components == len(split_components(problem.linked)) > 1


def test_forbidden_and_free_edges() -> None:
    """An infinite weight empties a block; with a zero weight the covariance of a block is reproduced."""
    weights = np.array([[1.0, np.inf, 0.0], [np.inf, 1.0, 1.0], [0.0, 1.0, 1.0]])
    options = {"groups": [0, 0, 1, 1, 1, 2], "weights": weights, "penalize_diagonal": False}
    solution = graphical_lasso(chain(6), 0.05, tol=1e-12, **options)
    assert (solution.precision[:2, 2:5] == 0.0).all()
    assert np.abs(np.linalg.inv(solution.precision)[:2, 5] - chain(6)[:2, 5]).max() < 1e-5


@pytest.mark.parametrize(("p", "n_nodes"), [(24, 8), pytest.param(60, 60, marks=pytest.mark.slow)])
def test_no_solution_names_an_alpha_that_has_one(p: int, n_nodes: int) -> None:
    """Of few nodes and many, the alpha that is named has a solution, which one iteration does not take for none."""
    s, labels = factors(p, 0.15), np.repeat(np.arange(n_nodes), 3) if n_nodes < p else [0, *range(p - 1)]
    with pytest.raises(NoSolutionError) as refused:
        graphical_lasso(s, 1e-3, groups=labels, max_iter=1)
    smallest = refused.value.smallest_alpha
    found, rough = (graphical_lasso(s, 1.1 * smallest, max_iter=each, groups=labels) for each in (10_000, 1))
    assert found.converged
    assert found.objective <= rough.objective + 1e-6
    assert rough.objective - rough.duality_gap <= found.objective
    with pytest.raises(NoSolutionError):
        graphical_lasso(s, 0.95 * smallest, groups=labels)
