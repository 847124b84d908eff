"""Second moments in two rounds: the most accurate release of correlations for a unit of mu.

Noise has to cover the longest row that there may be. In units of declared bounds that is a corner of their box, where
no row is. So everything is found privately first, each by a step with a cost of its own:

1. the center and the scale of every column (`places`), unless declared;
2. a histogram of every raw column. From it follow its clip and the scale on which its links are told: as it is, or by
   normal scores (`two_rounds.margins`). Of so few rows that it would show little there is none, and the least clip is
   taken;
3. the first round: noisy second moments of rows in units of the clips. They are shortened to a radius that is chosen by
   how many rows are longer;
4. the second round: the same, recentred at the first one's mean and partly whitened by its correlations. So noise is
   small where the columns vary little. With it come noisy lengths to the fourth, from which a reader learns the tails.

**Rare values.** A column may have most of its variance in few values that are far out. In units of its deviation they
would make their rows long, and the noise on all other columns large. Shortened with the whole row, they would bias all
its correlations. So a column's unit in the second round is so large that its values come no farther out than some
lengths of a typical row. That is up to where many are in its histogram and none beyond, else up to its clip. Its own
correlations have more noise then, and no other's.

Both matrices are published, and a reader combines them. The number of rows is public. Gaps that are published count for
no center and no scale, and stand at their column's center.

**Sensitivity.** Every choice is made by scores that one row moves by at most 1. The rows of either round lie in a ball
whatever came before (`two_rounds.rows`), so that its sum moves by at most sqrt(2) (R^2 + c^2). A length to the fourth
is between 0 and that of the radius. So replacing a row moves their sum by at most 1 in its units, and by one unit of
2^-20 for cutting it to these. At a small mu that unit is more. Given what the steps before it released, every step is
mu_i-GDP, and all are ``mu = sqrt(sum mu_i^2)`` (`two_rounds.shares`).

References
----------
Dong, Roth & Su (2022). Biswas, Dong, Kamath & Ullman (2020), CoinPress, for recentring and rescaling in rounds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.arrays import Floats
from dp_bundle.base.errors import DataError, PrivacyError
from dp_bundle.data.margins import Scores
from dp_bundle.data.matrix import mean_and_covariance
from dp_bundle.manifest.matrix_noise import MatrixNoise, RoundedGaussian
from dp_bundle.manifest.noise import Neighbours
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.exact_moments import ExactMoments
from dp_publish.covariance.mechanisms.base import Batches, FirstRound, Mechanism, NoisyMoments, RawRows, Witness
from dp_publish.covariance.mechanisms.gaussian import Gaussian, check_mu
from dp_publish.covariance.scaling import scaling_around
from dp_publish.covariance.two_rounds.margins import (
    MOST_COLUMNS,
    Described,
    MarginCounts,
    RawColumn,
    counts_of,
    describe_columns,
    empty_margins,
    indicate_gaps,
    places_after,
    places_of_whole,
    to_scores,
)
from dp_publish.covariance.two_rounds.places import MOST_CELLS, Place, PlaceCounts, declared_place
from dp_publish.covariance.two_rounds.rows import RoundMap, whiten
from dp_publish.covariance.two_rounds.shares import (
    StepShares,
    least_clip,
    radii,
    radius_search,
    round_noise,
    scarcity,
    share_lost,
    share_out,
    share_shortened,
)
from dp_publish.covariance.two_rounds.steps import Choice, NoisyLengths, Outcome, Play, Statistic, Step
from dp_publish.covariance.two_rounds.sums import BinnedSums
from dp_publish.data.kinds import Kinds
from dp_publish.policy.coded_columns import blocks_of
from dp_publish.policy.model import Policy
from dp_publish.sampling.keystream import Keystream

T = TypeVar("T")
Counting = TypeVar("Counting", PlaceCounts, MarginCounts)
_FIRST_RADII, _SECOND_RADII = (0.5, 16.0), (0.5, 4.0)  # the least and the largest, in lengths of a typical row
_LEAST_DEVIATION, _MORE_IN_FEW = 0.2, 0.19  # of a column in the second round, in scales; and more where rows are few
_OFFSETS = (0.05, 0.01)  # of the mean from the center, squared, over the radius squared
_LEAST_WIDTH = 1e-250  # of bounds
_LEAST_MU = 1e-3  # of one row: that of a step is still one that Gaussian noise takes
_TAILS = 1.15  # of forecast noise: real columns have longer tails than normal ones
_MOST_LOST = 0.1  # of all pairs: with more, a release is judged by those that are lost
_LEAST_ROWS = 100.0  # n mu over p, from which on histograms are worth their part of mu
_LOST_VARIANCE = 0.3  # of a correlation of which a column's center is lost


@dataclass(frozen=True)
class NoisySums:
    """Gaussian noise on the second moments of one round.

    Rows lie in a ball of radius R (`two_rounds.rows`), and end with the constant c. Replacing one moves the sum by
    vv' - ww', and ||vv' - ww'||_F^2 = |v|^4 + |w|^4 - 2 (v'w)^2 <= 2 (R^2 + c^2)^2.
    """

    name: str
    gaussian: Gaussian

    @property
    def mu(self) -> float:
        """The most that it may cost a row."""
        return self.gaussian.mu

    def draw(self, statistic: ExactMoments, rng: Keystream) -> NoisyMoments:
        """Return the sum with noise."""
        return self.gaussian.draw(statistic, rng)


@dataclass(frozen=True)
class TwoRound(Mechanism):
    """Gaussian noise on second moments in two rounds, mu-GDP together.

    Attributes
    ----------
    places : tuple of Place
        What is declared of every column.
    most_cells : int
        The most cells that a column's values are counted in.
    columns : tuple of RawColumn
        What is counted in histograms.
    scored : frozenset of str or None
        The raw columns whose links are told by normal scores; where it is None, those that suit them.
    """

    name: ClassVar[str] = "two-round"
    noise: ClassVar[type[MatrixNoise]] = RoundedGaussian
    places_gaps: ClassVar[bool] = True
    strength: GaussianDP
    places: tuple[Place, ...] = ()
    most_cells: int = MOST_CELLS
    columns: tuple[RawColumn, ...] = ()
    scored: frozenset[str] | None = None

    @classmethod
    def settings(cls, policy: Policy, kinds: Kinds) -> dict[str, Any]:
        """Return what the policy declares of the columns' places, of the raw columns, and of their scales."""
        places = tuple(declared_place(policy.column(name)) for name in kinds)
        columns = _raw_columns(policy, kinds)
        return {"places": places, "columns": columns, "scored": policy.privacy.scored(each.name for each in columns)}

    @staticmethod
    def takes(n_columns: int, row_mu: float = 1.0) -> bool:
        """Return whether that many columns have correlations, and sums that fit into memory, and mu is large enough."""
        return 2 <= n_columns <= MOST_COLUMNS and row_mu >= _LEAST_MU

    def check_strength(self) -> None:
        """Refuse a mu for one row outside [1e-3, 1e6], one column or too many, and rows that may come and go."""
        check_mu(self.row_mu)
        n_columns = self.scaling.n_features
        without = " without scale" * (self.scored is not None)
        other = f'mechanism = "gaussian"{without}' if n_columns > 1 else 'release = "rows"'
        if self.row_mu < _LEAST_MU:
            raise PrivacyError(
                f"two rounds take a mu of at least {_LEAST_MU:g} for one row, not {self.row_mu:.6g}: give a weaker "
                f"guarantee, or {other}"
            )
        if not self.takes(n_columns):
            raise PrivacyError(f"two rounds take 2 to {MOST_COLUMNS} columns, not {n_columns}: give {other}")
        if not self.neighbours.n_rows_public:
            raise PrivacyError(
                "two rounds need the number of rows, which add-remove neighbours protect: give mechanism = "
                '"gaussian", or neighbours = "replace-one"'
            )

        if any(place.high - place.low < _LEAST_WIDTH for place in self.places):
            raise PrivacyError(
                f"bounds that are less than {_LEAST_WIDTH:g} apart are too narrow to search for a center within: give "
                "the column in another unit"
            )

    @property
    def row_mu(self) -> float:
        """The mu of one row."""
        return self.strength.mu / self.max_rows

    def spends(self, rows: int, *, replaced: bool = False) -> GaussianDP:  # noqa: ARG002  rows are replaced anyway
        """Return the mu of so many rows, linear in them."""
        return GaussianDP(self.strength.mu * (rows / self.max_rows))

    def shares(self, n_rows: int) -> StepShares:
        """Return the mu of every step, for one row of so many."""
        places = self._known_places(n_rows)
        searched = sum(not place.is_declared for place in places)
        everywhere = sum(place.is_searched_everywhere for place in places)
        return share_out(self.row_mu, n_rows, len(places), searched, everywhere, with_margins=self.has_margins(n_rows))

    def has_margins(self, n_rows: int) -> bool:
        """Return whether there are histograms: where scores are asked for, or rows are enough for them."""
        return bool(self.columns) and (bool(self.scored) or len(self.columns) <= self.most_in_margins(n_rows))

    def most_in_margins(self, n_rows: int) -> int:
        """Return of how many raw columns so many rows are enough for histograms."""
        return int(n_rows * self.row_mu / _LEAST_ROWS)

    def _known_places(self, n_rows: int) -> tuple[Place, ...]:
        return places_of_whole(self.columns, self.places) if self.has_margins(n_rows) else self.places

    def release(self, rows: RawRows, rng: Keystream, witness: Witness) -> NoisyMoments:
        """Return both rounds, from three passes over the table, or four with histograms; see `Mechanism`."""

        def draw(step: Step[Statistic, Outcome], statistic: Statistic) -> Outcome:
            return witness.once(step.name, lambda: step.draw(statistic, rng))

        return self.play(rows, draw, witness)

    def play(self, rows: RawRows, play: Play, witness: Witness) -> NoisyMoments:
        """Return both rounds, with the outcomes that each step is given (`two_rounds.steps`)."""
        # where the columns lie, and where their values are clipped
        counts = rows(partial(_add_up, new=partial(PlaceCounts, self.places, self.most_cells)), PlaceCounts.merged)
        n_rows = counts.n_rows
        if not n_rows:
            raise DataError("the table has no rows to publish")
        shares = self.shares(n_rows)
        witness.drawing()
        places, least = self._known_places(n_rows), least_clip(self.row_mu, n_rows, len(self.places))
        centers, scales, positive = counts.find(places, shares.place, shares.range, play)
        described, clips, floors = None, np.full(len(scales), least), np.zeros(len(scales))
        low, high = np.array([(place.low, place.high) for place in places]).T
        if self.has_margins(n_rows):
            described = self._describe(rows, (centers, scales), n_rows, shares.margins, play)
            low, high, clips, floors = described.low, described.high, described.clips, described.floors
            centers, scales = described.centers, described.scales
            rows = _as_described(rows, described.gaps, described.maps)
        clips = np.minimum(clips, np.maximum(high - centers, centers - low) / scales)
        p = len(clips)

        # the first round, in units that put all clips at the same place
        low, high = np.maximum(low, centers - clips * scales), np.minimum(high, centers + clips * scales)
        typical = math.sqrt(float(np.mean(np.minimum(1.0, 1.0 / clips) ** 2)))  # of a row, in clips, over sqrt(p)
        largest = min(_FIRST_RADII[1] * typical, 1.0)
        clip, units = 1 / (largest * math.sqrt(p)), clips * (largest * math.sqrt(p))
        frame = RoundMap(low, high, centers, scales * units)
        least = _FIRST_RADII[0] * typical / largest
        sums = rows(partial(_sum, frame=frame, least_radius=least, fills=centers), BinnedSums.merged)
        first, _ = self._play_round("first", sums, frame, (shares.choice, shares.first), _OFFSETS[0], play)

        # the second round, in a frame that follows from the first
        mean, covariance, noise = _shown_by(first)
        least_deviation = _LEAST_DEVIATION + _MORE_IN_FEW * scarcity(self.row_mu, n_rows, p) ** 2
        transform, deviations, length = whiten(covariance, noise, np.maximum(floors, least_deviation) / units)
        frame = RoundMap(low, high, mean, scales * units * deviations * (length * _SECOND_RADII[1]), transform)
        least = _SECOND_RADII[0] / _SECOND_RADII[1]
        sums = rows(partial(_sum, frame=frame, least_radius=least, fills=centers), BinnedSums.merged)
        second, chosen = self._play_round("second", sums, frame, (shares.choice, shares.second), _OFFSETS[1], play)
        own = places_after(described.gaps if described else (), len(places))
        beyond = zip(own.tolist(), counts.count_beyond(frame.low[own], frame.high[own]), strict=True)
        clipped = [0 if described and place in described.maps else number for place, number in beyond]
        witness.clipped(int(sums.counts[chosen + 1 :].sum()), clipped)
        total, most = sums.fourth_powers(chosen)
        lengths = NoisyLengths(shares.lengths, most)
        noisy_total = play(lengths, total)

        earlier = FirstRound(
            moments=first,
            clip=clip,
            transform=transform,
            fourth_powers=math.ldexp(noisy_total, -lengths.bits),
            fourth_sigma=math.ldexp(lengths.sigma, -lengths.bits),
            fourth_step=2.0**-lengths.bits,
            choices_mu=shares.choices * self.max_rows,
            described=described,
            positive=positive,
        )
        return replace(second, earlier=earlier)

    def _describe(
        self, rows: RawRows, found: tuple[NDArray[Any], NDArray[Any]], n_rows: int, mu: float, play: Play
    ) -> Described:
        """Return what noisy histograms make of the columns, from one pass over the table."""
        places, least = self._known_places(n_rows), least_clip(self.row_mu, n_rows, len(self.places))
        margins = empty_margins(self.columns, places, *found, mu, n_rows)
        counts = rows(partial(_add_up, new=partial(MarginCounts, self.columns, margins)), MarginCounts.merged)
        step = counts_of(self.columns, mu)
        noisy = play(step, counts.flat)
        return describe_columns(self.columns, places, margins, found, noisy, n_rows, step.sigma, least, self.scored)

    def correlation_noise(self, n_rows: int, spread: float) -> float:
        """Return the noise on n times a correlation, by that of both rounds, and of centers if many are not found.

        Take normal rows of 2 to 100 columns, from 60 sqrt(p) / mu rows on. The standard error that follows was 0.85 to
        1.1 times the simulated one, and up to 1.3 times where columns are related. On six real tables at mu = 1, 0.84
        to 1.05 times (docs/known-limits.md). Declared centers and scales are taken to be right, whatever the spread is.
        """
        p, shares = self.scaling.n_features, self.shares(n_rows)
        shortened = share_shortened(self.row_mu, n_rows, p)
        first = round_noise(p, shortened, shares.first, _FIRST_RADII, _OFFSETS[0])
        second = round_noise(p, shortened, shares.second, _SECOND_RADII, _OFFSETS[1])
        noise = _TAILS / math.hypot(1 / first, 1 / second)

        found = (1 - self.share_lost(n_rows, spread)) ** 2  # of pairs
        return noise if found >= 1 - _MOST_LOST else math.hypot(noise, n_rows * math.sqrt(_LOST_VARIANCE * (1 - found)))

    def share_lost(self, n_rows: int, spread: float) -> float:
        """Return the share of columns whose centers will probably not be found, from public facts alone.

        Parameters
        ----------
        n_rows, spread
            As for `correlation_noise`; normal columns are assumed.
        """
        shares, p = self.shares(n_rows), len(self.places)
        return share_lost(shares.place, n_rows, spread) * shares.n_places / (2 * p) if shares.n_places else 0.0

    def _play_round(
        self, name: str, sums: BinnedSums, frame: RoundMap, mus: tuple[float, float], offset: float, play: Play
    ) -> tuple[NoisyMoments, int]:
        """Return the noisy sum of a round, and the place of its radius: `mus` are of that choice, and of noise."""
        search = radius_search(mus[0], self.row_mu, sums.n_rows, len(frame.centers))
        chosen = play(Choice(f"{name} radius", search.mechanism), search.scores(sums.counts_outside()))
        scaling = scaling_around(frame.centers, frame.half_widths, int(sums.radii[chosen]), offset)
        gaussian = Gaussian(scaling, Neighbours.REPLACE_ONE, GaussianDP(mus[1]))
        return play(NoisySums(f"{name} round", gaussian), sums.moments(chosen, scaling)), chosen


def _add_up(batches: Batches, *, new: Callable[[], Counting]) -> Counting:
    """Return new counts of these rows."""
    counts = new()
    for values in batches:
        counts.add(values)
    return counts


def _raw_columns(policy: Policy, kinds: Kinds) -> tuple[RawColumn, ...]:
    """Return the raw columns behind the published ones."""
    sources, blocks = {each.name: each for each in policy.sources}, blocks_of(policy.sources)
    grouped = dict[str, list[int]]()
    for place, name in enumerate(kinds):
        grouped.setdefault(blocks.get(name, name), []).append(place)
    names, columns = list(kinds), []
    for raw, places in grouped.items():
        source = sources.get(raw)
        labels, has_gap_column = (source.levels, source.has_gap_column) if source is not None else ((), False)
        entry = policy.column(names[places[0]])
        fills = entry.missing == "midpoint" and entry.bounds is None
        waits = fills or entry.missing == "indicator"
        columns.append(RawColumn(raw, tuple(places), labels, has_gap_column, waits, fills and policy.finds_gaps))
    return tuple(columns)


def _as_described(rows: RawRows, gaps: Sequence[int], maps: Mapping[int, Scores]) -> RawRows:
    """Return the rows of a table with gaps indicated and columns in their scores, in every pass."""

    def changed(add: Callable[[Batches], T], merge: Callable[[T, T], T], /) -> T:
        return rows(partial(_add_described, add=add, gaps=gaps, maps=maps), merge)

    return changed


def _add_described(
    batches: Batches, *, add: Callable[[Batches], T], gaps: Sequence[int], maps: Mapping[int, Scores]
) -> T:
    """Return what comes of such rows; pickled where others run it."""
    return add(to_scores(indicate_gaps(values, gaps), maps) for values in batches)


def _sum(batches: Batches, *, frame: RoundMap, least_radius: float, fills: Floats) -> BinnedSums:
    """Return the sums of rows in a frame, for radii from a least one to 1, with gaps filled."""
    p = len(frame.centers)
    sums = BinnedSums(p, radii(least_radius, p))
    for values in _filled(batches, fills):
        sums.add(values, frame)
    return sums


def _filled(batches: Batches, fills: Floats) -> Batches:
    """Yield rows with the columns' centers, which are public by then, in place of gaps."""
    for values in batches:
        gaps = np.isnan(values)
        yield np.where(gaps, fills, values) if gaps.any() else values


def _shown_by(first: NoisyMoments) -> tuple[Floats, Floats, float]:
    """Return what the first round shows: the mean in data units, and the covariance and its noise in half-widths."""
    scaling, noise = first.scaling, first.noise
    variance = noise.off_diagonal_variance or 0.0
    ones = np.ones(scaling.n_features)
    mean, covariance, n_rows = mean_and_covariance(
        first.matrix, 0.0 * ones, ones, scaling.constant, n_rows=first.n_rows, off_diagonal_variance=variance
    )
    return scaling.centers + scaling.half_widths * mean, covariance, math.sqrt(variance) / n_rows


MECHANISM = TwoRound
