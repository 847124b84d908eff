"""`dp-publish TABLE` and nothing else: from tables of many shapes to a bundle, as good as by a policy by hand."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

from dp_publish.ledger.ledger import Ledger

pytestmark = pytest.mark.slow
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
    "likert.csv": (lambda path: likert(1500).to_csv(path, index=False), "go together (second moments), over 1"),
    "word.csv": (lambda path: survey(3000)[["region"]].to_csv(path, index=False), "3000 rows, 4 columns"),
    "few.csv": (lambda path: survey(100).to_csv(path, index=False), ""),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_first_command_helps(name: str, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with 0 and a bundle that can be learned from, or says what would do, and burns no number."""
    monkeypatch.chdir(tmp_path)
    write, said = TABLES[name]
    write(tmp_path / name)
    done = command("dp-publish", name, "--details")
    bundle = f"{name.split('.')[0]}.bundle.tar"
    if not said:
        assert (done.returncode, done.stdout, done.stderr.count("error:")) == (2, "", 1), done.stderr
        assert re.search("rows to show anything; publish .* of at most .*; give a weaker guarantee,", done.stderr)
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
    assert name != "likert.csv" or re.search("so, at most [2-9].* % of a column have no value", learned.stdout)
    assert not re.search(r"clipped where [^;]*in \"?(sex|region)", learned.stdout)  # of 0 and 1 no clip changes any
