"""The tables of the histograms of a release by normal scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dp_bundle.data.margin_file import margin_table
from dp_bundle.data.margin_summary import cell_shares, summarize_margin
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.release import Release

if TYPE_CHECKING:
    import pandas as pd  # takes as long to import as a small graph takes to learn


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
        column, and ci_low and ci_high, its 95 % interval. quantiles.csv: column, quantity, estimate, ci_low, ci_high.
    """
    stated, n_rows = release.margins, release.n_rows
    if stated is None or not margins:
        return {}
    import numpy as np
    import pandas as pd

    cells = margin_table(margins).to_pandas()
    found = [cell_shares(margin, n_rows, stated.variance) for margin in margins]
    for name, parts in zip(("share", "ci_low", "ci_high"), zip(*found, strict=True), strict=True):
        cells[name] = np.concatenate(parts)
    bounds = {column.source_name: column.bounds for column in reversed(release.columns)}
    estimates = [
        {"column": margin.name, "quantity": each.name, "estimate": each.value, "ci_low": each.low, "ci_high": each.high}
        for margin in margins
        for each in summarize_margin(margin, n_rows, stated.variance, bounds[margin.name])
    ]
    columns = ["column", "quantity", "estimate", "ci_low", "ci_high"]
    return {"margins.csv": cells, "quantiles.csv": pd.DataFrame(estimates, columns=columns)}
