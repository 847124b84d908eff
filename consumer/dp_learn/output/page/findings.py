"""The findings that the page of a result is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dp_bundle import Bundle
from dp_learn.output.summary import Summary
from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.learn import Learned

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Findings:
    """A result of any estimator.

    Attributes
    ----------
    bundles : sequence of Bundle
        Verified and open.
    summary : Summary
        Numbers and names, as in summary.json.
    command : str
        The command that gives the same result, with the names of files but not where they are.
    graph : GraphEstimate or None
        Where the answer is a precision matrix.
    learned : Learned or None
        Where it is the graphical lasso's: how the graph was found.
    tables : mapping of str to DataFrame
        Further tables, by the name of their file.
    """

    bundles: Sequence[Bundle]
    summary: Summary
    command: str
    graph: GraphEstimate | None = None
    learned: Learned | None = None
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
