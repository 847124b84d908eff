"""What a covariance release may state at the least, against independent computation; and numbers beyond all numbers."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.unit.common.manifest.statements import (
    LAPLACE,
    OF_ONE,
    RADIUS,
    Changes,
    G,
    M,
    P,
    pure,
    read,
    stated,
    wishart,
)

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.privacy.normal import mu_implied_by_epsilon


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("covariance", {f"{M}.radius": 1e-200, f"{M}.constant": 0.0}),
        ("covariance", {f"{M}.parameters": {"diagonal_sigma": 5e-324, "off_diagonal_sigma": 1e308}}),
        ("covariance", {f"{M}.granularity": 2.0**-1074}),
        ("covariance", {f"{M}.constant": 1e-200}),
        ("wishart-difference", LAPLACE | {f"{M}.parameters": {"scale": 1e308}}),
        ("wishart-difference", OF_ONE | {f"{M}.parameters": {"degrees_of_freedom": 1e308, "scale": 1e308}}),
        ("wishart-difference", OF_ONE | {f"{M}.parameters": {"degrees_of_freedom": 60.0, "scale": 5e-324}}),
        ("wishart-difference", LAPLACE | {f"{G}.epsilon": 1e308}),
        ("covariance", {f"{P}.n_rows": 10**400}),
    ],
)
def test_extreme_numbers_are_format_errors_too(kind: str, changes: Changes) -> None:
    """Overflow and underflow in what a stranger wrote end like any other contradiction."""
    with pytest.raises(BundleFormatError):
        read(stated(kind, changes))


@pytest.mark.parametrize(("degrees", "epsilon"), [(60, 800.0), (2 * 10**6, 800.0), (10**15, 1e-9), (60, 1e-9)])
def test_bounds_on_wishart_noise_survive_any_epsilon(degrees: int, epsilon: float) -> None:
    """Where the bound from below is too small for a float it is zero, whatever epsilon and the degrees of freedom."""
    read(
        stated(
            "wishart-difference",
            OF_ONE
            | wishart(float(degrees), 4.0)
            | pure(epsilon)
            | {f"{G}.excepted_delta": 0.5, "predicate.cumulative.excepted_delta": 0.5},
        )
    )


def test_a_curve_point_of_a_pure_epsilon_may_touch_randomised_response() -> None:
    """Among all that is epsilon-DP, randomised response has the largest delta, which is what a point may state."""
    at = 0.4
    p, q = math.e / (1 + math.e), 1 / (1 + math.e)
    for factor, good in ((1.0, True), (0.999, False)):
        point = {"epsilon": at, "delta": factor * (p - math.exp(at) * q)}
        document = stated("wishart-difference", LAPLACE | {f"{G}.epsilon_delta": [point]})
        if good:
            read(document)
        else:
            with pytest.raises(BundleFormatError, match="better"):
                read(document)


def test_delta_of_wishart_noise_is_bounded_by_its_best_known_direction() -> None:
    """The bound from below is that of chi-squared noise moved by R^2 / scale, by integration of the densities."""
    m, shift, epsilon = 60, RADIUS**2 / 4.0, 1e-9
    q = np.linspace(0, 250, 400_001)
    gap = stats.chi2.pdf(q, m) - math.exp(epsilon) * stats.chi2.pdf(q - shift, m)
    delta = float(np.maximum(gap, 0).sum() * (q[1] - q[0]))  # both ends are zero
    changes = OF_ONE | pure(epsilon)
    read(stated("wishart-difference", changes | {f"{G}.excepted_delta": 1.001 * delta}))
    with pytest.raises(BundleFormatError, match="delta is smaller"):
        read(stated("wishart-difference", changes | {f"{G}.excepted_delta": 0.999 * delta}))


def test_implied_mu_is_the_smallest() -> None:
    """At the implied mu the trade-off curves touch at (a, a), computed at high precision, and at no smaller one."""
    with mpmath.workdps(30):
        for epsilon in (1e-16, 1e-6, 0.999e-3, 1e-3, 0.5, 1.0, 5.0, 40.0):
            a = 1 / (1 + mpmath.exp(epsilon))
            exact = -2 * mpmath.findroot(lambda x, a=a: mpmath.log(mpmath.ncdf(x)) - mpmath.log(a), -1)
            assert mu_implied_by_epsilon(epsilon) == pytest.approx(float(exact), rel=1e-12)
