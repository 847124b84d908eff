"""What every estimator of the registry promises: scikit-learn's rules, and one answer from rows and covariances."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from dp_bundle import open_bundle
from dp_learn.cli.main import cli
from dp_learn.covariance.estimate import PooledCovariance, ReleasedCovariance, combine_sources
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import bundle_source
from dp_learn.covariance.two_rounds import noise_of_one_round
from dp_learn.estimators.base import CovarianceEstimator, TargetEstimator
from dp_learn.estimators.graphical_lasso import DebiasedGraphicalLasso, DebiasedGraphicalLassoCV
from dp_learn.output.estimator_results import ESTIMATORS
from dp_publish import Policy, publish

ARRAY_API = "check_array_api_input"  # needs an environment variable before scipy is imported
OTHERS = [name for name in ESTIMATORS if name != "graphical-lasso"]  # which has tests of its own
OF_A_COVARIANCE = [name for name in OTHERS if issubclass(ESTIMATORS[name], CovarianceEstimator)]
PREDICTING = [name for name in OTHERS if issubclass(ESTIMATORS[name], TargetEstimator)]


@parametrize_with_checks(
    [
        *(each() for each in (*ESTIMATORS.values(), DebiasedGraphicalLassoCV)),
        DebiasedGraphicalLasso(weights="noise", repair="clip", noise_variance=0.001),
    ]
)
def test_scikit_learn_conventions(estimator: Any, check: Callable[[Any], None]) -> None:
    """Every check that scikit-learn has for an estimator passes."""
    if check.func.__name__ != ARRAY_API:  # type: ignore[attr-defined]
        check(estimator)


def test_registry_has_the_names_of_the_command() -> None:
    """The registry lists the estimators by the names of the option, each of one of the two kinds but the first."""
    (option,) = [parameter for parameter in cli.params if parameter.name == "estimator"]
    assert list(ESTIMATORS) == list(option.type.choices)  # type: ignore[attr-defined]
    assert ESTIMATORS["graphical-lasso"] is DebiasedGraphicalLasso
    assert sorted(OTHERS) == sorted(OF_A_COVARIANCE + PREDICTING)


@pytest.mark.parametrize("name", OF_A_COVARIANCE)
def test_bundle_and_its_covariance_give_the_same(
    name: str, tmp_path: Path, table: pd.DataFrame, policy: Policy, key: Ed25519PrivateKey
) -> None:
    """Fitting a bundle is fitting its pooled covariance; the graph has the bundle's names."""
    little_noise = policy.model_copy(update={"privacy": policy.privacy.model_copy(update={"mu": 200.0})})
    bundle = publish(table, little_noise, out=tmp_path / "people.bundle.tar", key=key)
    with open_bundle(bundle.path) as opened:
        fitted = ESTIMATORS[name]().fit(opened)
        score = fitted.score(opened)
        sample = Sample([bundle_source(opened)])
    again = clone(fitted).fit_covariance(sample.pooled, sample.location)

    np.testing.assert_array_equal(again.covariance_, fitted.covariance_)
    assert set(fitted.edges_["source"]) <= {"height", "weight", "visits"}
    assert fitted.edges_.iloc[0][["source", "target"]].tolist() == ["height", "weight"]
    assert np.isfinite(score)
    assert fitted.alpha_ > 0.0


@pytest.mark.parametrize("name", OF_A_COVARIANCE)
def test_units_of_columns_do_not_matter(name: str) -> None:
    """In other units the precision matrix is the same but for these: the penalty is on the correlation scale."""
    rows = np.random.default_rng(3).normal(size=(500, 4)).cumsum(axis=1)
    units = np.array([1.0, 10.0, 0.01, 1000.0])
    fitted, rescaled = (ESTIMATORS[name]().fit(values) for values in (rows, rows * units))
    of_precision = hasattr(fitted, "precision_")
    found, again = (each.precision_ if of_precision else each.covariance_ for each in (fitted, rescaled))
    change = np.outer(units, units) if of_precision else 1 / np.outer(units, units)
    np.testing.assert_allclose(again * change, found, rtol=1e-9, atol=1e-9)


def released_moments() -> PooledCovariance:
    """Return the covariance of a covariance release of three related columns and labels."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 3)) @ [[0.2, 0.1, 0.1], [0.0, 0.2, 0.1], [0.0, 0.0, 0.2]]
    table = np.column_stack((rows, rows.sum(axis=1) > 0.0))
    noise = noise_of_one_round(len(table), np.ones(4), table.mean(axis=0), 1.0, (4.0, 2.0))
    moments = ReleasedCovariance(len(table), np.cov(table.T), noise)
    return combine_sources(("a", "b", "c", "label"), [moments])


@pytest.mark.parametrize("name", OTHERS)
def test_a_released_covariance_is_enough(name: str) -> None:
    """Every estimator learns from a covariance release, whose noise sets its alpha."""
    pooled = released_moments()
    options = {"target": "label"} if name in PREDICTING else {}
    fitted = ESTIMATORS[name](**options).fit_covariance(pooled, np.array([0.0, 0.0, 0.0, 0.5]))

    assert fitted.alpha_ > 0.0
    if name == "lda":
        assert fitted.predict(pd.DataFrame({"a": [1.0, -1.0], "b": [1.0, -1.0], "c": [1.0, -1.0]})).tolist() == [1, 0]
    elif name == "regression":
        assert 0.5 < fitted.r_squared_ < 0.8
        assert 0.0 < fitted.excess_bound_ < np.inf
    else:
        assert fitted.covariance_.shape == (4, 4)
        assert len(fitted.edges_) > 0
