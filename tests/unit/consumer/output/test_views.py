"""What is learned, as Python shows it: the same edges everywhere, also once the bundle is closed."""

from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.collections import LineCollection

from dp_bundle import open_bundle
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
    """The view is a picture with its name, and what the page says first; the repr is one line."""
    shown = learned._repr_html_()
    assert shown.startswith('<img alt="people" src="data:image/png;base64,')
    assert "<p>" in shown
    assert "array(" not in shown
    assert repr(learned) == f"<Learned: {len(learned.estimate.edges())} edges between 3 columns>"


def test_the_plot_and_the_page(learned: Learned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each edge, a colour for each community, and the page that the command writes."""
    mpl.use("agg")
    axes = learned.plot()
    drawn = sum(len(each.get_segments()) for each in axes.collections if isinstance(each, LineCollection))
    assert drawn == len(learned.estimate.edges())
    assert any(text.get_text().startswith("group 1, ") for text in axes.get_legend().get_texts())
    assert learned.plot(axes) is axes
    mpl.pyplot.close("all")

    monkeypatch.chdir(tmp_path)
    page = learned.report("page.html").read_text()
    assert "learn_graph(...) in Python" in page
    assert "Content-Security-Policy" in page
