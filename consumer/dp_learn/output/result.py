"""The parts of every estimator's answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dp_learn.output.summary import Summary
from dp_learn.pipeline.graph import GraphEstimate

if TYPE_CHECKING:
    import pandas as pd  # takes as long to import as a small graph takes to learn


@dataclass(frozen=True, eq=False)
class Result:
    """An estimator's answer, as it is written to files.

    Attributes
    ----------
    graph : GraphEstimate or None
        Where the answer is a precision matrix.
    summary : Summary
        Numbers and names, as in summary.json.
    tables : mapping of str to DataFrame
        Further tables, by the name of their file.
    """

    graph: GraphEstimate | None
    summary: Summary
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
