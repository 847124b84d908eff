"""The last bits of eigenvector releases: those of floating point tell two tables apart, those of integers do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.audit.black_box import attack_from_outside, epsilon_bound
from dp_publish.audit.low_bits import low_bit_scores, low_bit_tables, rank_one_coefficients
from dp_publish.covariance.calibration import MechanismSetting, insecure_draw
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.eigenvectors import (
    insecure_eigenvectors,
    insecure_kapralov_talwar,
    release_eigenvectors,
    release_kapralov_talwar,
)
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.second_moments import SecondMoments
from dp_publish.sampling.keystream import insecure_keystream

EPSILON = 0.1
Release = Callable[..., NoisyMoments]
FORMS = {
    "eigenvectors": (release_eigenvectors, insecure_eigenvectors, None),
    "eigenvectors, printed": (
        partial(release_eigenvectors, sensitivity="printed"),
        partial(insecure_eigenvectors, sensitivity="printed"),
        rank_one_coefficients,
    ),
    "kapralov-talwar": (release_kapralov_talwar, insecure_kapralov_talwar, None),
}


def _released(release: Release, d: int, neighbours: str, n: int) -> tuple[list[np.ndarray], list[SecondMoments]]:
    public = neighbours == "replace-one"
    tables = low_bit_tables(
        scaling_for([(-1.0, 1.0)] * (d if public else d - 1), with_mean=not public), Neighbours(neighbours)
    )
    rng = insecure_keystream(7)
    draw = partial(release, epsilon=EPSILON, neighbours=neighbours, rng=rng)
    return [np.array([draw(table).matrix for _ in range(n)]) for table in tables], tables


def _bound(scores: list[np.ndarray]) -> float:
    half = len(scores[0]) // 2
    return epsilon_bound([part[:half] for part in scores], [part[half:] for part in scores], 0.0, 1e-4)


def _proved(name: str, release: Release, d: int, neighbours: str, n: int) -> float:
    released, tables = _released(release, d, neighbours, n)
    mechanism = name.split(",")[0]
    scores = low_bit_scores(
        released, tables, EPSILON, Neighbours(neighbours), mechanism=mechanism, coefficients=FORMS[name][2]
    )
    return _bound(scores)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "d", "neighbours", "n"),
    [
        ("eigenvectors", 2, "replace-one", 1000),
        ("eigenvectors, printed", 2, "replace-one", 1000),
        ("kapralov-talwar", 2, "replace-one", 300),
        ("kapralov-talwar", 2, "add-remove", 1000),
        ("kapralov-talwar", 3, "replace-one", 1000),
    ],
)
def test_floating_point_is_told_apart(name: str, d: int, neighbours: str, n: int) -> None:
    """Releases drawn in floating point at epsilon = 0.1 prove more than twice as much."""
    assert _proved(name, FORMS[name][1], d, neighbours, n) > 2 * EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", FORMS)
def test_releases_are_not(name: str, neighbours: str, d: int) -> None:
    """2000 releases of each table at epsilon = 0.1 prove no more, by bits of directions or parities of entries."""
    released, tables = _released(FORMS[name][0], d, neighbours, 2000)
    mechanism = name.split(",")[0]
    scores = low_bit_scores(
        released, tables, EPSILON, Neighbours(neighbours), mechanism=mechanism, coefficients=FORMS[name][2]
    )
    assert _bound(scores) <= EPSILON
    assert _bound(_parities(released, d)) <= EPSILON


def _parities(released: list[np.ndarray], d: int) -> list[np.ndarray]:
    """Return how much more often entries with such last bits came from the second table, in the first half."""
    upper = tuple(axis[:6] for axis in np.triu_indices(d))
    step = 1.0
    while any(np.remainder(part[:, 0, 1], step).any() for part in released):
        step /= 2
    codes = [
        (np.rint(part[:, *upper] / step).astype(np.int64) & 1) @ (1 << np.arange(len(upper[0]))) for part in released
    ]
    half = len(released[0]) // 2
    counts = [np.bincount(code[:half], minlength=64) + 1 for code in codes]
    return [np.log(counts[1] / counts[0])[code] for code in codes]


@pytest.mark.parametrize("mechanism", ["eigenvectors", "kapralov-talwar"])
@pytest.mark.slow
def test_audit_finds_floating_point(mechanism: str) -> None:
    """An audit of the same mechanisms drawn in floating point names their last bits."""
    keystream = insecure_keystream(1)
    setting = MechanismSetting(mechanism, Neighbours.REPLACE_ONE, scaling_for([(0.0, 4.0)] * 13), 1, epsilon=EPSILON)
    *_, checks = attack_from_outside(setting, n_runs=4000, draw=insecure_draw, new_keystream=lambda: keystream)
    assert {check.name for check in checks if not check.passed} == {"low bits"}
