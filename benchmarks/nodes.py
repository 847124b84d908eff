"""Bias and coverage of the measures of nodes, as `dp-learn` reports them, from many simulated releases.

    PYTHONPATH=. OPENBLAS_NUM_THREADS=1 python benchmarks/nodes.py [REPETITIONS] [COLUMNS...]

Gaussian rows of a chain (partial correlations of 0.4 to 0.45) and of a random graph of degree 3 (most of 0.15 to 0.3,
of both signs), of 12 and 30 columns by default, are released as second moments in one round, with bounds at two
standard deviations and mu from 0.5 to 5, and as rows with noise of 0, 0.3 and 1 times the variance, and of what mu = 5
takes for 12 or 30 columns. Every repetition draws rows and noise anew, 30 times by default. Predictability is compared
with that of the truth, strength with the sum of the true partial correlations of the edges that were listed. "known"
is the share of nodes that had an interval; all other figures are of these nodes. The last lines are over all settings.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tests.statistical.worlds import World, chain, names, random_graph

from dp_bundle.base.errors import EstimationError
from dp_learn.covariance.estimate import ReleasedCovariance
from dp_learn.covariance.levels import Levels
from dp_learn.covariance.one_round import OneRound
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import CovarianceSource, table_rows
from dp_learn.pipeline.learn import learn_sample
from dp_learn.pipeline.settings import Settings

SEED = 38
N_COLUMNS = (12, 30)
N_ROWS = (1000, 3000, 10_000)
STRENGTHS = (0.5, 1.0, 2.0, 5.0)  # mu of second moments
NOISE = (0.0, 0.3, 1.0)  # of rows, relative to the variance
BOUND = 2.0  # standard deviations
MEASURES = ("predictability", "strength", "expected_influence")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """A kind of release: its name, and mu of second moments, or the variance of the noise on rows."""

    kind: str
    size: float

    def release(self, world: World, n_rows: int, rng: np.random.Generator) -> Sample:
        """Return a released table of so many rows."""
        rows = world.draw(rng, n_rows)
        columns = names(rows.shape[1])
        if self.kind == "rows":
            noise = math.sqrt(self.size) * rng.normal(size=rows.shape)
            return Sample([table_rows(rows + noise, columns, self.size)])

        p = rows.shape[1]
        variance = ((p + 1) / self.size) ** 2 / 2.0  # of an off-diagonal entry; a row (z, 1) has a norm of p + 1
        law = OneRound(n_rows, np.full(p, BOUND), np.zeros(p), 1.0, 2.0 * variance, variance)
        clean = np.cov(rows, rowvar=False)
        released = ReleasedCovariance(n_rows, clean + law.draw(rng, clean), law)
        return Sample([CovarianceSource(columns, np.zeros(p), released, Levels(columns, ()))])


def settings(n_columns: int) -> Iterator[Setting]:
    """Yield all kinds of releases."""
    yield from (Setting("moments", mu) for mu in STRENGTHS)
    yield from (Setting("rows", variance) for variance in NOISE)
    yield Setting("rows", round((2.0 * BOUND * math.sqrt(n_columns) / STRENGTHS[-1]) ** 2, 1))


def repeat(world: World, setting: Setting, n_rows: int, repetitions: int) -> Iterator[dict[str, Floats] | None]:
    """Yield errors, and whether intervals cover, of every node of each release; None without an estimate."""
    p = len(world.precision)
    rng = np.random.default_rng([SEED, p, n_rows, round(100 * setting.size), setting.kind == "rows"])
    explained = 1.0 - 1.0 / (np.diagonal(np.linalg.inv(world.precision)) * np.diagonal(world.precision))
    partial = world.partial - np.diag(np.diagonal(world.partial))
    for _ in range(repetitions):
        try:
            learned = learn_sample(setting.release(world, n_rows, rng), Settings())
        except EstimationError:
            yield None
            continue
        if learned.measures is None:
            yield None
            continue
        places = [int(name[1:]) for name in learned.estimate.columns]
        signs, within = np.sign(learned.estimate.weights), partial[np.ix_(places, places)]
        truth = {
            "predictability": explained[places],
            "strength": (signs * within).sum(axis=1),
            "expected_influence": (np.abs(signs) * within).sum(axis=1),
        }
        found: dict[str, Floats] = {}
        for name in MEASURES:
            value, low, high = (learned.measures.columns[f"{name}{end}"] for end in ("", "_low", "_high"))
            each = np.full((2, p), np.nan)
            known = ~np.isnan(low)
            covers = (low <= truth[name]) & (truth[name] <= high)
            each[:, places] = np.where(known, [value - truth[name], covers], np.nan)
            found[name] = each
        yield found


def main() -> None:
    """Print a line for each setting, and the means over all of them."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    columns = [int(each) for each in sys.argv[2:]] or N_COLUMNS
    everything: dict[str, list[Floats]] = {name: [] for name in MEASURES}
    print(f"{repetitions} repetitions; known, bias and coverage in % of predictability, strength, expected influence")
    for p in columns:
        for world in (chain, random_graph):
            for setting in settings(p):
                for n_rows in N_ROWS:
                    had = [each for each in repeat(world(p), setting, n_rows, repetitions) if each is not None]
                    line = f"{world.__name__:13}{p:4}{setting.kind:>9}{setting.size:6}{n_rows:7}"
                    for name in MEASURES:
                        line += describe([each[name] for each in had], repetitions * p)
                        everything[name] += [each[name] for each in had]
                    print(line, flush=True)
    for name, each in everything.items():
        print(f"{name:40}{describe(each, sum(one.shape[1] for one in each))}")


def describe(found: list[Floats], n_nodes: int) -> str:
    """Return the share of nodes with an interval, the mean error and the coverage."""
    together = np.hstack(found) if found else np.empty((2, 0))
    known = together[:, ~np.isnan(together[0])]
    if not known.shape[1]:
        return f"{0:6}%{'':16}"
    return f"{100 * known.shape[1] / n_nodes:6.0f}%{known[0].mean():+9.4f}{100 * known[1].mean():7.1f}"


if __name__ == "__main__":
    main()
