"""Units in which a group penalty does not depend on how the columns of a node were chosen.

A category of m levels may leave any one of them out. The columns with another level left out are an invertible linear
map of these, ``x_g -> A_g x_g``, which changes the norm of a block. Divided by a root of its own covariance, a node is
the same up to a rotation whatever A_g was, and rotations change no Frobenius norm.
"""

import numpy as np
from numpy.typing import ArrayLike

from dp_bundle.base.errors import ParameterError
from dp_learn.glasso.problem import make_groups
from dp_learn.matrices.checks import check_covariance
from dp_learn.matrices.linalg import FloatArray

SMALLEST = 1e-12  # eigenvalue of a node's own block, relative to its largest


def whiten_nodes(covariance: ArrayLike, groups: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the covariance in which every node's own block is the identity, and the matrix that leads to it.

    With ``R`` block diagonal and ``R_g = S_gg^-1/2``, the covariance becomes ``R S R``. A precision matrix ``Theta``
    found there is ``R Theta R`` in the units of `covariance`, with zeros in the same blocks. For a node of one column
    this is the division by its standard deviation.

    Parameters
    ----------
    covariance : array, shape (p, p)
        Symmetric; only its nodes' own blocks need be positive definite.
    groups : sequence of length p
        The node of each column, by name or number.

    Returns
    -------
    whitened : ndarray, shape (p, p)
        Without unit.
    root : ndarray, shape (p, p)
        R, in one over the units of the columns.

    Raises
    ------
    ParameterError
        Where a node's own block is not positive definite, as where noise exceeds what varies within a category.
    """
    s = check_covariance(covariance)
    nodes = make_groups(groups, len(s))
    root = np.zeros_like(s)
    for node, name in enumerate(nodes.names):
        place = np.ix_(nodes.columns(node), nodes.columns(node))
        values, vectors = np.linalg.eigh(s[place])
        if not values[0] > SMALLEST * values[-1]:  # by its units, as of millions beside their gaps, or by what it is
            unit = np.sqrt(np.maximum(np.diagonal(s[place]), np.finfo(float).tiny))
            alike = s[place] / np.outer(unit, unit)
            if not np.linalg.eigvalsh(alike)[0] > SMALLEST * len(unit):
                allowed = f"a positive definite block for node {name!r}: leave it out, or merge rare levels"
                raise ParameterError("covariance", allowed, f"an eigenvalue of {values[0]:.3g}")
            vectors, roots, _ = np.linalg.svd(unit[:, None] * np.linalg.cholesky(alike))  # whose small values are exact
            values = roots**2
        root[place] = (vectors / np.sqrt(values)) @ vectors.T

    whitened = root @ s @ root
    whitened = (whitened + whitened.T) / 2.0
    own = np.equal.outer(nodes.labels, nodes.labels)
    whitened[own] = np.eye(len(s))[own]
    return whitened, root
