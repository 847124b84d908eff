"""The whole of `dp-learn joint`, from verified bundles to one graph a period and what changed, without its files.

The graphs are those of the joint graphical lasso, fitted again without its penalty. That two neighbours differ in the
joint estimate is a matter of the penalty. What changed is told by desparsified estimates of every period on one graph,
as in `dp-learn compare`: at change points in time, or of periods that differ from the others.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from dp_bundle import Bundle
from dp_bundle.base.errors import EstimationError, NoSolutionError, NotConvergedError, ParameterError, SchemaError
from dp_learn.covariance.estimate import FormErrors, PooledCovariance
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.standard_errors import at_least_model, rows_without_noise
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.joint_problem import JointSolution, Kind
from dp_learn.inference.changes import Change, Changes, compare_pooled, find_changes
from dp_learn.inference.edges import EdgeInference, error_forms, infer_edges
from dp_learn.inference.evidence import score_pairs
from dp_learn.inference.releases import Release, estimate_releases
from dp_learn.matrices.linalg import FloatArray
from dp_learn.pipeline.compare import (
    Together,
    check_levels,
    describe_tails,
    describe_unsure,
    fit_releases,
    lay_out_together,
    learn_apart,
)
from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.measures import NodeMeasures, measure_at, why_undrawn
from dp_learn.pipeline.settings import Nodes
from dp_learn.selection.joint import RATIOS, JointScore, Periods, joint_alphas, select_in_stages, weigh_periods

MOST_PERIODS = 60
N_DRAWS, FEW_DRAWS = 1000, 500
_WIDE = 100  # columns, of which draws take longest
_ENOUGH = 0.5  # of the pairs: with fewer that can be compared, more periods are pooled
_TOL = 1e-6


class Order(StrEnum):
    """The order of the periods."""

    TIME = "time"
    NONE = "none"


@dataclass(frozen=True, eq=False)
class Joint:
    """Graphs of several periods that were learned together, and what changed.

    Attributes
    ----------
    nodes : tuple of str
        The columns that all periods show.
    left_out : dict of str to list of int
        The others, and which periods' noise hides them.
    effective_rows : list of float
        The rows without noise that each period is worth.
    order : Order
        In time, or none.
    kind : Kind
        The coupling.
    alpha, coupling : float
        Their strengths.
    scores : list of JointScore
        Of the grid that they were chosen from, the best first; empty where they were given.
    solution : JointSolution
        On correlations, with its certificate.
    is_refitted : bool
        Whether the graphs have weights that were fitted again without the penalty.
    graphs : list of GraphEstimate
        One a period, in data units, with that period's own evidence, and error bars where these could be had.
    measures : list of NodeMeasures
        Of their nodes.
    changes : Changes or None
        At change points, or of periods that differ from the others; None where nothing can be tested.
    fdr, confidence : float
        The false discovery rate of changes, and the level of intervals and of change points.
    notes, contradictions, warnings : list of str
        As of `Comparison`.
    """

    nodes: tuple[str, ...]
    left_out: dict[str, list[int]]
    effective_rows: list[float]
    order: Order
    kind: Kind
    alpha: float
    coupling: float
    scores: list[JointScore]
    solution: JointSolution
    is_refitted: bool
    graphs: list[GraphEstimate]
    measures: list[NodeMeasures]
    changes: Changes | None
    fdr: float
    confidence: float
    notes: list[str]
    contradictions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def claimed(self) -> list[Change]:
        """The change points, or without an order the periods that differ from the others."""
        return [] if self.changes is None else self.changes.found

    def changed(self, one: Change) -> npt.NDArray[np.intp]:
        """Return the pairs that are found to change, at the false discovery rate, surest first."""
        pairs = np.flatnonzero(np.nan_to_num(one.q_value, nan=1.0) <= self.fdr)
        return pairs[np.argsort(-np.abs(one.difference[pairs] / one.standard_error[pairs]), kind="stable")]


def learn_joint(
    bundles: Sequence[Bundle],
    *,
    order: str = "time",
    coupling: str = "fused",
    alpha: float | None = None,
    strength: float | None = None,
    fdr: float = 0.05,
    confidence: float = 0.95,
    progress: Callable[[str], None] | None = None,
    max_memory: int | None = None,
) -> Joint:
    """Learn one graph a period from releases of different rows, each from all of them, and test what changed.

    Parameters
    ----------
    bundles : sequence of Bundle
        From 2 to 60, verified and open, with the same columns; in the order of time, if they have one.
    order : {"time", "none"}
        Whether neighbours are alike, or all.
    coupling : {"fused", "smooth", "group"}
        Values that stay the same until they jump; values that drift, which takes time; or links that are in the same
        places, with values of their own.
    alpha, strength : float, optional
        The penalties of entries and of differences, on correlations; chosen by EBIC unless both are given.
    fdr, confidence, progress, max_memory
        As of `compare_networks`.

    Raises
    ------
    SchemaError
        The releases have other columns, share rows, have categories, or are too many.
    EstimationError
        There is no estimate: NoSolutionError, NotConvergedError, DrownedColumnError, or no penalty to choose.
    MemoryLimitError
        It may need more memory than it may have.
    """
    kind = _kind(order, coupling)
    check_levels(fdr, confidence)
    _check_strengths(alpha, strength)
    if len(bundles) > MOST_PERIODS:
        raise SchemaError(f"joint graphs are learned from 2 to {MOST_PERIODS} bundles, and {len(bundles)} are given")
    return learn_apart(
        bundles,
        lambda samples, begin, names: learn_periods(
            samples, Order(order), kind, alpha, strength, fdr, confidence, begin, names=names
        ),
        estimator="joint",
        progress=progress,
        max_memory=max_memory,
    )


def learn_periods(
    samples: Sequence[Sample],
    order: Order,
    kind: Kind,
    alpha: float | None = None,
    strength: float | None = None,
    fdr: float = 0.05,
    confidence: float = 0.95,
    begin: Callable[[str], None] = lambda _: None,
    *,
    names: Sequence[str] = (),
    n_draws: int = N_DRAWS,
) -> Joint:
    """Learn from all rows; see `learn_joint`, and `find_changes` for the number of draws."""
    together = lay_out_together(samples, names or None)
    nodes = together.nodes[0].names
    periods, scores = weigh_periods(together.pooled, kind), list[JointScore]()

    if alpha is None or strength is None:
        begin("choosing the penalties")
        chosen = select_in_stages(periods, joint_alphas(periods, together.pooled), RATIOS[kind])
        periods, scores, alpha, strength = chosen.periods, chosen.scores, chosen.alpha, chosen.coupling
    begin("solving the joint problem")
    solution = _solve(periods, alpha, strength, names or [f"period {place}" for place in range(1, len(samples) + 1)])
    refitted = periods.refit(solution, strength) if strength > 0.0 else None
    notes = [] if refitted else ["the graphs keep the joint penalty's weights, which are shrunk: none fit without it"]

    begin("testing what changed")
    releases, changes, doubts = _test_changes(samples, together, order, confidence, n_draws)
    precisions = (refitted or solution).precisions
    begin("measuring the nodes")
    own: Sequence[Release | None] = releases or [None] * len(samples)
    graphs, measures = zip(*map(_describe, samples, together.pooled, together.nodes, precisions, own), strict=True)
    return Joint(
        nodes,
        together.left_out,
        [rows_without_noise(sample.pooled) or math.nan for sample in samples],  # known, as all are testable
        order,
        kind,
        alpha,
        strength,
        scores,
        solution,
        refitted is not None,
        list(graphs),
        list(measures),
        changes,
        fdr,
        confidence,
        [*notes, *doubts, *describe_tails(samples)],
    )


def _kind(order: str, coupling: str) -> Kind:
    """Return the coupling that two words stand for."""
    if order not in list(Order):
        raise ParameterError("order", "time or none", order)
    if coupling not in {Kind.FUSED, Kind.SMOOTH, Kind.GROUP}:
        raise ParameterError("coupling", "fused, smooth or group", coupling)
    if order == Order.NONE and coupling == Kind.SMOOTH:
        raise ParameterError("coupling", 'fused or group where the order is "none": only time has a drift', coupling)
    return Kind.PAIRS if order == Order.NONE and coupling == Kind.FUSED else Kind(coupling)


def _check_strengths(alpha: float | None, strength: float | None) -> None:
    if (alpha is None) != (strength is None):
        raise ParameterError("alpha", "given together with the strength of the coupling, or neither", alpha)
    if alpha is not None and not 0.0 < alpha < np.inf:
        raise ParameterError("alpha", "a positive number", alpha)
    if strength is not None and not 0.0 <= strength < np.inf:
        raise ParameterError("strength", "a number of at least 0", strength)


def _solve(periods: Periods, alpha: float, strength: float, names: Sequence[str]) -> JointSolution:
    """Return the joint estimate, or name the period that has none of its own."""
    try:
        solution = periods.solve(alpha, strength, tol=_TOL)
    except NoSolutionError as error:
        smallest = [
            smallest_solvable_alpha(s, weights=w) for s, w in zip(periods.matrices, periods.weights, strict=True)
        ]
        worst = int(np.argmax(smallest))
        error.add_note(
            f"the most indefinite matrix is that of {names[worst]}: at alpha = {smallest[worst]:.4g} every bundle has "
            "a graph of its own, and together they may do with less if the coupling is stronger"
        )
        raise
    if not solution.converged:
        raise NotConvergedError(
            f"the joint solver stopped at a duality gap of {solution.duality_gap:.3g}: {solution.status.message}",
            solution,
        )
    return solution


def _test_changes(
    samples: Sequence[Sample], together: Together, order: Order, confidence: float, n_draws: int
) -> tuple[list[Release] | None, Changes | None, list[str]]:
    """Return the fits of periods on a common graph and the tests of changes, or why there are none.

    Where the noise leaves too little of a single period, as many neighbours in time as it takes are pooled, and tested.
    """
    n_periods, reason = len(samples), "the noise leaves too little of every pair"
    widths = [1, *range(2, n_periods // 2 + 1)] if order is Order.TIME else [1]
    for width in widths:
        blocks = [list(range(first, min(first + width, n_periods))) for first in range(0, n_periods, width)]
        if len(blocks) > 1 and len(blocks[-1]) < width:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
        pooled = samples if width == 1 else [Sample([s for k in own for s in samples[k].sources]) for own in blocks]
        try:
            own = together if width == 1 else lay_out_together(pooled)
            releases = fit_releases(pooled, own)[1]
        except EstimationError as error:
            reason = str(error)
            continue
        draws = min(n_draws, FEW_DRAWS) if len(own.pooled[0].columns) > _WIDE else n_draws
        in_time, level = order is Order.TIME, 1.0 - confidence
        found = find_changes(releases, own.nodes[0].labels, in_time=in_time, level=level, n_draws=draws)
        if np.mean(found.is_comparable) < _ENOUGH or own.nodes[0].names != together.nodes[0].names:
            continue
        found = _pool_sides(samples, found if width == 1 else _of_periods(found, blocks), own.nodes[0].names)
        notes = describe_unsure(found.is_comparable, found.pairs, own.nodes[0].names, "changes.csv has none of them")
        if width == 1:
            return releases, found, notes
        doubt = (
            f"changes are tested between blocks of {width} periods, as one has too few rows, and there "
            "are no error bars of single periods"
        )
        return None, found, [doubt, *notes]
    return None, None, [f"no change is claimed, and there are no error bars: {reason}"]


def _pool_sides(samples: Sequence[Sample], found: Changes, names: tuple[str, ...]) -> Changes:
    """Return changes by estimates from all periods of each side together, where there are any."""
    groups = list(dict.fromkeys(side for one in found.found for side in (one.before, one.after)))
    if not groups:
        return found
    pooled = [Sample([source for k in group for source in samples[k].sources]) for group in groups]
    try:
        together = lay_out_together(pooled)
        releases = fit_releases(pooled, together)[1]
    except EstimationError:
        return found
    nodes = together.nodes[0]
    if not set(names) <= set(nodes.names):
        return found
    places = np.array([nodes.names.index(name) for name in names], dtype=np.intp)
    estimates = estimate_releases(releases, nodes.labels, (places[found.pairs[0]], places[found.pairs[1]]))
    return compare_pooled(
        found, estimates, [(groups.index(one.before), groups.index(one.after)) for one in found.found]
    )


def _of_periods(found: Changes, blocks: Sequence[Sequence[int]]) -> Changes:
    """Return changes between blocks as changes between their periods; inside a block there is no evidence."""
    evidence = np.ones(blocks[-1][-1])
    for block, p_value in zip(blocks[1:], found.evidence.tolist(), strict=True):
        evidence[block[0] - 1] = p_value

    def spread(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(period for number in numbers for period in blocks[number])

    changes = [replace(one, before=spread(one.before), after=spread(one.after)) for one in found.found]
    return replace(found, evidence=evidence, found=changes)


def _describe(
    sample: Sample, pooled: PooledCovariance, nodes: Nodes, precision: FloatArray, release: Release | None
) -> tuple[GraphEstimate, NodeMeasures]:
    """Return the graph of a period from its precision matrix on correlations, and measures of its nodes."""
    graph = GraphEstimate(
        pooled.columns,
        precision / np.outer(pooled.deviations, pooled.deviations),
        pooled.covariance,
        None if release is None else _infer(release),
        evidence=score_pairs(pooled),
    )
    why = why_undrawn(pooled)
    model = None if why or release is None else release.precision
    return graph, measure_at(sample, pooled, nodes, graph, model, why=why, thorough=False)


def _infer(release: Release) -> EdgeInference:
    """Return the error bars of one period alone."""
    pooled, precision = release.pooled, release.precision
    forms = error_forms(pooled, precision)
    seen = release.row_errors(forms)
    errors = FormErrors(seen.products.copy(), seen.crossed.copy(), seen.squares.copy())
    return infer_edges(pooled, precision, at_least_model(errors, pooled, forms))
