"""Noisy rows to estimate from."""

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine


def noisy_wine(sigma: float = 0.7) -> pd.DataFrame:
    """Return scikit-learn's wine table, standardised, with Gaussian noise."""
    wine = load_wine(as_frame=True).data
    rows = (wine - wine.mean()) / wine.std()
    return rows + sigma * np.random.default_rng(3).normal(size=rows.shape)
