"""The figures of a result's page hold the result's own numbers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy
from tests.unit.consumer.pipeline.mixed import mixed_sample

from dp_bundle import Bundle, open_bundle
from dp_learn import learn_graph
from dp_learn.output.messages import describe_edges
from dp_learn.output.page.curves import (
    Visibility,
    describe_visibility,
    draw_paths,
    draw_visibility,
    explain_alpha,
    find_visibility,
)
from dp_learn.output.page.heat_maps import MOST_COLUMNS, draw_heat_maps, find_heat_maps
from dp_learn.output.page.links import draw_forest, edges_table
from dp_learn.output.summary import Result, summarize
from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.learn import learn_sample
from dp_learn.pipeline.settings import Settings
from dp_learn.selection.path import Selection
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
    rows = pd.concat([batch.to_pandas() for batch in opened.batches()])
    noise = {column.name: column.cell_noise.variance for column in opened.release.columns}
    published, debiased, estimated = (each.correlation for each in maps.maps)
    covariance = rows[list(maps.names)].cov().to_numpy()
    variances = np.diagonal(covariance) - [noise[name] for name in maps.names]

    np.testing.assert_allclose(published, rows[list(maps.names)].corr().to_numpy(), atol=2e-3)
    clean = covariance / np.sqrt(np.outer(variances, variances))
    np.testing.assert_allclose(debiased[~np.eye(6, dtype=bool)], clean[~np.eye(6, dtype=bool)], atol=2e-3)
    assert np.abs(debiased).sum() > np.abs(published).sum()
    assert np.abs(estimated - debiased).max() < 0.2
    assert abs(maps.names.index("a") - maps.names.index("b")) == 1
    image = draw_heat_maps(maps)[0].model.select_one({"name": "heat-published"}).data["image"][0]
    np.testing.assert_array_equal(image[::-1], np.round(100 * published).astype(np.int8))  # from the top left
    assert image.dtype == np.int8


def test_impossible_correlations_are_counted_and_many_columns_reduced() -> None:
    """A map tells how many entries are beyond one; of more columns than it can show, it takes the correlated ones."""
    covariance = np.array([[1.0, 1.2, 0.1], [1.2, 1.0, 0.2], [0.1, 0.2, 1.0]])
    summary = {"noise_share_of_variance": None}
    graph = GraphEstimate(("a", "b", "c"), np.eye(3), covariance)
    maps = find_heat_maps(Result([], summary, graph))  # type: ignore[arg-type]
    assert [each.name for each in maps.maps] == ["heat-debiased", "heat-estimated"]
    assert "1 pair is beyond 1 in size" in draw_heat_maps(maps)[0].caption

    p = MOST_COLUMNS + 30
    wide = np.eye(p)
    wide[p - 2, p - 1] = wide[p - 1, p - 2] = 0.5
    names = tuple(f"c{place}" for place in range(p))
    maps = find_heat_maps(Result([], summary, GraphEstimate(names, np.eye(p), wide)))  # type: ignore[arg-type]
    assert len(maps.names) == MOST_COLUMNS
    assert {f"c{p - 2}", f"c{p - 1}"} <= set(maps.names)
    assert f"Of {p} columns, the {MOST_COLUMNS}" in maps.left_out


def test_forest_holds_the_intervals_of_the_edges(opened: Bundle) -> None:
    """Estimates, intervals and q-values are those of the table of edges, in its order."""
    graph = findings_of(opened, fdr=0.05).graph
    plot = draw_forest(graph).model
    data = plot.renderers[0].data_source.data
    edges = graph.edges()

    np.testing.assert_array_equal(data["low"], edges["ci_low"])
    np.testing.assert_array_equal(data["value"], edges["desparsified"])
    assert data["ends"][0] == f"{edges['source'][0]} – {edges['target'][0]}"
    assert not plot.yaxis.visible  # names above the lines leave a narrow screen room for both
    assert all("#" not in str(value) for values in data.values() for value in values)  # colours would stay as they are
    assert draw_forest(findings_of(opened, error_bars=False).graph) is None
    assert draw_forest(GraphEstimate(("a", "b"), np.eye(2), np.eye(2))) is None


@pytest.mark.parametrize("select", ["ebic", "cv", "stars"])
def test_path_has_scores_and_numbers_of_edges(opened: Bundle, select: str) -> None:
    """At the chosen alpha the path has the number of edges of the sparse estimate, roughly where rows were left out."""
    findings = findings_of(opened, select=select)
    selection = findings.learned.fit.selection
    chosen = np.flatnonzero(selection.alphas == selection.alpha)[0]
    n_edges = np.count_nonzero(np.triu(findings.learned.fit.solution.precision, 1))

    assert selection.n_edges[chosen] == pytest.approx(n_edges, abs=0 if select == "ebic" else 4)
    assert selection.n_edges[0] == pytest.approx(0.0, abs=2.0)
    assert [figure.name for figure in draw_paths(findings)] == ["alpha-scores", "alpha-edges"]
    assert selection.rule in explain_alpha(findings)[0]


@pytest.mark.parametrize("select", ["ebic", "stars"])
def test_links_of_categories_are_counted_by_pairs_of_columns(select: str) -> None:
    """Of a table with categories the page counts links as the terminal does, and calls all else by another name."""
    rng = np.random.default_rng(0)
    level = rng.integers(0, 4, 2000)
    table = {"a": level, "b": (level + rng.integers(0, 2, 2000)) % 4, "c": rng.normal(size=2000) + level}
    learned = learn_sample(mixed_sample(table | {"d": rng.integers(0, 3, 2000)}, 0.2), Settings(select=select))
    fit = replace(learned.fit, precision=np.eye(len(learned.fit.precision)))  # as if the refit had left no link
    result = Result([], {}, learned.estimate, replace(learned, fit=fit))  # type: ignore[typeddict-item]

    n_links = len(learned.estimate.edge_columns["source"])
    links = next(each for each in draw_paths(result) if each.name == "alpha-edges")

    assert 0 < n_links <= 6
    assert describe_edges(learned.estimate, shrunk=False)[0].startswith(f"  {n_links} of 6 possible edges")
    assert f"It leaves {n_links} link" in " ".join(explain_alpha(result))
    assert links.title == ("Links at each penalty" if select == "stars" else "Parameters at each penalty")
    assert ("link" in links.alternative) == (select == "stars")


def test_lists_say_what_they_are_sorted_by(opened: Bundle) -> None:
    """By the tests at a rate, else by the evidence, and by size where neither is known."""
    found, listed = (findings_of(opened, fdr=rate).graph for rate in (0.5, None))
    plain = GraphEstimate(listed.columns, listed.precision, listed.covariance)

    assert np.all(np.diff(found.edge_columns["p_value"]) >= 0.0)
    assert np.all(np.diff(listed.edge_columns["evidence"]) <= 0.0)
    assert np.all(np.diff(np.abs(plain.edge_columns["partial_correlation"])) <= 0.0)
    captions = [edges_table(graph).caption for graph in (found, listed, plain)]
    assert captions == [
        "The links of the graph, surest first by the tests.",
        "The links of the graph, surest first by the evidence.",
        "The links of the graph, strongest first.",
    ]


@pytest.mark.parametrize(("low", "high"), [(0.004, 0.9), (0.18, 0.9), (0.21, 0.43), (2e-5, 3e-4)])
def test_axis_of_alpha_has_round_numbers(opened: Bundle, low: float, high: float) -> None:
    """Three to eight round numbers within the range are named, as numbers rather than as powers of ten."""
    findings = findings_of(opened)
    fit = findings.learned.fit
    alphas = np.geomspace(high, low, 5)
    path = Selection(alphas[2], "a rule", alphas, np.arange(5.0), None, np.arange(5.0))
    moved = replace(findings, learned=replace(findings.learned, fit=replace(fit, selection=path), smallest_alpha=0.0))
    axis = draw_paths(moved)[0].model.xaxis[0]

    assert 3 <= len(axis.ticker.ticks) <= 8
    assert all(low / 2.0 <= tick <= 2.0 * high and float(f"{tick:.2g}") == tick for tick in axis.ticker.ticks)


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


def test_links_that_a_later_fit_dropped_are_counted(opened: Bundle) -> None:
    """A given penalty has no path; where the fit that followed left fewer links than it did, both numbers are told."""
    findings = findings_of(opened, alpha=0.02)
    fit = findings.learned.fit
    assert draw_paths(findings) == []
    assert explain_alpha(findings)[0] == "The penalty alpha = 0.02 was given with the command."
    assert not any("of them" in sentence for sentence in explain_alpha(findings))

    fewer = fit.precision.copy()
    fewer[0, 1] = fewer[1, 0] = 0.0
    changed = replace(findings.learned, fit=replace(fit, precision=fewer, share=0.05))
    n_edges = np.count_nonzero(np.triu(fit.solution.precision, 1))
    said = explain_alpha(replace(findings, learned=changed))
    assert f"It leaves {n_edges} links; the fit on these that followed keeps 5% of the penalty" in said[1]
    assert f"left {n_edges - 1} of them" in said[1]


def test_no_strength_is_told_where_no_link_could_be_seen() -> None:
    """Where noise hides even the strongest link, the figure's text names no partial correlation, which is at most 1."""
    seen = Visibility(0.73, 0.04, 2.05, 2.8, 0.11, 600, 250_000.0)

    assert "reached at no partial correlation; without it, at 0.11." in draw_visibility(seen).alternative
