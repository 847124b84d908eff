"""What every covariance mechanism promises: one row of the table for each."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import policy_with

from dp_bundle.base.errors import PolicyError, PrivacyError
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.manifest.matrix_noise import SecondMoments
from dp_bundle.manifest.noise import Neighbours
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Policy, publish
from dp_publish.accounting.conversions import delta_for_epsilon
from dp_publish.accounting.strength import ApproximateDP, ConcentratedDP, GaussianDP, PureDP, Strength
from dp_publish.covariance import calibration, mechanisms
from dp_publish.covariance.calibration import (
    cost_of_moments,
    expected_errors,
    guarantee_of_moments,
    moment_columns,
    set_mechanism,
)
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import Mechanism, NoisyMoments, OneSum, mechanism_named
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.wishart import Wishart
from dp_publish.covariance.scaling import scaling_for
from dp_publish.policy.choices import SoundMechanism, UnsoundMechanism
from dp_publish.release.covariance import state_moments
from dp_publish.sampling.keystream import insecure_keystream

CASES: dict[str, Strength] = {
    "gaussian": GaussianDP(1.0),
    "two-round": GaussianDP(1.0),
    "laplace": PureDP(1.0),
    "wishart-difference": PureDP(1.0),
    "wishart": ApproximateDP(1.0, 1e-6),
    "eigenvectors": PureDP(1.0),
}
FORMS = (GaussianDP(1.0), ConcentratedDP(0.5), PureDP(1.0), ApproximateDP(1.0, 1e-6))
IN_STEPS = ("two-round",)
PAIRS = [
    (name, neighbours)
    for name in CASES
    for neighbours in Neighbours
    if neighbours.n_rows_public or name not in IN_STEPS
]
NAMES = "abc"
_ENTITY = {"entity": "who", "max_rows": 4}


def _kind(name: str) -> type[Mechanism]:
    kind = mechanism_named(name)
    assert kind is not None
    return kind


def _rows() -> np.ndarray:
    return np.random.default_rng(4).uniform(-1, 1, (200, len(NAMES)))


def _moments() -> ExactMoments:
    return moments_of_batch(_rows(), scaling_for([(-1.0, 1.0)] * len(NAMES)))


def _mechanism(name: str, neighbours: Neighbours = Neighbours.REPLACE_ONE, max_rows: int = 1) -> Mechanism:
    return _kind(name)(_moments().scaling, neighbours, CASES[name], max_rows, **_settings(name, neighbours))


def _settings(name: str, neighbours: Neighbours = Neighbours.REPLACE_ONE) -> dict[str, Any]:
    return _kind(name).settings(_policy(name, CASES[name], neighbours), dict.fromkeys(NAMES, "continuous"))


class _Witness:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @staticmethod
    def once(_name: str, draw: Any) -> Any:
        """Draw."""
        return draw()

    def drawing(self) -> None:
        """Remember it."""
        self.told.append("drawing")

    def clipped(self, n_rows: int, values: Sequence[int] = ()) -> None:  # noqa: ARG002
        """Remember it."""
        assert n_rows >= 0
        self.told.append("clipped")


def _release(mechanism: Mechanism) -> tuple[NoisyMoments, _Witness]:
    witness = _Witness()
    parts = np.split(_rows(), [7, 150])
    return mechanism.release(lambda add, _: add(iter(parts)), insecure_keystream(1), witness), witness


def _policy(
    name: str, strength: Strength, neighbours: Neighbours = Neighbours.REPLACE_ONE, unit: Any = "row"
) -> Policy:
    given = {key: value for key, value in vars(strength).items() if key != "excepted_delta"}
    privacy = {"release": "covariance", "mechanism": name, "neighbours": neighbours, "unit": unit, **given}
    columns = {column: {"bounds": [-1, 1]} for column in NAMES}
    return policy_with(columns, **privacy)


def test_table_has_every_mechanism() -> None:
    """What policies may name, the files that hold a mechanism, and the rows above are the same, by the same names."""
    folder = Path(next(iter(mechanisms.__path__)))
    files = {path.stem.replace("_", "-") for path in folder.glob("*.py") if "\nMECHANISM = " in path.read_text()}
    assert set(CASES) == set(get_args(SoundMechanism)) == files
    assert all(_kind(name).name == name for name in CASES)
    assert mechanism_named("auto") is None
    for name in get_args(UnsoundMechanism):
        with pytest.raises(PrivacyError, match="is not private"):
            mechanism_named(name)


def _set(
    name: str, strength: Strength, neighbours: Neighbours = Neighbours.REPLACE_ONE, unit: Any = "row"
) -> Mechanism:
    policy = _policy(name, strength, neighbours, unit)
    return set_mechanism(policy, dict.fromkeys(NAMES, "continuous"), lambda: 60)


def _gives(name: str, strength: Strength) -> bool:
    try:
        _set(name, strength)
    except PolicyError:
        return False
    return True


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("strength", FORMS, ids=lambda strength: type(strength).__name__)
def test_policy_gets_the_strength_that_it_asks_for_or_a_refusal(name: str, strength: Strength) -> None:
    """A pure epsilon is pure, and a mu, rho or delta no larger; what it cannot give is refused, by auto, too."""
    if not _gives(name, strength):
        assert _kind(name) not in expected_errors(1000, _moments().scaling, strength)
        assert type(strength) is not type(CASES[name])
        with pytest.raises(PolicyError, match="epsilon"):
            _set(name, strength)
        return
    mechanism = _set(name, strength)
    spent = mechanism.spends(1)
    assert type(mechanism).serves(strength)
    assert isinstance(mechanism.strength, type(CASES[name]))
    if isinstance(strength, PureDP):
        assert isinstance(spent, PureDP)
        assert spent.epsilon <= strength.epsilon * (1 + 1e-12)
        assert spent.excepted_delta <= 2.0**-40
    elif isinstance(strength, ApproximateDP):
        curve = spent.epsilon <= strength.epsilon if isinstance(spent, PureDP) else None
        assert curve or delta_for_epsilon(spent.mu, strength.epsilon) <= strength.delta * (1 + 1e-9)
        assert spent.excepted_delta <= strength.delta
    elif isinstance(strength, GaussianDP):
        assert spent.mu <= strength.mu * (1 + 1e-12)
    else:
        mu = min(spent.mu, spent.epsilon) if isinstance(spent, PureDP) else spent.mu
        assert 0.5 * mu**2 <= strength.rho * (1 + 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_what_fails_more_often_than_delta_is_neither_used_nor_chosen(name: str) -> None:
    """A delta below the probability of what a guarantee excepts is given by other mechanisms."""
    strength = ApproximateDP(1.0, 1e-14)
    excepted = _mechanism(name).spends(1).excepted_delta if type(CASES[name]) is PureDP else 0.0
    assert _gives(name, strength) == (excepted <= strength.delta)
    if excepted:
        with pytest.raises(PolicyError, match="fails"):
            _set(name, strength)
        assert _kind(name) not in expected_errors(1000, _moments().scaling, strength)


class _Forgetful(Gaussian):
    """Gaussian noise as somebody adds it who follows the recipe, and does not think of what it cannot give."""


class _OfEpsilon(Gaussian):
    """The same, with a form that promises what the noise does not give."""

    @classmethod
    def form_of(cls, strength: Strength) -> Any:
        """Return the largest epsilon that serves a strength."""
        return PureDP(strength.pure_epsilon)

    @property
    def mu(self) -> float:
        """The mu with which noise is drawn."""
        return self.strength.mu


class _OfDelta(Laplace):
    """Noise of an epsilon with a delta that nobody asked for."""

    excepted_delta = 1e-6


class _OfTwice(Laplace):
    """Noise of twice the epsilon."""

    @classmethod
    def form_of(cls, strength: Strength) -> PureDP:
        """Return twice the epsilon."""
        return PureDP(2 * strength.pure_epsilon)


class _OfOneRow(Wishart):
    """Noise of a mechanism that knows of one row alone."""


@pytest.mark.parametrize(
    ("kind", "strength", "unit", "word"),
    [
        (_Forgetful, PureDP(1.0), "row", "pure"),
        (_Forgetful, PureDP(1.0), _ENTITY, "pure"),
        (_OfEpsilon, PureDP(1.0), "row", "pure"),
        (_OfDelta, PureDP(1.0), "row", "fails"),
        (_OfDelta, ApproximateDP(1.0, 1e-7), "row", "fails"),
        *((_OfTwice, strength, "row", "less privacy") for strength in FORMS),
        (_OfOneRow, ApproximateDP(1.0, 1e-6), _ENTITY, "one row"),
    ],
)
@pytest.mark.parametrize("neighbours", Neighbours)
def test_mechanism_that_forgets_to_refuse_publishes_no_less_privacy(
    kind: type[Mechanism],
    strength: Strength,
    unit: Any,
    word: str,
    neighbours: Neighbours,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a mechanism cannot give is refused by what it says itself that a unit loses, and by no list of names."""
    monkeypatch.setattr(calibration, "mechanism_named", lambda _: kind)
    with pytest.raises(PolicyError, match=word):
        _set("laplace", strength, neighbours, unit)


@pytest.mark.parametrize(("name", "neighbours"), PAIRS)
def test_release_is_what_the_mechanism_says_of_it(name: str, neighbours: Neighbours) -> None:
    """Noise of the stated kind on a symmetric matrix, whose exact entry is exact, and a witness who was told of it."""
    mechanism = _mechanism(name, neighbours)
    noisy, witness = _release(mechanism)
    assert set(witness.told) == {"drawing", "clipped"}
    assert type(noisy.noise) is mechanism.noise
    assert (noisy.matrix == noisy.matrix.T).all()
    n_rows = len(_rows())
    assert noisy.n_rows == (n_rows if neighbours.n_rows_public else None)
    assert (noisy.matrix[-1, -1] == n_rows * noisy.scaling.constant**2) == neighbours.n_rows_public

    free = noisy.matrix[np.triu_indices(len(noisy.matrix))][: -1 if neighbours.n_rows_public else None]
    assert not np.remainder(free, noisy.noise.granularity).any()
    assert 0 < mechanism.for_forecast().correlation_noise(1000, 0.2) < math.inf
    assert state_moments(mechanism, noisy).distribution == mechanism.noise.distribution


@pytest.mark.parametrize(("name", "neighbours"), [pair for pair in PAIRS if pair[0] not in IN_STEPS])
def test_noise_on_one_sum_has_the_stated_size(name: str, neighbours: Neighbours) -> None:
    """Whatever draws it, now or sooner, the noise on a sum is there and of the size that the mechanism says."""
    mechanism, moments = _mechanism(name, neighbours), _moments()
    assert isinstance(mechanism, OneSum)
    secure, fast = (draw(moments, insecure_keystream(1)) for draw in (mechanism.draw, mechanism.insecure_draw))
    for noisy in (secure, fast):
        assert (noisy.matrix == noisy.matrix.T).all()
        assert not np.allclose(noisy.matrix[:-1, :-1], moments.matrix[:-1, :-1], rtol=1e-6)
    known = mechanism.off_diagonal_variance
    assert secure.noise.off_diagonal_variance == (None if known is None else pytest.approx(known, rel=0.01))
    assert mechanism.sensitivity > 0


@pytest.mark.parametrize(("name", "neighbours"), PAIRS)
def test_ledger_and_guarantee_follow_from_what_is_spent(name: str, neighbours: Neighbours) -> None:
    """The books hold what a replaced row costs, at least what is stated; a stronger statement is refused."""
    policy = _policy(name, CASES[name], neighbours)
    mechanism = _mechanism(name, neighbours)
    stated, booked = mechanism.spends(1), mechanism.spends(1, replaced=True)
    columns = moment_columns(policy, dict.fromkeys(NAMES, "continuous"))
    guarantee, cost = guarantee_of_moments(policy, mechanism, columns), cost_of_moments(policy, mechanism)

    assert guarantee.mu == pytest.approx(stated.mu, rel=1e-11)
    assert cost.mu == {unit: pytest.approx(booked.mu, rel=1e-11) for unit in ("cell", "row")}
    assert (guarantee.excepted_delta, cost.excepted_delta) == (stated.excepted_delta, booked.excepted_delta)
    assert (booked == stated) == neighbours.n_rows_public
    assert booked.mu >= stated.mu
    noisy, _ = _release(mechanism)
    claim: SecondMoments = state_moments(mechanism, noisy)
    if noisy.earlier is not None:
        guarantee = guarantee.model_copy(update={"bounds_mu": noisy.earlier.choices_mu})
    claim.check_guarantee(guarantee, len(NAMES))
    for change in ({"mu": 0.2 * guarantee.mu, "rho": 0.02 * guarantee.rho}, {"mu": None}):
        with pytest.raises(ValueError, match=r"stated|accounted"):
            claim.check_guarantee(guarantee.model_copy(update=change), len(NAMES))


@pytest.mark.parametrize("name", CASES)
def test_rows_of_an_entity_share_its_strength(name: str) -> None:
    """A row of four gets a fourth of what the entity does, in the books and in the noise, or entities are refused."""
    try:
        mechanism = _mechanism(name, max_rows=4)
    except PolicyError as error:
        assert "entity" in str(error)  # noqa: PT017
        return
    (first, *_), (whole, *_) = (dataclasses.astuple(mechanism.spends(rows)) for rows in (1, 4))
    assert first == pytest.approx(whole / 4)
    (unit, *_) = dataclasses.astuple(CASES[name])
    alone = _kind(name)(mechanism.scaling, mechanism.neighbours, type(CASES[name])(unit / 4), 1, **_settings(name))
    assert mechanism.for_forecast().correlation_noise(1000, 0.2) == pytest.approx(
        alone.for_forecast().correlation_noise(1000, 0.2)
    )
    if isinstance(mechanism, OneSum) and isinstance(alone, OneSum):
        of_entity, of_row = (each.draw(_moments(), insecure_keystream(1)).noise for each in (mechanism, alone))
        assert of_entity.parameters == pytest.approx(of_row.parameters, rel=1e-6)


@pytest.mark.parametrize(("name", "neighbours"), PAIRS)
def test_bundle_verifies(name: str, neighbours: Neighbours, tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A whole release opens, and names the mechanism."""
    table = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (60, len(NAMES))), columns=list(NAMES))
    receipt = publish(table, _policy(name, CASES[name], neighbours), out=tmp_path / "a.tar", key=key)
    with open_bundle(receipt.path, UnsafeTrustAnyone()) as bundle:
        moments: Any = bundle.release.second_moments
        assert moments.mechanism == _kind(name).published_as
        assert moments.noise.distribution == _kind(name).noise.distribution


@pytest.mark.parametrize("name", CASES)
def test_expected_error_is_that_of_the_stated_noise(name: str) -> None:
    """What `auto` compares falls with the rows, and follows from the variances that a reader is told of entries."""
    scaling, n = _moments().scaling, 1_000
    d = scaling.n_coordinates
    expected, more = (_mechanism(name).expected_error(rows) for rows in (n, 10 * n))
    if expected is None or more is None:
        assert expected is more
        return
    assert 0 < more < expected
    if name in IN_STEPS:
        return
    noise = _release(_mechanism(name))[0].noise
    if noise.off_diagonal_variance is not None and noise.diagonal_variance is not None:
        total = d * noise.diagonal_variance + d * (d - 1) * noise.off_diagonal_variance
        assert expected == pytest.approx(math.sqrt(total) / scaling.square / n, rel=1e-4)
