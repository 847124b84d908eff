"""The page of a result: for every estimator, the same for the same result, whatever strangers write into bundles."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy

from dp_bundle.describe.sentences import describe_guarantee
from dp_learn.output.page.plain_words import summarize_plainly
from dp_learn.output.page.report import describe_prediction
from dp_publish import Policy, Receipt, publish

Learn = Callable[..., str]
HOSTILE = [
    "</script><script>alert(1)</script>",
    "{{7*7}}",
    "$$x^2$$",
    "<img src=x onerror=alert(1)>",
    "עמודה",
    "列名",
    "x" * 200,
]
MOST = 3_000_000  # bytes


@pytest.fixture
def learn(command: Run, tmp_path: Path) -> Learn:
    """Return what runs dp-learn, and returns the page."""

    def run(*words: object, out: str = "found") -> str:
        done = command("dp-learn", *words, "--report", "--out", out)
        assert done.returncode == 0, done.stderr
        return (tmp_path / out / "report.html").read_text(encoding="utf-8")

    return run


def shown(page: str) -> str:
    """Return the elements of a page but scripts and styles."""
    return re.sub("<(script|style)\\b.*?</\\1>", "", page, flags=re.DOTALL)


def text_of(page: str) -> str:
    """Return the text that a page shows."""
    return html.unescape(re.sub("<[^>]*>", "", shown(page)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator", ["graphical-lasso", "ridge", "neighborhood", "scio", "clime", "thresholded-covariance", "regression"]
)
def test_every_estimator_has_a_page(estimator: str, bundle: Receipt, learn: Learn, tmp_path: Path) -> None:
    """Whatever was estimated, the page has its table, the guarantee and the command, and links to its own parts."""
    target = ["--target", "weight"] if estimator == "regression" else []
    page = learn(bundle.path, "--estimator", estimator, *target)
    ids = re.findall(r'\bid="([^"]*)"', shown(page))
    assert len(ids) == len(set(ids)) > 10
    assert set(re.findall('href="#([^"]*)"', shown(page))) <= set(ids)
    promise = describe_guarantee(bundle.release)
    for each in (*promise, bundle.release.lineage.created, "height", f"dp-learn {bundle.path.name}", "@misc"):
        assert each in text_of(page)
    assert re.search("sha256:[0-9a-f]{64}", text_of(page))
    assert str(tmp_path) not in page


def test_discriminant_has_a_page(table: pd.DataFrame, key: Ed25519PrivateKey, learn: Learn, tmp_path: Path) -> None:
    """A discriminant's page has its coefficients, and the means of both classes."""
    tall = table.assign(tall=(table["height"] > 170.0).astype(int))
    bounds = {"height": [120, 220], "weight": [20, 140], "tall": [0, 1]}
    publish(tall, make_policy(bounds, mu=20.0, unit="row"), out=tmp_path / "tall.tar", key=key)
    said = text_of(learn("tall.tar", "--estimator", "lda", "--target", "tall"))
    assert "The mean of every column in each class." in said
    assert "The coefficient of every column." in said


@pytest.mark.slow
def test_same_result_gives_the_same_page(bundle: Receipt, learn: Learn) -> None:
    """Two runs with the same options write the same bytes, wherever they write them."""
    one, two = (learn(bundle.path, "--fdr", 0.05, out=out) for out in ("one", "two"))
    assert one == two
    assert "--fdr 0.05" in text_of(one)
    assert "--out" not in text_of(one)


def test_page_can_be_left_out(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """With --no-report there is no page, and the message and a later run know nothing of one."""
    done = command("dp-learn", bundle.path, "--no-report", "--out", "found")
    assert "report.html" not in done.stdout
    assert not (tmp_path / "found" / "report.html").exists()
    assert "report.html" in command("dp-learn", bundle.path, "--report", "--out", "found").stdout


def make_bundle(path: Path, names: list[str], key: Ed25519PrivateKey, **dataset: str) -> None:
    """Publish 300 rows of columns that depend on each other, with these names."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(300, len(names))).cumsum(axis=1) / 2.0
    described = {
        "dataset": {"name": "strange", **dataset},
        "privacy": {"unit": "row", "mu": 100.0},
        "columns": {name: {"bounds": [-15.0, 15.0]} for name in names},
    }
    publish(pd.DataFrame(rows, columns=names), Policy.model_validate(described), out=path, key=key)


def part_of(page: str, name: str) -> str:
    """Return the JSON that a page holds under this name."""
    return re.search(f'<script type="application/json" id="{name}">(.*?)</script>', page)[1]


def test_names_of_strangers_are_text(key: Ed25519PrivateKey, learn: Learn, tmp_path: Path) -> None:
    """Hostile names of columns, titles and citations are shown as they are, and make no element and no script."""
    words = {"title": "<b>{{7*7}}</b>", "creator": "</pre><script>alert(2)</script>", "citation": "{% raw %}<!--"}
    make_bundle(tmp_path / "strange.tar", HOSTILE, key, **words)
    page = learn("strange.tar", "--alpha", 0.1)
    for script in re.findall("<script>(.*?)</script>", page, re.DOTALL):  # each is one of those that the policy allows
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"&#39;sha256-{digest}&#39;" in page or f"'sha256-{digest}'" in page
    assert not re.search("<script>|<b>{{|<img|<!--", re.sub("<script>.*?</script>", "", page, flags=re.DOTALL))
    assert "&lt;b&gt;{{7*7}}&lt;/b&gt;" in page
    assert "列名" in page
    assert json.loads(part_of(page, "data"))["graph"]["names"][:2] == HOSTILE[:2]


def test_colours_of_figures_can_be_swapped(bundle: Receipt, learn: Learn) -> None:
    """No source of a figure holds a colour, where the script that swaps light for dark would not find it."""
    sources: list[Any] = []

    def keep(entry: dict[str, Any]) -> dict[str, Any]:
        sources.extend([entry] if entry.get("name") == "ColumnDataSource" else [])
        return entry

    json.loads(part_of(learn(bundle.path), "figures"), object_hook=keep)
    assert len(sources) > 5
    assert not re.search('"#[0-9a-f]{6}"', json.dumps(sources))


def test_page_of_thirty_columns_is_small(key: Ed25519PrivateKey, learn: Learn, tmp_path: Path) -> None:
    """With 30 columns of which all are linked, a page is not larger than it may be."""
    make_bundle(tmp_path / "thirty.tar", [f"column {place}" for place in range(30)], key)
    assert len(learn("thirty.tar", "--estimator", "ridge").encode()) < MOST


@pytest.mark.parametrize(("bound", "said"), [(0.0, "at most 0 of "), (0.25, "at most 0.25 of "), (None, "not known")])
def test_a_bound_of_zero_is_known(bound: float | None, said: str) -> None:
    """Without noise nothing is lost to it, and the page of a regression says so."""
    summary = {"estimator": "regression", "intercept": 1.0, "r_squared": 0.5, "excess_bound": bound}
    shown = dict(describe_prediction(SimpleNamespace(summary=summary)))
    assert shown["Lost to the noise"].startswith(said)


@pytest.mark.parametrize(
    ("p_values", "surest", "unsure"), [([0.9, 1e-6, 0.2], "“b” and “c”", 2), ([0.9] * 3, "“a” and “b”", 3)]
)
def test_the_surest_link_is_none_that_may_be_absent(p_values: list[float], surest: str, unsure: int) -> None:
    """Where columns are nearly collinear, the link of most evidence may fail its test: another one is named, if any."""
    edges = {"source": list("aba"), "target": list("bcc"), "partial_correlation": np.array([0.96, 0.7, 0.1])}
    edges |= {"evidence": np.array([36.0, 18.0, 3.0]), "p_value": np.array(p_values)}
    release = SimpleNamespace(dataset=SimpleNamespace(title="T", name="t"))
    found = SimpleNamespace(
        bundles=[SimpleNamespace(release=release)],
        summary={"noise_share_of_variance": None},
        graph=SimpleNamespace(edge_columns=edges, categories=frozenset()),
    )
    network = SimpleNamespace(n_edges=3, measure="partial correlation", columns=("a", "b", "c"))
    said = summarize_plainly(found, network)[-1]
    assert f"The surest link is between {surest} (" in said
    assert said.endswith(f"; {unsure} of the 3 links may be absent, or have the opposite sign.")

    for name in ("evidence", "p_value"):
        del edges[name]
    said = summarize_plainly(found, network)[-1]
    assert said == "The strongest link is between “a” and “b” (partial correlation +0.96); how sure it is is not known."
