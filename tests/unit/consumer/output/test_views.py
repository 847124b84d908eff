"""What is learned, as Python shows it: the same edges everywhere, also once the bundle is closed."""

import html
import json
import pickle
import re
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from tests.conftest import Run

import dp_learn
from dp_bundle import open_bundle
from dp_bundle.base.errors import ParameterError
from dp_learn import Learned, learn_graph
from dp_publish import Receipt


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


def test_page_files_json_and_python_hold_the_same_numbers(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """Every table, the summary and the methods are the same in all four, and the page spells the table's numbers."""
    command("dp-learn", bundle.path, "--report", "--out", "found")
    folder, learned = tmp_path / "found", learn_graph(bundle.path)
    for name, table in {"edges": learned.edges(), "nodes": learned.nodes(), "pairs": learned.pairs()}.items():
        pd.testing.assert_frame_equal(pd.read_csv(folder / f"{name}.csv"), table, check_dtype=False, rtol=1e-14)
    assert json.loads((folder / "summary.json").read_text()) == learned.result().summary
    assert (folder / "methods.txt").read_text() == learned.methods()

    page = html.unescape((folder / "report.html").read_text())
    assert learned.methods().partition("\n")[0] in page
    cells = {float(number) for number in re.findall(r'data-order="([^"]+)"', page)}
    shown = learned.edges()[["partial_correlation", "desparsified", "ci_low", "ci_high"]].to_numpy().ravel()
    assert {float(f"{number:.9g}") for number in shown} <= cells


def test_a_package_lists_its_names_and_results_are_short_and_can_be_pickled(learned: Learned) -> None:
    """`dir` has all public names; no part of a result has a repr of several lines; a copy has the same tables."""
    assert dir(dp_learn) == dp_learn.__all__
    parts = learned, learned.bundles[0], learned.estimate, learned.fit, learned.measures, learned.estimate.inference
    assert all(len(repr(part).splitlines()) == 1 and len(repr(part)) < 1000 for part in parts)
    copy = pickle.loads(pickle.dumps(learned))  # noqa: S301  of our own
    pd.testing.assert_frame_equal(copy.pairs(), learned.pairs())
