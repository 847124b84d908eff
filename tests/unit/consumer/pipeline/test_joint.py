"""Joint graphs of a few periods, from rows with unequal noise to graphs and changes."""

from dataclasses import replace

import numpy as np
import pytest

from dp_bundle.base.errors import NoSolutionError, ParameterError, SchemaError
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.glasso.joint import Kind
from dp_learn.pipeline.joint import Joint, Order, Periods, learn_joint, learn_periods, select_in_stages

P, N_PERIODS = 7, 6
NAMES = [f"v{place}" for place in range(P)]


def partial(period: int) -> np.ndarray:
    """Return the true partial correlations: a chain, of which one link goes and another comes after three periods."""
    links = np.diag(np.full(P - 1, 0.35), 1)
    links[0, 1], links[0, 6] = (0.35, 0.0) if period < 3 else (0.0, -0.35)
    return np.asarray(links + links.T)


def draw(seed: int, rows: tuple[int, ...], noise: tuple[float, ...]) -> list[Sample]:
    """Return noisy rows of all periods."""
    samples = []
    for period in range(N_PERIODS):
        rng = np.random.default_rng([seed, period])
        clean = rng.multivariate_normal(np.zeros(P), np.linalg.inv(np.eye(P) - partial(period)), size=rows[period])
        noisy = clean + np.sqrt(noise[period]) * rng.normal(size=clean.shape)
        samples.append(Sample([table_rows(noisy, NAMES, noise[period])]))
    return samples


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    """Return all periods, with unequal rows and noise."""
    return draw(0, (800, 2000, 1000, 1500, 800, 1200), (0.0, 1.0, 0.3, 0.5, 0.0, 0.5))


@pytest.fixture(scope="module")
def found(samples: list[Sample]) -> Joint:
    """Return the joint graphs in time, with everything chosen."""
    return learn_periods(samples, Order.TIME, Kind.FUSED, n_draws=300)


def test_nodes_are_measured_on_the_joint_graph_by_each_period(found: Joint) -> None:
    """Degrees are the joint graph's; predictability and the ranking of pairs are that period's own."""
    for period, (graph, measures) in enumerate(zip(found.graphs, found.measures, strict=True)):
        precision = np.eye(P) - partial(period)
        explained = 1.0 - 1.0 / np.diagonal(np.linalg.inv(precision))
        assert measures.columns["n_edges"].tolist() == (partial(period) != 0.0).sum(axis=1).tolist()
        low, high = measures.columns["predictability_low"], measures.columns["predictability_high"]
        assert np.mean((low <= explained) & (explained <= high)) > 0.7
        assert (high - low).max() < 0.5
        ranked = list(zip(*list(graph.ranking_columns().values())[:2], strict=True))
        assert len(ranked) == P * (P - 1) // 2
        assert all(partial(period)[NAMES.index(one), NAMES.index(other)] for one, other in ranked[:2])


def test_the_first_choice_stays_where_sharper_weights_have_no_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Correlations beyond one, as noise makes them, leave the second stage nothing."""
    beyond, ones = np.full((2, 3, 3), 1.05) - 0.05 * np.eye(3), np.ones((2, 3, 3))
    periods = Periods(beyond, np.full(2, 80.0), ones, ones[:1], Kind.FUSED)
    monkeypatch.setattr(Periods, "sharpen", lambda *_: replace(periods, weights=1e-3 * ones))
    assert select_in_stages(periods, [1.0, 0.9], [1.0]).periods is periods


def test_where_a_period_tells_too_little_several_are_pooled() -> None:
    """Much noise leaves no test of single periods; blocks of two or three still show the change point."""
    found = learn_periods(draw(5, (600,) * 6, (3.0,) * 6), Order.TIME, Kind.FUSED, n_draws=200)
    assert all(graph.inference is None for graph in found.graphs)
    assert found.changes is not None
    assert len(found.changes.evidence) == N_PERIODS - 1
    assert [(one.before, one.after) for one in found.claimed] == [((0, 1, 2), (3, 4, 5))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "kind"),
    [
        (Order.TIME, Kind.SMOOTH),
        (Order.NONE, Kind.PAIRS),
        pytest.param(Order.TIME, Kind.GROUP, marks=pytest.mark.long),
        pytest.param(Order.NONE, Kind.GROUP, marks=pytest.mark.long),
    ],
)
def test_other_couplings_find_most_links(samples: list[Sample], order: Order, kind: Kind) -> None:
    """All true links are there, and few others; without an order some periods differ."""
    found = learn_periods(samples, order, kind, n_draws=100)
    true = np.array([partial(period) != 0.0 for period in range(N_PERIODS)])
    learned = np.array([graph.adjacency for graph in found.graphs])
    assert (learned & true).sum() >= 0.9 * true.sum()
    if order is Order.NONE:
        assert {one.after for one in found.claimed} <= {(period,) for period in range(N_PERIODS)}
        assert 0 < len(found.claimed) < N_PERIODS


def test_given_penalties_are_used_and_too_small_ones_name_the_period() -> None:
    """Penalties may be given; the period that is too indefinite for them is named, with the least that does."""
    noisy = []
    for period in range(3):
        rng = np.random.default_rng(period)
        variance = 1.0 if period == 1 else 0.0
        rows = rng.normal(size=(100, 1)) + 0.3 * rng.normal(size=(100, P))
        noisy.append(Sample([table_rows(rows + np.sqrt(variance) * rng.normal(size=rows.shape), NAMES, variance)]))
    found = learn_periods(noisy, Order.TIME, Kind.FUSED, 0.4, 0.2, names=["a", "b", "c"], n_draws=50)
    assert (found.alpha, found.coupling, found.scores) == (0.4, 0.2, [])
    with pytest.raises(NoSolutionError) as refused:
        learn_periods(noisy, Order.TIME, Kind.FUSED, 1e-3, 1e-3, names=["a", "b", "c"], n_draws=50)
    assert "that of b" in refused.value.__notes__[0]


def test_words_that_do_not_go_together_are_refused() -> None:
    """Before any bundle is read."""
    for options, named in (
        ({"order": "space"}, "order"),
        ({"coupling": "loose"}, "coupling"),
        ({"order": "none", "coupling": "smooth"}, "coupling"),
        ({"alpha": 0.1}, "alpha"),
        ({"alpha": -0.1, "strength": 0.1}, "alpha"),
        ({"alpha": 0.1, "strength": -0.1}, "strength"),
        ({"fdr": 0.0}, "fdr"),
    ):
        with pytest.raises(ParameterError, match=named):
            learn_joint([], **options)  # type: ignore[arg-type]
    with pytest.raises(SchemaError):
        learn_joint([])
