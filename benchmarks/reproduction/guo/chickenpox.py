"""Chickenpox without noise: whether what is special in these counts explains why no ranking finds much of the map.

Each ranking is scored against the map of neighbouring counties, on the counts as they are, on their square roots, which
have about equal variances, and less the mean of every week of the year, which removes the seasons. Standard errors are
a jackknife over counties, as a pair is not independent of others with a county in common. `chance` is the share of maps
with the counties' names shuffled that fit the ranking as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from reproduction.data_sets import Floats, chickenpox, weeks_of_the_year
from reproduction.guo.cases import CASES
from reproduction.pieces import Piece
from reproduction.rules import above, area_under_curve, rank, read_rows
from reproduction.setting import Setting, seed
from reproduction.tables import markdown_table, number

CHANGES = ("as they are", "square roots", "weekly means removed")
PATH = (1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0)  # of lambda, on covariances
FIXED = f"lambda = {CASES['chickenpox'].alpha:g}"
N_SHUFFLED = 1000


def _measure(change: str, data: Path) -> list[dict[str, Any]]:
    """Return the AUC of every ranking of the counts after a change."""
    counts, linked = chickenpox(data)
    rows = _changed(counts, change, weeks_of_the_year(data))
    sample = read_rows(rows, 0.0)
    correlation = np.corrcoef(rows.T)
    inverse = np.linalg.inv(correlation)
    partial = -inverse / np.sqrt(np.outer(inverse.diagonal(), inverse.diagonal()))
    evidence = rank(sample, "evidence").scores
    rankings = {
        "evidence": evidence,
        "evidence, negative links last": np.where(partial > 0.0, evidence, 0.0),
        "default": rank(sample, "default").scores,
        "neighbourhood": rank(sample, "neighbourhood").scores,
        "partial correlation, no penalty": np.abs(partial),
        "correlation": np.abs(correlation),
    }
    if change == CHANGES[0]:
        rankings |= {f"lambda = {alpha:g}": rank(sample, "fixed", alpha).scores for alpha in PATH}

    share = float(np.linalg.eigvalsh(correlation)[-1] / len(linked))
    rng = np.random.default_rng(seed("guo_chickenpox", change))
    shuffled = [rng.permutation(len(linked)) for _ in range(N_SHUFFLED)]
    return [
        {"counts": change, "ranking": name, **_scored(scores, linked, shuffled), **_apart(rankings, name, linked)}
        | ({"first_eigenvalue": share} if name == "correlation" else {})
        for name, scores in rankings.items()
    ]


def _changed(counts: Floats, change: str, weeks: NDArray[np.int64]) -> Floats:
    if change == "square roots":
        return np.sqrt(counts)
    if change == "as they are":
        return counts
    means = pd.DataFrame(counts).groupby(weeks).transform("mean").to_numpy()
    return counts - means


def _scored(scores: Floats, linked: NDArray[np.bool_], shuffled: list[NDArray[np.int64]]) -> dict[str, float]:
    """Return the AUC, its standard error, and the share of shuffled maps that fit as well."""
    found = area_under_curve(above(linked), scores)
    others = [area_under_curve(above(linked[np.ix_(places, places)]), scores) for places in shuffled]
    error = jackknife(len(linked), lambda kept: area_under_curve(above(linked[kept]), scores[kept]))
    return {"auc": found, "error": error, "chance": float(np.mean(np.array(others) >= found))}


def _apart(rankings: Mapping[str, Floats], name: str, linked: NDArray[np.bool_]) -> dict[str, float]:
    """Return how far the lasso at the fixed lambda is above a ranking, and the standard error of that."""
    if FIXED not in rankings or name == FIXED:
        return {}

    def apart(kept: Any) -> float:
        truth = above(linked[kept])
        return area_under_curve(truth, rankings[FIXED][kept]) - area_under_curve(truth, rankings[name][kept])

    everything = np.ix_(np.arange(len(linked)), np.arange(len(linked)))
    return {"apart": apart(everything), "apart_error": jackknife(len(linked), apart)}


def jackknife(size: int, statistic: Callable[[Any], float]) -> float:
    """Return the standard error of a statistic of a matrix, by leaving out each row with its column."""
    kept = (np.delete(np.arange(size), index) for index in range(size))
    values = np.array([statistic(np.ix_(each, each)) for each in kept])
    return float(np.sqrt((size - 1) / size * np.square(values - values.mean()).sum()))


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    found = cells.set_index(["counts", "ranking", "measure"])["mean"]
    first = found[CHANGES[0]].unstack("measure")
    order = [*dict.fromkeys(cells["ranking"])]
    rows = []
    for name in order:
        here = first.loc[name]
        changed = [number(found.get((change, name, "auc"), np.nan)) for change in CHANGES[1:]]
        rows.append([name, number(here["auc"]), number(here["error"]), f"{here['chance']:.3f}", *changed])
    path = first.loc[[f"lambda = {alpha:g}" for alpha in PATH], "auc"]
    heads = ["ranking", "AUC", "standard error", "shuffled maps as good", *CHANGES[1:]]
    return {
        "table": markdown_table(heads, rows),
        "evidence": f"{first.loc['evidence', 'auc']:.3f}",
        "fixed": f"{first.loc[FIXED, 'auc']:.3f}",
        "error": f"{first.loc['evidence', 'error']:.2f}",
        "apart": f"{first.loc['evidence', 'apart']:.3f}",
        "apart_error": f"{first.loc['evidence', 'apart_error']:.3f}",
        "path_lowest": f"{path.min():.2f}",
        "path_highest": f"{path.max():.2f}",
        "best": f"{found.xs('auc', level='measure').max():.2f}",
        "common": f"{100 * found[CHANGES[0], 'correlation', 'first_eigenvalue']:.0f}",
        "common_removed": f"{100 * found[CHANGES[2], 'correlation', 'first_eigenvalue']:.0f}",
        "roots": f"{found[CHANGES[1], 'evidence', 'auc']:.3f}",
        "removed": f"{found[CHANGES[2], 'evidence', 'auc']:.3f}",
        "negative_last": f"{first.loc['evidence, negative links last', 'auc']:.3f}",
    }


def _jobs(setting: Setting) -> list[tuple[str, Path]]:
    return [(change, setting.data) for change in CHANGES] if setting.data is not None else []


PIECE = Piece("guo_chickenpox", ("counts", "ranking"), _jobs, _measure, _describe, needs=("chickenpox",))
