"""The scikit-learn estimators keep scikit-learn's rules, and agree with the functions they stand on."""

from typing import Any

import numpy as np
import pytest
from sklearn.covariance import GraphicalLasso
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.unit.consumer.estimators.tables import missed, noisy_chain, noisy_wine

from dp_bundle import open_bundle
from dp_bundle.base.errors import DpGraphError, DrownedColumnError, NoSolutionError, ParameterError
from dp_learn import DebiasedGraphicalLasso, DebiasedGraphicalLassoCV, graphical_lasso, learn_graph
from dp_publish import Receipt


def test_without_noise_it_is_scikit_learns_estimate() -> None:
    """On the covariance scale with a free diagonal, precision, covariance and location are those of GraphicalLasso."""
    rows = noisy_wine(0.0).to_numpy()
    rescaled = rows * np.sqrt((len(rows) - 1) / len(rows))  # their divisor is n
    theirs = GraphicalLasso(alpha=0.2, tol=1e-8, enet_tol=1e-10, max_iter=500).fit(rows)
    ours = DebiasedGraphicalLasso(0.2, scale="covariance", penalize_diagonal=False, tol=1e-11).fit(rescaled)

    np.testing.assert_allclose(ours.precision_, theirs.precision_, atol=1e-4)
    np.testing.assert_allclose(ours.covariance_, theirs.covariance_, atol=1e-4)
    np.testing.assert_allclose(ours.location_, theirs.location_, atol=1e-12)
    assert ours.score(rows) == pytest.approx(theirs.score(rows), abs=1e-4)


def test_noise_is_subtracted_and_all_attributes_are_there() -> None:
    """The estimate is the graphical lasso of the debiased correlation, in data units, with names."""
    rows = noisy_wine() * np.arange(1, 14)
    variance = (0.7 * np.arange(1, 14)) ** 2
    fitted = DebiasedGraphicalLasso(0.15, noise_variance=variance).fit(rows)
    debiased = np.cov(rows.to_numpy().T) - np.diag(variance)
    d = np.sqrt(np.diagonal(debiased))
    expected = graphical_lasso(debiased / np.outer(d, d), 0.15).precision / np.outer(d, d)

    np.testing.assert_allclose(fitted.precision_ * np.outer(d, d), expected * np.outer(d, d), atol=2e-3)
    np.testing.assert_allclose(fitted.covariance_ @ fitted.precision_, np.eye(13), atol=1e-9)
    assert list(fitted.feature_names_in_) == list(rows.columns)
    assert set(fitted.edges_["source"]) <= set(rows.columns)
    assert 0 < len(fitted.edges_) < 78
    assert 0 <= fitted.duality_gap_ <= 13e-6
    assert fitted.alpha_ == 0.15


@pytest.mark.slow
def test_score_is_the_same_for_clean_and_noisy_rows_on_average() -> None:
    """The held-out likelihood of noisy rows estimates that of the clean ones; without subtraction it would not."""
    fitted = DebiasedGraphicalLasso(0.15, noise_variance=0.49).fit(noisy_wine())
    clean = DebiasedGraphicalLasso(0.15).fit(noisy_wine(0.0))
    clean.precision_, clean.location_ = fitted.precision_, fitted.location_
    rows, rng = noisy_wine(0.0), np.random.default_rng(0)
    noisy = [rows + 0.7 * rng.normal(size=rows.shape) for _ in range(200)]
    scores = np.array([fitted.score(each) for each in noisy])
    ignoring = np.mean([clean.score(each) for each in noisy])
    error = scores.std(ddof=1) / np.sqrt(len(scores))

    assert abs(scores.mean() - clean.score(rows)) < 4 * error
    assert abs(ignoring - clean.score(rows)) > 40 * error


def test_pipeline_and_grid_search_choose_an_alpha() -> None:
    """It works as the last step of a pipeline inside a grid search, which scores held-out noisy rows."""
    pipeline = make_pipeline(StandardScaler(with_std=False), DebiasedGraphicalLasso(noise_variance=0.49))
    search = GridSearchCV(pipeline, {"debiasedgraphicallasso__alpha": [0.9, 0.4, 0.2]}, cv=4).fit(noisy_wine())

    assert search.best_params_["debiasedgraphicallasso__alpha"] in {0.2, 0.4}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_bundle_is_read_with_its_own_noise(bundle: Receipt) -> None:
    """Fitting a bundle gives what the command's pipeline gives, and other columns are refused when scoring."""
    with open_bundle(bundle.path) as opened:
        learned = learn_graph(opened, alpha=0.1)
        fitted = DebiasedGraphicalLasso(0.1, refit=True).fit(opened)
        penalised = DebiasedGraphicalLasso(0.1).fit(opened)
        unfitted = learn_graph(opened, alpha=0.1, refit=False)
        chosen = DebiasedGraphicalLassoCV(alphas=10).fit(opened)
        score = fitted.score(opened)
        with pytest.raises(ParameterError, match="noise_variance"):
            DebiasedGraphicalLasso(noise_variance=1.0).fit(opened)
        with pytest.raises(ParameterError, match="columns that were fitted"):
            DebiasedGraphicalLasso(0.9).fit(noisy_wine()).score(opened)

    np.testing.assert_array_equal(fitted.precision_, learned.estimate.precision)
    np.testing.assert_array_equal(penalised.precision_, unfitted.estimate.precision)
    assert (fitted.penalty_share_, penalised.penalty_share_) == (0.0, 1.0)
    assert list(fitted.feature_names_in_) == ["height", "weight", "visits"]
    assert np.isfinite(score)
    assert chosen.alpha_ in chosen.selection_.alphas


@pytest.mark.parametrize("rule", ["cv", "mse", "ebic", "stars"])
def test_every_rule_finds_the_chain(rule: str) -> None:
    """Each rule's graph has the edges of a chain with strong links, on rows as noisy as their signal."""
    assert not missed(DebiasedGraphicalLassoCV(select=rule, noise_variance=1.0).fit(noisy_chain(4000)))


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"alpha": 0.0}, ParameterError, "alpha must be a finite number > 0"),
        ({"noise_variance": [1.0, 2.0]}, ParameterError, "noise_variance must be a finite number"),
        ({"noise_variance": -1.0}, ParameterError, "noise_variance must be a finite number"),
        ({"weights": "odd"}, ParameterError, "weights must be auto, equal, noise, or a matrix"),
        ({"weights": np.eye(3)}, ParameterError, "weights.shape must be"),
        ({"scale": "odd"}, ParameterError, "scale must be one of"),
        ({"repair": "odd"}, ParameterError, "repair must be one of"),
        ({"solver": "odd"}, ParameterError, "solver must be one of"),
        ({"noise_variance": 50.0}, DrownedColumnError, "more than all that varies"),
        ({"alpha": 1e-4, "noise_variance": 0.9}, NoSolutionError, "smallest alpha that has one"),
    ],
)
def test_bad_settings_get_one_sentence(settings: dict[str, Any], error: type[DpGraphError], sentence: str) -> None:
    """A wrong parameter is named with what is allowed when the estimator is fitted."""
    with pytest.raises(error, match=sentence):
        DebiasedGraphicalLasso(**settings).fit(noisy_wine())


def scaled_rows() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of unequal spread with noise of a tenth of each variance, and these variances."""
    rng = np.random.default_rng(11)
    spread = np.array([20.0, 5.0, 0.1])
    clean = rng.normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]] * spread
    noise = 0.1 * clean.var(axis=0)
    return clean + rng.normal(size=clean.shape) * np.sqrt(noise), noise


def test_noise_that_a_scaler_did_not_scale_is_named_as_the_cause() -> None:
    """The sentence says that the columns were scaled, which noise is too large for that, and what to divide by."""
    rows, noise = scaled_rows()
    with pytest.raises(DrownedColumnError, match=r"as StandardScaler makes them.* of x0, x1 .*scale_ \*\* 2") as raised:
        make_pipeline(StandardScaler(), DebiasedGraphicalLasso(noise_variance=noise)).fit(rows)
    assert raised.value.columns == ["x0", "x1"]
    with pytest.raises(DrownedColumnError, match=r"more than all that varies in x0, x1, x2.*scale_ \*\* 2"):
        DebiasedGraphicalLasso(noise_variance=noise).fit(rows / 10)
    with pytest.raises(ParameterError, match=r"one number per column.*scale_ \*\* 2"):
        make_pipeline(StandardScaler(), DebiasedGraphicalLasso(noise_variance=0.1)).fit(rows)


def test_noise_that_was_scaled_with_the_rows_gives_the_same_graph() -> None:
    """Divided by the squares of the scales, the noise is that of the scaled rows."""
    rows, noise = scaled_rows()
    scaler = StandardScaler().fit(rows)
    plain = DebiasedGraphicalLasso(alpha=0.1, noise_variance=noise).fit(rows)
    scaled = DebiasedGraphicalLasso(alpha=0.1, noise_variance=noise / scaler.scale_**2).fit(scaler.transform(rows))
    np.testing.assert_allclose(
        scaled.edges_["partial_correlation"], plain.edges_["partial_correlation"], rtol=1e-4, atol=1e-6
    )
