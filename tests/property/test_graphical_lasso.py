"""Symmetries that the graphical lasso has and its solvers must keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_learn.glasso.solving import SOLVERS, graphical_lasso

TOL = 1e-11
seeds = st.integers(0, 2**32 - 1)
sizes = st.integers(1, 8)
quick = settings(max_examples=15, deadline=None)


def indefinite(p: int, seed: int) -> tuple[np.ndarray, float]:
    """Return a debiased covariance, and a penalty that makes it solvable with some room."""
    rng = np.random.default_rng(seed)
    s = np.atleast_2d(np.cov(rng.normal(size=(3 * p + 2, p)) @ rng.normal(size=(p, p)), rowvar=False))
    s = s - 0.2 * float(np.mean(s.diagonal())) * np.eye(p)
    return s, 0.1 + max(0.0, -1.2 * float(np.linalg.eigvalsh(s)[0]))


def close(a: np.ndarray, b: np.ndarray) -> None:
    """Equal up to what a gap of 1e-11 a column allows."""
    np.testing.assert_allclose(a, b, rtol=0.0, atol=2e-4 * np.abs(b).max())


@pytest.mark.parametrize("solver", SOLVERS)
@quick
@given(p=sizes, seed=seeds)
def test_permuting_the_columns_permutes_the_answer(solver: str, p: int, seed: int) -> None:
    """The order of the columns does not matter."""
    s, alpha = indefinite(p, seed)
    order = np.random.default_rng(seed).permutation(p)
    block = np.ix_(order, order)
    one = graphical_lasso(s, alpha, solver=solver, tol=TOL)
    other = graphical_lasso(s[block], alpha, solver=solver, tol=TOL)
    close(other.precision, one.precision[block])


@pytest.mark.parametrize("solver", SOLVERS)
@quick
@given(p=sizes, seed=seeds, exponent=st.floats(-6, 6))
def test_other_units_are_another_alpha_and_other_weights(solver: str, p: int, seed: int, exponent: float) -> None:
    """In other units the precision matrix has other units: of all columns alpha, and of single ones weights."""
    s, alpha = indefinite(p, seed)
    d = 10.0 ** np.random.default_rng(seed).uniform(-2, 2, size=p)
    units, c = np.outer(d, d), 10.0**exponent
    one = graphical_lasso(s, alpha, solver=solver, tol=TOL)
    other = graphical_lasso(c * units * s, c * alpha, weights=units, solver=solver, tol=TOL)
    close(c * units * other.precision, one.precision)


@pytest.mark.parametrize("solver", SOLVERS)
@quick
@given(p=sizes, seed=seeds, factor=st.floats(0.9, 20))
def test_warm_start_does_not_change_the_answer(solver: str, p: int, seed: int, factor: float) -> None:
    """Wherever the solver starts, even from another matrix's answer, it ends at the same optimum."""
    s, alpha = indefinite(p, seed)
    other, enough = indefinite(p, seed + 1)
    cold = graphical_lasso(s, alpha, solver=solver, tol=TOL)
    for start in (graphical_lasso(s, factor * alpha, solver=solver), graphical_lasso(other, enough, solver=solver)):
        warm = graphical_lasso(s, alpha, solver=solver, tol=TOL, start=start)
        assert warm.converged
        close(warm.precision, cold.precision)
