"""Transcripts of releases in two rounds: the same steps played again on made-up neighbours of a table.

A transcript is the outcomes of a release's steps, in order, with the statistic that each was drawn from. Played again
on a neighbouring table with the same outcomes, the release shows that table's statistics, and so what every step, given
those before it, tells of the two. All else that is released must follow from the outcomes: the same outcomes on
whatever table of as many rows show the same.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple
from unittest.mock import Mock

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import DpGraphError, PrivacyError
from dp_bundle.manifest.noise import Neighbours, mu_implied_by_epsilon
from dp_publish.accounting.conversions import SLACK
from dp_publish.accounting.strength import GaussianDP
from dp_publish.covariance.mechanisms.two_round import NoisySums, TwoRound
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.two_rounds.margins import RawColumn
from dp_publish.covariance.two_rounds.places import Place
from dp_publish.covariance.two_rounds.steps import Choice, NoisyLengths
from dp_publish.sampling.keystream import Keystream

Floats = NDArray[np.float64]
KINDS = {
    "found": (Place(-30.0, 30.0), Place(0.0, 9.0), Place(-5.0, 1e6)),
    "lattice": (Place(0.0, 40.0, floor=0.5), Place(-3.0, 3.0, floor=0.5)),
    "declared": (Place(-30.0, 30.0, 1.0, 2.0), Place(-30.0, 30.0)),
    "everywhere": (Place(), Place(floor=0.5), Place(), Place(-30.0, 30.0)),
    "scores": (
        Place(-30.0, 30.0),
        *(3 * (Place(-1.0, 1.0, 0.0, 1.0),)),  # a category
        Place(0.0, 40.0, floor=0.5),
        *(Place(-5.0, 1e6), Place(-1.0, 1.0, 0.0, 1.0)),  # a number and its gaps
    ),
}
COUNTED = (
    RawColumn("a", (0,)),
    RawColumn("b", (1, 2, 3), ("x", "y", "z")),
    RawColumn("c", (4,), may_have_gaps=True, tells_gaps=True),
    RawColumn("d", (5, 6), has_gap_column=True, may_have_gaps=True),
)
_ROWS = 300


class Turn(NamedTuple):
    """One step of a release, what its outcome was drawn from, and what came out."""

    step: Any
    statistic: Any
    outcome: Any


def two_rounds(p: int, mu: float = 1.0, max_rows: int = 1, kind: str = "found") -> TwoRound:
    """Return the mechanism for so many columns of a kind."""
    places = tuple(KINDS[kind][index % len(KINDS[kind])] for index in range(p))
    scaling = scaling_for([(place.low, place.high) for place in places])
    return TwoRound(
        scaling,
        Neighbours.REPLACE_ONE,
        GaussianDP(mu),
        max_rows,
        places=places,
        most_cells=1 << 10,
        columns=COUNTED if kind == "scores" else (),
        scored=frozenset({"a", "d"}),
    )


def record(mechanism: TwoRound, table: Floats, rng: Keystream) -> list[Turn]:
    """Return the transcript of one release of a table, in data units, with NaN in gaps."""
    turns: list[Turn] = []

    def play(step: Any, statistic: Any) -> Any:
        turns.append(Turn(step, statistic, step.draw(statistic, rng)))
        return turns[-1].outcome

    mechanism.play(lambda add, _: add(iter([table])), play, Mock())
    return turns


def replay(mechanism: TwoRound, table: Floats, turns: list[Turn]) -> tuple[list[Any], Any]:
    """Return a table's statistics in a transcript's steps, given its outcomes, and what would be released.

    A PrivacyError says that a step on that table is another one, or has other outcomes to choose from.
    """
    statistics: list[Any] = []

    def play(step: Any, statistic: Any) -> Any:
        known = turns[len(statistics)]
        if not is_same(step, known.step) or np.shape(statistic) != np.shape(known.statistic):
            raise PrivacyError(f"the {step.name} step follows from the table itself, not from what was released")
        statistics.append(statistic)
        return known.outcome

    return statistics, mechanism.play(lambda add, _: add(iter([table])), play, Mock())


def is_same(one: Any, other: Any) -> bool:
    """Return True if two settings, such as steps, or two releases are one: number by number, array by array."""
    if is_dataclass(one) and type(one) is type(other):
        return all(is_same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other))


def loss_of(step: Any, one: Any, other: Any) -> float:
    """Return the mu with which a step's law, as it is, tells two statistics apart at the most."""
    if isinstance(step, Choice):  # as a mechanism does whose log-ratios have the range that they have here
        law = step.mechanism.log_probabilities
        return mu_implied_by_epsilon(float(np.ptp(law(one) - law(other))) / 2)
    (mine, sigma), (theirs, _) = noisy_of(step, one), noisy_of(step, other)
    return float(np.linalg.norm(mine - theirs)) / sigma


def noisy_of(step: Any, statistic: Any) -> tuple[Any, float]:
    """Return what a step adds Gaussian noise to, and the noise's standard deviation."""
    if isinstance(step, NoisySums):
        sigma, grid = step.gaussian.sigma_and_grid()
        return grid.round(statistic.steps).astype(np.float64) * grid.step, sigma
    return step.in_units(statistic) if isinstance(step, NoisyLengths) else statistic, step.sigma


def judge_turn(turn: Turn, statistic: Any, n_rows: int = 1) -> tuple[float, str]:
    """Return the exact mu of a step on two tables, and what is wrong with it if so many rows were replaced."""
    step, loss = turn.step, loss_of(turn.step, turn.statistic, statistic)
    if loss > n_rows * step.mu * SLACK:
        return loss, f"a row is told apart by the {step.name} with mu = {loss / n_rows:.4g}, above its {step.mu:.4g}"
    return loss, ""


def faults_of_steps(mechanism: TwoRound, keystream: Keystream) -> Iterator[str]:
    """Yield where a step moves or loses more than it may on made-up neighbours, or follows from the table itself."""
    rng = np.random.default_rng(1)
    stated, neighbours = mechanism.spends(1).mu, [*_neighbours(mechanism, rng)]
    for one, other, n_replaced in (*neighbours, *((b, a, n) for a, b, n in neighbours)):
        turns = record(mechanism, one, keystream)
        try:
            statistics, _ = replay(mechanism, other, turns)
        except DpGraphError as error:
            yield str(error)
            continue
        judged = [judge_turn(*both, n_replaced) for both in zip(turns, statistics, strict=True)]
        yield from (fault for _, fault in judged if fault)
        if math.hypot(*(turn.step.mu for turn in turns)) > stated * SLACK:
            yield "the steps come to more than is stated"

    unlike = _unlike(mechanism.places, rng)
    for own, *others in (unlike, unlike[::-1]):
        turns = record(mechanism, own, keystream)
        try:
            shown = replay(mechanism, own, turns)[1]
            if not all(is_same(replay(mechanism, other, turns)[1], shown) for other in others):
                yield "what is released follows from the table itself, not from the outcomes of the steps"
        except DpGraphError as error:
            yield str(error)


class _Columns:
    """Rows in the bounds of some columns: ordinary ones, and the worst for one step or another."""

    def __init__(self, places: Sequence[Place], rng: np.random.Generator) -> None:
        low, high = np.array([(place.low, place.high) for place in places]).T
        self.middle, self.half, self.rng = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low, rng
        self.odd = np.arange(len(places)) % 2 == 1
        self.typical = self.at(rng.standard_normal((_ROWS, len(places))) / 20)
        together = rng.standard_normal((_ROWS, 1)) + rng.standard_normal((_ROWS, len(places))) / 100
        self.together = self.at(together / 20)
        signs = np.where(self.odd, -1.0, 1.0)
        signs[len(signs) // 2 * 2 :] = 0.0
        self.corner, self.crossing = self.at(1.0), self.at(signs)  # at right angles to each other

    def at(self, share: Any) -> Floats:
        """Return what lies so many half-widths from the middle."""
        with np.errstate(over="ignore"):
            return np.asarray(self.middle + self.half * share)

    def heavy(self, n: int) -> Floats:
        """Return rows with heavy tails, some beyond the bounds."""
        return self.at(self.rng.standard_t(1, (n, len(self.middle))) / 20)

    def with_gaps(self, table: Floats) -> Floats:
        """Return these rows with a gap in every column of most of them, each column's in rows of its own."""
        n, p = table.shape
        return np.where((np.arange(n)[:, None] + np.arange(p)) % 4 > 0, np.nan, table)


def worst_neighbours(places: Sequence[Place]) -> tuple[Floats, Floats]:
    """Return tables told apart best: corners at right angles move both sums most, and centers and scales besides."""
    columns = _Columns(places, np.random.default_rng(2))
    return np.vstack([columns.typical, columns.corner]), np.vstack([columns.typical, columns.crossing])


def _neighbours(mechanism: TwoRound, rng: np.random.Generator) -> Iterator[tuple[Floats, Floats, int]]:
    """Yield pairs of tables that differ in one row, and in as many as a unit may have, and how many those are."""
    columns = _Columns(mechanism.places, rng)
    typical, one, crossing, middle = columns.typical, columns.corner, columns.crossing, columns.middle
    gaps, far = np.full(len(middle), np.nan), np.full(len(middle), np.inf)
    with_gaps, together = columns.with_gaps(typical), columns.together
    cases: list[tuple[Floats, Floats, Floats]] = [
        *((typical[: n - 1], one, crossing) for n in (1, 2, 5, 30, _ROWS)),
        *((typical, one, columns.at(-1.0)), (typical, far, middle), (typical, far, -far), (typical, one, gaps)),
        (np.tile(middle, (_ROWS, 1)), one, middle),  # ties
        (columns.at(rng.integers(-1, 2, typical.shape) / 4), columns.at(0.25), middle),
        (together, middle + 0.5 * (one - middle), middle + 0.5 * (crossing - middle)),
        (together, one, crossing),
        *((with_gaps, np.where(columns.odd, one, np.nan), crossing), (with_gaps, one, crossing)),
        (np.tile(gaps, (_ROWS, 1)), one, crossing),
        *((columns.heavy(int(n)), *columns.heavy(2)) for n in rng.integers(2, 60, 6)),
    ]
    pairs = [(*case, 1) for case in cases] + [(typical, one, crossing, mechanism.max_rows)]

    if mechanism.columns:  # rows that come to another cell of every histogram: no count moves more
        first, last = columns.at(-1.0), columns.at(1.0)
        for places in (list(column.places) for column in mechanism.columns if column.has_level_columns):
            first[places], last[places] = 0.0, 0.0
            first[places[0]] = last[places[-1]] = 1.0
        pairs += [(typical, first, last, n) for n in {1, mechanism.max_rows}]
    for table, row, other, n in pairs:
        yield np.vstack([table, np.tile(row, (n, 1))]), np.vstack([table, np.tile(other, (n, 1))]), n


def _unlike(places: Sequence[Place], rng: np.random.Generator) -> list[Floats]:
    """Return tables of as many rows that differ in all of them: ordinary, heavy, equal, far out, and with gaps."""
    columns = _Columns(places, rng)
    far, heavy = columns.at(np.where(columns.odd, -np.inf, np.inf)), columns.heavy(_ROWS)
    tiled = (np.tile(row, (_ROWS, 1)) for row in (columns.corner, far))
    return [columns.typical, heavy, *tiled, columns.together, columns.with_gaps(heavy)]
