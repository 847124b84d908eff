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

from dp_bundle.base.errors import DpGraphError
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


@pytest.mark.parametrize(
    ("privacy", "entry"),
    [
        ({"neighbours": "add-remove"}, {}),
        ({"mechanism": "gaussian"}, {}),
        ({"l2_radius": 2.0}, {}),
        ({"epsilon": 1.0}, {}),
        ({"unit": "change"}, {}),
        ({}, {"transform": "asinh"}),
        ({}, {"weight": 2.0}),
    ],
)
def test_what_has_no_histograms_is_refused(privacy: dict[str, Any], entry: dict[str, Any]) -> None:
    """Rows that come and go, other mechanisms, a pure epsilon, and what means nothing to scores."""
    with pytest.raises(ValidationError):
        policy_of({"x": {"bounds": [0, 1], **entry}, "y": {"bounds": [0, 1]}}, **privacy)


def test_one_column_is_no_release_by_scores(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A single column is refused, and no release without histograms takes its place."""
    with pytest.raises(DpGraphError):
        publish(TABLE[["x"]], policy_of({"x": {"bounds": [0, 1]}}), out=tmp_path / "t.tar", key=key)
    assert not (tmp_path / "t.tar").exists()
