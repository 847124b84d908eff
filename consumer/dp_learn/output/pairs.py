"""The table of all pairs of nodes, edges or not, a block of pairs at a time to save memory; and those of histograms."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow.csv import CSVWriter, WriteOptions

from dp_bundle.base.quoting import guard_cell
from dp_bundle.data.margins import Margin
from dp_bundle.data.row_reader import text_to_arrow
from dp_bundle.manifest.release import Release
from dp_learn.inference.edges import Pairs
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.graph import MOST_RANKED, GraphEstimate
from dp_learn.pipeline.stability import Stability

if TYPE_CHECKING:
    import pandas as pd  # takes as long to import as a small graph takes to learn

MOST_NODES = 1000  # of a table of all pairs: half a million lines, of 60 MB
_AT_ONCE = 2**17
_LINES = 512  # of a batch, which has its price for every column


def write_pairs(graph: GraphEstimate, path: Path, together: FloatArray | None) -> None:
    """Write a line for every pair, in the order of the columns; no file where there are more than `MOST_NODES`.

    Parameters
    ----------
    graph : GraphEstimate
        Its nodes, and the numbers of their pairs; see `pair_columns`.
    path : Path
        The new file.
    together : ndarray of shape (n_nodes, n_nodes) or None
        The probability that two nodes are in one community.
    """
    if len(graph.columns) > MOST_NODES:
        return
    pairs = np.triu_indices(len(graph.columns), 1)
    numbers = graph.pair_columns(pairs)
    if together is not None:
        numbers["same_community"] = together[pairs]
    _write(graph.columns, pairs, numbers, path)


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


def margin_tables(margins: Sequence[Margin], release: Release) -> dict[str, pd.DataFrame]:
    """Return tables by the names of their files: of all cells, and of quantiles, means and gaps; none without any.

    Parameters
    ----------
    margins : sequence of Margin
        The histograms.
    release : Release
        Whose they are.

    Returns
    -------
    dict of str to DataFrame
        margins.csv: column, level, low, high, the noisy count, the share of rows that follows from all counts of the
        column, and ci_low and ci_high, its 95 % interval. quantiles.csv, of second moments: column, quantity,
        estimate, ci_low, ci_high.
    """
    variance, n_rows = release.margin_variance, release.n_rows
    if not margins:
        return {}
    import pandas as pd

    from dp_bundle.data.margin_summary import cell_shares, summarize_margin  # which few results have
    from dp_bundle.data.margins import margin_table

    cells = margin_table(margins).to_pandas()
    found = [cell_shares(margin, n_rows, variance) for margin in margins]
    for name, parts in zip(("share", "ci_low", "ci_high"), zip(*found, strict=True), strict=True):
        cells[name] = np.concatenate(parts)
    bounds = {column.source_name: column.bounds for column in reversed(release.columns)}
    estimates = [
        {"column": margin.name, "quantity": each.name, "estimate": each.value, "ci_low": each.low, "ci_high": each.high}
        for margin in margins
        for each in summarize_margin(margin, n_rows, variance, bounds.get(margin.name))
    ]
    columns = ["column", "quantity", "estimate", "ci_low", "ci_high"]
    quantiles = pd.DataFrame(estimates, columns=columns)
    return {"margins.csv": cells} if release.margins is None else {"margins.csv": cells, "quantiles.csv": quantiles}
