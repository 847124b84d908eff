"""Sources of a covariance: the noisy rows of a bundle or a table, or a covariance that was released itself.

Rows are never kept in memory: each pass streams them again.

*Gaps.* Numbers whose gaps are published are changed to what releases that publish no gaps have of them. Such a number x
is a fill f where it has no value, and g is 1 there. With w the mean of g, the values that there are have the mean m =
(E x - w f) / (1 - w). So x + (m - f) g is m where there is none. It is uncorrelated with g, so that an error of m
changes its variance in second order alone. Divided by 1 - w, its covariances with other columns are those of the rows
in which x has a value,

    Cov(x + (m - f) g, y) / (1 - w) = Cov(x, y | g = 0),

and its variance is that of these rows over 1 - w. What is too much is subtracted as the variance of noise on each row
is, and counts in the errors as that does. So does what gaps that come together add between two such numbers. Their
covariance is that of rows with both values. Where gaps depend on nothing, these are the covariances of the values with
no gap at all.

References
----------
Little & Rubin (2019), Statistical Analysis with Missing Data, section 3.4, on available cases.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dp_bundle import Bundle
from dp_bundle.base.errors import BundleFormatError, EstimationError, ParameterError, SchemaError
from dp_bundle.base.quoting import and_more, listed, quote_name, quote_path
from dp_bundle.manifest.columns import Column
from dp_learn.covariance.estimate import (
    NoisyCovariance,
    ReleasedCovariance,
    debias_covariance,
    noise_fourth_cumulants,
)
from dp_learn.covariance.levels import Levels, fill_of, find_levels
from dp_learn.covariance.moments import LARGEST, BundleRows, Moments, Rows, fold_moments
from dp_learn.covariance.standard_errors import least_skewness, limits_of
from dp_learn.covariance.two_rounds import RoundMatrices, combine_rounds, debias_one_round
from dp_learn.matrices.checks import align_numbers
from dp_learn.matrices.linalg import FloatArray, sandwich

Told = Collection[str] | None
_MOST_GAPS = 0.99  # noise may take their share beyond 1
_FEWEST = 0.05  # rows with both values, over those expected of gaps that have nothing to do with each other


@dataclass(frozen=True, eq=False)
class RowSource:
    """Noisy rows that can be streamed again and again.

    Attributes
    ----------
    columns : tuple of str
        The columns' names.
    noise_variance, noise_fourth_cumulant : ndarray of shape (n_features,)
        Of each column's noise.
    granularity : ndarray of shape (n_features,) or None
        The grid that values lie on as they were published, if one is stated.
    matrices : callable
        Returns consecutive batches, for one pass.
    levels : Levels
        What columns indicate. `matrices` holds unbiased indicators, and the noise of randomised ones is that of
        `describe` alone.
    published : callable or None
        Returns the batches as they were published, where `matrices` does not.
    rest : ndarray of shape (n_features, n_features) or None
        What else is subtracted from the covariance as that of noise on each row is, where gaps are left out.
    """

    columns: tuple[str, ...]
    noise_variance: FloatArray
    noise_fourth_cumulant: FloatArray
    granularity: FloatArray | None
    matrices: Callable[[], Iterable[Rows]]
    levels: Levels
    published: Callable[[], Iterable[Rows]] | None = None
    rest: FloatArray | None = None

    def moments(self, n_folds: int = 1) -> list[Moments]:
        """Return the moments of every fold of the rows, in one pass."""
        published = self.published or self.matrices
        found = fold_moments(published(), len(self.columns), n_folds, self.granularity)
        if self.published is None:
            return found
        shift, factor = self.levels.change
        return [
            replace(each, mean=(each.mean - shift) * factor, scatter=each.scatter * np.outer(factor, factor))
            for each in found
        ]

    def describe(self, moments: Moments) -> NoisyCovariance:
        """Return the covariance of these rows, or of a part of them, with its noise."""
        variance, cumulant, shared = self.noise_variance, self.noise_fourth_cumulant, self.rest
        if self.levels.responses:
            noise, cumulants = self.levels.noise(moments.mean)
            variance, cumulant = variance + np.diagonal(noise), cumulant + cumulants
            shared = noise - np.diag(np.diagonal(noise)) + (0.0 if shared is None else shared)
        return NoisyCovariance(moments.n_rows, moments.covariance, variance, cumulant, shared)

    def second_moments_about(self, location: FloatArray) -> FloatArray:
        """Return the debiased second moments of the rows about a point, in data units."""
        (moments,) = self.moments()
        described, shift = self.describe(moments), moments.mean - location
        own = debias_covariance(moments.scatter / moments.n_rows + np.outer(shift, shift), described.noise_variance)
        return own if described.noise_shared is None else own - described.noise_shared


@dataclass(frozen=True, eq=False)
class CovarianceSource:
    """A covariance that was released itself, without rows.

    Attributes
    ----------
    columns : tuple of str
        The columns' names.
    mean : ndarray of shape (n_features,)
        The column means, in data units.
    released : ReleasedCovariance, or NoisyCovariance
        The covariance and its noise; of rows that are no longer there, theirs.
    levels : Levels
        What columns indicate.
    """

    columns: tuple[str, ...]
    mean: FloatArray
    released: ReleasedCovariance | NoisyCovariance
    levels: Levels

    def moments(self, _: int = 1) -> list[Moments]:
        """Return the mean alone, as there are no rows to have folds or products of."""
        return [Moments(self.released.n_rows, self.mean, np.empty((0, 0)), np.zeros(len(self.columns), dtype=np.int64))]

    def describe(self, _: Moments) -> ReleasedCovariance | NoisyCovariance:
        """Return the covariance and its noise."""
        return self.released

    def second_moments_about(self, location: FloatArray) -> FloatArray:
        """Return the debiased second moments about a point, in data units."""
        shift = self.mean - location
        n_rows = self.released.n_rows
        return self.released.debiased * ((n_rows - 1) / n_rows) + np.outer(shift, shift)


def shown_names(bundle: Bundle) -> dict[str, str]:
    """Return the names by which results call columns of two levels: with the level that is 1, which a sign is about."""
    taken = {column.name for column in bundle.release.columns}
    shown = {
        source.columns[0]: f"{source.name} ({source.levels[1]})"
        for source in bundle.release.sources
        if len(source.levels) == 2 and not source.is_block
    }
    return {name: said for name, said in shown.items() if said not in taken}


def with_names(source: RowSource | CovarianceSource, shown: Mapping[str, str]) -> RowSource | CovarianceSource:
    """Return a source whose columns and nodes have other names."""
    columns, nodes = (tuple(shown.get(name, name) for name in own) for own in (source.columns, source.levels.nodes))
    return replace(source, columns=columns, levels=replace(source.levels, nodes=nodes))


def bundle_source(
    bundle: Bundle,
    like: Bundle | None = None,
    *,
    done: str = "pooled",
    told: Told = None,
    as_scores: Collection[str] | None = (),
) -> RowSource | CovarianceSource:
    """Return the rows or the covariance of a bundle, with the columns in the order of another bundle.

    Parameters
    ----------
    bundle : Bundle
        Verified and open.
    like : Bundle, optional
        The bundle whose columns it must have; any will do by default.
    done : {"pooled", "compared"}
        What cannot be done otherwise, in the words of the error.
    told : collection of str, optional
        The numbers that keep their published gaps, which stand at one number in both; all such by default.
    as_scores : collection of str, or None
        Columns of normal scores that are taken as they are, and not as the normal variables behind them; None for all.

    Raises
    ------
    SchemaError
        The two bundles do not have the same columns in the same units.
    EstimationError
        A column's numbers are so large or so small that their fourth powers are none.
    """
    like = bundle if like is None else like
    _require_usable_sizes(bundle)
    told = dict(fills_of(bundle).items() & fills_of(like).items()) if told is None else told
    mine, other = require_same_columns(bundle, like, told, done)
    columns = bundle.release.columns
    names = (*other, *(column.name for column in columns if column.name not in mine))
    place_of = {column.name: place for place, column in enumerate(columns)}
    places = [place_of[name] for name in names]
    chosen = [columns[place] for place in places]
    levels = find_levels(chosen, bundle.release.sources)

    hidden = [column for column in columns if column.missing == "indicator" and mine[column.name].block is None]
    gaps = {names.index(column.name): fill_of(column) for column in hidden}  # with their indicators in this order, last
    after = find_levels([mine[name] for name in other], bundle.release.sources)
    if bundle.release.kind != "rows":
        mean, released = _released(bundle, chosen, places, as_scores)
        if gaps:
            mean, released = _change_released(mean, released, gaps)
        scores = {}
        if bundle.release.margins is not None:
            from dp_learn.covariance.scores import kept_steps, reaches_of, share_of_ones  # with scipy, which few need

            released = replace(released, ones=share_of_ones(bundle, names[: len(mean)]))
            scores, after = kept_steps(bundle, as_scores), replace(after, reaches=reaches_of(bundle))
        limits = [limits_of(column, scores) for column in chosen[: len(mean)]]
        skewness = least_skewness(limits, mean, released.debiased.diagonal(), released.n_rows)
        return CovarianceSource(names[: len(mean)], mean, replace(released, skewness=skewness), after)

    rows = BundleRows(bundle, places if places != sorted(places) else None)
    unbiased = BundleRows(bundle, rows.places, levels.change if levels.responses else None)
    source = RowSource(
        names,
        np.array([0.0 if column.response is not None else column.cell_noise.variance for column in chosen]),
        noise_fourth_cumulants(chosen),
        np.array([column.grid for column in chosen]),
        lambda: unbiased,
        levels,
        (lambda: rows) if levels.responses else None,
    )
    return _without_gaps(source, gaps, after) if gaps else source


def _change_released(
    mean: FloatArray, released: ReleasedCovariance, gaps: Mapping[int, float]
) -> tuple[FloatArray, ReleasedCovariance]:
    """Return a released mean and covariance without some gaps."""
    forms, shift, rest = leave_out_gaps(mean, released.debiased, gaps)
    noise, debiased, nothing = released.noise, sandwich(forms, released.debiased) - rest, np.zeros(len(mean))
    if noise is not None:  # of normal scores there is something already, but none of gaps' indicators
        own = noise.rest or NoisyCovariance(released.n_rows, released.debiased, nothing, nothing)
        noise = replace(noise.of_forms(forms), rest=replace(own.of_forms(forms), noise_shared=rest))
    return forms @ (mean - shift), replace(released, debiased=debiased, noise=noise)


def change_rows(
    source: RowSource,
    described: NoisyCovariance,
    forms: FloatArray,
    columns: Sequence[str],
    levels: Levels,
    shift: FloatArray | float = 0.0,
) -> RowSource:
    """Return forms of the columns of rows less a shift; the noise of randomised response is that of all rows.

    Parameters
    ----------
    source : RowSource
    described : NoisyCovariance
        All of its rows.
    forms : ndarray of shape (q, n_features)
        Of which no two have a column in common.
    columns, levels
        Their names, and what they indicate.
    shift : ndarray of shape (n_features,), or a number
        What is subtracted from rows before.
    """
    noise = described.of_forms(forms)

    def changed(rows: Rows) -> Rows:
        return Rows(rows.start, lambda: (rows.read() - shift) @ forms.T)

    return RowSource(
        tuple(columns),
        noise.noise_variance,
        noise.noise_fourth_cumulant,
        None,
        lambda: map(changed, source.matrices()),
        replace(levels, responses=()),
        rest=noise.noise_shared,
    )


def _without_gaps(source: RowSource, gaps: Mapping[int, float], levels: Levels) -> RowSource:
    """Return rows without some gaps, after one more pass over them."""
    (moments,) = source.moments()
    described = source.describe(moments)
    forms, shift, rest = leave_out_gaps(moments.mean, described.debiased, gaps)
    changed = change_rows(source, described, forms, source.columns[: len(forms)], levels, shift)
    return replace(changed, rest=rest if changed.rest is None else rest + changed.rest)


def leave_out_gaps(
    mean: FloatArray, covariance: FloatArray, fills: Mapping[int, float]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return B and s of what rows become, B (row - s), and what to subtract from the covariance of that.

    Parameters
    ----------
    mean, covariance : ndarray of shape (n_features,), ndarray of shape (n_features, n_features)
        Of all columns, without their noise; the last are the indicators to leave out.
    fills : mapping of int to float
        The places of their numbers, in the same order, and where these have no value.
    """
    numbers, fill = np.array([*fills]), np.array([*fills.values()])
    n_kept = len(mean) - len(fills)
    absent = np.clip(mean[n_kept:], 0.0, _MOST_GAPS)
    present = 1.0 - absent
    of_values = (mean[numbers] - absent * fill) / present

    forms, shift = np.eye(len(mean))[:n_kept], np.zeros(len(mean))
    forms[numbers, range(n_kept, len(mean))] = of_values - fill
    forms[numbers] /= present[:, None]
    shift[numbers] = of_values * absent

    # rows with both values, over those expected where gaps have nothing to do with each other
    by_chance = np.outer(absent, absent)
    together = np.clip(covariance[n_kept:, n_kept:], -by_chance, np.minimum.outer(absent, absent) - by_chance)
    np.fill_diagonal(together, absent * present)
    ratio = np.maximum(1.0 + together / np.outer(present, present), _FEWEST)
    rest, at = np.zeros((n_kept, n_kept)), np.ix_(numbers, numbers)
    rest[at] = sandwich(forms, covariance)[at] * (1.0 - 1.0 / ratio)
    return forms, shift, rest


def table_rows(values: FloatArray, columns: Sequence[str], noise_variance: npt.ArrayLike = 0.0) -> RowSource:
    """Return the rows of a table in memory, with Gaussian noise of these variances (a number, or one per column)."""
    variance = align_numbers("noise_variance", noise_variance, columns)
    if variance.shape not in {(), (len(columns),)} or not (np.isfinite(variance).all() and (variance >= 0).all()):
        raise ParameterError(
            "noise_variance", f"a finite number >= 0, or one for each of {len(columns)} columns", noise_variance
        )
    spread = np.full(len(columns), variance) if variance.ndim == 0 else variance
    names, zeros = tuple(columns), np.zeros(len(columns))
    return RowSource(names, spread, zeros, None, lambda: [Rows(0, lambda: values)], Levels(names, ()))


def share_rows(bundles: Sequence[Bundle]) -> bool:
    """Return whether bundles are releases of the same rows (True) or of different ones (False).

    Take releases of one dataset by one signer, or by successors of the key. They hold the same rows if they have as
    many, or are about the same partition. Other datasets, signers or partitions hold different rows.

    Raises
    ------
    SchemaError
        They cannot be pooled: one is given twice, some but not all share their rows, or the dataset has grown.
    """
    require_each_once(bundles)
    origins = [(bundle.origin, bundle.release.lineage.partition) for bundle in bundles]

    parts: dict[object, set[str | None]] = {}
    for dataset, partition in origins:
        parts.setdefault(dataset, set()).add(partition)
    if any(None in partitions and len(partitions) > 1 for partitions in parts.values()):
        raise SchemaError("a whole dataset and a part of it share rows: give the whole, or its parts, alone")

    if len(bundles) == 1 or len(set(origins)) == len(origins):
        return False
    if len(set(origins)) > 1:
        raise SchemaError(
            "some of the bundles are releases of the same rows and some of others, which cannot be weighted together: "
            "give releases of one dataset, or one release of each"
        )

    if len({bundle.release.n_rows for bundle in bundles if counts_rows(bundle)}) > 1:
        raise SchemaError(
            "the bundles are releases of one dataset whose number of rows has changed in between, so that they share "
            "an unknown part of their rows: learn from the largest alone"
        )
    return True


def require_each_once(bundles: Sequence[Bundle]) -> None:
    """Refuse, by `SchemaError`, a release that is given twice."""
    seen: dict[str, str] = {}
    for bundle in bundles:
        path, digest = quote_path(bundle.path), bundle.manifest_sha256
        if digest in seen:
            raise SchemaError(
                f"{seen[digest]} and {path} are the same release, which is given twice: name each bundle once"
            )
        seen[digest] = path


def _released(
    bundle: Bundle, chosen: Sequence[Column], places: Sequence[int], as_scores: Collection[str] | None
) -> tuple[FloatArray, ReleasedCovariance]:
    """Return a covariance bundle's mean, and its debiased covariance and noise."""
    release, moments = bundle.release, bundle.release.second_moments
    if moments is None:
        raise BundleFormatError("the manifest of a covariance release does not describe it")
    if moments.first_round is not None:
        mean, combined = combine_rounds(moments, RoundMatrices.from_bundle(bundle, places), chosen, release.n_rows)
        if moments.margins is not None:  # what has one value, to three deviations of a count, varies by noise alone
            least = release.n_rows - 3.0 * moments.margins.sigma
            constant = {margin.name for margin in bundle.margins() if margin.counts.max() >= least}
            varies = [column.source_name not in constant for column in chosen]
            combined = replace(combined, debiased=combined.debiased * np.outer(varies, varies))
        if moments.margins is None or as_scores is None:
            return mean, combined
        from dp_learn.covariance.scores import behind_scores  # with scipy, which others have no use for

        return mean, behind_scores(bundle, chosen, combined, as_scores)
    order = [*places, len(places)] if moments.constant else places
    matrix = bundle.second_moments()[np.ix_(order, order)]
    return debias_one_round(moments, matrix, chosen, release.n_rows if counts_rows(bundle) else None)


def counts_rows(bundle: Bundle) -> bool:
    """Return whether a bundle states its number of rows, rather than an estimate of it."""
    return bundle.release.guarantee.neighbours.n_rows_public


def _require_usable_sizes(bundle: Bundle) -> None:
    for column in bundle.release.columns:
        low, high = column.bounds or (-1.0, 1.0)
        spread = [high - low] if column.noise is None else [column.noise_sigma]
        spread += [standard.scale for standard in column.standards]
        far = [abs(low), abs(high), *(abs(standard.center) for standard in column.standards)]
        if not (max(*far, *spread) <= LARGEST and min(spread) >= 1 / LARGEST):
            raise EstimationError(
                f"column {column.name!r} has bounds or noise beyond {LARGEST:g} in size, or below {1 / LARGEST:g}, and "
                "is out of range: ask for a release in other units"
            )


def fills_of(bundle: Bundle) -> dict[str, float]:
    """Return the numbers whose gaps are published, and where these stand."""
    return {each.source_name: fill_of(each) for each in bundle.release.columns if each.missing == "indicator"}


def shown_columns(bundle: Bundle, told: Collection[str]) -> dict[str, Column]:
    """Return the columns by their names, as if gaps that are left out had not been published."""
    left_out, plain = fills_of(bundle).keys() - told, {"missing": "midpoint", "block": None}
    shown = [each for each in bundle.release.columns if each.missing == "indicator" or each.block not in left_out]
    return {each.name: each.model_copy(update=plain) if each.block in left_out else each for each in shown}


def require_same_columns(
    bundle: Bundle, like: Bundle, told: Collection[str], done: str, shared: Collection[str] = ()
) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return the columns of both that are shown, or refuse, by `SchemaError`, those that differ.

    Of tables that are learned from by some of their columns, these need to be alike.
    """
    mine, other = shown_columns(bundle, told), shown_columns(like, told)
    here, there = quote_path(bundle.path), quote_path(like.path)
    policies = "ask for releases by policies that declare the same columns, kinds and categories"
    differing = sorted(mine.keys() ^ other.keys())
    if differing and not shared:
        raise SchemaError(
            f"{here} and {there} do not have the same columns, so they cannot be {done}: only one has "
            f"{and_more([*map(quote_name, differing)], 5)}; {policies}"
        )
    levels = [
        {each.columns[0]: [*each.levels] for each in one.release.sources if not each.has_level_columns}
        for one in (bundle, like)
    ]
    for name, column in mine.items():
        if name not in other or (shared and column.source_name not in shared):
            continue
        its, said = other[name], ""
        ours, theirs = (each.get(name, []) for each in levels)
        if ours != theirs and ours and theirs:
            said = (
                f"stands for the levels {listed(ours)} in {here} and {listed(theirs)} in {there}, so they cannot be "
                f"{done}: {policies}"
            )
        elif column.block != its.block:
            said = f"is a level in only one of {here} and {there}, so they cannot be {done}: {policies}"
        elif column.transform != its.transform:
            scored, plain = (there, here) if column.transform is None else (here, there)
            said = (
                f"has normal scores in {scored} and values in {plain}: bundles are {done} on one scale only: ask for "
                'releases with the same scale, "raw" or "scores", or --like an earlier one'
            )
        elif column.unit != its.unit:
            said = (
                f"is in {_unit(column)} in {here} and in {_unit(its)} in {there}: bundles are {done} in one unit only"
            )
        if said:
            raise SchemaError(f"column {name!r} {said}")
    return mine, other


def _unit(column: Column) -> str:
    return quote_name(column.unit) if column.unit else "no unit"
