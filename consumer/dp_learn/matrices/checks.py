"""Checks of what a caller passes as a covariance, a penalty or its weights; each failure is one sentence.

Arguments of pandas: put into the order of the columns, or rows, that they are about, or refused.

Labels are the index of a Series or the index and columns of a DataFrame, compared as text, as names of columns are.
Arrays have none, and neither has what pandas numbered by itself beside names: they are taken by position.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import quote_name
from dp_learn.matrices.linalg import FloatArray, Mask

_SHOWN = 5


def column_labels(table: Any) -> list[str] | None:
    """Return the labels of the columns of a DataFrame, or None where it has none, as other values."""
    return _labels_beside((), table, 1)


def align(name: str, values: Any, columns: Sequence[str] | None, *, what: str = "columns") -> Any:
    """Return values in the order of the columns along every axis that has labels; else as they came.

    Parameters
    ----------
    name : str
        What the argument is called.
    values : array-like
        One value for each column, or a matrix of one for each pair.
    columns : sequence of str or None
        The labels that it is to have, in their order; None where what it goes with has no labels.
    what : str
        What these are the labels of.

    Returns
    -------
    array-like
        `values` itself if it has no labels.

    Raises
    ------
    ParameterError
        Labels are missing, unknown or there twice, or one side alone has labels in another order.
    """
    labels = [_labels_beside(columns or (), values, axis) for axis in range(2)]
    if not any(labels):
        return values
    orders = [None if each is None else _order(name, each, columns, what) for each in labels]
    moved = any(order is not None and order != sorted(order) for order in orders)
    if moved and np.ndim(values) == 2 and None in orders:
        raise ParameterError(name, f"labelled by {what} on both sides, or in their order", "labels on one side alone")
    plain = np.asarray(values)
    for axis, order in enumerate(orders):
        plain = plain if order is None else plain.take(order, axis)
    return plain


def align_numbers(name: str, values: npt.ArrayLike, columns: Sequence[str] | None) -> FloatArray:
    """Return `align` of numbers as an array; a ParameterError where they are none."""
    try:
        return np.asarray(align(name, values, columns), dtype=float)
    except (TypeError, ValueError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(name, "a number, an array of numbers, a Series or a DataFrame", values) from error


def align_square(name: str, matrix: Any) -> Any:
    """Return a matrix with its rows in the order of its columns, where both have labels; else as it came."""
    if not _is_pandas(matrix) or _are_apart(*matrix.axes) or matrix.axes[0].equals(matrix.axes[-1]):
        return matrix
    return align(name, matrix, [str(label) for label in matrix.axes[-1]])


def align_rows(name: str, values: Any, rows: Any) -> Any:
    """Return one value for each row in the order of the rows, where both have an index; else as they came."""
    if not (_is_pandas(values) and _is_pandas(rows)) or values.index.equals(rows.index):
        return values
    unique = rows.index.is_unique and values.index.is_unique
    if unique and not len(rows.index.symmetric_difference(values.index)):
        return values.loc[rows.index]
    if _are_apart(rows.index, values.index):
        return values
    came = "an index of other rows, or one that has rows twice"
    raise ParameterError(name, "indexed by the rows of X, or without an index (to_numpy())", came)


def _labels_beside(columns: Sequence[str], values: Any, axis: int) -> list[str] | None:
    """Return the labels along an axis, where it has any that pandas did not give by itself, or the columns have."""
    if not _is_pandas(values) or axis >= len(values.axes):
        return None
    labels = [str(label) for label in values.axes[axis]]
    return None if _are_numbered(values.axes[axis]) and {*labels}.isdisjoint(columns) else labels


def _is_pandas(values: Any) -> bool:
    return hasattr(values, "axes") and hasattr(values, "iloc")


def _are_numbered(labels: Sequence[Any]) -> bool:
    """Return whether labels are those that pandas gives where nobody gave any."""
    return all(isinstance(label, int | np.integer) and label == index for index, label in enumerate(labels))


def _are_apart(first: Sequence[Any], *others: Sequence[Any]) -> bool:
    """Return whether two axes have no label in common, as pandas numbered one of them by itself."""
    apart = all({*map(str, first)}.isdisjoint(map(str, second)) for second in others)
    return apart and any(map(_are_numbered, (first, *others)))


def _order(name: str, labels: list[str], columns: Sequence[str] | None, what: str) -> list[int]:
    """Return the position of every column among the labels."""
    if columns is None:
        allowed = f"without labels, in the order of the {what}, as these have none (or label them, too)"
        raise ParameterError(name, allowed, f"labels {_listed(labels)}")
    if labels == list(columns):
        return list(range(len(labels)))
    wrong = {
        "missing": [label for label in columns if label not in set(labels)],
        "unknown": [label for label in labels if label not in set(columns)],
        "there twice": [label for label, count in (Counter(labels) | Counter(columns)).items() if count > 1],
    }
    said = [f"{_listed(found)} {'is' if len(found) == 1 else 'are'} {why}" for why, found in wrong.items() if found]
    if said:
        raise ParameterError(name, f"labelled by the {what} ({'; '.join(said)})")
    place = {label: index for index, label in enumerate(labels)}
    return [place[label] for label in columns]


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(quote_name(label) for label in labels[:_SHOWN])
    return shown if len(labels) <= _SHOWN else f"{shown} and {len(labels) - _SHOWN} more"


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


def _refuse_where(name: str, bad: Mask, m: FloatArray, allowed: str) -> None:
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
