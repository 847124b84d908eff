"""The folder of results that dp-learn writes: whole, or not at all, and on the disk when it is there.

A marker in the folder lists the files that dp-learn wrote, with their sizes and times. A folder that holds anything
else, or whose files were changed since, is never replaced. A new result is written next to the folder, and the two are
exchanged in one step where the system can do that. What a killed run left there, the next one removes.

The table of all pairs of nodes, edges or not, is made a block of pairs at a time to save memory.

Tables, wide matrices and graphs are written faster than by pandas and networkx.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.csv import CSVWriter, WriteOptions

from dp_bundle import Bundle
from dp_bundle.base.document import fill_template
from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.launch import interrupts_held
from dp_bundle.base.quoting import guard_cell, quote_path
from dp_bundle.data.margins import Margin
from dp_bundle.data.rows import text_to_arrow, to_arrow
from dp_bundle.files.new_files import (
    clear_unfinished,
    exchange,
    hidden_folder,
    is_inside,
    rename_new,
    settle,
    sync_folder,
)
from dp_bundle.manifest.release import Release
from dp_learn.inference.edges import Pairs
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.graph import MOST_RANKED, GraphEstimate, labelled_edges, labels
from dp_learn.pipeline.measures import NodeMeasures
from dp_learn.pipeline.stability import Stability

Summary = dict[str, Any]  # as in summary.json
Columns = Mapping[str, Any]  # of a table: lists of names and arrays of numbers by the names of columns


class Result(ABC):
    """A graph, a comparison or joint graphs: the terminal, files, JSON, the page and Python show one object.

    Attributes
    ----------
    bundles : sequence of Bundle
        What it was learned from, verified and open.
    summary : Summary
        Its numbers, names and sentences, as in summary.json.
    """

    bundles: Sequence[Bundle]
    summary: Summary

    @property
    def warnings(self) -> list[str]:
        """The sentences that a reader must know."""
        return [*self.summary.get("warnings", ()), *self.summary["contradictions"]]

    @abstractmethod
    def write_files(self, folder: Path) -> None:
        """Write all tables, graphs and pictures into a new folder."""


TEXTS = Path(__file__).with_name("templates")
_MARKER = ".dpgraph-result.json"
_SHRUNK = (
    "the partial correlation given all other columns, shrunk for the noise: that of precision.csv as far as it lies "
    "between desparsified and this shrunk, else the nearer of the two"
)
_OF_PRECISION = (
    "the partial correlation given all other columns, of precision.csv; of a category the largest of its columns"
)
_SIZE = "the size of partial_correlation"
MOST_NODES = 1000  # of a table of all pairs: half a million lines, of 60 MB
_AT_ONCE = 2**17
_LINES = 512  # of a batch, which has its price for every column


def foreign_content(folder: Path) -> str | None:
    """Return the reason not to replace a folder, in words; None if it is empty or an unchanged earlier result."""
    if not folder.is_dir():
        return "is not a folder"
    if folder.resolve() == Path.cwd().resolve():
        return "is the folder that the command runs in"
    found = _names_below(folder)
    written = _listed_files(folder)
    if found and written is None:
        return f"holds {quote_path(found[0])}, and is not a result of dp-learn"
    for name in found:
        state = _state(folder / name)
        if name != _MARKER and (state is None or state != (written or {}).get(name)):
            return f"holds {quote_path(name)}, which dp-learn did not write, or which has changed since"
    return None


def write_results(result: Result, target: Path, texts: Mapping[str, str] | None = None) -> None:
    """Write everything into a hidden folder beside the target, then put it in place of an earlier result.

    Parameters
    ----------
    result : Result
        Its files and its summary.
    target : Path
        The folder.
    texts : mapping of str to str, optional
        Further files by their names: methods.txt, and report.html where there is to be a page.

    Raises
    ------
    DpGraphError
        It cannot be written, or the target is by now something else than an earlier result, which stays as it is.

    Notes
    -----
    The files of a graph:

    edges.csv : all but regression and lda
        edges, by falling `evidence`; with `--fdr` by the tests; where neither is known, strongest first
    ranking.csv : estimators of a precision matrix
        pairs of columns, by falling `evidence`, at most 10,000
    pairs.csv : the same
        all pairs, in the order of the columns; not for more than 1,000 columns
    nodes.csv : graphical-lasso
        nodes: how well others predict them, how strongly they are linked, their place in the graph
    stability.csv : graphical-lasso with `--stability`
        pairs, by falling `frequency`, at most 10,000
    precision.csv : estimators of a precision matrix
        the inverse covariance matrix, in inverse data units
    covariance.csv : all but regression and lda
        the debiased covariance, in data units, before any repair or penalty
    loadings.csv : graphical-lasso, with categories
        for each level of a category at an end of an edge, its `effect`; where the covariance determines its
        inverse, also `unpenalised` with `standard_error`, `ci_low` and `ci_high` (95 %)
    graph.graphml : estimators of a precision matrix
        the graph with the numbers of `edges.csv`, `weight` and `sign` (0 where the weight has none)
    graph.png : the same
        a picture
    methods.txt : all
        a paragraph for a paper on how the result came about, with references and BibTeX
    report.html : all, unless `--no-report`
        everything on one page, which needs no network
    thresholded.csv : thresholded-covariance
        the covariance with small entries set to zero
    coefficients.csv : regression, lda
        `column` and `coefficient`, the surest first; where errors are known also `unpenalised` with its error and
        interval
    means.csv : lda
        the mean of each column in each class
    margins.csv : graphical-lasso, of releases with histograms or randomised response
        the histograms, or the shares of levels
    quantiles.csv : graphical-lasso, of releases with histograms
        quantiles, means and gaps
    summary.json : all
        numbers, names and sentences
    """

    def write(new: Path) -> None:
        result.write_files(new)
        write_end(result.summary, texts or {}, new)

    write_folder(target, write)


def write_folder(target: Path, write: Callable[[Path], None]) -> None:
    """Have all files of a result written into a hidden folder, which then takes the place of an earlier result.

    Parameters
    ----------
    target : Path
        The folder.
    write : callable
        Writes the files into the folder that it is given.

    Raises
    ------
    DpGraphError
        As of `write_results`.
    """
    target = target.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with hidden_folder(target, 0o777) as new:
            (new / _MARKER).write_text(json.dumps({"unfinished": True}) + "\n", encoding="utf-8")  # until the end
            write(new)
            _settle_all(new)
            with interrupts_held(f"the results are in {target}"):
                _put_in_place(new, target)
        # an unfinished result, or an unchanged one that was replaced
        clear_unfinished(
            target, lambda folder: bool(_read_marker(folder).get("unfinished")) or foreign_content(folder) is None
        )
    except OSError as error:
        raise DpGraphError(f"the results cannot be written to {target}: {error.strerror or error}") from error


def write_graph(graph: GraphEstimate, measures: NodeMeasures | None, folder: Path) -> None:
    """Write all tables of a graph into a folder."""
    write_estimate(graph, folder)
    write_pairs(graph, folder / "pairs.csv", measures)
    if measures is not None:
        numbered = ["" if np.isnan(value) else f"{value:.0f}" for value in measures.columns["community"]]
        write_table({**measures.columns, "community": numbered}, folder / "nodes.csv")


def write_end(summary: Any, texts: Mapping[str, str], new: Path) -> None:
    """Write summary.json, and further files by their names."""
    summed_up = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False)
    for name, text in {"summary.json": summed_up + "\n", **texts}.items():
        (new / name).write_text(text, encoding="utf-8")


def _settle_all(folder: Path) -> None:
    """Bring all files of a new result to the disk, and list them in its marker."""
    written = {name: _state(folder / name) for name in _names_below(folder)}
    (folder / _MARKER).write_text(json.dumps({"files": written}, indent=1) + "\n", encoding="utf-8")
    for name in _names_below(folder):
        with (folder / name).open("rb+") as file:
            settle(file)
    for inner in (*_folders_of(written), "."):
        sync_folder(folder / inner)


def _names_below(folder: Path) -> list[str]:
    """Return the paths in a folder of everything that is no folder, and of folders that hold nothing."""
    every = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir() or not any(path.iterdir())]
    return sorted(path.relative_to(folder).as_posix() for path in every)


def _folders_of(names: Iterable[str]) -> list[str]:
    """Return the folders inside a result, the innermost first."""
    inner = {str(parent) for name in names for parent in PurePosixPath(name).parents} - {"."}
    return sorted(inner, key=lambda each: (-each.count("/"), each))


def _put_in_place(new: Path, target: Path) -> None:
    """Give the new folder the target's name, and remove an earlier result that had it."""
    if not os.path.lexists(target):
        if not rename_new(new, target):
            os.rename(new, target)  # noqa: PTH104  onto nothing, or onto an empty folder
        sync_folder(target.parent)
        return
    _require_ours(target, target)
    _take_over_permissions(target, new)
    if not exchange(new, target):
        _change_places(new, target)
    elif foreign_content(new) is not None:
        exchange(new, target)
        _require_ours(target, target)
    sync_folder(target.parent)
    _remove(new)


def _change_places(new: Path, target: Path) -> None:
    """Let two folders change names in three steps, unless what had the target's is no earlier result by then."""
    aside = new.with_suffix("")
    os.rename(target, aside)  # noqa: PTH104
    try:
        _require_ours(aside, target)
        os.rename(new, target)  # noqa: PTH104
    except BaseException:
        os.rename(aside, target)  # noqa: PTH104
        raise
    os.rename(aside, new)  # noqa: PTH104


def _take_over_permissions(earlier: Path, new: Path) -> None:
    """Give a folder and its files the mode, and where possible the owner, of those that they replace."""
    for path in (new, *new.rglob("*")):
        replaced = earlier / path.relative_to(new)
        if replaced.exists():
            status = replaced.stat()
            with contextlib.suppress(PermissionError):
                os.chown(path, status.st_uid, status.st_gid)
            path.chmod(stat.S_IMODE(status.st_mode))


def _remove(earlier: Path) -> None:
    """Remove the files that the marker lists, and the folder if nothing else is in it by now."""
    names = [*(_listed_files(earlier) or {}), _MARKER]
    for name in names:
        (earlier / name).unlink(missing_ok=True)
    try:
        for inner in (*_folders_of(names), "."):
            (earlier / inner).rmdir()
    except OSError as error:
        kept = earlier.with_suffix("")  # which no later run removes
        earlier.rename(kept)
        raise DpGraphError(
            f"the result is written; files that others put into the earlier result are now at {quote_path(kept)}"
        ) from error


def _require_ours(folder: Path, name: Path) -> None:
    why = foreign_content(folder)
    if why is not None:
        raise DpGraphError(f"{quote_path(name)} {why}: give another --out")


def _read_marker(folder: Path) -> dict[str, Any]:
    """Return what the marker of a result says; nothing if there is none."""
    try:
        path = folder / _MARKER
        found = json.loads(path.read_bytes()) if stat.S_ISREG(path.lstat().st_mode) else None
    except (OSError, ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _listed_files(folder: Path) -> dict[str, Any] | None:
    """Return the files that a result had when it was written; None if it is none."""
    files = _read_marker(folder).get("files")
    return files if isinstance(files, dict) and all(map(is_inside, files)) else None


def _state(path: Path) -> list[int] | None:
    """Return the size and time of a file, which tell whether it has changed; None if it is not a regular file."""
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns] if stat.S_ISREG(status.st_mode) else None


def rows_of(table: Columns) -> list[dict[str, Any]]:
    """Return a table row by row."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def write_table(columns: Columns, path: Path) -> None:
    """Write columns, lists of names and arrays of numbers, as pandas writes them: nothing for what is not a number.

    Names, here and in a matrix, are as `guard_cell` has them.
    """
    fields = [
        list(map(guard_cell, values))
        if isinstance(values, list)
        else ["" if np.isnan(value) else value for value in values.tolist()]
        for values in columns.values()
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(map(guard_cell, columns))
        writer.writerows(zip(*fields, strict=True))


def write_square(matrix: FloatArray, names: Sequence[str], path: Path) -> None:
    """Write a symmetric matrix with the names of its rows and columns, every number in the fewest digits that give it.

    pandas takes ten times as long for it.
    """
    names = [guard_cell(name) for name in names]
    columns = [text_to_arrow(names), *(to_arrow(np.ascontiguousarray(row)) for row in matrix)]
    write_lines(iter([pa.Table.from_arrays(columns, names=["", *names])]), path)


def write_graphml(
    nodes: Sequence[str],
    sources: Sequence[str],
    targets: Sequence[str],
    numbers: Mapping[str, FloatArray],
    path: Path,
    about: Mapping[str, str] | None = None,
) -> None:
    """Write an undirected graph by its nodes, and by the ends and the numbers of its edges, some with a description."""
    rows = zip(sources, targets, *(each.tolist() for each in numbers.values()), strict=True)
    edges = [(source, target, [*enumerate(each)]) for source, target, *each in rows]
    values = {"nodes": nodes, "edges": edges, "numbers": list(numbers), "about": about or {}}
    path.write_text(fill_template(TEXTS, "graph.graphml", values), encoding="utf-8")


def write_estimate(estimate: GraphEstimate, folder: Path) -> None:
    """Write edges.csv, ranking.csv if there is one, precision.csv, covariance.csv and graph.graphml into a folder.

    Of a graph between nodes of several columns the matrices are those of the columns, and loadings.csv says how levels
    go together with other nodes.
    """
    write_table(estimate.edge_columns, folder / "edges.csv")
    if ranking := estimate.ranking_columns():
        write_table(ranking, folder / "ranking.csv")
    names, precision, covariance = estimate.columns, estimate.precision, estimate.covariance
    if (variables := estimate.variables) is not None:
        names, precision, covariance = variables.names, variables.precision, variables.covariance
        write_table(variables.loadings, folder / "loadings.csv")
    write_square(precision, names, folder / "precision.csv")
    write_square(covariance, names, folder / "covariance.csv")
    weight = _SHRUNK if estimate.shrunk_weights is not None else _OF_PRECISION
    about = {"partial_correlation": weight, "weight": _SIZE}
    write_graphml(labels(estimate.columns), *labelled_edges(estimate), folder / "graph.graphml", about)


def write_pairs(graph: GraphEstimate, path: Path, measures: NodeMeasures | None) -> None:
    """Write a line for every pair, in the order of the columns; no file where there are more than `MOST_NODES`.

    Parameters
    ----------
    graph : GraphEstimate
        Its nodes, and the numbers of their pairs; see `pair_columns`.
    path : Path
        The new file.
    measures : NodeMeasures or None
        Which tell whether two nodes are in one community.
    """
    if len(graph.columns) > MOST_NODES:
        return
    pairs = np.triu_indices(len(graph.columns), 1)
    _write(graph.columns, pairs, pair_numbers(graph, pairs, measures), path)


def pair_numbers(graph: GraphEstimate, pairs: Pairs, measures: NodeMeasures | None) -> dict[str, Any]:
    """Return the numbers of some pairs, with the probability that both nodes are in one community if it is known.

    The columns:

    is_edge : 0 or 1
        whether `edges.csv` lists the pair
    partial_correlation : -1 to 1
        the weight of the edge; 0 without one
    strength : -1 to 1
        with categories: the largest canonical partial correlation, which assumes no graph
    same_community : 0 to 1
        the probability that both are in one community
    """
    numbers = graph.pair_columns(pairs)
    if measures is not None and measures.together is not None:
        numbers["same_community"] = measures.together[pairs]
    return numbers


def write_stability(graph: GraphEstimate, stability: Stability, path: Path) -> None:
    """Write how often every pair has an edge, the most frequent first, at most the `MOST_RANKED` most frequent."""
    upper = np.triu_indices(len(graph.columns), 1)
    order = np.argsort(-stability.frequency[upper], kind="stable")[:MOST_RANKED]
    pairs = upper[0][order], upper[1][order]
    numbers = {
        "is_edge": graph.adjacency[pairs].astype(np.int64),
        "partial_correlation": graph.weights[pairs],
        "frequency": stability.frequency[pairs],
    }
    _write(graph.columns, pairs, numbers, path)


def _write(nodes: Sequence[str], pairs: Pairs, numbers: dict[str, Any], path: Path) -> None:
    """Write a line for each pair."""
    names = text_to_arrow([guard_cell(name) for name in nodes])
    parts = (slice(start, start + _AT_ONCE) for start in range(0, max(len(pairs[0]), 1), _AT_ONCE))
    columns = (
        [*(names.take(_to_arrow(end[rows])) for end in pairs), *(_to_arrow(each[rows]) for each in numbers.values())]
        for rows in parts
    )
    write_lines((pa.Table.from_arrays(each, names=["source", "target", *numbers]) for each in columns), path)


def write_lines(tables: Iterator[pa.Table], path: Path) -> None:
    """Write tables of the same columns, at least one, as one text file whose first line has their names."""
    first = next(tables)
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(first.column_names)
    with path.open("wb") as file:
        file.write(header.getvalue().encode())
        options = WriteOptions(include_header=False, batch_size=_LINES, quoting_style="needed")
        with CSVWriter(file, first.schema, write_options=options) as writer:
            for table in chain([first], tables):
                writer.write_table(table)


def _kind(values: Any) -> pa.DataType:
    return pa.int64() if np.issubdtype(values.dtype, np.integer) else pa.float64()


def _to_arrow(values: Any) -> pa.Array:
    """Return numbers, with nothing for what is none; `pyarrow.array` would import pandas."""
    numbers, known = np.ascontiguousarray(values), np.packbits(~np.isnan(values), bitorder="little")
    return pa.Array.from_buffers(_kind(values), len(numbers), [pa.py_buffer(known), pa.py_buffer(numbers)])


def margin_tables(margins: Sequence[Margin], release: Release) -> dict[str, Columns]:
    """Return tables by the names of their files: of all cells, and of quantiles, means and gaps; none without any.

    Parameters
    ----------
    margins : sequence of Margin
        The histograms.
    release : Release
        Whose they are.

    Returns
    -------
    dict of str to Columns
        margins.csv, as below. quantiles.csv, of second moments: column, quantity, estimate, ci_low, ci_high.

    Notes
    -----
    The columns:

    column, level : names
        the raw column, and the level, or `(no value)`; empty where cells are of numbers
    low, high : data units
        the cell holds low <= x < high
    count : whole numbers
        rows in the cell, with noise: it may be negative
    share : 0 to 1
        of all rows, from all counts of the column together
    ci_low, ci_high : 0 to 1
        the 95 % interval of the share, of noise and sampling
    """
    if not margins:
        return {}
    from dp_bundle.data.margin_summary import cell_shares, summarize_margin  # which few results have
    from dp_bundle.data.margins import margin_table

    variance, n_rows = release.margin_variance, release.n_rows
    table = margin_table(margins)
    cells: dict[str, Any] = {name: table[name].to_pylist() for name in ("column", "level")}
    cells |= {name: table[name].to_numpy() for name in table.column_names if name not in cells}
    found = [cell_shares(margin, n_rows, variance) for margin in margins]
    for name, parts in zip(("share", "ci_low", "ci_high"), zip(*found, strict=True), strict=True):
        cells[name] = np.concatenate(parts)
    if release.margins is None:
        return {"margins.csv": cells}

    bounds = {name: column.bounds for name, column in release.first_columns.items()}
    estimates = [
        (margin.name, each)
        for margin in margins
        for each in summarize_margin(margin, n_rows, variance, bounds.get(margin.name))
    ]
    quantiles: dict[str, Any] = {
        "column": [name for name, _ in estimates],
        "quantity": [each.name for _, each in estimates],
    }
    for name, attribute in {"estimate": "value", "ci_low": "low", "ci_high": "high"}.items():
        quantiles[name] = np.array([getattr(each, attribute) for _, each in estimates], dtype=float)
    return {"margins.csv": cells, "quantiles.csv": quantiles}
