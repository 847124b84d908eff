"""Make the files that readers of the tutorials receive, with new keys: `python docs/tutorials/files/make.py`.

They are made once and kept, so that readers see on their screens what the pages show. The keys are thrown away.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from dp_bundle.trust.store import public_key_path
from dp_publish import load_key, publish
from dp_publish.policy.file import load_policy

FOLDER = Path(__file__).parent
NAMES = {
    "bp": "blood_pressure",
    "s1": "cholesterol",
    "s2": "ldl",
    "s3": "hdl",
    "s4": "cholesterol_ratio",
    "s5": "log_triglycerides",
    "s6": "glucose",
    "target": "progression",
}


CELLS = {
    "mean radius": "radius",
    "mean texture": "texture",
    "mean smoothness": "smoothness",
    "mean compactness": "compactness",
    "mean symmetry": "symmetry",
    "mean fractal dimension": "fractal_dimension",
    "radius error": "radius_error",
    "smoothness error": "smoothness_error",
}


def main() -> None:
    """Publish the diabetes table once, the wine table twice, and the two kinds of tumours once each."""
    diabetes = load_diabetes(as_frame=True, scaled=False).frame.rename(columns=NAMES)
    wine = load_wine(as_frame=True).data
    make("hospital", diabetes, "diabetes", {"diabetes.bundle.tar": {}})
    moments = {"release": "covariance", "unit": "row", "mu": 2.0}
    make("wine-board", wine, "wine", {"wine-1.bundle.tar": {}, "wine-2.bundle.tar": moments})
    make_cells()


def make_cells() -> None:
    """Publish benign and malignant tumours, other patients each, as two datasets of one signer."""
    table = load_breast_cancer(as_frame=True)
    kinds = {
        name: table.data.loc[table.target == code, list(CELLS)].rename(columns=CELLS)
        for name, code in (("benign", 1), ("malignant", 0))
    }
    with tempfile.TemporaryDirectory() as home:
        os.environ["DPGRAPH_HOME"] = home
        key = load_key()
        for name, rows in kinds.items():
            (FOLDER / f"{name}.bundle.tar").unlink(missing_ok=True)
            policy = load_policy(FOLDER / "cells.policy.toml", name, {})
            publish(rows, policy, out=FOLDER / f"{name}.bundle.tar", key=key)
        shutil.copy(public_key_path(), FOLDER / "clinic.pub")


def make(signer: str, table: pd.DataFrame, name: str, files: dict[str, dict[str, Any]]) -> None:
    """Publish a table under its policy, once for each file, and hand out the signer's public key."""
    with tempfile.TemporaryDirectory() as home:
        os.environ["DPGRAPH_HOME"] = home
        key = load_key()
        for file, changes in files.items():
            (FOLDER / file).unlink(missing_ok=True)
            policy = load_policy(FOLDER / f"{name}.policy.toml", name, changes)
            publish(table, policy, out=FOLDER / file, key=key)
        shutil.copy(public_key_path(), FOLDER / f"{signer}.pub")


if __name__ == "__main__":
    main()
