"""Planted faults: what is judged by the real law is found false where it is, and nowhere else."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.statistical.random_policies import Planned
from tests.statistical.stating import Stated
from tests.statistical.test_stated_against_real import ROUNDING

from dp_bundle.manifest.costs import Strength, cost_of_several
from dp_bundle.manifest.matrix_noise import Margins
from dp_publish.accounting.conversions import Cost
from dp_publish.covariance.mechanisms import two_round
from dp_publish.ledger.restoring import cost_of_release

Make = Callable[..., Stated]
_RNG = np.random.default_rng(7)
_TABLE = pd.DataFrame({"a": _RNG.integers(0, 2, 60), "b": _RNG.integers(0, 2, 60), "x": _RNG.random(60)})
_WHOLE = {name: {"kind": "integer", "bounds": [0, 1]} for name in ("a", "b")}
_REAL = {"x": {"kind": "continuous", "bounds": [0.0, 1.0]}}
_FOUND = {"x": {"kind": "continuous"}}


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, key: Ed25519PrivateKey, tmp_path: Path) -> Make:
    """Return a function that publishes by one policy, and returns all that was judged of it."""
    numbers = itertools.count(1)

    def stated(columns: dict[str, Any], *, sharper: float = 1.0, **privacy: Any) -> Stated:
        name = f"planted{next(numbers)}"
        (tmp_path / name).mkdir()
        made = Stated(monkeypatch, key, tmp_path / name, sharper)
        sections = {"dataset": {"name": name, "license": "public domain"}, "privacy": privacy, "columns": columns}
        assert made.publish(Planned(sections, _TABLE[list(columns)], None), with_plan=True) is not None
        return made

    return stated


def false_places(made: Stated, *kinds: str) -> set[str]:
    """Return the places with a false figure of these kinds."""
    return {each.claim.place for each in made.tally.above(ROUNDING) if not kinds or each.claim.kind in kinds}


def places(made: Stated, *kinds: str) -> set[str]:
    """Return the places with a figure of these kinds."""
    return {place for kind, _, place in made.tally.worst if kind in kinds}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "privacy"),
    [
        (_REAL, {"release": "covariance", "mechanism": "gaussian", "unit": "row", "mu": 1.5}),
        pytest.param(_WHOLE, {"unit": "row", "rho": 1.125}, marks=pytest.mark.long),  # the mu of two columns is a bound
        pytest.param(_REAL, {"unit": "cell", "mu": 1.5}, marks=pytest.mark.long),
        pytest.param(
            _REAL,
            {
                "release": "covariance",
                "mechanism": "laplace",
                "epsilon": 1.5,
                "neighbours": "add-remove",
                "unit": "row",
            },
            marks=pytest.mark.long,
        ),
    ],
)
def test_every_place_is_found_with_one_percent_less_noise(make: Make, columns: Any, privacy: Any) -> None:
    """If all moved one percent farther than it does, each place that states a strength would be found false."""
    right = make(columns, **privacy)
    right.read_books()
    right.read_pages()
    assert not right.tally.above(ROUNDING)
    wrong = make(columns, sharper=1.01, **(privacy | {"unit": "row"}))
    wrong.read_books()
    strengths = ("rho",) if columns is _WHOLE else ("epsilon",) if "epsilon" in privacy else ("mu", "rho", "point")
    expected = places(wrong, *strengths) - {"plan, budget"}
    assert len(expected) > 15
    assert false_places(wrong, *strengths) >= expected


def test_mu_of_discrete_noise_as_if_it_were_continuous_is_found(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Width over sigma as the mu of whole numbers is false in the ledger, by a quarter."""
    monkeypatch.setattr("dp_bundle.manifest.columns.discrete_gaussian_mu", lambda steps, sigma: steps / sigma)
    monkeypatch.setattr("dp_publish.rows.noise.discrete_gaussian_sigma", lambda steps, mu: steps / mu)
    made = make(_WHOLE, unit="row", mu=4.7)
    made.read_books()
    worst = [each for each in made.tally.above(ROUNDING) if each.claim.kind == "mu"]
    assert {each.claim.place for each in worst} >= {"ledger", "ledger of a machine", "plan, table", "plan, page"}
    assert worst[0].ratio > 1.1


@pytest.mark.long
def test_histograms_that_cost_nothing_are_found(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where histograms are left out of the total, and readers do not know of them, strengths are false everywhere."""
    columns, privacy = _REAL | _WHOLE, {"scale": "scores", "unit": "row", "mu": 1.5}
    assert not make(columns, **privacy).tally.above(ROUNDING)
    honest = two_round.share_out

    def share_out(*given: Any, **named: Any) -> Any:
        shares = honest(*given, **named)
        return replace(shares, second=math.hypot(shares.second, shares.margins))

    monkeypatch.setattr(two_round, "share_out", share_out)
    monkeypatch.setattr(Margins, "mu", lambda *_: 0.0)
    assert len(false_places(make(columns, **privacy), "mu", "rho", "point")) > 10


def test_root_of_k_for_what_was_searched_is_found(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """That k rows cost sqrt(k) times the mu of one is false where bounds were found."""

    def landed(guarantee: Any, columns: Any, number: int = 1, _discovery: Any = None) -> Strength:
        one = cost_of_several(guarantee, columns)
        return one._replace(mu=math.sqrt(number) * one.mu)

    monkeypatch.setattr("dp_bundle.describe.sentences.cost_of_several", landed)
    made = make(_FOUND, unit="row", mu=3.0)
    assert false_places(made) == {"label, unprotected", "receipt", "record of processing", "page, label", "inspect"}


def test_figures_rounded_to_the_nearest_are_found(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A printed figure that is rounded down is false."""
    monkeypatch.setattr("dp_bundle.describe.sentences.round_up", lambda value, *_: f"{value:.3g}")
    made = make(_REAL, unit="row", mu=1.2345)
    assert {"README", "receipt", "label, strength"} <= false_places(made, "mu")


def test_an_exception_restored_otherwise_than_booked_is_found(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delta that is multiplied once too often does not pass."""

    def landed(release: Any) -> Cost:
        cost = cost_of_release(release)
        return Cost(**{**vars(cost), "excepted_delta": cost.excepted_delta * (1 + math.exp(3.0))})

    made = make(
        _REAL, release="covariance", mechanism="wishart-difference", unit="row", epsilon=3.0, neighbours="add-remove"
    )
    made.require_restored()
    assert made.tally.places["restored ledger"]
    monkeypatch.setattr("dp_publish.ledger.restoring.cost_of_release", landed)
    with pytest.raises(AssertionError, match="excepted_delta"):
        made.require_restored("anew.sqlite")
