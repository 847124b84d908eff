"""Tables of a result on its page: their first rows, with a heading, a form and a meaning for every column."""

import math
from collections.abc import Mapping

from dp_bundle.page.tables import PageTable, TableColumn
from dp_learn.output.result import Columns

MOST_ROWS = 1000
_LEAST = 0.0001  # of p- and q-values that are told apart
Meaning = tuple[str, str | None, str]  # heading, form of numbers or None for words, and what it says
ENDS: dict[str, Meaning] = {"source": ("Column", None, ""), "target": ("linked to", None, "")}
INTERVAL: dict[str, Meaning] = {"ci_low": ("95 % from", "+.3f", ""), "ci_high": ("to", "+.3f", "")}
UNPENALISED: dict[str, Meaning] = {
    "unpenalised": ("Unpenalised", "+.3f", "what the intervals are about."),
    **INTERVAL,
}
EDGES: dict[str, Meaning] = {
    **ENDS,
    "partial_correlation": ("Partial correlation", "+.3f", "of the pair given all other columns, {weight}."),
    "evidence": ("Evidence", ".2f", "an estimate divided by its standard error; it ranks, and is not a test."),
    "degrees_of_freedom": ("Entries", ".0f", "of the test: for a category each level but one."),
    "desparsified": ("Desparsified", "+.3f", "an estimate that assumes no graph; intervals and tests are about it."),
    **INTERVAL,
    "q_value": ("q-value", ".2g", "the false discovery rate at which the pair would just be found."),
}
NODES: dict[str, Meaning] = {
    "node": ("Node", None, ""),
    "community": ("Group", ".0f", "columns linked among each other (Louvain)."),
    "community_probability": ("Sure", ".0%", "how probably another of its group is with it."),
    "predictability": ("Predictability", ".2f", "the share of its variance that others explain, less chance’s part."),
    "predictability_low": ("95 % from", ".2f", ""),
    "predictability_high": ("to", ".2f", ""),
    "strength": ("Strength", ".2f", "the sum of its links’ sizes."),
    "strength_low": ("95 % from", ".2f", ""),
    "strength_high": ("to", ".2f", ""),
    "expected_influence": ("Expected influence", "+.2f", "their sum with signs."),
    "expected_influence_low": ("95 % from", "+.2f", ""),
    "expected_influence_high": ("to", "+.2f", ""),
    "betweenness": ("Betweenness", ".0f", "the pairs of others whose shortest path passes through it."),
    "closeness": ("Closeness", ".3f", "the inverse of its mean distance to others."),
}


def make_table(
    name: str, caption: str, table: Columns, meanings: Mapping[str, Meaning], file: str, headings: int = 1
) -> PageTable:
    """Return the first rows of those columns of a table that have a meaning here.

    Parameters
    ----------
    name, caption, headings
        As of `PageTable`.
    table : Columns
        Of the result.
    meanings : mapping of str to Meaning
        By the names of columns, in the order of the page.
    file : str
        Where all rows are.
    """
    columns = [
        TableColumn(
            heading,
            list(table[column][:MOST_ROWS]) if form is None else table[column][:MOST_ROWS].tolist(),
            form,
            about,
            _LEAST if column in {"p_value", "q_value"} else -math.inf,
        )
        for column, (heading, form, about) in meanings.items()
        if column in table
    ]
    n_rows = len(next(iter(table.values())))
    more = f"The first {MOST_ROWS:,} of {n_rows:,} rows; {file} has all of them." if n_rows > MOST_ROWS else ""
    return PageTable(name, caption, columns, more, headings)
