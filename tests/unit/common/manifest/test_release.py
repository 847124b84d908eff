"""The manifest: it comes back as it was, and contradicts itself in no way that is read."""

import json
from typing import Any

import mpmath
import pytest
from tests.unit.common.manifest.statements import G, read, spell, stated

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.manifest.release import Statement


def test_statements_round_trip() -> None:
    """A statement read back is the one written: JSON with sorted keys and no spaces, in UTF-8, by in-toto's names."""
    statement = read(stated("gaps", {"predicate.dataset.title": "naïve \u2603"}))
    content = statement.to_bytes()
    document = json.loads(content)

    assert Statement.from_bytes(content) == statement
    assert content == spell(document)
    assert "naïve \u2603".encode() in content
    assert set(document) == {"_type", "subject", "predicateType", "predicate"}
    assert statement.predicate.noise_variance == [column.noise.variance for column in statement.predicate.columns]


BROKEN: dict[str, list[Any]] = {
    "_type": ["https://in-toto.io/Statement/v0.1"],
    "subject.0.digest": [{}, {"md5": "0" * 64}],
    "subject.0.digest.sha256": ["0" * 63, "A" * 64],
    "predicate.n_rows": [0],
    "predicate.columns": [[]],
    "predicate.columns.0.missing": ["ignore"],
    "predicate.columns.0.noise.distribution": ["laplace"],
    "predicate.columns.0.noise.sigma": [0],
    "predicate.columns.0.noise.granularity": [2.0**-1070],
    "predicate.lineage.number": [0],
    "predicate.lineage.created": [
        "2026-01-02 03:04:05",
        "\u0968\u0966\u0968\u096c-01-02T00:00:00Z",
    ],
    "predicate.lineage.previous": ["a"],
    "predicate.guarantee": [None],
    "predicate.guarantee.unit": ["table"],
    "predicate.guarantee.epsilon_delta.0.delta": [0, 1],
    "predicate.guarantee.epsilon_delta": [[{"delta": 0.5, "epsilon": 40.0}] * 17],
    "predicate.cumulative.releases": [0],
    "predicate.lineage.partition": [""],
    "predicate.software": [""],
}


@pytest.mark.parametrize(("place", "value"), [(place, value) for place, values in BROKEN.items() for value in values])
def test_each_broken_rule_is_refused(place: str, value: Any) -> None:
    """A sound statement with one entry wrong is a format error that fits on a line."""
    assert read(stated("gaps", {})).predicate.n_rows == 178
    with pytest.raises(BundleFormatError, match="not sound") as caught:
        read(stated("gaps", {place: value}))
    assert "\n" not in str(caught.value)


def test_stated_curve_may_touch_the_exact_one() -> None:
    """The smallest epsilon that is accepted is the exact one, computed at high precision."""
    with mpmath.workdps(40):

        def delta(epsilon: float) -> Any:
            a, b = epsilon / mpmath.mpf(5) - 2.5, epsilon / mpmath.mpf(5) + 2.5
            return mpmath.ncdf(-a) - mpmath.exp(epsilon) * mpmath.ncdf(-b)

        exact = float(mpmath.findroot(lambda epsilon: mpmath.log(delta(epsilon)) - mpmath.log(1e-6), 36))
    place = f"{G}.epsilon_delta.2.epsilon"

    assert read(stated("gaps", {place: exact})).predicate.guarantee is not None
    with pytest.raises(BundleFormatError, match="epsilon"):
        read(stated("gaps", {place: exact * (1 - 1e-4)}))
