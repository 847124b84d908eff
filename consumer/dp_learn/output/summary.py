"""A result, and the contents of its `summary.json`: numbers and names, and where they come from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.quoting import quote, quote_name
from dp_bundle.data.margin_summary import cell_shares, find_body
from dp_bundle.data.margins import Margin, response_margins
from dp_bundle.describe.sentences import describe_gaps
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.release import Release
from dp_learn.covariance.estimate import PooledCovariance
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.standard_errors import rows_without_noise, typical_errors
from dp_learn.matrices.linalg import FloatArray
from dp_learn.output.folder import Columns, Result, Summary, margin_tables, write_graph, write_stability, write_table
from dp_learn.output.network import Network, make_network, network_of, save_picture
from dp_learn.pipeline.graph import AT_LEAST, GraphEstimate
from dp_learn.pipeline.learn import Learned
from dp_learn.pipeline.measures import ALGORITHM
from dp_learn.pipeline.stability import Stability

_ROUNDING = 1e-9  # relative: what a clip at a bound may be off by


@dataclass(frozen=True, eq=False)
class GraphResult(Result):
    """An estimator's answer.

    Attributes
    ----------
    bundles, summary
        As of `Result`.
    graph : GraphEstimate or None
        Where the answer is a precision matrix.
    learned : Learned or None
        Where it is the graphical lasso's: how the graph was found.
    tables : mapping of str to Columns
        Further tables, by the name of their file.
    why_none : str
        Why a graph of another estimator than the graphical lasso would have no edge.
    stability : Stability or None
        Of the graph, where it was asked for.
    histograms : tuple of Margin
        Of all columns, or of levels replaced at random.
    """

    bundles: Sequence[Bundle]
    summary: Summary
    graph: GraphEstimate | None = None
    learned: Learned | None = None
    tables: Mapping[str, Columns] = field(default_factory=dict)
    why_none: str = ""
    stability: Stability | None = None
    histograms: tuple[Margin, ...] = ()

    @cached_property
    def network(self) -> Network | None:
        """Its links as they are drawn; None if it has none to speak of, as a regression."""
        if self.graph is not None:
            measures = None if self.learned is None else self.learned.measures
            known = {"at_least": self.summary.get("at_least", 0.0)}
            return network_of(self.graph, measures, determined=self.summary.get("collinear_columns", ()), **known)
        edges = self.tables.get("edges.csv")
        return None if edges is None else make_network(edges, self.summary.get("columns", ()), "correlation")

    @property
    def title(self) -> str:
        """The title of the picture, one line or two."""
        releases = [(bundle.release.dataset, bundle.release.lineage.number) for bundle in self.bundles]
        if self.summary["estimator"] != "graphical-lasso":
            return f"{quote_name(releases[0][0].name)}, {self.summary['estimator']}"
        names = [(quote(each.title) if each.title else quote_name(each.name), number) for each, number in releases]
        shown = f"alpha {self.summary['alpha']:.3g}"
        if self.summary["fdr"]:
            shown = f"edges at a false discovery rate of {self.summary['fdr']:g}"
        shares = self.summary["noise_share_of_variance"]
        noise = "" if shares is None else f", noise {median(shares.values()):.0%} of the variance"
        return f"{' + '.join(f'{name}, release {number}' for name, number in names)}\n{shown}{noise}"

    def write_files(self, folder: Path) -> None:
        """Write all tables, the graph and its picture into a new folder."""
        if self.graph is not None and self.network is not None:
            write_graph(self.graph, None if self.learned is None else self.learned.measures, folder)
            save_picture(self.network, folder / "graph.png", self.title, self.summary["drowned_columns"])
            if self.stability is not None:
                write_stability(self.graph, self.stability, folder / "stability.csv")
        margins = margin_tables(self.histograms, self.bundles[0].release) if self.histograms else {}
        for name, table in (*self.tables.items(), *margins.items()):
            write_table(table, folder / name)


def read_histograms(bundles: Sequence[Bundle], sample: Sample) -> tuple[Margin, ...]:
    """Return the histograms of a release learned from alone: of all columns, or of levels replaced at random."""
    release, (shift, factor) = bundles[0].release, sample.levels.change
    if len(bundles) > 1:
        return ()
    if release.margins is not None:
        return bundles[0].margins()
    return response_margins(release, sample.location / factor + shift) if sample.levels.responses else ()


def summarize(
    learned: Learned, bundles: Sequence[Bundle], stability: Stability | None = None, *, at_least: float = AT_LEAST
) -> Summary:
    """Return the summary of a graph; see `count_edges` for the last.

    The entries:

    n_features
        the number of columns in the graph
    determined_columns
        columns left out as others determine them, each with how
    collinear_columns
        columns that are, or may be, nearly collinear
    smallest_solvable_alpha
        below it the problem has no solution
    repair_distance
        the largest change of an entry by the repair
    solver
        which one was used
    alpha_chosen_by
        the rule, or `the user`
    path
        the alphas that were tried, each with a `score`
    score
        in `path`: the rule's score, larger being better
    status
        `optimal`, or why not
    n_iter
        iterations
    objective
        what was minimised, on the scale of the penalty
    duality_gap
        a bound on how far the objective is from its minimum
    fdr
        the false discovery rate at which edges were listed
    error_bars
        whether there are any
    communities
        groups of nodes, the largest first
    nodes
        in `communities`: their names
    probability
        in `communities`: how probably two of its nodes are together, on average
    community_algorithm
        the method that found them
    stability
        with `--stability`: what draws say of the graph
    draws
        in `stability`: the number of draws with all rows
    draws_without_graph
        in `stability`: those that no graph could be learned from; they count as graphs without edges
    correlation_stability
        in `stability`: by measure, a share of the rows, of ten from 0.05 to 0.75; it is the largest without which the
        measure still has a correlation of 0.7 with the graph's in 95 % of draws (0 if none)
    weights
        whether the penalty is `equal`, in proportion to the `noise`, in inverse proportion to the `evidence` (the
        second of two stages), or a matrix
    scale
        what the penalty is measured on, `correlation` or `covariance`
    refit
        whether the graph was fitted again without the penalty
    penalize_diagonal
        whether the penalty includes the diagonal
    """
    fit, settings = learned.fit, learned.settings
    solution, selection = fit.solution, fit.selection

    return {
        **describe_origin(bundles, learned.sample.pooled),
        "n_features": len(learned.estimate.columns),
        "columns": list(learned.estimate.columns),
        "drowned_columns": list(fit.drowned),
        "determined_columns": fit.nodes.columns.determined,
        "collinear_columns": list(learned.collinear),
        "noise_share_of_variance": noise_shares(learned.sample.pooled, fit.nodes.levels.nodes),
        "contradictions": learned.contradictions,
        "smallest_eigenvalue": learned.smallest_eigenvalue,
        "smallest_solvable_alpha": None if math.isinf(learned.smallest_alpha) else learned.smallest_alpha,
        "repair": fit.repair.method.value,
        "repair_distance": fit.repair.distance,
        "estimator": "graphical-lasso",
        "solver": solution.solver,
        "alpha": solution.alpha,
        "alpha_chosen_by": selection.rule if selection else "the user",
        "path": [] if selection is None else _describe_path(selection.alphas, selection.scores),
        "status": str(solution.status),
        "n_iter": solution.n_iter,
        "objective": solution.objective,
        "duality_gap": solution.duality_gap,
        "penalty_share": learned.penalty_share,
        "edge_weights": name_weights(learned.estimate, learned.penalty_share),
        **count_edges(learned.estimate, at_least),
        "fdr": learned.estimate.fdr,
        "error_bars": learned.estimate.inference is not None,
        "communities": _communities(learned),
        "community_algorithm": ALGORITHM,
        "stability": None
        if stability is None
        else {
            "draws": stability.n_draws,
            "draws_without_graph": stability.n_failed,
            "correlation_stability": stability.coefficients,
        },
        "notes": [*learned.notes, *([] if stability is None else [stability.sentence])],
        "weights": str(fit.weighting),
        "scale": settings.scale,
        "refit": settings.refit,
        "penalize_diagonal": settings.penalize_diagonal,
    }


def count_edges(graph: GraphEstimate, at_least: float) -> Summary:
    """Return the number of all edges of a graph, of the strong ones, and of the weaker ones; see `is_strong`.

    The entries:

    n_edges
        the number of edges
    penalty_share
        of precision matrices: the share of the penalty that the final fit keeps
    edge_weights
        of precision matrices: `refitted` on the graph, `shrunk` for the noise, or `penalised`
    at_least
        of precision matrices: the strength of the edges that are shown first; no table depends on it
    n_strong_edges
        of precision matrices: the edges whose `partial_correlation` is of at least this size
    n_weaker_edges
        of precision matrices: the other edges
    """
    n_edges, n_strong = len(graph.edge_columns["source"]), graph.strong_first(at_least)[1]
    return {
        "n_edges": n_edges,
        "at_least": at_least,
        "n_strong_edges": n_strong,
        "n_weaker_edges": n_edges - n_strong,
    }


def _communities(learned: Learned) -> list[Summary]:
    """Return the communities of the graph, the largest first."""
    if (measures := learned.measures) is None:
        return []
    numbers, found = measures.columns["community"], list[Summary]()
    for number in range(1, 1 + int(np.nan_to_num(numbers).max(initial=0.0))):
        places = np.flatnonzero(numbers == number)
        each = None if measures.together is None else measures.together[np.ix_(places, places)]
        probability = None if each is None else float(each[np.triu_indices(len(places), 1)].mean())
        found.append({"nodes": [measures.columns["node"][place] for place in places], "probability": probability})
    return found


def name_weights(graph: GraphEstimate, penalty_share: float) -> str:
    """Return "shrunk" for weights of edges that are shrunk for the noise, else "refitted" or "penalised"."""
    if graph.shrunk_weights is not None:
        return "shrunk"
    return "penalised" if penalty_share == 1.0 else "refitted"


def describe_origin(bundles: Sequence[Bundle], pooled: PooledCovariance) -> Summary:
    """Return the bundles with their weights, the number of rows, and the error that these leave.

    The entries:

    bundles
        a list: each bundle, with the entries from `dataset` to `weight`
    dataset
        its name
    kind
        `rows` or `covariance`
    release_number
        among the releases of its dataset
    manifest_sha256
        the digest that identifies the release; cite it
    signer
        the fingerprint of the signer's key
    n_rows
        of one bundle; and at the top, of all
    gaps
        what the publisher did with missing values
    clipped_at
        by column of a release in two rounds, how far from its center values were clipped, in standard deviations as
        estimated afterwards; not of normal scores
    clipped_shares
        by column of numbers with a histogram, not of normal scores: the two ends to which values were clipped; the
        share of rows in cells that reach beyond these
    transforms
        by column, what its values were replaced by before the release
    name
        in `transforms`: `scores`, for normal scores
    weight
        its share in the pooled covariance
    same_rows
        whether several bundles are releases of the same rows
    correlation_standard_error
        the median standard error of a correlation that is zero
    with_noise
        in it: as it is
    without
        in it: as it would be without the noise
    effective_rows
        n such that 1/n is the squared standard error of a correlation that is zero; so many Gaussian rows without noise
        would show as much. Give it, and not `n_rows`, to software that knows no noise. Of heavy-tailed
        rows the true number is smaller, unless two rounds state the tails
    errors_are_estimates
        true: the publisher could only estimate the errors, and there are no error bars
    kurtosis_factor
        what sampling variances were multiplied by for the rows' tails
    columns
        the columns of the estimate
    drowned_columns
        columns left out because noise hides them
    noise_share_of_variance
        by column, the noise's share of the published variance
    contradictions
        what in the data contradicts the manifest, in sentences
    smallest_eigenvalue
        of the debiased matrix on the scale of the penalty; below zero it is indefinite
    repair
        how an indefinite matrix was repaired first, or `none`
    estimator
        the name, as in `--estimator`
    alpha
        the penalty or the threshold
    notes
        what a reader should know, in sentences
    """
    described = [
        {
            **name_release(bundle),
            "gaps": [*describe_gaps(bundle.release, columns=pooled.columns), *_most_gaps(bundle)],
            "transforms": {
                column.name: column.transform.model_dump()
                for column in bundle.release.columns
                if column.transform is not None
            },
            "clipped_at": _clips(bundle.release, pooled),
            "clipped_shares": clipped_shares(bundle),
            "weight": weight,
        }
        for bundle, weight in zip(bundles, pooled.weights, strict=True)
    ]

    errors = typical_errors(pooled)
    return {
        "bundles": described,
        "same_rows": pooled.same_rows,
        "n_rows": pooled.n_rows,
        "correlation_standard_error": None if errors is None else {"with_noise": errors[0], "without": errors[1]},
        "effective_rows": rows_without_noise(pooled),
        "errors_are_estimates": pooled.has_errors and not pooled.has_error_law,
        "kurtosis_factor": pooled.kurtosis,
    }


def name_release(bundle: Bundle) -> Summary:
    """Return which release a bundle holds, who signed it, and how many rows it is of."""
    release = bundle.release
    return {
        "dataset": release.dataset.name,
        "kind": release.kind,
        "release_number": release.lineage.number,
        "manifest_sha256": bundle.manifest_sha256,
        "signer": bundle.signer.key.fingerprint,
        "n_rows": release.n_rows,
    }


def _most_gaps(bundle: Bundle) -> list[str]:
    """Return a sentence on how many gaps there may be where no column tells of them, by the histograms."""
    release = bundle.release
    told = {source.name for source in release.sources if source.has_gap_column}
    margins = [
        each for each in (bundle.margins() if release.margins else ()) if each.has_gaps and each.name not in told
    ]
    if not margins:
        return []
    ends = [cell_shares(each, release.n_rows, release.margin_variance)[2][-1] for each in margins]
    most = f"{100 * max(ends):.2g} %"
    return [f"Where no column says so, at most {most} of a column have no value, by 95 % intervals of histograms."]


def _clips(release: Release, pooled: PooledCovariance) -> dict[str, float]:
    """Return how far from its center each column was clipped by two rounds, in its standard deviations."""
    clip = release.column_clip
    if clip is None:
        return {}
    variances = dict(zip(pooled.columns, np.diagonal(pooled.covariance).tolist(), strict=True))
    return {
        column.name: clip * column.standards[0].scale / math.sqrt(variances[column.name])
        for column in release.columns
        if column.has_values and variances.get(column.name, 0.0) > 0.0 and not _holds_bounds(column, clip)
    }


def clipped_shares(bundle: Bundle) -> dict[str, list[float]]:
    """Return the ends that numbers with a histogram were pulled in to, and the share of rows beyond these.

    The share is that of the cells that lie or reach beyond, by noisy counts, and not negative. Cells farther out than
    anything that stands out from the noise, which may hold noise alone, do not count.
    """
    release, found = bundle.release, dict[str, list[float]]()
    clip = release.column_clip
    first = release.first_columns
    for each in bundle.margins() if release.margins else ():
        column = first[each.name]
        ends, sigma = release.ends_of(column), release.margin_variance**0.5
        if clip is None or ends is None or each.labels or not each.edges.size or _holds_bounds(column, clip):
            continue
        shares = each.shares(release.n_rows, sigma)[: each.n_filled]
        start, end = find_body(each.counts[: each.n_filled], sigma)
        shares[:start] = shares[end:] = 0.0
        low, high = np.clip(ends, each.edges[0], each.edges[-1])  # the first and the last cell reach beyond any end
        share = float(shares[:-1][each.edges <= low].sum() + shares[1:][each.edges >= high].sum())
        found[column.name] = [*ends, share]
    return found


def _holds_bounds(column: Column, clip: float) -> bool:
    """Return True if a column's bounds lie within its clip, which then changes no value, but for rounding."""
    if column.bounds is None:
        return False
    (low, high), standard = column.bounds, column.standards[0]
    away = clip * standard.scale * (1 + _ROUNDING)
    return standard.center - away <= low and high <= standard.center + away


def noise_shares(pooled: PooledCovariance, nodes: Sequence[str] | None = None) -> dict[str, float] | None:
    """Return the noise's share of the published variance by names, None where it is unknown.

    Parameters
    ----------
    pooled : PooledCovariance
        Of all columns.
    nodes : sequence of str, optional
        The names that the columns go by, where several may have one: they have the mean. Their own if left out.
    """
    if pooled.noise_share is None:
        return None
    own: dict[str, list[float]] = {}
    for node, share in zip(nodes or pooled.columns, pooled.noise_share.tolist(), strict=True):
        own.setdefault(node, []).append(share)
    return {node: sum(shares) / len(shares) for node, shares in own.items()}


def _describe_path(alphas: FloatArray, scores: FloatArray) -> list[Summary]:
    known = [None if np.isnan(score) else score for score in scores.tolist()]
    return [{"alpha": alpha, "score": score} for alpha, score in zip(alphas.tolist(), known, strict=True)]
