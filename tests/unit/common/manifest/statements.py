"""A sound statement, and others that differ from it in a few entries."""

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dp_bundle import open_bundle
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.manifest.columns import Noise
from dp_bundle.manifest.release import Release
from dp_bundle.manifest.statement import Statement
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import Envelope, verify_envelope

GOLDEN = Path(__file__).parents[3] / "golden"
COLUMNS = [
    {
        "name": "height",
        "kind": "continuous",
        "bounds": [0.0, 6.0],
        "bounds_obtained": "declared",
        "noise": Noise.rounded_gaussian(2.0, 2**-7).model_dump(),
    },
    {
        "name": "weight",
        "kind": "continuous",
        "bounds": [-4.0, 4.0],
        "bounds_obtained": "declared",
        "noise": Noise.rounded_gaussian(2.0, 2**-7).model_dump(),
    },
]
COUNTS = {
    "name": "counts",
    "kind": "integer",
    "bounds": [0.0, 24.0],
    "bounds_obtained": "declared",
    "noise": Noise.discrete_gaussian(2.0).model_dump(),
}
SOUND: dict[str, Any] = {
    "_type": "https://in-toto.io/Statement/v1",
    "subject": [{"name": "README.md", "digest": {"sha256": "0" * 64}}],
    "predicateType": "dpgraph:release/v8",
    "predicate": {
        "format_version": "8",
        "dataset": {"name": "people"},
        "lineage": {"number": 2, "created": "2026-01-02T03:04:05Z", "previous": "a" * 64},
        "n_rows": 10,
        "columns": COLUMNS,
        "guarantee": {
            "unit": "row",
            "mu": 5.0,
            "rho": 12.5,
            "epsilon_delta": [{"epsilon": 40.0, "delta": 1e-6}],
            "accountant": "gaussian-dp",
            "public": ["the number and the order of the rows"],
        },
        "cumulative": {"unit": "row", "releases": 2, "mu": 6.0, "rho": 18.0, "other_units_rho": {"cell": 18.0}},
        "software": "dpgraph 0",
    },
}


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """Return the sound statement with the entries at these dotted places replaced, or removed where None is given."""
    return replaced(copy.deepcopy(SOUND), *changes)


def replaced(document: dict[str, Any], *changes: tuple[str, Any]) -> dict[str, Any]:
    """Return the document with the entries at these dotted places replaced, by values or by functions of them."""
    for place, value in changes:
        *folders, last = [int(part) if part.isdigit() else part for part in place.split(".")]
        inner: Any = document
        for folder in folders:
            inner = inner[folder]
        inner[last] = value(inner[last]) if callable(value) else value
    return document


def total(unit: str = "row", mu: float | None = 100.0, rho: float | None = 5000.0, **more: Any) -> dict[str, Any]:
    """Return totals that say the same of every unit."""
    others = dict.fromkeys({"cell", "row"} - {unit}, rho) if rho is not None else {}
    return {"unit": unit, "releases": 1, "mu": mu, "rho": rho, "other_units_rho": others, **more}


def spell(document: Any) -> bytes:
    """Return a document as JSON with sorted keys and no spaces."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def respell(document: dict[str, Any]) -> bytes:
    """Return a statement in its one spelling: of its numbers too, unless it is not sound."""
    with contextlib.suppress(ValidationError, ArithmeticError):
        statement = Statement.model_validate_json(json.dumps(document))
        document = statement.model_dump(mode="json", by_alias=True)
    return spell(document)


def payload(name: str) -> bytes:
    """Return the signed manifest of a stored bundle."""
    with open_bundle(GOLDEN / name, UnsafeTrustAnyone()) as bundle, bundle.open(MANIFEST_NAME) as manifest:
        return verify_envelope(Envelope.from_bytes(manifest.read()))


def read(document: dict[str, Any]) -> Statement:
    """Read a statement from its bytes."""
    return Statement.from_bytes(respell(document))


def read_release(document: dict[str, Any]) -> Release:
    """Read a release as a manifest's predicate is read."""
    return Release.model_validate_json(json.dumps(document))


def mixed(**guarantee: Any) -> dict[str, Any]:
    """Return a statement with an integer column, whose row mu is 13."""
    sound = {"unit": "row", "mu": None, "rho": 84.5, "epsilon_delta": [], "accountant": "privacy-loss-distribution"}
    return changed(
        ("predicate.columns", [*COLUMNS, COUNTS]),
        ("predicate.guarantee", {**sound, "public": SOUND["predicate"]["guarantee"]["public"], **guarantee}),
        ("predicate.cumulative", total(mu=None, rho=100.0)),
    )
