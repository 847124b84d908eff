"""What is found of columns costs no more than is stated, by computations of its own; and faults in it are found."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.property.test_reading import all_or_none, first_mark

from dp_publish import Policy
from dp_publish.covariance.two_rounds import steps
from dp_publish.data import typed
from dp_publish.data.table import Table, open_table
from dp_publish.discovery import finding, levels
from dp_publish.discovery.finding import Told, decide, discover
from dp_publish.policy.columns import resolve
from dp_publish.policy.model import Sought
from dp_publish.policy.open_columns import find_candidates
from dp_publish.sampling.keystream import insecure_keystream

CELLS = [
    *(
        "",
        "NA",
        "7",
        "-3",
        "2.5",
        "1,5",
        "yes",
        "2024-01-31",
        "01.02.2024",
        "05/06/2024",
        "01067",
        "word",
        "inf",
        "-Inf",
    ),
    *(
        "2,047",
        "1.234,5",
        "12 %",
        "$5",
        "<2.5",
        "9999-12-31",
        "2024-01-31 12:00",
        "2024-01-31 12:00:00.1234567",
        "..",
        "1e400",
    ),
]


def made_up(rng: np.random.Generator, n: int, p: int) -> pd.DataFrame:
    """Return a table of text: columns of words with frequent and rare values, of all kinds of cells, and of numbers."""
    columns = {}
    for column in range(p):
        if column % 3 == 2:
            columns[f"c{column}"] = rng.choice(["inf", "7", "-3", "2.5"], n, p=[0.1, 0.3, 0.3, 0.3])
        elif column % 2:
            columns[f"c{column}"] = rng.choice(CELLS, n, p=rng.dirichlet(np.full(len(CELLS), 0.3)))
        else:
            columns[f"c{column}"] = [f"level {number}" for number in rng.geometric(0.3, n)]
    return pd.DataFrame(columns)


def neighbour(rng: np.random.Generator, frame: pd.DataFrame, max_rows: int) -> pd.DataFrame:
    """Return the table with one unit's rows replaced: by those of nobody, of everybody, or of a word of its own."""
    other = frame.copy()
    rows = rng.choice(len(frame), max_rows, replace=False)
    for name in frame:
        fresh = rng.choice([*CELLS, "a name of one's own", str(frame[name].iloc[0])], max_rows)
        other.loc[rows, name] = fresh if rng.random() < 0.7 else fresh[0]
    return other


class Opened:
    """A made-up table, opened as the text file that it would be."""

    def __init__(self, frame: pd.DataFrame, tmp_path: Any, mu: float, max_rows: int) -> None:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
        frame.to_csv(path, index=False)
        self.frame, self.max_rows = frame, max_rows
        unit: Any = "row" if max_rows == 1 else {"entity": "nobody", "max_rows": max_rows}
        privacy = {"release": "covariance", "mu": mu, "unit": unit}
        self.policy = Policy.model_validate({"dataset": {"name": "t"}, "privacy": privacy})
        self.table: Table = open_table(path)
        self.found: Sought = find_candidates(self.table, self.policy)

    def run(self, play: Callable[[Any, Any], Any]) -> Told:
        """Return what the steps told, each with the outcome that it is given."""
        return discover(self.table, lambda kinds: self.table.read(kinds, 1000), self.policy, self.found, play)

    def values(self, told: Told) -> list[list[str]]:
        """Return the values of every column and row, once their kinds are known."""
        found = decide(self.table, self.policy, self.found, told)
        table, policy = resolve(found.table, found.policy)
        kinds = {name: "continuous" for name in table.types if not policy.column(name).drop}
        columns = next(table.read(kinds, 1000)).columns if kinds else []
        return [list(map(str, column.to_pylist())) for column in columns]


def check(rng: np.random.Generator, tmp_path: Any, max_rows: int = 1) -> list[str]:
    """Return what is wrong with what is found of one made-up table: with its cost, its delta, or its noise."""
    n, p, mu = int(rng.integers(150, 400)), int(rng.integers(2, 7)), float(rng.choice([0.3, 1.0, 4.0]))
    one = Opened(made_up(rng, n, p), tmp_path, mu, max_rows)
    two = Opened(neighbour(rng, one.frame, max_rows), tmp_path, mu, max_rows)

    # the outcomes of one table, and the statistics of both in the same steps
    keystream, drawn, first, second = insecure_keystream(int(rng.integers(1 << 30))), [], [], []

    def draw(step: Any, statistic: Any) -> Any:
        first.append((step, statistic))
        drawn.append(step.draw(statistic, keystream))
        return drawn[-1]

    told, again = one.run(draw), iter([])

    def replay(step: Any, statistic: Any) -> Any:
        second.append((step, statistic))
        return next(again)

    again = iter(drawn)
    two.run(replay)
    stated = decide(one.table, one.policy, one.found, told)

    # 1. the cost of both steps, from the counts alone
    found, wrong, square = stated.discovery, [], 0.0
    for (step, mine), (_, theirs) in zip(first, second, strict=True):
        if step.name == "levels":
            for here, there in zip(mine, theirs, strict=True):
                both = set(here) & set(there)
                square += sum((here[value] - there[value]) ** 2 for value in both) / found.levels_sigma**2
            wrong += _check_delta(mine, theirs, found, max_rows)
        else:
            square += float(np.sum((np.asarray(mine, float) - theirs) ** 2)) / found.counts_sigma**2
    if math.sqrt(square) > found.mu(max_rows) * (1 + 1e-9):
        wrong.append("cost")
    if math.hypot(found.mu(max_rows), stated.policy.privacy.mu) > mu * (1 + 1e-9):
        wrong.append("total")

    # 2. the values of all other rows, which the release is made of
    same = (one.frame == two.frame).all(axis=1).tolist()
    for mine, theirs in zip(one.values(told), two.values(told), strict=True):
        if len(mine) != n or any(kept and a != b for kept, a, b in zip(same, mine, theirs, strict=True)):
            wrong.append("reading")

    # 3. the noise: of the stated size on every count that is told
    for step, mine in first:
        sigma = found.levels_sigma if step.name == "levels" else found.counts_sigma
        deviates = _deviates(step, mine, sigma, insecure_keystream(int(rng.integers(1 << 30))))
        if len(deviates) > 30 and stats.kstest(deviates, "norm").pvalue < 1e-6:
            wrong.append(f"noise on {step.name}")
    return wrong


def _check_delta(mine: Any, theirs: Any, found: Any, max_rows: int) -> list[str]:
    """Return whether values of one unit alone are told with more than half of the excepted delta."""
    alone = [
        here[value]
        for one, two in ((mine, theirs), (theirs, mine))
        for here, there in zip(one, two, strict=True)
        for value in set(here) - set(there)
    ]
    chance = sum(stats.norm.sf((found.threshold - 0.5 - number) / found.levels_sigma) for number in alone)
    return ["delta"] if chance > 2.0**-40 or found.excepted_delta(max_rows) > 2.0**-40 else []


def _deviates(step: Any, statistic: Any, sigma: float, keystream: Any) -> list[float]:
    """Return the noise of a few outcomes, in its stated standard deviations; of levels that are always told."""
    deviates: list[float] = []
    for _ in range(8):
        outcome = step.draw(statistic, keystream)
        if step.name != "levels":
            deviates += ((np.asarray(outcome) - statistic) / sigma).ravel().tolist()
            continue
        for told, counts in zip(outcome, statistic, strict=True):
            sure = [value for value, number in counts.items() if number > step.threshold + 6 * sigma]
            deviates += [(told[value] - counts[value]) / sigma for value in sure]
    jitter = np.random.default_rng(1).uniform(-0.5, 0.5, len(deviates)) / sigma  # of rounding
    return (np.array(deviates) + jitter).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("max_rows", "n_tables"), [(5, 100), pytest.param(1, 500, marks=pytest.mark.long)])
def test_the_real_cost_is_at_most_the_stated_one(max_rows: int, n_tables: int, tmp_path: Any) -> None:
    """Over random tables and hostile neighbours, by a computation from the counts; no other row changes."""
    rng = np.random.default_rng(max_rows)
    assert [wrong for _ in range(n_tables) for wrong in check(rng, tmp_path, max_rows)] == []


def _exact_levels(patch: pytest.MonkeyPatch) -> None:
    def draw(self: Any, statistic: Any, _rng: Any) -> Any:
        return [{value: number for value, number in counts.items() if number >= self.threshold} for counts in statistic]

    patch.setattr(levels.NoisyLevels, "draw", draw)


def _exact_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps.NoisyCounts, "draw", lambda _self, statistic, _rng: statistic)


def _no_threshold(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(levels.NoisyLevels, "threshold", property(lambda self: math.ceil(3 * self.sigma)))


def _one_column_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sought, "square", property(lambda _self: 2.0))


def _one_column_of_levels(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(levels.NoisyLevels, "sensitivity", property(lambda _self: math.sqrt(2)))


def _cap_forgotten(patch: pytest.MonkeyPatch) -> None:
    honest = finding.share_mu
    patch.setattr(finding, "share_mu", lambda mu, *rest: honest(5 * mu, *rest))  # of five rows


def _rows_forgotten_in_levels(patch: pytest.MonkeyPatch) -> None:
    honest = finding.Steps.levels
    patch.setattr(finding.Steps, "levels", lambda *rest: replace(honest(*rest), max_rows=1))


def _spent_twice(patch: pytest.MonkeyPatch) -> None:
    honest = finding.Steps.shares
    patch.setattr(finding.Steps, "shares", lambda *rest: replace(honest(*rest), rest=1.0))


def _infinite_by_batch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(typed, "read_numbers", all_or_none)


def _mark_by_batch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(typed, "read_numbers", first_mark)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "max_rows", "wrong"),
    [
        (_exact_levels, 1, "noise on levels"),
        (_no_threshold, 1, "delta"),
        (_cap_forgotten, 5, "total"),
        (_infinite_by_batch, 1, "reading"),
        (_mark_by_batch, 1, "reading"),
        pytest.param(_exact_counts, 1, "noise on looks and gaps", marks=pytest.mark.long),
        pytest.param(_one_column_alone, 1, "total", marks=pytest.mark.long),
        pytest.param(_one_column_of_levels, 1, "total", marks=pytest.mark.long),
        pytest.param(_rows_forgotten_in_levels, 5, "delta", marks=pytest.mark.long),
        pytest.param(_spent_twice, 1, "total", marks=pytest.mark.long),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    max_rows: int,
    wrong: str,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them by the check that is about it."""
    plant(monkeypatch)
    rng = np.random.default_rng(3)
    assert wrong in [each for _ in range(40) for each in check(rng, tmp_path, max_rows)]
