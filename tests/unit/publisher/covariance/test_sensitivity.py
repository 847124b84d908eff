"""Sensitivities are bounds, and tight ones: rows found by ascent come near them and never above."""

import math

import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.noise import Neighbours
from dp_publish.covariance.scaling import (
    Scaling,
    frobenius_sensitivity,
    l1_sensitivity,
    nuclear_sensitivity,
    scaling_for,
)

REPLACE_ONE, ADD_REMOVE = Neighbours
Rows = tuple[np.ndarray, np.ndarray]


def _scaling(p: int, *, with_mean: bool = True, radius: float | None = None) -> Scaling:
    return scaling_for([(-1.0, 1.0)] * p, with_mean=with_mean, radius=radius)


def _outer(z: np.ndarray, scaling: Scaling) -> np.ndarray:
    v = np.append(z, scaling.constant) if scaling.constant else z
    return np.outer(v, v)


def _move(rows: Rows, scaling: Scaling) -> np.ndarray:
    return _outer(rows[0], scaling) - _outer(rows[1], scaling)


def _l1(difference: np.ndarray) -> float:
    return float(np.abs(difference[np.triu_indices(len(difference))]).sum())


def _ascend(scaling: Scaling, rng: np.random.Generator, *, remove: bool) -> float:
    """Return a local maximum of the L1 norm: alternate between signs and the rows that are best for them."""
    p, radius = scaling.n_features, scaling.radius
    z, w = (radius * row / np.linalg.norm(row) for row in rng.normal(size=(2, p)))
    best = 0.0
    for _ in range(12):
        difference = _outer(z, scaling) if remove else _move((z, w), scaling)
        best = max(best, _l1(difference))
        signs = np.where(difference >= 0, 1.0, -1.0)
        h = 0.5 * (signs[:p, :p] + np.diag(np.diag(signs)[:p]))
        linear = scaling.constant * signs[:p, p] if scaling.constant else np.zeros(p)
        z, w = _largest(h, linear, radius, z), _largest(-h, -linear, radius, w)
    return best


def _largest(h: np.ndarray, linear: np.ndarray, radius: float, start: np.ndarray) -> np.ndarray:
    """Return a row of length R with a large z'Hz + linear'z, by the power method with a shift."""
    shift = 1e-3 + np.abs(h).sum(axis=1).max()
    z = start
    for _ in range(30):
        z = 2 * (h @ z + shift * z) + linear
        z *= radius / np.linalg.norm(z)
    return z


@pytest.mark.parametrize("p", [2, 4, 9])
@pytest.mark.parametrize("with_mean", [True, False])
def test_l1_bound_holds_and_is_nearly_attained(p: int, with_mean: bool) -> None:
    """Over 30 starts, the largest L1 movement is never above the bound, and above 0.8 of it."""
    scaling, rng = _scaling(p, with_mean=with_mean), np.random.default_rng(p)
    most = max(_ascend(scaling, rng, remove=False) for _ in range(30))
    bound = l1_sensitivity(scaling, REPLACE_ONE)

    assert 0.8 * bound < most <= bound
    if p == 2 and not with_mean:
        assert most == pytest.approx(scaling.radius**2 * math.sqrt(5), rel=1e-6)


@pytest.mark.parametrize("with_mean", [True, False])
def test_l1_bound_holds_for_one_column(with_mean: bool) -> None:
    """No pair of values in [-1, 1] moves the sum by more than the bound, which is attained without the constant."""
    scaling = _scaling(1, with_mean=with_mean)
    z = np.linspace(-1, 1, 401)
    moved = np.abs(z[:, None] ** 2 - z**2) + scaling.constant * np.abs(z[:, None] - z)
    bound = l1_sensitivity(scaling, REPLACE_ONE)

    assert moved.max() <= bound
    assert with_mean or moved.max() == pytest.approx(bound)


@pytest.mark.parametrize("p", [1, 5])
def test_l1_of_one_row_more_is_attained(p: int) -> None:
    """One row more or less moves the sum by exactly the bound: a row with equal entries does."""
    scaling = _scaling(p)
    rng = np.random.default_rng(p)
    bound = l1_sensitivity(scaling, ADD_REMOVE)

    assert _l1(_outer(np.full(p, scaling.radius / math.sqrt(p)), scaling)) == pytest.approx(bound, rel=1e-12)
    assert max(_ascend(scaling, rng, remove=True) for _ in range(10)) <= bound


@pytest.mark.parametrize("p", [1, 2, 7])
@pytest.mark.parametrize("radius", [None, 0.5])
def test_frobenius_and_nuclear_bounds_are_attained(p: int, radius: float | None) -> None:
    """Opposite rows that are orthogonal with the constant move by the bound; random rows never by more."""
    scaling, rng = _scaling(p, radius=radius), np.random.default_rng(3)
    norms = {"fro": frobenius_sensitivity(scaling, REPLACE_ONE), "nuc": nuclear_sensitivity(scaling, REPLACE_ONE)}
    for _ in range(300):
        z, w = (rng.uniform() ** 0.2 * scaling.radius * row / np.linalg.norm(row) for row in rng.normal(size=(2, p)))
        assert all(np.linalg.norm(_move((z, w), scaling), name) <= bound for name, bound in norms.items())
    if p > 1:
        angle = math.acos(-(scaling.constant**2) / scaling.radius**2)
        z, w = np.zeros(p), np.zeros(p)
        z[0], w[:2] = scaling.radius, [scaling.radius * math.cos(angle), scaling.radius * math.sin(angle)]
        for name, bound in norms.items():
            assert np.linalg.norm(_move((z, w), scaling), name) == pytest.approx(bound, rel=1e-9)
    one = np.linalg.norm(_outer(np.full(p, scaling.radius / math.sqrt(p)), scaling))
    assert one == pytest.approx(frobenius_sensitivity(scaling, ADD_REMOVE), rel=1e-9)
    assert one <= nuclear_sensitivity(scaling, ADD_REMOVE)


def test_unknown_neighbours_are_refused() -> None:
    """A relation of another name is an error of ours."""
    with pytest.raises(ParameterError, match="neighbours"):
        frobenius_sensitivity(_scaling(2), Neighbours("swap"))
