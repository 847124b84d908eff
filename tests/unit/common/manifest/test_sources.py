"""Manifests of version 4: what columns stand for, randomised response and limited changes, and lies about them."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.common.manifest.statements import replaced

from dp_bundle.manifest.columns import Noise, RandomizedResponse
from dp_bundle.manifest.release import Release
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


def sound(*changes: tuple[str, Any]) -> Document:
    """Return a release of a category, a truth value and a date, whose cell mu is that of the date, 3 over sigma."""
    columns = [*_levels("edu", "abc"), _integers("smokes", (0.0, 1.0)), _integers("born", (0.0, 3.0))]
    sources = [
        {"name": "edu", "kind": "category", "columns": ["edu=a", "edu=b", "edu=c"], "levels": ["a", "b", "c"]},
        {"name": "smokes", "kind": "boolean", "columns": ["smokes"], "levels": ["no", "yes"]},
        {"name": "born", "kind": "date", "columns": ["born"]},
    ]
    return replaced(_release(columns, sources, 3 / SIGMA, "cell"), *changes)


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


def _release(columns: list[Document], sources: list[Document], mu: float, unit: str) -> Document:
    guarantee = {"unit": unit, "mu": None, "rho": mu * mu / 2, "epsilon_delta": []}
    guarantee |= {"accountant": "privacy-loss-distribution", "public": ["the number and the order of the rows"]}
    others = dict.fromkeys({"cell", "row", unit} - {unit}, 1e6)
    return copy.deepcopy(
        {
            "format_version": "4",
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


def read(document: Document) -> Release:
    """Read a release as a manifest's predicate is read."""
    return Release.model_validate_json(json.dumps(document))


@pytest.mark.parametrize("make", [sound, category, responding, counts])
def test_sound_ones_are_read(make: Callable[[], Document]) -> None:
    """A release with categories, randomised response, dates or limited changes is read, and comes back as it was."""
    release = read(make())
    assert Release.model_validate_json(release.model_dump_json()) == release


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
        (responding(("guarantee.accountant", "privacy-loss-distribution")), "accountant"),
        (
            responding(("guarantee.epsilon_delta", [{"epsilon": 1.0, "delta": 0.99 * gaussian_delta(RESPONSE_MU, 1)}])),
            "epsilon is smaller",
        ),
        (responding(("columns.0.noise.replaced", 0.3)), "multiple of 2"),
        (responding(("columns.0.noise.n_levels", 2)), "not all alike"),
        (responding(*((f"columns.{n}.noise.n_levels", 2) for n in range(3))), "list of another length"),
        (responding(*((f"columns.{n}.noise.n_levels", 9) for n in range(3))), "list of another length"),
        (sound(("columns.3.noise", dict(QUARTER))), "more levels than its two values"),
        (sound(("columns.4.noise", {**QUARTER, "n_levels": 2})), "bounds are not 0 and 1"),
        (sound(("columns.0.bounds", [0.0, 2.0])), "bounds are not 0 and 1"),
        (sound(("columns.0.noise", Noise.discrete_gaussian(9.0).model_dump())), "not all alike"),
        (sound(("columns.0.description", "another one")), "not all alike"),
        (sound(("columns.0.missing", "midpoint")), "not all alike"),
        (sound(("columns.0.block", None)), "are not its block"),
        (sound(("columns.3.block", "smokes")), "are not its block"),
        (sound(("columns.0.name", "edu=z")), "not there"),
        (sound(("sources.0.columns", ["edu=b", "edu=a", "edu=c"])), "do not stand together"),
        (sound(("sources", [])), "have no source"),
        (sound(("sources.1.columns", ["born"])), "two sources"),
        (sound(("sources.1.name", "edu")), "the same name"),
        (sound(("sources.0.columns", ["edu=a", "edu=b"])), "one column for each level"),
        (sound(("sources.0.levels", ["a", "b", "b"])), "a level twice"),
        (sound(("sources.1.levels", [])), "not the levels of its kind"),
        (sound(("sources.2.levels", ["a", "b"])), "not the levels of its kind"),
        (sound(("sources.0.other", "d")), "a level that is none"),
        (sound(("sources.0.gaps", "d")), "a level that is none"),
        (counts(("guarantee.rho", LESS * (2 / SIGMA) ** 2 / 2)), "rho is smaller"),
        (counts(("columns.2.max_change", 3.0), ("guarantee.rho", LESS * (2 / SIGMA) ** 2 / 2)), "rho is smaller"),
        (counts(*((f"columns.{n}.max_change", None) for n in range(2))), "how far one person changes them exactly"),
        (counts(("guarantee.unit", "cell"), ("cumulative.unit", "cell")), "how far one person changes them exactly"),
        (counts(("columns.0.missing", "midpoint")), "have no gaps"),
        (counts(("columns.2.missing", "center")), "centers"),
        (counts(("columns.0.bounds", None), ("columns.0.bounds_obtained", "none")), "no count within bounds"),
        (counts(("columns.0.max_change", 0.0)), "greater than 0"),
        (counts(("cumulative.other_units_rho.cell", (50 / SIGMA) ** 2 / 2 * LESS)), "total per cell is smaller"),
        (counts(("cumulative.other_units_rho", {"row": 1e6})), "in all units"),
        (sound(("columns.0.max_change", 1.0)), "no count within bounds"),
    ],
)
def test_lies_are_refused(document: Document, message: str) -> None:
    """A category that counts as one column, a mu too small, a torn block, a change without its unit: refused."""
    with pytest.raises(ValidationError, match=message):
        read(document)


def test_totals_count_a_case_as_less_than_its_cell() -> None:
    """Where a case is protected, the total for whole cells and rows is at least what the whole range costs."""
    cell = (50 / SIGMA) ** 2 / 2
    row = (50**2 + 50**2 + 2**2) / SIGMA**2 / 2
    read(counts(("cumulative.other_units_rho", {"cell": cell, "row": row})))
    with pytest.raises(ValidationError, match="total per row"):
        read(counts(("cumulative.other_units_rho", {"cell": cell, "row": LESS * row})))


def test_discrete_curve_counts_two_columns_of_a_category() -> None:
    """The curve that one of a category's columns would have is refused for the category; that of two is read."""
    document = category()
    point = {"epsilon": 0.5}
    loss_of = [(k, math.exp(-k * k / (2 * SIGMA**2))) for k in range(-60, 61)]
    weight = math.fsum(each for _, each in loss_of)

    def delta(n_columns: int) -> float:
        """Sum over all draws of noise on so many columns that move by one step."""
        losses = [((2 * k + 1) / (2 * SIGMA**2), chance / weight) for k, chance in loss_of]
        joint = losses if n_columns == 1 else [(a + b, p * q) for a, p in losses for b, q in losses]
        return math.fsum(p * max(0.0, -math.expm1(point["epsilon"] - loss)) for loss, p in joint)

    document["guarantee"]["epsilon_delta"] = [{**point, "delta": delta(2) * (1 + 1e-6)}]
    read(document)
    document["guarantee"]["epsilon_delta"] = [{**point, "delta": delta(1) * (1 + 1e-6)}]
    with pytest.raises(ValidationError, match="epsilon is smaller"):
        read(document)


@pytest.mark.parametrize(
    ("make", "word"), [(responding, "randomized-response"), (counts, "change")], ids=["response", "change"]
)
def test_later_words_are_refused_in_version_3(make: Callable[[], Document], word: str) -> None:
    """Randomised response and the unit of a change came with version 4."""
    with pytest.raises(ValidationError, match=f"{word} is no word of format version 3"):
        read(make() | {"format_version": "3"})


def test_total_of_changes_without_a_guarantee_came_with_version_4() -> None:
    """A release without a guarantee may follow others that protect changes, since version 4."""
    own = {"guarantee": None, "sigma_derived_from_data": True}
    total = {"unit": "change", "releases": 1, "mu": None, "rho": None}
    document = counts() | own | {"cumulative": total}
    assert read(document).cumulative.unit == "change"
    for column in document["columns"]:
        column.pop("max_change", None)
    with pytest.raises(ValidationError, match="change is no word of format version 3"):
        read(document | {"format_version": "3"})
