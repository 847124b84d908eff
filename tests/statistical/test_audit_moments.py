"""The audit of mechanisms known by their releases alone: planted faults are found, and what is built passes."""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

from dp_audit.black_box import attack_from_outside, epsilon_bound
from dp_audit.noise_laws import chi_squared_difference
from dp_audit.whole_covariance_releases import check_whole
from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_bundle.privacy.neighbours import Neighbours
from dp_publish import Policy
from dp_publish.accounting.strength import ApproximateDP, PureDP
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.mechanisms import spectral, wishart, wishart_difference
from dp_publish.covariance.mechanisms.base import Mechanism
from dp_publish.covariance.mechanisms.registry import mechanism_named
from dp_publish.covariance.mechanisms.wishart import Wishart
from dp_publish.covariance.mechanisms.wishart_curve import degrees_tight, delta_of_wishart
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import scaling_for
from dp_publish.release.aside import publish_aside
from dp_publish.sampling.keystream import insecure_keystream


def _mechanism(name: str, epsilon: float, neighbours: str = "replace-one") -> Mechanism:
    kind = mechanism_named(name)
    assert kind is not None
    strength = ApproximateDP(epsilon, 1e-5) if kind is Wishart else PureDP(epsilon)
    return kind(scaling_for([(0.0, 4.0)] * 13), Neighbours(neighbours), strength)


def _attack(mechanism: Mechanism, n_runs: int, seed: int = 1) -> tuple[float, set[str]]:
    keystream = insecure_keystream(seed)
    report = attack_from_outside(mechanism, n_runs=n_runs, new_keystream=lambda: keystream)
    return report.epsilon_lower or 0.0, {check.name for check in report.findings}


@pytest.fixture
def calibrated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look the degrees of freedom up once, not for every release: the same numbers, sooner."""
    monkeypatch.setattr(wishart, "degrees_tight", lru_cache(degrees_tight))
    monkeypatch.setattr(wishart, "delta_of_wishart", lru_cache(delta_of_wishart))


@pytest.mark.parametrize("neighbours", ["replace-one", pytest.param("add-remove", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "mechanism",
    [
        "wishart",
        "wishart-difference",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("eigenvectors", "kapralov-talwar")),
    ],
)
@pytest.mark.usefixtures("calibrated_once")
def test_sound_mechanisms_pass(mechanism: str, neighbours: str) -> None:
    """Nothing is found in what is built."""
    assert _attack(_mechanism(mechanism, 4.0, neighbours), 1000)[1] == set()


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("mechanism", ["wishart", "wishart-difference", "eigenvectors", "kapralov-talwar"])
@pytest.mark.usefixtures("calibrated_once")
def test_sound_mechanisms_pass_twenty_times(mechanism: str, epsilon: float) -> None:
    """Nothing is found in any of twenty audits."""
    assert [_attack(_mechanism(mechanism, epsilon), 2000, seed)[1] for seed in range(20)] == [set()] * 20


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_too_few_degrees_of_freedom_are_found(epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fourth of the degrees of freedom, and so half of the noise, is found whether or not it is stated."""
    fewer = lru_cache(lambda *args: degrees_tight(*args) // 4)
    monkeypatch.setattr(wishart, "degrees_tight", fewer)
    monkeypatch.setattr(wishart, "delta_of_wishart", lambda *_: 0.0)
    assert "noise" in _attack(_mechanism("wishart", epsilon), 1000)[1]

    honest = wishart._wishart
    monkeypatch.setattr(wishart, "degrees_tight", lru_cache(degrees_tight))
    monkeypatch.setattr(wishart, "_wishart", lambda m, d, rng: honest(m // 4, d, rng))
    assert "noise" in _attack(_mechanism("wishart", epsilon), 1000)[1]


@pytest.mark.slow
def test_outputs_impossible_for_a_neighbour_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fourth of the degrees of freedom at epsilon = 4 the attack alone proves too much, in 20000 releases."""
    monkeypatch.setattr(wishart, "degrees_tight", lru_cache(lambda *args: degrees_tight(*args) // 4))
    monkeypatch.setattr(wishart, "delta_of_wishart", lambda *_: 0.0)
    assert _attack(_mechanism("wishart", 4.0), 20_000)[1] == {"attack", "noise"}


def _scale_halved_openly(patch: pytest.MonkeyPatch) -> None:
    honest = WishartDifference.scale
    patch.setattr(WishartDifference, "scale", property(lambda self: honest.fget(self) / 2))


def _scale_halved_secretly(patch: pytest.MonkeyPatch) -> None:
    honest = wishart_difference.add_and_round
    patch.setattr(wishart_difference, "add_and_round", lambda *args: honest(*args[:3], args[3] / 2, args[4]))


def _one_degree_of_freedom_less(patch: pytest.MonkeyPatch) -> None:
    honest = WishartDifference.degrees
    patch.setattr(WishartDifference, "degrees", property(lambda self: honest.fget(self) - 1))


HALVED = (_scale_halved_openly, _scale_halved_secretly)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("fault", [*HALVED, _one_degree_of_freedom_less])
def test_too_small_a_difference_of_wisharts_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], epsilon: float, neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the scale, or a degree of freedom less, is found by the law of the noise, stated or not."""
    fault(monkeypatch)
    assert "noise" in _attack(_mechanism("wishart-difference", epsilon, neighbours), 1000)[1]


@pytest.mark.long
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("fault", HALVED)
def test_half_the_scale_is_found_by_the_attack_alone(
    fault: Callable[[pytest.MonkeyPatch], None], epsilon: float, neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distances in the nuclear norm prove more than is stated, in 40000 releases."""
    fault(monkeypatch)
    lower, failed = _attack(_mechanism("wishart-difference", epsilon, neighbours), 40_000)
    assert failed == {"attack", "noise"}
    assert lower > 1.1 * epsilon


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", Neighbours)
def test_whole_releases_show_the_difference_of_wisharts(neighbours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that is too small, or the same for all entries, is found in whole releases as well."""
    columns = {f"x{index}": {"bounds": [0, 1]} for index in range(13)}
    privacy = {"release": "covariance", "mechanism": "wishart-difference", "epsilon": 1.0, "neighbours": neighbours}
    policy = Policy.model_validate({"dataset": {"name": "made up"}, "privacy": privacy, "columns": columns})
    kinds = dict.fromkeys(columns, "continuous")
    mechanism = set_mechanism(policy, kinds, lambda: 100)

    def failed() -> set[str]:
        checks = check_whole(policy, kinds, mechanism, publish_aside, 1e-4)
        return {check.name for check in checks if not check.passed}

    assert failed() == set()
    with monkeypatch.context() as patch:
        _scale_halved_secretly(patch)
        assert failed() == {"whole releases"}
    with monkeypatch.context() as patch:
        honest = wishart_difference._wishart
        patch.setattr(wishart_difference, "_wishart", lambda m, d, *rest: np.full((d, d), honest(m, d, *rest)[0, 0]))
        assert "whole releases" in failed()


@pytest.mark.slow
def test_law_of_a_difference_of_chi_squared_variables() -> None:
    """It is that of simulations, by a test that 2 % more fail; with two degrees of freedom it is Laplace's."""
    rng = np.random.default_rng(0)
    x = np.linspace(-30, 30, 601)
    law = chi_squared_difference(2, 0.5)
    np.testing.assert_allclose(law(2 * x - 0.5), stats.laplace(scale=2).cdf(x), atol=2e-7)
    for m in (3, 6, 62):
        law = chi_squared_difference(m, 1e-9)
        found = (rng.chisquare(m, 400_000) - rng.chisquare(m, 400_000)) * 1e9
        assert stats.kstest(found, law).pvalue > 1e-4
        assert stats.kstest(1.02 * found, law).pvalue < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["replace-one", pytest.param("add-remove", marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", [pytest.param(1.0, marks=pytest.mark.slow), 4.0])
@pytest.mark.parametrize("mechanism", ["eigenvectors", pytest.param("kapralov-talwar", marks=pytest.mark.slow)])
def test_too_strong_a_preference_is_found(
    mechanism: str, epsilon: float, neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Vectors drawn with four times the exponent, exp(2 eps_i u'Cu) for replaced rows, are found."""
    honest = spectral.SpectralMechanism.exponent
    monkeypatch.setattr(spectral.SpectralMechanism, "exponent", property(lambda self: 4 * honest.fget(self)))
    assert "noise" in _attack(_mechanism(mechanism, epsilon, neighbours), 1500)[1]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("mechanism", ["eigenvectors", "kapralov-talwar"])
def test_exact_eigenvalues_are_found(mechanism: str, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise on the eigenvalues the attack proves more than is stated, in 6000 releases at the latest."""
    monkeypatch.setattr(spectral, "sample_discrete_laplace", lambda _scale, size, _rng, **_: np.zeros(size))
    n_runs = 6000 if (mechanism, epsilon) == ("kapralov-talwar", 4.0) else 3000
    lower, failed = _attack(_mechanism(mechanism, epsilon), n_runs)
    assert "attack" in failed
    assert lower > epsilon


def test_bound_is_that_of_the_rates() -> None:
    """Laplace noise gives a bound just below its epsilon; a sample of half the noise gives one above."""
    rng = np.random.default_rng(3)

    def bound(scale: float) -> float:
        return epsilon_bound([rng.laplace(shift, scale, 40_000) for shift in (0.0, 1.0)], 0.0, 1e-4)

    assert 0.85 < bound(1.0) < 1.0 < bound(0.5) < 2.0


def test_bound_is_clopper_and_pearsons() -> None:
    """Where a score tells the tables apart without an error, the bound is that of no error in 1000 trials, each way."""
    scores = [np.zeros(2000), np.ones(2000)]
    least = stats.binomtest(1000, 1000, alternative="greater").proportion_ci(1 - 5e-4, method="exact").low
    most = stats.binomtest(0, 1000, alternative="less").proportion_ci(1 - 5e-4, method="exact").high
    assert epsilon_bound(scores, 0.1, 1e-3) == pytest.approx(math.log((least - 0.1) / most))


def test_number_of_releases_is_checked() -> None:
    """Too few are refused."""
    with pytest.raises(ParameterError, match="canaries must be from 1000"):
        attack_from_outside(_mechanism("eigenvectors", 1.0), n_runs=10)


def test_an_audit_that_would_take_hours_is_refused() -> None:
    """Millions of degrees of freedom in a thousand releases are too many normal numbers."""
    with pytest.raises(PrivacyError, match="would take hours"):
        attack_from_outside(_mechanism("wishart", 1e-3, "add-remove"))
