"""The parts of two rounds: shares of mu, places, clips, radii, sums, the frame of the second, and their forecast."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg, stats

from dp_publish.covariance.scaling import scaling_around
from dp_publish.covariance.two_rounds import sums as module
from dp_publish.covariance.two_rounds.places import Place, PlaceCounts
from dp_publish.covariance.two_rounds.rows import RoundMap, round_transform, whiten
from dp_publish.covariance.two_rounds.shares import (
    StepShares,
    radii,
    radius_search,
    round_noise,
    share_lost,
    share_out,
)
from dp_publish.covariance.two_rounds.sums import BinnedSums
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import insecure_keystream
from dp_publish.sampling.places import center_scores


@pytest.mark.parametrize(("mu", "n", "p"), [(1e-4, 10**9, 2), (1.0, 178, 13), (50.0, 1, 2000)])
@pytest.mark.parametrize("with_margins", [False, True])
def test_steps_cost_what_was_given_and_no_more(mu: float, n: int, p: int, with_margins: bool) -> None:
    """The steps' mu, composed as the root of the sum of squares, is the whole up to rounding, and never above it."""
    for searched, everywhere in ((0, 0), (1, 0), (p, p // 2)):
        shares = share_out(mu, n, p, searched, everywhere, with_margins=with_margins)
        steps = [shares.choice] * 2 + [shares.lengths, shares.first, shares.second]
        steps += [shares.place] * shares.n_places + [shares.range] * shares.n_ranges
        steps += [shares.margins] * with_margins
        composed = math.sqrt(math.fsum(step * step for step in steps))
        assert mu * (1 - 1e-9) < composed <= mu
        assert shares.total == pytest.approx(composed)
        assert min(steps) > 0
        assert 0.12 * with_margins <= (shares.margins / mu) ** 2 * (1 + 1e-9) <= 0.33 * with_margins


def test_small_tables_pay_more_for_their_places() -> None:
    """The share of centers and scales falls with n mu / sqrt(p), between 40 and 3 %, and with what is declared."""
    small, middling, large = (_share_of_places(share_out(1.0, n, 16, 16)) for n in (20, 600, 10**6))
    assert small == pytest.approx(0.4)
    assert middling == pytest.approx(14 * 4 / 600)
    assert large == pytest.approx(0.03)
    assert _share_of_places(share_out(1.0, 600, 16, 8)) == pytest.approx(middling / 2)
    assert _share_of_places(share_out(1.0, 600, 16, 0)) == 0


def _share_of_places(shares: StepShares) -> float:
    return shares.place**2 * shares.n_places


def scales_of(values: NDArray[np.float64], n_columns: int, draws: int) -> NDArray[np.float64]:
    """Return the scales found of some columns without bounds, among so many, in releases at mu = 1."""
    n, p = values.shape
    places, shares, found = (Place(),) * p, share_out(1.0, n, n_columns, n_columns, n_columns), []
    counts = PlaceCounts(places, 1 << 13)
    counts.add(values)
    for draw in range(draws):
        rng = insecure_keystream(draw)
        found.append(
            counts.find(places, shares.place, shares.range, lambda step, counted, rng=rng: step.draw(counted, rng))[1]
        )
    return np.array(found)


@pytest.mark.parametrize("zeros", [0.65, 0.88])
def test_columns_of_zeros_keep_what_is_beside_them(zeros: float) -> None:
    """Of a column that is mostly zeros the scale is neither next to nothing nor beyond all other values."""
    rng = np.random.default_rng(1)
    values = np.where(rng.random((303, 10)) < zeros, 0.0, rng.uniform(3.0, 80.0, (303, 10)))
    found = scales_of(values, 22, 6)

    assert found.min() >= 0.5
    assert found.max() < 100.0


def test_choice_comes_near_its_target() -> None:
    """With strength enough it is the smallest radius that no more rows than aimed at exceed, and with none any."""
    exceeding = np.array([900, 500, 200, 130, 30, 0])
    clear, vague = radius_search(5.0, 1.0, 10**4, 8), radius_search(1e-4, 1.0, 10**4, 8)
    assert 40 < clear.target < 130
    rng = insecure_keystream(3)
    assert {clear.mechanism.choose(clear.scores(exceeding), rng) for _ in range(50)} == {4}
    assert len({vague.mechanism.choose(vague.scores(exceeding), rng) for _ in range(200)}) > 2


def test_radii_ascend_to_the_largest() -> None:
    """Radii are whole 256ths from the smallest to 1, and fewer of them where sums of wide rows take much memory."""
    narrow, wide = radii(0.05, 10), radii(0.05, 2000)
    assert narrow[0] == 13
    assert narrow[-1] == wide[-1] == 256
    assert (np.diff(narrow) > 0).all()
    assert len(wide) < len(narrow) <= 33


@pytest.mark.slow
@pytest.mark.parametrize("p", [3, 65])
@pytest.mark.parametrize("whitened", [False, True])
def test_narrow_and_wide_tables_give_the_same_integers(p: int, whitened: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled sums and those by matrix products agree in every integer, at every radius."""
    rng = np.random.default_rng(p)
    values = np.asfortranarray(rng.standard_t(3, (5000, p)))
    noise = 0.1 * rng.normal(size=(p, p)) / p**0.5
    transform = round_transform(np.eye(p) + noise + noise.T) if whitened else None
    half_widths = np.full(p, 2 * p**0.5)
    frame = RoundMap(np.full(p, -9.0), np.full(p, 9.0), np.full(p, 0.1), half_widths, transform)

    found = []
    for most in (0, p):
        monkeypatch.setattr(module, "_NARROW", most)
        sums = BinnedSums(p, radii(0.2, p))
        for start in range(0, len(values), 4500):  # one batch is more than a block
            sums.add(values[start : start + 4500], frame)
        found.append(sums)

    wide, narrow = found
    assert wide.counts.tolist() == narrow.counts.tolist()
    for chosen, radius in enumerate(wide.radii.tolist()):
        scaling = scaling_around(frame.centers, half_widths, radius, 0.02)
        one, other = wide.moments(chosen, scaling), narrow.moments(chosen, scaling)
        assert (one.products == other.products).all()
        assert (one.sums == other.sums).all()
        assert wide.fourth_powers(chosen) == narrow.fourth_powers(chosen)


def test_without_noise_it_is_a_power_of_the_correlations() -> None:
    """The transform is R^(-3/8), and with it a typical row has the length sqrt(tr R^(1/4))."""
    correlation = 0.8 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    deviations = np.array([1.0, 2.0, 0.5, 3.0, 1.5, 0.7])

    transform, found, length = whiten(correlation * np.outer(deviations, deviations), 1e-9, np.zeros(6))

    assert found == pytest.approx(deviations)
    assert transform == pytest.approx(linalg.fractional_matrix_power(correlation, -0.375), abs=1e-5)
    assert length**2 == pytest.approx(np.trace(linalg.fractional_matrix_power(correlation, 0.25)), rel=1e-6)


@pytest.mark.parametrize("noise", [1e-3, 0.1, 1.0, 100.0])
def test_noise_leaves_a_transform_that_can_be_undone(noise: float) -> None:
    """However indefinite the noisy covariance is, the transform is positive definite and well conditioned."""
    rng = np.random.default_rng(2)
    drawn = rng.normal(scale=noise, size=(20, 20))
    transform, deviations, length = whiten(np.eye(20) + drawn + drawn.T, noise, np.full(20, 0.2))

    assert (transform == transform.T).all()
    assert np.linalg.cond(transform) < 1e4
    assert np.linalg.eigvalsh(transform)[0] > 0
    assert (deviations > 0).all()
    assert 0 < length < 10


def test_columns_without_variance_are_not_blown_up() -> None:
    """A variance that the noise made negative, or nearly zero, counts as the least that a column is given."""
    _, deviations, _ = whiten(np.diag([1.0, -3.0, 1e-9]), 0.1, np.array([0.1, 0.2, 0.3]))
    assert deviations.tolist() == [1.0, 0.2, 0.3]


@pytest.mark.parametrize(("n_rows", "spread"), [(300, 1 / 20), (1000, 1 / 5000)])
def test_as_many_centers_are_lost_as_their_law_says(n_rows: int, spread: float) -> None:
    """The exact law of the choice of a center, on the quantiles of normal values, puts so much far from them."""
    deviations = stats.norm.ppf((np.arange(n_rows) + 0.5) / n_rows)
    edges = np.linspace(-0.5 / spread, 0.5 / spread, 2**20 + 1)
    scores = center_scores(np.histogram(deviations, edges)[0])
    law = np.exp(ExponentialMechanism(0.03).log_probabilities(scores))
    far = law[np.abs(edges[1:] + edges[:-1]) > 6.0].sum()

    assert 0.01 < far < 0.99
    assert share_lost(0.03, n_rows, spread) == pytest.approx(far, rel=0.05)
    assert share_lost(0.03, n_rows, 0.4) == 0.0  # such bounds hold no far places


@pytest.mark.parametrize("n_columns", [2, 20, 300])
def test_noise_of_a_round_is_that_of_shortened_normal_rows(n_columns: int) -> None:
    """A radius that shortens so many normal rows leaves them the covariance that the noise is divided by."""
    rows = np.random.default_rng(1).normal(size=(20_000, n_columns))
    for shortened in (0.02, 0.6):
        lengths = np.linalg.norm(rows, axis=1)
        radius = np.quantile(lengths, 1 - shortened)
        kept = np.var(rows * np.minimum(1.0, radius / lengths)[:, None])
        noise = round_noise(n_columns, shortened, 0.5, (0.01, 10.0), 1e-9)
        assert noise == pytest.approx(radius**2 / kept / 0.5, rel=0.03)
    kept = np.minimum((rows**2).sum(axis=1), n_columns).mean() / n_columns
    assert round_noise(n_columns, 1e-6, 0.5, (0.5, 1.0), 1e-9) == pytest.approx(2 * n_columns / kept, rel=0.03)
