"""The files of a graph: edges, ranking, both matrices, and GraphML.

Tables, wide matrices and graphs as files: CSV and GraphML, written faster than by pandas and networkx.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.csv import CSVWriter, WriteOptions

from dp_bundle.base.quoting import guard_cell
from dp_bundle.data.row_reader import text_to_arrow, to_arrow
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.graph import GraphEstimate, labelled_edges, labels

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_SCHEMA = "http://www.w3.org/2001/XMLSchema-instance"
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"})
_AT_ONCE = 512  # lines: each batch has its price for every column


def write_table(columns: Mapping[str, Any], path: Path) -> None:
    """Write columns, lists of names and arrays of numbers, as pandas writes them: nothing for what is not a number.

    Names, here and in a matrix, are as `guard_cell` has them.
    """
    fields = [
        [guard_cell(name) for name in values] if isinstance(values, list) else _numbers(values)
        for values in columns.values()
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*fields, strict=True))


def _numbers(values: FloatArray) -> list[Any]:
    return ["" if np.isnan(value) else value for value in values.tolist()]


def write_square(matrix: FloatArray, names: Sequence[str], path: Path) -> None:
    """Write a symmetric matrix with the names of its rows and columns, every number in the fewest digits that give it.

    pandas takes ten times as long for it.
    """
    names = [guard_cell(name) for name in names]
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(["", *names])
    columns = [text_to_arrow(names), *(to_arrow(np.ascontiguousarray(row)) for row in matrix)]
    table = pa.Table.from_arrays(columns, names=["", *names])
    with path.open("wb") as file:
        file.write(header.getvalue().encode())
        options = WriteOptions(include_header=False, batch_size=_AT_ONCE, quoting_style="needed")
        with CSVWriter(file, table.schema, write_options=options) as writer:
            writer.write_table(table)


def write_graphml(
    nodes: Sequence[str], sources: Sequence[str], targets: Sequence[str], numbers: Mapping[str, FloatArray], path: Path
) -> None:
    """Write an undirected graph by its nodes, and by the ends and the numbers of its edges."""
    lines = [
        "<?xml version='1.0' encoding='utf-8'?>",
        f'<graphml xmlns="{_NAMESPACE}" xmlns:xsi="{_SCHEMA}" '
        f'xsi:schemaLocation="{_NAMESPACE} {_NAMESPACE}/1.0/graphml.xsd">',
    ]
    lines += [
        f'  <key id="d{index}" for="edge" attr.name={_quoted(name)} attr.type="double" />'
        for index, name in enumerate(numbers if sources else ())
    ]
    lines.append('  <graph edgedefault="undirected">')
    ends = {node: _quoted(node) for node in nodes}
    lines += [f"    <node id={node} />" for node in ends.values()]
    for source, target, *values in zip(sources, targets, *(each.tolist() for each in numbers.values()), strict=True):
        data = "".join(f'<data key="d{index}">{value!r}</data>' for index, value in enumerate(values))
        lines.append(f"    <edge source={ends[source]} target={ends[target]}>{data}</edge>")
    path.write_text("\n".join([*lines, "  </graph>", "</graphml>", ""]), encoding="utf-8")


def _quoted(text: str) -> str:
    """Return a text as the value of an attribute, as `xml.sax.saxutils.quoteattr`, whose module knows of networks."""
    escaped = text.translate(_ESCAPES)
    if '"' not in escaped:
        return f'"{escaped}"'
    return f"'{escaped}'" if "'" not in escaped else '"' + escaped.replace('"', "&quot;") + '"'


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
    write_graphml(labels(estimate.columns), *labelled_edges(estimate), folder / "graph.graphml")
