"""Faults planted in histograms of all columns, or in what follows from these."""

import operator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dp_publish.covariance.mechanisms import two_round
from dp_publish.covariance.two_rounds import margins, steps
from faults_of_two_rounds import for_nothing
from planting import Plant, instead_of

__all__ = ["FAULTS_OF_MARGINS"]

_TENTHS = np.arange(1, 10) / 10


def _values(batches: Any) -> list[np.ndarray]:
    return [values.copy() for values in batches]


def _cells_of_the_data(patch: pytest.MonkeyPatch) -> None:
    honest, honest_cells = two_round.TwoRound._describe, two_round.empty_margins

    def describe(self: Any, rows: Any, *rest: Any) -> Any:
        table = np.concatenate(rows(_values, operator.add))

        def cells(columns: Any, *rest: Any) -> Any:
            made = []
            for column, margin in zip(columns, honest_cells(columns, *rest), strict=True):
                own = table[:, column.places[0]]
                own = own[np.isfinite(own)]
                if column.has_level_columns or not own.size:
                    made.append(margin)
                    continue
                edges = np.unique(np.quantile(own, _TENTHS))
                made.append(replace(margin, edges=edges, counts=np.zeros(len(edges) + 1 + margin.has_gaps, np.int64)))
            return tuple(made)

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(two_round, "empty_margins", cells)
            return honest(self, rows, *rest)

    patch.setattr(two_round.TwoRound, "_describe", describe)


def _scores_with_jitter(patch: pytest.MonkeyPatch) -> None:
    honest, rng = two_round.to_scores, np.random.default_rng()

    def to_scores(values: np.ndarray, maps: Any) -> np.ndarray:
        mapped = honest(values, maps)
        for place in maps:
            mapped[:, place] += rng.uniform(-0.1, 0.1, len(mapped))
        return mapped

    patch.setattr(two_round, "to_scores", to_scores)


@instead_of("add", margins.MarginCounts)
def _gaps_in_no_cell(honest: Any, self: Any, values: np.ndarray) -> None:
    honest(self, values)
    for column, margin, counts in zip(self._columns, self._margins, self._counts, strict=True):
        if margin.has_gaps:
            counts[-1] -= np.count_nonzero(np.isnan(values[:, column.places[0]]))


def _sensitivity_of_one_column(patch: pytest.MonkeyPatch) -> None:
    for owner in (two_round, margins):
        patch.setattr(owner, "counts_of", lambda _columns, mu: steps.NoisyCounts("margins", mu))


@instead_of("add", margins.MarginCounts)
def _counted_twice(honest: Any, self: Any, values: np.ndarray) -> None:
    before = self._counts[0].copy()
    honest(self, values)
    self._counts[0] += self._counts[0] - before


@instead_of("draw", steps.NoisyCounts)
def _no_noise_in_one_column(honest: Any, self: Any, statistic: np.ndarray, rng: Any) -> np.ndarray:
    noisy = honest(self, statistic, rng)
    first = statistic.size // 3 if self.name == "margins" else 0
    return np.concatenate([statistic[:first], noisy[first:]])


def _scores_of_clean_counts(patch: pytest.MonkeyPatch) -> None:
    honest, honest_columns, clean = two_round.TwoRound._describe, two_round.describe_columns, {}

    def describe(self: Any, *rest: Any) -> Any:
        *others, play = rest

        def noting(step: Any, statistic: Any) -> Any:
            clean["counts"] = statistic
            return play(step, statistic)

        return honest(self, *others, noting)

    def describe_columns(*given: Any) -> Any:
        published = honest_columns(*given)
        return replace(honest_columns(*given[:4], clean["counts"], *given[5:]), margins=published.margins)

    patch.setattr(two_round.TwoRound, "_describe", describe)
    patch.setattr(two_round, "describe_columns", describe_columns)


FAULTS_OF_MARGINS: dict[str, Plant] = {
    "the cells of histograms are read off the data": _cells_of_the_data,
    "scores have jitter that is drawn anew in each pass": _scores_with_jitter,
    "a gap is in no cell of its histogram": _gaps_in_no_cell,
    "histograms have the sensitivity of one column": _sensitivity_of_one_column,
    "a histogram counts every row twice": _counted_twice,
    "one column's histogram has no noise": _no_noise_in_one_column,
    "scores follow from the counts without noise": _scores_of_clean_counts,
    "histograms cost nothing": for_nothing("choices", "lengths", "first", "second"),
}
