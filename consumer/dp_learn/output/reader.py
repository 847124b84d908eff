"""What dp_bundle asks of a learner, found by the entry point `dp_bundle.reader`: see `dp_bundle.data.learned`."""

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from dp_bundle import Bundle
from dp_bundle.data.learned import Correlations, Link, Network, Spread
from dp_bundle.manifest.release import shape_of
from dp_learn.covariance.estimate import keep_columns
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import bundle_source
from dp_learn.covariance.standard_errors import clear_variances, rows_without_noise
from dp_learn.matrices.linalg import few_threads
from dp_learn.output.messages import has_sure_sign
from dp_learn.output.network import place_nodes
from dp_learn.pipeline.driver import require_learnable
from dp_learn.pipeline.learn import learn_graph


def correlations(bundle: Bundle, *, of_scores: bool = False) -> Correlations:
    """Return the correlations of a verified bundle's columns without the noise's part, with their standard errors.

    Two rounds are combined; rows are passed over twice. Of columns of normal scores they are those of the normal
    variables behind the scores, or, with `of_scores`, of the scores.

    Raises
    ------
    EstimationError
        There are too few rows, or numbers that cannot be computed with.
    BundleFormatError
        The data are not what the manifest says.
    MemoryLimitError
        It may need more memory than it may have.
    """
    require_learnable(shape_of(bundle.release), estimator="thresholded-covariance")
    p = len(bundle.release.columns)
    values, errors = np.full((2, p, p), np.nan)
    with few_threads(p):
        sample = Sample([bundle_source(bundle, as_scores=None if of_scores else ())])
        kept = np.flatnonzero(clear_variances(sample.pooled))
        pooled = keep_columns(sample.pooled, kept)
        block = np.ix_(kept, kept)
        values[block] = pooled.correlation
        if pooled.has_errors and len(kept):
            forms = sample.row_errors(pooled, kept, np.diag(1.0 / pooled.deviations))
            variances = forms.along(-np.clip(pooled.correlation, -1.0, 1.0))
            np.fill_diagonal(variances, 0.0)
            errors[block] = np.sqrt(np.maximum(variances, 0.0))
    return Correlations(
        sample.pooled.columns,
        values,
        errors,
        sample.pooled.n_rows,
        rows_without_noise(sample.pooled),
        sample.pooled.has_errors and not sample.pooled.has_error_law,
    )


def spread(bundle: Bundle) -> Spread:
    """Return the means and the standard deviations of a verified bundle's columns without the noise's part.

    Raises
    ------
    EstimationError, BundleFormatError, MemoryLimitError
        As in `correlations`.
    """
    require_learnable(shape_of(bundle.release), estimator="thresholded-covariance")
    with few_threads(len(bundle.release.columns)):
        sample = Sample([bundle_source(bundle)])
        variances = np.where(clear_variances(sample.pooled), np.diagonal(sample.pooled.covariance), np.nan)
    return Spread(sample.location, np.sqrt(variances))


def network(bundle: Bundle) -> Network:
    """Return the graph that dp-learn finds in a verified bundle without options, and where its nodes are drawn.

    Links whose sign is sure come first. Columns that nearly determine each other have much evidence of links, whose
    intervals may hold zero.

    Raises
    ------
    EstimationError
        There is no estimate.
    BundleFormatError
        The data are not what the manifest says.
    MemoryLimitError
        It may need more memory than it may have.
    """
    found = learn_graph(bundle, measures=False).estimate
    place_of, edges = {name: place for place, name in enumerate(found.columns)}, found.edges()
    sure = has_sure_sign({str(name): edges[name].to_numpy() for name in edges})
    links = tuple(
        Link(
            place_of[each["source"]],
            place_of[each["target"]],
            each["partial_correlation"],
            *_interval(each),
            found.categories.isdisjoint((each["source"], each["target"])),
        )
        for each in edges.iloc[np.argsort(~sure, kind="stable")].to_dict("records")
    )
    ends = np.array([link[:2] for link in links], dtype=np.int64).reshape(-1, 2)
    places = place_nodes(len(found.columns), ends, np.array([link.weight for link in links]))
    at = tuple((float(x), float(y)) if math.isfinite(x) else None for x, y in places)
    return Network(tuple(found.columns), at, links)


def _interval(edge: Mapping[Hashable, Any]) -> tuple[float | None, float | None]:
    low, high = edge.get("ci_low", math.nan), edge.get("ci_high", math.nan)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (None, None)
