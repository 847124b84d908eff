"""Directions, normal numbers and eigenvalues as integers have their laws, to the precision stated."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from dp_publish.covariance.mechanisms.spectral import (
    _ellipsoid,
    eigenvalues_in_units,
)
from dp_publish.sampling.fixed_point import _is_below_exp_minus, exp_minus, integers, power_of_root

_EXPONENT = 60


@pytest.mark.parametrize("places", [64, 300, 2000])
def test_exponentials_are_right_to_the_last_two_units(places: int) -> None:
    """They agree with mpmath's, from 0 to where nothing is left."""
    with mpmath.workprec(places + 64):
        for value in (0.0, 1e-9, 0.5, 1.0, 7.25, 41.0, 0.6 * places):
            at = int(mpmath.mpf(value) * 2**places)
            exact = mpmath.exp(-mpmath.mpf(at) / 2**places) * 2**places
            assert abs(exp_minus(at, places) - exact) <= 2
        for exponent in (1, 2, 5, 40):
            exact = (mpmath.mpf(3) / 4) ** (mpmath.mpf(exponent) / 2) * 2**places
            assert abs(power_of_root(3 << (places - 2), exponent, places) - exact) <= 2 * exponent
    assert exp_minus((places + 1) << places, places) == 0


@pytest.mark.parametrize("places", [12, 64, 300])
def test_floating_point_decides_only_what_it_knows(places: int) -> None:
    """Next to the exponential, and far from it, the comparison is that of integers."""
    for exponent in (1, 41 << places, (places + 1) << places, *((k << places) // 7 for k in range(60))):
        density = exp_minus(exponent, places)
        for value in (density + shift for shift in (-(1 << (places - 1)), -2, -1, 0, 1, 2, 1 << (places - 1))):
            assert _is_below_exp_minus(value, exponent, places) == (value < density)


def _trace_of_inverse(matrix: np.ndarray) -> float:
    return float(np.trace(np.linalg.inv(matrix)))


@pytest.mark.parametrize("k", [2, 7, 20])
def test_proposals_keep_what_the_proof_asks_of_them(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """L^T R L is near the identity and tr R^-1 in [1, 3], for round and long matrices, and for a bad first guess."""
    axes = stats.ortho_group.rvs(k, random_state=k)
    for spread in (0.0, 1.0, 1e4, 1e9):
        for guess in (None, 0, 1 << 200):
            if guess is not None:
                monkeypatch.setattr("dp_publish.covariance.mechanisms.spectral._likely_rho", lambda *_, g=guess: g)
            matrix = integers(axes @ np.diag(spread * np.linspace(-0.5, 1, k)) @ axes.T, _EXPONENT)
            matrix = (matrix + matrix.T) // 2
            shape = _ellipsoid(matrix, _EXPONENT)
            form = (shape.form / (1 << _EXPONENT)).astype(float)
            product = shape.inverse @ shape.form @ shape.inverse.T
            one = product[0, 0]
            assert abs(product / one - np.eye(k)).max() < 1 / (4 * k * k)
            assert shape.least <= one
            assert np.abs(form).sum(axis=1).max() <= 4.0**shape.bits
            if spread < 1e9:
                assert 0.999 < _trace_of_inverse(form) < 3.01
            monkeypatch.undo()


@pytest.mark.parametrize("d", [1, 2, 6, 15])
def test_eigenvalues_are_within_their_unit(d: int) -> None:
    """They agree with mpmath's to 3/4 of a unit, also where many are equal or units are far below float64's."""
    rng = np.random.default_rng(d)
    rows = rng.integers(-(2**20), 2**20, (40, d)).astype(object)
    cluster = np.full((d, d), 2**50, dtype=object) + np.diag([1] * d).astype(object)
    for matrix in (rows.T @ rows, cluster, np.zeros((d, d), dtype=object), (rows.T @ rows) << 200):
        with mpmath.workprec(600):
            exact = sorted(mpmath.eigsy(mpmath.matrix(matrix.tolist()), eigvals_only=True), reverse=True)
            for exponent in (0, 30):
                found = eigenvalues_in_units(matrix, exponent)
                assert all(abs(one - true / 2**exponent) <= 0.75 for one, true in zip(found, exact, strict=True))
