"""Units of privacy, bounds found privately and balls in a manifest: no two of its entries contradict each other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.unit.common.manifest.statements import COLUMNS, changed, mixed, read, replaced

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.manifest.columns import Noise


def in_ball(*changes: tuple[str, Any]) -> dict[str, Any]:
    """Return a statement about rows in a ball, whose row mu is 5, with some entries replaced."""
    document = changed(("predicate.guarantee.mu", 5.0))
    for column in document["predicate"]["columns"]:
        column.update(bounds=None, bounds_obtained="ball", ball={"center": 1.0, "scale": 1.0, "radius": 5.0})
    return replaced(document, *changes)


def searched(bounds_mu: float = 12.0, mu: float = 13.0, rho: float = 84.5) -> dict[str, Any]:
    """Return a statement with one column of found bounds, whose rows cost 5 and whose search 12."""
    return changed(
        ("predicate.columns.0.bounds_obtained", "private-histogram"),
        ("predicate.guarantee.bounds_mu", bounds_mu),
        ("predicate.guarantee.mu", mu),
        ("predicate.guarantee.rho", rho),
        ("predicate.guarantee.epsilon_delta", []),
        ("predicate.cumulative", {"unit": "row", "releases": 1, "mu": 100.0, "rho": 5000.0}),
    )


def of_entity(**guarantee: Any) -> dict[str, Any]:
    """Return a statement about entities of at most four rows, whose mu is 10."""
    facts = {"unit": "entity", "entity": "who", "max_rows": 4, "mu": 10.0, "rho": 50.0, "epsilon_delta": []}
    document = changed(("predicate.cumulative", {"unit": "entity:who", "releases": 1, "mu": 100.0, "rho": 5000.0}))
    document["predicate"]["guarantee"].update({**facts, **guarantee})
    return document


def test_entities_balls_and_found_bounds_are_read() -> None:
    """The sound statements of the next test are sound, and a ball's worst column decides."""
    assert read(of_entity()).predicate.guarantee is not None
    assert read(searched()).predicate.guarantee is not None
    assert read(in_ball()).predicate.columns[0].width == 10.0
    finer = Noise.rounded_gaussian(1.0, 2**-7).model_dump()
    assert read(in_ball(("predicate.columns.0.noise", Noise.rounded_gaussian(3.0, 2**-7).model_dump()))) is not None
    with pytest.raises(BundleFormatError, match="smaller"):
        read(in_ball(("predicate.columns.0.noise", finer)))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (of_entity(max_rows=None), "exactly where it is the unit"),
        (of_entity(entity=None), "exactly where it is the unit"),
        (of_entity(entity=None, max_rows=None), "exactly where it is the unit"),
        (of_entity(unit="row"), "exactly where it is the unit"),
        (of_entity(max_rows=0), "greater than or equal to 1"),
        (of_entity(max_rows=10**400), "less than or equal"),
        (of_entity(max_rows=10**9), "smaller"),
        (of_entity(max_rows=5), "stated mu is smaller"),
        (of_entity(mu=9.99), "stated mu is smaller"),
        (of_entity(rho=49.9), "stated rho is smaller"),
        (searched(bounds_mu=0.0), "cost of private bounds"),
        (searched(bounds_mu=-1.0), "greater than or equal to 0"),
        (searched(bounds_mu=12.1), "stated mu is smaller"),
        (searched(mu=12.9), "stated mu is smaller"),
        (searched(rho=84.0), "stated rho is smaller"),
        (changed(("predicate.guarantee.bounds_mu", 1.0)), "cost of private bounds"),
        (changed(("predicate.columns.0.bounds_obtained", "private-histogram")), "cost of private bounds"),
        (mixed(bounds_mu=1.0), "cost of private bounds"),
        (in_ball(("predicate.columns.1.ball.radius", 4.0)), "not the same for all"),
        (in_ball(("predicate.columns.1.ball.radius", 6.0)), "not the same for all"),
        (in_ball(("predicate.columns.1", COLUMNS[1])), "not the same for all"),
        (in_ball(("predicate.columns.1.ball", None)), "bounds were obtained"),
        (in_ball(("predicate.columns.1.bounds", [0, 1])), "bounds were obtained"),
        (in_ball(("predicate.columns.1.bounds_obtained", "declared")), "bounds were obtained"),
        (in_ball(("predicate.columns.1.ball.scale", 2.0)), "stated mu is smaller"),
        (in_ball(("predicate.columns.1.ball.scale", 0.0)), "greater than 0"),
        (
            in_ball(*((f"predicate.columns.{i}.ball.{n}", 1e-300) for i in (0, 1) for n in ("scale", "radius"))),
            "no guarantee",
        ),
        (changed(*((f"predicate.columns.{i}.bounds", [0, 5e-324]) for i in (0, 1))), "no guarantee"),
        (changed(("predicate.lineage.partition", "")), "at least 1"),
    ],
)
def test_each_broken_cross_check_is_refused(document: dict[str, Any], message: str) -> None:
    """Units, found bounds, balls and strengths that contradict each other are format errors, never another kind."""
    with pytest.raises(BundleFormatError, match=message):
        read(document)


def test_rho_of_integer_entities_counts_rows_and_search() -> None:
    """Without a mu to compare, rho alone must cover bounds, rows of an entity and noise."""
    facts = {"unit": "entity", "entity": "who", "max_rows": 4, "bounds_mu": 1.0}
    document = mixed(**facts, rho=(4 * 169 + 1) / 2)
    document["predicate"]["columns"][0] = {**COLUMNS[0], "bounds_obtained": "private-histogram"}
    document["predicate"]["cumulative"] |= {"unit": "entity:who", "rho": 400.0}
    assert read(document).predicate.guarantee is not None
    for rho in (4 * 169 / 2, (169 + 1) / 2, 169 / 2):
        with pytest.raises(BundleFormatError, match="stated rho is smaller"):
            read(replaced(copy.deepcopy(document), ("predicate.guarantee.rho", rho)))
