"""Series of one network seldom have a change point, and what is claimed to change did, whatever the noise of each."""

import numpy as np
import pytest
from tests.statistical.worlds import gaussian_noise, gaussian_world, names, random_graph

from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.glasso.joint import Kind
from dp_learn.pipeline.joint import Joint, Order, learn_periods

P, SERIES = 10, 60
ARMS = ((600, 0.3), (1000, 1.0), (600, 0.0), (800, 0.5), (1000, 0.5), (600, 0.3))  # rows and variance of the noise


def learn(rng: np.random.Generator, degrees: int | None, changes: bool) -> Joint:
    """Learn a series of six periods, of which the last three may have another sign in three links."""
    precision = random_graph(P).precision
    others = precision.copy()
    linked = np.argwhere(np.triu(precision, 1))[:3]
    for i, j in linked if changes else ():
        others[i, j] = others[j, i] = -precision[i, j]
    samples = []
    for place, (n_rows, variance) in enumerate(ARMS):
        world = gaussian_world(others if place >= 3 else precision, degrees)
        noisy = world.draw(rng, n_rows) + gaussian_noise(variance).draw(rng, (n_rows, P))
        samples.append(Sample([table_rows(noisy, names(P), variance)]))
    return learn_periods(samples, Order.TIME, Kind.FUSED, 0.5, 0.5, n_draws=300)


@pytest.mark.long
@pytest.mark.parametrize("degrees", [None, pytest.param(6, marks=pytest.mark.long)])
def test_series_of_one_network_seldom_have_a_change_point(degrees: int | None) -> None:
    """Of 60 series at 5 %, at most three errors more than that."""
    rng = np.random.default_rng(3)
    n_claimed = sum(bool(learn(rng, degrees, changes=False).claimed) for _ in range(SERIES))
    assert n_claimed <= SERIES * 0.05 + 3.0 * np.sqrt(SERIES * 0.05 * 0.95)


@pytest.mark.slow
def test_what_is_claimed_to_change_did() -> None:
    """The change point is found in its place, with its three links, and hardly another pair."""
    rng = np.random.default_rng(4)
    linked = {tuple(pair) for pair in np.argwhere(np.triu(random_graph(P).precision, 1))[:3].tolist()}
    n_right, n_claimed, n_false, n_found = 0, 0, 0, 0
    for _ in range(20):
        found = learn(rng, None, changes=True)
        assert found.changes is not None
        n_right += [one.after for one in found.claimed] == [(3, 4, 5)]
        for one in found.claimed:
            pairs = [(int(found.changes.pairs[0][k]), int(found.changes.pairs[1][k])) for k in found.changed(one)]
            n_claimed, n_false = n_claimed + len(pairs), n_false + len(set(pairs) - linked)
            n_found += len(set(pairs) & linked)
    assert n_right >= 18
    assert n_found >= 40
    assert n_false <= 0.1 * n_claimed
