"""A learned graph as people look at it in Python: as a picture, a page, a table of a notebook, or networkx's graph."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from dp_bundle import Bundle
from dp_bundle.data.margins import Margin
from dp_bundle.files.new_files import write_whole
from dp_learn.output.network import network_of
from dp_learn.output.summary import GraphResult, read_histograms, summarize
from dp_learn.pipeline import learn
from dp_learn.pipeline.graph import AT_LEAST
from dp_learn.pipeline.settings import Options

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes

_TEST_COLUMNS = ("partial_correlation", "evidence", "ci_low", "ci_high", "q_value")


@dataclass(frozen=True, eq=False, repr=False)
class Learned(learn.Learned):
    """A graph and everything that it rests on, and views of it.

    Attributes
    ----------
    bundles : tuple of Bundle
        What it was learned from. A view needs nothing of them but what their manifests say, so that they may be closed.
    histograms : tuple of Margin
        Those of all columns, or of levels replaced at random.

    Notes
    -----
    All others are those of `dp_learn.pipeline.learn.Learned`.
    """

    bundles: tuple[Bundle, ...] = ()
    histograms: tuple[Margin, ...] = ()

    def __repr__(self) -> str:
        """Return the size of the graph in one line."""
        return f"<Learned: {len(self.estimate.edges())} edges between {len(self.estimate.columns)} columns>"

    def _repr_html_(self) -> str:
        """Return the picture of the graph and what it says, for a notebook."""
        from dp_learn.output.page.plain_words import summarize_plainly
        from dp_learn.output.picture import save_picture

        found, title, content = self._result(), self._title(), io.BytesIO()
        network = network_of(self.estimate, self.measures, at_least=AT_LEAST)
        save_picture(network, content, title, found.summary["drowned_columns"])
        said = "".join(f"<p>{html.escape(text)}</p>" for text in summarize_plainly(found, network))
        picture = base64.b64encode(content.getvalue()).decode()
        return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{picture}">{said}'

    def to_networkx(self) -> nx.Graph:
        """Return the graph for networkx: nodes by their names, and edges with their numbers.

        Returns
        -------
        networkx.Graph
            Each edge has `partial_correlation`, `weight`, its size, and where they are known `evidence`, `ci_low`,
            `ci_high` and `q_value`.
        """
        import networkx as nx

        graph = nx.Graph()
        graph.add_nodes_from(self.estimate.columns)
        edges = self.estimate.edges()
        kept = [name for name in _TEST_COLUMNS if name in edges]
        for edge in edges.to_dict("records"):
            numbers = {name: float(edge[name]) for name in kept}
            graph.add_edge(edge["source"], edge["target"], weight=abs(numbers["partial_correlation"]), **numbers)
        return graph

    def plot(self, ax: Axes | None = None, *, at_least: float = AT_LEAST) -> Axes:
        """Draw the graph with matplotlib: nodes in the colours of their communities, which a legend names.

        Communities are columns that are linked among each other more than with others (Blondel et al., 2008), as on the
        page. Lines are as wide as partial correlations are strong; negative ones are dashed. For a paper,
        ``learned.plot().figure.savefig("graph.pdf")`` writes PDF, and SVG in the same way.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        at_least : float
            The partial correlation, from 0 to 1, below which lines are thin and pale; the graph is the same.

        Returns
        -------
        matplotlib Axes
        """
        from dp_learn.output.picture import draw_network, new_sheet

        network, title = network_of(self.estimate, self.measures, at_least=at_least), self._title()
        axes = new_sheet(network, title, pyplot=True)[1] if ax is None else ax
        draw_network(network, axes, title)
        return axes

    def report(self, path: str | Path, *, at_least: float = AT_LEAST) -> Path:
        """Write the page that `dp-learn` writes as report.html; a file of that name is replaced.

        Parameters
        ----------
        path : str or Path
        at_least : float
            The partial correlation, from 0 to 1, of the links that come first; weaker ones have a table of their own.

        Returns
        -------
        Path
            The page, one file that needs no network.

        Raises
        ------
        FileExistsError
            There is something of that name that is no regular file.
        """
        from dp_learn.output.page.report import make_report

        target = Path(path)
        write_whole(target, make_report(self._result(at_least), "learn_graph(...) in Python").encode(), replace=True)
        return target

    def _result(self, at_least: float = AT_LEAST) -> GraphResult:
        summary = summarize(self, self.bundles, at_least=at_least)
        return GraphResult(self.bundles, summary, self.estimate, self, histograms=self.histograms)

    def _title(self) -> str:
        return " + ".join(dict.fromkeys(bundle.release.dataset.name for bundle in self.bundles))


def learn_graph(
    bundles: Bundle | Sequence[Bundle],
    *,
    fdr: float | None = None,
    error_bars: bool = True,
    measures: bool = True,
    progress: Callable[[str], None] | None = None,
    max_memory: int | None = None,
    **settings: Unpack[Options],
) -> Learned:
    """Learn a graph, and return it with its views."""
    learned = learn.learn_graph(
        bundles,
        fdr=fdr,
        error_bars=error_bars,
        measures=measures,
        progress=progress,
        max_memory=max_memory,
        **settings,
    )
    opened = (bundles,) if isinstance(bundles, Bundle) else tuple(bundles)
    found = {each.name: getattr(learned, each.name) for each in fields(learned)}
    return Learned(**found, bundles=opened, histograms=read_histograms(opened, learned.sample))


learn_graph.__doc__ = learn.learn_graph.__doc__
