"""The whole of `dp-learn compare`, from verified bundles to differences, without its options, messages and files.

The common graph has an edge where any release, or their weighted mean, has one at the universal penalty. On it every
release is fitted again without the penalty; see `inference.releases` for why.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.errors import EstimationError, NoSolutionError, ParameterError, SchemaError, errors_about
from dp_bundle.base.quoting import Brief, name_columns, quote_name, quote_path
from dp_learn.covariance.estimate import PooledCovariance, ReleasedCovariance, keep_columns
from dp_learn.covariance.levels import NodeColumns, choose_node_columns, describe_merged, without_determined
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import require_each_once
from dp_learn.covariance.standard_errors import rows_without_noise
from dp_learn.glasso.problem import whiten_nodes
from dp_learn.glasso.solving import fit_on_graph, graphical_lasso
from dp_learn.inference.edges import Pairs, require_testable
from dp_learn.inference.releases import N_DRAWS, Differences, Estimates, Release, estimate_releases, find_differences
from dp_learn.matrices.linalg import FloatArray, Mask
from dp_learn.pipeline.driver import Progress, Reading, learn_from
from dp_learn.pipeline.nodes import block_errors, block_weights, label_nodes, universal_alpha_of_nodes
from dp_learn.pipeline.settings import REFIT_MAX_ITER, Nodes

_LARGER, _ATTEMPTS = 1.5, 8  # times the universal penalty, where that has no solution
_THINNER = 1.5  # times the penalty, where a release has no fit without one on the graph, or too few pairs are clear
ENOUGH = 0.5  # of the pairs: with fewer that can be compared, graphs are thinner, or more periods are pooled
_THIN = (
    "noise or nearly collinear columns leave too little of all that is linked, so that the common graph has fewer "
    "edges: what is compared accounts for fewer other columns than partial correlations do, and is the same where "
    "networks are"
)
_TOL = 1e-8  # the square root of the gap must be well below a standard error
_NAMED = 3  # releases, in an error
_LEAST_CONFIDENCE, _MOST_CONFIDENCE = 0.5, 0.999


@dataclass(frozen=True, eq=False)
class Comparison(Brief):
    """Two or more releases compared.

    Attributes
    ----------
    nodes : tuple of str
        The columns of the tables that are compared, G of them.
    categories : frozenset of str
        Those of several published columns, whose links have no sign.
    left_out : dict of str to list of int
        The columns that cannot be compared, and which releases' noise hides them.
    effective_rows : list of float
        The rows without noise that each release is worth for a correlation that is zero, as `dp-learn` says of it.
    n_edges : int
        How many edges the common graph has.
    differences : Differences
        What was found.
    fdr, confidence : float
        The false discovery rate, and the level of intervals and critical values.
    notes : list of str
        Sentences that a reader should know.
    contradictions : list of str
        A sentence for everything in which a bundle contradicts its manifest.
    warnings : list of str
        Sentences that a reader must know.
    """

    nodes: tuple[str, ...]
    categories: frozenset[str]
    left_out: dict[str, list[int]]
    effective_rows: list[float]
    n_edges: int
    differences: Differences
    fdr: float
    confidence: float
    notes: list[str]
    contradictions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def compare_networks(
    bundles: Sequence[Bundle],
    *,
    fdr: float = 0.05,
    confidence: float = 0.95,
    progress: Progress | None = None,
    max_memory: int | None = None,
) -> Comparison:
    """Compare the networks of releases of different rows, pair by pair and as a whole.

    Parameters
    ----------
    bundles : sequence of Bundle, str or Path
        Two or more, open or where they lie, with the same columns; those that are paths are verified first.
    fdr : float
        The false discovery rate at which differences count as found, between 0 and 1.
    confidence : float
        The level of intervals, between 0 and 1.
    progress : callable, optional
        Called with a few words on every step when it begins.
    max_memory : int, optional
        Bytes; as in `learn_graph`.

    Raises
    ------
    SchemaError
        The releases have other columns, or share rows.
    EstimationError
        Nothing can be compared: the sentence says why.
    MemoryLimitError
        It may need more memory than it may have.
    """
    check_levels(fdr, confidence)
    warnings = require_different_rows(bundles)
    names = [quote_path(bundle.path) for bundle in bundles]
    found = learn_from(
        bundles,
        Reading("comparison", done="compared"),
        lambda samples, begin, _: compare_samples(samples, fdr, confidence, begin, names=names),
        progress=progress,
        max_memory=max_memory,
    )
    return replace(found, warnings=warnings)


def check_levels(fdr: float, confidence: float) -> None:
    """Refuse, by `ParameterError`, a false discovery rate or a level that tests do not have."""
    if not 0.0 < fdr < 1.0:
        raise ParameterError("fdr", "between 0 and 1", fdr)
    if not _LEAST_CONFIDENCE <= confidence <= _MOST_CONFIDENCE:
        allowed = f"from {_LEAST_CONFIDENCE} to {_MOST_CONFIDENCE}, beyond which draws do not show the limit of a test"
        raise ParameterError("confidence", allowed, confidence)


def require_different_rows(bundles: Sequence[Bundle]) -> list[str]:
    """Return warnings on who may be in several of the releases.

    Raises
    ------
    SchemaError
        Releases share rows, by their manifests, so that their errors are not independent.
    """
    if len(bundles) < 2:
        raise SchemaError(f"a comparison needs at least two bundles, and {'one' if bundles else 'none'} is given")
    require_each_once(bundles)

    parts: dict[tuple[object, str], list[str | None]] = {}
    for bundle in bundles:
        parts.setdefault(bundle.origin, []).append(bundle.release.lineage.partition)
    warnings = []
    for (_, dataset), partitions in parts.items():
        if (len(partitions) > 1 and None in partitions) or max(Counter(partitions).values()) > 1:
            raise SchemaError(
                f"two of the bundles are releases of the same rows of {quote_name(dataset)}, or of rows that they "
                "share: their networks differ by the noise alone (dp-learn pools releases of the same rows)"
            )
        if len(partitions) > 1:
            warnings.append(
                f"several bundles are parts of {quote_name(dataset)}: if the same people are in more than one part, "
                "errors are not independent, and tests may find too much or too little"
            )
    return warnings


def compare_samples(
    samples: Sequence[Sample],
    fdr: float,
    confidence: float,
    begin: Progress = lambda _: None,
    *,
    n_draws: int = N_DRAWS,
    names: Sequence[str] | None = None,
) -> Comparison:
    """Compare all rows; see `compare_networks`, and `find_differences` for the number of draws.

    `names` are what errors call the releases; they have numbers by default.
    """
    begin("choosing the graph")
    together = lay_out_together(samples, names)
    edges, _, estimates, is_thinner = fit_releases(samples, together)

    begin("comparing the pairs")
    nodes = together.nodes[0]
    found = find_differences(estimates, fdr=fdr, confidence=confidence, n_draws=n_draws)
    if not found.is_comparable.any():
        raise EstimationError(
            "too little information is left to compare any pair: the noise is too large in one of the releases"
        )
    notes = describe_unsure(found.is_comparable, found.pairs, nodes.names)
    notes += describe_merged(nodes.columns, samples[0].levels)
    notes += [_THIN] if is_thinner else []
    return Comparison(
        nodes.names,
        frozenset(name for name, number in zip(nodes.names, nodes.sizes, strict=True) if number > 1),
        together.left_out,
        [rows_without_noise(sample.pooled) or math.nan for sample in samples],  # known, as all are testable
        int(np.count_nonzero(np.triu(edges, 1))),
        found,
        fdr,
        confidence,
        notes + describe_tails(samples),
    )


@dataclass(frozen=True, eq=False)
class Together:
    """Releases on the columns that all of them show.

    Attributes
    ----------
    pooled : list of PooledCovariance
        Of each release, on these columns.
    nodes : list of Nodes
        The same in all, with the matrix that whitens each release.
    left_out : dict of str to list of int
        The columns that are not shown, and which releases' noise hides them.
    """

    pooled: list[PooledCovariance]
    nodes: list[Nodes]
    left_out: dict[str, list[int]]


def lay_out_together(samples: Sequence[Sample], called: Sequence[str] | None = None) -> Together:
    """Return the releases on their common columns, by names or numbers; errors as of `compare_networks`."""
    called = called or [f"release {number}" for number in range(1, len(samples) + 1)]
    for sample, name in zip(samples, called, strict=True):
        with errors_about(name, EstimationError):
            require_testable(sample.pooled)
    columns, left_out = _common_columns(samples, called)
    levels = samples[0].levels
    columns = without_determined(columns, [sample.pooled for sample in samples], levels)
    names, labels = label_nodes(columns, levels)
    pooled = [keep_columns(sample.pooled, columns.kept) for sample in samples]
    nodes = [Nodes(names, labels, whiten_nodes(each.covariance, labels)[1], columns, levels) for each in pooled]
    return Together(pooled, nodes, left_out)


def fit_releases(samples: Sequence[Sample], together: Together) -> tuple[Mask, list[Release], Estimates, bool]:
    """Return the common graph, shape (G, G), the fits on it, their estimates, and whether it is thinner than wanted.

    It is the first of `fit_common_graphs` on which enough pairs can be compared, or the last, which has no edge.
    """
    for edges, fits, errors, is_thinner in fit_common_graphs(together.pooled, together.nodes):
        each = zip(samples, together.pooled, together.nodes, fits, errors, strict=True)
        releases = [
            Release(
                pooled, precision, partial(sample.row_errors, pooled, nodes.columns.kept, at_least=False), error**-2.0
            )
            for sample, pooled, nodes, precision, error in each
        ]
        found = edges, releases, estimate_releases(releases, together.nodes[0].labels), is_thinner
        if np.mean(found[2].is_comparable) >= ENOUGH:
            break
    return found


def _common_columns(samples: Sequence[Sample], called: Sequence[str]) -> tuple[NodeColumns, dict[str, list[int]]]:
    """Return the columns that stand for the nodes in all releases, and which releases lack a node."""
    levels = samples[0].levels
    location = np.mean([sample.location for sample in samples], axis=0)  # one reference level for all
    chosen = []
    for sample, name in zip(samples, called, strict=True):
        with errors_about(name, EstimationError):
            chosen.append(choose_node_columns(sample.pooled, location, levels))
    kept = chosen[0].kept
    for each in chosen[1:]:
        kept = np.intersect1d(kept, each.kept)

    left = {levels.nodes[place] for place in kept}
    missing = {
        name: [number for number, each in enumerate(chosen) if name not in {levels.nodes[at] for at in each.kept}]
        for name in dict.fromkeys(levels.nodes)
        if name not in left
    }
    if len(left) < 2:
        hidden = [
            (name, [node for node, where in missing.items() if number in where]) for number, name in enumerate(called)
        ]
        hidden.sort(key=lambda each: -len(each[1]))
        most = [f"{name} hides {name_columns(own)}" for name, own in hidden[:_NAMED] if own]
        raise EstimationError(
            "the noise of all releases hides all columns but one, or all, so that no pair is left. Leave out "
            f"those that hide most, or learn one graph from all by dp-learn: {'; '.join(most)}"
        )
    merged = {name: sorted({level for each in chosen for level in each.merged.get(name, [])}) for name in left}
    rare = {name: found for name, found in merged.items() if found}
    return NodeColumns(kept, tuple(missing), chosen[0].reference, rare), missing


def fit_common_graphs(
    pooled: Sequence[PooledCovariance], nodes: Sequence[Nodes]
) -> Iterator[tuple[Mask, list[FloatArray], list[FloatArray], bool]]:
    """Choose graphs for all releases, each thinner than the last, and fit every release on them without a penalty.

    The first is as dense as it can be. Penalties grow until every release has a fit, which noise or nearly collinear
    columns may leave none of. What a graph leaves out is the same in all releases, and drops out of their differences.

    Parameters
    ----------
    pooled : sequence of PooledCovariance
        Of the same columns.
    nodes : sequence of Nodes
        The nodes that they stand for, G of them, with the matrix that whitens each release.

    Yields
    ------
    ndarray of bool, shape (G, G), list of ndarray, list of ndarray, bool
        The edges; the precision matrices in inverse data units; the errors of the blocks of unrelated nodes. Last,
        whether there are fewer edges than at the universal penalty. The last has none.
    """
    whitened = [each.rescale(one.covariance) for each, one in zip(nodes, pooled, strict=True)]
    errors = [block_errors(one, each) for each, one in zip(nodes, pooled, strict=True)]
    shares = np.array([np.median(error) ** -2.0 for error in errors])
    shares /= shares.sum()
    mean = np.asarray(sum(share * matrix for share, matrix in zip(shares, whitened, strict=True)))
    of_mean = np.sqrt(np.asarray(sum((share * error) ** 2 for share, error in zip(shares, errors, strict=True))))
    known = [*zip([*whitened, mean], [*errors, of_mean], strict=True)]

    larger, n_edges = 1.0, 1
    while n_edges:  # ends, as blocks alone are positive definite
        edges = np.logical_or.reduce([_choose_graph(matrix, larger * error, nodes[0]) for matrix, error in known])
        fits, n_edges = _fit_all(whitened, nodes, edges), int(np.count_nonzero(np.triu(edges, 1)))
        if fits is not None:
            yield edges, fits, errors, larger > 1.0
        larger *= _THINNER


def _fit_all(whitened: Sequence[FloatArray], nodes: Sequence[Nodes], edges: Mask) -> list[FloatArray] | None:
    """Return the precision matrices of all releases on one graph, in inverse data units; None if one has no fit."""
    spread, fits = nodes[0].spread(edges), []
    for each, matrix in zip(nodes, whitened, strict=True):
        fitted = fit_on_graph(matrix, spread, np.ones_like(matrix), tol=_TOL, max_iter=REFIT_MAX_ITER)
        if fitted is None or fitted.share > 0.0:
            return None
        fits.append(np.where(spread, each.rescale(fitted.precision), 0.0))
    return fits


def _choose_graph(matrix: FloatArray, errors: FloatArray, nodes: Nodes) -> Mask:
    """Return the graph at the universal penalty, or at the first larger one that has a solution; without, no edge."""
    alpha, weights = universal_alpha_of_nodes(errors, nodes.sizes), block_weights(errors, nodes.sizes)
    for _ in range(_ATTEMPTS):
        try:
            chosen = graphical_lasso(
                matrix, alpha, solver="auto", weights=weights, penalize_diagonal=False, groups=nodes.labels
            )
        except NoSolutionError:
            alpha *= _LARGER
            continue
        return nodes.linked(chosen.precision)
    return np.eye(len(nodes.names), dtype=bool)


def describe_unsure(
    comparable: Mask,
    pairs: Pairs,
    names: tuple[str, ...],
    where: str = "their rows in differences.csv are empty",
) -> list[str]:
    """Return a sentence on the pairs that cannot be compared, and the nodes that all of these have in common."""
    n_pairs = len(comparable)
    if not (n_unsure := int(np.count_nonzero(~comparable))):
        return []
    clear = {int(node) for ends in pairs for node in ends[comparable]}
    never = [quote_name(name) for place, name in enumerate(names) if place not in clear]
    with_all = f", all pairs of {', '.join(never[:10])} among them" if never else ""
    return [
        f"{n_unsure} of {n_pairs} pairs cannot be compared, as the noise leaves too little of their columns{with_all}: "
        f"{where}"
    ]


def describe_tails(samples: Sequence[Sample]) -> list[str]:
    """Return a sentence where nothing tells of the tails of the rows."""
    blind = [
        number
        for number, sample in enumerate(samples, start=1)
        if any(isinstance(each, ReleasedCovariance) and each.kurtosis is None for each in sample.pooled.sources)
    ]
    if not blind:
        return []
    which = "all releases" if len(blind) == len(samples) else f"release {', '.join(map(str, blind))}"
    return [
        f"{which}: the second moments do not show how heavy the rows' tails are, and sampling errors are those of "
        "Gaussian rows. With heavier tails tests find too much"
    ]
