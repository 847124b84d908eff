"""A release like an earlier one, as a publisher makes it: nothing is searched, and both are learned from together."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

from dp_bundle import open_bundle
from dp_publish.covariance.two_rounds.shares import share_out
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.file import decisions_of

N = 2000  # rows of a half


@pytest.mark.parametrize(("kind", "learn"), [("auto", "compare"), ("scores", "joint")])
def test_halves_are_learned_from_together(kind: str, learn: str, command: Run) -> None:
    """The second half has the first one's columns, without a search to pay for; without one of them it is refused."""
    rng = np.random.default_rng(5)
    age, income, z = (rng.standard_normal((2 * N, 3)) @ (np.eye(3) + 0.4)).T
    frame = pd.DataFrame({"age": np.round(40 + 9 * age), "income": income, "sex": np.where(z > 0, "f", "m")})
    if learn == "compare":  # joint graphs are of numbers; of five levels, a half may miss one
        frame["region"] = rng.choice([*"ABCDE"], 2 * N, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    frame.loc[rng.random(2 * N) < 0.1, "income"] = np.nan
    frame[:N].to_csv("a.csv", index=False)
    frame.loc[N:, ::-1].to_csv("b.csv", float_format="$%.6g")  # with an index
    command("dp-publish", "a.csv", "--scale", kind)
    frame.drop(columns="sex").to_csv("c.csv")
    refused = command("dp-publish", "c.csv", "--like", "a.bundle.tar").stderr
    assert refused.endswith("release 1 of 'a' names columns that the table does not have: 'sex'\n")
    assert command("dp-publish", "b.csv", "--like", "a.bundle.tar", "--new-account").returncode == 0

    with open_bundle("a.bundle.tar") as a, open_bundle("b.bundle.tar") as b:
        first, second = a.release, b.release
    said = [[(each.name, each.missing) for each in release.columns] for release in (first, second)]
    assert said[0] == said[1]
    assert (first.sources, second.discovery) == (second.sources, None)
    shares = share_out(1.0, N, len(second.columns), 0, with_margins=True)
    assert second.guarantee.bounds_mu == pytest.approx(shares.choices)
    cost = Ledger().entries("b")[0].cost
    assert (cost.mu["row"], cost.excepted_delta) == (pytest.approx(1.0), 0.0)
    assert decisions_of("b.bundle.tar")["columns"]["age"]["scale"] == pytest.approx(frame.age.std(), rel=0.35)
    for words in ([], [learn]):
        assert command("dp-learn", *words, "a.bundle.tar", "b.bundle.tar").returncode == 0


@pytest.mark.parametrize("scale", ["raw", "scores"])
def test_bounds_do_not_move_places(scale: str, command: Run) -> None:
    """Bounds cut off cells on one side more than on the other; of scores, no place is told."""
    frame = pd.DataFrame(np.random.default_rng(6).normal(20.0, 3.0, (N, 2)), columns=["x", "y"])
    frame.to_csv("a.csv", index=False)
    sections = "".join(f"[columns.{name}]\nbounds = [0, 100]\n" for name in frame)
    Path("a.policy.toml").write_text(f'[privacy]\nscale = "{scale}"\n{sections}')
    assert command("dp-publish", "a.csv").returncode == 0
    said = decisions_of("a.bundle.tar")["columns"]["x"]
    assert ("center" in said) == (scale == "raw")
    assert said.get("center", 20.0) == pytest.approx(20.0, abs=1.0)
