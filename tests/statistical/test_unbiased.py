"""Subtracting the noise's exact variance makes the covariance unbiased; not subtracting it does not."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dp_bundle.manifest.columns import Column
from dp_learn import debias_covariance
from dp_learn.covariance.moments import batch_moments
from dp_publish.data.missing import RowReport
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.noise import ROW_NOISE
from dp_publish.sampling.keystream import insecure_keystream

N_ROWS, N_REPETITIONS = 400, 200


def _clean_table() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    common = rng.normal(size=N_ROWS)
    return pd.DataFrame(
        {
            "a": 3 * common + rng.normal(size=N_ROWS),
            "b": 2 * common - rng.normal(size=N_ROWS),
            "c": np.clip(rng.poisson(5 + 2 * (common > 0)), 0, 40),
            "d": np.clip(rng.poisson(8 - 3 * (common > 0)), 0, 40),
        }
    )


CASES = {
    "discrete": {"c": ("integer", 1.0), "d": ("integer", 20.0)},
    "mixed": {"a": ("continuous", 1.5), "b": ("continuous", 0.3), "c": ("integer", 0.4), "d": ("integer", 3.0)},
}


@pytest.mark.parametrize("case", CASES)
def test_debiasing_makes_the_covariance_unbiased(case: str) -> None:
    """Over 200 repetitions the mean debiased covariance is the clean one, within 4 standard errors in every entry.

    Without debiasing it is off on the whole diagonal, and only there.
    """
    clean = _clean_table()[list(CASES[case])]
    columns = []
    for name, (kind, sigma) in CASES[case].items():
        bounds = (-20.0, 20.0) if kind == "continuous" else (0.0, 40.0)
        noise = ROW_NOISE[kind].describe(sigma, bounds)
        columns.append(Column(name=name, kind=kind, bounds=bounds, bounds_obtained="declared", noise=noise))
    batch = pa.RecordBatch.from_pandas(clean, preserve_index=False)
    variance, found = [column.noise.variance for column in columns], []
    for seed in range(N_REPETITIONS):
        noisy = add_noise(batch, columns, insecure_keystream(seed), RowReport())
        covariance = batch_moments(noisy.to_pandas().to_numpy(dtype=float)).covariance
        found.append((debias_covariance(covariance, variance), covariance))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(N_REPETITIONS)
    debiased, biased = (np.mean(found, axis=0) - clean.cov().to_numpy()) / error

    assert np.abs(debiased).max() < 4
    assert np.diagonal(biased).min() > 4
    assert np.abs(biased[~np.eye(len(biased), dtype=bool)]).max() < 4
