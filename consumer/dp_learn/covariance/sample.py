"""All sources together: their pooled covariance, the rows that it is worth, and resamples of their rows.

The weight of each source, and the number of rows without noise that all are worth, are on the correlation scale. There
the entry (i, j) is divided by sqrt(S^_ii S^_jj), so that no unit matters.

The first pass over the rows gives the covariance and the folds; subsamples and error bars take one more each.

Draws from the law of the errors of a debiased covariance: sampling of Gaussian rows, and the stated noise.

Sampling errors are those of Gaussian rows times the root of their kurtosis, where a release tells it. Releases of the
same rows share one. Noise nu on rows x adds x nu' + nu x' + nu nu' to every row's products. The first two are as good
as normal in the sum over many rows. That on sums of second moments is drawn from the law that the release states.

The columns that several releases share: those of a single release are left out, and so are its levels.

A category that each release has with a column for each level keeps the levels that all have. Each other one counts as
`other` where each release has such levels, or has that one. Where a release has no others, its values that are not
listed count as one of its levels. So do those levels of the other releases. The column of a level that others count as
is the sum of their columns, exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.errors import EstimationError, SchemaError
from dp_bundle.base.quoting import and_more, listed, quote_name
from dp_learn.covariance.estimate import (
    FormErrors,
    NoiseLaw,
    NoisyCovariance,
    PooledCovariance,
    ReleasedCovariance,
    combine_sources,
    keep_columns,
    root_of,
)
from dp_learn.covariance.levels import Levels, rare_gaps
from dp_learn.covariance.moments import Moments, merge_moments, row_errors, select_columns, subsample_moments
from dp_learn.covariance.sources import (
    CovarianceSource,
    RowSource,
    bundle_source,
    change_rows,
    fills_of,
    require_same_columns,
    shown_columns,
    shown_names,
    with_names,
)
from dp_learn.covariance.standard_errors import (
    at_least_model,
    clear_variances,
    combine_row_errors,
    entry_variances,
    form_errors,
    least_skewness,
    mechanism_entry_variances,
    sum_over_pairs,
)
from dp_learn.matrices.linalg import FloatArray, Places, draw_symmetric, few_threads, sandwich


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """The law of the errors of the sources of a pooled covariance, if the rows have a given one.

    Attributes
    ----------
    pooled : PooledCovariance
        The sources, whose errors are known.
    covariance : ndarray of shape (n_features, n_features)
        Of the rows, positive semidefinite, in data units.
    share : float
        The share of the rows that are released, with as much noise on each row, or on each sum over rows.
    """

    pooled: PooledCovariance
    covariance: FloatArray
    share: float = 1.0

    def draw_each(self, rng: np.random.Generator) -> list[FloatArray]:
        """Return a draw of the error of every source's debiased covariance, in data units."""
        root, sources = self._root, self.pooled.sources
        shared = sandwich(root, draw_symmetric(rng, len(root))) if self.pooled.same_rows else None
        drawn = []
        for source, law in zip(sources, self._noise, strict=True):
            own = sandwich(root, draw_symmetric(rng, len(root))) if shared is None else shared
            drawn.append(math.sqrt(self._sampling(source)) * own + law.draw(rng, self.covariance, root))
        return drawn

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Return a draw of the error of the pooled covariance."""
        each = zip(self.pooled.weights, self.draw_each(rng), strict=True)
        return np.asarray(sum(weight * error for weight, error in each))

    def draws(self, rng: np.random.Generator, count: int) -> Iterator[FloatArray]:
        """Yield so many draws of the error of the pooled covariance."""
        return (self.draw(rng) for _ in range(count))

    def n_rows(self, source: NoisyCovariance | ReleasedCovariance) -> int:
        """Return how many of a source's rows are released, at least 2."""
        return max(2, round(self.share * source.n_rows))

    @cached_property
    def _root(self) -> FloatArray:
        return root_of(self.covariance)

    @cached_property
    def _noise(self) -> list[NoisyCovariance | NoiseLaw]:
        return [source.known_noise.of_share(self.share) for source in self.pooled.sources]

    def _sampling(self, source: NoisyCovariance | ReleasedCovariance) -> float:
        kurtosis = self.pooled.kurtosis if self.pooled.same_rows else source.kurtosis or 1.0
        return kurtosis / (self.n_rows(source) - 1)


DRAWS = 20261127  # the seed: the same release has the same draws


def pool_sources(
    columns: Sequence[str], sources: Sequence[NoisyCovariance | ReleasedCovariance], *, same_rows: bool = False
) -> PooledCovariance:
    """Return the weighted mean of the sources' debiased covariances whose mean squared error is least.

    With r_k the mean over i < j of Var S^_k,ij / (S^_ii S^_jj), the weights are w_k = (1/r_k) / sum_l (1/r_l). For
    releases of the same rows the sampling error is common to all whatever their weights, and r_k is the mechanism's
    part of the variance alone; sources without noise then share all the weight.

    The r_k need a first S^: the mean with weights n_k - 1, or one source alone if more columns stand clear of its
    noise. The mean over i < j leaves out the columns that are drowned in it.

    Parameters
    ----------
    columns : sequence of str
        The columns, the same in every source.
    sources : sequence of NoisyCovariance or ReleasedCovariance
        At least one.
    same_rows : bool
        Whether they are releases of the same rows with independent noise.
    """
    by_rows = combine_sources(columns, sources, [source.n_rows - 1 for source in sources], same_rows=same_rows)
    if len(sources) == 1:
        return by_rows
    alone = [combine_sources(columns, sources, one.tolist(), same_rows=same_rows) for one in np.eye(len(sources))]
    first = max([by_rows, *alone], key=lambda pooled: int(clear_variances(pooled).sum()))
    clear = clear_variances(first)
    if clear.sum() < 2:
        return first
    shown = keep_columns(first, np.flatnonzero(clear))
    correlation = np.clip(shown.correlation, -1.0, 1.0)
    costs = []
    for source in shown.sources:
        own = replace(shown, sources=(source,), weights=(1.0,))
        found = mechanism_entry_variances(own, correlation) if same_rows else entry_variances(own, correlation)
        costs.append((float(found.sum()) - float(found.trace())) / (len(found) * (len(found) - 1)))
    cost = np.array(costs)
    weights = 1.0 / cost if (cost > 0).all() else (cost == 0).astype(float)
    return combine_sources(columns, sources, weights.tolist(), same_rows=same_rows)


def effective_rows(pooled: PooledCovariance, precision: FloatArray | None = None) -> float:
    """Return the number of rows without noise that would give the entries of S^ the same mean squared error.

    It is ``1 + sum_{i<j} (1 + r_ij^2) / sum_{i<j} Var S^_ij / (S^_ii S^_jj)`` with the correlations r. That is the
    number of rows itself without noise, and less with it. At a model Theta it is the same of Theta S^ Theta with S^
    varying about Theta^-1. These are the rows behind the likelihood of single edges, fewer where the other columns
    predict one well.

    Parameters
    ----------
    pooled : PooledCovariance
        At least two columns, all with a positive debiased variance.
    precision : ndarray of shape (n_features, n_features), optional
        Theta, positive definite, in inverse data units.

    Returns
    -------
    float
        From 1 to the number of rows.
    """
    if precision is not None:
        noiseless, total = sum_over_pairs(pooled, precision)
    else:
        correlation = np.clip(pooled.correlation, -1.0, 1.0)
        p = len(correlation)
        variances = entry_variances(pooled, correlation)
        noiseless = (p * (p - 2) + float(np.vdot(correlation, correlation))) / 2.0
        total = (float(variances.sum()) - float(variances.trace())) / 2.0
    return float(1.0 + noiseless / total)


@dataclass(frozen=True, eq=False)
class Split:
    """One fold held out: two debiased matrices on one scale, both of shape (p, p).

    Attributes
    ----------
    train : ndarray
        Of the other folds' rows.
    test : ndarray
        Of the rows held out.
    """

    train: FloatArray
    test: FloatArray


def draw_splits(pooled: PooledCovariance, n_folds: int) -> list[Split]:
    """Return matrices that vary as those of folds of the rows would, from a released covariance S^ alone.

    Let E_k be errors of the law of S^ whose sum over K folds is zero. Then S^ - sqrt(K - 1) E_k are uncorrelated, each
    with K times the error of S^, and have the mean S^. So have those of K folds of the rows. Each is held out from the
    mean of the others. The error of each is noise and sampling of Gaussian rows.

    References
    ----------
    Rasines & Young (2023), Splitting strategies for post-selection inference, Biometrika 110(3). Oliveira, Lei &
    Tibshirani (2024), Unbiased risk estimation in the normal means problem via coupled bootstrap techniques, Electronic
    Journal of Statistics 18.
    """
    errors = np.array(_draw_errors(pooled, n_folds))
    errors -= errors.mean(axis=0)
    errors *= math.sqrt(n_folds / (n_folds - 1))  # as large as before the mean was subtracted
    tests = [pooled.covariance - math.sqrt(n_folds - 1) * error for error in errors]
    return [Split((n_folds * pooled.covariance - test) / (n_folds - 1), test) for test in tests]


def _draw_errors(pooled: PooledCovariance, count: int) -> list[FloatArray]:
    """Return draws of the error of S^, in data units: sampling of Gaussian rows, times their kurtosis, and noise."""
    return list(ErrorLaw(pooled, pooled.covariance).draws(np.random.default_rng(DRAWS), count))


def read_samples(
    bundles: Sequence[Bundle], make: Callable[[list[RowSource | CovarianceSource]], list[Sample]], **options: Any
) -> tuple[list[Sample], list[str]]:
    """Return the samples made of the sources of bundles without gaps too few to inform, and sentences on those.

    The options are those of `bundle_sources`.
    """
    sources, notes = bundle_sources(bundles, **options)
    samples = make(sources)
    if rare := dict.fromkeys(name for each in samples for name in rare_gaps(each.pooled, each.levels)):
        sources, notes = bundle_sources(bundles, rare=rare, **options)
        samples = make(sources)
    return samples, notes


class Sample:
    """The pooled covariance of all sources, and resamples of it; every covariance is debiased and in data units.

    Parameters
    ----------
    sources : sequence of RowSource or CovarianceSource
        At least one, with the same columns.
    n_folds : int
        How many folds `splits` is to have; 1 for none.
    same_rows : bool
        Whether the sources are releases of the same rows.

    Attributes
    ----------
    moments : list of Moments
        Of every source; of a released covariance the means alone.
    pooled : PooledCovariance
        The pooled covariance and its sources.
    """

    def __init__(
        self, sources: Sequence[RowSource | CovarianceSource], *, n_folds: int = 1, same_rows: bool = False
    ) -> None:
        self.sources = tuple(sources)
        self.n_folds = n_folds
        with few_threads(len(sources[0].columns)):
            self._folds = [source.moments(n_folds) for source in sources]
        self.moments = [reduce(merge_moments, folds) for folds in self._folds]
        described = [source.describe(whole) for source, whole in zip(sources, self.moments, strict=True)]
        self.pooled: PooledCovariance = pool_sources(sources[0].columns, described, same_rows=same_rows)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle has of it: rows, which are in a bundle, by their moments."""
        each = zip(self.sources, self.moments, self.pooled.sources, strict=True)
        kept = [CovarianceSource(own.columns, moments.mean, known, own.levels) for own, moments, known in each]
        return {**vars(self), "sources": tuple(kept)}

    @property
    def levels(self) -> Levels:
        """What the columns indicate."""
        return self.sources[0].levels

    @property
    def has_rows(self) -> bool:
        """True if any source is rows: else folds and subsamples are drawn from the errors of what was released."""
        return any(isinstance(source, RowSource) for source in self.sources)

    @property
    def location(self) -> FloatArray:
        """The pooled column means."""
        weighted = zip(self.pooled.weights, self.moments, strict=True)
        return np.asarray(sum(weight * moments.mean for weight, moments in weighted))

    def forget_products(self) -> None:
        """Drop the cross products of the rows, as large as the covariance, where there are no folds of them."""
        if all(len(folds) <= 1 for folds in self._folds):
            nothing = np.empty((0, 0))
            self.moments = [replace(each, scatter=nothing) for each in self.moments]
            self._folds = [[replace(fold, scatter=nothing) for fold in folds] for folds in self._folds]

    def splits(self) -> list[Split]:
        """Return each fold's covariance, and that of the other folds; of released covariances as if of folds."""
        self._require_one_kind("held-out rows")
        if not self.has_rows:
            return draw_splits(self.pooled, self.n_folds)
        n_folds = len(self._folds[0])
        if min(fold.n_rows for fold in chain.from_iterable(self._folds)) < 2:
            raise EstimationError(
                f"there are too few rows for {n_folds} folds of at least two: choose alpha by EBIC, or give --alpha"
            )
        splits = []
        for out in range(n_folds):
            others = [reduce(merge_moments, [*folds[:out], *folds[out + 1 :]]) for folds in self._folds]
            splits.append(Split(self._pooled(others), self._pooled([folds[out] for folds in self._folds])))
        return splits

    def subsamples(self, count: int, share: float) -> list[FloatArray]:
        """Return the covariances of random subsamples of a share of the rows, or as if of these, in one more pass."""
        self._require_one_kind("subsamples")
        if not self.has_rows:
            # The covariance of a share of the rows varies about S^ as S^ itself does, times the square of this factor.
            factor = math.sqrt((1.0 - share) / share)
            return [self.pooled.covariance + factor * error for error in _draw_errors(self.pooled, count)]
        drawn = [
            subsample_moments(source.matrices(), len(source.columns), count, share)
            for source in self.sources
            if isinstance(source, RowSource)
        ]
        if any(moments.n_rows < 2 for moments in chain.from_iterable(drawn)):
            raise EstimationError("there are too few rows for subsamples: give --alpha, or choose by another rule")
        return [self._pooled([moments[index] for moments in drawn]) for index in range(count)]

    def row_errors(self, pooled: PooledCovariance, kept: Places, b: FloatArray, *, at_least: bool = True) -> FormErrors:
        """Return the errors of forms of the kept columns, from the rows where there are any, in one more pass.

        For a released covariance they are those of Gaussian rows plus the known noise, and with rows no less. Where an
        event is so rare that no row shows it together with another, the rows' own variance is far too small.

        Parameters
        ----------
        pooled : PooledCovariance
            This sample's, on the kept columns.
        kept : ndarray of int
            Their positions.
        b : ndarray of shape (q, n_kept)
            One form per row.
        at_least : bool
            Whether each is at least that of Gaussian rows; otherwise rows alone tell it, where there are any.
        """
        each = []
        for source, moments, described in zip(self.sources, self.moments, pooled.sources, strict=True):
            if isinstance(source, RowSource):
                whole = len(kept) == len(source.columns)
                batches = source.matrices() if whole else select_columns(source.matrices(), kept)
                known = described.covariance if isinstance(described, NoisyCovariance) else None
                each.append(row_errors(batches, moments.mean[kept], b, known))
            else:
                each.append(form_errors(replace(pooled, sources=(described,), weights=(1.0,), same_rows=False), b))
        combined = combine_row_errors(pooled, b, each)
        return at_least_model(combined, pooled, b) if at_least else combined

    def _require_one_kind(self, wanted: str) -> None:
        if self.has_rows and not all(isinstance(source, RowSource) for source in self.sources):
            raise EstimationError(
                f"rows are pooled with a covariance release, which has none, and this rule needs {wanted} of all: "
                'choose alpha by EBIC (--select auto, or select="auto"), or give alpha'
            )

    def _pooled(self, moments: Sequence[Moments]) -> FloatArray:
        """Return the pooled debiased covariance of one part of every source's rows, at the weights of the whole."""
        described = [source.describe(part) for source, part in zip(self.sources, moments, strict=True)]
        return combine_sources(self.sources[0].columns, described, self.pooled.weights).covariance


OTHER = "other"


def bundle_sources(
    bundles: Sequence[Bundle], *, done: str = "pooled", blocks: bool = True, rare: Collection[str] = ()
) -> tuple[list[RowSource | CovarianceSource], list[str]]:
    """Return the source of each bundle, on what all have but for rare gaps, and sentences on what is left out.

    Without `blocks`, neither gaps nor categories with a column for each level are kept. Columns and nodes have their
    `shown_names`.

    Raises
    ------
    SchemaError
        The releases do not have two columns in common, or these are not alike.
    """
    fills = [fills_of(bundle).items() for bundle in bundles]
    shared = [name for name, _ in set.intersection(*map(set, fills))] if blocks else []
    told = [name for name in shared if name not in rare]
    alike, notes = dict[str, Category](), list[str]()
    apart = _columns_apart(bundles, done)
    differ = any(apart.values()) or any(
        shown_columns(each, told).keys() != shown_columns(bundles[0], told).keys() for each in bundles
    )
    if differ or (not blocks and any(source.has_level_columns for each in bundles for source in each.release.sources)):
        alike, notes = find_shared(bundles, apart, blocks=blocks)
        if len(alike) < 2 and (apart[_DIFFERING] or not differ):
            raise SchemaError(f"{notes[0]}; compare the releases by dp-learn compare, which takes categories")
    for bundle in bundles[1:]:
        require_same_columns(bundle, bundles[0], told, done, alike if len(alike) > 1 else ())
    as_scores, said = _describe_scores(bundles, done, alike)

    sources, order = list[RowSource | CovarianceSource](), tuple[str, ...]()
    for bundle in bundles:
        like = None if alike else bundles[0]
        source = bundle_source(bundle, like=like, done=done, told=told, as_scores=as_scores)
        if alike:
            source = share_columns(source, bundle, alike, order)
            order = source.columns
        sources.append(with_names(source, shown_names(bundle)))
    notes += said
    if rare:
        notes.append(
            "gaps too few to show anything are left out, so that covariances are those of the rows with a value: "
            f"{listed(list(rare))}"
        )
    by = Counter(name for items in fills for name, _ in items if name not in shared)
    if by:
        named = [f"{quote_name(name)} (published by {number} of {len(bundles)})" for name, number in sorted(by.items())]
        notes.append(
            f"gaps of {and_more(named, 10)} are left out. Where they are published, the column's covariances are those "
            "of the rows that have its value. They differ from those of all rows if gaps depend on the values. "
            "Elsewhere its cells without a value, if there are any, count as dp-bundle inspect says"
        )
    return sources, notes


class Category(NamedTuple):
    """The levels that all releases have of a category, none of a column of another kind, and what others count as."""

    levels: tuple[str, ...] = ()
    other: str | None = None


def find_shared(
    bundles: Sequence[Bundle], apart: Mapping[str, Sequence[str]], *, blocks: bool
) -> tuple[dict[str, Category], list[str]]:
    """Return the columns of the raw tables that all releases have, and sentences on what is left out.

    Parameters
    ----------
    bundles : sequence of Bundle
        Verified and open; two at least.
    apart : mapping of str to sequence of str
        The raw columns that all have but that are not alike, by the sentence that says so.
    blocks : bool
        Whether categories with a column for each level are kept.
    """
    sources = [{each.name: each for each in bundle.release.sources if each.has_level_columns} for bundle in bundles]
    names = [dict.fromkeys(column.source_name for column in bundle.release.columns) for bundle in bundles]
    unlike = {name for own in apart.values() for name in own}
    replaced = {each.source_name for bundle in bundles for each in bundle.release.columns if each.response is not None}

    shared, counted, categories = dict[str, Category](), list[str](), list[str]()
    for name in [name for name in names[0] if name not in unlike and all(name in each for each in names)]:
        own = [each[name] for each in sources if name in each]
        if not own:
            shared[name] = Category()
        if not own or (not blocks and len(own) == len(names)):
            categories += [name] if own else []
            continue
        levels = tuple(level for level in own[0].levels if all(level in each.levels for each in own))
        left = {level: None for each in own for level in each.levels if level not in levels}
        whole = [each.other for each in own if len(each.levels) == len(levels)]  # of releases without any more
        other = OTHER if OTHER in levels or not whole else whole[0]
        kept = levels if OTHER in levels or whole else (*levels, OTHER)
        counts = other in kept and {*whole} <= {other} and name not in replaced
        if len(own) == len(names) and len(kept) > 1 and (counts or not left):
            shared[name] = Category(kept, other if left else None)
            merged = [quote_name(level) for level in left if level != other]
            counted += [f"{and_more(merged, 5)} of {quote_name(name)} as {quote_name(str(other))}"] if left else []

    every = dict.fromkeys(name for each in names for name in each)
    lost = [name for name in every if name not in shared and name not in categories and name not in unlike]
    said = {
        "graphs of several releases together are of numbers, so that categories are left out: ": listed(categories),
        **{what: listed([*own]) for what, own in apart.items()},
        "what only some of the releases have, or have alike, is left out: ": listed(lost),
        "levels that only some of the releases have count as another: ": "; ".join(counted),
    }
    return shared, [f"{what}{names}" for what, names in said.items() if names]


_DIFFERING = (
    "columns of scores that differ in their levels, or in their distribution by more than noise and chance explain, "
    "are left out: "
)


def _columns_apart(bundles: Sequence[Bundle], done: str) -> dict[str, list[str]]:
    """Return the raw columns whose scores are not alike in all releases that have them, by what is said of them."""
    columns = [bundle.release.columns for bundle in bundles]
    scored = [{column.source_name for column in own if not column.has_values} for own in columns]
    always = scored[0].intersection(*scored)
    common = set.intersection(*({column.source_name for column in own} for own in columns))
    mixed = sorted(common & scored[0].union(*scored) - always)
    differing = list[str]()
    if len(bundles) > 1 and always and all(bundle.release.margins is not None for bundle in bundles):
        from dp_learn.covariance.scores import find_differing  # with scipy, which others have no use for

        differing = find_differing(bundles, done)
    what = "what stands as normal scores in some of the releases and as values in others is left out: "
    return {what: mixed, _DIFFERING: differing}


def share_columns(
    source: RowSource | CovarianceSource, bundle: Bundle, shared: Mapping[str, Category], order: Sequence[str] = ()
) -> RowSource | CovarianceSource:
    """Return a source on the shared columns.

    Parameters
    ----------
    source : RowSource or CovarianceSource
        Of the bundle.
    bundle : Bundle
        Verified and open.
    shared : mapping of str to Category
        As `find_shared` has them.
    order : sequence of str, optional
        The names of the columns; in the order of this release by default.
    """
    level_of = {
        column: (each.name, level)
        for each in bundle.release.sources
        if each.has_level_columns
        for column, level in zip(each.columns, each.levels, strict=True)
    }
    raw = {column.name: column.source_name for column in bundle.release.columns}
    parts: dict[str, list[int]] = {name: [] for name in order}
    for place, column in enumerate(source.columns):
        if raw[column] in shared:
            name, level = level_of.get(column, (raw[column], ""))
            is_kept = not level or level in shared[name].levels
            parts.setdefault(column if is_kept else f"{name}={shared[name].other}", []).append(place)

    forms = np.zeros((len(parts), len(source.columns)))
    for row, places in enumerate(parts.values()):
        forms[row, places] = 1.0
    first = [places[0] for places in parts.values()]
    sources = tuple(
        each.model_copy(update={"columns": tuple(f"{each.name}={level}" for level in levels), "levels": levels})
        if (levels := shared[each.name].levels)
        else each
        for each in bundle.release.sources
        if each.name in shared
    )
    nodes = tuple(source.levels.nodes[place] for place in first)
    fills = {name: fill for name, fill in source.levels.fills.items() if name in shared}
    indicated = Levels(nodes, sources, fills=fills)
    if isinstance(source, RowSource):
        (moments,) = source.moments()
        return change_rows(source, source.describe(moments), forms, tuple(parts), indicated)

    mean, released = forms @ source.mean, source.released.of_forms(forms)
    if isinstance(released, ReleasedCovariance) and isinstance(source.released, ReleasedCovariance):
        of_levels = least_skewness([(0.0, 1.0)] * len(mean), mean, released.debiased.diagonal(), released.n_rows)
        skewness = source.released.skewness
        if skewness is not None:
            released = replace(released, skewness=np.where(forms.sum(axis=1) > 1.0, of_levels, skewness[first]))
    return CovarianceSource(tuple(parts), mean, released, indicated)


def _describe_scores(
    bundles: Sequence[Bundle], done: str, shared: Mapping[str, Category]
) -> tuple[Collection[str], list[str]]:
    """Return the columns that stay as their normal scores in all releases, and sentences on what scores tell."""
    raw = {column.source_name for column in bundles[0].release.columns if not column.has_values}
    if any(bundle.release.margins is None for bundle in bundles) or not (raw & {*shared} if shared else raw):
        return (), []
    from dp_learn.covariance.scores import latent_columns, weak_columns  # with scipy, which others have no use for

    as_scores, said = set[str](), list[str]()
    if len(bundles) > 1:
        as_scores = weak_columns(bundles)
        said.append(
            "normal scores are pooled: of no column among them, the distribution differs from that of the first "
            "release by more than noise, chance and 0.02 of the rows. Each release alone has its histograms"
            if done == "pooled"
            else "links are between the normal variables behind ranks, by each release's own histograms: differences "
            "of the columns' distributions are not among what is shown"
        )
    if latent := latent_columns(bundles[0], as_scores):
        said.append(
            f"{listed(latent)} {'have' if len(latent) > 1 else 'has'} few values: correlations and links with them are "
            "those of the normal variables behind (tetrachoric or polychoric), as a rule larger than of the values"
        )
    return as_scores, said
