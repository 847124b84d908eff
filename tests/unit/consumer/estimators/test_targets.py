"""Ridge regression and discriminant analysis from noisy moments against scikit-learn on the rows themselves."""

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from dp_bundle.base.errors import EstimationError, ParameterError
from dp_learn.covariance.estimate import NoisyCovariance, PooledCovariance, combine_sources
from dp_learn.estimators.linear import DebiasedLDA, DebiasedRidgeRegression, gradient_error, ridge_regression

WINE = load_wine(as_frame=True)
X, LABELS = WINE.data, WINE.target
NEGLIGIBLE = 1e-12  # a penalty that changes nothing within the tolerances below


@pytest.mark.parametrize(("target", "alpha"), [("alcohol", 0.3), (0, 0.01), ("proline", 0.0)])
def test_regression_without_noise_is_scikit_learns(target: Any, alpha: float) -> None:
    """On standardised columns it is Ridge, and in data units it predicts and scores the same."""
    name = X.columns[target] if isinstance(target, int) else target
    features, y = X.drop(columns=name), X[name]
    d = features.std()
    theirs = Ridge(alpha * (len(X) - 1), solver="svd").fit((features - features.mean()) / d, y)
    ours = DebiasedRidgeRegression(target, alpha=alpha).fit(X)

    np.testing.assert_allclose(ours.coef_ * d, theirs.coef_, rtol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict((features - features.mean()) / d), rtol=1e-6)
    np.testing.assert_array_equal(ours.predict(features), ours.predict(X))
    assert ours.score(features, y) == pytest.approx(r2_score(y, ours.predict(features)))
    assert ours.r_squared_ == pytest.approx(ours.score(features, y), abs=1e-9)
    assert list(ours.feature_names_in_) == list(features.columns)
    assert ours.excess_bound_ == 0.0
    beside = DebiasedRidgeRegression(alpha=alpha).fit(features, y)
    np.testing.assert_allclose(beside.coef_, ours.coef_, rtol=1e-9)


def test_r_squared_of_clean_rows_is_seen_through_the_noise() -> None:
    """The fit on noisy rows estimates how well it predicts clean ones."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50_000, 4))
    rows[:, 3] += rows[:, :3] @ [1.0, -1.0, 0.5]
    noisy = rows + rng.normal(size=rows.shape)
    told = DebiasedRidgeRegression(3, noise_variance=1.0).fit(noisy)
    assert told.r_squared_ == pytest.approx(told.score(rows[:, :3], rows[:, 3]), abs=0.02)
    np.testing.assert_allclose(told.coef_, [1.0, -1.0, 0.5], atol=0.1)


@pytest.mark.slow
def test_gradient_error_and_its_bound_hold_in_simulation() -> None:
    """The stated mean square is that of many draws of the noise, and the mean excess stays below its bound."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(300, 4)) @ np.array(
        [[1.0, 0.3, 0.0, 0.5], [0.0, 1.0, 0.2, 0.4], [0.0, 0.0, 1.0, -0.6], [0.0, 0.0, 0.0, 0.7]]
    )
    variance, alpha = np.array([0.5, 1.0, 0.8, 0.6]), 0.4
    clean = np.cov(rows.T)
    best = ridge_regression(clean, 3, alpha)

    def objective(w: np.ndarray) -> float:
        u = np.append(-w, 1.0)
        return float(u @ clean @ u + alpha * w @ w)

    def pool(published: np.ndarray) -> PooledCovariance:
        return combine_sources("abcd", [NoisyCovariance(len(rows), published, variance, np.zeros(4))])

    draws = []
    for _ in range(2000):
        pooled = pool(np.cov((rows + rng.normal(size=rows.shape) * np.sqrt(variance)).T))
        w = ridge_regression(pooled.covariance, 3, alpha)
        gradient = np.sum(((pooled.covariance - clean)[:3] @ np.append(-best, 1.0)) ** 2)
        draws.append((gradient, objective(w) - objective(best), gradient_error(pooled, 3, w) ** 2 / alpha))
    gradients, excess, bounds = np.array(draws).T
    stated = gradient_error(pool(clean + np.diag(variance)), 3, best)
    error = gradients.std() / np.sqrt(len(gradients))

    assert abs(gradients.mean() - stated**2) < 4 * error
    assert abs(gradients.mean() - 1.2 * stated**2) > 4 * error  # it would be noticed if it were wrong
    assert (excess >= -1e-12).all()
    assert excess.mean() < bounds.mean() < 20 * excess.mean()
    assert np.mean(excess > 20 * bounds) <= 0.05


def test_unbounded_regression_names_the_smallest_alpha() -> None:
    """A matrix is solved if that of the predictors is definite, and else from just above the alpha in the sentence."""
    s = np.array([[1.0, 1.2, 0.2], [1.2, 1.0, -0.9], [0.2, -0.9, 1.0]])  # without the last, 2.2 and -0.2
    with pytest.raises(EstimationError, match=r"0\.2"):
        ridge_regression(s, 2, 0.1)
    assert np.isfinite(ridge_regression(s, 2, 0.21)).all()


def test_default_alpha_solves_an_indefinite_matrix() -> None:
    """On few rows with much noise the default penalty makes the problem solvable, in any units."""
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(60, 8)) + 2.0 * rng.normal(size=(60, 1)) + 2.0 * rng.normal(size=(60, 8))
    assert np.linalg.eigvalsh(np.cov(rows[:, :7].T) - 4.0 * np.eye(7))[0] < 0.0
    bounds = [
        DebiasedRidgeRegression(7, noise_variance=4.0 * unit**2).fit(rows * unit).excess_bound_ / unit**2
        for unit in (1.0, 1e3)
    ]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-8)
    assert 0.0 < bounds[0] < np.inf


def assert_same_analysis(ours: DebiasedLDA, labels: Any) -> None:
    """Compare with scikit-learn's, up to the divisor of the covariance within classes, n - 1 here and n there."""
    theirs, n = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(X, labels), len(X)
    np.testing.assert_allclose(ours.priors_, theirs.priors_, rtol=1e-9)
    np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-8)
    np.testing.assert_allclose(ours.covariance_ * (n - 1) / n, theirs.covariance_, rtol=1e-6, atol=1e-9)
    coef = ours.coef_ if len(ours.classes_) > 2 else ours.coef_[1:] - ours.coef_[:1]
    np.testing.assert_allclose(coef * n / (n - 1), theirs.coef_, rtol=1e-5)
    assert (ours.predict(X) == theirs.predict(X)).mean() > 0.99


def test_analysis_of_known_labels_is_scikit_learns() -> None:
    """Without noise, three classes given as y, or as a 0/1 column each, have its means, covariance and coefficients."""
    ours = DebiasedLDA(alpha=NEGLIGIBLE).fit(X, LABELS)
    assert_same_analysis(ours, LABELS)
    assert ours.score(X, LABELS) > 0.99

    names = ["class_0", "class_1", "class_2"]
    beside = DebiasedLDA(names, alpha=NEGLIGIBLE).fit(X.assign(**{names[k]: 1.0 * (k == LABELS) for k in range(3)}))
    assert_same_analysis(beside, np.array(names)[LABELS])
    assert list(beside.classes_) == names
    assert list(beside.feature_names_in_) == list(X.columns)


@pytest.mark.parametrize("classes", [(0, 1), (-1, 1), (2, 1)])
def test_analysis_of_one_column_with_two_values_is_scikit_learns(classes: tuple[int, int]) -> None:
    """Two classes need one column, in whatever coding, even with the values in the other order."""
    labels = np.where(LABELS == 0, classes[0], classes[1])
    ours = DebiasedLDA("label", classes=classes, alpha=NEGLIGIBLE).fit(X.assign(label=labels))
    ours.classes_ = np.array([0, 1])

    assert_same_analysis(ours, np.where(LABELS == 0, 0, 1))


@pytest.mark.parametrize("noise_variance", [0.0, 0.5])
def test_a_column_that_is_no_label_is_refused(noise_variance: float) -> None:
    """A number whose mean is a possible share is told from labels by its variance; noisy labels still pass."""
    rng = np.random.default_rng(8)
    labels = (rng.uniform(size=4000) < 0.4).astype(float)
    noise = rng.normal(0, np.sqrt(noise_variance), size=4000)
    wrong, right = (np.column_stack((rng.normal(size=4000), other)) for other in (rng.normal(0.4, size=4000), labels))
    lda = DebiasedLDA(1, noise_variance=[0.0, noise_variance])

    with pytest.raises(EstimationError, match="variance"):
        lda.fit(wrong)
    lda.fit(right + np.outer(noise, [0, 1]))
    assert lda.priors_[1] == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize("precision", ["ridge", "graphical-lasso"])
def test_noisy_labels_and_columns_still_classify(precision: str) -> None:
    """With noise as large as the signal on columns and labels, clean rows are classified nearly as well as ever."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, size=20_000)
    rows = rng.normal(size=(20_000, 6)) + np.outer(labels, [1.5, -1.0, 0.0, 0.5, 0.0, 1.0])
    table = np.column_stack((rows, labels))
    noisy = table + rng.normal(size=table.shape)
    ours = DebiasedLDA(6, precision=precision, noise_variance=1.0).fit(noisy)
    best = LinearDiscriminantAnalysis().fit(rows, labels).score(rows, labels)

    assert ours.score(rows, labels) > best - 0.01
    assert ours.priors_[1] == pytest.approx(labels.mean(), abs=0.05)
    np.testing.assert_allclose(ours.means_[1] - ours.means_[0], [1.5, -1.0, 0.0, 0.5, 0.0, 1.0], atol=0.15)


def test_drowned_predictors_are_left_out_and_named() -> None:
    """A column that the noise drowns has no coefficient, and the others are as without it."""
    constant, without = X.assign(ash=2.0), X.drop(columns="ash")
    for estimator in (DebiasedRidgeRegression(alpha=0.1), DebiasedLDA(alpha=0.1)):
        predicted = estimator.fit(constant, LABELS).predict(constant)
        assert estimator.drowned_ == ("x2",)
        np.testing.assert_allclose(predicted, estimator.fit(without, LABELS).predict(without), rtol=1e-9)


@pytest.mark.parametrize(
    ("estimator", "x", "y", "named"),
    [
        (DebiasedRidgeRegression("ash"), X.assign(ash=2.0), None, "ash"),
        (DebiasedRidgeRegression("ash", noise_variance=1e7), X, None, "drown"),
        (DebiasedLDA("ash"), X, None, "class 0"),
        (DebiasedLDA(), np.ones((178, 1)), LABELS, "x0"),
        (DebiasedLDA(), X, np.zeros(len(X)), "y"),
        (DebiasedRidgeRegression("ash"), X, X["ash"], "y"),
        (DebiasedRidgeRegression(13), X, None, "target"),
        (DebiasedRidgeRegression("wight"), X, None, "target"),
        (DebiasedRidgeRegression(["alcohol", "ash"]), X, None, "target"),
        (DebiasedRidgeRegression("ash", alpha=-1.0), X, None, "alpha"),
        (DebiasedLDA(["ash", "ash"]), X, None, "target"),
        (DebiasedLDA(list(range(13))), X, None, "target"),
        (DebiasedLDA("ash", classes=(1, 1)), X, None, "classes"),
        (DebiasedLDA("ash", classes=(2, 3), precision="inverse"), X, None, "precision"),
    ],
)
def test_bad_tables_are_refused(estimator: Any, x: Any, y: Any, named: str) -> None:
    """A constant target or predictor, too much noise, one class, and wrong settings are named."""
    with pytest.raises((ParameterError, EstimationError), match=named):
        estimator.fit(x, y)
