"""What pandas labels is taken by its labels, or refused: every public name of the researcher's side."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import dp_learn
from dp_bundle.base.errors import ParameterError
from dp_learn import debias_covariance, graphical_lasso, joint_graphical_lasso, smallest_solvable_alpha
from dp_learn.estimators.base import TargetEstimator
from dp_learn.estimators.columnwise import clime_precision, neighborhood_selection, scio_precision
from dp_learn.estimators.thresholded_covariance import threshold_covariance
from dp_learn.matrices.checks import check_covariance
from dp_learn.output.estimator_results import ESTIMATORS
from dp_learn.pipeline.selection import alpha_grid

NAMES = ["a", "b", "c"]
MIXED = ["c", "a", "b"]
NOISE = pd.Series([0.3, 0.6, 0.9], NAMES)
WEIGHTS = pd.DataFrame([[1.0, 0.2, 3.0], [0.2, 1.1, 0.7], [3.0, 0.7, 1.2]], NAMES, NAMES)
Array = NDArray[np.float64]
PER_COLUMN = {"noise_variance", "weights", "groups", "covariance", "covariances"}  # have labels, tested below
NOT_PER_COLUMN = {  # one value, text, a switch, a path of alphas, or an object that has its columns' names inside
    "alpha",
    "alphas",
    "bundle",
    "bundles",
    "classes",
    "confidence",
    "coupling",
    "cv",
    "difference_weights",
    "engine",
    "fdr",
    "kind",
    "max_iter",
    "max_memory",
    "options",
    "order",
    "penalize_diagonal",
    "period_weights",
    "precision",
    "progress",
    "refit",
    "repair",
    "rtol",
    "rule",
    "scale",
    "select",
    "soft",
    "solver",
    "stability",
    "start",
    "strength",
    "target",
    "tol",
}
RESULTS = {
    "Comparison",
    "Description",
    "EdgeInference",
    "Joint",
    "JointSolution",
    "Learned",
    "Moments",
    "Solution",
    "Status",
}


def make_rows() -> pd.DataFrame:
    """Return 400 rows of three related columns with noise of the variances above."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(400, 3)) @ [[2.0, 0.9, 0.5], [0.0, 2.0, 0.7], [0.0, 0.0, 2.0]]
    return pd.DataFrame(values + rng.normal(size=(400, 3)) * np.sqrt(NOISE.to_numpy()), columns=NAMES)


ROWS = make_rows()
COVARIANCE = ROWS.cov()
INDEFINITE = COVARIANCE * np.array([[1.0, 2.0, -2.0], [2.0, 1.0, 2.0], [-2.0, 2.0, 1.0]])


def test_every_public_parameter_is_judged() -> None:
    """A new parameter of a public name is put on one list or the other, or this test fails."""
    public = {getattr(dp_learn, name) for name in dp_learn.__all__ if name not in RESULTS}
    names = {parameter for each in public for parameter in inspect.signature(each).parameters}
    assert names == PER_COLUMN | NOT_PER_COLUMN


def fitted(name: str, noise_variance: Any) -> Array:
    """Return what an estimator learns of the rows."""
    made, table = ESTIMATORS[name](noise_variance=noise_variance), ROWS
    if isinstance(made, TargetEstimator):
        made.set_params(target="c", **({"classes": (-2, 2)} if name == "lda" else {}))
    if name == "lda":
        rng = np.random.default_rng(6)
        signs = np.where(rng.random(len(table)) < 0.5, 2.0, -2.0)
        table = table.assign(c=signs + rng.normal(size=len(table)) * np.sqrt(0.9), a=table["a"] + signs)
    made.fit(table)
    learned: Array = made.coef_ if isinstance(made, TargetEstimator) else made.covariance_
    return learned


@pytest.mark.parametrize("name", ESTIMATORS)
def test_noise_of_an_estimator_goes_by_name(name: str) -> None:
    """A Series in another order is the noise of the columns that it names, and refused if it names others."""
    np.testing.assert_array_equal(fitted(name, NOISE[MIXED]), fitted(name, NOISE.to_numpy()))
    for labels, wrong in (("abd", "c is missing; d is unknown"), ("ab", "c is missing"), ("abcc", "c is there twice")):
        with pytest.raises(ParameterError, match=wrong):
            fitted(name, pd.Series(0.1, [*labels]))


@pytest.mark.parametrize(
    "name", [name for name, made in ESTIMATORS.items() if "weights" in inspect.signature(made).parameters]
)
def test_weights_of_an_estimator_go_by_name(name: str) -> None:
    """A frame of weights in another order penalises the pairs that it names."""

    def learned(given: Any) -> Array:
        precision: Array = ESTIMATORS[name](0.15, weights=given).fit(ROWS).precision_
        return precision

    moved = WEIGHTS.loc[MIXED, ["b", "a", "c"]]
    np.testing.assert_array_equal(learned(moved), learned(WEIGHTS.to_numpy()))
    for wrong in (moved.rename(columns={"b": "z"}), moved.reset_index(drop=True)):
        with pytest.raises(ParameterError, match="weights"):
            learned(wrong)


BESIDE_A_COVARIANCE: dict[str, Callable[[Any, Any], Any]] = {
    "graphical_lasso": lambda s, w: graphical_lasso(s, 0.4, weights=w).precision,
    "smallest_solvable_alpha": lambda s, w: smallest_solvable_alpha(s, weights=w),
    "alpha_grid": lambda s, w: alpha_grid(s, weights=w),
    "clime": lambda s, w: clime_precision(s, 0.1, weights=w),
    "scio": lambda s, w: scio_precision(s, 0.1, weights=w),
    "neighborhood": lambda s, w: neighborhood_selection(s, 0.5, weights=w).precision,
    "threshold": threshold_covariance,
    "debias": lambda s, w: debias_covariance(s, w @ w),
    "noise": lambda s, w: debias_covariance(s, w.loc["a"] if isinstance(w, pd.DataFrame) else w[0]),
}


@pytest.mark.parametrize("name", BESIDE_A_COVARIANCE)
def test_arguments_beside_a_covariance_go_by_name(name: str) -> None:
    """Labels on both put one in the order of the other; labels beside none are refused."""
    function, s = BESIDE_A_COVARIANCE[name], INDEFINITE if name == "smallest_solvable_alpha" else COVARIANCE
    right = function(s.to_numpy(), WEIGHTS.to_numpy())
    np.testing.assert_allclose(function(s, WEIGHTS.loc[MIXED, MIXED]), right, rtol=1e-14)
    np.testing.assert_allclose(function(s.loc[MIXED, NAMES], WEIGHTS), right, rtol=1e-14)
    with pytest.raises(ParameterError, match="without labels"):
        function(s.to_numpy(), WEIGHTS)


def test_groups_and_weights_of_nodes_go_by_name() -> None:
    """Nodes are those of the columns named, and weights are those of the nodes named."""
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 4)) @ (np.eye(4) + 0.4), columns=list("abcd"))
    s, nodes = table.cov(), pd.Series([*"xxyz"], [*"abcd"])
    w = pd.DataFrame([[1, 0.5, 2], [0.5, 1, 0.1], [2, 0.1, 1]], [*"xyz"], [*"xyz"])
    right = graphical_lasso(s.to_numpy(), 0.1, groups=[*nodes], weights=w.to_numpy()).precision
    found = graphical_lasso(s, 0.1, groups=nodes[[*"dbca"]], weights=w.loc[[*"zxy"], [*"yxz"]])
    np.testing.assert_array_equal(found.precision, right)
    for options, wrong in (
        ({"groups": nodes[[*"abc"]]}, "d is missing"),
        ({"groups": nodes, "weights": w.rename(columns={"z": "d"})}, "nodes"),
    ):
        with pytest.raises(ParameterError, match=wrong):
            graphical_lasso(s, 0.1, **options)


@pytest.mark.parametrize("name", ["regression", "lda"])
def test_target_goes_by_its_index(name: str) -> None:
    """A target in another order is that of the rows that its index names; other rows are refused."""
    table = ROWS.set_axis([f"row {number}" for number in range(400)])
    target = table["a"] + table["b"] if name == "regression" else (table["a"] > 0).astype(int)
    right = ESTIMATORS[name]().fit(table, target.to_numpy())
    moved, weight = target.sample(frac=1.0, random_state=1), pd.Series(np.arange(400.0), table.index)
    found = ESTIMATORS[name]().fit(table, moved)
    np.testing.assert_array_equal(found.coef_, right.coef_)
    assert found.score(table, moved) == right.score(table, target.to_numpy()) > 0.5
    assert right.score(table, target, weight[::-1]) == right.score(table, target.to_numpy(), weight.to_numpy())
    for x, y in (
        (table.to_numpy(), target),  # one of them has no labels
        (table, target.reset_index(drop=True)),
        (ROWS.iloc[::-1], target.reset_index(drop=True)),
    ):
        np.testing.assert_allclose(ESTIMATORS[name]().fit(x, y).coef_, right.coef_, atol=1e-9)
    with pytest.raises(ParameterError, match="y"):
        ESTIMATORS[name]().fit(table, target.rename({"row 3": "row 1000"}))


def test_numbers_as_names_are_no_positions() -> None:
    """Where columns are called by other numbers than their positions, a number as the target is refused."""
    table = ROWS.set_axis([2, 0, 1], axis=1)
    with pytest.raises(ParameterError, match="target"):
        ESTIMATORS["regression"](target=2).fit(table)
    with pytest.raises(ParameterError, match="order"):
        ESTIMATORS["ridge"]().fit(table).score(table[[0, 1, 2]])
    predicting = ESTIMATORS["regression"](target="2").fit(table)
    with pytest.raises(ParameterError, match="order"):
        predicting.predict(table[[1, 0]])
    assert predicting.predict(table).tolist() == predicting.predict(table[[0, 1]]).tolist()


def test_numbers_as_names_go_by_name() -> None:
    """What pandas numbers by itself are labels where the columns have the same numbers in another order."""
    order = [2, 0, 1]
    noise = NOISE.set_axis(order).sort_index()
    right = debias_covariance(COVARIANCE.to_numpy(), NOISE.to_numpy())
    for names in (order, [*"201"]):
        covariance = COVARIANCE.set_axis(names).set_axis(names, axis=1)
        np.testing.assert_array_equal(debias_covariance(covariance, noise), right)
    np.testing.assert_array_equal(debias_covariance(COVARIANCE, NOISE.reset_index(drop=True)), right)
    with pytest.raises(ParameterError, match="3 is missing; 0 is unknown"):
        debias_covariance(covariance.set_axis([1, 2, 3]).set_axis([1, 2, 3], axis=1), noise)


def test_rows_of_a_covariance_in_another_order_are_put_right() -> None:
    """A frame whose index and columns have different orders is the matrix that its labels say, or is refused."""
    np.testing.assert_array_equal(check_covariance(COVARIANCE.loc[MIXED]), COVARIANCE)
    with pytest.raises(ParameterError, match="covariance"):
        check_covariance(COVARIANCE.rename(index={"a": "d"}))


def test_periods_with_labels_are_put_in_one_order() -> None:
    """Covariances of several periods are taken by their names, in the order of the first."""
    other = COVARIANCE + 0.3 * np.eye(3)
    plain = joint_graphical_lasso([COVARIANCE.to_numpy(), other.to_numpy()], 0.1, 0.1)
    mixed = joint_graphical_lasso([COVARIANCE, other.loc[MIXED, MIXED[::-1]]], 0.1, 0.1)
    np.testing.assert_array_equal(mixed.precisions, plain.precisions)


@pytest.mark.parametrize("given", [NOISE.to_dict(), "much", NOISE.to_frame().T.to_records(index=False)])
def test_what_is_no_array_is_refused(given: Any) -> None:
    """Numbers come as arrays or from pandas, and in no other form."""
    with pytest.raises(ParameterError, match="noise_variance"):
        debias_covariance(COVARIANCE, given)
    with pytest.raises(ParameterError, match="noise_variance"):
        ESTIMATORS["ridge"](noise_variance=given).fit(ROWS)
    with pytest.raises(ParameterError, match="groups"):
        graphical_lasso(COVARIANCE, 0.1, groups=NOISE.to_dict())  # type: ignore[arg-type]
