"""Bad bundles whose manifest contradicts itself: it states more than bounds and noise give, or leaves a cost out."""

from collections.abc import Callable
from typing import Any

from tests.bad_bundles.making import Case, Predicate, stated

from dp_bundle.manifest.noise import discrete_gaussian_variance, rounded_gaussian_variance

__all__ = ["CASES"]

_ROWS, _GAUSSIAN, _VECTORS, _WISHART, _TWO = "rows", "covariance", "eigenvectors", "wishart-difference", "two-round"
_COPULA, _FOUND, _MIXED, _CHANGES, _GAPS = "copula", "found", "mixed", "changes", "gaps"


def times(factor: float) -> Callable[[Any], Any]:
    """Return a change of a number by a factor."""
    return lambda number: number * factor


def _points(factor: float) -> Callable[[list[Predicate]], list[Predicate]]:
    return lambda points: [point | {"epsilon": factor * point["epsilon"]} for point in points]


def _wishart(moments: Predicate) -> Predicate:
    """State Wishart noise soundly, but for a delta of nothing."""
    n, scale = moments["parameters"]["degrees_of_freedom"], moments["parameters"]["scale"]
    rounding = moments["granularity"] ** 2 / 12
    variances = {"diagonal_variance": 2 * n * scale**2 + rounding, "off_diagonal_variance": n * scale**2 + rounding}
    return moments | variances | {"mechanism": "wishart", "distribution": "wishart", "bias": n * scale}


def _per_change(total: Predicate) -> Predicate:
    return total | {"unit": "change", "other_units_rho": dict.fromkeys(("cell", "row"), total["rho"])}


def _each(places: range, entry: str, value: object) -> Predicate:
    """Return the same change of several columns."""
    return {f"columns.{place}.{entry}": value for place in places}


_S = "the signed manifest is not sound"
_ALONE = "columns of numbers alone"
_SCORES, _SIGMA, _STEP = {"name": "scores"}, "second_moments.margins.sigma", 2.0**-11
_UNBOUNDED = {"columns.0.bounds": None, "columns.0.bounds_obtained": "none"}
_OF_CHANGES = {"guarantee.unit": "change", "cumulative": _per_change}
_ENTITY = {"guarantee.unit": "entity", "guarantee.entity": "who", "guarantee.max_rows": 1}
_ENTITY |= {"cumulative.unit": "entity:who", "cumulative.other_units_rho.row": 449.9999999999999}
_SEARCHED = _each(range(3), "bounds_obtained", "private-histogram")
_SEARCHED |= {"guarantee.bounds_mu": 20.0, "guarantee.rho": lambda rho: rho + 200.001}
_SEARCHED |= {"cumulative.rho": 1e4, "cumulative.other_units_rho": {"cell": 1e4}}
_MADE_WHOLE = {"columns.1.kind": "integer", "columns.1.bounds": [0.0, 2.0]}  # of which no mu is known
_MADE_WHOLE["columns.1.noise"] = {"distribution": "discrete-gaussian", "sigma": 2.0, "granularity": 1.0}
_MADE_WHOLE["columns.1.noise"]["variance"] = discrete_gaussian_variance(2.0)
_QUIET = {"columns.2.noise.sigma": 0.2}  # as if the indicator were alone in its cell
_QUIET["columns.2.noise.variance"] = _STEP**2 * rounded_gaussian_variance(0.2 / _STEP)
_ONE_COLUMN = _each(range(8, 12), "noise.sigma", 1 / 6)  # as if a category's cell moved one column alone
_ONE_COLUMN |= _each(range(8, 12), "noise.variance", discrete_gaussian_variance(1 / 6))
_NO_NOISE = {f"second_moments.fourth_moment.{name}": 2.0**-600 for name in ("sigma", "granularity")}

_LIES: list[tuple[str, str, str, Predicate, str]] = [
    ("two columns of one name", "C1", _ROWS, {"columns.1.name": "alcohol"}, "the same name"),
    ("bounds that are no interval", "C2", _ROWS, {"columns.0.bounds": [16.0, 10.0]}, "not an interval"),
    ("bounds of another origin", "C2", _ROWS, {"columns.0.bounds_obtained": "none"}, "were obtained as"),
    ("noise of the other kind", "C3", _ROWS, {"columns.0.kind": "integer"}, "noise of the other kind"),
    ("rows without bounds", "G2", _ROWS, _UNBOUNDED, "give no guarantee"),
    ("covariance called rows", "C3", _GAUSSIAN, {"kind": "rows"}, "exactly in a"),
    ("standard of no round", "C4", _ROWS, {"columns.0.standard_obtained": "declared"}, "not one standard"),
    ("scores of rows", "C5", _ROWS, {"columns.0.transform": _SCORES}, "two rounds alone"),
    ("cost of columns not stated", "F1", _FOUND, {"guarantee.discovery_mu": 0.0}, "with its cost"),
    ("more levels than words", "F2", _FOUND, {"discovery.n_listed": 1}, "more columns were found"),
    ("more rows than there are", "F2", _FOUND, {"discovery.n_rows": 10**6}, "more rows"),
    ("columns found for less", "F3", _FOUND, {"guarantee.discovery_mu": times(0.9)}, "cost more"),
    ("a low threshold", "F3", _FOUND, {"discovery.threshold": times(0.8)}, "larger than is stated"),
    ("levels of nothing", "F4", _FOUND, {"discovery.levels": ["hue"]}, "that are not there"),
    ("grid that is no power of two", "N1", _ROWS, {"columns.0.noise.granularity": times(1.5)}, "power of two"),
    ("sigma too large for its grid", "N1", _ROWS, {"columns.2.noise.sigma": 2e9}, _S),
    ("another variance", "N2", _ROWS, {"columns.0.noise.variance": times(1.01)}, "variance is not"),
    ("another variance of an integer", "N2", _ROWS, {"columns.2.noise.variance": times(0.99)}, "variance is not"),
    ("entity without rows", "G1", _ROWS, {"guarantee.entity": "who"}, "an entity is named"),
    ("rho too small", "G2", _ROWS, {"guarantee.rho": times(0.5)}, "rho is smaller"),
    ("sigma too small for rho", "G2", _ROWS, {"columns.2.bounds": [0.0, 4000.0]}, "rho is smaller"),
    ("cost of bounds that were declared", "G2", _ROWS, {"guarantee.bounds_mu": 0.1}, "cost of private bounds"),
    ("mu of integers", "G3", _ROWS, {"guarantee.mu": 1e3}, "mu is stated exactly"),
    ("neighbours of another kind", "G3", _ROWS, {"guarantee.neighbours": "add-remove"}, "replaced rows"),
    ("epsilon too small", "G4", _GAUSSIAN, {"guarantee.epsilon_delta": _points(0.9)}, "epsilon is smaller"),
    ("epsilon of integers too small", "G5", _ROWS, {"guarantee.epsilon_delta": _points(0.9)}, "epsilon is smaller"),
    ("search that the curve leaves out", "G5", _ROWS, _SEARCHED, "epsilon is smaller"),
    ("nothing public", "G6", _ROWS, {"guarantee.public": []}, "not named as such"),
    ("public twice", "G6", _ROWS, {"guarantee.public": times(2)}, "public twice"),
    ("gaps that are not public", "G6", _ROWS, {"columns.0.missing": "drop"}, "no value in"),
    ("partition that is not public", "G6", _ROWS, {"lineage.partition": "October"}, "rows are those of"),
    ("entity whose rows are not public", "G6", _ROWS, _ENTITY, "belong together"),
    ("release before the first", "T1", _ROWS, {"lineage.previous": "0" * 64}, "none before it"),
    ("first of several", "T1", _ROWS, {"cumulative.releases": 2}, "one of several"),
    ("total of another unit", "T2", _ROWS, {"cumulative.unit": "cell"}, "another unit"),
    ("total below the release", "T3", _ROWS, {"cumulative.rho": times(0.9)}, "total rho is smaller"),
    ("total per cell too small", "T4", _ROWS, {"cumulative.other_units_rho.cell": times(0.9)}, "total per cell"),
    ("no total per cell", "T4", _ROWS, {"cumulative.other_units_rho": {}}, "in all units"),
    ("total per cell of strangers", "T4", _ROWS, {"cumulative.other_units_rho.entity:doctor": 0.1}, "in all units"),
    ("radius beyond all rows", "K1", _GAUSSIAN, {"second_moments.radius": 9.0}, "larger than any row"),
    ("constant off its grid", "K1", _GAUSSIAN, {"second_moments.constant": 0.3}, "1/256"),
    ("bounds that were not declared", "K1", _GAUSSIAN, _UNBOUNDED, "declared bounds"),
    ("noise of another mechanism", "K2", _GAUSSIAN, {"second_moments.mechanism": "laplace"}, "another"),
    (
        "off-diagonal variance too large",
        "K2",
        _GAUSSIAN,
        {"second_moments.off_diagonal_variance": times(1.01)},
        "not those of the stated noise",
    ),
    ("parameter too many", "K2", _GAUSSIAN, {"second_moments.parameters.x": 1.0}, "parameters"),
    ("mu of second moments too small", "G2", _GAUSSIAN, {"guarantee.mu": times(0.99)}, "mu is smaller"),
    ("mu that epsilon does not imply", "K3", _VECTORS, {"guarantee.mu": times(0.99)}, "implies"),
    (
        "point that epsilon does not imply",
        "K3",
        _VECTORS,
        {"guarantee.epsilon_delta": _points(0.9)},
        "stated epsilon implies",
    ),
    ("accountant of another noise", "K3", _GAUSSIAN, {"guarantee.accountant": "pure-epsilon"}, "by mu"),
    ("delta that is not excepted", "K4", _VECTORS, {"guarantee.excepted_delta": 0.0}, "excepted"),
    ("constant too large for epsilon", "K4", _WISHART, {"second_moments.constant": 1.5}, "epsilon is"),
    (
        "delta of Wishart noise too small",
        "K5",
        _WISHART,
        {"second_moments": _wishart, "guarantee.excepted_delta": 1e-300, "cumulative.excepted_delta": 1e-300},
        "delta is smaller",
    ),
    (
        "two rounds without a fourth moment",
        "W1",
        _TWO,
        {"second_moments.fourth_moment": None},
        "fourth moment are stated",
    ),
    ("clip beyond all rows", "W2", _TWO, {"second_moments.column_clip": 1e-3}, "larger than any row"),
    ("fourth moment off its grid", "W3", _TWO, {"second_moments.fourth_moment.total": times(1.0001)}, "multiple"),
    ("fourth moment without noise", "W3", _TWO, _NO_NOISE, "has no variance"),
    ("search that costs nothing", "W4", _TWO, {"guarantee.bounds_mu": 0.0}, "found privately, at a cost"),
    ("histograms that cost nothing", "G2", _COPULA, {_SIGMA: times(0.1)}, "mu is smaller"),
    ("histograms for half the cost", "G2", _COPULA, {_SIGMA: times(0.5)}, "mu is smaller"),
    ("histograms with next to no noise", "H2", _COPULA, {_SIGMA: 0.04}, "that counts can have"),
    ("histograms with endless noise", "H2", _COPULA, {_SIGMA: 1e10}, "that counts can have"),
    ("histograms not stated", "H1", _COPULA, {"second_moments.margins": None}, "and there are none"),
    (
        "scores without histograms",
        "H1",
        _COPULA,
        {"second_moments.margins": None, **_each(range(10), "standard_obtained", "private-quantiles")},
        "and no histograms",
    ),
    ("scores of a level", "H1", _COPULA, _each(range(4, 7), "transform", _SCORES), _ALONE),
    ("scores of gaps", "H1", _COPULA, {"columns.2.transform": _SCORES}, _ALONE),
    ("level twice", "B1", _MIXED, {"sources.0.levels": ["small"] * 5}, "a level twice"),
    ("gaps of no level", "B1", _MIXED, {"sources.0.gaps": "nowhere"}, "a level that is none"),
    ("level without a column", "B1", _MIXED, {"sources.0.columns": ["size=small"]}, "for each level"),
    ("indicator beyond 1", "B2", _MIXED, {"columns.8.bounds": [0.0, 2.0]}, "its bounds are not 0 and 1"),
    (
        "block that does not stand together",
        "B3",
        _MIXED,
        {"columns": lambda each: [*each[:3], *each[4:], each[3]]},
        "do not stand together",
    ),
    ("block without a source", "B3", _MIXED, {"sources": []}, "do not stand together"),
    ("columns that differ", "B3", _MIXED, {"columns.8.unit": "m"}, "not all alike"),
    ("probability off its grid", "B4", _MIXED, {"columns.3.noise.replaced": 0.1}, r"not a multiple of 2\^-32"),
    ("levels of another list", "B4", _MIXED, _each(range(3, 8), "noise.n_levels", 2), "of another length"),
    ("changes of second moments", "K1", _GAUSSIAN, _OF_CHANGES, "no unit of privacy"),
    ("changes of another unit", "B5", _ROWS, {"columns.0.max_change": 1.0}, "and is no count"),
    ("change of nothing", "B5", _CHANGES, {"columns.0.missing": "midpoint"}, "have no gaps"),
    ("changes that nothing limits", "B5", _ROWS, _OF_CHANGES, "how far one person changes them"),
    ("gaps that nothing indicates", "B6", _GAPS, {"columns.0.missing": "indicator"}, "not there"),
    ("indicator with gaps", "B6", _GAPS, {"columns.2.missing": "midpoint"}, "the indicator of its gaps"),
    ("number without gaps", "B2", _GAPS, {"columns.1.missing": "refuse"}, "and its bounds"),
    ("number of another noise", "B6", _GAPS, _MADE_WHOLE, "rounded Gaussian noise"),
    ("number without its gaps", "B1", _GAPS, {"sources.0.columns": ["hue"]}, "each level"),
    ("indicator of little noise", "G2", _GAPS, _QUIET, "mu is smaller"),
    (
        "total per row without a share of it",
        "T4",
        _GAPS,
        {"cumulative.other_units_rho.row": times(0.999)},
        "total per row",
    ),
    ("change larger than stated", "G2", _CHANGES, {"columns.0.max_change": 2.0}, "rho is smaller"),
    ("category that counts once", "G2", _MIXED, _ONE_COLUMN, "rho is smaller"),
    ("levels that hardly change", "G2", _MIXED, _each(range(3, 8), "noise.replaced", 2.0**-20), "rho is smaller"),
    (
        "total that leaves out the half",
        "T3",
        _ROWS,
        {"cumulative.rho": times(0.5), "cumulative.other_units_rho.cell": times(0.5)},
        "total rho is smaller",
    ),
]
CASES = [Case(name, rule, stated(changes, base), says) for name, rule, base, changes, says in _LIES]
