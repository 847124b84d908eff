"""The last bits of eigenvector releases: those of floating point tell two tables apart, those of integers do not."""

import numpy as np
import pytest

from dp_audit.black_box import attack_from_outside, epsilon_bound, low_bit_scores, low_bit_tables
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.strength import PureDP
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.kapralov_talwar import KapralovTalwar
from dp_publish.covariance.mechanisms.spectral import SpectralMechanism
from dp_publish.covariance.scaling import scaling_for
from dp_publish.sampling.keystream import insecure_keystream
from printed_forms import PrintedEigenvectors

EPSILON = 0.1
FORMS: dict[str, type[SpectralMechanism]] = {
    "eigenvectors": Eigenvectors,
    "eigenvectors, printed": PrintedEigenvectors,
    "kapralov-talwar": KapralovTalwar,
}


def _mechanism(name: str, d: int, neighbours: str) -> SpectralMechanism:
    public = neighbours == "replace-one"
    scaling = scaling_for([(-1.0, 1.0)] * (d if public else d - 1), with_mean=not public)
    return FORMS[name](scaling, Neighbours(neighbours), PureDP(EPSILON))


def _released(
    mechanism: SpectralMechanism, n: int, *, insecure: bool = False
) -> tuple[list[np.ndarray], list[ExactMoments]]:
    tables = low_bit_tables(mechanism.scaling, mechanism.neighbours)
    draw, rng = mechanism.insecure_draw if insecure else mechanism.draw, insecure_keystream(7)
    return [np.array([draw(table, rng).matrix for _ in range(n)]) for table in tables], tables


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "d", "neighbours", "n"),
    [
        ("eigenvectors", 2, "replace-one", 1000),
        ("eigenvectors, printed", 2, "replace-one", 1000),
        ("kapralov-talwar", 2, "replace-one", 300),
        ("kapralov-talwar", 2, "add-remove", 1000),
        # on some machines fewer tell less
        pytest.param("kapralov-talwar", 3, "replace-one", 4000, marks=pytest.mark.long),
    ],
)
def test_floating_point_is_told_apart(name: str, d: int, neighbours: str, n: int) -> None:
    """Releases drawn in floating point at epsilon = 0.1 prove more than twice as much."""
    mechanism = _mechanism(name, d, neighbours)
    released, tables = _released(mechanism, n, insecure=True)
    assert epsilon_bound(low_bit_scores(released, tables, mechanism), 0.0, 1e-4) > 2 * EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, *(pytest.param(d, marks=pytest.mark.long) for d in (2, 5))])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", FORMS)
def test_releases_are_not(name: str, neighbours: str, d: int) -> None:
    """2000 releases of each table at epsilon = 0.1 prove no more, by bits of directions or parities of entries."""
    mechanism = _mechanism(name, d, neighbours)
    released, tables = _released(mechanism, 2000)
    assert epsilon_bound(low_bit_scores(released, tables, mechanism), 0.0, 1e-4) <= EPSILON
    assert epsilon_bound(_parities(released, d), 0.0, 1e-4) <= EPSILON


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


@pytest.mark.parametrize("kind", [Eigenvectors, KapralovTalwar])
@pytest.mark.slow
def test_audit_finds_floating_point(kind: type[SpectralMechanism], monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit of the same mechanisms drawn in floating point names their last bits."""
    keystream = insecure_keystream(1)
    monkeypatch.setattr(kind, "draw", kind.insecure_draw)
    mechanism = kind(scaling_for([(0.0, 4.0)] * 13), Neighbours.REPLACE_ONE, PureDP(EPSILON))
    report = attack_from_outside(mechanism, n_runs=4000, new_keystream=lambda: keystream)
    assert {check.name for check in report.findings} == {"low bits"}
