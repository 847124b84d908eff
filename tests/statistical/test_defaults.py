"""The default rule is held to what chose it: graphs that survive the noise, and weights that it does not shrink."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

BENCHMARK: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "rules.py"))


def measure(tables: dict[str, Any], *rules: str, repetitions: int = 1) -> pd.DataFrame:
    """Return the benchmark's figures for some tables and rules."""
    return BENCHMARK["measure"](tables, {rule: BENCHMARK["RULES"][rule] for rule in rules}, repetitions)


@pytest.mark.slow
def test_default_finds_the_true_graph_and_its_weights() -> None:
    """In simulations at 10 dB and above the mean F1 against the truth is over .95, and the mean slope of weights 1."""
    found = measure(BENCHMARK["simulations"](np.random.default_rng(0)), "default")
    little = found[found["level"].isin(["40 dB", "20 dB", "10 dB"])]

    assert little.groupby("table")["F1 truth"].mean().min() > 0.8
    assert little["F1 truth"].mean() > 0.95
    assert little["slope"].mean() == pytest.approx(1.0, abs=0.05)


def test_default_rarely_sees_edges_of_chance() -> None:
    """Of 20 tables of unrelated columns with unequal noise at least 14 have no edge; by neighbourhoods hardly any."""
    rules = {rule: BENCHMARK["RULES"][rule] for rule in ("default", "neighborhood, or")}
    shares = BENCHMARK["empty_graphs"](rules)["share without edges"]

    assert shares["default"] >= 0.7
    assert shares["neighborhood, or"] <= 0.2


@pytest.mark.data
@pytest.mark.long
def test_default_survives_the_noise_on_real_tables(data_folder: Path) -> None:
    """Where noise is below 30 %, no rule is nearer to the strong links of the clean tables; the slope is .9 to 1.1."""
    names = ["adult", "airfoil", "congress", "sachs", "soil", "wine", "diabetes", "ionosphere"]
    tables = BENCHMARK["real_tables"](data_folder)
    rules = ("default", "cv", "mse", "neighborhood, or", "neighborhood, and", "ebic, whole path, gamma .5")
    found = measure({name: tables[name] for name in names}, *rules)
    little = found[(found["level"] != BENCHMARK["CLEAN"]) & (found["share"] < BENCHMARK["LITTLE_NOISE"])]
    f1, own = little.groupby("rule")["F1 truth"].mean(), little.groupby("rule")["F1"].mean()

    assert 0.9 <= little[little["rule"] == "default"]["slope"].mean() <= 1.1
    assert f1["default"] >= f1.drop("default").max() + 0.03
    assert own["default"] >= 0.9  # against its own graph without noise
