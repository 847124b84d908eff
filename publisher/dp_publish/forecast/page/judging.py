"""A release beside the clean table that it was made of, on a page for its publisher's eyes alone; nothing is spent.

The table is read as the release has it: its columns, kinds and levels (`--like`). Clean are all values as they stand,
neither clipped nor filled; clean correlations are of the rows in which both columns have a value.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
from scipy import special

from dp_bundle.base.arrays import Floats
from dp_bundle.base.document import Page, PageTable, TableColumn, render_page
from dp_bundle.base.errors import CellError, DataError
from dp_bundle.bundle.opened import Bundle
from dp_bundle.catalog.histograms import Picture, draw_margin
from dp_bundle.catalog.shown import Seen, Tally, draw_seen, show_data
from dp_bundle.data.margins import Margin
from dp_bundle.data.rows import to_numpy
from dp_bundle.manifest.release import Release
from dp_publish.covariance.two_rounds.margins import MarginCounts, RawColumn
from dp_publish.data.faults import UnfitError
from dp_publish.data.kinds import Kinds
from dp_publish.policy.columns import Prepared

_TEMPLATES = Path(__file__).with_name("templates")
_BATCH = 2**16  # rows
_MOST_CELLS = 2**26
_FAR = 2.0  # standard errors
_NO_NOISE = 1e-12  # the variance of a clean count, as it is divided by


def make_page(bundle: Bundle, prepared: Prepared) -> str:
    """Return the page as one HTML document that needs no network.

    Parameters
    ----------
    bundle : Bundle
        The release.
    prepared : Prepared
        The table that it was made of, by the release's own decisions.

    Raises
    ------
    DataError
        The table has other columns than the release, or cannot be read.
    BundleFormatError
        The data of the bundle are not what its manifest says.
    """
    release, data = bundle.release, show_data(bundle)
    rows, unread = _read(prepared, release)
    margins = bundle.margins() if release.margins is not None else ()
    pairs = _pairs(release, data["links"]["pairs"] if data["links"] else [], rows)
    values = {
        "title": release.dataset.title or release.dataset.name,
        "release": release,
        "data": data,
        "drawn": {picture.name: picture for picture in _draw(release, margins, rows) if picture.name not in unread},
        "clipped": _clipped(release, rows),
        "unread": unread,
        "left_out": prepared.left_out,
        "n_read": len(rows),
        "n_far": sum(abs(away) > _FAR for *_, away in pairs),
        "pairs": _pairs_table(pairs) if pairs else None,
    }
    title = f"{values['title']}, release {release.lineage.number}: for your eyes alone"
    return render_page(Page(_TEMPLATES, "judging.html", title, values))


def _read(prepared: Prepared, release: Release) -> tuple[Floats, dict[str, str]]:
    """Return the first rows as the release has them, NaN where there is no value, and raw columns that are not so.

    These have a sentence on what is wrong with a cell, and no values.
    """
    raw = {column.name: column.source_name for column in release.columns}
    if [*prepared.kinds] != [*raw]:
        raise DataError("the table has other columns than the release: give the one that it was made of")
    unread: dict[str, str] = {}
    while True:
        kinds = {name: kind for name, kind in prepared.kinds.items() if raw[name] not in unread}
        try:
            found = np.concatenate([*_rows(prepared, kinds)])
        except (CellError, UnfitError) as error:
            unread |= {raw.get(name, name): said for _, name, said in error.faults}
            continue
        values = np.full((len(found), len(raw)), np.nan)
        values[:, [name in kinds for name in raw]] = found
        return values, unread


def _rows(prepared: Prepared, kinds: Kinds) -> Iterator[Floats]:
    n_rows = 0
    for batch in prepared.table.read(kinds, _BATCH):
        filled = [pc.fill_null(pc.cast(values, "float64", safe=False), np.nan) for values in batch.columns]
        yield np.column_stack([to_numpy(values) for values in filled])
        n_rows += batch.num_rows
        if n_rows * len(kinds) >= _MOST_CELLS:
            return


def _draw(release: Release, margins: Sequence[Margin], values: Floats) -> Iterator[Picture]:
    """Yield pictures of the clean columns: by the cells of the release's histograms, or the bars of its rows."""
    if not margins:
        found = [own[np.isfinite(own)] if np.isfinite(own).any() else np.zeros(1) for own in values.T]
        means, deviations = (np.array([of(each) for each in found]) for of in (np.mean, np.std))
        tallies = [Tally(*each) for each in zip(release.columns, found, strict=True) if release.kind == "rows"]
        for tally, each in zip(tallies, found, strict=False):
            tally.add(each)
        yield from draw_seen(release, Seen(means, deviations, np.full(len(means), np.nan), tallies))
    places = [column.source_name for column in release.columns]
    sources = {source.name: source for source in release.sources}
    for margin in margins:
        source, own = sources.get(margin.name), np.flatnonzero([name == margin.name for name in places])
        beside = source is not None and source.has_gap_column
        counts = MarginCounts([RawColumn(margin.name, tuple(own.tolist()), margin.labels, beside)], [margin])
        counts.add(values)
        kind = "number" if source is None else source.kind
        drawn = draw_margin(replace(margin, counts=counts.flat), len(values), _NO_NOISE, None, kind)
        bars = [(what, share, None, None) for what, share, *_ in drawn.bars]
        yield replace(drawn, bars=bars, numbers=[(name, value, "", "") for name, value, *_ in drawn.numbers])


def _clipped(release: Release, values: Floats) -> dict[str, int]:
    """Return how many clean values of each published column were clipped."""
    found = {}
    for column, own in zip(release.columns, values.T, strict=True):
        low, high = column.limits
        if column.standards and column.transform is None and release.second_moments is not None:
            first = column.standards[0]
            away = first.scale * (release.second_moments.column_clip or math.inf)
            low, high = max(low, first.center - away), min(high, first.center + away)
        found[column.name] = int(np.sum((own < low) | (own > high)))
    return {name: number for name, number in found.items() if number}


def _pairs(release: Release, pairs: Sequence[Sequence[Any]], values: Floats) -> list[tuple[Any, ...]]:
    """Return the released pairs, each with the clean correlation, and how many standard errors lie between both.

    Columns with scores in the release have the normal scores of their ranks.
    """
    columns = {column.name: pd.Series(own) for column, own in zip(release.columns, values.T, strict=True)}
    for name in [column.name for column in release.columns if column.transform is not None]:
        columns[name] = pd.Series(special.ndtri((columns[name].rank() - 0.5) / columns[name].count()))
    found = []
    for one, other, value, error in pairs:
        with np.errstate(all="ignore"):  # of columns without any spread
            clean = columns[one].corr(columns[other])
        if math.isfinite(clean):
            found.append((one, other, value, error, clean, (value - clean) / error))
    return found


def _pairs_table(pairs: Sequence[Sequence[Any]]) -> PageTable:
    first, second, *numbers = zip(*pairs, strict=True)
    heads = [("released", "+.2f"), ("standard error", ".3f"), ("clean", "+.2f"), ("standard errors apart", "+.1f")]
    columns = [TableColumn(head, each, form) for (head, form), each in zip(heads, numbers, strict=True)]
    caption = "The surest correlations of the release, and those of the clean table."
    return PageTable("pairs", caption, [TableColumn("column", first), TableColumn("and", second), *columns], headings=2)
