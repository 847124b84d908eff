"""The paper's tables of rows, and its generator, scaled into the unit ball."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

from reproduction.simulation import Floats

REAL = {"wine": "", "airfoil": "airfoil", "adult": "adult"}  # and the data set that each needs
SCALINGS = ("raw", "own norm", "standardised")  # other ways into the unit ball than the columns' ranges


def rows_of(table: str, data: Path, rng: np.random.Generator) -> Floats:
    """Return the rows of wine, airfoil or adult, or of algorithm 3: `synthetic`, d and n with hyphens between.

    Categories of adult are coded as indicators: 108 columns. Columns are scaled to [-1, 1] by their range, and rows
    divided by the largest norm; neither is private, and serves the comparison only. After a comma comes another of the
    `SCALINGS`: columns as they are, and rows by the largest norm; the same, and every row by its own norm; columns
    standardised, and every row by its own norm.
    """
    if ", " in table:
        name, scaling = table.split(", ")
        return _scaled_otherwise(_columns_of(name, data), scaling)
    if table in REAL:
        return _scaled(_columns_of(table, data))
    d, n = (int(word) for word in table.split("-")[1:])
    return generated(d, n, rng)


def _columns_of(table: str, data: Path) -> Floats:
    if table == "wine":
        wine: Floats = load_wine().data
        return wine
    if table == "airfoil":
        return pd.read_csv(data / "airfoil" / "airfoil.csv").to_numpy(dtype=float)
    frame = pd.read_parquet(data / "adult" / "adult.parquet").drop(columns=["split", "income"])
    return pd.get_dummies(frame).to_numpy(dtype=float)


def _scaled_otherwise(rows: Floats, scaling: str) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if scaling == "standardised":
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Floats = rows / (norms.max() if scaling == "raw" else norms)
    return scaled


def generated(n_columns: int, n_rows: int, rng: np.random.Generator) -> Floats:
    """Return the rows of algorithm 3: normal ones mixed by uniform numbers, each column standardised, then each row."""
    rows = rng.normal(size=(n_rows, n_columns)) @ rng.uniform(size=(n_columns, n_columns)).T
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    normalised: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normalised


def _scaled(rows: Floats) -> Floats:
    low, high = rows.min(axis=0), rows.max(axis=0)
    scaled = (2 * rows - low - high) / np.where(high > low, high - low, 1.0)
    result: Floats = scaled / np.linalg.norm(scaled, axis=1).max()
    return result
