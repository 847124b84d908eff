"""The parametric bootstrap of a graph: the same answer however it is run, and what draws find."""

import numpy as np
import pytest

from dp_bundle.base.engine import Engine, Processes, Threads
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.pipeline import stability
from dp_learn.pipeline.learn import Learned, learn_sample
from dp_learn.pipeline.settings import Settings
from dp_learn.pipeline.stability import measure_stability

NAMES = tuple("abcde")


def learned(noise: float = 0.05, fdr: float | None = None) -> Learned:
    """Return the graph of 1500 rows with two links, of 0.45 and of 0.1."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(1500, 5))
    rows[:, 1] += 0.5 * rows[:, 0]
    rows[:, 3] += 0.1 * rows[:, 2]
    return learn_sample(
        Sample([table_rows(rows + np.sqrt(noise) * rng.normal(size=rows.shape), NAMES, noise)]), Settings(), fdr
    )


@pytest.mark.parametrize("engine", [Threads(2), pytest.param(Processes(2), marks=pytest.mark.slow)])
def test_every_engine_gives_the_same(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process, threads and several processes give the same numbers, and a strong link is in every draw."""
    monkeypatch.setattr(stability, "FEWEST", 15)
    graph = learned(fdr=0.05)
    one, other = (measure_stability(graph, 15, engine=each) for each in (Processes(1), engine))

    assert one.frequency[0, 1] == 1.0
    np.testing.assert_array_equal(other.frequency, one.frequency)
    np.testing.assert_array_equal(other.quantiles, one.quantiles)
