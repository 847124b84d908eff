"""The scikit-learn estimators keep scikit-learn's rules, and agree with the functions they stand on."""

import numpy as np
import pytest
from sklearn.covariance import EmpiricalCovariance, GraphicalLasso, log_likelihood
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.unit.consumer.estimators.tables import noisy_wine

from dp_bundle import open_bundle
from dp_bundle.base.errors import DrownedColumnError, ParameterError
from dp_learn import DebiasedGraphicalLasso, DebiasedGraphicalLassoCV, learn_graph
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
    assert 0 < len(ours.edges_) < 78


def test_score_is_that_of_the_rows_without_noise() -> None:
    """It is scikit-learn's log-likelihood of their second moments about the location, less the noise."""
    rows = noisy_wine()
    fitted = DebiasedGraphicalLasso(0.15, noise_variance=0.49).fit(rows)
    moments = EmpiricalCovariance().fit(rows - fitted.location_).covariance_ - 0.49 * np.eye(13)
    assert fitted.score(rows) == pytest.approx(log_likelihood(moments, fitted.precision_))


def test_bundle_is_read_with_its_own_noise(bundle: Receipt) -> None:
    """Fitting a bundle gives what the command's pipeline gives, and other columns are refused when scoring."""
    with open_bundle(bundle.path) as opened:
        for refit in (True, False):
            fitted = DebiasedGraphicalLasso(0.1, refit=refit).fit(opened)
            learned = learn_graph(opened, alpha=0.1, refit=refit)
            np.testing.assert_array_equal(fitted.precision_, learned.estimate.precision)
            assert fitted.penalty_share_ == 1.0 - refit
        assert np.isfinite(fitted.score(opened))
        chosen = DebiasedGraphicalLassoCV.from_bundle(bundle.path, alphas=10)
        assert chosen.alpha_ in chosen.cv_results_["alphas"]
        with pytest.raises(ParameterError, match="noise_variance"):
            DebiasedGraphicalLasso(noise_variance=1.0).fit(opened)
        with pytest.raises(ParameterError, match="X"):
            DebiasedGraphicalLasso(0.9).fit(noisy_wine()).score(opened)


def test_noise_on_another_scale_than_the_rows_is_named_as_the_cause() -> None:
    """Of noise that a scaler did not scale, the error has the columns of which it is too large."""
    rng = np.random.default_rng(11)
    rows = rng.normal(size=(2000, 3)) @ [[1, 0.8, 0], [0, 1, 0], [0, 0, 1]] * [20.0, 5.0, 0.1]
    noise = 0.1 * rows.var(axis=0)
    for scaler, given, drowned in ((StandardScaler(), noise, ["x0", "x1"]), (None, 1e2 * noise, ["x0", "x1", "x2"])):
        with pytest.raises(DrownedColumnError) as raised:
            make_pipeline(scaler, DebiasedGraphicalLasso(noise_variance=given)).fit(rows)
        assert raised.value.columns == drowned
    with pytest.raises(ParameterError, match="noise_variance"):
        make_pipeline(StandardScaler(), DebiasedGraphicalLasso(noise_variance=0.1)).fit(rows)


def test_a_splitter_of_scikit_learn_splits_the_rows() -> None:
    """The score of each split is that of the rows that it leaves out, by the estimate from the others."""
    rows, settings = (
        noisy_wine().to_numpy(),
        {"noise_variance": 0.49, "scale": "covariance", "penalize_diagonal": False},
    )
    splits = [*ShuffleSplit(3, random_state=0).split(rows)]
    fitted = DebiasedGraphicalLassoCV(cv=splits, alphas=[0.5, 0.2], **settings).fit(rows)
    for fold, (train, test) in enumerate(splits):
        precision = DebiasedGraphicalLasso(0.2, **settings).fit(rows[train]).precision_
        left_out = np.cov(rows[test].T) - 0.49 * np.eye(13)
        score = np.linalg.slogdet(precision)[1] - np.sum(left_out * precision)
        assert fitted.cv_results_[f"split{fold}_test_score"][1] == pytest.approx(score, abs=1e-3)
