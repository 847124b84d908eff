"""Differences of partial correlations: estimates, errors and tests against closed forms."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from tests.unit.consumer.sources import pooled_of

from dp_learn.covariance.standard_errors import form_errors
from dp_learn.inference.releases import Differences, Release, estimate_releases, find_differences
from dp_learn.matrices.linalg import FloatArray

P, N_ROWS = 4, 2000
UPPER = np.triu_indices(P, 1)


def covariance_of(link: float) -> FloatArray:
    """Return a covariance of which all partial correlations are zero but one, and one of 0.3."""
    precision = np.eye(P)
    precision[0, 1] = precision[1, 0] = -link
    precision[2, 3] = precision[3, 2] = -0.3
    units = np.array([1.0, 3.0, 0.2, 10.0])
    return np.asarray(np.linalg.inv(precision) * np.outer(units, units))


def release_of(clean: FloatArray, n_rows: int = N_ROWS, noise: npt.ArrayLike = 0.0, n_nodes: int = P) -> Release:
    """Return a release whose debiased covariance is exactly this one."""
    pooled = pooled_of(n_rows, clean, noise * np.diagonal(clean))
    return Release(pooled, np.linalg.inv(clean), lambda b: form_errors(pooled, b), np.ones((n_nodes, n_nodes)))


def released(link: float, n_rows: int = N_ROWS) -> Release:
    """Return a release of the true covariance."""
    return release_of(covariance_of(link), n_rows)


def compare(*releases: Release, nodes: Sequence[int] = range(P)) -> Differences:
    """Compare releases."""
    return find_differences(estimate_releases(releases, np.array(nodes)), n_draws=2000)


def test_clean_rows_have_the_textbook_error() -> None:
    """Without noise the error of each partial correlation is (1 - r^2) / sqrt(n - 1), whatever the columns' units."""
    found = compare(released(0.1), released(0.4, 500)).each[0]
    r = np.array([[0.1, 0.4], *[[0.0, 0.0]] * 4, [0.3, 0.3]])
    error = np.sqrt((1 - r[:, 0] ** 2) ** 2 / (N_ROWS - 1) + (1 - r[:, 1] ** 2) ** 2 / 499)

    np.testing.assert_allclose(found.difference, r[:, 1] - r[:, 0], atol=1e-12)
    np.testing.assert_allclose(found.standard_error, error, rtol=1e-9)


def test_global_tests_have_their_critical_values() -> None:
    """Of six pairs in all but independence, the largest exceeds that of six normals, and the squares chi-squared."""
    same, other = (compare(released(0.1), released(link)).each[0] for link in (0.1, 0.4))

    assert same.largest.critical == pytest.approx(2.63, abs=0.08)  # of six independent normals: 0.95 ** (1 / 6)
    assert same.squares.critical == pytest.approx(12.59, abs=0.6)  # chi-squared with 6 degrees of freedom
    assert same.largest.p_value == same.squares.p_value == 1.0
    assert other.largest.p_value == other.squares.p_value == 1 / 2001
    assert other.squares.statistic == pytest.approx(float(np.sum((other.difference / other.standard_error) ** 2)))


def test_strengths_count_links_with_the_sign_of_the_mean() -> None:
    """A node's strength is the sum over the links that the mean shows, and its difference has their joint error."""
    found = compare(released(-0.1), released(-0.4))
    first = found.each[0]

    assert found.is_link.tolist() == [True, *[False] * 4, True]
    np.testing.assert_allclose(found.strengths, [[0.1, 0.1, 0.3, 0.3], [0.4, 0.4, 0.3, 0.3]], atol=1e-12)
    np.testing.assert_allclose(first.strength, [0.3, 0.3, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(first.strength_error[[0, 2]], first.standard_error[[0, 5]], rtol=0.05)


def test_a_column_of_noise_is_not_compared() -> None:
    """Pairs of a column that a release hides have no number, and no part in the others' q-values."""
    found = compare(released(0.1), release_of(covariance_of(0.4), noise=np.array([0.0, 0.0, 0.0, 40.0])))
    with_last = UPPER[1] == 3

    assert found.is_comparable.tolist() == (~with_last).tolist()
    assert np.isnan(found.each[0].p_value[with_last]).all()
    assert found.q_values[0][0] == pytest.approx(3 * found.each[0].p_value[0])


def test_blocks_do_not_depend_on_the_basis_of_a_node() -> None:
    """Nodes of two columns compare the same to rounding in another basis of each that the releases share."""
    turn = np.kron(np.eye(2), np.linalg.qr(np.random.default_rng(3).normal(size=(2, 2)))[0])
    block, results = np.array([[0.3, 0.1], [-0.2, 0.25]]), []
    for basis in (np.eye(P), turn):
        releases = []
        for factor in (1.0, 0.4):
            precision = np.eye(P)
            precision[:2, 2:], precision[2:, :2] = factor * block, factor * block.T
            releases.append(release_of(basis @ np.linalg.inv(precision) @ basis.T, n_nodes=2))
        results += compare(*releases, nodes=(0, 0, 1, 1)).each

    plain, turned = results
    assert plain.difference[0] == pytest.approx(-0.6 * np.linalg.svd(block)[1][0])
    assert turned.difference[0] == pytest.approx(plain.difference[0])
    assert turned.standard_error[0] == pytest.approx(plain.standard_error[0])
