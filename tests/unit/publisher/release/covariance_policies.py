"""Policies for covariance releases of the small table: one strength that suits each mechanism."""

from __future__ import annotations

from typing import Any

import numpy as np

from dp_bundle.bundle.reading import open_bundle
from dp_publish import Policy, Receipt

BOUNDS = {"height": [120, 220], "weight": [20, 140], "visits": [0, 30]}


STRENGTHS: dict[str, dict[str, Any]] = {
    "gaussian": {"mu": 1.0},
    "laplace": {"epsilon": 1.0},
    "wishart-difference": {"epsilon": 1.0},
    "wishart": {"epsilon": 1.0, "delta": 1e-6},
    "eigenvectors": {"epsilon": 1.0},
    "sulq": {"epsilon": 1.0, "delta": 1e-6},
    "kapralov-talwar": {"epsilon": 1.0},
}


def make_policy(columns: dict[str, Any] | None = None, **privacy: Any) -> Policy:
    """Return a policy for a covariance release of the small table."""
    entries = columns if columns is not None else {name: {"bounds": limits} for name, limits in BOUNDS.items()}
    document = {"dataset": {"name": "people"}, "privacy": {"release": "covariance", **privacy}, "columns": entries}
    return Policy.model_validate(document)


def read(receipt: Receipt) -> np.ndarray:
    """Verify a bundle and return its matrix."""
    with open_bundle(receipt.path) as opened:
        assert opened.release == receipt.release
        return opened.second_moments()
