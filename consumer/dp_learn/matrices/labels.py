"""Arguments of pandas: put into the order of the columns, or rows, that they are about, or refused.

Labels are the index of a Series or the index and columns of a DataFrame, compared as text, as names of columns are.
Arrays have none, and neither has what pandas numbered by itself beside names: they are taken by position.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import quote_name

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


def align_numbers(name: str, values: npt.ArrayLike, columns: Sequence[str] | None) -> npt.NDArray[np.float64]:
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
