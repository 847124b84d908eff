"""A strength chosen on the page of a plan, published by the line that the page gives."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

from dp_bundle.base.quoting import round_up


@pytest.mark.parametrize(
    ("privacy", "kind"),
    [
        ("mu = 1.0", "continuous"),
        pytest.param("mu = 1.0", "integer", marks=pytest.mark.slow),
        ('mu = 1.0\nrelease = "covariance"', "continuous"),
    ],
)
def test_a_chosen_strength_is_published_with_the_guarantee_of_the_page(
    privacy: str, kind: str, tmp_path: Path, command: Run
) -> None:
    """The bundle states the (epsilon, delta) table, and the strength, that the page showed for it."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.integers(0, 10, (3000, 4)), columns=list("abcd"))
    frame.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.policy.toml").write_text(f'[privacy]\n{privacy}\n[columns."*"]\nbounds = [0, 9]\nkind = "{kind}"\n')
    finished = command("dp-publish", "plan", "t.parquet", "--report", "plan.html")
    assert (finished.returncode, finished.stderr) == (0, "wrote plan.html\n")

    found = re.search(r'id="data">(.*?)</script>', (tmp_path / "plan.html").read_text())
    assert found is not None
    positions = json.loads(found[1])["positions"]
    chosen = next(each["texts"] for each in positions if each["mu"] == pytest.approx(3.0))
    published = command(*shlex.split(chosen["line"]), "--anyway", "--json")
    assert published.returncode == 0, published.stderr

    guarantee = json.loads(published.stdout)["release"]["guarantee"]
    for point in guarantee["epsilon_delta"]:
        assert chosen[f"epsilon-{point['delta']:g}"] == round_up(point["epsilon"], 4)
    assert len(guarantee["epsilon_delta"]) == sum(name.startswith("epsilon-") for name in chosen)
    assert f"rho = {round_up(guarantee['rho'], 4)}" in chosen["strength"]
    assert (guarantee["mu"] is None) == (kind == "integer")
    assert "mu = 3 (Gaussian" in chosen["strength"]
