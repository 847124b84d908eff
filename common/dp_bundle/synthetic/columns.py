"""Raw columns as functions of standard normal variables, and the correlations by which these give those released.

What is published of a column, and values of its own type, follow from its variables. Correlations of columns on a line
follow from the margins (`data.latent`). Those of levels without an order follow to first order alone, so rows are drawn
and what they miss is added, a few times over.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import optimize, special

from dp_bundle.base.arrays import Floats, Integers
from dp_bundle.data.latent import (
    TERMS,
    Steps,
    latent_correlations,
    linear_coefficients,
    nearest_correlations,
    race_matrix,
    winners,
)
from dp_bundle.data.margin_summary import cell_ends, draw_in_tails, find_body, find_heaps, stand_out
from dp_bundle.data.margins import Margin, mean_and_deviation, middle_scores, parts_of

Places = NDArray[np.intp]
_BINS = 100  # of a normal column, to measure its distribution in
_MIDDLES = (np.arange(2000) + 0.5) / 2000  # of the steps by which a clipped normal column is described
_HARDLY = 1e-4  # of the values
_FEW = 20  # cells, of which each is what it says
_DIGITS = 4  # behind the first one of the narrowest cell, or of a tenth of the deviation
_DAY = 86_400 * 10**6
_MOST = 2.0**53
_STORED: dict[str, tuple[pa.DataType, int]] = {
    "date": (pa.date32(), 1),
    "time": (pa.timestamp("us", "UTC"), 10**6),
    "time-of-day": (pa.time64("us"), 10**6),
    "duration": (pa.duration("us"), 10**6),
}


class Drawn(NamedTuple):
    """Rows of one raw column: their cells in its histogram, the published columns, and what returns the values."""

    cells: Places
    published: Floats
    values: Callable[[], pa.Array]


class Body(Protocol):
    """Numbers as a function of a standard normal variable."""

    is_whole: bool

    @property
    def shares(self) -> Floats:
        """Of the cells."""

    @property
    def fill(self) -> float:
        """What is published of a gap."""

    def coefficients(self) -> Floats:
        """Return the Hermite coefficients of what is published."""

    def draw(self, normal: Floats) -> tuple[Places, Floats, Floats]:
        """Return the cells, what is published, and the numbers."""


class Histogram:
    """Numbers by a histogram: uniform in a cell, in the order of the normal variable.

    The first and the last cell end at the declared bounds or, without these, hold the nearest number of the next cell.
    Of many, cells far out in which nothing stands out from the noise are drawn next to those where something does. Of
    few whole numbers they are drawn as the outermost of these, so that a column of zeros and ones has no others. A cell
    that holds far more than its neighbours is taken for one value, the roundest number in it.

    Parameters
    ----------
    margin : Margin
        Of numbers, or of levels in an order.
    shares : ndarray, shape (m,)
        Of the cells of rows with a value.
    n_rows : int
        Of the release.
    bounds : tuple of float, optional
        The declared ones.
    sigma : float
        Of the noise on a count.
    kept : tuple of float, optional
        The ends that numbers were clipped to, in the middle of which gaps stand; of normal scores None.
    """

    def __init__(
        self,
        margin: Margin,
        shares: Floats,
        n_rows: int,
        bounds: tuple[float, float] | None = None,
        sigma: float = 0.0,
        kept: tuple[float, float] | None = None,
    ) -> None:
        self.shares = parts_of(shares)
        scores = middle_scores(shares, n_rows)
        self.steps = Steps.of_shares(shares, scores)
        self.fill, _ = mean_and_deviation(scores, self.shares)
        edges = margin.edges
        self.is_whole = margin.is_whole
        self.low, self.high = cell_ends(edges, bounds, is_whole=self.is_whole)
        self.decimals = _decimals(self.high - self.low)
        heaps = find_heaps(self.shares, (self.low, self.high), sigma / n_rows, is_whole=self.is_whole)
        for cell, value in heaps.items():
            self.low[cell] = self.high[cell] = value
        counts, self.edges = margin.counts[: margin.n_filled], edges
        if not margin.labels and sigma > 0.0:
            self._end_where_nothing_stands_out(counts, find_body(counts, sigma))
        if heaps and not stand_out(np.delete(counts, [*heaps]), sigma):  # as of zeros and ones
            some = np.array([*heaps])  # the numbers of all cells are those of the nearest of these
            nearest = some[np.abs(np.arange(len(self.low))[:, None] - some).argmin(axis=1)]
            self.low, self.high = self.low[nearest], self.high[nearest]
        if kept is not None:
            self.steps = Steps.of_shares(shares, np.clip(0.5 * (self.low + self.high), *kept))
            self.fill = 0.5 * (kept[0] + kept[1])

    def _end_where_nothing_stands_out(self, counts: Integers, body: tuple[int, int]) -> None:
        """Let numbers end at zero where the first or last cell of the body has it inside, and few whole ones there."""
        first, last = body[0], body[1] - 1
        if self.low[first] < 0.0 < self.high[first]:
            self.low[first] = 0.0
        elif self.low[last] < 0.0 < self.high[last]:
            self.high[last] = 0.0
        if self.is_whole and last - first < _FEW:
            self.low[:first] = self.high[:first] = self.low[first]
            self.low[last + 1 :] = self.high[last + 1 :] = self.high[last]
        elif len(counts) > _FEW:
            draw_in_tails((self.low, self.high), self.shares, counts, body, is_whole=self.is_whole)

    def coefficients(self) -> Floats:
        """Return the Hermite coefficients of what is published."""
        return self.steps.coefficients()

    def draw(self, normal: Floats) -> tuple[Places, Floats, Floats]:
        """Return the cells, what is published of them, and numbers in them."""
        ranks = special.ndtr(normal)
        cells = self.steps.cells(ranks)
        starts, shares = np.append(0.0, self.steps.ends), self.steps.shares
        with np.errstate(divide="ignore", invalid="ignore"):
            place = np.clip(np.nan_to_num((ranks - starts[cells]) / shares[cells]), 0.0, 1.0)
        low, high = self.low[cells], self.high[cells]
        if self.is_whole:
            numbers = np.minimum(low + np.floor(place * (high - low + 1.0)), high)
        else:
            numbers = np.round(low + place * (high - low), self.decimals)
        return np.searchsorted(self.edges, numbers, side="right"), self.steps.values[cells], numbers


class Normal:
    """Numbers with a normal distribution, clipped to bounds.

    What is clipped is spread out so far that the numbers have the mean and the deviation that were released. Those of a
    column of zeros and ones come out as these.

    Parameters
    ----------
    mean, deviation : float
        As released.
    bounds : tuple of float
        Of the numbers.
    is_whole : bool
        Whether numbers are rounded.
    """

    shares = np.full(_BINS, 1.0 / _BINS)

    def __init__(self, mean: float, deviation: float, bounds: tuple[float, float], *, is_whole: bool) -> None:
        self.mean, self.deviation, self.bounds = mean, deviation, bounds
        self.is_whole, self.fill = is_whole, 0.0
        self.decimals = _decimals(np.array([0.1 * deviation]))
        self.middle, self.spread = before_clipping(mean, deviation, *bounds)

    def coefficients(self) -> Floats:
        """Return those of a normal column, as far as nothing is clipped."""
        if (self.middle, self.spread) == (self.mean, self.deviation):
            return linear_coefficients()
        values = np.clip(self.middle + self.spread * special.ndtri(_MIDDLES), *self.bounds)
        return Steps.of_shares(np.ones(len(values)), values).coefficients()

    def draw(self, normal: Floats) -> tuple[Places, Floats, Floats]:
        """Return places among hundredths, the numbers in deviations from their mean, and the numbers."""
        cells = np.minimum((special.ndtr(normal) * _BINS).astype(np.intp), _BINS - 1)
        numbers = np.clip(self.middle + self.spread * normal, *self.bounds)
        numbers = np.rint(numbers) if self.is_whole else np.round(numbers, self.decimals)
        return cells, (numbers - self.mean) / self.deviation, numbers


def before_clipping(mean: float, deviation: float, low: float, high: float) -> tuple[float, float]:
    """Return the mean and the deviation of a normal variable that has those given once it is clipped to an interval.

    They are the given ones where hardly anything is clipped, or the interval has no end. The deviation is at most a
    thousand times the width: all but a thousandth is then at the ends. A mean that no variable on the interval has
    with such a deviation, as noise may make it, is moved inwards.
    """
    width = high - low
    clipped = special.ndtr((low - mean) / deviation) + special.ndtr((mean - high) / deviation)
    if not (np.isfinite(width) and clipped > _HARDLY):
        return mean, deviation
    spread = deviation / width
    least_mean = min(spread * spread, 0.5)
    wanted = min(max((mean - low) / width, least_mean), 1.0 - least_mean)

    def middle(log_spread: float) -> float:
        sd = math.exp(log_spread)
        return float(optimize.brentq(lambda m: _clipped(m, sd)[0] - wanted, -1.0 - 6.0 * sd, 2.0 + 6.0 * sd))

    def excess(log_spread: float) -> float:
        return _clipped(middle(log_spread), math.exp(log_spread))[1] - spread

    least, most = math.log(1e-3 * min(spread, 1.0)), math.log(1e3)
    if excess(least) >= 0.0 or excess(most) <= 0.0:
        found = least if excess(least) >= 0.0 else most
    else:
        found = float(optimize.brentq(excess, least, most, xtol=1e-4))
    return low + width * middle(found), width * math.exp(found)


def _clipped(mean: float, deviation: float) -> tuple[float, float]:
    """Return the mean and the deviation of a normal variable that is clipped to [0, 1]."""
    start, end = -mean / deviation, (1.0 - mean) / deviation
    inside, beyond = special.ndtr(end) - special.ndtr(start), special.ndtr(-end)
    at_start, at_end = (math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) for z in (start, end))
    first = beyond + mean * inside - deviation * (at_end - at_start)
    second = (
        beyond + (mean * mean + deviation * deviation) * inside - deviation * ((mean + 1.0) * at_end - mean * at_start)
    )
    return float(first), math.sqrt(max(float(second - first * first), 0.0))


@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A raw column with a place for each of its values on a line.

    Attributes
    ----------
    name, kind : str
        Its own, and what its source is called; "number" without one.
    places : tuple of int
        Of the published columns: the numbers, and the indicator of gaps if there is one.
    body : Body
        The numbers.
    labels : tuple of str
        Of levels, whose numbers are their places.
    gap_label : str or None
        The level that stands for no value.
    gap_share : float
        The share of gaps.
    gap_variable : int or None
        The place of the variable that decides on gaps.
    """

    name: str
    kind: str
    places: tuple[int, ...]
    body: Body
    labels: tuple[str, ...] = ()
    gap_label: str | None = None
    gap_share: float = 0.0
    gap_variable: int | None = None

    @property
    def shares(self) -> Floats:
        """The shares of all cells, the last one of gaps."""
        filled: Floats = (1.0 - self.gap_share) * self.body.shares
        return filled if self.gap_variable is None else np.append(filled, self.gap_share)

    @property
    def coefficients(self) -> list[Floats]:
        """The Hermite coefficients of each published column."""
        gaps = Steps.of_shares(np.array([1.0 - self.gap_share, self.gap_share]), np.array([0.0, 1.0]))
        return [self.body.coefficients(), gaps.coefficients()][: len(self.places)]

    @property
    def gains(self) -> Floats:
        """By how much the correlations of the published columns have to be multiplied, as gaps have the mean."""
        return np.array([1.0 / math.sqrt(max(1.0 - self.gap_share, 1e-6)), 1.0])[: len(self.places)]

    def draw(self, normal: Floats) -> Drawn:
        """Return rows from all variables, shape (n, d)."""
        cells, published, numbers = self.body.draw(normal[:, self.places[0]])
        gaps = np.zeros(len(normal), dtype=bool)
        if self.gap_variable is not None:
            gaps = special.ndtr(normal[:, self.gap_variable]) >= 1.0 - self.gap_share
            cells = np.where(gaps, len(self.body.shares), cells)
        columns = [np.where(gaps, self.body.fill, published), gaps.astype(np.float64)][: len(self.places)]
        return Drawn(cells, np.column_stack(columns), partial(self._values, numbers, gaps))

    def _values(self, numbers: Floats, gaps: NDArray[np.bool_]) -> pa.Array:
        if self.labels:
            places = np.clip(np.rint(numbers), 0, len(self.labels) - 1).astype(np.intp)
            if self.kind == "boolean" and self.labels == ("false", "true"):
                return pa.array(places == 1, mask=gaps)
            return level_array(places, self.labels, self.gap_label, gaps, ordered=self.kind == "ordered")
        if self.kind in _STORED:
            stored, steps = _STORED[self.kind]
            most = _DAY - 1 if self.kind == "time-of-day" else _MOST
            whole = np.clip(np.rint(numbers * steps), 0 if self.kind == "time-of-day" else -_MOST, most)
            bits = pa.int32() if stored.bit_width == 32 else pa.int64()
            return pa.array(whole.astype(np.int64), mask=gaps).cast(bits).cast(stored)
        if self.body.is_whole:
            return pa.array(np.clip(numbers, -_MOST, _MOST).astype(np.int64), mask=gaps)
        return pa.array(numbers, mask=gaps)


@dataclass(frozen=True, eq=False)
class LevelColumn:
    """A raw column of levels without an order, with a published column for each."""

    name: str
    places: tuple[int, ...]
    labels: tuple[str, ...]
    gap_label: str | None
    shares: Floats

    @property
    def block(self) -> slice:
        """The places of its variables."""
        return slice(self.places[0], self.places[-1] + 1)

    @property
    def gains(self) -> Floats:
        """What turns correlations of the indicators into those of the variables, to first order, shape (k, k)."""
        deviations = np.sqrt(self.shares * (1.0 - self.shares))
        inverse: Floats = np.asarray(np.linalg.pinv(race_matrix(self.shares), rcond=1e-6), dtype=np.float64)
        return inverse * deviations

    @property
    def shift(self) -> Floats:
        """What is added to the variables, to a length of 1, without a change of any level's wins to first order."""
        found: Floats = np.abs(np.linalg.svd(race_matrix(self.shares))[2][-1])
        return found

    def draw(self, normal: Floats) -> Drawn:
        """Return rows from all variables, shape (n, d)."""
        cells = winners(normal[:, self.block], self.shares)
        values = partial(level_array, cells, self.labels, self.gap_label)
        return Drawn(cells, np.eye(len(self.shares))[cells], values)


def level_array(
    places: Places,
    labels: Sequence[str],
    gap_label: str | None,
    gaps: NDArray[np.bool_] | None = None,
    *,
    ordered: bool = False,
) -> pa.Array:
    """Return levels by place, null where a gap is or a level stands for one, with all others as a dictionary."""
    kept = [label for label in labels if label != gap_label]
    index = np.array([kept.index(label) if label in kept else -1 for label in labels])[places]
    missing = (index < 0) if gaps is None else (index < 0) | gaps
    codes = pa.array(index.astype(np.int32), mask=missing)
    return pa.DictionaryArray.from_arrays(codes, pa.array(kept, pa.string()), ordered=ordered)


def _decimals(widths: Floats) -> int:
    """Return how many decimals tell numbers apart that are much nearer than the narrowest width."""
    wide = widths[np.isfinite(widths) & (widths > 0.0)]
    return int(np.clip(math.ceil(-math.log10(wide.min())) + _DIGITS, 0, 300)) if len(wide) else _DIGITS


RawColumn = NumberColumn | LevelColumn
_NUMBERS, _ROWS, _TIMES = 2**22, 20_000, 10  # of trials: variables and rows at most, and how many
_BETTER, _PATIENCE = 0.98, 4  # of the sum of squares that trials miss; trials without it that are borne
_SEED = 1
_ROWS_FOR_EACH = 2  # variable, for their correlations to be made zero
_NEAR = 1e-3  # of an interval's ends
_LEAST_VARIANCE = 1e-12  # of a mean square: less is rounding


def draw_rows(
    columns: Sequence[RawColumn], rng: np.random.Generator, n_rows: int, root: Floats, n_apart: int
) -> list[Drawn]:
    """Return rows by raw column, as near to what they are drawn from as so many can be.

    Chance is taken from the independent variables, as far as there are rows enough, so that their sample correlations
    are zero. Every variable has one value in each of as many intervals of equal probability as there are rows.
    """
    p = len(root)
    independent = rng.standard_normal((n_rows, p + n_apart))
    if n_rows > _ROWS_FOR_EACH * (p + n_apart):
        independent -= independent.mean(axis=0)
        independent = independent @ np.linalg.inv(_symmetric_root(independent.T @ independent / n_rows))
    normal = np.hstack([independent[:, :p] @ root, independent[:, p:]])
    places = np.arange(n_rows)
    for variable in normal.T:
        variable[np.argsort(variable)] = special.ndtri((places + rng.uniform(_NEAR, 1.0 - _NEAR)) / n_rows)
    return [column.draw(normal) for column in columns]


def root_of(columns: Sequence[RawColumn], released: Floats, errors: Floats, n_apart: int) -> Floats:
    """Return the symmetric root of the correlations of the variables, shape (p, p).

    Rare levels tell little of their variables. What noise may have made of their correlations is taken away first, and
    they give way where noise made the matrix indefinite.

    Parameters
    ----------
    columns : sequence of RawColumn
        Of the rows.
    released, errors : ndarray, shape (p, p)
        The correlations of the published columns and their standard errors; what is NaN is taken for zero.
    n_apart : int
        How many further variables are independent of all.
    """
    coefficients, gains, known = _linear(columns, released)
    blocks = [column.block for column in columns if isinstance(column, LevelColumn)]
    by_level = np.zeros(len(released), dtype=bool)
    for block in blocks:
        by_level[block] = True
    on_lines = np.outer(~by_level, ~by_level)
    first = np.where(by_level, 1.0, np.abs(coefficients[:, 0]))
    linear = gains * np.divide(1.0, first, out=np.zeros(len(first)), where=first > 0.0)
    weights = 1.0 / np.maximum(np.linalg.norm(linear, axis=1), 1.0)

    scaled = np.outer(np.diagonal(gains), np.diagonal(gains))
    wanted = np.where(on_lines, latent_correlations(known * scaled, coefficients), 0.0)
    found = nearest_correlations(wanted, blocks, weights)
    if not blocks:
        return _symmetric_root(found)

    known = np.where(on_lines, known, _without_noise(known, np.nan_to_num(errors)))
    drawn, best, least, last = np.eye(len(released)), found, math.inf, 0
    for step in range(_TIMES):
        missed = np.where(on_lines, 0.0, linear @ (known - drawn) @ linear.T)
        tied = _tied(columns, np.where(on_lines, wanted, found + missed / (step + 1)))
        found = nearest_correlations(tied, blocks, weights)
        root, n_rows = _symmetric_root(found), max(1, min(_ROWS, _NUMBERS // (len(found) + n_apart)))
        rng, published = np.random.Generator(np.random.PCG64(_SEED)), np.zeros((n_rows, len(root)))
        for column, each in zip(columns, draw_rows(columns, rng, n_rows, root, n_apart), strict=True):
            published[:, list(column.places)] = each.published
        drawn = correlations_of(published.T @ published, published.sum(axis=0), n_rows)
        left = float(np.sum(np.where(on_lines, 0.0, known - drawn) ** 2))
        if left < _BETTER * least:
            best, least, last = found, left, step
        elif step >= last + _PATIENCE:
            break
    return _symmetric_root(best)


def _tied(columns: Sequence[RawColumn], matrix: Floats) -> Floats:
    """Return correlations by which two categories have in common what no level's share of wins shows to first order.

    Adding to all variables of a category hardly changes who wins. Two whose levels imply each other share that, too: it
    is as strong as the weakest link of any contrast of their levels.
    """
    changed, levels = matrix.copy(), [column for column in columns if isinstance(column, LevelColumn)]
    for place, first in enumerate(levels):
        for second in levels[:place]:
            both = np.outer(first.shift, second.shift)
            links = matrix[first.block, second.block]
            rest = links - np.vdot(both, links) * both
            weakest = np.linalg.svd(rest, compute_uv=False)[min(rest.shape) - 2]
            changed[first.block, second.block] = rest + weakest * both
            changed[second.block, first.block] = changed[first.block, second.block].T
    return changed


def _without_noise(correlations: Floats, errors: Floats) -> Floats:
    """Return correlations less the part that their errors make up: zero where they are no larger than these."""
    kept = 1.0 - np.divide(errors, correlations, out=np.zeros_like(errors), where=correlations != 0.0) ** 2
    found: Floats = correlations * np.maximum(kept, 0.0)
    return found


def _linear(columns: Sequence[RawColumn], released: Floats) -> tuple[Floats, Floats, Floats]:
    """Return Hermite coefficients, what turns published correlations into those of variables, and the correlations."""
    p = len(released)
    known = np.where(np.isfinite(released), released, 0.0)
    coefficients, gains = np.zeros((p, TERMS)), np.eye(p)
    for column in columns:
        places = list(column.places)
        if isinstance(column, LevelColumn):
            gains[column.block, column.block] = column.gains
        else:
            coefficients[places] = column.coefficients
            gains[places, places] = column.gains
            known[np.ix_(places, places)] = np.eye(len(places))  # a gap has no number
    return coefficients, gains, known


def correlations_of(products: Floats, sums: Floats, n_rows: int) -> Floats:
    """Return correlations from sums of products, zero of a constant column."""
    covariance = products / n_rows - np.outer(sums, sums) / n_rows**2
    variances = np.diagonal(covariance)
    moves = variances > _LEAST_VARIANCE * (np.diagonal(products) / n_rows)
    unit = np.divide(1.0, np.sqrt(np.maximum(variances, 0.0)), out=np.zeros(len(sums)), where=moves)
    found: Floats = covariance * np.outer(unit, unit)
    return found


def _symmetric_root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
