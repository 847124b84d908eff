"""What a researcher can ask of dp-learn compare, as one runs it."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy

from dp_learn import compare_networks
from dp_publish import Policy, publish

NAMES = [f"v{index}" for index in range(5)]


def draw(links: dict[tuple[int, int], float], n_rows: int, seed: int) -> pd.DataFrame:
    """Return rows with these partial correlations."""
    precision = np.eye(5)
    for (i, j), link in links.items():
        precision[i, j] = precision[j, i] = -link
    rows = np.random.default_rng(seed).multivariate_normal(np.zeros(5), np.linalg.inv(precision), size=n_rows)
    return pd.DataFrame(rows, columns=NAMES)


BEFORE = {(0, 1): 0.4, (1, 2): 0.3, (3, 4): -0.35}
AFTER = {(0, 1): 0.4, (1, 2): -0.2, (3, 4): -0.35}


def release(
    path: Path, key: Ed25519PrivateKey, links: dict[tuple[int, int], float], seed: int = 1, **changes: object
) -> Path:
    """Publish rows of a network; `changes` are the dataset's name, the partition, or entries of privacy."""
    name, partition = str(changes.pop("name", path.name)), changes.pop("partition", None)
    privacy = {"unit": "cell", "mu": 10.0, **changes}
    policy = make_policy({each: [-5, 5] for each in NAMES}, name=name, **privacy)
    publish(draw(links, 3000, seed), policy, out=path, key=key, partition=partition)  # type: ignore[arg-type]
    return path


@pytest.fixture
def arms(tmp_path: Path, key: Ed25519PrivateKey) -> list[Path]:
    """Publish two networks, one as rows, the other as second moments."""
    moments = {"unit": "row", "mu": 3.0, "release": "covariance"}
    return [
        release(tmp_path / "before.bundle.tar", key, BEFORE),
        release(tmp_path / "after.bundle.tar", key, AFTER, seed=2, **moments),
    ]


def test_the_pair_that_differs_is_found_and_no_other(arms: list[Path], command: Run, tmp_path: Path) -> None:
    """The table has every pair, surest first, with an interval about the true difference; the tests of all reject."""
    done = command("dp-learn", "compare", *arms, "--json")
    table = pd.read_csv(tmp_path / "before+after.comparison" / "differences.csv")
    summary = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert list(table)[:8] == [
        *("source", "target", "difference", "standard_error", "ci_low", "ci_high", "p_value", "q_value")
    ]
    assert len(table) == 10
    assert tuple(table.loc[0, ["source", "target"]]) == ("v1", "v2")
    assert table.ci_low[0] < -0.5 < table.ci_high[0]
    assert (table.q_value <= 0.001).sum() == 1
    assert (table.q_value <= 0.05).sum() == summary["comparisons"][0]["n_different"]
    assert max(summary["overall"][test]["p_value"] for test in ("largest_difference", "sum_of_squares")) < 0.001
    found = pickle.loads(pickle.dumps(compare_networks(arms)))  # noqa: S301  of our own
    assert found.result().summary == summary
    pd.testing.assert_frame_equal(found.pairs(), table, rtol=1e-14)
    assert len(found.plot().get_yticklabels()) == 10


def test_a_category_is_compared_as_one_node(key: Ed25519PrivateKey, command: Run, tmp_path: Path) -> None:
    """A link between a number and a category that one release lacks is found, and the other pairs are not."""
    columns = {
        "g": {"kind": "category", "categories": ["a", "b", "c"]},
        "x": {"bounds": [-5, 5]},
        "y": {"bounds": [-5, 5]},
    }
    for place, linked in enumerate((0.0, 1.0)):
        rng = np.random.default_rng(place)
        x = rng.normal(size=4000)
        g = np.array(["a", "b", "c"])[np.digitize(linked * x + rng.normal(size=4000), [-0.5, 0.5])]
        table = pd.DataFrame({"g": g, "x": x, "y": 0.5 * x + rng.normal(size=4000)})
        document = {"dataset": {"name": f"t{place}"}, "privacy": {"unit": "cell", "mu": 20.0}, "columns": columns}
        publish(table, Policy.model_validate(document), out=tmp_path / f"t{place}.tar", key=key)
    done = command("dp-learn", "compare", tmp_path / "t0.tar", tmp_path / "t1.tar", "--json")
    table = pd.read_csv(tmp_path / "t0+t1.comparison" / "differences.csv")

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["categories"] == ["g"]
    assert len(table) == 3
    assert set(table.loc[0, ["source", "target"]]) == {"g", "x"}
    assert table.difference[0] > 0.4
    assert (table.q_value <= 0.05).sum() == 1


def test_parts_of_a_dataset_are_compared_with_a_warning(key: Ed25519PrivateKey, command: Run, tmp_path: Path) -> None:
    """The same people may be in both, which the files cannot tell."""
    parts = [
        release(tmp_path / f"{part}.tar", key, BEFORE, seed, name="people", partition=part)
        for seed, part in enumerate(("north", "south"))
    ]
    done = command("dp-learn", "compare", *parts)

    assert done.returncode == 0
    assert "warning: several bundles are parts of people: if the same people are in more than one" in done.stderr


def test_the_first_word_chooses_the_command() -> None:
    """As a process of its own, dp-learn compare has its own help, and dp-learn without it is as before."""
    for words, said in ((["compare", "--help"], "compare [OPTIONS] FILE FILE..."), (["--help"], "[OPTIONS] FILE...")):
        done = subprocess.run([sys.executable, "-m", "dp_learn", *words], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[0].endswith(f" {said}")
        assert "dp-learn compare" in done.stdout
