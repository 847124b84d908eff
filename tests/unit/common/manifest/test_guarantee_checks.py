"""What a covariance release states follows from its noise, or is refused."""

import copy
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.unit.common.manifest.statements import read as read_statement
from tests.unit.common.manifest.statements import total

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.manifest.guarantee import NUMBER_PUBLIC, ORDER_PUBLIC, TOGETHER_PUBLIC
from dp_bundle.manifest.moment_noise import SecondMoments
from dp_bundle.manifest.statement import Statement
from dp_bundle.privacy.noise import discrete_laplace_variance, rounded_gaussian_variance
from dp_bundle.privacy.normal import mu_implied_by_epsilon

STEP = 2.0**-10
COLUMNS = [
    {"name": name, "kind": "continuous", "bounds": [0, 6], "bounds_obtained": "declared", "noise": None}
    for name in ("height", "weight", "age")
]
# radius^2 + constant^2 = 3 + 1: mu = sqrt(2) 4 / 4 = 1.414, or 1 with add-remove neighbours
GAUSSIAN = {
    "mechanism": "gaussian",
    "radius": math.sqrt(3.0),
    "constant": 1.0,
    "granularity": STEP,
    "distribution": "rounded-gaussian",
    "parameters": {"diagonal_sigma": 4.0, "off_diagonal_sigma": math.sqrt(8.0)},
    "diagonal_variance": STEP**2 * rounded_gaussian_variance(4.0 / STEP),
    "off_diagonal_variance": STEP**2 * rounded_gaussian_variance(math.sqrt(8.0) / STEP),
    "bias": 0.0,
}
LAPLACE = {
    **GAUSSIAN,
    "mechanism": "laplace",
    "distribution": "discrete-laplace",
    "parameters": {"scale": 10.0},
    "diagonal_variance": STEP**2 * discrete_laplace_variance(10.0 / STEP),
    "off_diagonal_variance": STEP**2 * discrete_laplace_variance(10.0 / STEP),
}
WISHART = {
    **GAUSSIAN,
    "mechanism": "wishart",
    "distribution": "wishart",
    "parameters": {"degrees_of_freedom": 60.0, "scale": 4.0},
    "diagonal_variance": 2 * 60 * 16.0 + STEP**2 / 12,
    "off_diagonal_variance": 60 * 16.0 + STEP**2 / 12,
    "bias": 240.0,
}
DIFFERENCE = {  # two orthogonal rows move the sum by 2 (3 + 1) in the nuclear norm: epsilon = 1 with a scale of 4
    **GAUSSIAN,
    "mechanism": "wishart-difference",
    "distribution": "wishart-difference",
    "parameters": {"degrees_of_freedom": 5.0, "scale": 4.0},
    "diagonal_variance": 4 * 5 * 16.0 + STEP**2 / 12,
    "off_diagonal_variance": 2 * 5 * 16.0 + STEP**2 / 12,
}
EIGENVECTORS = {"mechanism": "eigenvectors", "radius": 1.0, "constant": 0.5, "bias": 0.0, "granularity": STEP}
EXCEPTED = {"excepted_delta": 2.0**-40, "epsilon_delta": [{"epsilon": 1.0, "delta": 2.0**-40}]}
ERRORS = {"estimated_diagonal_error": 3.0, "estimated_off_diagonal_error": 2.0}
MU = {"mu": 1.4143, "rho": 1.01, "accountant": "gaussian-dp", "epsilon_delta": []}


POINT = {"epsilon": 1.0, "delta": 0.1}
LARGE = total(mu=1e6, rho=1e9, excepted_delta=1.0)


def pure(epsilon: float, **changes: Any) -> dict[str, Any]:
    """Return a guarantee by epsilon."""
    mu = mu_implied_by_epsilon(epsilon) * (1 + 1e-12)
    own = {"mu": mu, "rho": epsilon**2 / 2, "epsilon": epsilon, "accountant": "pure-epsilon", "epsilon_delta": []}
    return {**own, **changes}


def document(moments: dict[str, Any], guarantee: dict[str, Any], **release: Any) -> dict[str, Any]:
    """Return a statement about a covariance release."""
    unit = guarantee.get("entity")
    public = [] if guarantee.get("neighbours") == "add-remove" else [NUMBER_PUBLIC]
    public += [TOGETHER_PUBLIC] if unit else []
    stated = total(f"entity:{unit}" if unit else guarantee.get("unit", "row"), mu=1e3, rho=1e6)
    predicate = {
        "format_version": "8",
        "dataset": {"name": "people"},
        "lineage": {"number": 1, "created": "2026-01-02T03:04:05Z", "previous": None},
        "kind": "covariance",
        "n_rows": 10,
        "columns": COLUMNS,
        "second_moments": moments,
        "guarantee": {"unit": "row", "public": public, **guarantee},
        "cumulative": {**stated, "excepted_delta": guarantee.get("excepted_delta", 0.0)},
        "software": "dpgraph 0",
        **release,
    }
    return {"subject": [], "predicate": predicate}


def read(moments: dict[str, Any], guarantee: dict[str, Any], **release: Any) -> Statement:
    """Read a statement about a covariance release from its bytes."""
    stated = document(moments, guarantee, **release)
    return read_statement({"_type": "https://in-toto.io/Statement/v1", "predicateType": "dpgraph:release/v8", **stated})


ENTITY = {"unit": "entity", "entity": "who", "max_rows": 2}
SOUND = {
    "gaussian": (GAUSSIAN, MU),
    "gaussian, a cell": (GAUSSIAN, {**MU, "unit": "cell"}),
    "gaussian, an entity": (GAUSSIAN, {**MU, **ENTITY, "mu": 2.8285, "rho": 4.01}),
    "gaussian, add-remove": (GAUSSIAN, {**MU, "neighbours": "add-remove", "mu": 1.0, "rho": 0.5}),
    "sulq": ({**GAUSSIAN, "mechanism": "sulq"}, MU),
    "laplace": (LAPLACE, pure(1.0)),
    "laplace, add-remove": (LAPLACE, pure(1.1, neighbours="add-remove")),
    "laplace, an entity": (LAPLACE, pure(2.0, **ENTITY)),
    "wishart": (WISHART, pure(1.0, excepted_delta=1e-3, epsilon_delta=[{"epsilon": 1.0, "delta": 1e-3}])),
    "wishart difference": (DIFFERENCE, pure(1.0, **EXCEPTED)),
    "wishart difference, add-remove": (DIFFERENCE, pure(0.5, neighbours="add-remove", **EXCEPTED)),
    "wishart difference, an entity": (DIFFERENCE, pure(2.0, **ENTITY, excepted_delta=2.0**-40)),
    "eigenvectors": (EIGENVECTORS, pure(1.0, **EXCEPTED)),
    "eigenvectors with errors": ({**EIGENVECTORS, **ERRORS}, pure(1.0, **EXCEPTED)),
    "kapralov-talwar": (
        {**EIGENVECTORS, "mechanism": "kapralov-talwar"},
        pure(0.5, neighbours="add-remove", **EXCEPTED),
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_sound_covariance_releases_round_trip(name: str) -> None:
    """A covariance release of every mechanism is read, comes back to the byte, and labels its matrix."""
    statement = read(*SOUND[name])

    assert Statement.from_bytes(statement.to_bytes()) == statement
    assert statement.predicate.labels == ["height", "weight", "age", "(constant)"]
    with pytest.raises(BundleFormatError, match="covariance release"):
        _ = statement.predicate.noise_variance


def changed(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a copy with entries replaced."""
    return {**copy.deepcopy(base), **changes}


@pytest.mark.parametrize(
    ("moments", "guarantee", "message"),
    [
        (changed(GAUSSIAN, constant=1.8), MU, "larger than the radius"),
        (changed(GAUSSIAN, radius=1.75), changed(MU, mu=9.0, rho=41.0), "larger than any row"),
        (changed(GAUSSIAN, distribution="discrete-laplace"), MU, "another distribution"),
        (changed(GAUSSIAN, distribution=None), MU, "another distribution"),
        (changed(EIGENVECTORS, distribution="wishart"), pure(1.0), "another distribution"),
        (changed(GAUSSIAN, parameters={"diagonal_sigma": 4.0}), MU, "parameters are not"),
        (changed(GAUSSIAN, parameters={"diagonal_sigma": 4.0, "off_diagonal_sigma": -2.0}), MU, "parameters are not"),
        (changed(EIGENVECTORS, parameters={"kappa": 1.0}), pure(1.0), "parameters are not"),
        (changed(GAUSSIAN, granularity=None), MU, "granularity"),
        (changed(GAUSSIAN, granularity=0.001), MU, "power of two"),
        (changed(GAUSSIAN, diagonal_variance=15.9), MU, "variances and mean"),
        (changed(GAUSSIAN, off_diagonal_variance=8.1), MU, "variances and mean"),
        (changed(GAUSSIAN, bias=1.0), MU, "variances and mean"),
        (changed(LAPLACE, diagonal_variance=100.0), pure(1.0), "variances and mean"),
        (changed(WISHART, bias=239.0), pure(1.0, excepted_delta=1e-3), "variances and mean"),
        (changed(WISHART, parameters={"degrees_of_freedom": 60.5, "scale": 4.0}), pure(1.0), "whole number"),
        (GAUSSIAN, changed(MU, mu=1.4142), "mu is smaller"),
        (GAUSSIAN, changed(MU, rho=0.99), "rho is smaller"),
        (GAUSSIAN, changed(MU, epsilon_delta=[{"epsilon": 2.0, "delta": 1e-6}]), "epsilon is smaller"),
        (GAUSSIAN, changed(MU, mu=None), "accounted for by mu"),
        (GAUSSIAN, changed(MU, accountant="pure-epsilon"), "accounted for by mu"),
        (GAUSSIAN, changed(MU, epsilon=5.0), "no pure epsilon"),
        (GAUSSIAN, changed(MU, excepted_delta=0.1), "no pure epsilon"),
        (GAUSSIAN, changed(MU, bounds_mu=0.1), "declared bounds"),
        (GAUSSIAN, changed(MU, **ENTITY), "mu is smaller"),
        (GAUSSIAN, changed(MU, neighbours="add-remove", unit="cell"), "cells may not"),
        (GAUSSIAN, changed(MU, neighbours="add-remove", public=[NUMBER_PUBLIC]), "number of rows is public"),
        (GAUSSIAN, changed(MU, neighbours="add-remove", public=[ORDER_PUBLIC]), "named as public"),
        (GAUSSIAN, changed(MU, public=[]), "number of rows is public"),
        (changed(GAUSSIAN, constant=0.0), changed(MU, neighbours="add-remove"), "constant that is not there"),
        (LAPLACE, pure(0.77), "epsilon is smaller than the radius"),
        (LAPLACE, pure(0.87, neighbours="add-remove"), "epsilon is smaller than the radius"),
        (LAPLACE, pure(1.0, **ENTITY), "epsilon is smaller than the radius"),
        (LAPLACE, pure(1.0, mu=1.2), "mu is not that which the stated epsilon"),
        (EIGENVECTORS, changed(pure(1.0, **EXCEPTED), epsilon=0.9), "mu is not that which the stated epsilon"),
        (LAPLACE, pure(1.0, rho=0.49), "rho is smaller than the stated epsilon"),
        (LAPLACE, pure(1.0, excepted_delta=1e-9), "exactly where the noise is Wishart's"),
        (LAPLACE, pure(1.0, accountant="gaussian-dp"), "accounted for by epsilon"),
        (LAPLACE, changed(pure(1.0), epsilon=None), "accounted for by epsilon"),
        (LAPLACE, pure(1.0, epsilon_delta=[{"epsilon": 0.9, "delta": 1e-3}]), "better than the stated epsilon"),
        (WISHART, pure(1.0), "exactly where the noise is Wishart's"),
        (WISHART, pure(1.0, excepted_delta=1e-12), "delta is smaller"),
        (WISHART, pure(1.0, excepted_delta=1e-3, **ENTITY), "for one row"),
        (
            WISHART,
            pure(1.0, excepted_delta=1e-3, epsilon_delta=[{"epsilon": 1.0, "delta": 9e-4}]),
            "better than the stated epsilon",
        ),
        (DIFFERENCE, pure(1.0), "exactly where the noise is Wishart's"),
        (DIFFERENCE, pure(0.999, **EXCEPTED), "epsilon is smaller than the radius"),
        (DIFFERENCE, pure(0.499, neighbours="add-remove", **EXCEPTED), "epsilon is smaller than the radius"),
        (DIFFERENCE, pure(1.0, **ENTITY, **EXCEPTED), "epsilon is smaller than the radius"),
        (changed(DIFFERENCE, bias=1.0), pure(1.0, **EXCEPTED), "variances and mean"),
        (changed(DIFFERENCE, diagonal_variance=160.0), pure(1.0, **EXCEPTED), "variances and mean"),
        (
            changed(
                DIFFERENCE,
                parameters={"degrees_of_freedom": 4.0, "scale": 4.0},
                diagonal_variance=4 * 4 * 16.0 + STEP**2 / 12,
                off_diagonal_variance=2 * 4 * 16.0 + STEP**2 / 12,
            ),
            pure(1.0, **EXCEPTED),
            "too few for a pure epsilon",
        ),
        (EIGENVECTORS, changed(MU), "accounted for by epsilon"),
        (EIGENVECTORS, pure(1.0), "vectors are on a grid"),
        (changed(EIGENVECTORS, granularity=0.3), pure(1.0, **EXCEPTED), "power of two"),
        (changed(EIGENVECTORS, off_diagonal_variance=1.0), pure(1.0, **EXCEPTED), "exactly where noise acts"),
        (changed(GAUSSIAN, **ERRORS), MU, "only where noise does not act"),
        (changed(EIGENVECTORS, estimated_diagonal_error=1.0), pure(1.0), "estimated in pairs"),
        (
            LAPLACE,
            changed(pure(1.0), epsilon=1e308, mu=mu_implied_by_epsilon(1e308), rho=1e308),
            "too large to be meant",
        ),
    ],
)
def test_each_broken_rule_is_refused(moments: dict[str, Any], guarantee: dict[str, Any], message: str) -> None:
    """Noise that contradicts itself, or a guarantee that it cannot give, is a format error."""
    with pytest.raises(BundleFormatError, match=message) as caught:
        read(moments, guarantee)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("moments", "guarantee", "release"),
    [
        (
            changed(GAUSSIAN, radius=1e-200, constant=0.0),
            changed(MU, epsilon_delta=[{"epsilon": 1.0, "delta": 0.1}]),
            {},
        ),
        (changed(GAUSSIAN, parameters={"diagonal_sigma": 5e-324, "off_diagonal_sigma": 1e308}), MU, {}),
        (changed(GAUSSIAN, granularity=2.0**-1074), MU, {}),
        (changed(GAUSSIAN, constant=1e-200), MU, {}),
        (changed(LAPLACE, parameters={"scale": 1e308}), pure(1.0), {}),
        (changed(WISHART, parameters={"degrees_of_freedom": 1e308, "scale": 1e308}), pure(1.0, excepted_delta=0.1), {}),
        (changed(WISHART, parameters={"degrees_of_freedom": 60.0, "scale": 5e-324}), pure(1.0, excepted_delta=0.1), {}),
        (LAPLACE, {**pure(1.0), "epsilon": 1e308}, {}),
        (GAUSSIAN, MU, {"n_rows": 10**400}),
    ],
)
def test_extreme_numbers_are_format_errors_too(
    moments: dict[str, Any], guarantee: dict[str, Any], release: dict[str, Any]
) -> None:
    """Overflow and underflow in what a stranger wrote end like any other contradiction."""
    with pytest.raises(BundleFormatError):
        read(moments, guarantee, **release)


def test_bounds_on_wishart_noise_survive_any_epsilon() -> None:
    """Where the bound from below is too small for a float it is zero, whatever epsilon and the degrees of freedom."""
    for degrees, epsilon in ((60, 800.0), (2 * 10**6, 800.0), (10**15, 1e-9), (60, 1e-9)):
        variance = degrees * 16.0 + STEP**2 / 12
        numbers = {"degrees_of_freedom": float(degrees), "scale": 4.0}
        own = {"parameters": numbers, "diagonal_variance": 2 * degrees * 16.0 + STEP**2 / 12}
        moments = changed(WISHART, **own, off_diagonal_variance=variance, bias=4.0 * degrees)
        read(moments, pure(epsilon, excepted_delta=0.5), cumulative=LARGE)


def with_column(**changes: Any) -> list[dict[str, Any]]:
    """Return the columns, the first of them changed."""
    return [{**COLUMNS[0], **changes}, *COLUMNS[1:]]


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ({"second_moments": None}, "exactly in a covariance release"),
        ({"kind": "rows"}, "exactly in a covariance release"),
        ({"kind": "rows", "second_moments": None}, "noise of their own"),
        ({"columns": with_column(noise=None, kind="integer")}, "noise of the other kind"),
        ({"columns": with_column(name="(constant)")}, "stands for the constant"),
        ({"columns": with_column(bounds=None, bounds_obtained="none")}, "declared bounds"),
        ({"columns": with_column(bounds_obtained="private-histogram")}, "declared bounds"),
        ({"cumulative": total(mu=1.0)}, "total mu is smaller"),
        ({"cumulative": total(rho=None)}, "mu and no rho"),
        ({"n_rows": 0}, "greater than or equal to 1"),
    ],
)
def test_releases_that_are_neither_kind_are_refused(release: dict[str, Any], message: str) -> None:
    """Rows and second moments are told apart by all that they need."""
    with pytest.raises(BundleFormatError, match=message):
        read(GAUSSIAN, MU, **release)


def test_a_total_holds_all_exceptions() -> None:
    """The total's probability of an exception is at least the release's own."""
    with pytest.raises(BundleFormatError, match="total delta"):
        read(*SOUND["wishart"], cumulative=total(excepted_delta=9e-4))


def test_implied_mu_is_the_smallest() -> None:
    """At the implied mu the trade-off curves touch at (a, a), computed at high precision, and at no smaller one."""
    with mpmath.workdps(30):
        for epsilon in (1e-16, 1e-6, 0.999e-3, 1e-3, 0.5, 1.0, 5.0, 40.0):
            a = 1 / (1 + mpmath.exp(epsilon))
            exact = -2 * mpmath.findroot(lambda x, a=a: mpmath.log(mpmath.ncdf(x)) - mpmath.log(a), -1)
            assert mu_implied_by_epsilon(epsilon) == pytest.approx(float(exact), rel=1e-12)


def test_a_curve_point_of_a_pure_epsilon_may_touch_randomised_response() -> None:
    """Among all that is epsilon-DP, randomised response has the largest delta, which is what a point may state."""
    epsilon, at = 1.0, 0.4
    p, q = math.exp(epsilon) / (1 + math.exp(epsilon)), 1 / (1 + math.exp(epsilon))
    delta = p - math.exp(at) * q
    assert read(LAPLACE, pure(epsilon, epsilon_delta=[{"epsilon": at, "delta": delta}])) is not None
    with pytest.raises(BundleFormatError, match="better"):
        read(LAPLACE, pure(epsilon, epsilon_delta=[{"epsilon": at, "delta": 0.999 * delta}]))


def test_delta_of_wishart_noise_is_bounded_by_its_best_known_direction() -> None:
    """The bound from below is that of chi-squared noise moved by R^2 / scale, by integration of the densities."""
    m, shift, epsilon = 60, 3.0 / 4.0, 1e-9
    q = np.linspace(0, 250, 400_001)
    gap = stats.chi2.pdf(q, m) - math.exp(epsilon) * stats.chi2.pdf(q - shift, m)
    delta = float(np.maximum(gap, 0).sum() * (q[1] - q[0]))  # both ends are zero
    assert read(WISHART, pure(epsilon, excepted_delta=1.001 * delta)) is not None
    with pytest.raises(BundleFormatError, match="delta is smaller"):
        read(WISHART, pure(epsilon, excepted_delta=0.999 * delta))


def test_no_row_moves_the_sum_further_than_a_guarantee_by_mu_assumes() -> None:
    """Random pairs of rows in the ball stay within sqrt(2) (R^2 + c^2), which an orthogonal pair attains."""
    moments = SecondMoments.model_validate(GAUSSIAN)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 2, 3))
    rows *= (moments.radius / np.linalg.norm(rows, axis=2))[..., None]
    v = np.concatenate([rows, np.full((2000, 2, 1), moments.constant)], axis=2)
    moved = np.linalg.norm(v[:, 0, :, None] * v[:, 0, None] - v[:, 1, :, None] * v[:, 1, None], axis=(1, 2))

    square = moments.radius**2 + moments.constant**2
    assert moved.max() <= math.sqrt(2) * square * (1 + 1e-12)
    one, other = np.array([1, 1, 1, 1.0]), np.array([1, -1, -1, 1.0])
    attained = np.linalg.norm(np.outer(one, one) - np.outer(other, other))
    assert attained == pytest.approx(math.sqrt(2) * square)
