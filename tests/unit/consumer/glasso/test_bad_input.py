"""Bad input gets one clear sentence each, and unusual input that is good gets an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dp_bundle.base.errors import DpGraphError
from dp_learn import DebiasedGraphicalLasso, graphical_lasso
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows

GOOD = np.array([[1.0, 0.3], [0.3, 2.0]])
ROWS = np.random.default_rng(0).normal(size=(40, 3))

BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "NaN": (lambda: graphical_lasso([[1.0, np.nan], [np.nan, 1.0]], 0.1), r"covariance\[0, 1\] must be finite"),
    "asymmetric": (lambda: graphical_lasso([[1.0, 0.5], [0.2, 1.0]], 0.1), "a symmetric matrix"),
    "not square": (lambda: graphical_lasso(np.ones((2, 3)), 0.1), r"covariance.shape must be \(p, p\)"),
    "one row": (lambda: graphical_lasso(np.ones(3), 0.1), r"covariance.shape must be \(p, p\)"),
    "zero variance, free": (
        lambda: graphical_lasso(np.diag([1.0, 0.0]), 0.1, penalize_diagonal=False),
        "positive where the diagonal is not penalised",
    ),
    "negative variance": (lambda: graphical_lasso(np.diag([1.0, -0.5]), 0.1), "the smallest alpha that has one is 0.5"),
    "alpha zero": (lambda: graphical_lasso(GOOD, 0.0), "alpha must be a finite number > 0"),
    "alpha negative": (lambda: graphical_lasso(GOOD, -1.0), "alpha must be a finite number > 0"),
    "alpha NaN": (lambda: graphical_lasso(GOOD, np.nan), "alpha must be a finite number > 0"),
    "alpha a word": (lambda: graphical_lasso(GOOD, "big"), "alpha must be a finite number > 0"),
    "constant column": (
        lambda: DebiasedGraphicalLasso().fit(np.column_stack([ROWS, np.ones(40)])),
        "no variance is left in x3",
    ),
    "one column": (lambda: DebiasedGraphicalLasso().fit(ROWS[:, :1]), "minimum of 2 is required"),
    "one row of data": (lambda: DebiasedGraphicalLasso().fit(ROWS[:1]), "minimum of 2 is required"),
    "rows with NaN": (lambda: DebiasedGraphicalLasso().fit([[1.0, np.nan], [0.0, 1.0], [2.0, 0.0]]), "contains NaN"),
    "noise of a wrong length": (lambda: table_rows(ROWS, "abc", [1.0, 2.0]), "noise_variance must be"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence(name: str) -> None:
    """What is wrong is named, with what is allowed."""
    call, sentence = BAD[name]
    with pytest.raises((DpGraphError, ValueError), match=sentence):
        call()


def test_one_column_of_a_bundle_has_no_graph() -> None:
    """A sample of one column says that a graph needs two."""
    from dp_learn.covariance.collinear import clear_columns

    with pytest.raises(DpGraphError, match="a graph needs at least two columns"):
        clear_columns(Sample([table_rows(ROWS[:, :1], "a")]).pooled)


def test_one_and_two_columns_and_fewer_rows_than_columns_are_solved() -> None:
    """One column, two columns, and n < p are no mistakes for the solver."""
    assert graphical_lasso([[2.0]], 0.5).precision[0, 0] == pytest.approx(1 / 2.5)
    pair = graphical_lasso(GOOD, 0.1, penalize_diagonal=False, tol=1e-12)
    np.testing.assert_allclose(np.linalg.inv(pair.precision), [[1.0, 0.2], [0.2, 2.0]], rtol=1e-6)
    wide = np.random.default_rng(1).normal(size=(8, 20))
    assert DebiasedGraphicalLasso(0.5).fit(wide).duality_gap_ <= 20e-6
