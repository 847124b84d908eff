"""Whole releases by normal scores: what they cost, what they state, and what is refused."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from dp_bundle.bundle.reading import open_bundle
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.release import Release
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger

RNG = np.random.default_rng(5)
N = 600
TABLE = pd.DataFrame(
    {
        "x": RNG.lognormal(size=N),
        "k": RNG.integers(0, 5, N),
        "town": RNG.choice(["a", "b", "c"], N),
        "grade": RNG.choice([f"g{place}" for place in range(80)], N),
        "pay": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
        "still": np.zeros(N),
        "who": [f"p{place // 3}" for place in range(N)],
    }
)
COLUMNS: dict[str, Any] = {
    "x": {"bounds": [0, 50]},
    "k": {"bounds": [0, 4], "kind": "integer"},
    "town": {"kind": "category", "categories": ["a", "b", "c"]},
    "grade": {"kind": "ordered", "levels": [f"g{place}" for place in range(80)]},
    "pay": {"bounds": [-9, 9], "missing": "indicator"},
    "still": {"bounds": [-1, 1]},
    "who": {"drop": True},
}


def policy_of(columns: dict[str, Any] = COLUMNS, **privacy: Any) -> Policy:
    """Return a policy for a release by normal scores, at mu = 1 unless another strength is given."""
    strength = {} if {"epsilon", "rho"} & privacy.keys() else {"mu": 1.0}
    document = {"release": "copula", **strength, **privacy}
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": document, "columns": columns})


def published(policy: Policy, folder: Path, key: Ed25519PrivateKey) -> tuple[Release, tuple[Margin, ...]]:
    """Return a release of the table, and its histograms."""
    with open_bundle(publish(TABLE, policy, out=folder / "d.tar", key=key).path) as opened:
        return opened.release, opened.margins()


@pytest.mark.parametrize(
    ("privacy", "of_row"),
    [
        ({}, 1.0),
        ({"unit": "cell"}, 1.0),
        ({"rho": 2.0}, 2.0),
        ({"unit": {"entity": "who", "max_rows": 3}, "mu": 1.5}, 0.5),
    ],
)
def test_all_that_is_stated_comes_to_what_was_asked_for(
    privacy: dict[str, Any], of_row: float, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Histograms of five raw columns move by sqrt(10); with choices, lengths and both rounds they come to mu."""
    columns = {**COLUMNS, "still": {"drop": True}}
    release, margins = published(policy_of(columns, **privacy), tmp_path, key)
    moments, guarantee = release.second_moments, release.guarantee
    assert [margin.name for margin in margins] == ["x", "k", "town", "grade", "pay"]
    rounds = [
        math.sqrt(2) * (each.radius**2 + each.constant**2) / each.parameters["diagonal_sigma"]
        for each in (moments, moments.first_round)
    ]
    rows = guarantee.max_rows or 1
    own = [math.sqrt(10) / moments.margins.sigma, 1 / moments.fourth_moment.sigma, *rounds]
    real = math.hypot(guarantee.bounds_mu, *(rows * each for each in own))
    assert 1 - 1e-3 < real / guarantee.mu <= 1 + 1e-9
    assert guarantee.mu == pytest.approx(rows * of_row)
    (entry,) = Ledger().entries()
    assert entry.cost.mu["row"] == pytest.approx(of_row)

    document = release.model_dump(mode="json")
    assert Release.model_validate_json(json.dumps(document)) == release
    document["second_moments"]["margins"]["sigma"] *= 0.8
    with pytest.raises(ValidationError):
        Release.model_validate_json(json.dumps(document))


def test_cells_hold_all_rows(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """At a large mu counts are those of the table: each level in an order, gaps, and a column of one value."""
    _, margins = published(policy_of(mu=100.0), tmp_path, key)
    x, k, town, grade, pay, still = margins
    assert [len(each.counts) for each in (k, town, grade)] == [5, 3, 80]
    assert k.counts.tolist() == np.bincount(TABLE["k"]).tolist()
    assert town.counts.tolist() == TABLE["town"].value_counts().sort_index().tolist()
    assert pay.counts[-1] == TABLE["pay"].isna().sum()
    assert [each.counts.sum() for each in (x, grade, pay, still)] == [N] * 4
    assert still.counts.max() == N


def test_columns_are_found_where_nothing_is_declared(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Without a word on columns they are found privately first, and all have histograms; the whole costs mu."""
    release, margins = published(policy_of({"who": {"drop": True}, "grade": {"drop": True}}, mu=4.0), tmp_path, key)
    assert {"x", "k", "town", "pay"} <= {margin.name for margin in margins}
    assert release.guarantee.discovery_mu > 0
    assert release.guarantee.mu == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("privacy", "words"),
    [
        ({"neighbours": "add-remove"}, "neighbours"),
        ({"mechanism": "gaussian"}, "mechanism"),
        ({"l2_radius": 2.0}, "l2_radius"),
        ({"epsilon": 1.0}, "delta"),
        ({"unit": "change"}, "unit"),
    ],
)
def test_what_has_no_histograms_is_refused(privacy: dict[str, Any], words: str) -> None:
    """Rows that come and go, other mechanisms, and a pure epsilon are refused by name."""
    with pytest.raises(ValidationError, match=words):
        policy_of(**privacy)


@pytest.mark.parametrize("entry", [{"transform": "asinh"}, {"weight": 2.0}])
def test_columns_take_no_transform_and_no_weight(entry: dict[str, Any]) -> None:
    """What means nothing to scores is refused."""
    with pytest.raises(ValidationError, match=next(iter(entry))):
        policy_of({"x": {"bounds": [0, 1], **entry}, "y": {"bounds": [0, 1]}})
