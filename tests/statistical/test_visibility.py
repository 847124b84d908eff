"""The link that a page says can just be found is found four times out of five, at the rows that it says are needed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.conftest import policy_with, publish_alone
from tests.statistical.worlds import gaussian_noise, gaussian_world, names, observe

from dp_bundle import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.estimate import PooledCovariance, ReleasedCovariance, combine_sources
from dp_learn.covariance.two_rounds import noise_of_one_round
from dp_learn.inference.edges import fit_for_inference, infer_edges, rows_to_see, smallest_visible
from dp_learn.pipeline.learn import learn_graph

P, N_ROWS, NOISE = 10, 2000, gaussian_noise(1.0)


def world(partial: float):  # type: ignore[no-untyped-def]
    """Return ten columns with one link."""
    precision = np.eye(P)
    precision[0, 1] = precision[1, 0] = -partial
    return gaussian_world(precision)


def from_rows(partial: float, n_rows: int, rng: np.random.Generator) -> PooledCovariance:
    """Return what is known of noisy rows."""
    return combine_sources(names(P), [observe(world(partial).draw(rng, n_rows), NOISE, rng)[1]])


def typical_error(pooled: PooledCovariance) -> float:
    """Return the median standard error of a partial correlation."""
    errors = infer_edges(pooled, fit_for_inference(pooled).precision).errors
    return float(np.median(np.sqrt(errors.products[np.triu_indices(P, 1)])))


def power(make, repetitions: int = 400) -> float:  # type: ignore[no-untyped-def]
    """Return how often the link is found at the 5 % level."""
    found = [make(np.random.default_rng([5, repetition])) for repetition in range(repetitions)]
    values = [infer_edges(each, fit_for_inference(each).precision).p_values[0, 1] for each in found]
    share = float(np.mean(np.array(values) < 0.05))
    print(f"power {share:.3f}")  # noqa: T201
    return share


def is_four_out_of_five(share: float) -> bool:
    """Return whether a share of 400 is .8 within three standard errors."""
    return abs(share - 0.8) < 3 * np.sqrt(0.16 / 400)


@pytest.mark.slow
def test_smallest_visible_link_is_found_four_times_out_of_five() -> None:
    """It is with the noise's errors, and not with those of as many rows without noise."""
    pooled = from_rows(0.0, N_ROWS, np.random.default_rng(1))
    size = smallest_visible(typical_error(pooled))
    assert is_four_out_of_five(power(lambda rng: from_rows(size, N_ROWS, rng)))

    without = smallest_visible(np.sqrt(pooled.sampling_factor))
    assert not is_four_out_of_five(power(lambda rng: from_rows(without, N_ROWS, rng)))


@pytest.mark.long
def test_rows_that_are_said_to_be_needed_are_enough() -> None:
    """With about that many rows a partial correlation of 0.1 is found four times out of five, with half as many not."""
    pooled = from_rows(0.0, N_ROWS, np.random.default_rng(2))
    n_rows = round(rows_to_see(pooled, typical_error(pooled), 0.1))
    assert n_rows > N_ROWS

    assert is_four_out_of_five(power(lambda rng: from_rows(0.1, n_rows, rng)))
    assert not is_four_out_of_five(power(lambda rng: from_rows(0.1, n_rows // 2, rng)))


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [30.0, pytest.param(120.0, marks=pytest.mark.long)])
def test_rows_of_a_covariance_release_count_for_more(sigma: float) -> None:
    """The noise on sums does not grow with the rows: fewer are needed than if all errors fell as one over their number.

    The noise is independent and Gaussian on every entry of the matrix of sums of products.
    """

    def release(partial: float, n_rows: int, rng: np.random.Generator) -> PooledCovariance:
        rows = world(partial).draw(rng, n_rows)
        upper = np.triu(rng.normal(scale=sigma, size=(P, P)))
        sums = rows.T @ rows + upper + np.triu(upper, 1).T
        noise = noise_of_one_round(n_rows, np.ones(P), np.zeros(P), 0.0, (sigma**2, sigma**2))
        return combine_sources(names(P), [ReleasedCovariance(n_rows, sums / n_rows, noise)])

    pooled = release(0.0, N_ROWS, np.random.default_rng(3))
    error = typical_error(pooled)
    n_rows = round(rows_to_see(pooled, error, 0.05))
    by_all_alike = N_ROWS * (smallest_visible(error) / 0.05) ** 2
    assert n_rows < by_all_alike

    assert is_four_out_of_five(power(lambda rng: release(0.05, n_rows, rng)))


def test_rows_pooled_with_a_covariance_release_are_not_counted() -> None:
    """Where noise falls in two ways, no number of rows is named."""
    rng = np.random.default_rng(4)
    noise = noise_of_one_round(N_ROWS, np.ones(P), np.zeros(P), 0.0, (900.0, 900.0))
    sources = [
        observe(world(0.0).draw(rng, N_ROWS), NOISE, rng)[1],
        ReleasedCovariance(N_ROWS, np.cov(world(0.0).draw(rng, N_ROWS).T), noise),
    ]
    assert rows_to_see(combine_sources(names(P), sources, [1.0, 1.0]), 0.02, 0.1) is None


@pytest.mark.slow
@pytest.mark.parametrize("release", ["covariance", pytest.param("rows", marks=pytest.mark.long)])
def test_constants_are_left_out_of_tests_and_graph(release: str, tmp_path: Path) -> None:
    """Of 240 constants that were published, few count as columns and not two have an edge; others are kept."""
    rng = np.random.default_rng(0)
    numbers = {f"x{place}": rng.normal(size=600) for place in range(3)}
    table = pd.DataFrame({**numbers, **{f"c{place}": float(place) for place in range(20)}})
    bounds = {name: {"bounds": [-5, 25]} for name in table} if release == "rows" else {}
    privacy = {"release": release, "mu": 100.0 if release == "rows" else 5.0}
    policy = policy_with(bounds, **privacy)

    kept, linked = 0, set[tuple[int, str]]()
    for draw in range(12):
        path = publish_alone(table, policy, tmp_path / f"{draw}.tar", draw)
        with open_bundle(path, UnsafeTrustAnyone()) as bundle:
            found = learn_graph(bundle)
        assert not {*numbers} & {*found.fit.drowned}
        kept += 20 - len(found.fit.drowned)
        degrees = zip(found.estimate.columns, found.estimate.adjacency.sum(axis=1), strict=True)
        linked |= {(draw, name) for name, degree in degrees if degree and name not in numbers}
    assert kept < 0.08 * 240
    assert len(linked) < 2
