"""Manifests that state what their noise cannot give, or contradict themselves: stored ones with a few entries changed.

What the corpus of bad bundles breaks is not repeated here; these are the rules that it has no case of, and their ends:
what a covariance release may state at the least, against independent computation; and numbers beyond all numbers.
"""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.unit.common.manifest.statements import (
    ENTITY,
    FOURTH,
    LAPLACE,
    OF_ONE,
    OF_ROWS,
    OF_TWO,
    RADIUS,
    ROUND,
    C,
    Changes,
    G,
    M,
    P,
    T,
    pure,
    read,
    stated,
    times,
    weaker,
    wishart,
)

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.manifest.columns import cells_of
from dp_bundle.manifest.discrete_mu import DiscreteLoss, least_deltas
from dp_bundle.manifest.noise import mu_implied_by_epsilon
from dp_bundle.manifest.release import Statement


def _point(epsilon: float, delta: float) -> Changes:
    return {f"{G}.epsilon_delta": [{"epsilon": epsilon, "delta": delta}]}


LESS = times(1 - 1e-6)
_EACH = [f"{P}.columns.{index}" for index in range(3)]
_NO_STANDARDS = {f"{each}.standards": [] for each in _EACH} | {f"{each}.standard_obtained": None for each in _EACH}
_DISCOVERY = {"n_rows": 1, "n_counted": 1, "n_gaps": 0, "counts_sigma": 1e9}
_NO_NOISE = {f"{ROUND}.{name}_variance": None for name in ("diagonal", "off_diagonal")}
_NO_NOISE |= {f"{ROUND}.distribution": None, f"{ROUND}.parameters": {}}
_BEYOND = {f"{G}.epsilon": 1e308, f"{G}.mu": mu_implied_by_epsilon(1e308), f"{G}.rho": 1e308}

SOUND: list[tuple[str, Changes]] = [
    ("covariance", {}),
    ("rows", OF_ROWS | {f"{G}.rho": times(2.0)}),
    ("two-round", ENTITY | weaker(2.0) | {f"{G}.bounds_mu": times(2.0)}),
    (
        "two-round",
        {
            f"{P}.columns.{n}.{name}": value
            for n in range(3)
            for name, value in (("bounds", None), ("bounds_obtained", "none"))
        },
    ),
    ("covariance", ENTITY | weaker(2.0)),
    ("wishart-difference", LAPLACE),
    ("wishart-difference", LAPLACE | ENTITY | pure(2.0) | {f"{T}.other_units_rho": {"cell": 1e9, "row": 1e9}}),
    ("wishart-difference", OF_TWO),
    ("wishart-difference", OF_ONE),
]


@pytest.mark.parametrize(("kind", "changes"), SOUND)
def test_sound_ones_come_back_to_the_byte(kind: str, changes: Changes) -> None:
    """A release of every mechanism and unit is read, at the least strength that its noise gives."""
    statement = read(stated(kind, changes))
    assert Statement.from_bytes(statement.to_bytes()) == statement


REFUSED: list[tuple[str, str, Changes]] = [
    # columns
    ("granularity 1", "rows", {f"{P}.columns.2.noise.granularity": 0.5}),
    ("noise of their own", "rows", {f"{C}.noise": None, f"{C}.kind": "continuous"}),
    ("two rounds", "two-round", _NO_STANDARDS),
    ("at least two columns", "two-round", {f"{P}.columns": lambda columns: columns[:1]}),
    ("stands for the constant", "covariance", {f"{C}.name": "(constant)"}),
    # sources
    ("more levels than its two", "mixed", {f"{P}.columns.12.noise.n_levels": 3}),
    ("not the levels of its kind", "mixed", {f"{P}.sources.4.levels": ["a", "b"]}),
    ("not the levels of its kind", "mixed", {f"{P}.sources.2.levels": []}),
    ("same name", "mixed", {f"{P}.sources.2.name": "size"}),
    ("two sources", "mixed", {f"{P}.sources.2.columns": ["grade"]}),
    ("not its block", "mixed", {f"{P}.columns.8.block": None}),
    # guarantees of rows
    ("an entity is named", "rows", OF_ROWS | {f"{G}.max_rows": None}),
    ("rho is smaller", "rows", OF_ROWS | {f"{G}.rho": times(1.99)}),
    ("less than or equal", "rows", OF_ROWS | {f"{G}.max_rows": 10**400}),
    ("accountant", "rows", {f"{G}.accountant": "gaussian-dp"}),
    ("declared bounds alone", "changes", {f"{C}.bounds_obtained": "private-histogram", f"{G}.bounds_mu": 0.1}),
    ("in no column", "found", {f"{P}.discovery.n_counted": 0}),
    ("exactly where there are any", "found", {f"{P}.discovery.levels_sigma": None}),
    ("exactly where there are any", "found", {f"{P}.discovery.n_listed": 0}),
    ("delta", "found", {f"{G}.excepted_delta": 0.0}),
    ("accounted for by mu", "covariance", {f"{P}.discovery": _DISCOVERY, f"{G}.discovery_mu": 1e-3}),
    ("mu is smaller", "found", {f"{G}.mu": LESS}),
    # totals
    ("mu and no rho", "covariance", {f"{T}.rho": None}),
    ("total mu is smaller", "covariance", {f"{T}.mu": times(0.7)}),
    ("total delta is smaller", "eigenvectors", {f"{T}.excepted_delta": 0.0}),
    # noise on a matrix
    ("larger than the radius", "covariance", {f"{M}.constant": times(4.0)}),
    ("exactly where noise acts", "eigenvectors", {f"{M}.diagonal_variance": 1.0}),
    ("power of two", "eigenvectors", {f"{M}.granularity": 0.3}),
    (
        "only where noise does not",
        "covariance",
        {f"{M}.estimated_diagonal_error": 1.0},
    ),
    ("estimated in pairs", "eigenvectors", {f"{M}.estimated_diagonal_error": None}),
    ("whole number", "wishart-difference", wishart(5.5, 4.0, matrices=2)),
    ("too few for a pure", "wishart-difference", wishart(3.0, 100.0, matrices=2)),
    ("too large to be meant", "wishart-difference", LAPLACE | _BEYOND),
    # guarantees of second moments
    ("no pure epsilon", "covariance", {f"{G}.epsilon": 5.0}),
    ("no pure epsilon", "covariance", {f"{G}.excepted_delta": 0.1}),
    ("no guarantee", "covariance", {f"{M}.radius": 1e-200, f"{M}.constant": 0.0, f"{G}.neighbours": "replace-one"}),
    ("constant that is not there", "covariance", {f"{M}.constant": 0.0}),
    ("cells may not", "covariance", {f"{G}.unit": "cell"}),
    ("declared bounds, which", "covariance", {f"{G}.bounds_mu": 0.1}),
    ("number of rows is public", "covariance", {f"{G}.public": ["the number of the rows"]}),
    ("named as public", "covariance", {f"{G}.public": ["the number and the order of the rows"]}),
    ("mu is smaller", "covariance", ENTITY | weaker(1.99) | {f"{G}.public": []}),
    ("by epsilon", "eigenvectors", {f"{G}.epsilon": None}),
    ("rho is smaller than the stated epsilon", "eigenvectors", {f"{G}.rho": times(0.99)}),
    ("epsilon is smaller", "wishart-difference", LAPLACE | pure(0.999)),
    ("epsilon is smaller", "wishart-difference", LAPLACE | ENTITY),
    ("epsilon is smaller", "wishart-difference", LAPLACE | {f"{G}.neighbours": "add-remove", f"{G}.public": []}),
    (
        "better than the stated",
        "wishart-difference",
        LAPLACE | {f"{G}.epsilon_delta": [{"epsilon": 0.9, "delta": 1e-3}]},
    ),
    ("epsilon is smaller", "wishart-difference", OF_TWO | pure(0.999)),
    ("delta is excepted exactly", "wishart-difference", LAPLACE | {f"{G}.excepted_delta": 1e-9}),
    ("for one row", "wishart-difference", OF_ONE | ENTITY),
    (
        "better than the stated",
        "wishart-difference",
        OF_ONE | {f"{G}.epsilon_delta": [{"epsilon": 1.0, "delta": 0.09}]},
    ),
    # two rounds
    ("mu is smaller", "two-round", weaker(0.999)),
    ("mu is smaller", "two-round", ENTITY | weaker(1.999) | {f"{G}.bounds_mu": times(2.0)}),
    ("mu is smaller", "two-round", {f"{G}.bounds_mu": times(1.1)}),
    ("mu is smaller", "two-round", {f"{M}.radius": times(1.01)}),
    ("mu is smaller", "two-round", {f"{ROUND}.radius": times(1.01), f"{M}.column_clip": times(1.1)}),
    ("mu is smaller", "two-round", {f"{FOURTH}.sigma": times(0.5)}),
    ("replaced rows", "two-round", {f"{G}.neighbours": "add-remove"}),
    ("power of two", "two-round", {f"{FOURTH}.granularity": 0.3}),
    ("sigma must be", "two-round", {f"{FOURTH}.granularity": 2.0**-60}),
    ("larger than that of any", "two-round", {f"{M}.column_clip": 1e10}),
    ("both rounds have a constant", "two-round", {f"{ROUND}.constant": 0.0}),
    ("both rounds have Gaussian", "two-round", _NO_NOISE),
    ("histograms go with", "covariance", {f"{M}.margins": {"sigma": 1.0}}),
]


@pytest.mark.parametrize(("said", "kind", "changes"), REFUSED)
def test_each_broken_rule_is_refused(said: str, kind: str, changes: Changes) -> None:
    """It is a format error that names the rule on one line, whatever the numbers."""
    with pytest.raises(BundleFormatError, match=said) as caught:
        read(stated(kind, changes))
    assert "\n" not in str(caught.value)


def test_discrete_curve_counts_two_columns_of_a_category() -> None:
    """The curve that one of a category's columns would have is refused for the category; that of two is read."""
    category = {f"{P}.columns": lambda columns: columns[8:12], f"{P}.sources": lambda sources: sources[1:2]}
    sigma = stated("mixed", category)["predicate"]["columns"][0]["noise"]["sigma"]
    one, two = (least_deltas([20.0], {DiscreteLoss(1, sigma): n_columns})[0] for n_columns in (1, 2))
    read(stated("mixed", category | _point(20.0, two)))
    with pytest.raises(BundleFormatError, match="epsilon is smaller"):
        read(stated("mixed", category | _point(20.0, one)))


def test_a_number_and_its_gaps_are_one_cell() -> None:
    """A value and a gap lose as much as two values do: the whole mu of the release, which has no further cells."""
    release = read(stated("gaps", {})).predicate
    assert [cell.mu for cell in cells_of(release.columns)] == pytest.approx([5.0] * 5, rel=1e-9)


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
