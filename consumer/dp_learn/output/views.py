"""What is learned as people look at it in Python: pictures, pages, tables, paragraphs, or networkx's graph."""

from __future__ import annotations

import base64
import html
import io
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.engine import Engine, Processes
from dp_bundle.base.errors import ParameterError
from dp_bundle.data.margins import Margin
from dp_bundle.files.new_files import write_whole
from dp_learn.output.description import Description, describe_columns
from dp_learn.output.folder import Result, pair_numbers
from dp_learn.output.messages import describe_methods
from dp_learn.output.network import draw_intervals, draw_network, network_of, new_sheet, save_picture
from dp_learn.output.several import ComparisonResult, JointResult
from dp_learn.output.summary import GraphResult, read_histograms, summarize
from dp_learn.pipeline import compare, joint, learn
from dp_learn.pipeline.driver import Given, Progress, opened
from dp_learn.pipeline.graph import AT_LEAST
from dp_learn.pipeline.settings import Options
from dp_learn.pipeline.stability import CORRELATION, Stability, measure_stability

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd
    from matplotlib.axes import Axes

P = ParamSpec("P")
V = TypeVar("V")
_TEST_COLUMNS = ("partial_correlation", "evidence", "ci_low", "ci_high", "q_value")


class _View:
    """What every result has in Python.

    Attributes
    ----------
    bundles : tuple of Bundle
        What it was learned from. A view needs nothing of them but what their manifests say, so that they may be closed.
    """

    bundles: tuple[Bundle, ...] = ()

    def __repr__(self) -> str:
        """Return what it was learned from in one line."""
        names = shorten(", ".join(each.path.name for each in self.bundles), 100, placeholder=" ...")
        return f"<{type(self).__name__} of {names}>"

    @abstractmethod
    def result(self) -> Result:
        """Return what files, pages and `methods` are made from; its `summary` is that of summary.json."""

    def methods(self) -> str:
        """Return how it was learned: a paragraph for a paper, its references, and BibTeX of data and software."""
        return describe_methods(self.result()).text

    def _frame(self, columns: Any) -> pd.DataFrame:
        """Return a table with the units of the published columns in its `attrs`."""
        import pandas as pd

        frame = pd.DataFrame(columns)
        frame.attrs["units"] = {column.name: column.unit for column in self.bundles[0].release.columns if column.unit}
        return frame

    def _write(self, path: str | Path, result: Result, command: str) -> Path:
        """Write a page; a file of that name is replaced."""
        from dp_learn.output.page import make_page  # slow to import

        target = Path(path)
        write_whole(target, make_page(result, f"{command}(...) in Python").encode(), replace=True)
        return target


def _paragraphs(sentences: Sequence[str]) -> str:
    return "".join(f"<p>{html.escape(text)}</p>" for text in sentences)


@dataclass(frozen=True, eq=False, repr=False)
class Learned(learn.Learned, _View):
    """A graph and everything that it rests on, and views of it.

    Attributes
    ----------
    bundles : tuple of Bundle
        What it was learned from. A view needs nothing of them but what their manifests say, so that they may be closed.
    histograms : tuple of Margin
        Those of all columns, or of levels replaced at random.
    stability : Stability or None
        Of the graph, where it was asked for.

    Notes
    -----
    All others are those of `dp_learn.pipeline.learn.Learned`.
    """

    bundles: tuple[Bundle, ...] = ()
    histograms: tuple[Margin, ...] = ()
    stability: Stability | None = None

    def __repr__(self) -> str:
        """Return the size of the graph in one line."""
        return f"<Learned: {len(self.estimate.edges())} edges between {len(self.estimate.columns)} columns>"

    def _repr_html_(self) -> str:
        """Return the picture of the graph and what it says, for a notebook."""
        from dp_learn.output.messages import summarize_plainly

        found, title, content = self.result(), self._title(), io.BytesIO()
        network = network_of(self.estimate, self.measures, at_least=AT_LEAST)
        save_picture(network, content, title, found.summary["drowned_columns"])
        picture = base64.b64encode(content.getvalue()).decode()
        said = _paragraphs(summarize_plainly(found, network))
        return f'<img alt="{html.escape(title)}" src="data:image/png;base64,{picture}">{said}'

    def edges(self) -> pd.DataFrame:
        """Return the table of edges.csv; see `GraphEstimate.edges`."""
        return self._frame(self.estimate.edge_columns)

    def nodes(self) -> pd.DataFrame:
        """Return the table of nodes.csv: measures of the nodes with their 95 % intervals, or names alone."""
        return self._frame({"node": self.estimate.columns} if self.measures is None else self.measures.columns)

    def pairs(self) -> pd.DataFrame:
        """Return the table of pairs.csv: all pairs of nodes, edges or not."""
        pairs = np.triu_indices(len(self.estimate.columns), 1)
        names = dict(zip(("source", "target"), (np.array(self.estimate.columns)[ends] for ends in pairs), strict=True))
        return self._frame(names | pair_numbers(self.estimate, pairs, self.measures))

    def describe(self) -> pd.DataFrame:
        """Return what the columns of its bundles hold, which are opened again; see `describe`."""
        import pandas as pd

        return pd.concat({each.path.name: describe(each.path).columns for each in self.bundles}, names=["release"])

    def to_networkx(self) -> nx.Graph[str]:
        """Return the graph for networkx: nodes by their names, and edges with their numbers.

        Returns
        -------
        networkx.Graph
            Each edge has `partial_correlation`, `weight`, its size, and where they are known `evidence`, `ci_low`,
            `ci_high` and `q_value`.
        """
        import networkx as nx

        graph, edges = nx.Graph(), self.edges()
        graph.add_nodes_from(self.estimate.columns)
        kept = ["weight", *(name for name in _TEST_COLUMNS if name in edges)]
        edges["weight"] = edges["partial_correlation"].abs()
        graph.add_edges_from(nx.from_pandas_edgelist(edges, edge_attr=kept).edges(data=True))
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
        network, title = network_of(self.estimate, self.measures, at_least=at_least), self._title()
        axes = new_sheet(network, title, pyplot=True)[1] if ax is None else ax
        draw_network(network, axes, title)
        return axes

    def plot_nodes(self, measure: str = "strength", ax: Axes | None = None) -> Axes:
        """Draw a measure of the nodes with its 95 % intervals, where these are known, the largest at the top.

        Parameters
        ----------
        measure : {"strength", "expected_influence", "predictability"}
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure, whose `figure.savefig("nodes.pdf")` writes PDF, or SVG.

        Returns
        -------
        matplotlib Axes
        """
        nodes = self.nodes().set_index("node").sort_values(measure, ascending=False)
        return draw_intervals(nodes[[measure, f"{measure}_low", f"{measure}_high"]], measure.replace("_", " "), ax)

    def plot_stability(self, ax: Axes | None = None) -> Axes:
        """Draw the correlation of centralities that 95 % of draws reach, by the share of the rows that is dropped.

        Where a line is above 0.7 the order of the nodes is stable (Epskamp, Borsboom & Fried 2018). The graph has to be
        learned with `stability`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            As of `plot_nodes`.

        Returns
        -------
        matplotlib Axes
        """
        import pandas as pd

        if self.stability is None:
            raise ParameterError("stability", "given to learn_graph, as a number of draws")
        names = [name.replace("_", " ") for name in self.stability.coefficients]
        drawn = pd.DataFrame(self.stability.quantiles, self.stability.dropped, names)
        axes = drawn.plot(ax=ax, marker="o", xlabel="share of the rows dropped", ylabel="correlation")
        axes.axhline(CORRELATION, linestyle=":")
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
        return self._write(path, self.result(at_least), "learn_graph")

    def result(self, at_least: float = AT_LEAST) -> GraphResult:
        """Return what files, pages and `methods` are made from; its `summary` is that of summary.json."""
        summary = summarize(self, self.bundles, self.stability, at_least=at_least)
        return GraphResult(
            self.bundles, summary, self.estimate, self, stability=self.stability, histograms=self.histograms
        )

    def _title(self) -> str:
        return " + ".join(dict.fromkeys(bundle.release.dataset.name for bundle in self.bundles))


def describe(bundle: Given) -> Description:
    """Return what the columns of a bundle hold: means, deviations, shares, quantiles, and cross-tabulations.

    Parameters
    ----------
    bundle : Bundle, str or Path
        Open, or where it lies, and then verified first.

    Returns
    -------
    Description
        With data frames `columns` and `crosstabs`.

    Raises
    ------
    BundleError
        The bundle cannot be trusted.
    EstimationError
        There are too few rows, or numbers that cannot be computed with.
    """
    with opened(bundle) as (one,):
        return describe_columns(one)


class LearnOptions(Options, total=False):
    """The keyword arguments of `learn_graph`."""

    fdr: float | None
    error_bars: bool
    measures: bool
    progress: Progress | None
    max_memory: int | None


def learn_graph(
    bundles: Given | Sequence[Given],
    *,
    stability: int | None = None,
    engine: Engine | None = None,
    **options: Unpack[LearnOptions],
) -> Learned:
    """Estimate the sparse graph of the rows before the noise, from one bundle or from several pooled.

    Parameters
    ----------
    bundles : Bundle, str or Path, or sequence of these
        Open, or where they lie, which are verified first, and closed again; with the same columns. Their manifests
        distinguish releases of the same rows from releases of different ones; either way they have the weights of least
        variance.
    stability : int, optional
        Draw so many releases, at least 100, from the law of the graph and its noise, and learn from each. This says how
        often each edge is found, and how stable centralities are.
    engine : Engine, optional
        What runs these draws; this process, by default. ``Processes()`` of `dp_bundle.base.engine` takes every core,
        in scripts that begin below ``if __name__ == "__main__":``.
    fdr : float, optional
        List the edges found at this false discovery rate, rather than those of the sparse estimate.
    error_bars : bool
        Whether to estimate them, which takes one more pass over the rows; True by default.
    measures : bool
        Whether to measure the nodes, too, which takes longest for few columns; without error bars there are none.
    progress : callable, optional
        Called with a few words on every step when it begins.
    max_memory : int, optional
        Bytes; learning that may need more is refused before it begins. By default what this machine can give.
        Compiling, once on a machine, is not counted.
    **options
        Also the fields of `Settings`: alpha, select, alphas, weights, scale, repair, refit, penalize_diagonal, solver,
        tol, max_iter.

    Raises
    ------
    BundleError
        A bundle cannot be trusted.
    SchemaError
        The bundles cannot be pooled.
    EstimationError
        There is no estimate: NoSolutionError, NotConvergedError, DrownedColumnError, or no alpha to choose.
    MemoryLimitError
        It may need more memory than it may have.
    """
    with opened(bundles) as own:
        learned, drawn = learn.learn_graph(own, **options), None
        for each in own:
            if each.release.margins is not None:
                each.margins()  # views need them when the bundles are closed
        if stability is not None:
            begin = options.get("progress") or (lambda _: None)
            drawn = measure_stability(
                learned,
                stability,
                engine=engine or Processes(1),
                progress=lambda done, count: begin(f"drawing releases, {done:,} of {count:,} done"),
            )
        return Learned(
            **vars(learned), bundles=tuple(own), histograms=read_histograms(own, learned.sample), stability=drawn
        )


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(compare.Comparison, _View):
    """Two or more releases compared, and views of that.

    Attributes
    ----------
    bundles : tuple of Bundle
        As of `Learned`.

    Notes
    -----
    All others are those of `dp_learn.pipeline.compare.Comparison`.
    """

    bundles: tuple[Bundle, ...] = ()
    __repr__ = _View.__repr__

    def _repr_html_(self) -> str:
        """Return what was found in sentences, for a notebook."""
        from dp_learn.output.page.several import summarize_comparison

        return _paragraphs(summarize_comparison(self.result()))

    def result(self) -> ComparisonResult:
        """Return what files, pages and `methods` are made from; its `summary` is that of summary.json."""
        return ComparisonResult(self.bundles, self)

    def pairs(self) -> pd.DataFrame:
        """Return the table of differences.csv: the differences of all pairs, surest first."""
        return self._frame(self.result().differences())

    def strengths(self) -> pd.DataFrame:
        """Return the table of strengths.csv: the differences of the nodes' strengths, surest first."""
        return self._frame(self.result().strengths())

    def plot(self, ax: Axes | None = None, *, most: int = 30) -> Axes:
        """Draw the differences that are surest, with their intervals.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            As of `Learned.plot_nodes`.
        most : int
            How many.

        Returns
        -------
        matplotlib Axes
        """
        pairs = self.pairs().head(most)
        pairs.index = pairs["source"] + " -- " + pairs["target"]
        return draw_intervals(pairs[["difference", "ci_low", "ci_high"]], "difference of partial correlations", ax)

    def report(self, path: str | Path) -> Path:
        """Write the page that `dp-learn compare` writes as report.html, and return its path; see `Learned.report`."""
        return self._write(path, self.result(), "compare_networks")


@dataclass(frozen=True, eq=False, repr=False)
class Joint(joint.Joint, _View):
    """Graphs of several periods that were learned together, what changed, and views of that.

    Attributes
    ----------
    bundles : tuple of Bundle
        As of `Learned`.

    Notes
    -----
    All others are those of `dp_learn.pipeline.joint.Joint`.
    """

    bundles: tuple[Bundle, ...] = ()
    __repr__ = _View.__repr__

    def _repr_html_(self) -> str:
        """Return what was found in a sentence, for a notebook."""
        return _paragraphs([self.result().sentence])

    def result(self) -> JointResult:
        """Return what files, pages and `methods` are made from; its `summary` is that of summary.json."""
        return JointResult(self.bundles, self)

    def report(self, path: str | Path) -> Path:
        """Write the page that `dp-learn joint` writes as report.html, and return its path; see `Learned.report`."""
        return self._write(path, self.result(), "learn_joint")


def _viewed(
    learn: Callable[Concatenate[Sequence[Bundle], P], Any], view: Callable[..., V]
) -> Callable[Concatenate[Sequence[Given], P], V]:
    """Return a function that takes paths as well, which it opens and closes, and returns what is learned as a view."""

    @wraps(learn)
    def learn_and_view(bundles: Sequence[Given], *args: P.args, **options: P.kwargs) -> V:
        with opened(bundles) as own:
            return view(**vars(learn(own, *args, **options)), bundles=tuple(own))

    return learn_and_view  # type: ignore[return-value]


compare_networks = _viewed(compare.compare_networks, Comparison)
learn_joint = _viewed(joint.learn_joint, Joint)
