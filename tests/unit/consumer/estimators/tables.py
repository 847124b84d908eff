"""Noisy rows to estimate from."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

from dp_learn.matrices.linalg import FloatArray


def noisy_wine(sigma: float = 0.7) -> pd.DataFrame:
    """Return scikit-learn's wine table, standardised, with Gaussian noise."""
    wine = load_wine(as_frame=True).data
    rows = (wine - wine.mean()) / wine.std()
    return rows + sigma * np.random.default_rng(3).normal(size=rows.shape)


def noisy_chain(n_rows: int) -> FloatArray:
    """Return rows of a chain of eight columns with strong links, and as much noise."""
    rng = np.random.default_rng(1)
    precision = np.eye(8) + np.diag(np.full(7, 0.45), 1) + np.diag(np.full(7, 0.45), -1)
    rows = rng.multivariate_normal(np.zeros(8), np.linalg.inv(precision), size=n_rows)
    return np.asarray(rows + rng.normal(size=rows.shape))


def missed(fitted: Any) -> set[tuple[str, str]]:
    """Return the links of the chain that an estimator did not find."""
    found = {(edge.source, edge.target) for edge in fitted.edges_.itertuples()}
    return {(f"x{index}", f"x{index + 1}") for index in range(7)} - found
