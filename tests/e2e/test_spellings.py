"""One person under several spellings, in a table as people have them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

FORMS = ["{}", "{} ", " {}", "0{}", "{}.0"]
POLICY = """
[privacy]
unit = { entity = "person", max_rows = 1 }
mu = 8.0
[columns."*"]
bounds = [-50, 100]
"""


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_person_has_one_id(suffix: str, command: Run) -> None:
    """Of 200 people with three rows each, under several spellings, 200 rows are published."""
    x = np.random.default_rng(3).uniform(20, 80, 600)
    ids = [FORMS[row % 5].format(100 + row // 3) for row in range(600)]
    frame = pd.DataFrame({"person": ids, "x": x, "y": 0.5 * x})
    frame.to_csv("t.csv", index=False) if suffix == "csv" else frame.to_parquet("t.parquet")
    Path("t.policy.toml").write_text(POLICY, encoding="utf-8")
    said = json.loads(command("dp-publish", f"t.{suffix}", "--json", "--anyway").stdout)
    assert said["release"]["n_rows"] == 200
    assert said["for_the_publisher_only"]["entities"] == 200
    assert said["for_the_publisher_only"]["rows_over_cap"] == 400

    told = command("dp-publish", f"t.{suffix}", "--out", "again.tar", "--anyway").stdout
    public, private = told.split("for your eyes only")
    assert "200 entities" in private
    assert "200 entities" not in public
    assert "entities" not in json.dumps(said["release"])
