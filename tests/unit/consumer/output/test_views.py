"""What is learned, as Python shows it: the same edges everywhere, also once the bundle is closed."""

import html
import json
import pickle
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from matplotlib.collections import LineCollection
from tests.conftest import Run, policy_with

import dp_learn
from dp_bundle import open_bundle
from dp_bundle.base.errors import ParameterError
from dp_learn import Learned, compare_networks, describe, learn_graph, learn_joint
from dp_publish import Receipt, publish


@pytest.fixture
def learned(bundle: Receipt) -> Learned:
    """Return what is learned of the usual bundle, which is closed again."""
    with open_bundle(bundle.path) as opened:
        return learn_graph(opened)


def test_networkx_has_the_edges_of_the_table(learned: Learned) -> None:
    """Nodes are all columns, and each edge has the numbers of its line."""
    graph, edges = learned.to_networkx(), learned.estimate.edges()
    assert [*graph.nodes] == [*learned.estimate.columns]
    assert graph.number_of_edges() == len(edges) > 0
    first = edges.iloc[0]
    found = graph.edges[first["source"], first["target"]]
    assert found["partial_correlation"] == first["partial_correlation"]
    assert found["weight"] == abs(first["partial_correlation"])
    assert found["ci_low"] == first["ci_low"]


def test_a_notebook_is_shown_a_picture_and_sentences_and_no_arrays(learned: Learned) -> None:
    """The view is a picture with its name, and what the page says first."""
    shown = learned._repr_html_()
    assert shown.startswith('<img alt="people" src="data:image/png;base64,')
    assert "<p>" in shown


def test_the_plot_and_the_page(learned: Learned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each edge, a colour for each community, and the page that the command writes."""
    mpl.use("agg")
    axes = learned.plot()
    drawn = sum(len(each.get_segments()) for each in axes.collections if isinstance(each, LineCollection))
    assert drawn == len(learned.estimate.edges())
    assert any(text.get_text().startswith("group 1, ") for text in axes.get_legend().get_texts())
    assert learned.plot(axes) is axes
    assert len(learned.plot_nodes().get_yticklabels()) == 3
    with pytest.raises(ParameterError):
        learned.plot_stability()
    mpl.pyplot.close("all")

    monkeypatch.chdir(tmp_path)
    page = learned.report("page.html").read_text()
    assert "learn_graph(...) in Python" in page
    assert "Content-Security-Policy" in page


def test_no_homepage_writes_bibtex_of_its_own(learned: Learned, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address with a brace, which would end its field, is left out."""
    (bundle,) = learned.result().bundles
    named = bundle.release.dataset.model_copy(update={"url": "https://example.org/}} @preamble{x"})
    monkeypatch.setattr(bundle, "release", bundle.release.model_copy(update={"dataset": named}))
    assert "@preamble" not in learned.methods()


def read_tables(folder: Path, page: str) -> dict[str, pd.DataFrame]:
    """Return the tables of a result's folder, after checking that its page has no number that none of them has."""
    tables = {path.stem: pd.read_csv(path) for path in folder.glob("*.csv")}
    written = re.findall(r"-?\d[\d.]*(?:e-?\d+)?", (folder / "summary.json").read_text())
    known = np.concatenate([each.select_dtypes("number").to_numpy().ravel() for each in tables.values()])
    numbers = {f"{float(number):.6g}" for number in (*known, *written)}
    text = html.unescape((folder / "report.html").read_text())
    shown = re.findall(page, text)
    assert shown
    assert {f"{float(number):.6g}" for number in shown} <= numbers
    return tables


@pytest.mark.slow
def test_page_files_json_and_python_hold_the_same_numbers(tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> None:
    """Every table of learn, describe, compare and joint, summaries and methods; and pages have the tables' numbers."""
    rng, paths = np.random.default_rng(3), []
    columns = {
        "x": {"bounds": [-4, 4]},
        "y": {"bounds": [-5, 5]},
        "who": {"kind": "category", "categories": ["a", "b", "c"]},
    }
    for number in (1, 2):
        rows = pd.DataFrame({"x": rng.normal(size=2_000), "who": rng.choice(["a", "b", "c"], 2_000)})
        rows["y"] = rows["x"] + (rows["who"] == "a") + rng.normal(size=2_000)
        policy = policy_with(columns, name=f"people {number}", mu=4.0, release="covariance")
        paths.append(publish(rows, policy, out=tmp_path / f"{number}.tar", key=key).path)
    command("dp-learn", paths[0], "--report", "--stability", "100", "--out", "learned")
    command("dp-learn", "describe", paths[0], "--out", "described")
    command("dp-learn", "compare", *paths, "--report", "--out", "compared")
    command("dp-learn", "joint", *paths, "--report", "--out", "joined")

    learned, described, compared = learn_graph(paths[0], stability=100), describe(paths[0]), compare_networks(paths)
    joined = learn_joint(paths).result()
    assert repr(compared) == "<Comparison of 1.tar, 2.tar>"
    marked, plain = r'data-order="(-?[\d.]+(?:e-?\d+)?)"', r'<td class="number">(-?[\d.]+(?:e-?\d+)?)<'
    files = {name: read_tables(tmp_path / name, marked) for name in ("learned", "compared", "joined")}
    files["described"] = read_tables(tmp_path / "described", plain)
    pairs = learned.pairs().set_index(["source", "target"])
    variables = learned.estimate.variables
    with open_bundle(paths[0]) as bundle:
        counted = np.concatenate([margin.counts for margin in bundle.margins()])
    assert [*files["learned"]["margins"]["count"]] == [*counted]
    python = {
        "learned": {
            "edges": learned.edges(),
            "nodes": learned.nodes(),
            "pairs": learned.pairs(),
            "loadings": pd.DataFrame(variables.loadings),
        },
        "described": {"description": described.columns, "crosstabs": described.crosstabs},
        "joined": {"changes": pd.DataFrame(joined.changes())},
        "compared": {"differences": compared.pairs(), "strengths": compared.strengths()},
    }
    for result, tables in python.items():
        for name, table in tables.items():
            levels = [column for column in table if "level" in column]
            found = files[result][name].astype(dict.fromkeys(levels, object)).fillna(dict.fromkeys(levels, ""))
            pd.testing.assert_frame_equal(found, table, check_dtype=False, rtol=1e-14)
    for name, matrix in {"precision": variables.precision, "covariance": variables.covariance}.items():
        assert np.allclose(files["learned"][name].iloc[:, 1:], matrix, rtol=1e-14, atol=0.0)
    names = learned.estimate.columns
    pairs["frequency"] = pd.DataFrame(learned.stability.frequency, names, names).stack()
    for name, numbers in {
        "ranking": ["evidence"],
        "stability": ["is_edge", "partial_correlation", "frequency"],
    }.items():
        found = files["learned"][name].set_index(["source", "target"])[numbers]
        pd.testing.assert_frame_equal(found, pairs.loc[found.index, numbers], check_dtype=False, rtol=1e-14)
    for folder, result in {
        "learned": learned.result(),
        "compared": compared.result(),
        "described": described,
        "joined": joined,
    }.items():
        assert json.loads((tmp_path / folder / "summary.json").read_text()) == json.loads(json.dumps(result.summary))
    assert (tmp_path / "learned" / "methods.txt").read_text() == learned.methods()


def test_a_package_lists_its_names_and_results_are_short_and_can_be_pickled(learned: Learned) -> None:
    """`dir` has all public names; no part of a result has a repr of several lines; a copy has the same tables."""
    assert dir(dp_learn) == dp_learn.__all__
    described = describe(learned.bundles[0].path)
    assert described._repr_html_().startswith("<table")
    parts = (
        learned,
        described,
        learned.bundles[0],
        learned.bundles[0].release,
        learned.estimate,
        learned.fit,
        learned.measures,
        learned.estimate.inference,
    )
    assert all(len(repr(part).splitlines()) == 1 and len(repr(part)) < 1000 for part in parts)
    copy = pickle.loads(pickle.dumps(learned))  # noqa: S301  of our own
    pd.testing.assert_frame_equal(copy.pairs(), learned.pairs())
