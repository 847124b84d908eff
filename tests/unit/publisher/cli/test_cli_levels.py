"""What dp-publish and dp-bundle call a category: by the name of its column, and never by those of its levels."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.conftest import Call

from dp_bundle import open_bundle
from dp_bundle.bundle.inspection import describe_bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.portals.registry import registry_record
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish.ledger.ledger import Ledger

POLICY = """
[dataset]
name = "clinic"
[privacy]
unit = "cell"
mu = 3.0
[columns.region]
kind = "category"
categories = ["north", "south", "east, too"]
other = "abroad"
{region}
[columns.triage]
kind = "ordered"
levels = ["green", "yellow", "red"]
[columns.smoker]
kind = "boolean"
levels = ["no", "si"]
[columns.age]
bounds = [0, 110]
[columns.weight]
bounds = [30, 200]
"""
LEVEL = re.compile(r"region=(north|south|east|abroad)")


@pytest.fixture
def clinic(tmp_path: Path) -> Path:
    """Write a text file with a category, ordered levels, truth values and numbers, and its policy."""
    rng = np.random.default_rng(18)
    frame = pd.DataFrame(
        {
            "region": rng.choice(["north", "south", "east, too", "moon"], 3000),
            "triage": rng.choice(["green", "yellow", "red"], 3000),
            "smoker": rng.choice(["no", "si"], 3000),
            "age": rng.uniform(0, 110, 3000),
            "weight": rng.uniform(30, 200, 3000),
        }
    )
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    (tmp_path / "clinic.policy.toml").write_text(POLICY.format(region=""))
    return tmp_path / "clinic.csv"


def _with_gaps(clinic: Path, region: str) -> None:
    """Take some regions out of the table, and say in the policy what becomes of them."""
    frame = pd.read_csv(clinic)
    frame.loc[::50, "region"] = None
    frame.to_csv(clinic, index=False)
    clinic.with_name("clinic.policy.toml").write_text(POLICY.format(region=region))


def test_names_that_the_policy_has_are_no_surprise(clinic: Path, call: Call) -> None:
    """Only names of the file that no section has are quoted before they are published."""
    assert "first line of the file" not in call("clinic.csv").err
    policy = clinic.with_name("clinic.policy.toml")
    policy.write_text(POLICY.format(region="").replace("[columns.region]", '[columns."reg*"]'))
    assert "from the first line of the file: 'region'\n" in call("clinic.csv", "--out", "b.tar").err


def test_refusals_name_a_category_once(clinic: Path, call: Call) -> None:
    """Noise that changes next to nothing is refused with the names of the table's columns."""
    refused = call("clinic.csv", "--mu", 30)
    assert refused.code == 2
    assert "noise this weak would publish 'region', 'triage', 'smoker' unchanged" in refused.err
    assert not LEVEL.search(refused.err)
    refused = call("clinic.csv", "--mu", 70, "--anyway")
    assert "column 'triage' of whole numbers would get noise" in refused.err
    assert 'or, for a number, kind = "continuous"' in refused.err
    assert Ledger().entries() == []


def test_refused_gaps_of_a_category_may_be_a_level(clinic: Path, call: Call) -> None:
    """The remedy for gaps in a category is that of categories, and not a mean or a middle, which they have not."""
    _with_gaps(clinic, "")
    refused = call("clinic.csv")
    assert "column 'region' has missing values: set missing = \"category\" for it in the policy" in refused.err
    assert "midpoint" not in refused.err


def test_rows_at_the_means_need_numbers(clinic: Path, call: Call) -> None:
    """Columns that cannot stand at a mean are named once each."""
    policy = POLICY.format(region="").replace("bounds = [0, 110]", 'bounds = [0, 110]\nmissing = "center"')
    clinic.with_name("clinic.policy.toml").write_text(policy)
    refused = call("clinic.csv", "--unit", "row")
    assert "not integers, unlike 'region', 'triage', 'smoker': give numbers kind" in refused.err


@pytest.mark.parametrize("release", ["rows", "covariance"])
def test_a_category_is_told_by_the_name_of_its_column(release: str, clinic: Path, call: Call) -> None:
    """The receipt, the inspection, the label and a registry's record name no column of a level."""
    _with_gaps(clinic, 'missing = "drop"')
    planned = call("plan", "clinic.csv", "--release", release)
    assert "8 columns (for 5 of the table). Nothing was spent" in planned.out
    published = call("clinic.csv", "--release", release)
    assert published.code == 0
    assert "8 columns (for 5 of the table)" in published.out
    with open_bundle(Path("clinic.bundle.tar"), UnsafeTrustAnyone()) as bundle:
        label = worded_label(bundle.release)
        inspected = describe_bundle(bundle, None)
        record = registry_record(bundle.release)
    assert "Rows without a value in region were left out" in inspected
    assert "8 columns (for 5 of the table)" in inspected
    assert "which rows have no value in 'region'" in inspected
    assert record["deployment"]["dp_variant"]["data_domain"].startswith("Tables of 5 columns: 'region', 'triage'")
    if release == "rows":
        assert [column[0] for column in label["columns"]] == ["region (4 columns)", "triage", "smoker", "age", "weight"]
    for text in (published.out, published.err, inspected, str(label), str(record)):
        assert not LEVEL.search(text)
