"""A release in two rounds, from the rows to both matrices; and histograms: what a row moves, and what it becomes."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from dp_bundle.base.errors import DataError, PrivacyError
from dp_bundle.manifest.noise import Neighbours
from dp_publish import Policy
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.calibration import set_mechanism
from dp_publish.covariance.mechanisms.base import Batches, NoisyMoments
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.two_rounds.margins import (
    MOST_WHOLE,
    Described,
    MarginCounts,
    RawColumn,
    describe_columns,
    empty_margins,
    places_of_whole,
)
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.sampling.keystream import insecure_keystream

T = TypeVar("T")
BOUNDS = (-10.0, 30.0)
MEANS, SCALES = np.array([4.0, 0.0, -2.0]), np.array([3.0, 0.1, 1.0])


class Passes:
    """Rows in batches, and how often they were read."""

    def __init__(self, values: NDArray[np.float64], batch: int = 700) -> None:
        self.values, self.batch, self.n_passes = values, batch, 0

    def __call__(self, add: Callable[[Batches], T], merge: Callable[[T, T], T]) -> T:
        """Read them once more, in two runs."""
        self.n_passes += 1
        batches = [self.values[start : start + self.batch] for start in range(0, len(self.values), self.batch)]
        half = len(batches) // 2
        return merge(add(iter(batches[half:])), add(iter(batches[:half])))


class Watch:
    """What a release tells."""

    def __init__(self) -> None:
        self.drawn, self.n_clipped = False, -1

    @staticmethod
    def once(_name: str, draw: Any) -> Any:
        """Draw."""
        return draw()

    def drawing(self) -> None:
        """Note it."""
        self.drawn = True

    def clipped(self, n_rows: int, values: Sequence[int] = ()) -> None:  # noqa: ARG002
        """Note them."""
        self.n_clipped = n_rows


def chain(n: int) -> NDArray[np.float64]:
    """Return rows of a chain of three columns of unequal scales."""
    rng = np.random.default_rng(6)
    correlation = 0.6 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    return MEANS + SCALES * rng.multivariate_normal(np.zeros(3), correlation, n)


def mechanism(mu: float = 1.0, *, declared: bool = False, max_rows: int = 1) -> TwoRound:
    """Return the mechanism for three columns."""
    known = zip(MEANS.tolist(), SCALES.tolist(), strict=True)
    places = [Place(*BOUNDS, *place) if declared else Place(*BOUNDS) for place in known]
    scaling = scaling_for([BOUNDS] * 3)
    return TwoRound(scaling, Neighbours.REPLACE_ONE, GaussianDP(mu), max_rows, places=tuple(places))


def release(rows: Passes, kind: TwoRound, seed: int = 1) -> tuple[NoisyMoments, Watch]:
    """Return a release, and what it told."""
    watch = Watch()
    return kind.release(rows, insecure_keystream(seed), watch), watch


def test_it_takes_three_passes() -> None:
    """The table is read three times, in batches that make no difference; the publisher is told what was shortened."""
    passes = [Passes(chain(2000), batch) for batch in (700, 37)]
    (released, watch), (other, _) = (release(rows, mechanism()) for rows in passes)
    assert [rows.n_passes for rows in passes] == [3, 3]
    assert watch.drawn
    assert 0 < watch.n_clipped < 1000
    assert (released.matrix == other.matrix).all()
    assert (released.earlier.transform == other.earlier.transform).all()
    assert released.earlier.fourth_powers == other.earlier.fourth_powers


@pytest.mark.parametrize("bounds", [(), (-1e12, 1e15), (0.0, 2.0**52)], ids=["none", "wide", "half"])
def test_a_scale_is_not_floored_by_the_width_of_bounds(bounds: tuple[float, ...]) -> None:
    """Without bounds, or within bounds a million million times too wide, scales are found all the same."""
    kind = replace(mechanism(), places=(Place(*bounds),) * 3)
    released, _ = release(Passes(np.abs(chain(20_000) + 50.0)), kind)
    scaling, clip = released.earlier.moments.scaling, released.earlier.clip
    assert scaling.centers == pytest.approx(MEANS + 50.0, abs=0.5 * SCALES.max())
    assert (clip * scaling.half_widths / SCALES > 3.0).all()  # what values are clipped to
    assert (clip * scaling.half_widths / SCALES < 30.0).all()


def test_declared_places_are_used_and_cost_nothing() -> None:
    """Declared centers and scales are taken as they are, one row be the centers, and only radii are then chosen."""
    released, _ = release(Passes(np.vstack([MEANS, chain(500)])), mechanism(declared=True))
    assert released.earlier.moments.scaling.centers.tolist() == MEANS.tolist()
    assert released.earlier.choices_mu == pytest.approx((2 * 0.0075) ** 0.5)


def test_what_it_cannot_serve_is_refused() -> None:
    """A tiny mu, one column, a tiny unit, and a table without rows get a sentence each."""
    with pytest.raises(PrivacyError, match="mu"):
        mechanism(0.0009)
    with pytest.raises(PrivacyError, match="columns"):
        TwoRound(scaling_for([BOUNDS]), Neighbours.REPLACE_ONE, GaussianDP(1.0), places=(Place(*BOUNDS),))
    with pytest.raises(PrivacyError, match="another unit"):
        TwoRound(scaling_for([BOUNDS] * 2), Neighbours.REPLACE_ONE, GaussianDP(1.0), places=(Place(0.0, 1e-320),) * 2)
    with pytest.raises(DataError, match="no rows"):
        release(Passes(np.empty((0, 3))), mechanism())


def test_a_weak_strength_has_noise_that_can_be_drawn() -> None:
    """Lengths are cut to larger units where their noise would be too wide to draw."""
    earlier = release(Passes(chain(200)), mechanism(1e-3))[0].earlier
    assert earlier is not None
    assert earlier.fourth_sigma / earlier.fourth_step < 2**30
    assert earlier.fourth_powers % earlier.fourth_step == 0


GRADE = RawColumn("grade", (1,), ("low", "middle", "high"))
COLUMNS = (
    RawColumn("x", (0,), may_have_gaps=True, tells_gaps=True),
    GRADE,
    RawColumn("town", (2, 3, 4), ("a", "b", "c")),
    RawColumn("pay", (5, 6), has_gap_column=True, may_have_gaps=True),
)
LEVEL = Place(-1.0, 1.0, 0.0, 1.0)
PLACES = (Place(-8.0, 8.0, 0.0, 1.0), Place(0.0, 2.0, floor=0.5), *(3 * (LEVEL,)), Place(0.0, 9.0, 3.0, 2.0), LEVEL)
CENTERS, WIDTHS = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 3.0, 0.0]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0])
MU, N_ROWS = 0.5, 5


def row(x: float, grade: int, town: int, pay: float) -> list[float]:
    """Return a row as it is published."""
    return [x, grade, *np.eye(3)[town], pay, float(math.isnan(pay))]


ALL_ROWS = [
    row(*each)
    for each in itertools.product([-np.inf, -3.0, np.nan, 7.9], range(3), range(3), [np.nan, 0.0, 3.5, 9.0, np.inf])
]


def cells(mu: float = MU, n_rows: int = N_ROWS) -> Any:
    """Return the cells of all raw columns."""
    return empty_margins(COLUMNS, places_of_whole(COLUMNS, PLACES), CENTERS, WIDTHS, mu, n_rows)


def counts(rows: Any) -> MarginCounts:
    """Return the counts of some rows."""
    counted = MarginCounts(COLUMNS, cells())
    counted.add(np.array(rows, dtype=float))
    return counted


def test_every_row_is_in_one_cell_of_every_column() -> None:
    """Each histogram counts every row once: gaps, values far out, and those beyond their bounds."""
    margins, flat = cells(), counts(ALL_ROWS).flat
    ends = np.cumsum([len(margin.counts) for margin in margins])[:-1]
    assert [part.sum() for part in np.split(flat, ends)] == [len(ALL_ROWS)] * len(COLUMNS)
    gaps = [margin.has_gaps for margin in margins]
    assert gaps == [True, False, False, True]
    assert flat[-1] == len(ALL_ROWS) // 5  # those without pay
    assert np.split(flat, ends)[2].tolist() == [len(ALL_ROWS) // 3] * 3


def test_levels_and_few_whole_numbers_have_cells_of_their_own() -> None:
    """Each of up to 64 whole numbers, and each level in an order however many, is counted alone, and not looked for."""
    many = tuple(map(str, range(200)))
    columns = (RawColumn("a", (0,)), RawColumn("b", (1,)), RawColumn("c", (2,), many))
    places = (Place(-3.0, 60.0, floor=0.5), Place(0.0, MOST_WHOLE, floor=0.5), Place(0.0, 199.0, floor=0.5))
    settled = places_of_whole(columns, places)
    assert [place.is_declared for place in settled] == [True, False, True]
    few, _, levels = empty_margins(columns, settled, np.array([1.0, 9.0, 9.0]), np.array([1.0, 9.0, 9.0]), 1.0, 10)
    assert few.edges.tolist() == np.arange(-2.5, 60.0).tolist()
    assert levels.edges.tolist() == np.arange(0.5, 199.0).tolist()
    assert len(levels.counts) == len(many)


@pytest.mark.parametrize(
    ("place", "center", "scale"),
    [
        (Place(-8e307, 8e307), 1e307, 1.5e308),
        (Place(0.0, 1.0), 0.5, 1e-300),
        (Place(1e15, 1e15 + 64), 1e15, 3.0),
        (Place(-(2.0**53), 2.0**53, floor=0.5), 0.0, 2.0**53),
        (Place(), 2.0**52, 2.0**53),
    ],
)
def test_cells_of_any_place_are_finite(place: Place, center: float, scale: float) -> None:
    """Whatever the bounds, the center and the scale, ends are finite, within the bounds, and rise."""
    (margin,) = empty_margins((RawColumn("x", (0,)),), (place,), np.array([center]), np.array([scale]), 1.0, 10**4)
    assert np.isfinite(margin.edges).all()
    assert (np.diff(margin.edges) > 0).all()
    assert ((place.low < margin.edges) & (margin.edges < place.high)).all()
    assert len(margin.counts) == len(margin.edges) + 1


def describe(margins: Any, noisy: Any, n_rows: int, sigma: float, scored: Any = None) -> Described:
    """Return what noisy counts make of the columns, with a least clip of two scales."""
    places = places_of_whole(COLUMNS, PLACES)
    return describe_columns(COLUMNS, places, margins, (CENTERS, WIDTHS), noisy, n_rows, sigma, 2.0, scored)


def test_scores_rise_and_lie_between_their_ends() -> None:
    """Scores of noisy counts never fall along the cells; ends, means and deviations are theirs, and all are finite."""
    rng, margins = np.random.default_rng(3), cells(9.0, 10**4)
    assert len(margins[0].counts) > len(cells()[0].counts)  # finer, as the noise is less
    n_counts = sum(len(margin.counts) for margin in margins)
    for scale in (3.0, 1000.0, 0.0):
        noisy = np.rint(rng.normal(0.0, scale, n_counts)).astype(np.int64)
        scored = describe(margins, noisy, 10**4, scale or 1.0, {each.name for each in COLUMNS})
        assert set(scored.maps) == {0, 1, 5}
        for place, scores in scored.maps.items():
            assert (np.diff(scores.scores) >= 0).all()
            assert scored.low[place] <= scores.scores.min() <= scores.scores.max() <= scored.high[place]
        assert (scored.low <= scored.centers).all()
        assert (scored.centers <= scored.high).all()
        assert (scored.low < scored.high).all()
        assert np.isfinite(scored.scales).all()
        assert (scored.scales > 0).all()


def scored_mechanism(mu: float = 1.0) -> TwoRound:
    """Return the mechanism for these columns."""
    scaling = scaling_for([(place.low, place.high) for place in PLACES])
    every = frozenset(each.name for each in COLUMNS)
    return TwoRound(scaling, Neighbours.REPLACE_ONE, GaussianDP(mu), places=PLACES, columns=COLUMNS, scored=every)


def test_a_row_becomes_the_same_in_every_pass() -> None:
    """However rows come in batches, and laid out in memory, all that is released is the same to the last bit."""
    rng = np.random.default_rng(2)
    table = np.array([ALL_ROWS[place] for place in rng.integers(0, len(ALL_ROWS), 900)])
    table[:, 0] += rng.standard_t(2, 900)
    passes = [Passes(table, 900), Passes(table, 37), Passes(np.asfortranarray(table), 101)]
    one, *others = (release(each, scored_mechanism())[0] for each in passes)
    assert [each.n_passes for each in passes] == [4, 4, 4]
    for other in others:
        assert (one.matrix == other.matrix).all()
        assert (one.earlier.moments.matrix == other.earlier.moments.matrix).all()
        assert one.earlier.described.gaps == other.earlier.described.gaps == (0,)
        pairs = zip(one.earlier.described.margins, other.earlier.described.margins, strict=True)
        assert all((own.counts == others.counts).all() for own, others in pairs)


@pytest.mark.parametrize(
    ("n_columns", "mu", "instead"),
    [(1, 1.0, 'release = "rows"'), (2049, 1.0, 'mechanism = "gaussian"'), (3, 1e-4, 'mechanism = "gaussian"')],
)
def test_no_other_mechanism_takes_its_place(n_columns: int, mu: float, instead: str) -> None:
    """Where two rounds are impossible, scores are refused before anything is paid for, with what to ask for instead."""
    columns = {f"x{place}": {"bounds": [0, 1]} for place in range(n_columns)}
    document = {"dataset": {"name": "d"}, "privacy": {"scale": "scores", "mu": mu}, "columns": columns}
    with pytest.raises(PrivacyError, match=instead):
        set_mechanism(Policy.model_validate(document), dict.fromkeys(columns, "continuous"), lambda: 10)


def described(values: Any, *, whole: bool = False, scored: Any = ()) -> Described:
    """Return what a nearly noiseless histogram makes of a column around 0, of scale 1."""
    columns = (RawColumn("x", (0,)),)
    places = (Place(0.0, 20.0, floor=0.5) if whole else Place(-1e6, 1e6, 0.0, 1.0),)
    margins = empty_margins(columns, places, np.zeros(1), np.ones(1), 5.0, len(values))
    counts = MarginCounts(columns, margins)
    counts.add(np.asarray(values, dtype=np.float64)[:, None])
    found = np.zeros(1), np.ones(1)
    return describe_columns(columns, places, margins, found, counts.flat, len(values), 0.3, 2.0, scored)


def test_column_is_clipped_where_counts_stand_out_no_more() -> None:
    """Rare values that are far out are kept, and one that is alone is not."""
    values = np.random.default_rng(1).normal(0.0, 0.7, 2000)
    rare, one = values.copy(), values.copy()
    rare[:50], one[0] = 30.0, 30.0
    assert described(values).clips == 2.0 * 1.25**3
    assert 30.0 <= described(rare).clips < 30.0 * 1.25**4
    assert described(one).clips < 5.0
    assert described(np.arange(2000) < 40, whole=True).floors < 1.0  # ones are 7 deviations off, and nothing is beyond


def test_scores_are_for_many_values_far_from_normal() -> None:
    """Long tails and skewed columns have scores; normal ones, and those of few values, whatever their shape, do not."""
    rng = np.random.default_rng(2)
    kinds = [
        (np.exp(rng.normal(size=5000)), False, True),
        (rng.standard_t(2, 5000), False, True),
        (rng.normal(size=5000), False, False),
        (rng.random(5000) < 0.1, True, False),
        (rng.poisson(0.5, 5000), True, False),
    ]
    for values, whole, scored in kinds:
        assert bool(described(values, whole=whole, scored=None).maps) == scored
