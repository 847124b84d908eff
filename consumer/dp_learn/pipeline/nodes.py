"""What differs where nodes have several columns: errors of blocks and their penalties, the evidence, tests, effects.

All errors are in units in which every node's own block of the covariance is the identity. Of numbers
`covariance.penalties` has them, and `inference.evidence` has the evidence.

*The evidence.* A block's statistic is the sum of the squares of its entries of T = 2 Theta - Theta S^ Theta over their
errors. Theta is that of a group graphical lasso at twice the universal penalty, not refitted. Blocks are penalised in
proportion to their errors: with equal weights, the noisiest pair would keep every other one out of Theta. The score is
the size of a normal number as unlikely as the statistic, |T_gh| over its standard error for nodes of one column each.
So chance gives a block of many entries no higher a rank than one of few.

*The effects.* The precision matrix holds regressions: given all else, a column's mean changes by -Theta_hh^-1 Theta_hg
with the columns of another node. Of a category these say how much each level differs from the reference. Less their
mean over rows, every level, the reference among them, has an effect of its own, whatever the reference was. A number
whose gaps are published has two columns. One is v, which is the fill f where there is no value, and the other g, which
is 1 there. By "(no value)" it means the effect of (f, 1) less the mean row, and "(value)" that of one standard
deviation of v. Let m be the mean of the values that there are, and w the share of gaps. Then the mean of v is f w + m
(1 - w). A change of these means by dv and dg is one of m by (dv - (f - m) dg) / (1 - w).

References
----------
Whittaker (1990), Graphical Models in Applied Multivariate Statistics, section 5.7.
"""

import contextlib
import itertools
import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dp_bundle.base.errors import EstimationError, NoSolutionError
from dp_bundle.manifest.columns import NO_VALUE
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.levels import Levels, NodeColumns
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.standard_errors import (
    CHANCE_EDGES,
    chance_alpha,
    form_variances,
    mechanism_entry_variances,
    null_standard_errors,
)
from dp_learn.glasso.solving import graphical_lasso, solve_on_graph
from dp_learn.inference.edges import (
    FACTOR,
    MISFIT,
    error_forms,
    infer_edges,
    misfit_of,
    require_testable,
    tabulate_unpenalised,
    well_determined_inverse,
)
from dp_learn.inference.nodes import NodeInference, block_scores, infer_nodes
from dp_learn.matrices.linalg import FloatArray, Mask, Places, is_positive_definite, median_above_diagonal
from dp_learn.pipeline.graph import VALUE
from dp_learn.pipeline.settings import REFIT_MAX_ITER, Fit, Nodes

_SHARES = (0.01, 0.02, 0.04, 0.08, 0.16)  # of the penalty; with more, tests at 5 % found false edges in 8 %
_ENDS = ("source", "level", "target", "target_level")  # of an effect
_MOST_GAPS = 0.999  # share of rows
_LEAST = 1e-3  # of the variance, that of the values that there are
_TOO_LITTLE = "too little information is left for tests: the debiased matrix is too indefinite"


def label_nodes(columns: NodeColumns, levels: Levels) -> tuple[tuple[str, ...], Places]:
    """Return the names of the nodes that kept columns stand for, in their order, and the node of each column."""
    own = [levels.nodes[place] for place in columns.kept]
    number_of = {name: number for number, name in enumerate(dict.fromkeys(own))}
    return tuple(number_of), np.array([number_of[name] for name in own], dtype=np.intp)


def block_errors(pooled: PooledCovariance, nodes: Nodes) -> FloatArray:
    """Return the root of the expected squared norm of every whitened block of unrelated nodes, shape (G, G).

    Sampling adds one over the number of rows for every entry. What noise of variance v_ij on an entry adds is
    ``sum_ij (R_g^2)_.i v_ij (R_h^2)_.j``. Of numbers alone they are `null_standard_errors` on the scale of the penalty.
    """
    if nodes.are_numbers:
        return null_standard_errors(pooled) * nodes.rescale(np.outer(pooled.deviations, pooled.deviations))
    sizes = nodes.sizes.astype(float)
    squares = np.zeros((len(nodes.names), len(nodes.labels)))
    np.add.at(squares, nodes.labels, nodes.units**2)
    total = np.outer(sizes, sizes) * pooled.sampling_factor
    if pooled.has_errors:
        scale = np.outer(pooled.deviations, pooled.deviations) ** 2
        total += squares @ (mechanism_entry_variances(pooled) * scale) @ squares.T
    root: FloatArray = np.sqrt(total)
    return root


def block_weights(errors: FloatArray, sizes: Places) -> FloatArray:
    """Return weights of the penalty in proportion to the errors of blocks, shape (G, G).

    They are divided by the median error of a single entry, so that alpha keeps its meaning. Where all entries have the
    same error, they are the weights of an equal penalty, sqrt(k_g k_h), off the diagonal. There a node of several
    columns is penalised by the error of its own block, too. In simulations that finds more links than an equal penalty
    on the diagonal. See `universal_penalty`.
    """
    return errors / median_above_diagonal(errors / np.sqrt(np.outer(sizes, sizes)))


def universal_alpha_of_nodes(errors: FloatArray, sizes: Places) -> float:
    """Return the universal penalty as the alpha that goes with `block_weights`.

    A typical block, of a median number of entries k, exceeds it by chance as rarely as a number does. A number's limit
    is sqrt(2 log G) standard errors. Squared norms are taken for chi-squared numbers with k degrees of freedom. For
    nodes of one column each it is that of `universal_penalty`.
    """
    from scipy import special

    upper = np.triu_indices(len(sizes), 1)
    degrees = np.outer(sizes, sizes)[upper].astype(float)
    exceeded = 2.0 * special.ndtr(-math.sqrt(2.0 * math.log(len(sizes))))
    limits = np.sqrt(special.chdtri(degrees, exceeded) / degrees)
    return median_above_diagonal(errors / np.sqrt(np.outer(sizes, sizes))) * float(np.median(limits))


def chance_alpha_of_nodes(
    errors: FloatArray, nodes: Nodes, weights: FloatArray | None, n_edges: float = CHANCE_EDGES
) -> float:
    """Return the alpha at which chance is expected to make a fifth of an edge, or so many, among unrelated nodes.

    The squared norm of a block of k entries is taken for its mean over k times a chi-squared number with k degrees of
    freedom. See `chance_alpha`, which it is for numbers alone.
    """
    if nodes.are_numbers:
        return chance_alpha(errors, weights, n_edges)
    from scipy import special

    sizes = nodes.sizes
    upper = np.triu_indices(len(sizes), 1)
    degrees = np.outer(sizes, sizes)[upper].astype(float)
    each = errors[upper] / np.sqrt(degrees)  # of one entry
    w = np.sqrt(degrees) if weights is None else weights[upper]
    low, high = 0.0, float((each * np.sqrt(degrees) / w).max()) * 20.0
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        expected = float(special.chdtrc(degrees, (middle * w / each) ** 2).sum())
        low, high = (middle, high) if expected > n_edges else (low, middle)
    return high


def score_nodes(fit: Fit) -> FloatArray:
    """Return the evidence for an edge between every pair of nodes: the larger, the surer.

    Parameters
    ----------
    fit : Fit
        Its errors are known or estimated. Only its covariance plays a part, not its graph.

    Returns
    -------
    ndarray of shape (G, G)
        Symmetric, not negative, zero on the diagonal.
    """
    nodes, theta = fit.nodes, fit_for_ranking(fit)
    return block_scores(fit.pooled, theta, nodes.labels, len(nodes.names))


def fit_for_ranking(fit: Fit) -> FloatArray:
    """Return the penalised precision matrix that the ranking starts from, in inverse data units.

    Where there is no solution, it is that of unrelated nodes, so that correlations rank.
    """
    nodes, errors = fit.nodes, block_errors(fit.pooled, fit.nodes)
    alpha, weights = universal_alpha_of_nodes(errors, nodes.sizes), block_weights(errors, nodes.sizes)
    theta = np.eye(len(nodes.labels))
    try:
        solution = graphical_lasso(fit.debiased, FACTOR * alpha, weights=weights, groups=nodes.labels)
        theta = solution.precision if solution.converged else theta
    except NoSolutionError:
        pass
    return nodes.rescale(theta)


def infer_node_pairs(sample: Sample, fit: Fit) -> tuple[NodeInference, list[str]]:
    """Test all pairs of nodes, with errors from the rows themselves where there are any; also what the tests rest on.

    Raises
    ------
    EstimationError
        There are no tests; the sentence says why.
    """
    require_testable(fit.pooled)
    start, share = start_of_tests(fit.pooled, fit.nodes, fit.debiased)
    precision, pooled = fit.nodes.rescale(start), fit.pooled
    tests = infer_nodes(
        pooled,
        precision,
        fit.nodes.labels,
        fit.nodes.names,
        lambda b: sample.row_errors(pooled, fit.kept, b, at_least=False),
    )
    if not share and misfit_of(pooled, precision) <= MISFIT:
        errors = sample.row_errors(pooled, fit.kept, error_forms(pooled, precision))
        first = np.unique(fit.nodes.labels, return_index=True)[1]
        tests = replace(tests, bars=(infer_edges(pooled, precision, errors), first))
    doubt = (
        "the debiased covariance is so indefinite that it has no unpenalised fit: tests rest on one with "
        f"{share:.0%} of the usual penalty, and p-values are approximate"
    )
    return tests, [doubt] if share else []


def start_of_tests(pooled: PooledCovariance, nodes: Nodes, matrix: FloatArray) -> tuple[FloatArray, float]:
    """Return the whitened precision matrix that tests start from, and the share of the penalty that it keeps.

    It is the fit on a graph without its penalty, or with the smallest share of it that has a fit. An inverse would have
    the noise of all pairs in every residual, which makes tests of rare levels too timid.

    Parameters
    ----------
    pooled, nodes
        As of `Fit`.
    matrix : ndarray of shape (n_kept, n_kept)
        The debiased covariance, whitened within nodes.

    Raises
    ------
    EstimationError
        There is none.
    """
    alpha = chance_alpha_of_nodes(block_errors(pooled, nodes), nodes, None)
    try:
        chosen = graphical_lasso(matrix, alpha, groups=nodes.labels)
    except NoSolutionError as error:
        raise EstimationError(_TOO_LITTLE) from error
    linked = nodes.linked(chosen.precision)
    fitted = solve_on_graph(matrix, nodes.spread(linked), max_iter=REFIT_MAX_ITER, n_nodes=len(nodes.names))
    if fitted is not None and fitted.converged:
        return fitted.precision, 0.0
    if is_positive_definite(matrix):
        return np.asarray(np.linalg.inv(matrix), dtype=np.float64), 0.0

    weights = np.where(linked, np.sqrt(np.outer(nodes.sizes, nodes.sizes)), np.inf)
    np.fill_diagonal(weights, 1.0)
    for share in _SHARES:
        with contextlib.suppress(NoSolutionError):
            fitted = graphical_lasso(
                matrix, share * alpha, weights=weights, groups=nodes.labels, max_iter=REFIT_MAX_ITER
            )
            if fitted.converged:
                return fitted.precision, share
    raise EstimationError(_TOO_LITTLE)


class _Node(NamedTuple):
    """A node: k columns among the kept ones, with r words.

    Attributes
    ----------
    name : str
    places : ndarray of int, shape (k,)
        Of its columns.
    words : list of str
        Its levels, the reference last, or what is said of a number with gaps; empty for a number alone.
    changes : ndarray of shape (r, k)
        How each word changes the columns of the mean row.
    readings : ndarray of shape (r or 1, k)
        How much more frequent each level is, or how many standard deviations larger a number, by its columns' means.
    """

    name: str
    places: Places
    words: list[str]
    changes: FloatArray
    readings: FloatArray


def tabulate_loadings(
    nodes: Nodes, edges: Mask, precision: FloatArray, pooled: PooledCovariance, location: FloatArray
) -> dict[str, Any]:
    """Return the table of the effects of levels, for every edge with a category at an end.

    Parameters
    ----------
    nodes : Nodes
    edges : ndarray of bool, shape (G, G)
    precision : ndarray of shape (n_kept, n_kept)
        In data units.
    pooled : PooledCovariance
        The debiased covariance of the kept columns.
    location : ndarray of shape (n_features,)
        The means of all columns: the frequencies of levels.

    Returns
    -------
    dict
        `source`, a category or a number with gaps, and its `level`; `target`, the other node, and its `target_level`,
        empty for a number alone; `effect`: how much the mean of the number is above that of all rows, in standard
        deviations of it, or how much more frequent the target's level, or gaps, are. Where the covariance determines
        its inverse well, also `unpenalised`, the effect by that, and its standard_error, ci_low and ci_high (95 %).
    """
    inverse = well_determined_inverse(pooled) if pooled.has_error_law else None
    table: dict[str, list[Any]] = {name: [] for name in (*_ENDS, "effect")}
    described = [_describe(node, nodes, pooled.covariance, location) for node in range(len(nodes.names))]
    for g, h in zip(*np.nonzero(np.triu(edges, 1)), strict=True):
        first, second = described[g], described[h]
        if len(first.words) < len(second.words):  # the one with more to say tells how the other changes
            first, second = second, first
        if not first.words or not precision[np.ix_(first.places, second.places)].any():
            continue  # numbers, or an edge that tests found and that has no fit of its own
        numbers = {"effect": _effects(first, second, precision)}
        if inverse is not None:
            errors = _effect_errors(first, second, inverse, pooled)
            numbers |= tabulate_unpenalised(_effects(first, second, inverse), errors)
        for pair in itertools.product(first.words, second.words or [""]):
            for name, value in zip(_ENDS, (first.name, pair[0], second.name, pair[1]), strict=True):
                table[name].append(value)
        for name, each in numbers.items():
            table.setdefault(name, []).extend(np.ravel(each).tolist())
    return {name: values if name in _ENDS else np.array(values, dtype=float) for name, values in table.items()}


def _describe(node: int, nodes: Nodes, covariance: FloatArray, location: FloatArray) -> _Node:
    name, places = nodes.names[node], np.flatnonzero(nodes.labels == node)
    if name in nodes.columns.reference:
        return _describe_levels(name, places, nodes, location)
    own = nodes.columns.kept[places]
    deviation = math.sqrt(covariance[places[0], places[0]])
    if len(places) == 1:
        return _Node(name, places, [], np.empty((0, 1)), np.array([[1.0 / deviation]]))

    # a number and the indicator of its gaps
    fill, (mean, missing) = nodes.levels.fills[name], location[own]
    missing = min(max(float(missing), 0.0), _MOST_GAPS)
    away = fill - (float(mean) - fill * missing) / (1.0 - missing)  # from the mean of the values that there are
    between = away * away * missing * (1.0 - missing)  # what gaps add to the variance
    deviation = math.sqrt(max(deviation**2 - between, _LEAST * deviation**2) / (1.0 - missing))
    changes = np.array([[deviation, 0.0], [fill - float(mean), 1.0 - missing]])
    to_mean = 1.0 / ((1.0 - missing) * deviation)
    return _Node(name, places, [VALUE, NO_VALUE], changes, np.array([[to_mean, -away * to_mean], [0.0, 1.0]]))


def _describe_levels(name: str, places: Places, nodes: Nodes, location: FloatArray) -> _Node:
    """Return what is said of a category."""
    source = next(each for each in nodes.levels.sources if each.name == name)
    published = [place for place, owner in enumerate(nodes.levels.nodes) if owner == name]
    level_at = dict(zip(published, source.levels, strict=True))
    own = nodes.columns.kept[places]
    rare = nodes.columns.merged.get(name, [])
    reference = level_at[nodes.columns.reference[name]] + (f" (and {len(rare)} rare levels)" if rare else "")

    frequencies = np.clip(location[own], 0.0, 1.0)
    total = max(float(frequencies.sum()), 1.0)  # noise may take it beyond 1
    one_of_each = np.vstack([np.eye(len(places)), np.zeros((1, len(places)))])
    readings = np.vstack([np.eye(len(places)), -np.ones((1, len(places)))])
    return _Node(
        name, places, [*(level_at[place] for place in own), reference], one_of_each - frequencies / total, readings
    )


def _effects(first: _Node, second: _Node, precision: FloatArray) -> FloatArray:
    """Return the effects, shape (words of the first, words of the second or 1)."""
    own = precision[np.ix_(second.places, second.places)]
    slopes = -np.linalg.solve(own, precision[np.ix_(second.places, first.places)]).T
    effects: FloatArray = first.changes @ slopes @ second.readings.T
    return effects


def _effect_errors(first: _Node, second: _Node, inverse: FloatArray, pooled: PooledCovariance) -> FloatArray:
    """Return the standard errors of `_effects` by the inverse of the covariance, to first order.

    An error E of the covariance changes the slopes of the second node's columns by ``A E_o u``. Here A is the inverse
    of the covariance of all others, and u the residuals as combinations of columns, as in `infer_coefficients`.
    """
    own, between = np.ix_(second.places, second.places), np.ix_(first.places, second.places)
    residuals = np.linalg.solve(inverse[own], inverse[second.places])
    forms = np.vstack(
        [first.changes @ (inverse[first.places] - inverse[between] @ residuals), second.readings @ residuals]
    )
    n_words, fitted = len(first.words), pooled.n_rows / max(pooled.n_rows - len(inverse), 1)
    squares = form_variances(pooled, forms)[:n_words, n_words:] * fitted

    # rows have the mean of their sample, from which changes are counted
    slopes = residuals[:, first.places] @ np.linalg.cholesky(pooled.covariance[np.ix_(first.places, first.places)])
    errors: FloatArray = np.sqrt(squares + np.square(second.readings @ slopes).sum(axis=1) / pooled.n_rows)
    return errors
