"""On the scale of data units, errors of covariances are what penalties are compared with, not those of correlations."""

import numpy as np
import pytest

from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.pipeline.fit import fit_graph
from dp_learn.pipeline.settings import Settings

UNITS = np.array([1e-3, 0.1, 1.0, 20.0, 3e4, 7.0])
NOISE = np.array([0.2, 0.5, 0.9, 0.3, 0.6, 0.4])  # standard deviations, of columns with variances of about 1


def noisy_chain(units: np.ndarray | float) -> Sample:
    """Return rows of an autoregression with other noise in every column, in these units."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(1500, 6))
    for place in range(1, 6):
        rows[:, place] = 0.6 * rows[:, place - 1] + 0.8 * rows[:, place]
    noisy = rows + NOISE * rng.normal(size=rows.shape)
    return Sample([table_rows(noisy * units, [f"x{place}" for place in range(6)], (NOISE * units) ** 2)])


@pytest.mark.parametrize("penalize_diagonal", [True, False])
def test_weights_by_noise_make_the_scale_immaterial(*, penalize_diagonal: bool) -> None:
    """Penalties in proportion to errors of covariances choose what those to errors of correlations do."""
    settings = Settings(weights="noise", select="ebic", penalize_diagonal=penalize_diagonal, tol=1e-10)
    sample = noisy_chain(UNITS)
    on_correlations, on_covariances = (
        fit_graph(sample, each) for each in (settings, Settings(**{**vars(settings), "scale": "covariance"}))
    )
    scaled = np.outer(UNITS, UNITS)

    assert np.count_nonzero(np.triu(on_correlations.precision, 1)) >= 5
    assert np.median(on_covariances.weights[np.triu_indices(6, 1)]) == pytest.approx(1.0)
    np.testing.assert_allclose(
        on_covariances.precision * scaled, on_correlations.precision * scaled, rtol=1e-4, atol=1e-6
    )
