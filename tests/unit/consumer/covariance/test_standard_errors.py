"""Errors of bilinear forms and entries against exact enumeration, closed forms, rows one by one, and simulation."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.consumer.sources import law_of_two_rounds, source_of

from dp_bundle.base.errors import DrownedColumnError, EstimationError
from dp_bundle.data.matrix import mean_and_covariance
from dp_learn.covariance.collinear import clear_columns
from dp_learn.covariance.estimate import (
    FormErrors,
    PooledCovariance,
    ReleasedCovariance,
    combine_sources,
    keep_columns,
)
from dp_learn.covariance.moments import row_errors
from dp_learn.covariance.sample import effective_rows
from dp_learn.covariance.standard_errors import (
    combine_row_errors,
    entry_variances,
    form_errors,
    form_variances,
    mechanism_entry_variances,
    mechanism_errors,
    null_standard_errors,
    sum_over_pairs,
    unexplained_variances,
)
from dp_learn.covariance.two_rounds import noise_of_one_round

Law = list[tuple[float, np.ndarray]]  # probabilities and what they are of

FORMS = np.array([[1.0, -0.7], [0.4, 1.3], [0.0, 1.0]])
CLEAN_LAW: Law = [
    (0.4, np.array([0.0, 0.0])),
    (0.3, np.array([1.0, 2.0])),
    (0.2, np.array([3.0, 1.0])),
    (0.1, np.array([-2.0, 4.0])),
]
NOISE_LAW: Law = [  # columns with three and with two values, the first of high and the second of low kurtosis
    (p * q, np.array([x, y]))
    for (p, x), (q, y) in itertools.product([(0.1, -2.0), (0.8, 0.0), (0.1, 2.0)], [(0.5, -0.6), (0.5, 0.6)])
]
NOISE_VARIANCE = np.array([0.8, 0.36])
NOISE_FOURTH_CUMULANT = np.array([3.2 - 3 * 0.8**2, -2 * 0.36**2])


def random_covariance(p: int, seed: int) -> np.ndarray:
    """Return a positive definite matrix."""
    factor = np.random.default_rng(seed).normal(size=(p, 2 * p))
    return factor @ factor.T / (2 * p)


def errors_of_two_rows(law: Law) -> FormErrors:
    """Return the exact errors of the forms of the sample covariance of two independent rows, over all outcomes."""
    pairs = list(itertools.product(law, law))
    weight = np.array([p * q for (p, _), (q, _) in pairs])[:, None, None]
    values = np.array([FORMS @ (x - y) for (_, x), (_, y) in pairs])
    squares = values**2 / 2.0
    f, s = values[:, :, None] * values[:, None, :] / 2.0, (squares[:, :, None] + squares[:, None, :]) / 2.0
    f, s = f - (weight * f).sum(axis=0), s - (weight * s).sum(axis=0)
    return FormErrors((weight * f * f).sum(axis=0), 2 * (weight * f * s).sum(axis=0), (weight * s * s).sum(axis=0))


def assert_same(first: FormErrors, second: FormErrors, rtol: float = 1e-12) -> None:
    """Compare all three matrices."""
    for found, expected in zip(vars(first).values(), vars(second).values(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def test_mechanism_part_is_exact_for_rows_and_noise_of_any_distribution() -> None:
    """With two rows of skewed data and non-Gaussian noise, all outcomes give just what the mechanism's part adds."""
    noisy_law = [(p * q, x + e) for (p, x), (q, e) in itertools.product(CLEAN_LAW, NOISE_LAW)]
    weights, points = zip(*CLEAN_LAW, strict=True)
    covariance = np.cov(np.array(points), rowvar=False, aweights=weights, ddof=0)
    noisy = source_of(2, covariance + np.diag(NOISE_VARIANCE), NOISE_VARIANCE, NOISE_FOURTH_CUMULANT)
    pooled = combine_sources("ab", [noisy])

    assert_same(mechanism_errors(pooled, FORMS) + errors_of_two_rows(CLEAN_LAW), errors_of_two_rows(noisy_law))


def test_row_errors_are_those_of_the_products_row_by_row() -> None:
    """In any batches they are the rows' variances and covariances of the products, over n."""
    rng = np.random.default_rng(4)
    rows = rng.exponential(size=(300, 2)) ** 2
    y = (rows - rows.mean(axis=0)) @ FORMS.T
    f, squares = y[:, :, None] * y[:, None, :], (y[:, :, None] ** 2 + y[:, None, :] ** 2) / 2
    f, squares = f - f.mean(axis=0), squares - squares.mean(axis=0)
    expected = FormErrors((f * f).mean(axis=0), 2 * (f * squares).mean(axis=0), (squares**2).mean(axis=0))

    for known in (None, np.cov(rows.T)):
        found = row_errors(np.split(rows, [10, 10, 250]), rows.mean(axis=0), FORMS, known)

        assert_same(found, expected.times(1 / 300), rtol=1e-11)
        np.testing.assert_array_equal(found.products, found.products.T)


def test_row_errors_combine_like_the_model() -> None:
    """From the model's own errors of each source, the pooled errors are the model's, in both ways of pooling."""
    clean = random_covariance(3, 6)
    sources = [source_of(40, clean + np.diag(v), np.array(v)) for v in ([0.2, 0.4, 1.0], [2.0, 0.1, 0.0])]
    each = [form_errors(combine_sources("abc", [one]), np.eye(3)) for one in sources]
    for same_rows in (False, True):
        pooled = combine_sources("abc", sources, (0.4, 0.6), same_rows=same_rows)
        assert_same(combine_row_errors(pooled, np.eye(3), each), form_errors(pooled, np.eye(3)))
    with pytest.raises(EstimationError):
        row_errors([np.ones((1, 2))], np.zeros(2), np.eye(2))


KINDS = ["rows", "with a constant", "with a noisy constant", "without a constant", "two rounds", "pooled", "same rows"]


def model(p: int, seed: int = 0) -> np.ndarray:
    """Return a sparse precision matrix of a chain with a few more edges, its columns of different units."""
    rng = np.random.default_rng(seed)
    theta = np.eye(p) + np.diag(np.full(p - 1, 0.3), 1) + np.diag(np.full(p - 1, 0.3), -1)
    theta[0, p - 1] = theta[p - 1, 0] = 0.2
    units = rng.uniform(0.5, 2.0, p)
    return theta * np.outer(units, units)


def pooled_from(kind: str, covariance: np.ndarray) -> PooledCovariance:
    """Return a covariance whose sources have all that can differ between them."""
    rng, p = np.random.default_rng(len(kind)), len(covariance)
    rows = tuple(
        source_of(n, covariance, rng.uniform(0.1, 1.0, p), rng.normal(scale=0.1, size=p)) for n in (300, 300, 80)
    )
    constant = 0.0 if kind == "without a constant" else 0.7
    half, mean = rng.uniform(1.0, 3.0, p), rng.normal(scale=0.3, size=p)
    exact = kind != "with a noisy constant"
    noise = noise_of_one_round(90, half, mean, constant, (7.0, 5.0), exact_count=exact)
    released = ReleasedCovariance(90, covariance, noise)
    sources, weights = {
        "rows": (rows[:1], (1.0,)),
        "pooled": ((rows[0], rows[2], released), (0.5, 0.3, 0.2)),
        "same rows": (rows[:2], (0.4, 0.6)),
        "two rounds": ((ReleasedCovariance(90, covariance, law_of_two_rounds(rng, p, p + 1), kurtosis=1.7),), (1.0,)),
    }.get(kind, ((released,), (1.0,)))
    names = tuple(f"x{index}" for index in range(p))
    return PooledCovariance(names, covariance, sources, weights, same_rows=kind == "same rows")


@pytest.mark.parametrize("kind", KINDS)
def test_variances_of_entries_are_those_of_the_forms_of_the_identity(kind: str) -> None:
    """With and without correlations, for the noise alone, and for some of the columns, every entry agrees."""
    s = np.linalg.inv(model(9))
    pooled = pooled_from(kind, s)
    units = np.outer(pooled.deviations, pooled.deviations) ** 2
    uncorrelated = replace(pooled, covariance=np.diag(np.diagonal(s)))
    eye = np.eye(9)

    for given, correlation in ((pooled, pooled.correlation), (uncorrelated, None)):
        found = entry_variances(pooled, correlation), mechanism_entry_variances(pooled, correlation)
        expected = form_variances(given, eye), mechanism_errors(given, eye).products
        np.testing.assert_allclose(np.array(found) * units, expected, rtol=1e-10)
    nothing = mechanism_errors(replace(pooled, covariance=np.zeros((9, 9))), eye).products.diagonal()
    np.testing.assert_allclose(unexplained_variances(pooled), nothing, rtol=1e-10)

    kept, forms = np.array([7, 2, 3]), np.random.default_rng(0).normal(size=(4, 3))
    few, whole = mechanism_errors(keep_columns(pooled, kept), forms), mechanism_errors(pooled, forms @ eye[kept])
    np.testing.assert_allclose(few.products, whole.products, rtol=1e-10)


@pytest.mark.parametrize("p", [9, 210])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_over_pairs_are_those_of_the_forms(kind: str, p: int) -> None:
    """At a model, dense or so large and sparse that products are sparse too, both sums and the rows they give agree."""
    theta, upper = model(p), np.triu_indices(p, 1)
    pooled, scale = pooled_from(kind, np.linalg.inv(theta)), np.outer(theta.diagonal(), theta.diagonal())
    noiseless = (1.0 + (theta**2 / scale)[upper]).sum()
    total = (form_variances(pooled, theta) / scale)[upper].sum()

    np.testing.assert_allclose(sum_over_pairs(pooled, theta), (noiseless, total), rtol=1e-10)
    assert effective_rows(pooled, theta) == pytest.approx(1.0 + noiseless / total, rel=1e-10)


N_ROWS, CONSTANT = 3000, 0.75
HALF = np.array([2.0, 1.0, 5.0])
MEAN = np.array([0.4, -0.2, 0.1])
S = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.25]])  # of the scaled columns
RELEASED_FORMS = np.array([[1.0, 0.0, 0.0], [0.5, -1.0, 0.2], [-0.3, 0.7, 1.0], [0.0, 0.0, 0.1]])


def released_sum(constant: float) -> np.ndarray:
    """Return the sum of (z, c)(z, c)^T over rows with these moments."""
    if not constant:
        return N_ROWS * S  # columns count as centred
    mean = np.append(MEAN, constant)
    exact = np.outer(mean, mean)
    exact[:3, :3] += S
    return N_ROWS * exact


def released(
    matrix: np.ndarray, constant: float, variances: tuple[float, float], *, exact: bool = True
) -> ReleasedCovariance:
    """Read a released sum as the learner does."""
    mean, covariance, rows = mean_and_covariance(
        matrix, np.zeros(3), HALF, constant, n_rows=N_ROWS if exact else None, off_diagonal_variance=variances[1]
    )
    noise = noise_of_one_round(round(rows), HALF, mean / HALF, constant, variances, exact_count=exact)

    return ReleasedCovariance(round(rows), covariance, noise)


@pytest.mark.parametrize("variances", [(2.0, 1.0), (1.0, 2.0)])
@pytest.mark.parametrize(("constant", "exact"), [(CONSTANT, True), (CONSTANT, False), (0.0, True)])
def test_mechanism_errors_are_those_that_derivatives_propagate(
    variances: tuple[float, float], constant: float, *, exact: bool
) -> None:
    """What each entry's noise moves the debiased covariance by, as finite differences have it, makes all errors."""
    clean, moved = released_sum(constant), []
    pooled = combine_sources("abc", [released(clean, constant, variances, exact=exact)])
    for i, j in itertools.combinations_with_replacement(range(len(clean)), 2):
        if constant and exact and i == len(clean) - 1:
            continue
        change = np.zeros_like(clean)
        change[i, j] = change[j, i] = 1.0
        up, down = (released(clean + sign * change, constant, variances, exact=exact).debiased for sign in (1, -1))
        moved.append(RELEASED_FORMS @ (up - down) @ RELEASED_FORMS.T / 2 * np.sqrt(variances[i != j]))
    own = np.array(moved)
    diagonals = np.diagonal(own, axis1=1, axis2=2)
    totals = diagonals[:, :, None] + diagonals[:, None, :]
    expected = FormErrors((own**2).sum(axis=0), (own * totals).sum(axis=0), (totals**2).sum(axis=0) / 4)

    assert_same(mechanism_errors(pooled, RELEASED_FORMS), expected, rtol=2e-3)


def test_estimated_errors_choose_but_prove_nothing() -> None:
    """An estimate counts like a variance in effective rows and weights; columns need not stand clear of it.

    Where a mechanism states no noise for single entries, no error is made up.
    """
    with pytest.raises(EstimationError):
        form_errors(combine_sources("abc", [ReleasedCovariance(100, S, None)]), np.eye(3))
    noise = noise_of_one_round(N_ROWS, HALF, MEAN, CONSTANT, (2e6, 1e6))
    stated, estimated = (
        combine_sources("abc", [ReleasedCovariance(N_ROWS, S, noise, estimated=estimated)])
        for estimated in (False, True)
    )
    assert effective_rows(estimated) == effective_rows(stated) < N_ROWS
    assert (null_standard_errors(estimated) == null_standard_errors(stated)).all()
    assert (stated.has_error_law, estimated.has_error_law) == (True, False)
    assert len(clear_columns(estimated)[0]) == 3
    with pytest.raises(DrownedColumnError):
        clear_columns(stated)
