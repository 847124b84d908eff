"""Manifests of version 5: a number beside an indicator of its gaps is one cell, and lies about the two are refused."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.common.manifest.statements import replaced

from dp_bundle.manifest.cells import cells_of
from dp_bundle.manifest.columns import Noise
from dp_bundle.manifest.release import Release
from dp_bundle.privacy.normal import gaussian_delta

Document = dict[str, Any]
WIDTH, STEP, SIGMA, OF_GAPS = 10.0, 0.125, 5.0, 0.5
GAP_MU = math.hypot((WIDTH / 2 + STEP) / SIGMA, 1 / OF_GAPS)  # of a value and a gap, above the 2 of two values
LESS = 1 - 1e-6


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


def sound(*changes: tuple[str, Any]) -> Document:
    """Return a release of a number with gaps and of one without, whose cells have a mu of GAP_MU and 2."""
    columns = [
        _column("pay", WIDTH, SIGMA, STEP, block="pay", missing="indicator"),
        _column("pay=(no value)", 1.0, OF_GAPS, 2.0**-10, block="pay"),
        _column("age", WIDTH, SIGMA, STEP),
    ]
    guarantee = {
        "unit": "cell",
        "mu": GAP_MU,
        "rho": GAP_MU**2 / 2,
        "epsilon_delta": [{"epsilon": 1.0, "delta": gaussian_delta(GAP_MU, 1.0)}],
        "accountant": "gaussian-dp",
        "public": ["the number and the order of the rows"],
    }
    row = GAP_MU**2 / 2 + 2
    document = {
        "format_version": "5",
        "dataset": {"name": "people"},
        "lineage": {"number": 1, "created": "2026-01-02T03:04:05Z", "previous": None},
        "n_rows": 10,
        "columns": columns,
        "sources": [{"name": "pay", "kind": "number", "columns": ["pay", "pay=(no value)"]}],
        "guarantee": guarantee,
        "cumulative": {
            "unit": "cell",
            "releases": 1,
            "mu": GAP_MU,
            "rho": GAP_MU**2 / 2,
            "other_units_rho": {"row": row},
        },
        "software": "dpgraph 0",
    }
    return replaced(copy.deepcopy(document), *changes)


def read(document: Document) -> Release:
    """Read a release as a manifest's predicate is read."""
    return Release.model_validate_json(json.dumps(document))


def test_a_number_and_its_gaps_are_one_cell() -> None:
    """Its mu is the larger one of two values' and of a value's and a gap's; the row has two cells, and not three."""
    release = read(sound())
    assert [cell.mu for cell in cells_of(release.columns)] == pytest.approx([GAP_MU, WIDTH / SIGMA], rel=1e-12)
    assert Release.model_validate_json(release.model_dump_json()) == release
    quiet = sound(("columns.1.noise", Noise.rounded_gaussian(5.0, 2.0**-10).model_dump()))
    assert cells_of(read(quiet).columns)[0].mu == WIDTH / SIGMA


_ORDERED = {"name": "pay", "kind": "ordered", "columns": ["pay", "pay=(no value)"], "levels": ["low", "high"]}


@pytest.mark.parametrize("kind", ["date", "time", "time-of-day", "duration", "ordered"])
def test_other_numbers_may_have_gaps_that_are_published(kind: str) -> None:
    """Dates, times and ordered levels are read with a second column, and without."""
    source = _ORDERED if kind == "ordered" else {**sound()["sources"][0], "kind": kind}
    read(sound(("sources.0", source)))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (sound(("guarantee.mu", GAP_MU * LESS)), "mu is smaller"),
        (sound(("guarantee.mu", WIDTH / SIGMA), ("guarantee.rho", 2.0)), "mu is smaller"),
        (sound(("guarantee.mu", math.hypot(1.0, 1 / OF_GAPS))), "mu is smaller"),  # without a step of the grid
        (sound(("guarantee.rho", GAP_MU**2 / 2 * LESS)), "rho is smaller"),
        (sound(("cumulative.other_units_rho.row", 4.0 * LESS)), "total per row"),
        (sound(("columns.0.missing", "midpoint")), "bounds are not 0 and 1"),
        (sound(("columns.1.missing", "indicator")), "not a number and the indicator of its gaps"),
        (sound(("columns.1.missing", "midpoint")), "not a number and the indicator of its gaps"),
        (sound(("columns.2.missing", "indicator")), "by a column that is not there"),
        (sound(("columns.2.missing", "center")), "stand at the center"),
        (sound(("columns.1.bounds", [0.0, 0.5])), "bounds are not 0 and 1"),
        (
            sound(("columns.1.kind", "integer"), ("columns.1.noise", Noise.discrete_gaussian(0.5).model_dump())),
            "have no rounded Gaussian noise",
        ),
        (
            sound(("columns.0.kind", "integer"), ("columns.0.noise", Noise.discrete_gaussian(5.0).model_dump())),
            "have no rounded Gaussian noise",
        ),
        (sound(("columns.1.block", None)), "are not its block"),
        (sound(("sources.0.columns", ["pay=(no value)", "pay"])), "do not stand together"),
        (sound(("sources.0.columns", ["pay"])), "one column for each level"),
        (sound(("sources.0.kind", "boolean"), ("sources.0.levels", ["no", "yes"])), "one column for each level"),
        (sound(("sources", [])), "have no source"),
        (sound(("format_version", "4")), "no word of format version 4"),
    ],
)
def test_lies_are_refused(document: Document, message: str) -> None:
    """A mu that leaves out a gap, one column without the other, noise of another kind, an older version: refused."""
    with pytest.raises(ValidationError, match=message):
        read(document)


def test_a_date_with_gaps_is_no_word_of_version_4() -> None:
    """Whatever the kind, gaps beside a number came with version 5."""
    document = sound(("sources.0.kind", "date"), ("format_version", "4"))
    with pytest.raises(ValidationError, match="indicator is no word of format version 4"):
        read(document)
