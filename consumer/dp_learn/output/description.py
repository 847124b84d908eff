"""What each column of a release holds, and how often levels go together, with intervals, as far as the release tells.

A mean errs by the sampling of the rows and by the noise, whose variances add up. So does the share of rows with two
levels, the mean of a product of two indicators: sampling makes p (1 - p) / n of its variance. On sums of second moments
the noise is A Z A' + (A Z v) m' + m (A Z v)'. Here m are the means of the rows, and v is the constant's direction. Here
v' Z v is known; see `dp_learn.covariance.two_rounds`. Of rows the variance of products is that of the rows. Intervals
of shares are Wilson's, with the noise in them; those of deviations are symmetric on the logarithm.

References
----------
Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22(158).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.quoting import guard_cell
from dp_bundle.catalog.histograms import spell_number
from dp_bundle.data.margin_summary import rows_of_one_value, share_interval
from dp_bundle.describe.sentences import raw_meanings
from dp_bundle.manifest.columns import NO_VALUE, SOURCE_KINDS, SourceKindName, source_names
from dp_bundle.manifest.noise import normal_quantile
from dp_bundle.manifest.release import Release, shape_of
from dp_learn.covariance.moments import row_errors
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import RowSource, bundle_source
from dp_learn.covariance.standard_errors import clear_variances
from dp_learn.matrices.linalg import FloatArray, few_threads
from dp_learn.output.folder import Result, Summary, margin_tables
from dp_learn.output.messages import HARDLY, fill_lines, spell_lines
from dp_learn.output.summary import clipped_shares, describe_origin, read_histograms
from dp_learn.pipeline.driver import require_learnable

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[Any, ...]  # of a table: names, an estimate, and the ends of its interval
_Z = normal_quantile(0.975)
_SHOWN = 60  # lines of a table
_ENDS = ["ci_low", "ci_high"]
_LENGTHS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


@dataclass(frozen=True, eq=False, repr=False)
class Description(Result):
    """What the columns of a release hold.

    Attributes
    ----------
    bundles, summary
        As of `Result`; the notes of the summary say what the release cannot show.
    columns : DataFrame
        A line for each mean, standard deviation, quantile and share. The units of columns are in its `attrs`.
    crosstabs : DataFrame
        A line for every two levels of different columns.

    Notes
    -----
    The columns:

    column, level : names
        the raw column; its level, or `(no value)`, where the estimate is a share
    quantity : text
        `mean`, `standard deviation`, `median`, `5 %` and other quantiles, or `share`
    estimate : units of the column, or 0 to 1
        the quantity, without the noise's part
    other, other_level : names
        in `crosstabs.csv`: another column and its level
    share : 0 to 1
        in `crosstabs.csv`: of rows that have both levels
    ci_low, ci_high
        the 95 % interval, of noise and sampling
    as_date : text
        with dates or times alone: estimate and interval as a calendar has them; of deviations of times, their length
    """

    bundles: Sequence[Bundle]
    summary: Summary
    columns: pd.DataFrame
    crosstabs: pd.DataFrame

    def __repr__(self) -> str:
        """Return how much there is in one line."""
        return f"<Description: {len(self.columns)} numbers of columns, {len(self.crosstabs)} of two levels together>"

    def _repr_html_(self) -> str:
        """Return the table of the columns, for a notebook."""
        return self.columns.to_html(max_rows=_SHOWN, index=False)

    def write_files(self, folder: Path) -> None:
        """Write both tables."""
        for name, table in {"description.csv": self.columns, "crosstabs.csv": self.crosstabs}.items():
            table.map(lambda cell: guard_cell(cell) if isinstance(cell, str) else cell).to_csv(
                folder / name, index=False
            )


def describe_columns(bundle: Bundle) -> Description:
    """Return what the columns of a verified bundle hold.

    Raises
    ------
    EstimationError
        There are too few rows, or numbers that cannot be computed with.
    BundleFormatError
        The data are not what the manifest says.
    MemoryLimitError
        It may need more memory than it may have.
    """
    release = bundle.release
    require_learnable(shape_of(release), estimator="thresholded-covariance")
    is_pulled_in = _is_pulled_in(bundle)
    with few_threads(len(release.columns)):
        sample = Sample([bundle_source(bundle, told=())])
        means, deviations, shares = _find_moments(sample, release)
        if is_pulled_in:
            means[:, 1:] = shares[..., 1:] = np.nan
        histograms = read_histograms([bundle], sample)
        rows = _of_histograms(margin_tables(histograms, release))

    levels, known = _levels(release), {(row[0], row[2]) for row in rows if row[1] != NO_VALUE}
    unknown = [column.name for column in release.columns if column.transform is not None]
    unknown += [name for name, (_, _, share) in clipped_shares(bundle).items() if share > HARDLY]
    places = {name: place for place, name in enumerate(sample.pooled.columns)}
    if release.second_moments is not None and release.second_moments.first_round is not None:  # which clips them
        unknown += [name for name, place in places.items() if name not in levels and np.isnan(deviations[place, 0])]
    for name, place in places.items():
        column, level = levels.get(name, (name, ""))
        if level and (column, "share") not in known:
            rows.append((column, level, "share", *shares[place, -1]))
        elif not level and name not in unknown:
            rows += [(name, "", "mean", *means[place])] if (name, "mean") not in known else []
            rows.append((name, "", "standard deviation", *deviations[place]))
    order = [*source_names(release.columns)]
    rows.sort(key=lambda row: order.index(row[0]))
    pairs = [pair for pair in combinations(levels, 2) if levels[pair[0]][0] != levels[pair[1]][0]]
    together = [(*levels[j], *levels[k], *shares[places[j], places[k]]) for j, k in pairs]
    import pandas as pd  # which learning a graph has no use for

    crosstabs = pd.DataFrame(together, columns=["column", "level", "other", "other_level", "share", *_ENDS])
    about = {"quantities": {row[2] for row in rows}, "untold": unknown, "n_together": len(crosstabs)}
    about |= {"moments": release.second_moments, "merged": _meanings_of_merged(release), "is_pulled_in": is_pulled_in}
    told = [each for each in histograms if (each.name, "median") in known]
    at_cells = [rows_of_one_value(each, release.n_rows, release.margin_variance) is None for each in told]
    about["heaped"] = [each.name for each, is_heaped in zip(told, at_cells, strict=True) if is_heaped]
    about["ordered"] = [source.name for source in release.sources if source.kind == "ordered"]
    notes = fill_lines("unknown.txt", None, **about)
    summary = {**describe_origin([bundle], sample.pooled), "notes": notes, "contradictions": []}
    return Description([bundle], summary, _tabulate(rows, release), crosstabs)


def _is_pulled_in(bundle: Bundle) -> bool:
    """Return True if two rounds shortened so many rows that means moved by more than their intervals tell.

    The second round states the mean squared length of p nearly uncorrelated columns. Of normal rows with that length,
    with the standard deviation sqrt(2 / p) of it, more than a sixth would then exceed the radius.
    """
    moments = bundle.release.second_moments
    if moments is None or moments.first_round is None:
        return False
    squares = bundle.second_moments().diagonal()[:-1]
    length = squares.sum() / bundle.release.n_rows
    return bool(length * (1.0 + (2.0 / len(squares)) ** 0.5) > moments.radius**2)


def _meanings_of_merged(release: Release) -> dict[str, str]:
    """Return what the levels are of each column of which other values, or gaps, count as one of them."""
    meanings = raw_meanings(release)
    return {source.name: meanings[source.name] for source in release.sources if source.other or source.gaps}


def _tabulate(rows: Sequence[Row], release: Release) -> pd.DataFrame:
    """Return what each column holds, with units, and dates and times as a calendar has them."""
    import pandas as pd

    columns = pd.DataFrame(rows, columns=["column", "level", "quantity", "estimate", *_ENDS])
    units = {column.source_name: column.unit for column in release.columns if column.unit}
    counted = [source for source in release.sources if source.kind != "number" and not source.levels]
    plain = {source.name: SOURCE_KINDS[source.kind].meaning for source in counted}
    columns.attrs["units"] = plain | units

    kinds = {source.name: source.kind for source in counted if source.kind in {"date", "time"}}
    if kinds:
        columns["as_date"] = [_spell(row, kinds) for row in rows]
    return columns


def _levels(release: Release) -> dict[str, tuple[str, str]]:
    """Return the column and the level that each published indicator stands for."""
    return {
        name: (source.name, level)
        for source in release.sources
        if source.kind in {"boolean", "category"}
        for name, level in zip(source.columns[::-1], source.levels[::-1], strict=False)  # of two levels the second
    }


def _find_moments(sample: Sample, release: Release) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means, deviations and mean products of p columns, and last in a row their means, each with its interval.

    Returns
    -------
    ndarray of shape (p, 3), ndarray of shape (p, 3), ndarray of shape (p, p + 1, 3)
        An end is NaN where errors are unknown, and a deviation where noise drowns it.
    """
    pooled, (source,), (described,) = sample.pooled, sample.sources, sample.pooled.sources
    n, unit, mean, moments = described.n_rows, np.eye(len(pooled.columns)), sample.location, release.second_moments
    own = np.where(clear_variances(pooled), pooled.covariance.diagonal(), np.nan)
    seen = np.column_stack([pooled.covariance * (1.0 - 1.0 / n) + np.outer(mean, mean), mean])
    error, of_variance, noise = *np.full((2, len(mean)), np.nan), np.full(seen.shape, np.nan)
    if isinstance(source, RowSource):
        error = source.describe(*sample.moments).covariance.diagonal() / n
        of_variance = row_errors(source.matrices(), mean, unit).products.diagonal()
        total = np.column_stack([row_errors(source.matrices(), 0.0 * mean, unit).products, error])
        noise = np.maximum(total - seen * (1.0 - seen) / n, 0.0)
    elif pooled.has_error_law and moments is not None and moments.constant:
        law: Any = described.known_noise
        constant = moments.constant if moments.first_round is None else 1.0
        noise = getattr(law, "noise", law).of_raw_moments(mean, constant)[:-1]
        error = noise[:, -1] + np.maximum(pooled.covariance.diagonal(), 0.0) / n

    away, factor = _Z * np.sqrt(error), np.exp(_Z * np.sqrt(of_variance) / (2.0 * own))
    return (
        np.column_stack([mean, mean - away, mean + away]),
        np.sqrt(own)[:, None] * np.column_stack([np.ones(len(own)), 1.0 / factor, factor]),
        np.stack([np.clip(seen, 0.0, 1.0), *share_interval(seen, n, noise * n**2)], axis=-1),
    )


def _of_histograms(tables: Any) -> list[Row]:
    """Return the shares of levels and the quantiles of numbers that histograms tell."""
    cells, quantiles = (zip(*tables.get(name, {}).values(), strict=True) for name in ("margins.csv", "quantiles.csv"))
    shares = [(name, level, "share", *found[-3:]) for name, level, *found in cells if level]
    return shares + [(name, "", quantity, *found) for name, quantity, *found in quantiles if quantity != NO_VALUE]


def _spell(row: Row, kinds: Mapping[str, SourceKindName]) -> str:
    """Return dates or times as a calendar has them, and a deviation of times as a length of time; else nothing."""
    name, _, quantity, *found = row
    kind, unit = kinds.get(name), ""
    if quantity == "standard deviation" and kind == "time":
        unit = next((unit for unit, size in _LENGTHS.items() if found[0] >= size), "seconds")
        kind, found = "number", [each / _LENGTHS[unit] for each in found]
    elif kind is None or quantity in {"share", "standard deviation"}:
        return ""
    value, low, high = (spell_number(each, kind) for each in found)
    ends = f" ({low} to {high})" if np.isfinite(found[0]) and not np.isnan(found[1]) else ""
    return f"{value}{ends} {unit}".rstrip()


def describe_description(result: Description, folder: Path) -> str:
    """Return the lines that dp-learn describe prints."""
    return spell_lines("description.txt", result, folder, most=_SHOWN)
