"""Privacy accounting: inverse pairs, monotone curves and composition, at any strength."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dp_bundle.base.errors import PrivacyError
from dp_publish.accounting.conversions import (
    delta_for_epsilon,
    delta_for_epsilon_zcdp,
    epsilon_for_delta,
    epsilon_for_delta_zcdp,
    mu_for_epsilon_delta,
    rho_for_epsilon_delta,
    rho_for_mu,
)
from dp_publish.rows.private_bounds import choice_mu, search_mu

MU = st.floats(1e-3, 100)
DELTA = st.floats(1e-15, 0.3)
EPSILON = st.floats(1e-3, 500)


@pytest.mark.parametrize("of_rho", [False, True])
@given(MU, DELTA)
def test_epsilon_and_delta_are_inverse(of_rho: bool, mu: float, delta: float) -> None:
    """The epsilon for a delta, of mu or of rho, has that delta again, from the safe side."""
    strength = rho_for_mu(mu) if of_rho else mu
    epsilon = (epsilon_for_delta_zcdp if of_rho else epsilon_for_delta)(strength, delta)
    assume(epsilon > 0)
    found = (delta_for_epsilon_zcdp if of_rho else delta_for_epsilon)(strength, epsilon)
    assert found <= delta
    assert math.isclose(found, delta, rel_tol=1e-6 if of_rho else 1e-8)


@settings(max_examples=30)
@given(EPSILON, DELTA)
def test_the_strength_for_a_point_passes_through_it(epsilon: float, delta: float) -> None:
    """The mu or rho for (epsilon, delta) has that epsilon at that delta, and never a larger delta."""
    mu, rho = mu_for_epsilon_delta(epsilon, delta), rho_for_epsilon_delta(epsilon, delta)
    assert max(delta_for_epsilon(mu, epsilon), delta_for_epsilon_zcdp(rho, epsilon)) <= delta
    assert math.isclose(epsilon_for_delta(mu, delta), epsilon, rel_tol=1e-7)
    assert math.isclose(epsilon_for_delta_zcdp(rho, delta), epsilon, rel_tol=1e-6)


@given(MU, st.floats(0, 1e8), st.floats(1, 3))
def test_less_noise_or_a_smaller_epsilon_never_lowers_delta(mu: float, epsilon: float, factor: float) -> None:
    """Delta is a probability, falls in epsilon and rises in mu, as far as floats can tell."""
    delta = delta_for_epsilon(mu, epsilon)
    assert 0 <= delta <= 1
    assert delta_for_epsilon(mu, epsilon * factor) <= delta * (1 + 1e-9)
    assert delta_for_epsilon(mu * factor, epsilon) >= delta * (1 - 1e-9)


UNITS = st.sampled_from(["cell", "row", "entity"])


@given(UNITS, st.integers(1, 10_000), st.floats(1e-6, 1e6), st.integers(1, 10_000))
def test_choices_and_mu_of_the_search_are_inverse(unit: str, n_columns: int, mu: float, max_rows: int) -> None:
    """The choices of a mu cost that mu or less, nearly that where it is of use, and a smaller unit no more."""
    max_rows = max_rows if unit == "entity" else 1
    expected = mu / (max_rows * math.sqrt(2 * (1 if unit == "cell" else n_columns)))
    assume(not math.isclose(expected, 1e-9, rel_tol=1e-9))
    if expected < 1e-9:
        with pytest.raises(PrivacyError, match="too extreme"):
            choice_mu(unit, n_columns, mu, max_rows)
        return
    each = choice_mu(unit, n_columns, mu, max_rows)
    whole = search_mu(unit, n_columns, each, max_rows)
    assert math.isclose(each, expected, rel_tol=1e-12)
    assert 0 < whole <= mu
    assert each > 5 or math.isclose(whole, mu, rel_tol=3e-3 if each < 1e-5 else 1e-5)
    cell, row = search_mu("cell", n_columns, each), search_mu("row", n_columns, each)
    assert cell <= row <= search_mu("entity", n_columns, each, max_rows)
