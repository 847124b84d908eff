"""Wide matrices and graphs as files, written as fast as they are read: labelled CSV, and GraphML."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import networkx as nx
import numpy as np
import pyarrow as pa
from pyarrow.csv import CSVWriter, WriteOptions

from dp_bundle.arrays import to_arrow
from dp_learn.linalg import FloatArray

__all__ = ["write_graphml", "write_square"]

_NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
_SCHEMA = "http://www.w3.org/2001/XMLSchema-instance"
_AT_ONCE = 64  # lines


def write_square(matrix: FloatArray, names: Sequence[str], path: Path) -> None:
    """Write a symmetric matrix with the names of its rows and columns, every number in the fewest digits that give it.

    pandas takes ten times as long for it.
    """
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(["", *names])
    columns = [pa.array(names, pa.string()), *(to_arrow(np.ascontiguousarray(row)) for row in matrix)]
    table = pa.Table.from_arrays(columns, names=["", *names])
    with path.open("wb") as file:
        file.write(header.getvalue().encode())
        options = WriteOptions(include_header=False, batch_size=_AT_ONCE, quoting_style="needed")
        with CSVWriter(file, table.schema, write_options=options) as writer:
            writer.write_table(table)


def write_graphml(graph: nx.Graph, path: Path) -> None:
    """Write a graph whose edges all have the same numbers; networkx takes ten times as long for it."""
    attributes: dict[str, float] = next((numbers for _, _, numbers in graph.edges(data=True)), {})
    lines = [
        "<?xml version='1.0' encoding='utf-8'?>",
        f'<graphml xmlns="{_NAMESPACE}" xmlns:xsi="{_SCHEMA}" '
        f'xsi:schemaLocation="{_NAMESPACE} {_NAMESPACE}/1.0/graphml.xsd">',
    ]
    lines += [
        f'  <key id="d{index}" for="edge" attr.name={quoteattr(name)} attr.type="double" />'
        for index, name in enumerate(attributes)
    ]
    lines.append('  <graph edgedefault="undirected">')
    ends = {node: quoteattr(node, {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}) for node in graph}
    lines += [f"    <node id={node} />" for node in ends.values()]
    for source, target, numbers in graph.edges(data=True):
        data = "".join(
            f'<data key="d{index}">{escape(repr(number))}</data>' for index, number in enumerate(numbers.values())
        )
        lines.append(f"    <edge source={ends[source]} target={ends[target]}>{data}</edge>")
    path.write_text("\n".join([*lines, "  </graph>", "</graphml>", ""]), encoding="utf-8")
