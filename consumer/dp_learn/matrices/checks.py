"""Checks of what a caller passes as a covariance, a penalty or its weights; each failure is one sentence."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dp_bundle.base.errors import ParameterError
from dp_learn.matrices.labels import align, align_square
from dp_learn.matrices.linalg import FloatArray

SYMMETRY_TOLERANCE = 1e-8  # relative to the largest entry


def check_covariance(covariance: ArrayLike, *, copy: bool = True) -> FloatArray:
    """Return the covariance as an exactly symmetric float64 matrix, or say what is wrong with it.

    It is a copy, or else the matrix itself where that is possible.
    """
    s = _as_square("covariance", covariance, copy=copy)
    if not math.isfinite(np.add.reduce(s, axis=None)):  # which is seen faster, and may also be an overflow
        _refuse_where("covariance", ~np.isfinite(s), s, "finite")
    return _symmetric("covariance", s)


def check_alpha(alpha: Any) -> float:
    """Return alpha as a float, or say what is wrong with it."""
    allowed = "a finite number > 0"
    if isinstance(alpha, bool | np.bool_):
        raise ParameterError("alpha", allowed, alpha)
    try:
        value = float(alpha)
    except (TypeError, ValueError) as error:
        raise ParameterError("alpha", allowed, alpha) from error
    if not (math.isfinite(value) and value > 0.0):
        raise ParameterError("alpha", allowed, value)
    return value


def check_weights(
    weights: ArrayLike | None,
    n_features: int,
    *,
    penalize_diagonal: bool,
    columns: Sequence[str] | None = None,
    what: str = "columns",
) -> FloatArray:
    """Return the penalty weights, ones by default, with a zero diagonal when that is not penalised.

    Where they have labels, they are put in the order of `columns`, the labels of what is penalised.
    """
    if weights is None:
        w = np.empty((n_features, n_features))
        w.fill(1.0)  # faster than ones()
    else:
        w = _as_square("weights", align("weights", weights, columns, what=what))
        if w.shape[0] != n_features:
            raise ParameterError("weights.shape", f"({n_features}, {n_features}), like the covariance", w.shape)
        _refuse_where("weights", ~(w >= 0.0), w, "non-negative, with inf for a forbidden edge")
        _refuse_where("weights", np.diag(np.isinf(w.diagonal())), w, "finite on the diagonal")
        w = _symmetric("weights", w)
    if not penalize_diagonal:
        w.ravel()[:: n_features + 1] = 0.0
    return w


def check_free_diagonal(s: FloatArray, penalty: FloatArray) -> None:
    """Refuse a variance that is not positive where no penalty can lift it."""
    variance = s.diagonal()
    if np.minimum.reduce(variance) > 0.0:
        return
    bad = (variance <= 0.0) & (penalty.diagonal() == 0.0)
    if bad.any():
        allowed = "positive where the diagonal is not penalised (zero is a constant column, less is all noise)"
        _refuse_where("covariance", np.diag(bad), s, allowed)


def _as_square(name: str, matrix: ArrayLike, *, copy: bool = True) -> FloatArray:
    plain = isinstance(matrix, np.ndarray) and matrix.dtype == np.float64
    matrix = matrix if plain else align_square(name, matrix)
    if not plain and np.iscomplexobj(matrix):
        raise ParameterError(name, "a matrix of real numbers", "complex numbers")
    try:
        m = (np.array if copy else np.asarray)(matrix, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ParameterError(name, "a matrix of real numbers", type(matrix).__name__) from error
    if m.ndim != 2 or m.shape[0] != m.shape[1] or m.shape[0] == 0:
        raise ParameterError(f"{name}.shape", "(p, p) with p >= 1", m.shape)
    return m


def _refuse_where(name: str, bad: NDArray[np.bool_], m: FloatArray, allowed: str) -> None:
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise ParameterError(f"{name}[{i}, {j}]", allowed, float(m[i, j]))


def _symmetric(name: str, m: FloatArray) -> FloatArray:
    if np.logical_and.reduce(m == m.T, axis=None):
        return m
    finite = np.where(np.isfinite(m), m, np.sign(m) * 0.0)
    bad = (np.isfinite(m) != np.isfinite(m.T)) | (np.abs(finite - finite.T) > SYMMETRY_TOLERANCE * np.abs(finite).max())
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise ParameterError(
            f"{name}[{i}, {j}]", f"{name}[{j}, {i}] = {float(m[j, i])!r} (a symmetric matrix)", float(m[i, j])
        )
    return 0.5 * (m + m.T)
