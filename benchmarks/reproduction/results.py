"""Results: one row for each cell and measure, stored as CSV, and the comparison of a quick run with what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

STATISTICS = ["mean", "sd", "repetitions"]
RELATIVE_ROUNDING = 1e-12  # a smaller spread over repetitions is that of the arithmetic, which processors do not share
ROUNDING = 0.002  # a difference of no more is none, whatever the repetitions' spread


def summarize(records: Sequence[dict[str, Any]], keys: Sequence[str]) -> pd.DataFrame:
    """Return mean and standard deviation of every measure over the repetitions of each cell.

    Parameters
    ----------
    records : sequence of dict
        One for each repetition of a cell: the keys, and measures, of which NaN is left out.
    keys : sequence of str
        The fields that name a cell. Every other field is a measure.

    Returns
    -------
    DataFrame
        The keys, `measure`, `mean`, `sd` (over repetitions; NaN for a single one) and `repetitions`.
    """
    names = list(keys)
    long = pd.DataFrame(records).melt(id_vars=names, var_name="measure", value_name="value").dropna(subset="value")
    long["value"] = long["value"].astype(float)
    cells = long.groupby([*names, "measure"], sort=False)["value"]
    found = cells.agg(mean="mean", sd=lambda values: values.std(ddof=1), repetitions="size")
    found["mean"] += 0.0  # without a sign of zero
    found["sd"] = found["sd"].mask(found["sd"] < RELATIVE_ROUNDING * found["mean"].abs(), 0.0)
    return found.reset_index()


def store(cells: pd.DataFrame, path: Path) -> None:
    """Write results as CSV, with six digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cells.to_csv(path, index=False, float_format="%.6g", lineterminator="\n")


def load(path: Path) -> pd.DataFrame:
    """Read stored results; the names of levels stay words."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype={"snr_db": str})


def compare(found: pd.DataFrame, stored: pd.DataFrame) -> tuple[int, pd.DataFrame]:
    """Return how many cells both have, and those whose means are further apart than chance explains.

    That is four standard errors of the difference, from the stored spread over repetitions, or `ROUNDING` of the
    stored mean where that is more.
    """
    keys = [name for name in found.columns if name not in STATISTICS]
    found, stored = (cells.assign(**{key: cells[key].astype(str) for key in keys}) for cells in (found, stored))
    both = found.merge(stored, on=keys, suffixes=("", "_stored"))
    spread = both[["sd", "sd_stored"]].max(axis=1).fillna(0.0)
    error = spread * np.sqrt(1 / both["repetitions"] + 1 / both["repetitions_stored"])
    allowed = np.maximum(4.0 * error, ROUNDING * np.maximum(1.0, both["mean_stored"].abs()))
    return len(both), both[(both["mean"] - both["mean_stored"]).abs() > allowed]
