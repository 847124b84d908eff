"""The page of a result: the same for the same result, with its numbers, whatever strangers write into bundles."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, make_policy

from dp_bundle import Bundle, open_bundle
from dp_bundle.describe.sentences import describe_guarantee
from dp_learn import learn_graph
from dp_learn.output.page.links import find_forest
from dp_learn.output.page.report import (
    MOST_COLUMNS,
    describe_visibility,
    draw_heat_maps,
    draw_visibility,
    find_heat_maps,
    find_visibility,
)
from dp_learn.output.summary import GraphResult, summarize
from dp_learn.pipeline.graph import GraphEstimate
from dp_publish import Receipt, publish

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
COLUMNS = ["a", "b", "c", "d", "e", "f"]


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


@pytest.mark.parametrize("words", [(), ("--estimator", "thresholded-covariance"), ("--estimator", "regression")])
def test_every_kind_of_estimator_has_a_page(
    words: tuple[str, ...], bundle: Receipt, learn: Learn, tmp_path: Path
) -> None:
    """Whatever was estimated, the page has its table, the guarantee and the command, and links to its own parts."""
    target = ["--target", "weight"] if "regression" in words else []
    page, again = (learn(bundle.path, *words, *target, out=out) for out in ("one", "two"))
    assert page == again
    ids = re.findall(r'\bid="([^"]*)"', shown(page))
    assert len(ids) == len(set(ids)) > 10
    assert set(re.findall('href="#([^"]*)"', shown(page))) <= set(ids)
    promise = describe_guarantee(bundle.release)
    for each in (*promise, bundle.release.lineage.created, "height", f"dp-learn {bundle.path.name}", "@misc"):
        assert each in text_of(page)
    assert re.search("sha256:[0-9a-f]{64}", text_of(page))
    assert str(tmp_path) not in page
    assert "--out" not in text_of(page)


def test_names_of_strangers_are_text(key: Ed25519PrivateKey, learn: Learn, tmp_path: Path) -> None:
    """Hostile names of columns, titles and citations are shown as they are, and make no element and no script."""
    words = {"title": "<b>{{7*7}}</b>", "creator": "</pre><script>alert(2)</script>", "citation": "{% raw %}<!--"}
    rows = np.random.default_rng(5).normal(size=(300, len(HOSTILE))).cumsum(axis=1) / 2.0
    policy = make_policy({name: [-15.0, 15.0] for name in HOSTILE}, unit="row", mu=100.0)
    policy = policy.model_copy(update={"dataset": policy.dataset.model_copy(update=words)})
    publish(pd.DataFrame(rows, columns=HOSTILE), policy, out=tmp_path / "strange.tar", key=key)
    page = learn("strange.tar", "--alpha", 0.1)
    for script in re.findall("<script>(.*?)</script>", page, re.DOTALL):  # each is one of those that the policy allows
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"&#39;sha256-{digest}&#39;" in page or f"'sha256-{digest}'" in page
    assert not re.search("<script>|<b>{{|<img|<!--", re.sub("<script>.*?</script>", "", page, flags=re.DOTALL))
    assert "&lt;b&gt;{{7*7}}&lt;/b&gt;" in page
    assert "列名" in page
    data = re.search('<script type="application/json" id="data">(.*?)</script>', page)[1]  # type: ignore[index]
    assert json.loads(data)["graph"]["names"][:2] == HOSTILE[:2]


@pytest.fixture
def opened(tmp_path: Path, key: Ed25519PrivateKey) -> Iterator[Bundle]:
    """Publish a chain of six columns with as much noise as variance on one of them."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3000, 6))
    for column in range(1, 6):
        values[:, column] += 0.7 * values[:, column - 1]
    table = pd.DataFrame(values, columns=COLUMNS)
    bounds = {name: [-8.0, 8.0] for name in COLUMNS}
    receipt = publish(table, make_policy(bounds, mu=40.0, unit="row"), out=tmp_path / "chain.tar", key=key)
    with open_bundle(receipt.path) as bundle:
        yield bundle


def findings_of(bundle: Bundle, **options: object) -> GraphResult:
    """Return what a page is made from."""
    learned = learn_graph(bundle, **options)  # type: ignore[arg-type]
    return GraphResult([bundle], summarize(learned, [bundle]), learned.estimate, learned)


def test_heat_maps_are_of_the_published_and_of_the_debiased_rows(opened: Bundle) -> None:
    """They are what NumPy finds in the published values, in hundredths, with linked columns as neighbours."""
    maps = find_heat_maps(findings_of(opened))
    names, off = list(maps.names), ~np.eye(6, dtype=bool)
    noise = {column.name: column.cell_noise.variance for column in opened.release.columns}
    published, debiased, _ = (each.correlation for each in maps.maps)
    covariance = opened.to_pandas()[names].cov().to_numpy()
    expected = []
    for part in (0.0, 1.0):
        root = np.sqrt(np.diagonal(covariance) - [part * noise[name] for name in names])
        expected.append((covariance / np.outer(root, root))[off])

    np.testing.assert_allclose([published[off], debiased[off]], expected, atol=2e-3)
    assert abs(names.index("a") - names.index("b")) == 1
    image = draw_heat_maps(maps)[0].model.select_one({"name": "heat-published"}).data["image"][0]
    np.testing.assert_array_equal(image[::-1], np.round(100 * published).astype(np.int8))  # from the top left


def test_impossible_correlations_are_counted_and_many_columns_reduced() -> None:
    """A map tells how many entries are beyond one; of more columns than it can show, it takes the correlated ones."""
    p = MOST_COLUMNS + 30
    wide = np.eye(p)
    wide[p - 2, p - 1] = wide[p - 1, p - 2] = 1.2
    graph = GraphEstimate(tuple(f"c{place}" for place in range(p)), np.eye(p), wide)
    maps = find_heat_maps(GraphResult([], {"noise_share_of_variance": None}, graph))
    assert [each.name for each in maps.maps] == ["heat-debiased", "heat-estimated"]
    assert "1 pair is beyond 1" in draw_heat_maps(maps)[0].caption
    assert len(maps.names) == MOST_COLUMNS
    assert {f"c{p - 2}", f"c{p - 1}"} <= set(maps.names)
    assert f"Of {p} columns, the {MOST_COLUMNS}" in maps.left_out


def test_forest_holds_the_intervals_of_the_edges(opened: Bundle) -> None:
    """Its numbers are those of the table of edges, in its order, and a place goes with each number."""
    graph = findings_of(opened, fdr=0.05).graph
    rows, edges = find_forest(graph, 0.0).rows, graph.edges()
    assert rows[0].ends == f"{edges['source'][0]} – {edges['target'][0]}"
    assert rows[0].words.startswith(f"{edges['desparsified'][0]:+.3f} (".replace("-", "\N{MINUS SIGN}"))
    numbers = edges[["ci_low", "desparsified", "ci_high", "partial_correlation"]].to_numpy()
    places = np.array([(row.low, row.value, row.high, row.fitted) for row in rows])
    assert np.corrcoef(numbers.ravel(), places.ravel())[0, 1] > 1.0 - 1e-6
    assert 0.0 < places.min() < places.max() < 100.0
    assert find_forest(findings_of(opened, error_bars=False).graph, 0.0) is None


def test_visible_links_are_told_with_and_without_noise(opened: Bundle) -> None:
    """Noise makes the smallest link that can be found larger, and all pairs at once need more than one pair."""
    seen = find_visibility(findings_of(opened))
    figure = draw_visibility(seen)
    data = figure.model.renderers[0].data_source.data
    at = np.searchsorted(data["size"], seen.smallest)

    assert seen.clean < seen.smallest < seen.strictest
    assert seen.clean == pytest.approx(2.8016 / np.sqrt(2999), rel=1e-3)
    assert data["noisy"][at - 1] <= 80.1 <= data["noisy"][at] + 0.2
    assert f"{seen.n_rows:,}" in describe_visibility(seen)[3]
    assert find_visibility(findings_of(opened, error_bars=False)) is None
