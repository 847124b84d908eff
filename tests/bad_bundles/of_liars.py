"""Bad bundles whose manifest contradicts itself: it states more than bounds and noise give, or leaves a cost out."""

from collections.abc import Callable
from typing import Any

from tests.bad_bundles.making import Case, statement
from tests.bad_bundles.of_signers import put

from dp_bundle.privacy.noise import discrete_gaussian_variance, rounded_gaussian_variance

__all__ = ["CASES"]

Predicate = dict[str, Any]
_GAUSSIAN, _VECTORS, _WISHART, _TWO = (
    "covariance",
    "eigenvectors",
    "wishart-difference",
    "two-round",
)


def times(path: str, factor: float) -> Callable[[Predicate], None]:
    """Return a change that multiplies one number, by a dotted path."""

    def change(predicate: Predicate) -> None:
        *folders, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        inner: Any = predicate
        for folder in folders:
            inner = inner[folder]
        inner[last] *= factor

    return change


def _same_name(predicate: Predicate) -> None:
    predicate["columns"][1]["name"] = predicate["columns"][0]["name"]


def _unbounded(predicate: Predicate) -> None:
    predicate["columns"][0] |= {"bounds": None, "bounds_obtained": "none"}


def _entity(predicate: Predicate) -> None:
    predicate["guarantee"] |= {"unit": "entity", "entity": "who", "max_rows": 1}
    total = predicate["cumulative"]
    total |= {"unit": "entity:who", "other_units_rho": {"row": total["rho"], **total["other_units_rho"]}}


def _unsearched(predicate: Predicate) -> None:
    predicate["guarantee"]["bounds_mu"] = 0.1


def _with_mu(predicate: Predicate) -> None:
    predicate["guarantee"]["mu"] = 1e3


def _points(factor: float) -> Callable[[Predicate], None]:
    def change(predicate: Predicate) -> None:
        for point in predicate["guarantee"]["epsilon_delta"]:
            point["epsilon"] *= factor

    return change


def _search_not_in_the_curve(predicate: Predicate) -> None:
    for column in predicate["columns"]:
        column["bounds_obtained"] = "private-histogram"
    guarantee, total = predicate["guarantee"], predicate["cumulative"]
    guarantee |= {"bounds_mu": 20.0, "rho": guarantee["rho"] + 200.001}
    total |= {"rho": 1e4, "other_units_rho": {"cell": 1e4}}


def _twice_public(predicate: Predicate) -> None:
    predicate["guarantee"]["public"] *= 2


def _half_of_the_total(predicate: Predicate) -> None:
    total = predicate["cumulative"]
    total["rho"] *= 0.5
    total["other_units_rho"]["cell"] *= 0.5


def _wishart(predicate: Predicate) -> None:
    """State Wishart noise soundly, but for a delta of nothing."""
    moments, guarantee, total = predicate["second_moments"], predicate["guarantee"], predicate["cumulative"]
    n, scale = moments["parameters"]["degrees_of_freedom"], moments["parameters"]["scale"]
    rounding = moments["granularity"] ** 2 / 12
    moments |= {"mechanism": "wishart", "distribution": "wishart", "bias": n * scale}
    moments |= {"diagonal_variance": 2 * n * scale**2 + rounding, "off_diagonal_variance": n * scale**2 + rounding}
    guarantee["excepted_delta"] = total["excepted_delta"] = 1e-300


def _one_round(predicate: Predicate) -> None:
    predicate["second_moments"]["fourth_moment"] = None


def _free_search(predicate: Predicate) -> None:
    predicate["guarantee"]["bounds_mu"] = 0.0


def _of_block(name: str, change: Callable[[Predicate], None]) -> Callable[[Predicate], None]:
    """Return a change of one column of a category, by the category's name."""

    def of_column(predicate: Predicate) -> None:
        change(next(column for column in predicate["columns"] if column["block"] == name))

    return of_column


def _source(change: Callable[[Predicate], None]) -> Callable[[Predicate], None]:
    """Return a change of the source of a category."""
    return lambda predicate: change(predicate["sources"][0])


def _made_whole(column: Predicate) -> None:
    """State discrete Gaussian noise, of which no mu is known, on a number whose gaps are published."""
    column |= {"kind": "integer", "bounds": [0.0, 2.0]}
    column["noise"] = {"distribution": "discrete-gaussian", "sigma": 2.0, "granularity": 1.0}
    column["noise"]["variance"] = discrete_gaussian_variance(2.0)


def _quiet_gaps(predicate: Predicate) -> None:
    """State the noise of an indicator as if it were alone in its cell."""
    for column in predicate["columns"]:
        if column["name"] == "hue=(no value)":
            sigma, step = 0.2, column["noise"]["granularity"]
            column["noise"] |= {"sigma": sigma, "variance": step * step * rounded_gaussian_variance(sigma / step)}


def _gaps_count_once(predicate: Predicate) -> None:
    predicate["cumulative"]["other_units_rho"]["row"] *= 0.999


def _apart(predicate: Predicate) -> None:
    predicate["columns"].append(predicate["columns"].pop(3))


def _without_sources(predicate: Predicate) -> None:
    predicate["sources"] = []


def _as_one_column(predicate: Predicate) -> None:
    """State the noise of a category as if its cell moved one column alone: sigma is too small by the root of 2."""
    for column in predicate["columns"]:
        if column["block"] == "maker":
            column["noise"] |= {"sigma": 1 / 6, "variance": discrete_gaussian_variance(1 / 6)}


def _too_few_replaced(predicate: Predicate) -> None:
    for column in predicate["columns"]:
        if column["block"] == "size":
            column["noise"]["replaced"] = 2.0**-20


def _replaced_by_two(predicate: Predicate) -> None:
    """State that levels are drawn from two, which the same probability tells less of."""
    for column in predicate["columns"]:
        if column["block"] == "size":
            column["noise"]["n_levels"] = 2


def _per_change(predicate: Predicate) -> None:
    predicate["guarantee"]["unit"] = predicate["cumulative"]["unit"] = "change"
    total = predicate["cumulative"]
    total["other_units_rho"] = {"cell": total["rho"], "row": total["rho"]}


def _no_margins(predicate: Predicate) -> None:
    """State no histograms, and leave the scores."""
    predicate["second_moments"]["margins"] = None


def _scores_without_margins(predicate: Predicate) -> None:
    """State no histograms, and standards that were found otherwise."""
    _no_margins(predicate)
    for column in predicate["columns"]:
        column["standard_obtained"] = "private-quantiles"


def _scored_levels(predicate: Predicate) -> None:
    """State normal scores of all levels of a category."""
    for column in predicate["columns"]:
        column["transform"] = _SCORES if column["block"] == "size" else column["transform"]


def _of_column(name: str, change: Callable[[Predicate], None]) -> Callable[[Predicate], None]:
    """Return a change of one column, by its name."""
    return lambda predicate: change(next(column for column in predicate["columns"] if column["name"] == name))


_S = "the signed manifest is not sound"
_COPULA = "copula"
_SCORES, _SIGMA = {"name": "scores"}, "second_moments.margins.sigma"
_ASINH = "asinh"
_FOUND = "found"
_DATE = {"name": "proline", "kind": "date", "columns": ["proline"], "levels": [], "other": None, "gaps": None}
_MIXED, _CHANGES, _GAPS = "mixed", "changes", "gaps"

CASES = [
    Case("two columns of one name", "C1", statement(_same_name), "the same name"),
    Case("bounds that are no interval", "C2", statement(put("columns.0.bounds", [16.0, 10.0])), "not an interval"),
    Case("bounds of another origin", "C2", statement(put("columns.0.bounds_obtained", "none")), "were obtained as"),
    Case("noise of the other kind", "C3", statement(put("columns.0.kind", "integer")), "noise of the other kind"),
    Case("rows without bounds", "G2", statement(_unbounded), "give no guarantee"),
    Case("covariance called rows", "C3", statement(put("kind", "rows"), _GAUSSIAN), "exactly in a"),
    Case("standard of no round", "C4", statement(put("columns.0.standard_obtained", "declared")), "not one standard"),
    Case("asinh of a date", "C5", statement(put("sources", [_DATE]), _ASINH), "than its number has a transform"),
    Case("cost of columns not stated", "F1", statement(put("guarantee.discovery_mu", 0.0), _FOUND), "with its cost"),
    Case("more levels than words", "F2", statement(put("discovery.n_listed", 1), _FOUND), "more columns were found"),
    Case("more rows than there are", "F2", statement(put("discovery.n_rows", 10**6), _FOUND), "more rows"),
    Case("columns found for less", "F3", statement(times("guarantee.discovery_mu", 0.9), _FOUND), "cost more"),
    Case("a low threshold", "F3", statement(times("discovery.threshold", 0.8), _FOUND), "larger than is stated"),
    Case("levels of nothing", "F4", statement(put("discovery.levels", ["hue"]), _FOUND), "that are not there"),
    Case("grid that is no power of two", "N1", statement(times("columns.0.noise.granularity", 1.5)), "power of two"),
    Case("sigma too large for its grid", "N1", statement(put("columns.2.noise.sigma", 2e9)), _S),
    Case("another variance", "N2", statement(times("columns.0.noise.variance", 1.01)), "variance is not"),
    Case("another variance of an integer", "N2", statement(times("columns.2.noise.variance", 0.99)), "variance is not"),
    Case("entity without rows", "G1", statement(put("guarantee.entity", "who")), "an entity is named"),
    Case("rho too small", "G2", statement(times("guarantee.rho", 0.5)), "rho is smaller"),
    Case("sigma too small for rho", "G2", statement(put("columns.2.bounds", [0.0, 4000.0])), "rho is smaller"),
    Case("cost of bounds that were declared", "G2", statement(_unsearched), "cost of private bounds"),
    Case("mu of integers", "G3", statement(_with_mu), "mu is stated exactly"),
    Case("neighbours of another kind", "G3", statement(put("guarantee.neighbours", "add-remove")), "replaced rows"),
    Case("epsilon too small", "G4", statement(_points(0.9), _GAUSSIAN), "epsilon is smaller"),
    Case("epsilon of integers too small", "G5", statement(_points(0.9)), "epsilon is smaller"),
    Case("search that the curve leaves out", "G5", statement(_search_not_in_the_curve), "epsilon is smaller"),
    Case("nothing public", "G6", statement(put("guarantee.public", [])), "not named as such"),
    Case("public twice", "G6", statement(_twice_public), "public twice"),
    Case("gaps that are not public", "G6", statement(put("columns.0.missing", "drop")), "no value in"),
    Case("partition that is not public", "G6", statement(put("lineage.partition", "October")), "rows are those of"),
    Case("entity whose rows are not public", "G6", statement(_entity), "belong together"),
    Case("release before the first", "T1", statement(put("lineage.previous", "0" * 64)), "none before it"),
    Case("first of several", "T1", statement(put("cumulative.releases", 2)), "one of several"),
    Case("total of another unit", "T2", statement(put("cumulative.unit", "cell")), "another unit"),
    Case("total below the release", "T3", statement(times("cumulative.rho", 0.9)), "total rho is smaller"),
    Case("total per cell too small", "T4", statement(times("cumulative.other_units_rho.cell", 0.9)), "total per cell"),
    Case("no total per cell", "T4", statement(put("cumulative.other_units_rho", {})), "in all units"),
    Case(
        "total per cell of strangers",
        "T4",
        statement(put("cumulative.other_units_rho.entity:doctor", 0.1)),
        "in all units",
    ),
    Case(
        "radius beyond all rows", "K1", statement(put("second_moments.radius", 9.0), _GAUSSIAN), "larger than any row"
    ),
    Case("constant off its grid", "K1", statement(put("second_moments.constant", 0.3), _GAUSSIAN), "1/256"),
    Case("bounds that were not declared", "K1", statement(_unbounded, _GAUSSIAN), "declared bounds"),
    Case(
        "noise of another mechanism", "K2", statement(put("second_moments.mechanism", "laplace"), _GAUSSIAN), "another"
    ),
    Case(
        "off-diagonal variance too large",
        "K2",
        statement(times("second_moments.off_diagonal_variance", 1.01), _GAUSSIAN),
        "not those of the stated noise",
    ),
    Case("parameter too many", "K2", statement(put("second_moments.parameters.x", 1.0), _GAUSSIAN), "parameters"),
    Case("mu of second moments too small", "G2", statement(times("guarantee.mu", 0.99), _GAUSSIAN), "mu is smaller"),
    Case("mu that epsilon does not imply", "K3", statement(times("guarantee.mu", 0.99), _VECTORS), "implies"),
    Case("point that epsilon does not imply", "K3", statement(_points(0.9), _VECTORS), "stated epsilon implies"),
    Case(
        "accountant of another noise", "K3", statement(put("guarantee.accountant", "pure-epsilon"), _GAUSSIAN), "by mu"
    ),
    Case("delta that is not excepted", "K4", statement(put("guarantee.excepted_delta", 0.0), _VECTORS), "excepted"),
    Case(
        "constant too large for epsilon", "K4", statement(put("second_moments.constant", 1.5), _WISHART), "epsilon is"
    ),
    Case("delta of Wishart noise too small", "K5", statement(_wishart, _WISHART), "delta is smaller"),
    Case("two rounds without a fourth moment", "W1", statement(_one_round, _TWO), "fourth moment are stated"),
    Case("clip beyond all rows", "W2", statement(put("second_moments.column_clip", 1e-3), _TWO), "larger than any row"),
    Case(
        "fourth moment off its grid",
        "W3",
        statement(times("second_moments.fourth_moment.total", 1.0001), _TWO),
        "multiple",
    ),
    Case("search that costs nothing", "W4", statement(_free_search, _TWO), "found privately, at a cost"),
    Case("histograms that cost nothing", "G2", statement(times(_SIGMA, 0.1), _COPULA), "mu is smaller"),
    Case("histograms for half the cost", "G2", statement(times(_SIGMA, 0.5), _COPULA), "mu is smaller"),
    Case("histograms with next to no noise", "H2", statement(put(_SIGMA, 0.04), _COPULA), "that counts can have"),
    Case("histograms with endless noise", "H2", statement(put(_SIGMA, 1e10), _COPULA), "that counts can have"),
    Case("histograms not stated", "H1", statement(_no_margins, _COPULA), "exactly where there are histograms"),
    Case("scores without histograms", "H1", statement(_scores_without_margins, _COPULA), "and no histograms"),
    Case(
        "scores of a level",
        "H1",
        statement(_scored_levels, _COPULA),
        "columns of numbers, and they alone",
    ),
    Case(
        "scores of gaps",
        "H1",
        statement(_of_column("hue=(no value)", put("transform", _SCORES)), _COPULA),
        "columns of numbers, and they alone",
    ),
    Case(
        "number without scores",
        "H1",
        statement(_of_column("proline", put("transform", None)), _COPULA),
        "columns of numbers, and they alone",
    ),
    Case(
        "asinh beside histograms",
        "H1",
        statement(_of_column("alcohol", put("transform", {"name": "asinh", "center": 12.0, "scale": 1.0})), _COPULA),
        "columns of numbers, and they alone",
    ),
    Case(
        "standard of one column found otherwise",
        "H1",
        statement(_of_column("alcohol", put("standard_obtained", "declared")), _COPULA),
        "exactly where there are histograms",
    ),
    Case("level twice", "B1", statement(_source(put("levels", ["small"] * 5)), _MIXED), "a level twice"),
    Case("gaps of no level", "B1", statement(_source(put("gaps", "nowhere")), _MIXED), "a level that is none"),
    Case("level without a column", "B1", statement(_source(put("columns", ["size=small"])), _MIXED), "for each level"),
    Case(
        "indicator beyond 1",
        "B2",
        statement(_of_block("maker", put("bounds", [0.0, 2.0])), _MIXED),
        "its bounds are not 0 and 1",
    ),
    Case("block that does not stand together", "B3", statement(_apart, _MIXED), "do not stand together"),
    Case("block without a source", "B3", statement(_without_sources, _MIXED), "do not stand together"),
    Case("columns that differ", "B3", statement(_of_block("maker", put("unit", "m")), _MIXED), "not all alike"),
    Case(
        "probability off its grid",
        "B4",
        statement(_of_block("size", put("noise.replaced", 0.1)), _MIXED),
        r"not a multiple of 2\^-32",
    ),
    Case("levels of another list", "B4", statement(_replaced_by_two, _MIXED), "of another length"),
    Case("changes of second moments", "K1", statement(_per_change, "covariance"), "no unit of privacy"),
    Case("changes of another unit", "B5", statement(put("columns.0.max_change", 1.0)), "and is no count"),
    Case("change of nothing", "B5", statement(put("columns.0.missing", "midpoint"), _CHANGES), "have no gaps"),
    Case("changes that nothing limits", "B5", statement(_per_change), "how far one person changes them"),
    Case("gaps that nothing indicates", "B6", statement(put("columns.0.missing", "indicator"), _GAPS), "not there"),
    Case(
        "indicator with gaps", "B6", statement(put("columns.2.missing", "midpoint"), _GAPS), "the indicator of its gaps"
    ),
    Case("number without gaps", "B2", statement(_of_block("hue", put("missing", "refuse")), _GAPS), "and its bounds"),
    Case("number of another noise", "B6", statement(_of_block("hue", _made_whole), _GAPS), "rounded Gaussian noise"),
    Case("number without its gaps", "B1", statement(_source(put("columns", ["hue"])), _GAPS), "each level"),
    Case("indicator of little noise", "G2", statement(_quiet_gaps, _GAPS), "mu is smaller"),
    Case("total per row without a share of it", "T4", statement(_gaps_count_once, _GAPS), "total per row"),
    Case("change larger than stated", "G2", statement(put("columns.0.max_change", 2.0), _CHANGES), "rho is smaller"),
    Case("category that counts once", "G2", statement(_as_one_column, _MIXED), "rho is smaller"),
    Case("levels that hardly change", "G2", statement(_too_few_replaced, _MIXED), "rho is smaller"),
    Case("total that leaves out the half", "T3", statement(_half_of_the_total), "total rho is smaller"),
]
