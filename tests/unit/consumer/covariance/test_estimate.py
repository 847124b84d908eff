"""Sources are debiased, weighted, cut to columns, and checked."""

from __future__ import annotations

import numpy as np
import pytest

from dp_bundle.base.errors import ParameterError
from dp_bundle.manifest.columns import Column, Noise
from dp_learn.covariance.debias import NoisyCovariance, noise_fourth_cumulants
from dp_learn.covariance.estimate import PooledCovariance, combine_sources, keep_columns


def make_source(n_rows: int = 50, level: float = 3.0, noise: float = 1.0) -> NoisyCovariance:
    """Return a source of three columns with unequal noise."""
    covariance = level * np.eye(3) + 0.5
    return NoisyCovariance(n_rows, covariance, noise * np.array([1.0, 0.5, 0.0]), np.array([0.1, 0.2, 0.3]))


def test_covariance_is_the_weighted_mean_of_the_debiased_ones() -> None:
    """Each source loses its own noise, and the weights are divided by their sum."""
    pooled = combine_sources("abc", [make_source(level=3.0), make_source(level=5.0, noise=2.0)], (1, 3))

    assert pooled.columns == ("a", "b", "c")
    assert pooled.weights == (0.25, 0.75)
    expected = 0.5 + np.diag(0.25 * np.array([2.0, 2.5, 3.0]) + 0.75 * np.array([3.0, 4.0, 5.0]))
    np.testing.assert_allclose(pooled.covariance, expected, rtol=1e-15)
    np.testing.assert_array_equal(np.diagonal(pooled.correlation), 1.0)


def test_columns_are_cut_from_everything() -> None:
    """What is kept is what the covariance of those columns alone would be."""
    kept = np.array([0, 2])
    cut = keep_columns(combine_sources("abc", [make_source()]), kept)
    source = make_source()
    alone = NoisyCovariance(
        50, source.covariance[np.ix_(kept, kept)], source.noise_variance[kept], np.array([0.1, 0.3])
    )
    expected = combine_sources("ac", [alone])

    assert cut.columns == expected.columns
    np.testing.assert_array_equal(cut.covariance, expected.covariance)
    for name in ("covariance", "noise_variance", "noise_fourth_cumulant"):
        np.testing.assert_array_equal(getattr(cut.sources[0], name), getattr(alone, name))


def test_fourth_cumulants_have_the_columns_units() -> None:
    """On a grid of 1/2 the rounded noise's cumulant is 1/16 of that on the integers: -1/120 of a step to the fourth."""
    noises = [Noise.discrete_gaussian(0.5), Noise.rounded_gaussian(4.0, 1.0), Noise.rounded_gaussian(4.0, 0.5)]
    kinds = ["integer", "continuous", "continuous"]
    columns = [
        Column(name=kind, kind=kind, bounds=(0.0, 1.0), bounds_obtained="declared", noise=noise)
        for kind, noise in zip(kinds, noises, strict=True)
    ]
    discrete = sum(k**4 * np.exp(-2.0 * k * k) for k in range(-9, 10)) / sum(
        np.exp(-2.0 * k * k) for k in range(-9, 10)
    )

    found = noise_fourth_cumulants(columns)

    np.testing.assert_allclose(found, [discrete - 3 * noises[0].variance ** 2, -1 / 120, -1 / 1920], rtol=1e-12)


def test_what_does_not_fit_together_is_refused() -> None:
    """Shapes, weights and row counts are checked, and a column without variance has no correlation."""
    with pytest.raises(ParameterError, match=r"noise_variance\.shape"):
        NoisyCovariance(5, np.eye(2), np.zeros(3), np.zeros(2))
    with pytest.raises(ParameterError, match=r"covariance\.shape"):
        NoisyCovariance(5, np.ones((2, 3)), np.zeros(2), np.zeros(2))
    with pytest.raises(ParameterError, match="n_rows"):
        NoisyCovariance(1, np.eye(2), np.zeros(2), np.zeros(2))
    for columns, sources in (("ab", [make_source()]), ("abc", [])):
        with pytest.raises(ParameterError, match="sources"):
            combine_sources(columns, sources)
    for weights in ((1.0,), (0.0, 0.0), (-1.0, 2.0), (np.nan, 1.0)):
        with pytest.raises(ParameterError, match="weights"):
            combine_sources("abc", [make_source(), make_source()], weights)
    with pytest.raises(ParameterError, match="row counts"):
        combine_sources("abc", [make_source(50), make_source(51)], (1, 1), same_rows=True)
    drowned = PooledCovariance(
        ("a", "b"), np.diag([1.0, -0.1]), (NoisyCovariance(5, np.eye(2), np.zeros(2), np.zeros(2)),)
    )
    with pytest.raises(ParameterError, match=r"positive debiased variance.*'b'"):
        _ = drowned.deviations
