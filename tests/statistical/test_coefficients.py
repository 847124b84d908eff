"""Intervals of coefficients and effects hold, of numbers and levels, from rows and from second moments."""

import numpy as np
import pytest
from tests.unit.consumer.pipeline.mixed import mixed_sample

from dp_learn.covariance.estimate import ReleasedCovariance, keep_columns, root_of
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import CovarianceSource
from dp_learn.covariance.two_rounds import noise_of_one_round
from dp_learn.inference.edges import infer_coefficients, infer_discriminant, infer_r_squared
from dp_learn.pipeline.fit import _lay_out
from dp_learn.pipeline.nodes import tabulate_loadings
from dp_learn.pipeline.settings import Settings

TRUE = np.array([1.0, -0.5, 1.0, 0.0, -1.0])  # of two numbers, and of three levels beside the first one
KEPT = np.array([0, 1, 3, 4, 5, 6])


def released(clean: Sample, rng: np.random.Generator, last: float = 6.0) -> Sample:
    """Return second moments of these rows with noise, which goes by the last column's half-width, too."""
    (source,), (moments,), covariance = clean.sources, clean.moments, clean.pooled.covariance
    half = np.array([4.0, 4, 1, 1, 1, 1, last])
    law = noise_of_one_round(moments.n_rows, half, moments.mean / half, 1.0, (18.0, 9.0))
    noisy = ReleasedCovariance(moments.n_rows, covariance + law.draw(rng, covariance, root_of(covariance)), law)
    return Sample([CovarianceSource(source.columns, moments.mean, noisy, source.levels)])


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [1000, 10_000])
@pytest.mark.parametrize("kind", ["rows", "moments"])
def test_intervals_of_coefficients_hold(kind: str, n_rows: int) -> None:
    """They hold in 93 to 97 %, of numbers, of levels and of R^2, and not if they leave out the noise."""
    scores, without, explained = list[np.ndarray](), list[np.ndarray](), list[bool]()
    for seed in range(500):
        rng = np.random.default_rng([n_rows, seed])
        x = rng.normal(size=(n_rows, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
        group = rng.choice(4, n_rows, p=[0.4, 0.3, 0.2, 0.1])
        y = x @ TRUE[:2] + np.append(0.0, TRUE[2:])[group] + rng.normal(size=n_rows)
        table = {"a": x[:, 0], "b": x[:, 1], "group": group, "y": y}
        clean = mixed_sample(table, 0.0)
        sample = mixed_sample(table, 0.3, seed) if kind == "rows" else released(clean, rng)
        of_rows, pooled = (keep_columns(each.pooled, KEPT) for each in (clean, sample))
        given = pooled, 5, lambda forms, s=sample, p=pooled: s.row_errors(p, KEPT, forms)
        found = infer_coefficients(*given)
        exact = infer_coefficients(of_rows, 5, lambda forms, s=clean, p=of_rows: s.row_errors(p, KEPT, forms))
        if found is not None:
            scores.append((found[0] - TRUE) / found[1])
            without.append((found[0] - TRUE) / exact[1])
            low, high = infer_r_squared(*given, found[0])
            explained.append(low < 1.01 / 2.01 < high)  # the variance of the sum is 1.01
    assert len(scores) > 450
    assert 0.93 < np.mean(explained) < 0.97
    for own in (np.s_[:, :2], np.s_[:, 2:]):
        assert 0.93 < np.mean(np.abs(np.array(scores)[own]) < 1.96) < 0.97
    assert np.mean(np.abs(without) < 1.96) < 0.93


def patients(n_rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return numbers that go with a group, and being ill, which goes with both."""
    group = rng.choice(4, n_rows, p=[0.4, 0.3, 0.2, 0.1])
    x = rng.normal(size=(n_rows, 2)) @ [[1.0, 0.6], [0.0, 0.8]] + np.array([0.0, 0.2, 0.0, -0.2])[group, None]
    ill = rng.random(n_rows) < 1 / (1 + np.exp(-x[:, 0] - np.array([0.0, 0.5, 1.0, -0.5])[group]))
    return {"a": x[:, 0], "b": x[:, 1], "group": group, "ill": ill + 0.0}


def estimates(sample: Sample) -> np.ndarray:
    """Return the coefficients of a discriminant, and the effects of levels; with their errors."""
    pooled = keep_columns(sample.pooled, KEPT)
    found = infer_discriminant(pooled, 5, lambda forms: sample.row_errors(pooled, KEPT, forms))
    nodes, whole, _ = _lay_out(sample, Settings())
    table = tabulate_loadings(nodes, ~np.eye(4, dtype=bool), np.eye(6) + 0.1, whole, sample.location)
    effects = sorted(zip(*(table[name] for name in ("target", "level", "unpenalised", "standard_error")), strict=True))
    return np.hstack([found, np.array([each[2:] for each in effects]).T])


@pytest.mark.slow
@pytest.mark.parametrize(("n_rows", "kind"), [(1000, "rows"), (10_000, "rows"), (10_000, "moments")])
def test_intervals_of_discriminants_and_of_effects_hold(kind: str, n_rows: int) -> None:
    """They hold in 93 to 97 %, and in less where the noise is left out."""
    truth, _ = estimates(mixed_sample(patients(1_000_000, np.random.default_rng(1)), 0.0))
    scores, without = list[np.ndarray](), list[np.ndarray]()
    for seed in range(300):
        rng = np.random.default_rng([n_rows, seed])
        table = patients(n_rows, rng)
        clean = mixed_sample(table, 0.0)
        found, error = estimates(mixed_sample(table, 0.3, seed) if kind == "rows" else released(clean, rng, 1.0))
        scores.append((found - truth) / error)
        without.append((found - truth) / estimates(clean)[1])
    for own in (np.s_[:, :5], np.s_[:, 5:]):
        assert 0.93 < np.mean(np.abs(np.array(scores)[own]) < 1.96) < 0.97
    assert np.mean(np.abs(without) < 1.96) < 0.93
