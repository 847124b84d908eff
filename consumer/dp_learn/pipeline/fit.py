"""The fit of a sample: leave out drowned columns, scale, repair, choose alpha, solve, refit.

The one pipeline behind the command, `learn_graph` and the scikit-learn estimators. Where nodes are categories, it is
whitened within nodes and penalised by the norms of blocks. Nothing then depends on which level of a category is the
reference.

By default EBIC chooses the graph, in two stages where the noise is small, and in one where it is not. The first stage
estimates all pairs without a graph, and tests them. In the second each pair is penalised in inverse proportion to its
evidence (the adaptive lasso). So strong links are hardly shrunk, and no longer drag indirect ones in. EBIC chooses on
that path. Its end, a hundredth of its first alpha, leaves out links far weaker than the strongest, which many rows
would show whatever their size. Those among them that are strong enough to be shown first, and that tests find, are
added.

Noise makes the first stage unreliable before it hides the correlations themselves. Where its part of the standard error
of a correlation that is zero, `noise_error`, is above `LARGEST_NOISE`, all pairs are penalised equally. The path goes
on past `chance_alpha` as long as chance makes at most a tenth of the entries that exceed their penalty. A graph of many
links may hold a few of chance, and of five tables without links four still have none.

Both count the rows that the entries are worth, `effective_rows`, whatever the graph. Where columns are nearly
collinear, those that the graph's own conditional variances are worth are so few that hardly an edge is worth its
parameter. Decision 41 has the measurements.

References
----------
Zou (2006), The adaptive lasso and its oracle properties, JASA 101. Fan, Feng & Wu (2009), Network exploration via the
adaptive lasso and SCAD penalties, Annals of Applied Statistics 3(2). Benjamini & Hochberg (1995), Controlling the false
discovery rate, JRSS B 57(1).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dp_bundle.base.errors import EstimationError, NotConvergedError, ParameterError
from dp_bundle.manifest.noise import normal_quantile
from dp_learn.covariance.estimate import PooledCovariance, keep_columns
from dp_learn.covariance.levels import choose_node_columns, without_determined
from dp_learn.covariance.sample import Sample, Split, effective_rows
from dp_learn.covariance.standard_errors import CHANCE_EDGES
from dp_learn.glasso.problem import Solution, make_problem, whiten_nodes
from dp_learn.glasso.solving import GraphFit, fit_on_graph, graphical_lasso, solve_on_graph
from dp_learn.inference.edges import (
    InferenceFit,
    desparsify,
    fit_for_inference,
    normalized,
    pair_q_values,
    scores_from,
)
from dp_learn.inference.nodes import block_scores
from dp_learn.matrices.checks import align_numbers, column_labels
from dp_learn.matrices.choices import RepairMethod, Rule, Weights
from dp_learn.matrices.linalg import FloatArray, Mask, Places, is_positive_definite, median_above_diagonal, two_sided
from dp_learn.matrices.repair import repair_covariance
from dp_learn.pipeline.graph import AT_LEAST, is_strong
from dp_learn.pipeline.nodes import block_errors, block_weights, chance_alpha_of_nodes, label_nodes, start_of_tests
from dp_learn.pipeline.selection import (
    SMALLEST,
    PathOptions,
    Selection,
    alpha_grid,
    cross_validate,
    select_ebic,
    select_stars,
    stars_subsample_share,
)
from dp_learn.pipeline.settings import REFIT_MAX_ITER, Fit, Nodes, Settings

GAMMA = 0.25  # less than usual, as edges of mere chance are kept out by where the path ends
AT_CHANCE = "the smallest alpha of the path was chosen: at a smaller one, chance alone would make edges"
N_SUBSAMPLES = 20  # Liu, Roeder & Wasserman (2010), section 4
LARGEST_NOISE = 0.06  # of a correlation; where the rules cross on real and simulated tables
SECOND_GAMMA = 0.5  # of EBIC in the second stage, whose path does not end at chance
PATIENCE = 8  # graphs; the path is short
SURE = 0.05  # the false discovery rate of strong links that are added to the graph
CHANCE_SHARE = 0.1  # of the entries that exceed their penalty
_LEAST = 0.1  # of the evidence: the largest weight is then finite
WEAKEST = (
    "the smallest alpha of the path was chosen: links far weaker than the strongest may be left out (--fdr lists what "
    "tests find)"
)
AT_CHANCE_SHARE = "the smallest alpha of the path was chosen: at a smaller one, chance would make too many of the edges"


def fit_graph(sample: Sample, settings: Settings, *, leave_out: bool = False) -> Fit:
    """Estimate the sparse precision matrix of the rows before the noise.

    Numbers that others determine are left out if they may be.

    Raises
    ------
    ParameterError
        A setting does not go with categories.
    DrownedColumnError
        Fewer than two nodes have variance left.
    NoSolutionError
        The problem is unbounded at the given alpha.
    EstimationError
        The rule found no alpha to choose.
    NotConvergedError
        The solver stopped before its tolerance.
    """
    nodes, pooled, debiased = _lay_out(sample, settings, leave_out=leave_out)
    return fit_nodes(sample, nodes, pooled, debiased, settings)


def fit_again(sample: Sample, nodes: Nodes, settings: Settings) -> Fit:
    """Return `fit_graph` of a sample of the kept columns alone, whatever their variances, so that its nodes are these.

    Raises
    ------
    ParameterError
        A variance is not positive.
    """
    nodes = replace(nodes, columns=replace(nodes.columns, kept=np.arange(len(nodes.labels))))
    debiased, units = _rescale(sample.pooled, nodes.labels, settings.scale)
    return fit_nodes(sample, replace(nodes, units=units), sample.pooled, debiased, settings)


def fit_nodes(sample: Sample, nodes: Nodes, pooled: PooledCovariance, debiased: FloatArray, settings: Settings) -> Fit:
    """Return the fit of nodes that are laid out: see `fit_graph`."""
    repair = repair_covariance(debiased, settings.repair)
    debiased = repair.covariance if repair.method == RepairMethod.NONE else debiased  # one copy of the same numbers
    first = estimate_first_stage(pooled, nodes, debiased) if settings.in_stages else None
    if first is None:
        weighting, weights = _weights(sample, pooled, nodes, settings)
    else:
        weighting, weights = "evidence", evidence_weights(first.evidence, nodes.sizes)
    problem = PathOptions(
        solver=settings.solver, weights=weights, penalize_diagonal=settings.penalize_diagonal, groups=nodes.labels
    )

    alpha, selection = settings.alpha, None
    if alpha is None:
        if first is None:
            selection = _select(sample, pooled, nodes, repair.covariance, weights, problem, settings)
        else:
            alphas = _alphas(settings, repair.covariance, weights, nodes)
            selection = select_second_stage(repair.covariance, pooled, alphas, problem)
        alpha = selection.alpha

    solution = graphical_lasso(repair.covariance, alpha, tol=settings.tol, max_iter=settings.max_iter, **problem)
    if not solution.converged:
        raise NotConvergedError(
            f"the {solution.solver} solver stopped at a duality gap of {solution.duality_gap:.3g}: "
            f"{solution.status.message}",
            solution,
        )

    linked = nodes.linked(solution.precision)
    edges = linked | (first is not None and first.sure)
    refitted = _refit(repair.covariance, solution, nodes, weights, settings, edges) if settings.refit else None
    reported = refitted or GraphFit(solution.precision, 1.0)
    if selection and refitted and (edges != linked).any():
        selection = replace(selection, rule=f"{selection.rule}, with strong links that tests find")
    precision, start = nodes.in_data_units(reported.precision), None if first is None else first.start
    return Fit(
        pooled, nodes, precision, reported.share, solution, selection, repair, debiased, weights, weighting, start
    )


def fit_edges(fit: Fit, edges: Mask, settings: Settings) -> FloatArray | None:
    """Return the unpenalised precision matrix on other edges between nodes, in data units; None if there is none."""
    linked = fit.nodes.spread(edges | np.eye(len(edges), dtype=bool))
    matrix, solver, tol = fit.repair.covariance, settings.solver, settings.tol
    fitted = solve_on_graph(matrix, linked, solver=solver, tol=tol, max_iter=REFIT_MAX_ITER, n_nodes=len(edges))
    return fit.nodes.in_data_units(fitted.precision) if fitted is not None and fitted.converged else None


def _lay_out(
    sample: Sample, settings: Settings, *, leave_out: bool = False
) -> tuple[Nodes, PooledCovariance, FloatArray]:
    """Return the nodes, the covariance of their columns in data units, and the same on the scale of the penalty."""
    levels = sample.levels
    if levels.blocks:
        _require_settings_of_nodes(settings)
    columns = choose_node_columns(sample.pooled, sample.location, levels)
    columns = without_determined(columns, [sample.pooled], levels) if leave_out else columns
    pooled = keep_columns(sample.pooled, columns.kept)
    names, labels = label_nodes(columns, levels)
    debiased, units = _rescale(pooled, labels, settings.scale)
    return Nodes(names, labels, units, columns, levels), pooled, debiased


def _rescale(pooled: PooledCovariance, labels: Places, scale: str) -> tuple[FloatArray, FloatArray]:
    """Return the covariance on the scale of the penalty, and the matrix that leads to it."""
    if scale == "covariance":
        return pooled.covariance, np.eye(len(labels))
    return whiten_nodes(pooled.covariance, labels)


def _require_settings_of_nodes(settings: Settings) -> None:
    """Refuse settings that mean nothing for nodes of several columns."""
    if settings.scale != "correlation":
        raise ParameterError("scale", '"correlation" for a table with categories', settings.scale)
    if settings.solver != "auto":
        allowed = '"auto" for a table with categories, for which there is one method'
        raise ParameterError("solver", allowed, settings.solver)
    if not isinstance(settings.weights, str):
        raise ParameterError("weights", '"auto", "equal" or "noise" for a table with categories', "a matrix")


def _weights(
    sample: Sample, pooled: PooledCovariance, nodes: Nodes, settings: Settings
) -> tuple[str, FloatArray | None]:
    """Return what the weights of the nodes are, and these; those given with labels are of all columns."""
    chosen = settings.weights_for(blocks=not nodes.are_numbers)
    if not isinstance(chosen, str):
        given = align_numbers("weights", chosen, sample.pooled.columns)
        if column_labels(chosen) is not None:
            given = given[np.ix_(nodes.columns.kept, nodes.columns.kept)]
        return "a matrix", given

    if chosen == Weights.EQUAL:
        return chosen, None
    return chosen, block_weights(block_errors(pooled, nodes), nodes.sizes)


def _select(
    sample: Sample,
    pooled: PooledCovariance,
    nodes: Nodes,
    matrix: FloatArray,
    weights: FloatArray | None,
    problem: PathOptions,
    settings: Settings,
) -> Selection:
    """Choose alpha by the rule of the settings; the path of EBIC ends where chance would make edges."""
    path, kept = settings.alphas, np.ix_(nodes.columns.kept, nodes.columns.kept)
    alphas = _alphas(settings, matrix, weights, nodes)

    def repaired(covariance: FloatArray) -> FloatArray:
        return repair_covariance(nodes.rescale(covariance[kept]), settings.repair).covariance

    if settings.select == Rule.STARS:
        share = stars_subsample_share(effective_rows(pooled))
        matrices = [repaired(drawn) for drawn in sample.subsamples(N_SUBSAMPLES, share)]
        return _say_if_drawn(sample, select_stars(matrices, alphas, **problem))
    if settings.select in {Rule.CV, Rule.MSE}:  # scores are unbiased, as what is held out is not repaired
        splits = [Split(repaired(split.train), nodes.rescale(split.test[kept])) for split in sample.splits()]
        score = "mse" if settings.select == Rule.MSE else "likelihood"
        return _say_if_drawn(sample, cross_validate(splits, alphas, score=score, **problem))
    if settings.in_stages:
        return select_one_stage(matrix, pooled, nodes, alphas, weights, problem)

    if isinstance(path, int):
        alphas = end_path(alphas, chance_alpha_of_nodes(block_errors(pooled, nodes), nodes, weights))
    return select_ebic(
        matrix,
        lambda theta: effective_rows(pooled, nodes.rescale(theta)),
        alphas,
        gamma=GAMMA,
        patience=PATIENCE,
        why_last=AT_CHANCE if isinstance(path, int) else SMALLEST,
        **problem,
    )


def _say_if_drawn(sample: Sample, selection: Selection) -> Selection:
    """Return a selection that says where its parts of the rows are none, but draws."""
    if sample.has_rows:
        return selection
    return replace(selection, rule=f"{selection.rule}, on parts drawn from the law of the errors")


def _alphas(settings: Settings, matrix: FloatArray, weights: FloatArray | None, nodes: Nodes) -> FloatArray:
    """Return the path of the settings."""
    if isinstance(settings.alphas, int):
        return alpha_grid(matrix, settings.alphas, weights=weights, groups=nodes.labels)
    return np.asarray(settings.alphas, dtype=float)


def _refit(
    matrix: FloatArray,
    solution: Solution,
    nodes: Nodes,
    weights: FloatArray | None,
    settings: Settings,
    edges: Mask,
) -> GraphFit | None:
    """Return the fit on a graph of the nodes, that of the penalised estimate or more; None where none is certified."""
    edges = nodes.spread(edges)
    if not nodes.are_numbers:
        n_nodes = len(nodes.names)
        fitted = solve_on_graph(matrix, edges, tol=settings.tol, max_iter=REFIT_MAX_ITER, n_nodes=n_nodes)
        return GraphFit(fitted.precision, 0.0) if fitted is not None and fitted.converged else None

    problem = make_problem(matrix, solution.alpha, weights=weights, penalize_diagonal=settings.penalize_diagonal)
    return fit_on_graph(
        matrix,
        edges,
        problem.penalty,
        solver=settings.solver,
        tol=settings.tol,
        max_iter=REFIT_MAX_ITER,
        start=solution,
    )


def noise_error(pooled: PooledCovariance, nodes: Nodes) -> float:
    """Return the noise's part of the median standard error of a correlation, or of a block's entry, that is zero."""
    variances = block_errors(pooled, nodes) ** 2 / np.outer(nodes.sizes, nodes.sizes) - pooled.sampling_factor
    return math.sqrt(max(median_above_diagonal(variances), 0.0))


@dataclass(frozen=True, eq=False)
class FirstStage:
    """Estimates of all pairs without a graph.

    Attributes
    ----------
    evidence : ndarray of shape (G, G)
        The size of the desparsified estimate of every pair of nodes over its standard error, of blocks as a normal
        score; zero on the diagonal.
    start : InferenceFit or None
        What the estimates of numbers start from, and the tests of the same pairs can start from.
    sure : ndarray of bool, shape (G, G), or bool
        The strong links of numbers that tests find; False where these cannot be relied on.
    """

    evidence: FloatArray
    start: InferenceFit | None = None
    sure: Mask | bool = False


def estimate_first_stage(pooled: PooledCovariance, nodes: Nodes, matrix: FloatArray) -> FirstStage | None:
    """Return the first stage; None where there is to be one stage.

    Parameters
    ----------
    pooled : PooledCovariance
        Of the kept columns, in data units, with known errors.
    nodes : Nodes
        The nodes that these stand for, G of them.
    matrix : ndarray of shape (n_kept, n_kept)
        The debiased covariance on the scale of the penalty.

    Returns
    -------
    FirstStage or None
        None if the noise is too large, or the pairs cannot be estimated without a graph.
    """
    if noise_error(pooled, nodes) > LARGEST_NOISE:
        return None
    try:
        if nodes.are_numbers:
            start = fit_for_inference(pooled)
            evidence = scores_from(pooled, start.precision)
            if not (start.is_reliable and is_positive_definite(matrix)):  # all graphs have a fit where it is
                return FirstStage(evidence, start)
            strong = is_strong(normalized(desparsify(pooled, start.precision)), AT_LEAST)
            return FirstStage(evidence, start, (pair_q_values(two_sided(evidence)) <= SURE) & strong)
        theta = nodes.rescale(start_of_tests(pooled, nodes, matrix)[0])
    except EstimationError:
        return None
    return FirstStage(block_scores(pooled, theta, nodes.labels, len(nodes.names)))


def evidence_weights(evidence: FloatArray, sizes: Places) -> FloatArray:
    """Return weights of the penalty in inverse proportion to the evidence, shape (G, G).

    Let k be the numbers of columns. A pair with as much evidence as chance makes, z*, has the weight of an equal
    penalty: z* / z times sqrt(k_g k_h). Variances have the smallest z* / z of a pair, as no link is surer.

    Parameters
    ----------
    evidence : ndarray of shape (G, G)
        z, as of `FirstStage`.
    sizes : ndarray of int, shape (G,)
        The number of columns of each node.
    """
    n_pairs = len(evidence) * (len(evidence) - 1) / 2
    at_chance = -normal_quantile(CHANCE_EDGES / (2.0 * n_pairs))
    z = np.maximum((evidence + evidence.T) / 2.0, _LEAST)
    weights: FloatArray = at_chance / z * np.sqrt(np.outer(sizes, sizes))
    np.fill_diagonal(weights, at_chance / z.max())
    return weights


def select_second_stage(
    matrix: FloatArray, pooled: PooledCovariance, alphas: FloatArray, options: PathOptions
) -> Selection:
    """Choose alpha on the whole path of weights by the evidence; errors as of `select_ebic`."""
    chosen = select_ebic(
        matrix, effective_rows(pooled), alphas, gamma=SECOND_GAMMA, patience=PATIENCE, why_last=WEAKEST, **options
    )
    return replace(chosen, rule=f"{chosen.rule}, in two stages")


def select_one_stage(
    matrix: FloatArray,
    pooled: PooledCovariance,
    nodes: Nodes,
    alphas: FloatArray,
    weights: FloatArray | None,
    options: PathOptions,
) -> Selection:
    """Choose alpha on a path that ends where chance would make more than a tenth of it; errors as of `select_ebic`."""
    errors, equal = block_errors(pooled, nodes), np.sqrt(np.outer(nodes.sizes, nodes.sizes))
    sizes = _block_norms(matrix, nodes) / (equal if weights is None else weights)
    smallest = _alpha_at_chance_share(sizes, lambda number: chance_alpha_of_nodes(errors, nodes, weights, number))
    alphas = end_path(alphas, smallest)
    chosen = select_ebic(
        matrix, effective_rows(pooled), alphas, gamma=0.0, patience=PATIENCE, why_last=AT_CHANCE_SHARE, **options
    )
    return replace(chosen, rule=f"{chosen.rule}, in one stage")


def end_path(alphas: FloatArray, smallest: float) -> FloatArray:
    """Return the alphas above the smallest one, and this; the first alone where none is."""
    above = alphas[alphas > smallest]
    return np.append(above, smallest) if above.size else alphas[:1]


def _alpha_at_chance_share(sizes: FloatArray, alpha_at: Callable[[float], float]) -> float:
    """Return the alpha at which chance makes a fifth of an edge, or a tenth of the entries that exceed it if more.

    Parameters
    ----------
    sizes : ndarray of shape (G, G)
        Of the entries or blocks, over their weights.
    alpha_at : callable
        Returns the alpha at which chance alone makes a number of edges.
    """
    ranked = sizes[np.triu_indices(len(sizes), 1)]
    alpha, found = math.inf, alpha_at(CHANCE_EDGES)
    while found < alpha:
        alpha = found
        found = alpha_at(max(CHANCE_EDGES, CHANCE_SHARE * int(np.count_nonzero(ranked > alpha))))
    return alpha


def _block_norms(matrix: FloatArray, nodes: Nodes) -> FloatArray:
    """Return the norms of the blocks of a covariance, shape (G, G)."""
    members = (np.arange(len(nodes.names))[:, None] == nodes.labels).astype(float)
    return np.asarray(np.sqrt(members @ matrix**2 @ members.T))
