"""Columns on the scale of asinh from the policy to the graph: every page says so, and no other scale is claimed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run

from dp_bundle import Bundle, open_bundle
from dp_bundle.describe.readme import make_readme
from dp_bundle.portals.portal_json import schema_org_document
from dp_publish import Policy, publish

ON_SCALE = "On the scale of asinh((x - center) / scale)"


def skewed(seed: int = 1) -> pd.DataFrame:
    """Return lognormal columns, the first two related."""
    normal = np.random.default_rng(seed).standard_normal((2000, 3))
    normal[:, 1] += normal[:, 0]
    return pd.DataFrame(np.exp(normal), columns=["income", "rent", "age"])


def policy_for(name: str = "town", **income: Any) -> Policy:
    """Return a policy with the column of incomes on the scale of asinh."""
    columns: dict[str, Any] = {column: {"bounds": (-10.0, 300.0)} for column in skewed()}
    columns["income"] |= {"transform": "asinh", "unit": "EUR"} | income
    privacy = {"release": "covariance", "mechanism": "two-round", "mu": 5.0}
    return Policy.model_validate({"dataset": {"name": name}, "privacy": privacy, "columns": columns})


def published(path: Path, policy: Policy, key: Ed25519PrivateKey, seed: int = 1) -> Bundle:
    """Return the bundle that is published of a table."""
    return open_bundle(publish(skewed(seed), policy, out=path, key=key).path)


def test_every_page_says_on_what_scale_a_column_is(tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> None:
    """The formula is in what is inspected and read, in the summary and the report, and in what portals are given."""
    with published(tmp_path / "town.tar", policy_for(), key) as bundle:
        release, readme = bundle.release, make_readme(bundle.release, 3)
        variables = schema_org_document(release, [])["variableMeasured"]
    transform = release.columns[0].transform
    formula = f"asinh((x - {transform.center:.6g}) / {transform.scale:.6g})"
    assert variables[0]["description"] == f"Published on the scale of {formula}, x in EUR."
    assert "unitText" not in variables[0]
    assert formula in readme
    assert ON_SCALE in readme

    inspected, learned = command("dp-bundle", "inspect", "town.tar"), command("dp-learn", "town.tar", "--report")
    assert learned.returncode == 0, learned.stderr
    assert f"EUR, as {formula}" in inspected.stdout
    for said in (inspected.stdout, learned.stdout, (tmp_path / "town.graph" / "report.html").read_text()):
        assert ON_SCALE in said
    (described,) = json.loads((tmp_path / "town.graph" / "summary.json").read_text())["bundles"]
    assert described["transforms"] == {
        "income": {"name": "asinh", "center": transform.center, "scale": transform.scale}
    }
    refused = command("dp-learn", "town.tar", "--estimator", "lda", "--target", "income")
    assert "not one on the scale of asinh" in refused.stderr
