r"""The unpenalised fit of a precision matrix on a sparse graph, to a positive definite covariance.

    minimise  -logdet Theta + <S, Theta>  over positive definite Theta that are zero where the graph has no edge

Three things make it several times faster than block descent with infinite penalties. Columns whose neighbours are all
neighbours of each other are removed first, one after the other: their part of the fit is a regression, exactly. What is
left goes through the block descent of Hastie, Tibshirani & Friedman, one exact regression per column, which needs no
penalties and looks for no active coordinates. And every row of the dual matrix W moves by `RELAXATION` times the step
to its best value. That raises the determinant for any number between 0 and 2: with v the variance of a column given the
others, q what its best row would add to v, and an entry outside the graph being free, a step of omega times the way
leaves v + q - (1 - omega)^2 q. W's entries on the graph never change, so that it stays feasible.

References
----------
Hastie, Tibshirani & Friedman (2009), The Elements of Statistical Learning, algorithm 17.1. Lauritzen (1996), Graphical
Models, proposition 5.6 and section 5.3.2, for the removal. Ostrowski (1954), On the linear iteration procedures for
symmetric matrices, for over-relaxation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from dp_learn.glasso.problem import ROUNDING
from dp_learn.glasso.solvers._graph_kernels import regress_removed, remove_cliques, sweep_graph
from dp_learn.glasso.solvers._sparse_kernels import SparseRows, residual_square
from dp_learn.glasso.solvers.sparse_certificate import gap_bound, is_sparse, sparse_logdet
from dp_learn.glasso.solvers.standard_form import gathered
from dp_learn.matrices.linalg import FloatArray, logdet

RELAXATION = 1.5
MAX_SWEEPS = 200  # a fit that takes more is nearly singular
FIRST_CHECK = 20.0  # gaps: a sweep that moved W by less is followed by a certificate
CHECK_EVERY = 10  # sweeps between two certificates at the latest


@dataclass(frozen=True, eq=False)
class SparseFit:
    """A certified fit on a graph.

    Attributes
    ----------
    precision : csr_array of shape (p, p)
        Zero where the graph has no edge.
    objective : float
        ``-logdet Theta + <S, Theta>``.
    duality_gap : float
        An upper bound on how much a better fit could lower it.
    """

    precision: csr_array
    objective: float
    duality_gap: float


def fit_sparse_graph(s: FloatArray, edges: npt.NDArray[np.bool_], *, gap: float) -> SparseFit | None:
    """Return the fit to a duality gap of at most `gap`, or None where it could not be certified.

    Parameters
    ----------
    s : ndarray, shape (p, p)
        Positive definite.
    edges : ndarray of bool, shape (p, p)
        Symmetric; its diagonal does not matter.
    gap : float
        The largest gap allowed.
    """
    linked = edges & ~np.eye(len(edges), dtype=bool)
    length, column = linked.sum(axis=1), _in_rows(linked.sum(axis=1), np.nonzero(linked)[1], np.int32)
    order, near, count, left = remove_cliques(edges, column, length)
    rows, columns, values, log_variances, definite = regress_removed(s, order, near, count)
    core = np.flatnonzero(left)
    scale = 1.0 / np.sqrt(s.diagonal()[core])
    found = _descend(s, _rows_among(s, linked, core, scale), core, scale, gap) if definite else None
    if found is None:
        return None

    entries, diagonal, value, reached = found
    one, other, used = _places(entries)
    precision = coo_array(
        (
            np.concatenate([values, entries.value[used] * scale[one] * scale[other], diagonal * scale * scale]),
            (np.concatenate([rows, core[one], core]), np.concatenate([columns, core[other], core])),
        ),
        shape=s.shape,
    )
    value += len(order) + log_variances - 2.0 * float(np.log(scale).sum())
    return SparseFit(csr_array(precision), value, reached)


def _descend(
    s: FloatArray, edges: SparseRows, core: npt.NDArray[np.intp], scale: FloatArray, gap: float
) -> tuple[SparseRows, FloatArray, float, float] | None:
    """Return the fit on the columns that are left, in standard form: entries, diagonal, objective and gap."""
    p = core.size
    coefficients, variance, w = np.zeros(edges.value.shape), np.ones(p), gathered(s, core, scale)
    one, other, used = _places(edges)
    label = connected_components(csr_array((edges.value[used], (one, other)), shape=(p, p)))[1]
    w[label[:, None] != label] = 0.0
    np.fill_diagonal(w, 1.0)
    target, next_check = FIRST_CHECK * gap, CHECK_EVERY
    for n_sweeps in range(1, MAX_SWEEPS + 1):
        moved, definite = sweep_graph(edges, w, coefficients, variance, RELAXATION)
        if not definite:
            return None
        if moved > target and n_sweeps < next_check:
            continue
        entries = _symmetrised(edges, coefficients, variance)
        value, reached = _certify(edges, entries, 1.0 / variance, w)
        if reached <= gap:
            return entries, 1.0 / variance, value, reached
        next_check = n_sweeps + CHECK_EVERY
        target = 0.5 * moved * gap / reached if reached < math.inf else 0.1 * moved
    return None


def _certify(edges: SparseRows, entries: SparseRows, diagonal: FloatArray, w: FloatArray) -> tuple[float, float]:
    """Return the objective and its gap to the dual value at `w`, as `certify` and `certify_sparse` do."""
    terms = edges.value * entries.value
    linear, size = float(diagonal.sum() + terms.sum()), float(diagonal.sum() + np.abs(terms).sum())
    if is_sparse(edges):
        value = linear - sparse_logdet(entries, diagonal)
        return value, gap_bound(residual_square(w, entries, diagonal)) + ROUNDING * size if value < math.inf else value
    theta = np.diag(diagonal)
    one, other, used = _places(edges)
    theta[one, other] = entries.value[used]
    value = linear - logdet(theta)
    return value, value - logdet(w) - diagonal.size + ROUNDING * size if value < math.inf else value


def _rows_among(
    s: FloatArray, linked: npt.NDArray[np.bool_], index: npt.NDArray[np.intp], scale: FloatArray
) -> SparseRows:
    """Return the entries of ``scale_i S_ij scale_j`` on the edges among the columns in `index`."""
    among = linked[np.ix_(index, index)]
    (one, other), length = np.nonzero(among), among.sum(axis=1)
    values = s[index[one], index[other]] * (scale[one] * scale[other])
    return SparseRows(_in_rows(length, other, np.int32), _in_rows(length, values, np.float64), length)


def _in_rows(length: npt.NDArray[np.intp], entries: npt.NDArray[Any], dtype: Any) -> npt.NDArray[Any]:
    """Return entries, so many a row, with zeros behind them."""
    rows = np.zeros((length.size, length.max(initial=0)), dtype=dtype)
    rows[np.arange(rows.shape[1]) < length[:, None]] = entries
    return rows


def _places(rows: SparseRows) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Return the row and the column of every entry, and which places hold one."""
    used = np.arange(rows.column.shape[1]) < rows.length[:, None]
    return np.repeat(np.arange(rows.length.size), rows.length), rows.column[used], used


def _symmetrised(edges: SparseRows, coefficients: FloatArray, variance: FloatArray) -> SparseRows:
    """Return the precision matrix of the coefficients off its diagonal: zero where two columns differ on a sign."""
    one, other, used = _places(edges)
    own = -coefficients[used] / variance[one]
    mirrored = own[np.lexsort((one, other))]
    value = np.zeros(coefficients.shape)
    value[used] = np.where(own * mirrored > 0.0, 0.5 * (own + mirrored), 0.0)
    return edges._replace(value=value)
