"""The attack on covariance mechanisms: what is built passes, and planted faults are found under their names."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from dp_audit.covariance_attack import attack_moments
from dp_audit.report import AuditReport, describe_audit
from dp_audit.whole_covariance_releases import audit_moments
from dp_bundle.base.errors import PrivacyError
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish.accounting.strength import GaussianDP, PureDP, Strength
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import Mechanism, NoisyMoments
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.scaling import Scaling, scaling_for
from dp_publish.sampling.keystream import Keystream, insecure_keystream

Draw = Callable[[Mechanism, ExactMoments, Keystream], NoisyMoments]


def _made(kind: type[Mechanism], strength: Strength, neighbours: str = "replace-one") -> Mechanism:
    return kind(scaling_for([(0.0, 4.0)] * 3), Neighbours(neighbours), strength)


def _attack(mechanism: Mechanism, draw: Draw | None = None, **faults: object) -> AuditReport:
    seeds = iter(range(100))
    if draw is not None:
        honest, kind = mechanism, type(mechanism)
        faulty = type("Faulty", (kind,), {"draw": lambda _, moments, rng: draw(honest, moments, rng)})
        mechanism = faulty(**vars(honest))
    return attack_moments(
        mechanism,
        n_runs=3000,
        new_keystream=lambda: insecure_keystream(next(seeds)),
        rng=np.random.default_rng(4),
        **faults,  # type: ignore[arg-type]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "at_least"),
    [
        (_made(Gaussian, GaussianDP(1.0)), 0.7),
        (_made(Gaussian, GaussianDP(1.0), "add-remove"), 0.7),
        (_made(Laplace, PureDP(3.0)), 0.3),
        (_made(Laplace, PureDP(3.0), "add-remove"), 0.3),
    ],
)
def test_sound_covariance_mechanisms_pass(mechanism: Mechanism, at_least: float) -> None:
    """Nothing is found in what is built, and the attack proves a good part of the mu that is stated."""
    report = _attack(mechanism)
    assert report.findings == ()
    assert at_least < (report.mu_lower or 0.0) <= (report.stated_mu or 0.0)


def _draw_scaled(factor: float) -> Draw:
    """Return the mechanism with its noise multiplied, and stated as if it were not."""

    def draw(mechanism: Mechanism, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        honest = mechanism.draw(moments, rng)
        step = honest.noise.granularity
        noise = (honest.matrix - moments.matrix) * factor
        return replace(honest, matrix=np.rint((moments.matrix + noise) / step) * step)

    return draw


def _draw_for(sensitivity: float) -> Draw:
    """Return the mechanism made for a wrong sensitivity, with its own noise stated."""

    def draw(mechanism: Mechanism, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        (asked,) = (value for name, value in vars(mechanism.strength).items() if name != "excepted_delta")
        return replace(mechanism, strength=type(mechanism.strength)(asked / sensitivity)).draw(moments, rng)

    return draw


def _unclipped(values: np.ndarray, scaling: Scaling) -> ExactMoments:
    """Sum rows that were not clipped."""
    z = np.trunc(((values - scaling.centers) / scaling.half_widths).clip(-8, 8) * 2**20)
    products, sums = (part.astype(np.int64).astype(object) for part in (z.T @ z, z.sum(axis=0)))
    return ExactMoments(scaling, len(z), products, sums)


def _draw_floats(mechanism: Mechanism, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
    """Return noise that is on no grid."""
    honest = mechanism.draw(moments, rng)
    return replace(honest, matrix=honest.matrix * (1 + 2.0**-40))


class _SameNoise:
    """A mechanism that draws once and uses that for every release."""

    def __init__(self) -> None:
        self.noise: np.ndarray | None = None

    def __call__(self, mechanism: Mechanism, moments: ExactMoments, rng: Keystream) -> NoisyMoments:
        honest = mechanism.draw(moments, rng)
        if self.noise is None:
            self.noise = honest.matrix - moments.matrix
        step = honest.noise.granularity
        return replace(honest, matrix=np.rint((moments.matrix + self.noise) / step) * step)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [_made(Gaussian, GaussianDP(1.0)), _made(Laplace, PureDP(3.0))])
@pytest.mark.parametrize(
    ("faults", "found"),
    [
        ({"draw": _draw_scaled(0.8)}, {"noise"}),
        ({"draw": _draw_for(0.5)}, {"bounds", "attack"}),
        ({"add_up": _unclipped}, {"bounds"}),
        ({"draw": _draw_floats}, {"grid"}),
        ({"draw": _SameNoise()}, {"independence"}),
    ],
)
def test_planted_faults_of_covariance_mechanisms_are_found(
    mechanism: Mechanism, faults: dict[str, object], found: set[str]
) -> None:
    """Too little noise, a wrong sensitivity, no clipping, no grid and reused noise are found under their names."""
    failed = {check.name for check in _attack(mechanism, **faults).findings}
    if isinstance(mechanism, Laplace):
        found = found - {"attack"}  # which proves little of a pure epsilon
    assert found <= failed


@pytest.mark.slow
def test_the_audit_of_an_entitys_covariance_says_that_one_row_is_attacked() -> None:
    """The stated mu is one row's, and the report says what part of an entity that is."""
    mechanism = Gaussian(scaling_for([(0, 1)] * 2), Neighbours.REPLACE_ONE, GaussianDP(10.0), 5)
    report = audit_moments(mechanism, n_canaries=1000)

    assert report.stated_mu == pytest.approx(2.0)
    assert report.max_rows == 5
    assert "row, one of the 5 that an entity may have" in describe_audit(report)


def test_noise_on_entries_alone_is_attacked_entry_by_entry() -> None:
    """The attack that knows the noise of every entry refuses a mechanism that has none."""
    with pytest.raises(PrivacyError, match="eigenvectors mechanism cannot be audited"):
        attack_moments(_made(Eigenvectors, PureDP(1.0)))
