"""The whole of `dp-learn joint`, from verified bundles to one graph a period and what changed, without its files.

The graphs are those of the joint graphical lasso, fitted again without its penalty. That two neighbours differ in the
joint estimate is a matter of the penalty. What changed is told by desparsified estimates of every period on one graph,
as in `dp-learn compare`. It is told at change points in time, or of periods that differ from the others.

Their penalty, and how they are coupled, is chosen by the extended Bayesian information criterion of all together. What
each period knows are the weights of its likelihood, of its entries and of differences. The graph is chosen in two
stages. Absolute values shrink strong links, which drags indirect ones in, and large changes, which spreads them over
time. In the second stage each penalty is divided by one plus the square of what the first stage found there, in units
of its penalty. That is a step (Candes, Wakin & Boyd) towards a penalty that levels off, the arctangent.

References
----------
Candes, Wakin & Boyd (2008), Enhancing sparsity by reweighted l1 minimization, J. Fourier Analysis and Applications 14.
Foygel & Drton (2010), Extended Bayesian information criteria for Gaussian graphical models. Tibshirani & Taylor (2012),
Degrees of freedom in lasso problems, Annals of Statistics 40(2): of a fused fit, its distinct values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.errors import EstimationError, NoSolutionError, NotConvergedError, ParameterError, SchemaError
from dp_bundle.base.quoting import Brief, quote_path
from dp_learn.covariance.estimate import FormErrors, PooledCovariance
from dp_learn.covariance.sample import Sample, effective_rows
from dp_learn.covariance.standard_errors import at_least_model, chance_alpha, null_standard_errors, rows_without_noise
from dp_learn.glasso.feasibility import smallest_solvable_alpha
from dp_learn.glasso.joint import JointSolution, Kind, joint_graphical_lasso, refit_jointly
from dp_learn.inference.changes import Change, Changes, compare_pooled, find_changes
from dp_learn.inference.edges import EdgeInference, Pairs, error_forms, infer_edges, score_pairs
from dp_learn.inference.releases import Release, estimate_releases
from dp_learn.matrices.linalg import FloatArray, Places, logdet, median_above_diagonal
from dp_learn.pipeline.compare import (
    ENOUGH,
    Together,
    check_levels,
    describe_tails,
    describe_unsure,
    fit_releases,
    lay_out_together,
    require_different_rows,
)
from dp_learn.pipeline.driver import Progress, Reading, learn_from
from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.measures import NodeMeasures, measure_at, why_undrawn
from dp_learn.pipeline.selection import near_definite
from dp_learn.pipeline.settings import Nodes

MOST_PERIODS = 60
N_DRAWS, FEW_DRAWS = 1000, 500
_WIDE = 100  # columns, of which draws take longest
_TOL = 1e-6
FIRST_GAMMA, GAMMA = 0.1, 0.15  # of the two stages: what the first misses the second hardly finds
N_NEAR = 12  # alphas of the second stage
PATIENCE = 3  # different graphs in a row without a better score end a walk
TOL, MAX_ITER = 1e-5, 300  # a fit that takes longer is next to singular
N_ALPHAS = 14
RATIOS = {  # of the coupling to the penalty of an entry
    Kind.FUSED: (0.5, 1.0, 2.0, 4.0, 8.0),
    Kind.SMOOTH: (5.0, 20.0, 80.0),
    Kind.PAIRS: (0.5, 1.0, 2.0, 4.0),
    Kind.GROUP: (0.5, 1.0, 2.0, 4.0),
}


class Order(StrEnum):
    """The order of the periods."""

    TIME = "time"
    NONE = "none"


@dataclass(frozen=True, eq=False)
class Joint(Brief):
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

    @property
    def pairs(self) -> Pairs:
        """The ends of all pairs, in the order of the numbers of changes."""
        return np.triu_indices(len(self.nodes), 1)

    def changed(self, one: Change) -> Places:
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
    progress: Progress | None = None,
    max_memory: int | None = None,
) -> Joint:
    """Learn one graph a period from releases of different rows, each from all of them, and test what changed.

    Parameters
    ----------
    bundles : sequence of Bundle, str or Path
        From 2 to 60, open or by their paths, with the same columns, in the order of time, if they have one. Paths are
        verified first.
    order : {"time", "none"}
        Whether neighbours are alike, or all.
    coupling : {"fused", "smooth", "group"}
        Values that stay the same until they jump, or values that drift, which takes time. Or links that are in the same
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
    if (alpha is None) != (strength is None):
        raise ParameterError("alpha", "given together with the strength of the coupling, or neither", alpha)
    if alpha is not None and not 0.0 < alpha < np.inf:
        raise ParameterError("alpha", "a positive number", alpha)
    if strength is not None and not 0.0 <= strength < np.inf:
        raise ParameterError("strength", "a number of at least 0", strength)
    if len(bundles) > MOST_PERIODS:
        raise SchemaError(f"joint graphs are learned from 2 to {MOST_PERIODS} bundles, and {len(bundles)} are given")
    warnings = require_different_rows(bundles)
    names = [quote_path(bundle.path) for bundle in bundles]
    found = learn_from(
        bundles,
        Reading("joint", done="learned together", blocks=False),
        lambda samples, begin, _: learn_periods(
            samples, Order(order), kind, alpha, strength, fdr, confidence, begin, names=names
        ),
        progress=progress,
        max_memory=max_memory,
    )
    return replace(found, warnings=warnings)


def learn_periods(
    samples: Sequence[Sample],
    order: Order,
    kind: Kind,
    alpha: float | None = None,
    strength: float | None = None,
    fdr: float = 0.05,
    confidence: float = 0.95,
    begin: Progress = lambda _: None,
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
            _, releases, estimates, is_thinner = fit_releases(pooled, own)
        except EstimationError as error:
            reason = str(error)
            continue
        if is_thinner:
            continue
        draws = min(n_draws, FEW_DRAWS) if len(own.pooled[0].columns) > _WIDE else n_draws
        in_time, level = order is Order.TIME, 1.0 - confidence
        found = find_changes(estimates, in_time=in_time, level=level, n_draws=draws)
        if np.mean(found.is_comparable) < ENOUGH or own.nodes[0].names != together.nodes[0].names:
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
        _, releases, _, is_thinner = fit_releases(pooled, together)
    except EstimationError:
        return found
    nodes = together.nodes[0]
    if is_thinner or not set(names) <= set(nodes.names):
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


@dataclass(frozen=True, eq=False)
class Periods:
    """What a joint estimate is made from.

    Attributes
    ----------
    matrices : ndarray, shape (K, p, p)
        The debiased correlations, possibly indefinite.
    rows : ndarray, shape (K,)
        How many rows without noise each is worth.
    weights : ndarray, shape (K, p, p)
        Of the penalty.
    difference_weights : ndarray, shape (p, p) or (K - 1, p, p)
        Of the coupling.
    kind : Kind
        The coupling.
    penalize_diagonal : bool
        Whether alpha penalises diagonals.
    """

    matrices: FloatArray
    rows: FloatArray
    weights: FloatArray
    difference_weights: FloatArray
    kind: Kind
    penalize_diagonal: bool = True

    def solve(
        self,
        alpha: float,
        coupling: float,
        *,
        tol: float = TOL,
        max_iter: int = 5000,
        start: JointSolution | None = None,
    ) -> JointSolution:
        """Return the joint estimate; errors as of `joint_graphical_lasso`."""
        return joint_graphical_lasso(
            self.matrices,
            alpha,
            coupling,
            kind=self.kind,
            weights=self.weights,
            difference_weights=self.difference_weights,
            period_weights=self.rows,
            penalize_diagonal=self.penalize_diagonal,
            tol=tol,
            max_iter=max_iter,
            start=start,
        )

    def refit(self, chosen: JointSolution, coupling: float, matrices: FloatArray | None = None) -> JointSolution | None:
        """Return the fit of these or other matrices without alpha's penalty; see `refit_jointly`."""
        squares = coupling * self.difference_weights if self.kind == Kind.SMOOTH else None
        given = self.matrices if matrices is None else matrices
        return refit_jointly(given, chosen, self.rows, squares=squares, tol=TOL, max_iter=MAX_ITER)

    def sharpen(self, precisions: FloatArray, alpha: float) -> Periods:
        """Return the periods with smaller weights where the first stage found links and changes."""
        unit = 1.0 / np.sqrt(np.diagonal(precisions, axis1=1, axis2=2))
        partial = precisions * unit[:, :, None] * unit[:, None, :]
        weights = self.weights / (1.0 + (partial / (alpha * self.weights)) ** 2)
        diagonal = np.arange(partial.shape[1])
        weights[:, diagonal, diagonal] = weights.min()
        apart = self.difference_weights
        if self.kind in {Kind.FUSED, Kind.SMOOTH}:
            apart = apart / (1.0 + (np.diff(partial, axis=0) / alpha) ** 2)
        return replace(self, weights=weights, difference_weights=apart)


def weigh_periods(pooled: Sequence[PooledCovariance], kind: Kind) -> Periods:
    """Return the periods' correlations with all weights.

    The likelihood of a period counts as its effective rows n_k. An entry's penalty is in proportion to its standard
    error s_kij where it is zero, in units of the typical one. A difference has the rows ``n_k n_l / (n_k + n_l)``, and
    the standard error ``sqrt(s_kij^2 + s_lij^2)``. The penalty on it is their product. So, of as many equal periods as
    there may be, all differences have the weight of an entry. The strength of squares goes with the squared error, as
    what is known worse has more to gain from its neighbours.

    Parameters
    ----------
    pooled : sequence of PooledCovariance
        Of the same columns, with known errors.
    kind : Kind
        Of the coupling.
    """
    errors = np.array([null_standard_errors(each) for each in pooled])
    typical = float(np.median([median_above_diagonal(each) for each in errors]))
    rows = np.array([effective_rows(each) for each in pooled])
    n = rows / rows.mean()
    squares = (errors / typical) ** 2
    if kind in {Kind.FUSED, Kind.SMOOTH}:
        shared = 2.0 * n[:-1] * n[1:] / (n[:-1] + n[1:])
        apart = (squares[:-1] + squares[1:]) / 2.0
        weights = shared[:, None, None] * (apart if kind == Kind.SMOOTH else np.sqrt(apart))
    else:
        weights = np.sqrt(np.tensordot(n, squares, 1) / len(n))
        weights *= 2.0 / len(n) if kind == Kind.PAIRS else np.sqrt(len(n))
    return Periods(np.array([each.correlation for each in pooled]), rows, errors / typical, weights, kind)


def joint_alphas(periods: Periods, pooled: Sequence[PooledCovariance]) -> FloatArray:
    """Return alphas from where no period has a link of its own down to half of what chance makes in all together."""
    sizes = np.abs(periods.matrices) / periods.weights
    largest = float(sizes[:, ~np.eye(sizes.shape[1], dtype=bool)].max())
    chance = min(chance_alpha(null_standard_errors(each), w) for each, w in zip(pooled, periods.weights, strict=True))
    return np.geomspace(largest, min(0.5 * chance / np.sqrt(len(pooled)), 0.5 * largest), N_ALPHAS)


@dataclass(frozen=True)
class JointScore:
    """An alpha and a coupling, the score of the graphs there, larger being better, and how many values they hold."""

    alpha: float
    coupling: float
    score: float
    n_values: int


@dataclass(frozen=True, eq=False)
class JointSelection:
    """A choice in two stages.

    Attributes
    ----------
    periods : Periods
        With the weights of the second stage.
    alpha, coupling : float
        What was chosen there.
    scores : list of JointScore
        Of the grid of the second stage, the best first.
    """

    periods: Periods
    alpha: float
    coupling: float
    scores: list[JointScore]


def select_in_stages(periods: Periods, alphas: Sequence[float] | FloatArray, ratios: Sequence[float]) -> JointSelection:
    """Choose on one grid, and then once more near the choice with sharper weights; see `select_jointly`.

    Sharper weights may have no solution, as they leave strong links little of the penalty. The first choice stays then.
    """
    of_first = select_jointly(periods, alphas, ratios, gamma=FIRST_GAMMA)
    first = of_first[0]
    solution = periods.solve(first.alpha, first.coupling)
    fitted = periods.refit(solution, first.coupling) or solution
    sharper, ratio = periods.sharpen(fitted.precisions, first.alpha), first.coupling / first.alpha
    near = np.geomspace(4.0 * first.alpha, first.alpha / 2.0, N_NEAR)
    try:
        scores = select_jointly(sharper, near, [ratio / 2.0, ratio, 2.0 * ratio])
    except EstimationError:
        return JointSelection(periods, first.alpha, first.coupling, of_first)
    return JointSelection(sharper, scores[0].alpha, scores[0].coupling, scores)


def select_jointly(
    periods: Periods, alphas: Sequence[float] | FloatArray, ratios: Sequence[float], *, gamma: float = GAMMA
) -> list[JointScore]:
    r"""Return the scores of a grid, the best first.

    With n_k the effective rows, N their sum and d the number of distinct values of the entries, those of variances
    beyond one each included, the largest

    .. math:: \sum_k n_k (\log\det\Theta_k - \langle \hat S_k, \Theta_k\rangle) - d (\log N + 4 \gamma \log p)

    is chosen. The Theta_k are fitted without alpha's penalty to what is not zero, equal where it is fused. Squared
    differences fuse nothing, and stay: there a value counts as the share that its neighbours leave free.

    Parameters
    ----------
    periods : Periods
        Of all.
    alphas : sequence of float
        Decreasing.
    ratios : sequence of float
        Of the coupling to alpha.
    gamma : float
        As of `select_ebic`.

    Raises
    ------
    EstimationError
        Nothing of the grid has a solution and a fit.
    """
    judge = np.array([near_definite(matrix) for matrix in periods.matrices])
    scores: list[JointScore] = []
    for ratio in ratios:
        start = None
        best, n_worse, last = -math.inf, 0, math.nan
        for alpha in map(float, alphas):
            try:
                start = periods.solve(alpha, ratio * alpha, max_iter=MAX_ITER, start=start)
            except NoSolutionError:
                break
            fit = periods.refit(start, ratio * alpha, judge)
            n_values = _count_values(start, ratio * alpha, periods)
            score = -math.inf if fit is None else _likelihood(judge, fit.precisions, periods.rows)
            score -= n_values * (math.log(periods.rows.sum()) + 4.0 * gamma * math.log(judge.shape[1]))
            if score > -math.inf:
                scores.append(JointScore(alpha, ratio * alpha, score, round(n_values)))

            n_worse = 0 if score > best else n_worse + (n_values != last)  # graphs seen before say nothing
            best, last = max(best, score), n_values
            if n_worse >= PATIENCE:
                break
    if not scores:
        raise EstimationError(
            "no penalty of the grid has a joint estimate, as the debiased matrices are too indefinite: leave out the "
            "noisiest bundles, or give alpha and the strength of the coupling"
        )
    return sorted(scores, key=lambda each: -each.score)


def _likelihood(matrices: FloatArray, precisions: FloatArray, rows: FloatArray) -> float:
    each = zip(rows.tolist(), matrices, precisions, strict=True)
    likelihood: float = math.fsum(n * (logdet(theta) - float(np.vdot(s, theta))) for n, s, theta in each)
    return likelihood


def _count_values(solution: JointSolution, coupling: float, periods: Periods) -> float:
    """Return the number of free values, without the first of each variance."""
    n_periods, p = (int(size) for size in solution.precisions.shape[:2])
    upper = np.triu_indices(p)
    if periods.kind != Kind.SMOOTH:
        return int(solution.ties.max(axis=0)[upper].sum()) - p
    waves = 2.0 - 2.0 * np.cos(np.pi * np.arange(n_periods) / n_periods)  # eigenvalues of a chain's Laplacian
    strength = coupling * periods.difference_weights.mean(axis=0)[upper]
    free = (1.0 / (1.0 + np.multiply.outer(strength, waves))).mean(axis=1)
    n_nonzero = np.count_nonzero(solution.precisions, axis=0)[upper]
    n_free: float = math.fsum((free * n_nonzero).tolist())
    return n_free - p
