"""Tests of strengths and tests for nodes of several columns."""

import numpy as np
import pytest
from tests.unit.consumer.sources import source_of

from dp_bundle.base.errors import ParameterError
from dp_learn.covariance.estimate import combine_sources, debias_covariance
from dp_learn.inference.edges import infer_edges
from dp_learn.inference.nodes import _wald, canonical_partial_correlations, infer_blocks

SHARES = np.array([0.5, 0.3, 0.18, 0.02])  # of the levels of a category
# of each kept level's noise: one draw for a cell is shared, as where one level is coded against another
NOISE = 0.02 * (np.eye(3) + 0.8 * (1.0 - np.eye(3)))
LABELS = ["a", "a", "a", "b", "b", "b", "x", "y"]
COVARIANCE = np.zeros((8, 8))
COVARIANCE[:3, :3] = COVARIANCE[3:6, 3:6] = NOISE
COVARIANCE[6:, 6:] = 0.1 * np.eye(2)


def _rows(rng, n=4000, effect=0.0):
    levels = rng.choice(4, size=(n, 2), p=SHARES)
    x = rng.normal(size=(n, 2))
    x[:, 1] += 0.5 * x[:, 0]
    x[:, 0] += effect * (levels[:, 0] == 2)
    clean = np.column_stack([(levels[:, [0]] == [1, 2, 3]), (levels[:, [1]] == [1, 2, 3]), x])
    return clean, clean + rng.normal(size=(n, 8)) @ np.linalg.cholesky(COVARIANCE).T


def _infer(noisy, noise=COVARIANCE):
    return infer_blocks(noisy, noise, np.linalg.inv(debias_covariance(np.cov(noisy.T), noise)), LABELS)


def _mean_in_standard_errors(noise, repetitions=200):
    rng, errors = np.random.default_rng(3), []
    for _ in range(repetitions):
        clean, noisy = _rows(rng, n=500)
        errors.append(debias_covariance(np.cov(noisy.T), noise) - np.cov(clean.T))
    errors = np.array(errors)
    return np.abs(errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(repetitions))).max()


def test_debiased_block_is_unbiased():
    """Less the noise's whole covariance, every entry is unbiased; less its variances alone, some are far off."""
    assert _mean_in_standard_errors(COVARIANCE) < 4.0
    assert _mean_in_standard_errors(np.diagonal(COVARIANCE)) > 10.0


@pytest.mark.slow
def test_level_with_rare_levels_and_noise():
    """Pairs without an edge are rejected at five per cent in 3.5 to 6.5 per cent of cases, kind by kind."""
    rng = np.random.default_rng(5)
    p = np.array([_infer(_rows(rng)[1]).p_values[np.triu_indices(4, 1)] for _ in range(1000)])
    rejected = (p <= 0.05).mean(axis=0)
    assert (np.abs(rejected[:5] - 0.05) <= 0.015).all(), rejected  # a-b, a-x, a-y, b-x, b-y
    assert rejected[5] == 1.0


def test_an_effect_of_one_level_is_found():
    """A number that depends on one level is linked to the category, and not to the other."""
    found = _infer(_rows(np.random.default_rng(1), effect=0.5)[1])
    assert found.nodes == ("a", "b", "x", "y")
    assert found.q_values[0, 2] < 1e-6 < 0.01 < found.q_values[1, 2]
    assert found.degrees[0, 1] == 9
    assert found.degrees[0, 2] == 3


def test_strength_is_the_canonical_correlation_of_residuals():
    """It agrees with canonical correlations of residuals from least squares."""
    x = _rows(np.random.default_rng(2), effect=0.5)[0]
    x -= x.mean(axis=0)
    a, b, others = np.array([0, 1, 2]), np.array([6]), np.array([3, 4, 5, 7])
    residuals = x - x[:, others] @ np.linalg.lstsq(x[:, others], x, rcond=None)[0]
    qa, qb = np.linalg.qr(residuals[:, a])[0], np.linalg.qr(residuals[:, b])[0]
    expected = np.linalg.svd(qa.T @ qb, compute_uv=False)
    found = canonical_partial_correlations(np.linalg.inv(np.cov(x.T)), a, b)
    assert found == pytest.approx(expected, abs=1e-9)


def test_two_numbers_have_the_size_of_their_partial_correlation():
    """Between two columns the strength is the size of the partial correlation."""
    theta = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 1.5]])
    assert canonical_partial_correlations(theta, np.array([0]), np.array([1])) == pytest.approx(0.5 / np.sqrt(2.0))


def test_a_redundant_column_costs_no_degree_of_freedom():
    """With the left-out level's product repeated, the rank counts, and the statistic stays."""
    products = np.random.default_rng(0).normal(size=(500, 2))
    twice = np.column_stack([products, products.sum(axis=1)])
    first, second = (_wald(each.mean(axis=0), each) for each in (products, twice))
    assert first[1] == second[1] == 2
    assert second[0] == pytest.approx(first[0])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"rows": np.zeros((5, 3))}, "rows"),
        ({"precision": -np.eye(2)}, "precision"),
        ({"noise_covariance": np.array([[1.0, 2.0], [2.0, 1.0]])}, "noise_variance"),
        ({"noise_covariance": np.eye(3)}, "noise_variance"),
    ],
)
def test_bad_input_is_named(change, name):
    """Each bad argument is refused by name."""
    good = {"rows": np.eye(5, 2), "noise_covariance": np.zeros(2), "precision": np.eye(2), "labels": ["a", "b"]}
    with pytest.raises(ParameterError, match=name):
        infer_blocks(**(good | change))


@pytest.mark.slow
def test_false_discovery_rate_with_rare_levels_and_noise():
    """Of the pairs listed at five per cent no more than six per cent are false, and most true ones are listed."""
    labels = [f"c{c}" for c in range(4) for _ in range(3)] + list("uvwxyz")
    noise = 0.1 * np.eye(18)
    noise[:12, :12] = np.kron(np.eye(4), NOISE)
    factor, true = np.linalg.cholesky(noise).T, {(4, 5), (0, 6), (1, 7), (7, 8), (1, 8)}  # parents are linked
    rng, false, listed = np.random.default_rng(6), [], 0
    for _ in range(150):
        levels, x = rng.choice(4, size=(4000, 4), p=SHARES), rng.normal(size=(4000, 6))
        x[:, 1] += 0.5 * x[:, 0]
        x[:, 2] += 0.2 * (levels[:, 0] == 1)
        x[:, 3] += 0.4 * (levels[:, 1] == 2) + 0.3 * x[:, 4]
        indicators = (levels[:, :, None] == [1, 2, 3]).reshape(4000, 12)
        rows = np.column_stack([indicators, x]) + rng.normal(size=(4000, 18)) @ factor
        found = infer_blocks(rows, noise, np.linalg.inv(debias_covariance(np.cov(rows.T), noise)), labels)
        pairs = set(zip(*(k.tolist() for k in np.nonzero(np.triu(found.q_values <= 0.05, 1))), strict=True))
        false.append(len(pairs - true) / max(1, len(pairs)))
        listed += len(pairs & true)
    assert np.mean(false) <= 0.06
    assert listed >= 0.75 * 150 * len(true)


def test_two_levels_lose_no_power():
    """With two levels, the test rejects as often as that of one edge, to ten per cent."""
    rng, rejected, noise = np.random.default_rng(7), np.zeros(2), np.full(2, 0.09)
    for _ in range(300):
        level = rng.random(1000) < 0.3
        rows = np.column_stack([level, rng.normal(size=1000) + 0.22 * level]) + 0.3 * rng.normal(size=(1000, 2))
        pooled = combine_sources("cx", [source_of(1000, np.cov(rows.T), noise)])
        precision = np.linalg.inv(pooled.covariance)
        scalar = infer_edges(pooled, precision)
        block = infer_blocks(rows, noise, precision, ["c", "x"])
        rejected += block.p_values[0, 1] <= 0.05, scalar.p_values[0, 1] <= 0.05
    assert rejected[0] == pytest.approx(rejected[1], rel=0.1)
    assert 0.5 < rejected[1] / 300 < 0.9
