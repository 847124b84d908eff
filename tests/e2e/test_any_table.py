"""`dp-publish TABLE` and nothing else: from tables of many shapes to a bundle, as good as by a policy by hand."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sklearn import datasets

from dp_bundle import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.sources import CovarianceSource, bundle_source
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger

pytestmark = pytest.mark.slow
Run = Callable[..., subprocess.CompletedProcess[str]]
WORDS = {"sex": ["female", "male"], "region": ["North", "South", "East", "West"], "smoker": ["no", "yes"]}


def survey(n: int, seed: int = 1) -> pd.DataFrame:
    """Return a made-up survey of 12 columns, with words, dates, gaps, an identifier, free text and a constant."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 5))
    z[:, 1] += 0.6 * z[:, 0]
    z[:, 3] += 0.7 * z[:, 2]
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 600, n), unit="D")
    frame = pd.DataFrame(
        {
            "respondent_id": np.arange(1000, 1000 + n),
            "age": np.clip(np.round(45 + 14 * z[:, 0]), 18, 95).astype(int),
            "income": np.round(np.exp(10 + 0.6 * z[:, 1]), 2),
            "sex": rng.choice(WORDS["sex"], n),
            "region": rng.choice(WORDS["region"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "visited": day.strftime("%Y-%m-%d"),
            "smoker": np.where(z[:, 2] > 0.5, "yes", "no"),
            "bmi": np.round(26 + 4 * z[:, 2], 1),
            "sbp": np.round(125 + 15 * z[:, 3]).astype(int),
            "visits": rng.poisson(np.exp(0.5 * z[:, 4])),
            "employer": [f"Company {number}" for number in rng.integers(0, 500, n)],
            "constant": 1,
        }
    )
    frame.loc[rng.random(n) < 0.15, "bmi"] = np.nan
    return frame


def likert(n: int) -> pd.DataFrame:
    """Return answers to 12 questions, from 1 to 5, with a few gaps."""
    z = np.random.default_rng(2).standard_normal((n, 12))
    z[:, 1:] += 0.5 * z[:, :-1]
    answers = pd.DataFrame(np.digitize(z, [-1.2, -0.4, 0.4, 1.2]) + 1, columns=[f"q{number}" for number in range(12)])
    return answers.mask(np.random.default_rng(3).random(answers.shape) < 0.02)


def normal(n: int, p: int) -> pd.DataFrame:
    """Return related columns of numbers."""
    z = np.random.default_rng(4).standard_normal((n, p))
    z[:, 1:] += 0.5 * z[:, :-1]
    return pd.DataFrame(z, columns=[f"v{number}" for number in range(p)])


def _german(frame: pd.DataFrame, path: Path) -> None:
    dates = pd.to_datetime(frame["visited"]).dt.strftime("%d.%m.%Y")
    frame.assign(visited=dates).to_csv(path, sep=";", decimal=",", index=False, encoding="latin-1")


TABLES: dict[str, tuple[Callable[[Path], object], str]] = {
    "survey.csv": (lambda path: survey(2000).to_csv(path, index=False), "(for 10 of the table)"),
    "german.csv": (lambda path: _german(survey(3000), path), "(for 10 of the table)"),
    "typed.parquet": (
        lambda path: survey(3000).assign(visited=lambda f: pd.to_datetime(f["visited"])).to_parquet(path),
        "(for 10 of the table)",
    ),
    "likert.csv": (lambda path: likert(1500).to_csv(path, index=False), "second moments of 1"),
    "word.csv": (lambda path: survey(3000)[["region"]].to_csv(path, index=False), "3000 rows, 4 columns"),
    "few.csv": (lambda path: survey(100).to_csv(path, index=False), ""),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_first_command_helps(name: str, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with 0 and a bundle that can be learned from, or says what would do, and burns no number."""
    monkeypatch.chdir(tmp_path)
    write, said = TABLES[name]
    write(tmp_path / name)
    done = command("dp-publish", name)
    bundle = f"{name.split('.')[0]}.bundle.tar"
    if not said:
        assert (done.returncode, done.stdout, done.stderr.count("error:")) == (2, "", 1), done.stderr
        assert "rows to show anything; give a weaker guarantee, from about mu = " in done.stderr
        assert Ledger().entries() == []
        needed = re.findall("it takes ([0-9]+) rows to show anything", done.stderr)[0]
        looked = " ".join(command("dp-publish", "plan", name, "--look").stdout.split())
        assert f"rows on ({needed}, if words become several columns)" in looked
        return
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    if name == "survey.csv":
        assert "1 of yes and no ('smoker')" in done.stdout
    if name == "word.csv":  # of which there is nothing to learn, and nothing says so
        assert "to learn from it" not in done.stdout
        return
    learned = command("dp-learn", bundle)
    assert learned.returncode == 0
    assert not re.search(r"clipped where [^;]*in \"?(sex|region)", learned.stdout)  # of 0 and 1 no clip changes any


def _declared(frame: pd.DataFrame, names: Sequence[str]) -> dict[str, Any]:
    """Return what a careful publisher would declare: kinds, levels, and bounds three times as wide as the values."""
    columns: dict[str, Any] = {name: {"drop": True} for name in frame if name not in names}
    for name in names:
        if frame[name].dtype == "string":
            columns[name] = {"kind": "category", "categories": WORDS[name]}
            continue
        low, high = np.nanpercentile(frame[name], [0.5, 99.5])
        gaps = "indicator" if frame[name].isna().mean() > 0.01 else "midpoint"
        columns[name] = {"bounds": [low - (high - low), high + (high - low)], "missing": gaps}
    return columns


def _error(frame: pd.DataFrame, columns: dict[str, Any], names: list[str], out: Path) -> float:
    """Return the mean square error of the correlations between some columns, of one release at mu = 1."""
    described = {"dataset": {"name": "t"}, "privacy": {"release": "covariance", "mu": 1.0}, "columns": columns}
    policy = Policy.model_validate(described)
    publish(frame, policy, out=out, key=Ed25519PrivateKey.generate(), ledger=Ledger(out.with_suffix(".ledger")))
    with open_bundle(out, UnsafeTrustAnyone()) as bundle:
        source = bundle_source(bundle)
        assert isinstance(source, CovarianceSource)
        labels = [column.name for column in bundle.release.columns]
        places = [labels.index(name) for name in names]
        covariance = source.released.debiased[np.ix_(places, places)]
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 1e-12))
    found = np.clip(covariance / np.outer(deviations, deviations), -1, 1)
    above = np.triu_indices(len(names), 1)
    return float(np.mean((found - frame[names].corr().to_numpy())[above] ** 2))


@pytest.mark.parametrize(
    "name", ["survey", *(pytest.param(name, marks=pytest.mark.long) for name in ("diabetes", "likert"))]
)
def test_nothing_declared_is_as_good_as_a_policy_by_hand(name: str, tmp_path: Path) -> None:
    """The error of correlations is at most 1.25 times that of bounds three times too wide, over ten releases each."""
    frame = {
        "diabetes": lambda: datasets.load_diabetes(scaled=False, as_frame=True).frame,
        "survey": lambda: survey(3000).astype(dict.fromkeys(WORDS, "string")),
        "likert": lambda: likert(1500),
    }[name]()
    drop = {"respondent_id", "visited", "employer", "constant"}
    names = [column for column in frame if column not in drop]
    numbers = [column for column in names if frame[column].dtype != "string" and frame[column].isna().mean() < 0.1]
    open_columns = {column: {"drop": True} for column in frame if column in drop}
    by_hand = _declared(frame, names)
    errors = [
        [_error(frame, columns, numbers, tmp_path / f"{kind}{draw}.tar") for draw in range(10)]
        for kind, columns in (("found", open_columns), ("declared", by_hand))
    ]
    found, declared = np.sqrt(np.mean(errors, axis=1))
    assert found <= 1.25 * declared, (found, declared)


@pytest.mark.parametrize("word", [False, True])
def test_a_single_column_is_refused_with_a_strength_that_does(
    word: bool, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan names it as the refusal does; what would need a second column is not advised."""
    monkeypatch.chdir(tmp_path)
    (survey(1200)[["region"]] if word else normal(1200, 2)[["v0"]]).to_csv("one.csv", index=False)
    refused = command("dp-publish", "one.csv")
    assert (refused.returncode, "--release covariance" in refused.stderr) == (2, False)
    strength = re.findall("give a weaker guarantee, from about mu = ([0-9.]+) on", refused.stderr)[0]
    assert (
        f"Or give a weaker guarantee, from about mu = {strength} on."
        in command("dp-publish", "plan", "one.csv", "--look").stdout
    )
    assert command("dp-publish", "one.csv", "--mu", strength).returncode == 0
