"""The figures of a result's page hold the result's own numbers."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy

from dp_bundle import Bundle, open_bundle
from dp_learn import learn_graph
from dp_learn.output.page.curves import (
    describe_visibility,
    draw_visibility,
    find_visibility,
)
from dp_learn.output.page.heat_maps import MOST_COLUMNS, draw_heat_maps, find_heat_maps
from dp_learn.output.page.links import draw_forest
from dp_learn.output.summary import Result, summarize
from dp_learn.pipeline.graph import GraphEstimate
from dp_publish import publish

COLUMNS = ["a", "b", "c", "d", "e", "f"]


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


def findings_of(bundle: Bundle, **options: object) -> Result:
    """Return what a page is made from."""
    learned = learn_graph(bundle, **options)  # type: ignore[arg-type]
    return Result([bundle], summarize(learned, [bundle]), learned.estimate, learned)


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
    maps = find_heat_maps(Result([], {"noise_share_of_variance": None}, graph))
    assert [each.name for each in maps.maps] == ["heat-debiased", "heat-estimated"]
    assert "1 pair is beyond 1" in draw_heat_maps(maps)[0].caption
    assert len(maps.names) == MOST_COLUMNS
    assert {f"c{p - 2}", f"c{p - 1}"} <= set(maps.names)
    assert f"Of {p} columns, the {MOST_COLUMNS}" in maps.left_out


def test_forest_holds_the_intervals_of_the_edges(opened: Bundle) -> None:
    """Estimates, intervals and q-values are those of the table of edges, in its order."""
    graph = findings_of(opened, fdr=0.05).graph
    plot = draw_forest(graph, 0.0)[0].model
    data = plot.renderers[0].data_source.data
    edges = graph.edges()

    np.testing.assert_array_equal(data["low"], edges["ci_low"])
    np.testing.assert_array_equal(data["value"], edges["desparsified"])
    assert data["ends"][0] == f"{edges['source'][0]} – {edges['target'][0]}"
    assert not plot.yaxis.visible  # names above the lines leave a narrow screen room for both
    assert all("#" not in str(value) for values in data.values() for value in values)  # colours would stay as they are
    assert draw_forest(findings_of(opened, error_bars=False).graph, 0.0) == []


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
