"""What columns stand for, randomised response, limited changes, and numbers with gaps, with lies about them."""

import copy
import math
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.common.manifest.statements import read_release, replaced

from dp_bundle.manifest.columns import Noise, RandomizedResponse, cells_of
from dp_bundle.manifest.release import Release
from dp_bundle.privacy.discrete_curve import DiscreteLoss, least_deltas
from dp_bundle.privacy.normal import gaussian_delta

Document = dict[str, Any]
SIGMA = 2.0
QUARTER = {"distribution": "randomized-response", "n_levels": 3, "replaced": 0.25}
RESPONSE_MU = RandomizedResponse.model_validate(QUARTER).mu


def _integers(name: str, bounds: tuple[float, float], **more: Any) -> Document:
    noise = Noise.discrete_gaussian(SIGMA).model_dump()
    return {"name": name, "kind": "integer", "bounds": bounds, "bounds_obtained": "declared", "noise": noise, **more}


def _levels(name: str, levels: str, **more: Any) -> list[Document]:
    return [_integers(f"{name}={level}", (0.0, 1.0), block=name, **more) for level in levels]


def category(*changes: tuple[str, Any]) -> Document:
    """Return a release of one category of three levels, whose cell mu is sqrt(2) over sigma."""
    source = {"name": "edu", "kind": "category", "columns": ["edu=a", "edu=b", "edu=c"], "levels": ["a", "b", "c"]}
    return replaced(_release(_levels("edu", "abc"), [source], math.sqrt(2) / SIGMA, "cell"), *changes)


def responding(*changes: tuple[str, Any]) -> Document:
    """Return a release of one category under randomised response."""
    document = category()
    for column in document["columns"]:
        column["noise"] = dict(QUARTER)
    points = [{"epsilon": 1.0, "delta": gaussian_delta(RESPONSE_MU, 1.0)}]
    document["guarantee"] |= {"mu": RESPONSE_MU, "rho": RESPONSE_MU**2 / 2, "accountant": "gaussian-dp"}
    document["guarantee"]["epsilon_delta"] = points
    return replaced(document, *changes)


def counts(*changes: tuple[str, Any]) -> Document:
    """Return a release of two counts of up to 50, each protected for one case, and a number that is wholly so."""
    columns = [_integers(name, (0.0, 50.0), max_change=1.0) for name in ("north", "south")]
    columns.append(_integers("beds", (0.0, 2.0)))
    return replaced(_release(columns, [], 2 / SIGMA, "change"), *changes)


WIDTH, STEP, OF_NUMBERS, OF_GAPS = 10.0, 0.125, 5.0, 0.5
GAP_MU = math.hypot((WIDTH / 2 + STEP) / OF_NUMBERS, 1 / OF_GAPS)  # of a value and a gap, above the 2 of two values


def _column(name: str, width: float, sigma: float, step: float, **more: Any) -> Document:
    noise = Noise.rounded_gaussian(sigma, step).model_dump()
    return {
        "name": name,
        "kind": "continuous",
        "bounds": (0.0, width),
        "bounds_obtained": "declared",
        "noise": noise,
        **more,
    }


def with_gaps(*changes: tuple[str, Any]) -> Document:
    """Return a release of a number with gaps and of one without, whose cells have a mu of GAP_MU and 2."""
    columns = [
        _column("pay", WIDTH, OF_NUMBERS, STEP, block="pay", missing="indicator"),
        _column("pay=(no value)", 1.0, OF_GAPS, 2.0**-10, block="pay"),
        _column("age", WIDTH, OF_NUMBERS, STEP),
    ]
    own = {"mu": GAP_MU, "rho": GAP_MU**2 / 2}
    document = _release(
        columns, [{"name": "pay", "kind": "number", "columns": ["pay", "pay=(no value)"]}], GAP_MU, "cell"
    )
    document["guarantee"] |= own | {"accountant": "gaussian-dp"}
    document["guarantee"]["epsilon_delta"] = [{"epsilon": 1.0, "delta": gaussian_delta(GAP_MU, 1.0)}]
    document["cumulative"] |= own | {"other_units_rho": {"row": GAP_MU**2 / 2 + 2}}
    return replaced(document, *changes)


def _release(columns: list[Document], sources: list[Document], mu: float, unit: str) -> Document:
    guarantee = {"unit": unit, "mu": None, "rho": mu * mu / 2, "epsilon_delta": []}
    guarantee |= {"accountant": "privacy-loss-distribution", "public": ["the number and the order of the rows"]}
    others = dict.fromkeys({"cell", "row", unit} - {unit}, 1e6)
    return copy.deepcopy(
        {
            "format_version": "8",
            "dataset": {"name": "people"},
            "lineage": {"number": 1, "created": "2026-01-02T03:04:05Z", "previous": None},
            "n_rows": 10,
            "columns": columns,
            "sources": sources,
            "guarantee": guarantee,
            "cumulative": {"unit": unit, "releases": 1, "mu": None, "rho": 1e6, "other_units_rho": others},
            "software": "dpgraph 0",
        }
    )


LESS = 1 - 1e-6
ONE_COLUMN = (1 / SIGMA) ** 2 / 2  # rho of a category that is counted as one of its columns


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (category(("guarantee.rho", ONE_COLUMN)), "rho is smaller"),
        (category(("guarantee.rho", LESS / SIGMA**2)), "rho is smaller"),
        (responding(("guarantee.mu", LESS * RESPONSE_MU)), "mu is smaller"),
        (responding(("guarantee.rho", LESS * RESPONSE_MU**2 / 2)), "rho is smaller"),
        (responding(("guarantee.mu", None)), "mu is stated exactly"),
        (
            responding(("guarantee.epsilon_delta", [{"epsilon": 1.0, "delta": 0.99 * gaussian_delta(RESPONSE_MU, 1)}])),
            "epsilon is smaller",
        ),
        (counts(("guarantee.rho", LESS * (2 / SIGMA) ** 2 / 2)), "rho is smaller"),
        (counts(("columns.2.max_change", 3.0), ("guarantee.rho", LESS * (2 / SIGMA) ** 2 / 2)), "rho is smaller"),
        (counts(("columns.0.max_change", 0.0)), "greater than 0"),
        (counts(("cumulative.other_units_rho.cell", (50 / SIGMA) ** 2 / 2 * LESS)), "total per cell is smaller"),
        (with_gaps(("guarantee.mu", GAP_MU * LESS)), "mu is smaller"),
        (with_gaps(("guarantee.mu", WIDTH / OF_NUMBERS), ("guarantee.rho", 2.0)), "mu is smaller"),
        (with_gaps(("guarantee.mu", math.hypot(1.0, 1 / OF_GAPS))), "mu is smaller"),  # without a step of the grid
        (with_gaps(("guarantee.rho", GAP_MU**2 / 2 * LESS)), "rho is smaller"),
        (with_gaps(("cumulative.other_units_rho.row", 4.0 * LESS)), "total per row"),
    ],
)
def test_lies_are_refused(document: Document, message: str) -> None:
    """A category that counts as one column, a case that counts for its cell, or a mu too small by a millionth."""
    with pytest.raises(ValidationError, match=message):
        read_release(document)


def test_totals_count_a_case_as_less_than_its_cell() -> None:
    """Where a case is protected, the total for whole cells and rows is at least what the whole range costs."""
    cell = (50 / SIGMA) ** 2 / 2
    row = (50**2 + 50**2 + 2**2) / SIGMA**2 / 2
    read_release(counts(("cumulative.other_units_rho", {"cell": cell, "row": row})))
    with pytest.raises(ValidationError, match="total per row"):
        read_release(counts(("cumulative.other_units_rho", {"cell": cell, "row": LESS * row})))


def test_discrete_curve_counts_two_columns_of_a_category() -> None:
    """The curve that one of a category's columns would have is refused for the category; that of two is read."""
    document = category()
    one, two = (least_deltas([0.5], {DiscreteLoss(1, SIGMA): n_columns})[0] for n_columns in (1, 2))
    document["guarantee"]["epsilon_delta"] = [{"epsilon": 0.5, "delta": two}]
    read_release(document)
    document["guarantee"]["epsilon_delta"] = [{"epsilon": 0.5, "delta": one}]
    with pytest.raises(ValidationError, match="epsilon is smaller"):
        read_release(document)


def test_a_number_and_its_gaps_are_one_cell() -> None:
    """Its mu is the larger one of two values' and of a value's and a gap's; the row has two cells, and not three."""
    release = read_release(with_gaps())
    assert [cell.mu for cell in cells_of(release.columns)] == pytest.approx([GAP_MU, WIDTH / OF_NUMBERS], rel=1e-12)
    assert Release.model_validate_json(release.model_dump_json()) == release
    quiet = with_gaps(("columns.1.noise", Noise.rounded_gaussian(5.0, 2.0**-10).model_dump()))
    assert cells_of(read_release(quiet).columns)[0].mu == WIDTH / OF_NUMBERS
