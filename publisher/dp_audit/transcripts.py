"""Transcripts of a release in steps, and the same steps played again on another table.

A transcript is the outcomes of a release's steps, in order, with the statistic that each was drawn from. Played again
on a neighbouring table with the same outcomes, the release shows that table's statistics, and so the exact likelihood
ratio of every step given those before it. That of the whole transcript is their product.

All else that is released must follow from the outcomes: the same outcomes on whatever table, near or far, of as many
rows show the same (`replay`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import PrivacyError
from dp_publish.accounting.conversions import SLACK
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.two_round import TwoRound
from dp_publish.covariance.two_rounds.steps import Step
from dp_publish.sampling.keystream import Keystream

_Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Turn:
    """One step of a release, as it was played.

    Attributes
    ----------
    step : Step
        With its law.
    statistic
        What its outcome was drawn from; of a made-up table.
    outcome
        What came out.
    """

    step: Step[Any, Any]
    statistic: Any = field(repr=False)
    outcome: Any = field(repr=False)


def record(mechanism: TwoRound, table: _Floats, rng: Keystream) -> list[Turn]:
    """Return the transcript of one release of a table, in data units, with NaN in gaps."""
    turns: list[Turn] = []

    def play(step: Step[Any, Any], statistic: Any) -> Any:
        turns.append(Turn(step, statistic, step.draw(statistic, rng)))
        return turns[-1].outcome

    mechanism.play(lambda add, _: add(iter([table])), play, _Nobody())
    return turns


def replay(mechanism: TwoRound, table: _Floats, turns: list[Turn]) -> tuple[list[Any], NoisyMoments]:
    """Return a table's statistics in a transcript's steps, given its outcomes, and what would be released.

    Raises
    ------
    PrivacyError
        A step on that table is another one, or has other outcomes to choose from, though all outcomes before it were
        the same: the table decides more than statistics.
    """
    statistics: list[Any] = []

    def play(step: Step[Any, Any], statistic: Any) -> Any:
        known = turns[len(statistics)]
        if not is_same(step, known.step) or np.shape(statistic) != np.shape(known.statistic):
            raise PrivacyError(f"the {step.name} step follows from the table itself, not from what was released")
        statistics.append(statistic)
        return known.outcome

    return statistics, mechanism.play(lambda add, _: add(iter([table])), play, _Nobody())


def is_same(one: Any, other: Any) -> bool:
    """Return True if two settings, such as steps, or two releases are one: number by number, array by array."""
    if is_dataclass(one) and type(one) is type(other):
        return all(is_same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    return bool(np.array_equal(one, other))


def judge_turn(turn: Turn, statistic: Any, n_rows: int = 1) -> tuple[float, str]:
    """Return the exact mu of a step on two tables, and what is wrong with it, or nothing.

    Parameters
    ----------
    turn : Turn
        On one table.
    statistic
        That of another one, with so many rows replaced.
    n_rows : int
        A step may move, and lose, as many times as much.
    """
    step = turn.step
    moved, loss = step.moved(turn.statistic, statistic), step.loss(turn.statistic, statistic)
    if moved > n_rows * step.sensitivity:
        by = f"{moved / n_rows:.4g}, above its {step.sensitivity:.4g}"
        return loss, f"a row moves the statistic of the {step.name} by {by}"
    if loss > n_rows * step.mu * SLACK:
        return loss, f"a row is told apart by the {step.name} with mu = {loss / n_rows:.4g}, above its {step.mu:.4g}"
    return loss, ""


def log_ratio(turns: list[Turn], statistics: list[Any]) -> float:
    """Return the logarithm of how much likelier a transcript is by its own table than by another one."""
    return sum(
        turn.step.log_density(turn.outcome, turn.statistic) - turn.step.log_density(turn.outcome, other)
        for turn, other in zip(turns, statistics, strict=True)
    )


class _Nobody:
    """The witness of a release that is not published."""

    def drawing(self) -> None:
        """Do nothing."""

    def clipped(self, n_rows: int, values: Sequence[int] = ()) -> None:
        """Do nothing."""
