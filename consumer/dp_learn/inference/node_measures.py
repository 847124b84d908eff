"""Predictability, strength and expected influence of nodes, with intervals that know the noise.

*Predictability* is the share of a node's variance that all other nodes explain, R^2 = 1 - 1 / (Sigma_ii Theta_ii). It
supposes no graph: Theta is the inverse of S^. Of a node of k columns it is 1 - tr(Sigma_gg^-1 Theta_gg^-1) / k, the
mean share over its columns once these are uncorrelated, which does not depend on the level that is left out. Even where
the others explain nothing, p - 1 coefficients that are estimated explain some of it by chance, and the more so the more
noise is in S^. How much, and how uncertain the rest is, a parametric bootstrap tells: errors E of the law of S^ are
drawn about the covariance Sigma of a fit on a graph, and log(1 - R^2) at Sigma + E is compared with that at Sigma.

*Strength* is the sum, over a node's edges, of the desparsified partial correlations, each counted as positive where it
has the sign of the edge's weight, and *expected influence* the sum with their own signs. Both are linear in the partial
correlations, whose first-order errors are forms of E: with B the rows of Theta over sqrt(Theta_ii) and F = B E B',
r_ij errs by F_ij + r_ij (F_ii + F_jj) / 2. Draws of E give the errors of the sums with those that edges share. An edge
that is listed because chance made it large is too large, and so are the sums. Where more than a quarter of the edges
lie within five standard errors of zero, that matters: in simulations intervals then covered less than they should, and
there are none.

Draws are of Gaussian rows. Where there are rows, the variances of the three measures are raised by the ratio of the
rows' own variance of the measure's first-order terms to that of Gaussian rows, noise included in both. What chance
explains is raised by the mean ratio over nodes: of elliptical rows with kurtosis 1 + kappa both are 1 + kappa times
those of Gaussian ones.

References
----------
Haslbeck & Waldorp (2018), How well do network models predict observations?, Behavior Research Methods 50
(predictability). Robinaugh, Millner & McNally (2016), Identifying highly influential nodes in the complicated grief
network, Journal of Abnormal Psychology 125 (expected influence). Efron & Tibshirani (1993), An Introduction to the
Bootstrap, section 6.5.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dp_bundle.privacy.normal import normal_quantile
from dp_learn.matrices.linalg import FloatArray, is_positive_definite, sandwich

_DRAWN_AT_ONCE = 32  # draws
LEAST_SCORE, CLEAR = 5.0, 0.75  # of edges, and the share of edges that have it
LARGEST_OPTIMISM = 0.05  # of log(1 - R^2) of a node that nothing explains
LARGEST_OF_TWO_ROUNDS = 0.0075  # the part of the noise on second moments in two rounds, whose correlations it makes low
_MOST_WEIGHT = 99.0  # the logarithm, which is enough for any limit to be passed
_BY_EXPLAINED = 1.5  # the power of 1 - R^2 that optimism falls with, without noise 0 and with much of it 2
_Z = normal_quantile(0.975)
Intervals = tuple[FloatArray, FloatArray, FloatArray]  # estimates and the ends of their intervals, NaN where unknown


@dataclass(frozen=True, eq=False)
class FirstOrder:
    """What the measures of G nodes err by, to first order, about a model.

    Attributes
    ----------
    covariance, precision : ndarray of shape (n_features, n_features)
        Sigma and Theta of the model, in data units.
    labels : ndarray of int, shape (n_features,)
        The node of each column.
    signs : ndarray of shape (G, G)
        Of the edges' weights; zero where there is no edge, and where an end has several columns.
    """

    covariance: FloatArray
    precision: FloatArray
    labels: npt.NDArray[np.intp]
    signs: FloatArray

    @cached_property
    def members(self) -> FloatArray:
        """The columns of each node, shape (n_features, G)."""
        return np.asarray(self.labels[:, None] == np.arange(len(self.signs)), dtype=float)

    @cached_property
    def forms(self) -> FloatArray:
        """B, the rows of Theta over the roots of its diagonal."""
        return np.asarray(self.precision / np.sqrt(np.diagonal(self.precision))[:, None])

    @cached_property
    def partial(self) -> FloatArray:
        """The partial correlations of the model, zero on the diagonal."""
        root = np.sqrt(np.diagonal(self.precision))
        partial: FloatArray = -self.precision / np.outer(root, root)
        np.fill_diagonal(partial, 0.0)
        return partial

    @cached_property
    def _signs(self) -> FloatArray:
        """The signs of pairs of columns."""
        return self.signs[np.ix_(self.labels, self.labels)]

    def pair_errors(self, error: FloatArray) -> FloatArray:
        """Return the errors of all partial correlations that an error of S^ makes, shape (n_features, n_features)."""
        forms = sandwich(self.forms, error)
        d = np.diagonal(forms)
        return forms + self.partial * (d[:, None] + d) / 2.0

    def sums(self, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the errors of strengths and of expected influences, each of shape (G,), from those of the pairs."""
        signs = self._signs
        return (signs * errors).sum(axis=1) @ self.members, (np.abs(signs) * errors).sum(axis=1) @ self.members

    def of_rows(self, centred: FloatArray) -> FloatArray:
        """Return what rows add to the errors of all three measures: n E is the sum of their products.

        Parameters
        ----------
        centred : ndarray of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows, 3 G)
            Of log(1 - R^2), of strengths and of expected influences.
        """
        y = centred @ self.forms.T
        found = [self._unexplained_of_rows(centred)]
        for weights in (self._signs, np.abs(self._signs)):
            along, square = weights * self.partial, y * y
            found.append((y * (y @ weights) + (square * along.sum(axis=1) + square @ along) / 2.0) @ self.members)
        return np.hstack(found)

    def _unexplained_of_rows(self, centred: FloatArray) -> FloatArray:
        own, inverse = np.zeros_like(self.precision), np.zeros_like(self.precision)
        for node in range(len(self.signs)):
            block = np.ix_(self.labels == node, self.labels == node)
            variance, left = np.linalg.inv(self.covariance[block]), np.linalg.inv(self.precision[block])
            scale = np.trace(variance @ left)
            own[block], inverse[block] = variance @ left @ variance / scale, left @ variance @ left / scale
        z = centred @ self.precision
        found: FloatArray = ((z @ inverse) * z - (centred @ own) * centred) @ self.members
        return found


@dataclass(frozen=True, eq=False)
class Draws:
    """What errors of S^ that were drawn about a model make of the measures.

    Attributes
    ----------
    unexplained : ndarray of shape (n_draws, G)
        log(1 - R^2) less that of the model; NaN where S^ would be indefinite.
    strength, influence : ndarray of shape (n_draws, G)
        First-order errors.
    pairs : ndarray of shape (n_kept, n_features, n_features)
        First-order errors of the partial correlations, of the first draws.
    pair_error : ndarray of shape (n_features, n_features)
        The root of their mean square over all draws.
    """

    unexplained: FloatArray
    strength: FloatArray
    influence: FloatArray
    pairs: FloatArray
    pair_error: FloatArray


def draw_measures(model: FirstOrder, errors: Iterable[FloatArray], n_kept: int = 0) -> Draws:
    """Return what the measures become by each of some errors of S^ about the model's covariance.

    Parameters
    ----------
    model : FirstOrder
    errors : iterable of ndarray of shape (n_features, n_features)
    n_kept : int
        Of how many draws the errors of all pairs are kept.
    """
    at_model = np.log(unexplained_shares(model.covariance, model.labels, model.precision))
    unexplained, sums, squares = [], [], np.zeros(model.precision.shape)
    kept: list[FloatArray] = []
    remaining = iter(errors)
    while batch := list(itertools.islice(remaining, _DRAWN_AT_ONCE)):
        drawn = model.covariance + np.array(batch)
        definite = [is_positive_definite(each) for each in drawn]
        shares = np.full((len(batch), len(at_model)), np.nan)
        shares[definite] = unexplained_shares(drawn[definite], model.labels)
        unexplained.append(np.log(shares) - at_model)
        for error in batch:
            pairs = model.pair_errors(error)
            sums.append(model.sums(pairs))
            squares += pairs * pairs
            if len(kept) < n_kept:
                kept.append(pairs)
    strength, influence = np.array(sums).swapaxes(0, 1)
    return Draws(np.concatenate(unexplained), strength, influence, np.array(kept), np.sqrt(squares / len(sums)))


def unexplained_shares(
    covariance: FloatArray, labels: npt.NDArray[np.intp], precision: FloatArray | None = None
) -> FloatArray:
    """Return 1 - R^2 of every node, shape (..., G), of positive definite covariances.

    Parameters
    ----------
    covariance : ndarray of shape (..., n_features, n_features)
    labels : ndarray of int, shape (n_features,)
        The node of each column.
    precision : ndarray of shape (..., n_features, n_features), optional
        Its inverse, where it is known.
    """
    theta = np.linalg.inv(covariance) if precision is None else precision
    single = 1.0 / (np.diagonal(covariance, axis1=-2, axis2=-1) * np.diagonal(theta, axis1=-2, axis2=-1))
    sizes = np.bincount(labels)
    shares: FloatArray = single[..., [int(np.argmax(labels == node)) for node in range(len(sizes))]]
    for node in np.flatnonzero(sizes > 1):
        block = (..., *np.ix_(labels == node, labels == node))
        shares[..., node] = np.linalg.inv(theta[block] @ covariance[block]).trace(axis1=-2, axis2=-1) / sizes[node]
    return shares


def estimate_predictability(
    covariance: FloatArray,
    labels: npt.NDArray[np.intp],
    drawn: FloatArray,
    ratio: FloatArray,
    of_sampling: float | None = None,
) -> Intervals:
    """Return R^2 of every node less what chance explains, and the ends of its 95 % interval, each of shape (G,).

    Parameters
    ----------
    covariance : ndarray of shape (n_features, n_features)
        S^.
    labels : ndarray of int, shape (n_features,)
        The node of each column.
    drawn : ndarray of shape (n_draws, G)
        As of `Draws`.
    ratio : ndarray of shape (G,)
        What variances are raised by for the rows.
    of_sampling : float, optional
        Of second moments in two rounds, what sampling alone would lower log(1 - R^2) by.

    Returns
    -------
    tuple of ndarray
        All are NaN where the noise is too strong: where S^, or one that was drawn, is indefinite, or chance alone would
        lower log(1 - R^2) of unexplained nodes by more than `LARGEST_OPTIMISM`, or the noise of two rounds by more than
        `LARGEST_OF_TWO_ROUNDS`. An estimate may be negative; an interval is within [0, 1].

    Notes
    -----
    The noise makes more optimism where more is explained, or seems to be. A limit on the optimism itself is passed by
    nodes, or releases, of which less than the truth seems explained, so that what has an interval would be biased. That
    of unexplained nodes hardly depends on what came out.
    """
    unknown = np.full(len(ratio), np.nan)
    if np.isnan(drawn).any() or not is_positive_definite(covariance):
        return unknown, unknown, unknown
    log, tails = np.log(unexplained_shares(covariance, labels)), float(ratio.mean())
    optimism = -tails * drawn.mean(axis=0)
    middle, margin = log + optimism, _Z * drawn.std(axis=0) * np.sqrt(ratio)
    weight = np.exp(np.minimum(_BY_EXPLAINED * middle, _MOST_WEIGHT))
    too_biased = of_sampling is not None and np.mean((optimism - of_sampling) * weight) > LARGEST_OF_TWO_ROUNDS
    if too_biased or np.mean(optimism * weight) > LARGEST_OPTIMISM:
        return unknown, unknown, unknown
    estimate = 1.0 - np.exp(log) / np.exp(drawn).mean(axis=0) ** tails
    low, high = (1.0 - np.exp(np.minimum(end, 0.0)) for end in (middle + margin, middle - margin))
    return estimate, low, high


def are_clear(scores: FloatArray) -> bool:
    """Return whether enough edges are so clear that listing them hardly depends on chance.

    Parameters
    ----------
    scores : ndarray of shape (n_edges,)
        The sizes of their estimates over their standard errors.
    """
    return bool(len(scores)) and float(np.mean(scores >= LEAST_SCORE)) >= CLEAR


def sum_edges(partial: FloatArray, weights: FloatArray, drawn: FloatArray, ratio: FloatArray) -> Intervals:
    """Return sums of partial correlations over the edges of every node, and the ends of their 95 % intervals.

    Parameters
    ----------
    partial : ndarray of shape (G, G)
        Desparsified.
    weights : ndarray of shape (G, G)
        1 or -1 where there is an edge, else 0.
    drawn : ndarray of shape (n_draws, G)
        Errors of the sums.
    ratio : ndarray of shape (G,)
        What variances are raised by for the rows.

    Returns
    -------
    tuple of ndarray
        The interval of a node without edges is NaN.
    """
    linked = weights != 0.0
    total = np.where(linked, weights * partial, 0.0).sum(axis=1)
    margin = np.where(linked.any(axis=1), _Z * drawn.std(axis=0) * np.sqrt(ratio), np.nan)
    return total, total - margin, total + margin
