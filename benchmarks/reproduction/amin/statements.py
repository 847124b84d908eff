"""The remark on rank k and corollary 2 at examples where they do not hold: what is stated, and what is found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from reproduction.pieces import Piece
from reproduction.setting import Setting

SIZES = (100.0, 10_000.0, 1_000_000.0)  # of both eigenvalues


def rank_1(size: float, epsilon: float = 1.0) -> dict[str, float]:
    """Return the mean distance from the best approximation of rank 1 to diag(size + 1, size), its bound, the excess.

    The vector (cos t, sin t) is drawn with density proportional to ``exp(epsilon / 4 cos^2 t)``, as the eigenvalues
    differ by 1; their own noise is left out. The excess is the error less that of the best approximation. The bound is
    without the constants and logarithms that it leaves out, and with epsilon for the eigenvalues too.
    """
    angles = (np.arange(100_000) + 0.5) * (math.pi / 100_000)
    density = np.exp(0.25 * epsilon * np.cos(angles) ** 2)
    density /= density.sum()
    outside = np.sin(angles) ** 2
    error = np.sqrt(size**2 + 2.0 * (size + 1.0) * outside)
    return {
        "stated": math.sqrt(2.0 * (size + 1.0) / epsilon) + math.sqrt(2.0) / epsilon,
        "found": float(density @ ((size + 1.0) * np.sqrt(2.0 * outside))),
        "excess": float(density @ error - size),
    }


def zero_table(n_columns: int, epsilon: float = 1.0) -> dict[str, float]:
    """Return corollary 2's bound for a table of zeros with zeta = d / epsilon, and the root mean square of the error.

    The logarithm of d / (epsilon zeta) is then zero, and so is the eigenvalue that is asked for. The output has only
    the noise of the eigenvalues, of variance ``2 (4 / epsilon)^2`` each.
    """
    return {"stated": 0.0, "found": math.sqrt(n_columns * 2.0) * 4.0 / epsilon}


def first_term(constant: float, d: float, epsilon: float, zeta: float) -> float:
    """Return ``d^1.5 sqrt(lambda log(lambda) / epsilon)`` over ``zeta lambda`` at the least eigenvalue lambda.

    That is what the proof bounds by a constant; lambda is ``constant d^3 / (epsilon zeta^2) log(d / (epsilon zeta))``.
    """
    scale, log = d**3 / (epsilon * zeta**2), math.log(d / (epsilon * zeta))
    eigenvalue = constant * scale * log
    return math.sqrt(max(scale * math.log(eigenvalue) / eigenvalue, 0.0))


def _measure() -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = [
        {"statement": "rank 1", "case": f"eigenvalues near {size:g}", **rank_1(size)} for size in SIZES
    ]
    records.append({"statement": "corollary 2", "case": "a table of zeros", **zero_table(5)})
    for constant in (2, 6):
        found = first_term(constant, 10, 1.0, 1.0)
        records.append({"statement": "corollary 2", "case": f"constant {constant}", "stated": 1.0, "found": found})
    return records


def _describe(cells: pd.DataFrame) -> Mapping[str, Any]:
    found = cells.set_index(["statement", "case", "measure"])["mean"].sort_index()
    last = found["rank 1", f"eigenvalues near {SIZES[1]:g}"]
    return {
        "size": f"{SIZES[1]:,.0f}",
        "distance": f"{last['found']:,.0f}",
        "bound": f"{last['stated']:,.0f}",
        "excess": f"{last['excess']:.2f}",
        "zero_error": f"{found['corollary 2', 'a table of zeros', 'found']:.1f}",
        "constant_2": f"{found['corollary 2', 'constant 2', 'found']:.2f}",
        "constant_6": f"{found['corollary 2', 'constant 6', 'found']:.2f}",
    }


def _jobs(_: Setting) -> list[tuple[()]]:
    return [()]


PIECE = Piece("amin_statements", ("statement", "case"), _jobs, _measure, _describe)
