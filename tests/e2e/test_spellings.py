"""Small tables as people have them: levels spelled like gaps, and one person under several spellings."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

from dp_bundle import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone

NUMBERS = "[columns.x]\nbounds = [0, 100]\n[columns.y]\nbounds = [-50, 100]\n"


def frame_of(name: str, words: list[str]) -> pd.DataFrame:
    """Return a table with a column of words, and two of numbers."""
    rng = np.random.default_rng(3)
    x = rng.uniform(20, 80, len(words))
    return pd.DataFrame({name: words, "x": x.round(2), "y": (0.5 * x + rng.normal(0, 5, len(words))).round(2)})


def released(command: Run, frame: pd.DataFrame, suffix: str, policy: str) -> tuple[dict[str, Any], pd.DataFrame]:
    """Publish a table by the command; return the receipt for a machine, and the noisy rows."""
    table = Path(f"{suffix}.{suffix}")
    frame.to_csv(table, index=False) if suffix == "csv" else frame.to_parquet(table)
    Path(f"{suffix}.policy.toml").write_text(f'[dataset]\nname = "{suffix}"\n{policy}{NUMBERS}')
    ended = command("dp-publish", table, "--out", f"{suffix}.tar", "--json", "--anyway")
    assert ended.returncode == 0, ended.stderr
    with open_bundle(f"{suffix}.tar", UnsafeTrustAnyone()) as bundle:
        rows = pd.concat([batch.to_pandas() for batch in bundle.batches()])
    return json.loads(ended.stdout), rows


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_namibia_is_a_country(suffix: str, command: Run) -> None:
    """A listed category NA has the rows that it has, and nobody is without a country."""
    words = np.random.default_rng(1).permutation(["NO"] * 150 + ["NA"] * 125 + ["ZA"] * 225 + ["SE"] * 60 + ["DK"] * 40)
    policy = '[privacy]\nunit = "cell"\nmu = 40.0\n[columns.country]\nkind = "category"\nmissing = "category"\n'
    said, rows = released(
        command, frame_of("country", words.tolist()), suffix, policy + 'categories = ["NO", "SE", "DK", "NA", "ZA"]\n'
    )
    assert len(rows) == 600
    assert rows["country=NA"].sum() == pytest.approx(125, abs=8)
    assert rows["country=(no value)"].sum() == pytest.approx(0, abs=8)
    assert (rows["country=NA"].round() == (words == "NA")).mean() > 0.99
    assert said["for_the_publisher_only"]["rows_dropped"] == 0


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_person_has_one_id(suffix: str, command: Run) -> None:
    """Of 200 people with three rows each, under several spellings, 200 rows are published."""
    people = [str(100 + place // 3) for place in range(600)]
    forms = ["{}", "{} ", " {}", "0{}", "{}.0"]
    ids = [forms[place % 5].format(name) for place, name in enumerate(people)]
    policy = '[privacy]\nunit = { entity = "person", max_rows = 1 }\nmu = 8.0\n'
    said, rows = released(command, frame_of("person", ids), suffix, policy)
    assert (len(rows), said["release"]["n_rows"]) == (200, 200)
    assert said["for_the_publisher_only"]["entities"] == 200
    assert said["for_the_publisher_only"]["rows_over_cap"] == 400

    told = command("dp-publish", f"{suffix}.{suffix}", "--out", "again.tar", "--anyway").stdout
    assert "200 entities" in told.split("for your eyes only")[1]
    assert "entities" not in json.dumps(said["release"])
    assert "200 entities" not in told.split("for your eyes only")[0]
