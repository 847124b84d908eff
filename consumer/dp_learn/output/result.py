"""What a command of dp-learn found, as every view of it has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dp_bundle import Bundle

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
