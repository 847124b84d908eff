"""The columns that several releases share: those of a single release are left out, and so are its levels.

A category that each release has with a column for each level keeps the levels that all have. Each other one counts as
`other` where each release has such levels, or has that one. Where a release has no others, its values that are not
listed count as one of its levels, and so do those levels of the other releases. The column of a level that others count
as is the sum of their columns, exactly.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dp_bundle import Bundle
from dp_bundle.base.errors import SchemaError
from dp_bundle.base.quoting import and_more, listed, quote_name
from dp_learn.covariance.estimate import ReleasedCovariance
from dp_learn.covariance.levels import Levels
from dp_learn.covariance.skewness import least_skewness
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
    differ = bool(_mixed_scales(bundles)) or any(
        shown_columns(each, told).keys() != shown_columns(bundles[0], told).keys() for each in bundles
    )
    if differ or (not blocks and any(source.has_level_columns for each in bundles for source in each.release.sources)):
        alike, notes = find_shared(bundles, blocks=blocks)
        if len(alike) < 2 and not differ:
            raise SchemaError(f"{notes[0]}; compare the releases by dp-learn compare, which takes categories")
    for bundle in bundles[1:]:
        require_same_columns(bundle, bundles[0], told, done, alike if len(alike) > 1 else ())
    as_scores, said = _require_one_scale(bundles, done, alike)

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


def find_shared(bundles: Sequence[Bundle], *, blocks: bool) -> tuple[dict[str, Category], list[str]]:
    """Return the columns of the raw tables that all releases have, and sentences on what is left out.

    Parameters
    ----------
    bundles : sequence of Bundle
        Verified and open; two at least.
    blocks : bool
        Whether categories with a column for each level are kept.
    """
    sources = [{each.name: each for each in bundle.release.sources if each.has_level_columns} for bundle in bundles]
    names = [dict.fromkeys(column.source_name for column in bundle.release.columns) for bundle in bundles]
    mixed = _mixed_scales(bundles)
    replaced = {each.source_name for bundle in bundles for each in bundle.release.columns if each.response is not None}

    shared, counted, categories = dict[str, Category](), list[str](), list[str]()
    for name in [name for name in names[0] if name not in mixed and all(name in each for each in names)]:
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
    lost = [name for name in every if name not in shared and name not in categories and name not in mixed]
    said = {
        "graphs of several releases together are of numbers, so that categories are left out: ": listed(categories),
        "what stands as normal scores in some of the releases and as values in others is left out: ": listed(mixed),
        "what only some of the releases have, or have alike, is left out: ": listed(lost),
        "levels that only some of the releases have count as another: ": "; ".join(counted),
    }
    return shared, [f"{what}{names}" for what, names in said.items() if names]


def _mixed_scales(bundles: Sequence[Bundle]) -> list[str]:
    """Return the raw columns that stand as normal scores in some releases, and as values in others."""
    columns = [bundle.release.columns for bundle in bundles]
    scored = [{column.source_name for column in own if not column.has_values} for own in columns]
    every = [{column.source_name for column in own} for own in columns]
    return sorted(scored[0].union(*scored).difference(scored[0].intersection(*scored)).intersection(*every))


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


def _require_one_scale(
    bundles: Sequence[Bundle], done: str, shared: Mapping[str, Category]
) -> tuple[Collection[str], list[str]]:
    """Return the columns that stay as their normal scores in all releases, and sentences on what scores tell."""
    raw = {column.source_name for column in bundles[0].release.columns if not column.has_values}
    if any(bundle.release.margins is None for bundle in bundles) or not (raw & {*shared} if shared else raw):
        return (), []
    from dp_learn.covariance.scores import latent_columns, require_one_scale  # with scipy, which others have no use for

    as_scores, said = list[str](), list[str]()
    if len(bundles) > 1:
        among = {name for name, each in shared.items() if each.other is None} if shared else None
        as_scores = [*require_one_scale(bundles, done, among)]
        said.append(
            "normal scores are pooled: no column's distribution differs from that of the first release by more than "
            "noise, chance and 0.02 of the rows. Each release alone has its histograms"
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
