"""What a guarantee says to somebody who guesses: by the error of the best test, computed in another way."""

import json
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, norm
from tests.discrete_noise import exact_mu

from dp_bundle.describe.sentences import chance_in_all, chance_of_guess, describe_guess, describe_guess_in_all
from dp_bundle.manifest.columns import Column, Noise
from dp_bundle.manifest.guarantee import Cumulative, Guarantee

POINT = {"epsilon": 3.0, "delta": 1e-6}


def whole_number(steps: int, sigma: float) -> Column:
    """Return a column of whole numbers, with the width of its bounds and the noise."""
    noise = Noise.discrete_gaussian(sigma)
    return Column(name="a", kind="integer", bounds=(0.0, float(steps)), bounds_obtained="declared", noise=noise)


HARDLY_PROTECTED = [whole_number(1000, 1.0)]  # so that only what a guarantee states limits a guess


def chance(of: Guarantee) -> float:
    """Return the chance of a right guess where a column's noise implies nothing."""
    return chance_of_guess(of, HARDLY_PROTECTED)


def sentence(of: Guarantee) -> str:
    """Return the sentence about the same."""
    return describe_guess(of, HARDLY_PROTECTED)


def guarantee(**given: object) -> Guarantee:
    """Return a guarantee for one row."""
    usual = {"unit": "row", "mu": None, "rho": 1e6, "epsilon_delta": [], "accountant": "gaussian-dp", "public": []}
    return Guarantee.model_validate_json(json.dumps(usual | given))


def test_epsilon_is_attained_by_laplace_noise_at_its_best() -> None:
    """No guess from a number with Laplace noise beats the bound, and randomised response attains it."""
    bound = chance(guarantee(epsilon=1.0))
    best = quad(lambda x: max(laplace.pdf(x), laplace.pdf(x - 1.0)) / 2, -40, 40, points=[0, 0.5, 1])[0]
    assert best < bound == pytest.approx(math.e / (1 + math.e))


def test_delta_is_counted_in_full() -> None:
    """With probability delta all is known, else the guess is that of epsilon; what is excepted is added."""
    expected = 1e-6 + (1 - 1e-6) * math.exp(3) / (1 + math.exp(3))
    assert chance(guarantee(epsilon_delta=[POINT])) == pytest.approx(expected)
    assert chance(guarantee(epsilon_delta=[POINT], excepted_delta=0.01)) == pytest.approx(expected + 0.01)
    assert chance(guarantee()) == 1.0
    assert chance(guarantee(epsilon=5000.0)) == 1.0


@pytest.mark.parametrize(("steps", "sigma"), [(1, 0.2), (1, 1.0), (2, 0.5), (30, 5.0)])
def test_whole_numbers_are_guessed_as_their_noise_allows(steps: int, sigma: float) -> None:
    """A guarantee states rho alone of discrete noise; the chance follows from the noise, and the best test attains it.

    Where values are an odd number of steps apart, the threshold in the middle is the best test, and its errors are
    those that mu says.
    """
    reach = np.arange(-60 - steps, 61 + steps)
    weights = np.exp(-0.5 * (reach / sigma) ** 2)
    moved = np.exp(-0.5 * ((reach - steps) / sigma) ** 2)
    best = np.maximum(weights, moved).sum() / weights.sum() / 2

    rho = 0.5 * (steps / sigma) ** 2
    found = chance_of_guess(guarantee(rho=rho), [whole_number(steps, sigma)])
    assert found == pytest.approx(norm.cdf(exact_mu(steps, sigma) / 2), abs=1e-12)
    assert best <= found + 1e-12
    if steps % 2:
        assert found == pytest.approx(best, abs=1e-12)


def test_sentence_names_the_unit_and_never_rounds_down() -> None:
    """The sentence says what the guesser knows, and a chance that is not below the bound."""
    assert "one row" not in sentence(guarantee(mu=1.0, unit="cell"))
    assert "at most 69.2 % of cases" in sentence(guarantee(mu=1.0))
    assert "“hospital”" in sentence(guarantee(mu=1.0, unit="entity", entity="hospital", max_rows=3))
    assert "may be there or not" in sentence(guarantee(mu=1.0, neighbours="add-remove"))


def test_all_releases_together_are_guessed_as_their_mu_says() -> None:
    """Two releases at mu = 1 are one at sqrt(2); where only rho is known it bounds the guess; else nothing does."""
    both = Cumulative(unit="row", releases=2, mu=math.sqrt(2), rho=1.0)
    assert chance_in_all(both) == pytest.approx(norm.cdf(math.sqrt(2) / 2))
    assert "at most 76.1 % of cases" in describe_guess_in_all(both)
    assert norm.cdf(math.sqrt(2) / 2) < chance_in_all(Cumulative(unit="row", releases=2, mu=None, rho=1.0)) < 0.9
    nothing = Cumulative(unit="row", releases=2, mu=None, rho=None)
    assert chance_in_all(nothing) is None
    assert "every time" in describe_guess_in_all(nothing)
