"""The manifest: it comes back as it was, and contradicts itself in no way that is read."""

import copy
import json
import math
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.unit.common.manifest.statements import COLUMNS, SOUND, changed, mixed, read, replaced, total

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.manifest.columns import Column, Noise
from dp_bundle.manifest.guarantee import EpsilonDelta
from dp_bundle.manifest.release import Release
from dp_bundle.manifest.statement import Statement


def test_statements_round_trip() -> None:
    """A statement read back is the one written, and its bytes are the same every time."""
    statement = read(SOUND)

    assert Statement.from_bytes(statement.to_bytes()) == statement
    assert statement.to_bytes() == Statement.from_bytes(statement.to_bytes()).to_bytes()
    assert statement.predicate.noise_variance == [column.noise.variance for column in statement.predicate.columns]


def test_bytes_are_canonical_json() -> None:
    """Keys are sorted and nothing is spaced, text is UTF-8, and in-toto's own names are used."""
    content = read(changed(("predicate.dataset.title", "naïve \u2603"))).to_bytes()
    document = json.loads(content)

    assert content == json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert "naïve \u2603".encode() in content
    assert set(document) == {"_type", "subject", "predicateType", "predicate"}


UNPRINTED = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control and format characters, surrogates, line separators


@settings(max_examples=60, deadline=None)
@given(
    sigma=st.floats(1e-3, 1e6),
    low=st.floats(-1e9, 1e9),
    width=st.floats(1e-3, 1e9),
    name=st.text(st.characters(codec="utf-8", exclude_categories=UNPRINTED), min_size=1, max_size=30),
    epsilons=st.lists(st.floats(0, 1e6), max_size=3),
)
def test_any_numbers_and_names_round_trip(
    sigma: float, low: float, width: float, name: str, epsilons: list[float]
) -> None:
    """Floats come back to the last bit and names letter by letter."""
    noise = Noise.rounded_gaussian(sigma, math.ldexp(0.5, math.frexp(sigma / 256)[1]))
    column = {**COLUMNS[0], "name": name, "bounds": (low, low + width), "noise": noise}
    mu = Column.model_validate(column).cell_mu
    points = tuple(EpsilonDelta(epsilon=epsilon, delta=math.nextafter(1, 0)) for epsilon in epsilons)
    guarantee = {
        **SOUND["predicate"]["guarantee"],
        "mu": mu,
        "rho": mu * mu / 2,
        "public": ("the number and the order of the rows",),
        "epsilon_delta": points,
    }
    release = {**SOUND["predicate"], "columns": (column,), "guarantee": guarantee}
    release["cumulative"] = total(mu=mu, rho=mu * mu / 2)
    statement = Statement(subject=(), predicateType="dpgraph:release/v8", predicate=Release.model_validate(release))

    assert Statement.from_bytes(statement.to_bytes()) == statement


BROKEN: dict[str, list[Any]] = {
    "extra": [1],
    "_type": ["https://in-toto.io/Statement/v0.1"],
    "predicateType": ["other"],
    "subject.0.digest": [{}, {"md5": "0" * 64}],
    "subject.0.digest.sha256": ["0" * 63, "A" * 64],
    "predicate.extra": [1],
    "predicate.dataset.title": ["Wine\n  signer     ed25519:00 (trusted here as you)"],
    "predicate.dataset.license": ["CC0\x1b[2J"],
    "predicate.dataset.description": ["\u202eeniw"],
    "predicate.columns.0.unit": ["cm\u2028"],
    "predicate.columns.0.name": ["a\x9bb", ""],
    "predicate.n_rows": [0, 1.5, "10"],
    "predicate.columns": [[]],
    "predicate.columns.1.name": ["height"],
    "predicate.columns.0.bounds": [None, [6, 0], [0, float("inf")], [0, float("nan")]],
    "predicate.columns.0.bounds_obtained": ["none"],
    "predicate.columns.0.kind": ["integer"],
    "predicate.columns.0.missing": ["ignore"],
    "predicate.columns.0.noise.distribution": ["discrete-gaussian", "laplace"],
    "predicate.columns.0.noise.sigma": [2.1, float("nan"), 0],
    "predicate.columns.0.noise.variance": [4.1],
    "predicate.columns.0.noise.granularity": [0.01, 2.0**600, 2.0**-1070],
    "predicate.lineage.number": [0],
    "predicate.lineage.created": [
        "2026-01-02 03:04:05",
        "2026-02-29T00:00:00Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T23:59:60Z",
        "0000-01-02T00:00:00Z",
        "\u0968\u0966\u0968\u096c-01-02T00:00:00Z",
    ],
    "predicate.lineage.previous": ["a"],
    "predicate.guarantee": [None],
    "predicate.guarantee.unit": ["table"],
    "predicate.guarantee.neighbours": ["add-remove"],
    "predicate.guarantee.mu": [4.99, None, float("inf")],
    "predicate.guarantee.rho": [12.49],
    "predicate.guarantee.accountant": ["privacy-loss-distribution"],
    "predicate.guarantee.epsilon_delta.0.epsilon": [30.0, float("nan")],
    "predicate.guarantee.epsilon_delta.0.delta": [1e-12, 0, 1, float("nan")],
    "predicate.guarantee.epsilon_delta": [[{"delta": 0.5, "epsilon": 40.0}] * 17],
    "predicate.guarantee.public": [["the number and the order of the rows"] * 2],
    "predicate.cumulative.releases": [0],
    "predicate.cumulative.mu": [4.9],
    "predicate.cumulative.rho": [12.0],
    "predicate.software": [""],
}


@pytest.mark.parametrize(("place", "value"), [(place, value) for place, values in BROKEN.items() for value in values])
def test_each_broken_rule_is_refused(place: str, value: Any) -> None:
    """A sound statement with one entry wrong is a format error that fits on a line."""
    assert read(SOUND).predicate.n_rows == 10
    with pytest.raises(BundleFormatError, match="not sound") as caught:
        read(changed((place, value)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("place", ["predicate.n_rows", "predicate.guarantee", "predicate.cumulative", "subject"])
def test_entries_left_out_are_refused(place: str) -> None:
    """Nothing that the format requires has a default."""
    document = copy.deepcopy(SOUND)
    *folders, last = place.split(".")
    inner = document
    for folder in folders:
        inner = inner[folder]
    del inner[last]
    with pytest.raises(BundleFormatError):
        read(document)


def test_guarantee_of_a_cell_is_its_largest_column() -> None:
    """At cell level the widest column in sigmas decides; at row level all of them."""
    cell = [("predicate.guarantee.unit", "cell"), ("predicate.cumulative", total("cell"))]
    curve = ("predicate.guarantee.epsilon_delta", [])
    assert read(changed(*cell, curve, ("predicate.guarantee.mu", 4.0))).predicate.guarantee is not None
    with pytest.raises(BundleFormatError, match="mu is smaller"):
        read(changed(*cell, curve, ("predicate.guarantee.mu", 3.99)))
    with pytest.raises(BundleFormatError, match="another unit"):
        read(changed(cell[0], curve, ("predicate.guarantee.mu", 4.0)))


def test_integer_columns_state_rho_and_no_mu() -> None:
    """With discrete noise the guarantee is zero-concentrated, and a total mu would be one too many."""
    assert read(mixed()).predicate.guarantee is not None
    wrong = [mixed(mu=13.0), mixed(accountant="gaussian-dp"), mixed(rho=84.0)]
    total = mixed()
    total["predicate"]["cumulative"]["mu"] = 20.0
    for document in (*wrong, total):
        with pytest.raises(BundleFormatError):
            read(document)


def test_first_release_is_the_first() -> None:
    """A release with number 1 has none before it, and is alone in its totals."""
    first = [
        ("predicate.lineage.number", 1),
        ("predicate.lineage.previous", None),
        ("predicate.cumulative.releases", 1),
    ]
    assert read(changed(*first)).predicate.lineage.number == 1
    for change in (("predicate.lineage.previous", "0" * 64), ("predicate.cumulative.releases", 2)):
        with pytest.raises(BundleFormatError, match="first"):
            read(changed(*first, change))


def test_stated_curve_may_touch_the_exact_one() -> None:
    """The smallest epsilon that is accepted is the exact one, computed at high precision."""
    with mpmath.workdps(40):

        def delta(epsilon: float) -> Any:
            a, b = epsilon / mpmath.mpf(5) - 2.5, epsilon / mpmath.mpf(5) + 2.5
            return mpmath.ncdf(-a) - mpmath.exp(epsilon) * mpmath.ncdf(-b)

        exact = float(mpmath.findroot(lambda epsilon: mpmath.log(delta(epsilon)) - mpmath.log(1e-6), 36))
    place = "predicate.guarantee.epsilon_delta.0.epsilon"

    assert read(changed((place, exact))).predicate.guarantee is not None
    with pytest.raises(BundleFormatError, match="epsilon"):
        read(changed((place, exact * (1 - 1e-4))))


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"predicate":3}', b'{"predicate":{}}', b"9" * 5000],
)
def test_what_is_no_statement_is_a_format_error(content: bytes) -> None:
    """No input makes the reader raise anything else."""
    with pytest.raises(BundleFormatError):
        Statement.from_bytes(content)


def test_models_cannot_be_changed() -> None:
    """What was verified stays as it was."""
    release = read(SOUND).predicate
    with pytest.raises(ValidationError):
        release.n_rows = 11


def searched(bounds_mu: float = 12.0, mu: float = 13.0, rho: float = 84.5) -> dict[str, Any]:
    """Return a statement with one column of found bounds, whose rows cost 5 and whose search 12."""
    return changed(
        ("predicate.columns.0.bounds_obtained", "private-histogram"),
        ("predicate.guarantee.bounds_mu", bounds_mu),
        ("predicate.guarantee.mu", mu),
        ("predicate.guarantee.rho", rho),
        ("predicate.guarantee.epsilon_delta", []),
        ("predicate.cumulative", total()),
    )


def of_entity(**guarantee: Any) -> dict[str, Any]:
    """Return a statement about entities of at most four rows, whose mu is 10."""
    facts = {"unit": "entity", "entity": "who", "max_rows": 4, "mu": 10.0, "rho": 50.0, "epsilon_delta": []}
    public = ["the number and the order of the rows", "which rows belong together"]
    document = changed(("predicate.cumulative", total("entity:who")), ("predicate.guarantee.public", public))
    document["predicate"]["guarantee"].update({**facts, **guarantee})
    return document


def test_entities_and_found_bounds_are_read() -> None:
    """The sound statements of the next test are sound."""
    assert read(of_entity()).predicate.guarantee is not None
    assert read(searched()).predicate.guarantee is not None


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
        (
            changed(("predicate.columns.0.bounds", None), ("predicate.columns.0.bounds_obtained", "none")),
            "no guarantee",
        ),
        (changed(*((f"predicate.columns.{i}.bounds", [0, 5e-324]) for i in (0, 1))), "no guarantee"),
        (changed(("predicate.lineage.partition", "")), "at least 1"),
    ],
)
def test_each_broken_cross_check_is_refused(document: dict[str, Any], message: str) -> None:
    """Units, found bounds and strengths that contradict each other are format errors, never another kind."""
    with pytest.raises(BundleFormatError, match=message):
        read(document)


def test_rho_of_integer_entities_counts_rows_and_search() -> None:
    """Without a mu to compare, rho alone must cover bounds, rows of an entity and noise."""
    facts: dict[str, Any] = {"unit": "entity", "entity": "who", "max_rows": 4, "bounds_mu": 1.0}
    facts["public"] = of_entity()["predicate"]["guarantee"]["public"]
    document = mixed(**facts, rho=(4 * 169 + 1) / 2)
    document["predicate"]["columns"][0] = {**COLUMNS[0], "bounds_obtained": "private-histogram"}
    document["predicate"]["cumulative"] = total("entity:who", mu=None, rho=400.0)
    assert read(document).predicate.guarantee is not None
    for rho in (4 * 169 / 2, (169 + 1) / 2, 169 / 2):
        with pytest.raises(BundleFormatError, match="stated rho is smaller"):
            read(replaced(copy.deepcopy(document), ("predicate.guarantee.rho", rho)))
