"""What noisy histograms say: intervals cover, whole numbers stay whole, and pictures add up."""

import numpy as np
import pytest

from dp_bundle import Bundle
from dp_bundle.catalog.histograms import draw_margins
from dp_bundle.data.margin_summary import QUANTILES, bars_of, cell_shares, roundest, share_interval, summarize_margin
from dp_bundle.data.margins import Margin
from dp_bundle.manifest.columns import RandomizedResponse

N, SIGMA = 3000, 12.0
VARIANCE = SIGMA**2
TRUTH = [1, 3, 4, 4, 5, 31 / 9, 0.1]  # of items: quantiles, mean and gaps


def noisy(edges: np.ndarray, values: np.ndarray, rng: np.random.Generator, **said: object) -> Margin:
    """Return the noisy histogram of values, NaN being gaps."""
    cells = np.searchsorted(edges, values[~np.isnan(values)], side="right")
    counts = np.bincount(cells, minlength=len(edges) + 1)
    if said.get("has_gaps"):
        counts = np.append(counts, np.isnan(values).sum())
    noise = np.rint(rng.normal(0, SIGMA, len(counts))).astype(np.int64)
    return Margin("x", edges, counts=counts + noise, **said)  # type: ignore[arg-type]


@pytest.mark.parametrize(("heaped", "least", "most"), [(0.0, 0.93, 0.98), (0.3, 0.97, 1.0)])
def test_intervals_of_quantiles_cover_the_truth(heaped: float, least: float, most: float) -> None:
    """Those of lognormal values end inside of cells and hold in 95 %; of heaps they end at cells and hold more."""
    rng, held, at_cells, edges = np.random.default_rng(1), [], [], 1 + 1.2 * np.sinh(np.arange(-90, 91) / 15)
    all_values = rng.lognormal(0, 1, 100_000)
    all_values = np.where(rng.random(len(all_values)) < heaped, np.rint(all_values), all_values)
    truth = np.quantile(all_values, [*QUANTILES.values()], method="inverted_cdf")
    for _ in range(100):
        found = summarize_margin(noisy(edges, rng.choice(all_values, N), rng), N, VARIANCE)
        assert [each.name for each in found] == list(QUANTILES)
        assert all(each.low <= each.value <= each.high for each in found)
        held += [each.low <= value <= each.high for each, value in zip(found, truth, strict=True)]
        at_cells += [end in edges for each in found for end in each[2:]]
    assert least < np.mean(held) <= most
    assert abs(np.mean(at_cells) - bool(heaped)) < 0.3


def test_quantiles_of_items_stay_near_them() -> None:
    """A hundred numbers that none is of do not stretch their intervals, which hold in 95 %, as does that of gaps."""
    rng, held = np.random.default_rng(2), []
    for _ in range(100):
        values = rng.choice([1, 2, 3, 3, 4, 4, 4, 5, 5, np.nan], 1000)
        found = summarize_margin(noisy(np.arange(-49.5, 50), values, rng, has_gaps=True), 1000, VARIANCE)
        assert all(-6 <= each.low <= each.high <= 12 for each in found[:5])
        held += [each.low <= value <= each.high for each, value in zip(found, TRUTH, strict=True)]
    assert np.mean(held) > 0.95


def test_an_edge_that_is_zero_but_for_its_arithmetic_is_zero() -> None:
    """No interval ends at 5.6e-17."""
    assert not summarize_margin(Margin("x", np.array([5.6e-17, 1]), counts=np.array([N, 0, 0])), N, 0.0)[0].high


@pytest.mark.slow
@pytest.mark.parametrize("gaps", [0.2, 0.5, 0.9])
def test_means_beside_gaps_cover(gaps: float) -> None:
    """The fewer rows have a value, the longer the interval: it holds 95 % of the time, and a shorter one less often."""
    rng, values, chances = np.random.default_rng(4), np.arange(1, 6), np.array([0.15, 0.2, 0.3, 0.2, 0.15])
    held, held_if_shorter = 0, 0
    for _ in range(600):
        counts = rng.multinomial(N, [*((1 - gaps) * chances), gaps]) + np.rint(rng.normal(0, SIGMA, 6)).astype(np.int64)
        margin = Margin("x", values[:-1] + 0.5, has_gaps=True, counts=counts)
        mean = next(each for each in summarize_margin(margin, N, VARIANCE) if each.name == "mean")
        held += mean.low <= 3 <= mean.high
        held_if_shorter += abs(mean.value - 3) <= 0.8 * (mean.high - mean.value)
    assert 0.925 < held / 600 < 0.98
    assert held_if_shorter / 600 < 0.925


@pytest.mark.parametrize("expected", [0.3, 3.0, 300.0])
@pytest.mark.parametrize("sigma", [0.1, 1.0, 5.0])
def test_intervals_of_shares_hold_of_few_rows(expected: float, sigma: float) -> None:
    """With normal ones, a cell with three rows on average was covered in 80 % where there is little noise."""
    rng = np.random.default_rng(6)
    counts = rng.binomial(N, expected / N, 20_000) + np.rint(rng.normal(0.0, sigma, 20_000)).astype(int)
    cells = Margin("k", np.empty(0), tuple(f"{place}" for place in range(20_000)), counts=counts)
    _, low, high = cell_shares(cells, N, sigma**2)
    assert 0.91 < np.mean((low <= expected / N) & (expected / N <= high)) < 0.99


def test_pictures_say_levels_numbers_and_dates(of_scores: Bundle) -> None:
    """Levels have their shares, numbers a median with an interval, and dates are not days since 1970."""
    release, margins = of_scores.release, of_scores.margins()
    drawn = {each.name: each for each in draw_margins(margins, release)[0]}
    assert list(drawn) == [margin.name for margin in margins]
    assert "small" in [level for level, *_ in drawn["size"].bars]
    median = next(numbers for name, *numbers in drawn["alcohol"].numbers if name == "median")
    assert all(number.startswith("1") for number in median)
    assert 0.9 < sum(share for _, share, *_ in drawn["alcohol"].bars) < 1.001
    assert all(low <= share <= high for each in drawn.values() for _, share, low, high in each.bars)
    dated = release.sources[0].model_copy(update={"name": "alcohol", "kind": "date"})
    (born, *_), _ = draw_margins(margins, release.model_copy(update={"sources": (*release.sources, dated)}))
    assert [value[:9] for name, value, *_ in born.numbers if name == "median"] == ["1970-01-1"]
    assert all(end.startswith("1970-01-1") for end in born.ends)


@pytest.mark.parametrize(
    ("low", "high", "found"), [(-3, 1, 0), (750, 860, 800), (38, 42, 40), (0.29, 0.32, 0.3), (-18.2, -16.9, -18)]
)
def test_the_roundest_number_has_the_fewest_digits(low: float, high: float, found: float) -> None:
    """Zero before all, and five before two."""
    assert roundest(low, high) == found


def randomized(n_levels: int, replaced: float) -> RandomizedResponse:
    """Return the noise of levels drawn anew with that probability."""
    return RandomizedResponse(distribution="randomized-response", n_levels=n_levels, replaced=replaced)


@pytest.mark.parametrize("n_rows", [500, 10_000])
@pytest.mark.parametrize("replaced", [0.25, 0.75])
@pytest.mark.parametrize(("n_levels", "share"), [(2, 0.5), (4, 0.4), (8, 0.02)])
def test_intervals_hold_of_levels_replaced_at_random(n_levels: int, share: float, replaced: float, n_rows: int) -> None:
    """They hold in 94 to 96 %, and not those that take what came out for what was there."""
    rng, runs, response = np.random.default_rng(8), 40_000, randomized(n_levels, replaced)
    had = rng.binomial(n_rows, share, runs)
    kept = rng.binomial(had, 1 - replaced + replaced / n_levels)
    seen = (kept + rng.binomial(n_rows - had, replaced / n_levels)) / n_rows
    low, high = share_interval(seen, n_rows, response=response)
    assert 0.94 < np.mean((low <= share) & (share <= high)) < 0.96
    low, high = share_interval(seen, n_rows)
    assert share == 1 / n_levels or np.mean((low <= share) & (share <= high)) < 0.94


def test_bars_end_where_counts_stand_out_no_more() -> None:
    """A hundred cells of nothing but noise on either side of a normal column do not stretch its picture."""
    edges = np.concatenate([np.arange(-104.0, -4.0), np.arange(-4.0, 4.1, 0.25), np.arange(5.0, 105.0)])
    for seed in range(20):
        rng = np.random.default_rng(seed)
        bars = bars_of(noisy(edges, rng.normal(size=N), rng), N, VARIANCE)
        assert -6 <= bars[0].low < -1.5
        assert 1.5 < bars[-1].high <= 6
