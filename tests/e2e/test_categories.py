"""A table as it really is, from the publisher's file to the researcher's: categories, dates, gaps and counts."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import Run

POLICY = """
[dataset]
name = "people"
[privacy]
{privacy}
[columns.job]
kind = "category"
categories = ["cook", "clerk", "nurse"]
other = "other"
missing = "category"
[columns.sex]
kind = "category"
categories = ["f", "m"]
[columns.grade]
kind = "ordered"
levels = ["low", "middle", "high"]
[columns.born]
kind = "date"
bounds = [1950-01-01, 2010-12-31]
[columns.pay]
bounds = [0, 100]
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table in which pay depends on the job, and the grade on the date of birth."""
    rng, n = np.random.default_rng(2), 30_000
    job = rng.choice(["cook", "clerk", "nurse", "smith"], n, p=[0.4, 0.3, 0.2, 0.1])
    days = rng.integers(-7000, 14000, n)
    grade = np.digitize(days / 7000 + rng.normal(size=n), [0.0, 1.0])
    frame = pd.DataFrame(
        {
            "job": pd.Series(job).where(rng.random(n) > 0.05, None),
            "sex": rng.choice(["f", "m"], n),
            "grade": np.array(["low", "middle", "high"])[grade],
            "born": (pd.Timestamp(1970, 1, 1) + pd.to_timedelta(days, unit="D")).date,
            "pay": 40 + 10 * (job == "nurse") - 10 * (job == "smith") + rng.normal(0, 8, n),
            "name": "somebody",
        }
    )
    frame.to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


@pytest.mark.slow
@pytest.mark.parametrize("privacy", ['unit = "cell"\nmu = 4.0', 'unit = "row"\nrelease = "covariance"\nmu = 1.0'])
def test_what_goes_together_is_found(privacy: str, table: Path, command: Run) -> None:
    """A node is a column of the table; both links are found, with the levels that make them, and no others."""
    folder = table.parent
    (folder / "people.policy.toml").write_text(POLICY.format(privacy=privacy))
    published = command("dp-publish", "people.parquet", "--out", "people.tar")
    assert published.returncode == 0, published.stderr
    learned = command("dp-learn", "people.tar", "--fdr", "1e-6", "--report", "--out", "graph")
    assert learned.returncode == 0, learned.stderr
    edges = pd.read_csv(folder / "graph" / "edges.csv")
    assert {frozenset(pair) for pair in zip(edges["source"], edges["target"], strict=True)} == {
        frozenset(("job", "pay")),
        frozenset(("grade", "born")),
    }
    assert "2 of 10 possible edges" in learned.stdout
    assert re.search(r"\(\+\S+, \+\S+ to \+\S+\)  grade -- born", learned.stdout), "an interval beside categories"
    results = (Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text(encoding="utf-8")
    assert all(f"| `{path.name}` |" in results for path in (folder / "graph").glob("[!.]*"))
    loadings = pd.read_csv(folder / "graph" / "loadings.csv").set_index("level")["effect"]
    assert loadings["nurse"] > 0.3
    assert loadings["other"] < -0.3
    summary = json.loads((folder / "graph" / "summary.json").read_text())
    assert summary["columns"] == ["job", "sex (m)", "grade", "born", "pay"]
    page = (folder / "graph" / "report.html").read_text()
    assert ">sex (m)<" in page
    strengths = {frozenset((edge.source, edge.target)): edge.partial_correlation for edge in edges.itertuples()}
    with_category, of_numbers = (strengths[frozenset(ends)] for ends in (("job", "pay"), ("grade", "born")))
    assert f">job ({with_category:.2f})<" in page, "a link with a category has no sign"
    assert f">born ({of_numbers:+.2f})<".replace("-", "\N{MINUS SIGN}") in page
    assert f"+{with_category:.3f}" not in page
    assert "positive, or without a sign" in page
    fitted = re.search(r"The fitted graph has (\d+) links", page)
    assert fitted is None or int(fitted[1]) <= 10, "pairs of columns, and not of their levels, are counted"


@pytest.mark.slow
def test_a_link_of_two_levels_names_the_one_that_its_sign_is_about(tmp_path: Path, command: Run) -> None:
    """Every file and both estimators say "sex (m)", `--target` takes the plain name; other orders are not pooled."""
    rng = np.random.default_rng(1)
    sex = rng.choice(["f", "m"], 3000)
    pd.DataFrame({"sex": sex, "pay": 40 + 9 * (sex == "m") + rng.normal(0, 8, 3000)}).to_csv("people.csv", index=False)
    text = """[dataset]
name = "NAME"
[privacy]
unit = "row"
release = "covariance"
mu = 9.0
[columns.sex]
kind = "category"
categories = ORDER
[columns.pay]
bounds = [0, 100]
"""
    for name, order in (("one", '["f", "m"]'), ("two", '["m", "f"]')):
        Path("people.policy.toml").write_text(text.replace("NAME", name).replace("ORDER", order))
        assert command("dp-publish", "people.csv", "--new-account", "--out", f"{name}.tar").returncode == 0
    learned = command("dp-learn", "one.tar", "--out", "graph")
    assert re.search(r'\+0\.\d+ .*"sex \(m\)" -- pay', learned.stdout)
    for name in ("edges.csv", "pairs.csv", "nodes.csv", "covariance.csv", "graph.graphml"):
        assert "sex (m)" in (tmp_path / "graph" / name).read_text()

    words = ("dp-learn", "one.tar", "--estimator", "regression", "--target")
    assert re.search(
        r'\+\S+ \(\+\S+, \+8\S* to \+9\S*\)  "sex \(m\)"', command(*words, "pay", "--out", "by-sex").stdout
    )
    assert "unpenalised,standard_error,ci_low,ci_high" in (tmp_path / "by-sex" / "coefficients.csv").read_text()
    assert command(*words, "sex", "--out", "of-sex").returncode == 0
    refused = command("dp-learn", "one.tar", "two.tar").stderr
    assert "column 'sex' stands for the levels 'm', 'f' in two.tar and 'f', 'm' in one.tar" in refused
