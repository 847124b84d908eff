"""Arguments whose numbers have labels: put into the order of the columns that they are about, or refused.

A label is the index of a pandas Series or DataFrame, the columns of a DataFrame of any library, a coordinate of an
xarray DataArray, or the key of a dictionary. Arrays and lists have none, and neither has what a library numbered by
itself: they are taken by position. Labels are compared as text, as names of columns are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dp_bundle.base.errors import ParameterError
from dp_bundle.base.quoting import quote_name

_SHOWN = 5
_MANY = (Mapping, list, tuple)


def column_labels(table: Any) -> list[str] | None:
    """Return the labels of the columns of a table or a matrix, or None where it has none."""
    return labels_of(table, 1)


def labels_of(values: Any, axis: int, *, numbered: bool = False) -> list[str] | None:
    """Return the labels along an axis as text, or None where there are none.

    Parameters
    ----------
    values : array-like
        With labels or without.
    axis : int
        0 for rows, or the entries of a vector; 1 for columns.
    numbered : bool
        Whether the numbers count that a library gives by itself.
    """
    if isinstance(values, np.ndarray | np.generic | str | bytes | int | float | list | tuple) or values is None:
        return None
    found = _raw_labels(values, axis)
    return None if found is None or (_are_numbered(found) and not numbered) else [str(label) for label in found]


def align(name: str, values: Any, columns: Sequence[str] | None, *, what: str = "columns") -> Any:
    """Return values in the order of the columns along every axis that has labels; else as they came.

    Parameters
    ----------
    name : str
        What the argument is called.
    values : array-like
        One number for each column, or a matrix of one for each pair.
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
    if getattr(getattr(values, "dtype", None), "names", None):
        raise ParameterError(name, "an array of numbers, a Series or a dictionary", "an array of records")
    if isinstance(values, Mapping) and any(isinstance(each, _MANY) or np.ndim(each) for each in values.values()):
        raise ParameterError(name, "one value for each label", "a dictionary of several")
    n_axes = 1 if isinstance(values, Mapping) else int(getattr(values, "ndim", 0) or len(getattr(values, "shape", ())))
    labels = [_labels_beside(columns, values, axis) for axis in range(min(n_axes, 2))]
    plain = np.asarray(list(values.values())) if isinstance(values, Mapping) else values
    if not any(labels):
        return plain
    plain = np.asarray(plain)
    orders = [None if each is None else _order(name, each, columns, what) for each in labels]
    moved = any(order is not None and order != sorted(order) for order in orders)
    if moved and None in orders:
        raise ParameterError(name, f"labelled by {what} on both sides, or in their order", "labels on one side alone")
    for axis, order in enumerate(orders):
        if order is not None and order != list(range(plain.shape[axis])):
            plain = plain.take(order, axis)
    return plain


def align_square(name: str, matrix: Any) -> Any:
    """Return a matrix with its rows in the order of its columns, where both have labels; else as it came."""
    columns = labels_of(matrix, 1, numbered=True)
    rows = None if columns is None else _labels_beside(columns, matrix, 0)
    numbered = labels_of(matrix, 1) is None and {*(columns or ())}.isdisjoint(rows or ())
    return matrix if numbered or rows in (None, columns) else align(name, matrix, columns)


def align_rows(name: str, values: Any, rows: Any) -> Any:
    """Return one value for each row in the order of the rows, where both have an index; else as they came.

    What pandas numbered by itself has no labels beside an index that has none of these numbers, and is taken by
    position, as arrays are.
    """
    if not (_is_pandas(values) and _is_pandas(rows)) or values.index.equals(rows.index):
        return values
    unique = rows.index.is_unique and values.index.is_unique
    if unique and not len(rows.index.symmetric_difference(values.index)):
        return values.loc[rows.index]
    if not {*rows.index} & {*values.index} and any(_are_numbered(list(each.index)) for each in (rows, values)):
        return values
    came = "an index of other rows, or one that has rows twice"
    raise ParameterError(name, "indexed by the rows of X, or without an index (to_numpy())", came)


def _labels_beside(columns: Sequence[str] | None, values: Any, axis: int) -> list[str] | None:
    """Return the labels along an axis, and numbers that a library gave by itself where the columns have any of them."""
    labels = labels_of(values, axis, numbered=True)
    if labels is None or labels_of(values, axis) is not None:
        return labels
    return labels if not {*labels}.isdisjoint(columns or ()) else None


def _raw_labels(values: Any, axis: int) -> list[Any] | None:
    if isinstance(values, Mapping):
        return list(values) if axis == 0 else None
    if _is_pandas(values):
        return list(values.axes[axis]) if axis < len(values.axes) else None
    if hasattr(values, "dims") and hasattr(values, "coords"):  # xarray
        dimension = values.dims[axis] if axis < len(values.dims) else None
        return np.asarray(values.coords[dimension]).tolist() if dimension in values.coords else None
    if axis == 1:  # polars, and tables of Arrow
        columns = getattr(values, "columns", None) if hasattr(values, "get_column") else None
        columns = getattr(values, "column_names", None) if columns is None else columns
        return None if columns is None else list(columns)
    return None


def _is_pandas(values: Any) -> bool:
    return hasattr(values, "axes") and hasattr(values, "iloc")


def _are_numbered(labels: list[Any]) -> bool:
    """Return whether labels are those that pandas or polars gives where nobody gave any."""
    numbers = all(isinstance(label, int | np.integer) and label == place for place, label in enumerate(labels))
    return numbers or labels == [f"column_{place}" for place in range(len(labels))]


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
