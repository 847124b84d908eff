"""The data of a bundle as its pages show them: each column of the raw table, and how the columns go together.

Everything is computed from what was published, noise included, which reveals nothing that the bundle does not, and is
kept as plain texts and numbers. Histograms, and levels replaced at random, have shares with intervals. Other rows have
histograms of their noisy values, and means with intervals; second moments alone have means and deviations. Correlations
and the graph are learned by whoever learns here (`data.learned`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, islice, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import BundleError, DpGraphError
from dp_bundle.bundle.opened import Bundle
from dp_bundle.catalog.histograms import MOST_DRAWN, Picture, draw_margins, share_text, spell_number
from dp_bundle.data.learned import Correlations, Network, find_reader
from dp_bundle.data.margin_summary import NORMAL
from dp_bundle.data.margins import response_margins
from dp_bundle.data.rows import to_numpy
from dp_bundle.describe.sentences import describe_bounds, describe_scale, raw_meanings
from dp_bundle.manifest.columns import NO_VALUE, Column, SourceKindName
from dp_bundle.manifest.release import Release

_LINKED, _PUBLISHED = 50, 200  # raw and published columns, up to which a graph takes seconds
_MOST_CELLS = 2**24  # of rows that are read for a page
_MOST_COLUMNS = 1_000  # published, of which correlations take seconds
_MOST_SAID = 100_000  # characters of a list
_MAPPED = 40  # columns
LISTED = 300  # pairs, and links
_BARS = 30
_BEYOND = 3.0  # standard deviations of the noise that a histogram reaches beyond the bounds
_ROWS, _ACROSS = 8, 12  # of the preview
Facts = dict[str, Any]
T = TypeVar("T")
NOTHING_LEARNED: Facts = {"map": None, "pairs": [], "graph": None, "worth": None, "why": "", "notes": []}


def show_data(bundle: Bundle) -> Facts:
    """Return what a page shows of the data, as JSON.

    Returns
    -------
    dict
        `columns` is a picture of each of the first columns of the raw table, with what its publisher says of it.
        `n_raw` is how many there are. `shows`, "rows", "histograms" or "moments", of `n_rows` rows, of which `n_read`
        were read. `preview`, the first rows; `links`, by `survey_links`.

    Raises
    ------
    BundleFormatError
        The data are not what the manifest says.
    """
    release = bundle.release
    facts: Facts = {"shows": "histograms", "n_rows": release.n_rows, "n_read": release.n_rows, "preview": None}
    if release.kind == "rows":
        facts["shows"] = "rows"
        pictures, facts["n_read"], facts["preview"] = _read_rows(bundle)
    elif release.margins is not None:
        pictures, _ = draw_margins(bundle.margins(), release)
    else:
        facts["shows"], pictures = "moments", _of_spread(bundle)
    clip = release.column_clip
    drawn, meanings = {picture.name: asdict(picture) for picture in pictures}, raw_meanings(release)
    nothing: Facts = {**asdict(Picture("", [], ("", ""), [])), "n_more": 0}
    for picture in drawn.values():
        bars = picture["bars"] if picture["ends"][0] else _first_of(picture["bars"], _MOST_SAID // 10)
        picture |= {"bars": bars, "n_more": len(picture["bars"]) - len(bars)}
    first = dict[str, Column]()
    for column in release.columns:
        first.setdefault(column.source_name, column)
    columns = [
        {
            **drawn.get(name, nothing),
            "name": name,
            "holds": meanings[name],
            "description": column.description,
            "unit": column.unit,
            "kept": describe_bounds(column, clip),
        }
        for name, column in islice(first.items(), MOST_DRAWN)
    ]
    facts["columns"] = _first_of(columns, _MOST_SAID)
    return facts | {"n_raw": len(first), "links": survey_links(bundle)}


def _first_of(entries: Sequence[T], most: int) -> list[T]:
    """Return the first entries, whose words may be strangers', up to so many characters."""
    sizes = accumulate(len(json.dumps(each)) for each in entries)
    return [each for each, size in zip(entries, sizes, strict=True) if size <= most]


@dataclass(frozen=True, eq=False)
class Seen:
    """What rows, or second moments, say of every published column by itself.

    Attributes
    ----------
    means, deviations : ndarray, shape (p,)
        Deviations before the noise; NaN where they are unknown.
    away : ndarray, shape (p,)
        How far the 95 % interval of a mean reaches to either side; NaN where it is unknown.
    tallies : sequence of Tally
        One for each column of rows.
    """

    means: Floats
    deviations: Floats
    away: Floats
    tallies: Sequence[Tally] = ()

    def share(self, place: int, *, of_rest: bool = False) -> tuple[float, float | None, float | None]:
        """Return the share of 1 in a column of 0 and 1, or of 0, with its interval."""
        value, away = self.means[place], self.away[place]
        share, low, high = np.clip([value, value - away, value + away], 0.0, 1.0).tolist()
        if of_rest:
            share, low, high = 1.0 - share, 1.0 - high, 1.0 - low
        return (share, None, None) if math.isnan(away) else (share, low, high)

    def numbers(self, place: int, kind: SourceKindName) -> list[tuple[str, str, str, str]]:
        """Return the mean of a column of numbers with its interval, and the deviation; no mean that drowns."""
        mean, away, deviation = self.means[place], self.away[place], self.deviations[place]
        ends = ("", "") if math.isnan(away) else (spell_number(mean - away, kind), spell_number(mean + away, kind))
        is_drowned = math.isnan(away) and math.isnan(deviation)
        found = [("mean", spell_number(mean, kind), *ends)] if math.isfinite(mean) and not is_drowned else []
        if math.isfinite(deviation):
            found.append(("standard deviation", spell_number(deviation, "number"), "", ""))
        return found


def _read_rows(bundle: Bundle) -> tuple[list[Picture], int, Facts]:
    """Return the pictures of noisy rows, how many rows were read, and the first of them."""
    columns = bundle.release.columns
    heads = [column.name for column in columns[:_ACROSS]]
    lines: list[list[float]] = [[] for _ in heads]
    tallies: list[Tally] = []
    for batch in bundle.batches():
        values = [to_numpy(batch.column(place)) for place in range(len(columns))]
        tallies = tallies or [Tally(*pair) for pair in zip(columns, values, strict=True)]
        for tally, found in zip(tallies, values, strict=True):
            tally.add(found)
        for line, found in zip(lines, values, strict=False):
            line.extend(float(value) for value in found[: _ROWS - len(line)])
        if tallies[0].n * len(columns) >= _MOST_CELLS:
            break

    n_read = tallies[0].n
    means, squares = (np.array([getattr(tally, sums) for tally in tallies]) / n_read for sums in ("total", "squares"))
    away = NORMAL * np.sqrt(np.maximum(squares - means**2, 0.0) / n_read)
    read = bundle.release.model_copy(update={"n_rows": n_read})
    replaced = {picture.name: picture for picture in draw_margins(response_margins(read, means), read)[0]}
    seen = Seen(means, np.full(len(means), np.nan), away, tallies)
    drawn = [replaced.get(picture.name, picture) for picture in draw_seen(read, seen)]
    return drawn, n_read, {"heads": heads, "lines": lines, "more": len(columns) - len(heads)}


def _of_spread(bundle: Bundle) -> list[Picture]:
    """Return the means and deviations that second moments alone tell; nothing where they cannot be learned."""
    if (reader := find_reader()) is None:
        return []
    try:
        means, deviations = reader.spread(bundle)
    except BundleError:
        raise
    except DpGraphError:
        return []
    return [*draw_seen(bundle.release, Seen(means, deviations, np.full(len(means), np.nan)))]


def draw_seen(release: Release, seen: Seen) -> Iterator[Picture]:
    """Yield a picture of each of the first raw columns: the shares of its levels, or its numbers."""
    sources = {source.name: source for source in release.sources}
    places: dict[str, list[int]] = {}
    for place, column in enumerate(release.columns):
        places.setdefault(column.source_name, []).append(place)
    for name, own in islice(places.items(), MOST_DRAWN):
        source = sources.get(name)
        if source is not None and source.levels and source.kind != "ordered":
            shares = [seen.share(place) for place in own]
            shares = shares if source.has_level_columns else [seen.share(own[0], of_rest=True), *shares]
            bars = [(level, *share) for level, share in zip(source.levels, shares, strict=True)]
            yield Picture(name, bars, ("", ""), [])
            continue
        kind = "number" if source is None else source.kind
        numbers = seen.numbers(own[0], kind)
        if source is not None and source.has_gap_column:
            share, low, high = ("" if each is None else share_text(each) for each in seen.share(own[1]))
            numbers.append((NO_VALUE, share, low, high))
        drawn = seen.tallies[own[0]].draw(kind) if seen.tallies else ([], ("", ""), [])
        yield Picture(name, *drawn[:2], numbers, drawn[2])


class Tally:
    """Integers of a column's values in bars of one width; what lies beyond is counted in the outermost bars."""

    def __init__(self, column: Column, first: NDArray[Any]) -> None:
        self.bounds, (self.low, self.high) = column.bounds or (), _range(column, first)
        self.counts = np.zeros(_BARS, np.int64)
        self.total, self.squares, self.n = 0.0, 0.0, 0

    def add(self, values: NDArray[Any]) -> None:
        """Count more values."""
        places = (values - self.low) * (_BARS / (self.high - self.low))
        bars = np.clip(places, 0, _BARS - 1).astype(np.int64)
        self.counts += np.bincount(bars, minlength=_BARS)
        self.total += float(values.sum(dtype=np.float64))
        self.squares += float(np.square(values, dtype=np.float64).sum())
        self.n += len(values)

    def draw(self, kind: SourceKindName) -> tuple[list[tuple[str, float, None, None]], tuple[str, str], list[float]]:
        """Return the bars, the ends and the marks of a picture."""
        ends = [spell_number(end, kind) for end in np.linspace(self.low, self.high, _BARS + 1).tolist()]
        shares = zip(pairwise(ends), (self.counts / self.n).tolist(), strict=True)
        marks = [(bound - self.low) / (self.high - self.low) for bound in self.bounds]
        return [(f"{low} to {high}", share, None, None) for (low, high), share in shares], (ends[0], ends[-1]), marks


def _range(column: Column, first: NDArray[Any]) -> tuple[float, float]:
    """Return where the bars begin and end: beyond the bounds, or at the extremes of the first values."""
    beyond = 0.0 if column.response is not None else _BEYOND * column.cell_noise.sigma
    if column.bounds is not None:
        low, high = column.bounds[0] - beyond, column.bounds[1] + beyond
    else:
        low, high = float(first.min()), float(first.max())
    if not (math.isfinite(high - low) and high - low > 0):
        return (low, low + 1.0) if math.isfinite(low) and low + 1.0 > low else (-1.0, 1.0)
    return low, high


def survey_links(bundle: Bundle) -> Facts | None:
    """Return the correlations and the graph of a release, as JSON; None if nobody here learns.

    Returns
    -------
    dict
        `map` has the columns with the surest correlations, with these and their errors. `pairs` has the surest of
        different raw columns. `worth`, and `notes` on columns on another scale; `graph` for few columns. `why` says
        what could not be learned, or nothing.

    Raises
    ------
    BundleError
        The data are not what the manifest says.
    """
    if (reader := find_reader()) is None:
        return None
    release = bundle.release
    facts = NOTHING_LEARNED | {"notes": describe_scale(release.columns)}
    n_columns = len(release.columns)
    if n_columns > _MOST_COLUMNS or (release.kind == "rows" and release.n_rows * n_columns > _MOST_CELLS):
        return facts | {"why": "a page does not read so many rows or columns, and dp-learn does"}
    try:
        raw = [column.source_name for column in release.columns]
        facts |= _correlations(reader.correlations(bundle), raw)
        if len(set(raw)) <= _LINKED and len(raw) <= _PUBLISHED:
            facts["graph"] = _graph(reader.network(bundle))
    except BundleError:
        raise
    except DpGraphError as error:
        facts["why"] = str(error)
    return facts


def _correlations(found: Correlations, raw: Sequence[str]) -> Facts:
    first, second = np.triu_indices(len(raw), 1)
    value, error = found.values[first, second], found.standard_errors[first, second]
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.nan_to_num(np.abs(value) / error, nan=-1.0)
    same = np.unique(raw, return_inverse=True)[1]
    score[same[first] == same[second]] = -1.0  # levels of one category exclude each other
    order = np.argsort(-score, kind="stable")
    sure = order[score[order] > 0.0][:LISTED]
    ends = np.column_stack([first, second])[sure]
    ranked = [*dict.fromkeys([*ends.ravel().tolist(), *range(len(raw))])]
    shown = sorted(ranked[:_MAPPED])
    return {
        "map": {
            "names": [found.columns[place] for place in shown],
            "values": _plain(found.values[np.ix_(shown, shown)]),
            "errors": _plain(found.standard_errors[np.ix_(shown, shown)]),
        },
        "pairs": [
            (found.columns[one], found.columns[other], *numbers)
            for (one, other), *numbers in zip(ends.tolist(), value[sure].tolist(), error[sure].tolist(), strict=True)
        ],
        "worth": found.effective_rows,
    }


def _plain(matrix: Floats) -> list[list[float | None]]:
    return [[round(value, 4) if np.isfinite(value) else None for value in row] for row in matrix.tolist()]


def _graph(found: Network) -> Facts:
    return {"nodes": list(found.nodes), "places": list(found.places), "links": [list(link) for link in found.links]}
