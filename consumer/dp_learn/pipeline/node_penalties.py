"""The errors of blocks that should be zero, and the penalties that they call for; `covariance.penalties` for nodes.

All in units in which every node's own block of the covariance is the identity.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.standard_errors import mechanism_entry_variances
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.node_layout import Nodes

CHANCE_EDGES = 0.2  # as `chance_alpha` has it


def block_errors(pooled: PooledCovariance, nodes: Nodes) -> FloatArray:
    """Return the root of the expected squared norm of every whitened block of unrelated nodes, shape (G, G).

    Sampling adds one over the number of rows for every entry. What noise of variance v_ij on an entry adds is
    ``sum_ij (R_g^2)_.i v_ij (R_h^2)_.j``.
    """
    sizes = nodes.sizes.astype(float)
    squares = np.zeros((len(nodes.names), len(nodes.labels)))
    np.add.at(squares, nodes.labels, nodes.root**2)
    total = np.outer(sizes, sizes) * pooled.sampling_factor
    if pooled.has_errors:
        scale = np.outer(pooled.deviations, pooled.deviations) ** 2
        total += squares @ (mechanism_entry_variances(pooled) * scale) @ squares.T
    root: FloatArray = np.sqrt(total)
    return root


def block_weights(errors: FloatArray, sizes: npt.NDArray[np.intp]) -> FloatArray:
    """Return weights of the penalty in proportion to the errors of blocks, shape (G, G).

    They are divided by the median error of a single entry, so that alpha keeps its meaning: where all entries have the
    same error, they are the weights of an equal penalty, sqrt(k_g k_h), off the diagonal. There a node of several
    columns is penalised by the error of its own block, too: in simulations that finds more links than an equal penalty
    on the diagonal. See `penalty_weights`.
    """
    weights: FloatArray = errors / _typical_entry_error(errors, sizes)
    return weights


def universal_alpha_of_nodes(errors: FloatArray, sizes: npt.NDArray[np.intp]) -> float:
    """Return the universal penalty as the alpha that goes with `block_weights`.

    A typical block, of a median number of entries k, exceeds it by chance as rarely as a number does, whose limit is
    sqrt(2 log G) standard errors: squared norms are taken for chi-squared numbers with k degrees of freedom. For nodes
    of one column each it is that of `universal_penalty`.
    """
    upper = np.triu_indices(len(sizes), 1)
    degrees = np.outer(sizes, sizes)[upper].astype(float)
    exceeded = 2.0 * special.ndtr(-math.sqrt(2.0 * math.log(len(sizes))))
    limits = np.sqrt(special.chdtri(degrees, exceeded) / degrees)
    return _typical_entry_error(errors, sizes) * float(np.median(limits))


def chance_alpha_of_nodes(errors: FloatArray, sizes: npt.NDArray[np.intp], weights: FloatArray | None) -> float:
    """Return the alpha at which chance is expected to make a fifth of an edge among unrelated nodes.

    The squared norm of a block of k entries is taken for its mean over k times a chi-squared number with k degrees of
    freedom. See `chance_alpha`.
    """
    upper = np.triu_indices(len(sizes), 1)
    degrees = np.outer(sizes, sizes)[upper].astype(float)
    each = errors[upper] / np.sqrt(degrees)  # of one entry
    w = np.sqrt(degrees) if weights is None else weights[upper]
    low, high = 0.0, float((each * np.sqrt(degrees) / w).max()) * 20.0
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        expected = float(special.chdtrc(degrees, (middle * w / each) ** 2).sum())
        low, high = (middle, high) if expected > CHANCE_EDGES else (low, middle)
    return high


def _typical_entry_error(errors: FloatArray, sizes: npt.NDArray[np.intp]) -> float:
    each = errors / np.sqrt(np.outer(sizes, sizes))
    return float(np.median(each[np.triu_indices(len(sizes), 1)]))
