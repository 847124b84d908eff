"""Theorem 4.2: noise links what is not linked. The paper's example, and one where it does not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from dp_learn import debias_covariance
from reproduction.data_sets import Floats
from reproduction.pieces import Piece
from reproduction.setting import Setting
from reproduction.tables import markdown_table

SIGMA_SQUARED = 0.3
PAPER = np.array([[1, 0.3, 0, 0.25], [0.3, 1, -0.1, 0], [0, -0.1, 1, 0], [0.25, 0, 0, 1]])  # equation 26
PRINTED = {(0, 2): 0.0041, (1, 3): -0.01, (2, 3): -0.0002}  # of equation 27, where the precision matrix is zero
CYCLE = np.array([[1, 0.3, 0, 0.3], [0.3, 1, 0.3, 0], [0, 0.3, 1, -0.3], [0.3, 0, -0.3, 1]])
EXAMPLES = {"the paper's": PAPER, "a cycle": CYCLE}


def _measure(name: str) -> list[dict[str, Any]]:
    """Return the entries above the diagonal before the noise, after it, and with its variance subtracted again."""
    theta: Floats = EXAMPLES[name].astype(float)
    noisy = np.linalg.inv(theta) + SIGMA_SQUARED * np.eye(4)
    after = np.linalg.inv(noisy)
    debiased = np.linalg.inv(debias_covariance(noisy, np.full(4, SIGMA_SQUARED)))
    return [
        {"example": name, "pair": f"{i + 1}-{j + 1}", "before": theta[i, j]}
        | {"after": round(after[i, j], 12), "debiased": round(debiased[i, j], 12)}
        for i, j in zip(*np.triu_indices(4, 1), strict=True)
    ]


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    wide = cells.pivot(index=["example", "pair"], columns="measure", values="mean")
    printed = {f"{i + 1}-{j + 1}": f"{value:g}" for (i, j), value in PRINTED.items()}
    rows = []
    for (example, pair), each in wide.sort_index(ascending=[False, True]).iterrows():
        is_zero = example == "the paper's" and pair in printed
        noisy, debiased = (f"{round(each[name], 4) + 0.0:.4f}" for name in ("after", "debiased"))
        rows.append([example, pair, f"{each['before']:g}", printed[pair] if is_zero else "", noisy, debiased])
    head = ["matrix", "pair", "Theta", "with noise, printed", "with noise", "debiased"]
    return {"table": markdown_table(head, rows, left=2)}


def _jobs(_: Setting) -> list[tuple[str]]:
    return [(name,) for name in EXAMPLES]


PIECE = Piece("guo_theorem_4_2", ("example", "pair"), _jobs, _measure, _describe)
