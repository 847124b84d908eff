"""The whole of `dp-learn`, from verified bundles to one graph, without its options, messages and files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.errors import EstimationError, ParameterError
from dp_learn.covariance.collinear import describe_collinearity
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.levels import describe_merged
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.standard_errors import typical_errors
from dp_learn.glasso.feasibility import RTOL, smallest_group_alpha, smallest_solvable_alpha
from dp_learn.glasso.problem import make_group_problem, make_groups
from dp_learn.inference.edges import (
    EdgeInference,
    InferenceFit,
    error_forms,
    fit_for_inference,
    infer_edges,
    require_testable,
    score_pairs,
)
from dp_learn.inference.nodes import NodeInference
from dp_learn.matrices.linalg import FloatArray, Places, smallest_eigenvalue
from dp_learn.pipeline.driver import Progress, Reading, learn_from
from dp_learn.pipeline.fit import fit_edges, fit_graph
from dp_learn.pipeline.graph import GraphEstimate, Variables, graph_of_nodes
from dp_learn.pipeline.measures import NodeMeasures, measure_nodes
from dp_learn.pipeline.nodes import infer_node_pairs, score_nodes, tabulate_loadings
from dp_learn.pipeline.settings import Fit, Options, Settings

N_FOLDS = 5
MANY = 100  # columns: from here on the smallest alpha is computed less closely, as it takes a while
TOLD = 0.05
_FAR_BELOW = 1e-4  # an alpha that solves an indefinite matrix


@dataclass(frozen=True, eq=False)
class Learned:
    """A graph and everything that it rests on.

    Attributes
    ----------
    estimate : GraphEstimate
        The graph, with error bars if they could be had.
    fit : Fit
        How it was found.
    settings : Settings
        How it was to be found.
    penalty_share : float
        The share of the penalty that the reported precision matrix keeps: 0 for an unpenalised refit, 1 for the
        penalised estimate.
    sample : Sample
        The rows it was found in.
    noise_share : ndarray of shape (n_features,) or None
        The share of noise in each published variance, drowned columns included; None unless all bundles hold rows.
    typical_errors : tuple of float or None
        The median standard error of a correlation that is zero, with and without the noise; None if unknown.
    smallest_eigenvalue : float
        Of the debiased matrix on the scale of the penalty, before any repair.
    smallest_alpha : float
        The smallest alpha that has a solution, on the scale of the penalty; 0 where every alpha has one. For 100
        columns and more it is right to 5 %.
    contradictions : list of str
        A sentence for everything in which a bundle contradicts its manifest.
    notes : list of str
        Sentences that a reader should know.
    collinear : tuple of str
        The columns that others determine, as far as the rows can show.
    measures : NodeMeasures or None
        Predictability, strength and other measures of the nodes; None without error bars.
    """

    estimate: GraphEstimate
    fit: Fit
    settings: Settings
    penalty_share: float
    sample: Sample
    noise_share: FloatArray | None
    typical_errors: tuple[float, float] | None
    smallest_eigenvalue: float
    smallest_alpha: float
    contradictions: list[str]
    notes: list[str]
    collinear: tuple[str, ...]
    measures: NodeMeasures | None = None


def learn_graph(
    bundles: Bundle | Sequence[Bundle],
    *,
    fdr: float | None = None,
    error_bars: bool = True,
    measures: bool = True,
    progress: Progress | None = None,
    max_memory: int | None = None,
    **settings: Unpack[Options],
) -> Learned:
    """Estimate the sparse graph of the rows before the noise, from one bundle or from several pooled.

    Parameters
    ----------
    bundles : Bundle or sequence of Bundle
        Verified and open, with the same columns. Their manifests distinguish releases of the same rows from releases of
        different ones; either way they have the weights of least variance.
    fdr : float, optional
        List the edges found at this false discovery rate, rather than those of the sparse estimate.
    error_bars : bool
        Whether to estimate them, which takes one more pass over the rows.
    measures : bool
        Whether to measure the nodes, too, which takes longest for few columns; without error bars there are none.
    progress : callable, optional
        Called with a few words on every step when it begins.
    max_memory : int, optional
        Bytes; learning that may need more is refused before it begins. By default what this machine can give.
        Compiling, once on a machine, is not counted.
    **settings
        The fields of `Settings`: alpha, select, alphas, weights, scale, repair, refit, penalize_diagonal, solver, tol,
        max_iter.

    Raises
    ------
    SchemaError
        The bundles cannot be pooled.
    EstimationError
        There is no estimate: NoSolutionError, NotConvergedError, DrownedColumnError, or no alpha to choose.
    MemoryLimitError
        It may need more memory than it may have.
    """
    if fdr is not None and not 0.0 < fdr < 1.0:
        raise ParameterError("fdr", "between 0 and 1", fdr)
    opened = [bundles] if isinstance(bundles, Bundle) else list(bundles)
    chosen = Settings(**settings)
    if fdr is not None and not chosen.refit:
        raise ParameterError("refit", "true with fdr: edges found by tests have no penalised estimate", chosen.refit)
    return learn_from(
        opened,
        Reading(n_folds=N_FOLDS if chosen.needs_folds else 1),
        lambda samples, begin, contradictions: learn_sample(
            samples[0], chosen, fdr, begin, contradictions, error_bars=error_bars, measures=measures
        ),
        progress=progress,
        max_memory=max_memory,
    )


def learn_sample(
    sample: Sample,
    settings: Settings,
    fdr: float | None = None,
    begin: Progress = lambda _: None,
    contradictions: Sequence[str] = (),
    *,
    error_bars: bool = True,
    measures: bool = True,
) -> Learned:
    """Learn from all rows; see `learn_graph`."""
    begin("choosing the graph")
    fit = _fit(sample, settings, contradictions)
    notes = [fit.selection.note] if fit.selection and fit.selection.note else []

    begin("weighing the evidence")  # before the tests, whose matrices leave no room for it
    evidence = None
    if fit.pooled.has_errors:
        evidence = score_pairs(fit.pooled, solver=settings.solver) if fit.nodes.are_numbers else score_nodes(fit)

    tests: EdgeInference | NodeInference | None = None
    if error_bars or fdr is not None:
        begin("testing the edges")
        tests, doubts = judge_pairs(sample, fit, required=fdr is not None)
        notes += doubts

    precision, share = fit.precision, fit.share
    if fdr is not None and tests is not None:
        precision, share, doubts = _refit_found(fit, tests, fdr, settings)
        notes += doubts
    notes += _describe_share(share, settings)

    graph = _graph(sample, fit, precision, evidence, tests, fdr, shrinks=share < 1.0)
    measured = None
    if error_bars and measures:
        begin("measuring the nodes")
        measured = measure_nodes(sample, fit, graph, settings)
        notes += measured.notes

    nodes = fit.nodes
    names, root = [nodes.names[label] for label in nodes.labels], None if nodes.are_numbers else nodes.units
    collinear, sentences = describe_collinearity(fit.pooled, names, root)
    eigenvalue = smallest_eigenvalue(fit.debiased)
    return Learned(
        estimate=graph,
        fit=fit,
        settings=settings,
        penalty_share=share,
        sample=sample,
        noise_share=sample.pooled.noise_share,
        typical_errors=typical_errors(fit.pooled),
        smallest_eigenvalue=eigenvalue,
        smallest_alpha=_smallest_alpha(fit, settings, eigenvalue),
        contradictions=list(contradictions),
        notes=[*notes, *describe_merged(nodes.columns, nodes.levels), *sentences],
        collinear=collinear,
        measures=measured,
    )


def _fit(sample: Sample, settings: Settings, contradictions: Sequence[str]) -> Fit:
    """Return the fit; an error also says in what the bundles contradict their manifests, which may be its cause."""
    try:
        return fit_graph(sample, settings, leave_out=True)
    except EstimationError as error:
        for sentence in contradictions:
            error.add_note(f"warning: {sentence}")
        raise


def judge_pairs(sample: Sample, fit: Fit, *, required: bool) -> tuple[EdgeInference | NodeInference | None, list[str]]:
    """Return the tests of all pairs of nodes, or None and why there are none; an error where they are required."""
    if fit.nodes.are_numbers:
        return infer_if_possible(sample, fit.pooled, fit.kept, required=required, start=lambda _: fit.start_of_tests)
    try:
        return infer_node_pairs(sample, fit)
    except EstimationError as error:
        if required:
            raise
        return None, [f"there are no tests: {error}"]


def infer_if_possible(
    sample: Sample,
    pooled: PooledCovariance,
    kept: Places,
    *,
    required: bool = False,
    start: Callable[[PooledCovariance], InferenceFit] = fit_for_inference,
) -> tuple[EdgeInference | None, list[str]]:
    """Return the tests of `infer_pairs`, or None and why there are none.

    Where they are required, the error also says which columns may be its cause, being collinear.
    """
    try:
        return infer_pairs(sample, pooled, kept, start)
    except EstimationError as error:
        if required:
            for sentence in describe_collinearity(pooled)[1]:
                error.add_note(sentence)
            raise
        return None, [f"there are no error bars: {error}"]


def infer_pairs(
    sample: Sample,
    pooled: PooledCovariance,
    kept: Places,
    start: Callable[[PooledCovariance], InferenceFit] = fit_for_inference,
) -> tuple[EdgeInference, list[str]]:
    """Return the tests of all pairs, with errors from the rows themselves, and sentences on what they rest on.

    Parameters
    ----------
    sample : Sample
        The rows.
    pooled : PooledCovariance
        The sample's, on the kept columns.
    kept : ndarray of int
        Their positions.
    start : callable, optional
        Returns what the tests start from, where that is known already.

    Raises
    ------
    EstimationError
        There are no error bars; the sentence says why.
    """
    require_testable(pooled)
    started = start(pooled)
    if not started.is_reliable:
        raise EstimationError(
            "too little information is left for intervals and tests: the debiased matrix is too indefinite, the graph "
            "too dense, or columns are too nearly collinear"
        )

    errors = sample.row_errors(pooled, kept, error_forms(pooled, started.precision))
    doubt = (
        "the debiased covariance is so indefinite that it has no unpenalised fit: error bars rest on one with "
        f"{started.share:.0%} of the usual penalty, and the intervals of strong edges may be too short"
    )
    return infer_edges(pooled, started.precision, errors), [doubt] if started.share else []


def _refit_found(
    fit: Fit, tests: EdgeInference | NodeInference, fdr: float, settings: Settings
) -> tuple[FloatArray, float, list[str]]:
    """Return the unpenalised fit on the edges that were found, or what stands in for it, and its share of the penalty.

    Of numbers, that is what the edges were found by; of categories, the sparse estimate.
    """
    found = tests.q_values <= fdr
    fitted = fit_edges(fit, found, settings)
    if fitted is not None:
        return fitted, 0.0, []
    if isinstance(tests, NodeInference):
        doubt = (
            "the edges found have no unpenalised fit: where the sparse estimate has none of them, their "
            "strengths are desparsified estimates"
        )
        return fit.precision, fit.share, [doubt]
    diagonal = np.where(np.diagonal(tests.estimate) > 0.0, tests.estimate.diagonal(), fit.precision.diagonal())
    doubt = (
        "the debiased covariance is so indefinite that the edges found have no unpenalised fit: precision.csv holds "
        "their desparsified estimates"
    )
    return np.where(found, tests.estimate, 0.0) + np.diag(diagonal), 0.0, [doubt]


def _describe_share(share: float, settings: Settings) -> list[str]:
    """Return a note on weights that had to keep some of the penalty although a refit was asked for."""
    if not settings.refit or share == 0.0:
        return []
    if share < 1.0:
        return [
            "the debiased covariance is so indefinite that the graph has no unpenalised fit: its weights keep "
            f"{share:.0%} of the penalty and are shrunk by it"
        ]
    return ["the graph could not be fitted without the penalty: its weights are the penalised estimate's, and shrunk"]


def _graph(
    sample: Sample,
    fit: Fit,
    precision: FloatArray,
    evidence: FloatArray | None,
    tests: EdgeInference | NodeInference | None,
    fdr: float | None,
    *,
    shrinks: bool,
) -> GraphEstimate:
    """Return the graph, of categories with the effects of their levels."""
    nodes, pooled = fit.nodes, fit.pooled
    if not isinstance(tests, NodeInference) and nodes.are_numbers:
        return GraphEstimate(pooled.columns, precision, pooled.covariance, tests, fdr, evidence, shrinks=shrinks)
    of_nodes = tests if isinstance(tests, NodeInference) else None
    linked = of_nodes.q_values <= fdr if of_nodes is not None and fdr is not None else nodes.linked(fit.precision)
    loadings = tabulate_loadings(nodes, linked, precision, pooled, sample.location)
    variables = Variables(pooled.columns, nodes.labels, precision, pooled.covariance, loadings)
    return graph_of_nodes(nodes.names, variables, evidence, of_nodes, fdr)


def _smallest_alpha(fit: Fit, settings: Settings, eigenvalue: float) -> float:
    """Return the smallest alpha that has a solution, which an indefinite matrix needs the more the more it is so."""
    if eigenvalue > 0.0:
        return 0.0
    if fit.nodes.are_numbers:
        rtol = TOLD if len(fit.debiased) >= MANY else RTOL
        return smallest_solvable_alpha(
            fit.debiased, weights=fit.weights, penalize_diagonal=settings.penalize_diagonal, rtol=rtol
        )
    problem = make_group_problem(
        fit.debiased,
        fit.solution.alpha * _FAR_BELOW,
        make_groups(fit.nodes.labels, len(fit.debiased)),
        weights=fit.weights,
        penalize_diagonal=settings.penalize_diagonal,
    )
    return smallest_group_alpha(problem)
