"""Whatever a caller labels is taken by its labels, or refused: every public name of the researcher's side."""

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
from dp_learn.covariance.sources import table_rows
from dp_learn.estimators.columnwise import clime_precision, neighborhood_selection, scio_precision
from dp_learn.estimators.registry import ESTIMATORS
from dp_learn.estimators.targets import TargetEstimator
from dp_learn.estimators.thresholded_covariance import threshold_covariance
from dp_learn.matrices.checks import check_covariance
from dp_learn.selection.path import alpha_grid

NAMES = ["a", "b", "c"]
MIXED = ["c", "a", "b"]
NOISE = {"a": 0.3, "b": 0.6, "c": 0.9}
Array = NDArray[np.float64]
PER_COLUMN = {
    "noise_variance",
    "weights",
    "groups",
    "covariance",
    "covariances",
    "y",
}  # have labels, tested below
NOT_PER_COLUMN = {  # one value, text, a switch, a path of alphas, or an object that has its columns' names inside
    *(
        "alpha",
        "alphas",
        "bundle",
        "bundles",
        "classes",
        "confidence",
        "cv",
        "error_bars",
        "fdr",
        "max_iter",
        "max_memory",
        "penalize_diagonal",
    ),
    *("precision", "progress", "refit", "repair", "rtol", "rule", "scale", "select", "settings", "soft", "solver"),
    *("start", "target", "tol"),
    *("coupling", "difference_weights", "kind", "order", "period_weights", "strength"),
}
MADE_BY_US = {
    "Comparison",
    "EdgeInference",
    "Joint",
    "JointSolution",
    "Learned",
    "Moments",
    "Solution",
    "Status",
}  # results, of ours


def rows(n_rows: int = 400) -> pd.DataFrame:
    """Return rows of three related columns with noise of the variances above."""
    rng = np.random.default_rng(5)
    values = rng.normal(size=(n_rows, 3)) @ [[2.0, 0.9, 0.5], [0.0, 2.0, 0.7], [0.0, 0.0, 2.0]]
    return pd.DataFrame(values + rng.normal(size=(n_rows, 3)) * np.sqrt([*NOISE.values()]), columns=NAMES)


def weights() -> pd.DataFrame:
    """Return weights that differ in every pair."""
    return pd.DataFrame([[1.0, 0.2, 3.0], [0.2, 1.1, 0.7], [3.0, 0.7, 1.2]], NAMES, NAMES)


def test_every_public_parameter_is_judged() -> None:
    """A new parameter of a public name is put on one list or the other, or this test fails."""
    public = {getattr(dp_learn, name) for name in dp_learn.__all__ if name not in MADE_BY_US}
    names = {parameter for each in public for parameter in inspect.signature(each).parameters}
    assert names == (PER_COLUMN | NOT_PER_COLUMN) - {"y"}


def fitted(name: str, **options: Any) -> Array:
    """Return what an estimator learns of the rows."""
    made = ESTIMATORS[name](**options)
    if isinstance(made, TargetEstimator):
        made.set_params(target="c", **({"classes": (-2, 2)} if name == "lda" else {}))
    table = rows()
    if name == "lda":
        rng = np.random.default_rng(6)
        signs = np.where(rng.random(len(table)) < 0.5, 2.0, -2.0)
        table = table.assign(c=signs + rng.normal(size=len(table)) * np.sqrt(0.9), a=table["a"] + signs)
    made.fit(table)
    learned: Array = made.coef_ if isinstance(made, TargetEstimator) else made.covariance_
    return learned


LABELLED: dict[str, Callable[[dict[str, float]], Any]] = {"Series": pd.Series, "dict": dict}


@pytest.mark.parametrize("form", LABELLED)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_noise_of_an_estimator_goes_by_name(name: str, form: str) -> None:
    """A Series or a dictionary in another order is the noise of the columns that it names."""
    moved = LABELLED[form]({label: NOISE[label] for label in MIXED})
    np.testing.assert_array_equal(
        fitted(name, noise_variance=moved), fitted(name, noise_variance=np.array([*NOISE.values()]))
    )


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a", "b", "d"], "c is missing; d is unknown"),
        (["a", "b"], "c is missing"),
        (["a", "b", "c", "c"], "c is there twice"),
    ],
)
def test_noise_of_other_columns_is_refused(name: str, labels: list[str], said: str) -> None:
    """Missing, unknown and repeated labels are named in one sentence."""
    with pytest.raises(ParameterError, match=said):
        fitted(name, noise_variance=pd.Series(0.1, labels))


WEIGHTED = [name for name, made in ESTIMATORS.items() if "weights" in inspect.signature(made).parameters]


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_of_an_estimator_go_by_name(name: str) -> None:
    """A frame of weights in another order penalises the pairs that it names."""

    def learned(given: Any) -> Array:
        precision: Array = ESTIMATORS[name](0.15, weights=given).fit(rows()).precision_
        return precision

    moved = weights().loc[MIXED, ["b", "a", "c"]]
    np.testing.assert_array_equal(learned(moved), learned(weights().to_numpy()))
    with pytest.raises(ParameterError, match="b is missing; z is unknown"):
        learned(moved.rename(columns={"b": "z"}))
    with pytest.raises(ParameterError, match="labels on one side alone"):
        learned(moved.reset_index(drop=True))


COVARIANCE = rows().cov()
INDEFINITE = pd.DataFrame([[1.0, 2.0, -2.0], [2.0, 1.0, 2.0], [-2.0, 2.0, 1.0]], NAMES, NAMES)


def indefinite(s: Any) -> Any:
    """Return a matrix with larger covariances in the same places, and the same labels."""
    flipped = s.copy()
    order = list(s.index) if isinstance(s, pd.DataFrame) else NAMES
    for row, label in enumerate(order):
        for column, other in enumerate(NAMES):
            value = float(COVARIANCE.loc[label, other] * INDEFINITE.loc[label, other])
            if isinstance(s, pd.DataFrame):
                flipped.loc[label, other] = value
            else:
                flipped[row, column] = value
    return flipped


WITH_WEIGHTS: dict[str, Callable[[Any, Any], Any]] = {
    "graphical_lasso": lambda s, w: graphical_lasso(s, 0.4, weights=w).precision,
    "auto": lambda s, w: graphical_lasso(s, 0.4, weights=w, solver="auto").precision,
    "smallest_solvable_alpha": lambda s, w: smallest_solvable_alpha(indefinite(s), weights=w),
    "alpha_grid": lambda s, w: alpha_grid(s, weights=w),
    "clime": lambda s, w: clime_precision(s, 0.1, weights=w),
    "scio": lambda s, w: scio_precision(s, 0.1, weights=w),
    "neighborhood": lambda s, w: neighborhood_selection(s, 0.5, weights=w).precision,
    "threshold": threshold_covariance,
    "debias": debias_covariance,
}


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_weights_beside_a_covariance_go_by_name(name: str) -> None:
    """Labels on both put one in the order of the other; labels beside none are refused."""
    function, w = WITH_WEIGHTS[name], weights()
    if name == "debias":
        w = (w @ w).round(3)  # a covariance of noise
    right = function(COVARIANCE.to_numpy(), w.to_numpy())
    np.testing.assert_array_equal(function(COVARIANCE, w.loc[MIXED, MIXED]), right)
    np.testing.assert_array_equal(function(COVARIANCE.loc[MIXED, NAMES], w), right)  # its own rows in another order
    with pytest.raises(ParameterError, match="as these have none"):
        function(COVARIANCE.to_numpy(), w)


def test_noise_beside_a_covariance_goes_by_name() -> None:
    """The example of a Series in another order, from a frame and from a dictionary."""
    right = debias_covariance(COVARIANCE.to_numpy(), [*NOISE.values()])
    np.testing.assert_array_equal(debias_covariance(COVARIANCE, pd.Series(NOISE)[MIXED]), right)
    np.testing.assert_array_equal(debias_covariance(COVARIANCE.loc[MIXED], dict(reversed(NOISE.items()))), right)
    np.testing.assert_array_equal(
        table_rows(np.ones((2, 3)), NAMES, pd.Series(NOISE)[MIXED]).noise_variance, [*NOISE.values()]
    )
    with pytest.raises(ParameterError, match="noise_variance must be without labels"):
        debias_covariance(COVARIANCE.to_numpy(), pd.Series(NOISE))


def test_groups_and_weights_of_nodes_go_by_name() -> None:
    """Nodes are those of the columns named, and weights are those of the nodes named."""
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 4)) @ (np.eye(4) + 0.4), columns=list("abcd"))
    s, nodes = table.cov(), {"a": "x", "b": "x", "c": "y", "d": "z"}
    w = pd.DataFrame([[1, 0.5, 2], [0.5, 1, 0.1], [2, 0.1, 1]], list("xyz"), list("xyz"))
    right = graphical_lasso(s.to_numpy(), 0.1, groups=[*nodes.values()], weights=w.to_numpy()).precision
    for moved in (pd.Series(nodes)[["d", "b", "c", "a"]], dict(reversed(nodes.items()))):
        found = graphical_lasso(s, 0.1, groups=moved, weights=w.loc[["z", "x", "y"], ["y", "x", "z"]])
        np.testing.assert_array_equal(found.precision, right)
    with pytest.raises(ParameterError, match="d is missing"):
        graphical_lasso(s, 0.1, groups=pd.Series(nodes)[["a", "b", "c"]])
    with pytest.raises(ParameterError, match=r"labelled by the nodes \(z is missing; d is unknown\)"):
        graphical_lasso(s, 0.1, groups=nodes, weights=w.rename(columns={"z": "d"}))


@pytest.mark.parametrize("name", ["regression", "lda"])
def test_target_goes_by_its_index(name: str) -> None:
    """A target in another order is that of the rows that its index names; other rows are refused."""
    table = rows().set_axis([f"row {number}" for number in range(400)])
    target = table["a"] + table["b"] if name == "regression" else (table["a"] > 0).astype(int)
    right = ESTIMATORS[name]().fit(table, target.to_numpy())
    moved = target.sample(frac=1.0, random_state=1)
    found = ESTIMATORS[name]().fit(table, moved)
    np.testing.assert_array_equal(found.coef_, right.coef_)
    assert found.score(table, moved) == right.score(table, target.to_numpy()) > 0.5
    weight = pd.Series(np.arange(400.0), table.index)
    assert right.score(table, target, weight[::-1]) == right.score(table, target.to_numpy(), weight.to_numpy())
    assert ESTIMATORS[name]().fit(table.to_numpy(), target).coef_.tolist() == right.coef_.tolist()  # no labels in X
    with pytest.raises(ParameterError, match="y must be indexed by the rows of X"):
        ESTIMATORS[name]().fit(table, target.rename({"row 3": "row 1000"}))


def test_numbers_as_names_are_no_positions() -> None:
    """Where columns are called by other numbers than their positions, a number as the target is refused."""
    table = rows().set_axis([2, 0, 1], axis=1)
    with pytest.raises(ParameterError, match="column 2 is not the one called 2"):
        ESTIMATORS["regression"](target=2).fit(table)
    made = ESTIMATORS["ridge"]().fit(table)
    with pytest.raises(ParameterError, match="in the order"):
        made.score(table[[0, 1, 2]])
    predicting = ESTIMATORS["regression"](target="2").fit(table)
    with pytest.raises(ParameterError, match="in the order"):
        predicting.predict(table[[1, 0]])
    assert predicting.predict(table).tolist() == predicting.predict(table[[0, 1]]).tolist()


def test_numbers_as_names_go_by_name() -> None:
    """What pandas numbers by itself are labels where the columns have the same numbers in another order."""
    order = [2, 0, 1]
    covariance, noise = COVARIANCE.set_axis(order).set_axis(order, axis=1), pd.Series([*NOISE.values()], order)
    right = debias_covariance(COVARIANCE.to_numpy(), [*NOISE.values()])
    given = (noise, noise.sort_index(), noise.sort_index().to_dict())
    assert all(debias_covariance(covariance, each).tolist() == right.tolist() for each in given)
    text = covariance.set_axis([*"201"]).set_axis([*"201"], axis=1)
    np.testing.assert_array_equal(debias_covariance(text, noise.sort_index()), right)
    w = weights().set_axis(order).set_axis(order, axis=1)
    found = graphical_lasso(covariance, 0.4, weights=w.sort_index().sort_index(axis=1)).precision
    np.testing.assert_array_equal(found, graphical_lasso(COVARIANCE, 0.4, weights=weights()).precision)
    plain = COVARIANCE.set_axis(range(3)).set_axis(range(3), axis=1)
    np.testing.assert_array_equal(debias_covariance(plain.loc[order], [*NOISE.values()]), right)
    np.testing.assert_array_equal(debias_covariance(COVARIANCE, pd.Series(NOISE).reset_index(drop=True)), right)
    for ambiguous in (noise.sort_index(), noise.sort_index().to_dict()):
        with pytest.raises(ParameterError, match="3 is missing; 0 is unknown"):
            debias_covariance(covariance.set_axis([1, 2, 3]).set_axis([1, 2, 3], axis=1), ambiguous)


def test_rows_that_were_shuffled_keep_their_target() -> None:
    """A target goes by the index of the rows where that is the usual one, too, and not by position."""
    table = rows()
    target = table.pop("c")
    right = ESTIMATORS["regression"]().fit(table, target)
    shuffled = table.sample(frac=1.0, random_state=3)
    np.testing.assert_allclose(ESTIMATORS["regression"]().fit(shuffled, target).coef_, right.coef_)
    assert right.score(shuffled, target) == pytest.approx(right.score(table, target))
    with pytest.raises(ParameterError, match="y must be indexed by the rows of X"):
        ESTIMATORS["regression"]().fit(table.iloc[100:], target.iloc[:300])


@pytest.mark.parametrize(
    "noise",
    [
        {"a": {"b": 1.0}, "b": 1.0, "c": 1.0},
        {name: [1.0, 2.0, 3.0] for name in NAMES},
        np.array([(0.3, 0.6, 0.9)], dtype=[(name, float) for name in MIXED]),
    ],
    ids=["dictionaries", "lists", "records"],
)
def test_several_values_for_a_label_are_refused(noise: Any) -> None:
    """A dictionary of more than numbers, and an array of records, are refused in one sentence."""
    with pytest.raises(ParameterError, match="noise_variance must be"):
        debias_covariance(COVARIANCE, noise)
    with pytest.raises(ParameterError, match="noise_variance must be"):
        ESTIMATORS["ridge"](noise_variance=noise).fit(rows())


def test_rows_of_a_covariance_in_another_order_are_put_right() -> None:
    """A frame whose index and columns have different orders is the matrix that its labels say, or is refused."""
    np.testing.assert_array_equal(check_covariance(COVARIANCE.loc[MIXED]), COVARIANCE)
    with pytest.raises(ParameterError, match="covariance must be labelled by the columns"):
        check_covariance(COVARIANCE.rename(index={"a": "d"}))


class Polars:
    """A table with columns that have names and rows that have none, as in polars."""

    def __init__(self, names: list[str], values: Array) -> None:
        self.columns, self.shape, self._values = names, values.shape, values

    def get_column(self, name: str) -> Array:
        """Return one column."""
        return self._values[:, self.columns.index(name)]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        """Return the values."""
        return np.asarray(self._values, dtype=dtype)


class DataArray:
    """Values with named coordinates, as in xarray."""

    def __init__(self, values: Array, labels: list[str]) -> None:
        self.dims = tuple(f"dimension {axis}" for axis in range(values.ndim))
        self.coords = {dimension: np.array(labels) for dimension in self.dims}
        self.shape, self.ndim, self._values = values.shape, values.ndim, values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        """Return the values."""
        return np.asarray(self._values, dtype=dtype)


def test_tables_of_other_libraries() -> None:
    """Coordinates of xarray are labels of both axes; columns of polars without labels of rows must be in order."""
    w = weights().loc[MIXED, MIXED].to_numpy()
    right = graphical_lasso(COVARIANCE, 0.4, weights=weights()).precision
    found = graphical_lasso(COVARIANCE, 0.4, weights=DataArray(w, MIXED)).precision  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, right)
    same = graphical_lasso(COVARIANCE, 0.4, weights=Polars(NAMES, weights().to_numpy())).precision
    np.testing.assert_array_equal(same, right)
    with pytest.raises(ParameterError, match="labels on one side alone"):
        graphical_lasso(COVARIANCE, 0.4, weights=Polars(MIXED, w))


def test_periods_with_labels_are_put_in_one_order() -> None:
    """Covariances of several periods are taken by their names, in the order of the first."""
    one = pd.DataFrame(np.cov(rows().to_numpy().T), NAMES, NAMES)
    other = one + 0.3 * np.eye(3)
    plain = joint_graphical_lasso([one.to_numpy(), other.to_numpy()], 0.1, 0.1)
    mixed = joint_graphical_lasso([one, other.loc[MIXED, MIXED[::-1]]], 0.1, 0.1)
    np.testing.assert_array_equal(mixed.precisions, plain.precisions)
