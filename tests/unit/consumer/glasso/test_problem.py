"""Bad input is named, and a problem without a solution has its smallest alpha."""

import math
from typing import Any

import numpy as np
import pytest

from dp_bundle.base.errors import NoSolutionError, ParameterError
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.problem import Solution, Status, duality_gap, make_problem
from dp_learn.glasso.solving import graphical_lasso

GOOD = np.array([[2.0, 0.5], [0.5, 1.0]])
PAIR = np.array([[1.0, 3.0], [3.0, 1.0]])
WIDE = Solution(np.eye(3), np.eye(3), 3.0, 0.0, 1, Status.OPTIMAL, 0.1, "cd", 3)
FORBIDDEN = [[1.0, math.inf], [math.inf, 1.0]]
BAD: list[tuple[Any, dict[str, Any], str]] = [
    ([[1.0, math.nan], [math.nan, 1.0]], {}, "covariance[0, 1]"),
    ([[1.0, 0.5], [0.4, 1.0]], {}, "covariance[0, 1]"),
    (np.ones((2, 3)), {}, "covariance.shape"),
    (np.ones((0, 0)), {}, "covariance.shape"),
    (1.0, {}, "covariance.shape"),
    ([["a", "b"], ["c", "d"]], {}, "covariance"),
    (GOOD + 1j, {}, "covariance"),
    (np.diag([1.0, 0.0]), {"penalize_diagonal": False}, "covariance[1, 1]"),
    (np.diag([-0.5, 1.0]), {"penalize_diagonal": False}, "covariance[0, 0]"),
    *((GOOD, {"alpha": alpha}, "alpha") for alpha in (0.0, -1, math.nan, "auto", True)),
    (GOOD, {"solver": "lars"}, "solver"),
    (GOOD, {"tol": 0}, "tol"),
    (GOOD, {"max_iter": 0}, "max_iter"),
    (GOOD, {"weights": np.ones((3, 3))}, "weights.shape"),
    (GOOD, {"weights": [[1.0, -1.0], [-1.0, 1.0]]}, "weights[0, 1]"),
    (GOOD, {"weights": [[math.inf, 1.0], [1.0, 1.0]]}, "weights[0, 0]"),
    (GOOD, {"weights": [[1.0, math.inf], [1.0, 1.0]]}, "weights[0, 1]"),
    (GOOD, {"start": WIDE}, "start"),
    (GOOD, {"groups": [0, 0, 1]}, "groups"),
    (GOOD, {"groups": [[0], [1]]}, "groups"),
    (np.eye(3), {"groups": [0, 0, 1], "weights": np.ones((3, 3))}, "weights.shape"),
    (np.eye(3), {"groups": [0, 0, 1], "alpha": -1.0}, "alpha"),
]


@pytest.mark.parametrize(("covariance", "options", "name"), BAD)
def test_bad_input_is_named(covariance: Any, options: dict[str, Any], name: str) -> None:
    """The error names the argument, or the entry of it."""
    with pytest.raises(ParameterError) as refused:
        graphical_lasso(covariance, **{"alpha": 0.1, **options})
    assert refused.value.name == name


def test_rounding_is_not_asymmetry() -> None:
    """A matrix that is symmetric up to rounding is accepted, symmetrised and left as it was."""
    s = GOOD.copy()
    s[0, 1] *= 1.0 + 1e-14
    problem = make_problem(s, 0.1)
    assert np.array_equal(problem.covariance, problem.covariance.T)
    assert s[0, 1] != s[1, 0]


def test_gap_of_an_infeasible_pair_is_infinite() -> None:
    """A dual matrix outside its box, or an indefinite one, certifies nothing; nor has a forbidden edge a value."""
    problem, indefinite = make_problem(GOOD, 0.1), np.array([[1.0, 2.0], [2.0, 1.0]])
    assert math.isfinite(duality_gap(problem, np.eye(2), GOOD))
    assert duality_gap(problem, np.eye(2), GOOD + 0.2) == math.inf
    assert duality_gap(problem, indefinite, GOOD) == math.inf
    forbidden = make_problem(GOOD, 0.1, weights=FORBIDDEN)
    assert duality_gap(forbidden, np.array([[1.0, 0.1], [0.1, 1.0]]), GOOD) == math.inf


@pytest.mark.parametrize(
    ("covariance", "options", "smallest"),
    [
        (GOOD, {}, 0.0),
        ([[1.0]], {"penalize_diagonal": False}, 0.0),
        (PAIR, {}, 1.0),
        (PAIR, {"penalize_diagonal": False}, 2.0),
        ([[-2.0]], {}, 2.0),
        (np.diag([1.0, -0.5]), {}, 0.5),
        (PAIR, {"weights": np.zeros((2, 2))}, math.inf),
        (PAIR, {"weights": FORBIDDEN}, 0.0),
    ],
)
def test_smallest_alpha_in_closed_form(covariance: Any, options: dict[str, Any], smallest: float) -> None:
    """Of a definite matrix it is zero, of one or two columns known, and inf where free entries are indefinite."""
    assert smallest_solvable_alpha(covariance, **options) == pytest.approx(smallest, rel=2e-4, abs=1e-9)
    if smallest:
        with pytest.raises(NoSolutionError) as caught:
            graphical_lasso(covariance, min(0.9 * smallest, 1.0), **options)
        assert caught.value.smallest_alpha == pytest.approx(smallest, rel=2e-4)


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_a_singular_covariance_needs_next_to_nothing(penalize_diagonal: bool) -> None:
    """With fewer rows than columns any positive alpha is enough."""
    s = np.cov(np.random.default_rng(0).normal(size=(5, 12)).T)
    assert smallest_solvable_alpha(s, penalize_diagonal=penalize_diagonal) < 1e-6
