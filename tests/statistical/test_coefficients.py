"""Intervals of regression coefficients hold, of numbers and levels, from rows and from second moments."""

import numpy as np
import pytest
from tests.unit.consumer.pipeline.mixed import mixed_sample

from dp_learn.covariance.estimate import ReleasedCovariance, keep_columns
from dp_learn.covariance.one_round import OneRound
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import CovarianceSource
from dp_learn.inference.edges import infer_coefficients

TRUE = np.array([1.0, -0.5, 1.0, 0.0, -1.0])  # of two numbers, and of three levels beside the first one
KEPT = np.array([0, 1, 3, 4, 5, 6])


def released(clean: Sample, rng: np.random.Generator) -> Sample:
    """Return second moments of these rows with noise."""
    (source,), (moments,), covariance = clean.sources, clean.moments, clean.pooled.covariance
    half = np.array([4.0, 4, 1, 1, 1, 1, 6])
    law = OneRound(moments.n_rows, half, moments.mean / half, 1.0, 18.0, 9.0)
    noisy = ReleasedCovariance(moments.n_rows, covariance + law.draw(rng, covariance), law)
    return Sample([CovarianceSource(source.columns, moments.mean, noisy, source.levels)])


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [1000, 10_000])
@pytest.mark.parametrize("kind", ["rows", "moments"])
def test_intervals_of_coefficients_hold(kind: str, n_rows: int) -> None:
    """They hold in 93 to 97 %, of numbers and of levels, and not if they leave out the noise."""
    scores, without = list[np.ndarray](), list[np.ndarray]()
    for seed in range(500):
        rng = np.random.default_rng([n_rows, seed])
        x = rng.normal(size=(n_rows, 2)) @ [[1.0, 0.6], [0.0, 0.8]]
        group = rng.choice(4, n_rows, p=[0.4, 0.3, 0.2, 0.1])
        y = x @ TRUE[:2] + np.append(0.0, TRUE[2:])[group] + rng.normal(size=n_rows)
        table = {"a": x[:, 0], "b": x[:, 1], "group": group, "y": y}
        clean = mixed_sample(table, 0.0)
        sample = mixed_sample(table, 0.3, seed) if kind == "rows" else released(clean, rng)
        of_rows, pooled = (keep_columns(each.pooled, KEPT) for each in (clean, sample))
        found = infer_coefficients(pooled, 5, lambda forms, s=sample, p=pooled: s.row_errors(p, KEPT, forms))
        exact = infer_coefficients(of_rows, 5, lambda forms, s=clean, p=of_rows: s.row_errors(p, KEPT, forms))
        if found is not None:
            scores.append((found[0] - TRUE) / found[1])
            without.append((found[0] - TRUE) / exact[1])
    assert len(scores) > 450
    for own in (np.s_[:, :2], np.s_[:, 2:]):
        assert 0.93 < np.mean(np.abs(np.array(scores)[own]) < 1.96) < 0.97
    assert np.mean(np.abs(without) < 1.96) < 0.93
