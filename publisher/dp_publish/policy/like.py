"""What an earlier release says of its columns, as the policy that it decides: all of it is public, and was paid for.

Kinds, levels, gaps and bounds are in its manifest. So are the centers of its columns in the first of two rounds, where
gaps stand, and, but for a factor, their deviations, which are units of the second. Of normal scores both are on the
scale of scores, and numbers have the places around which the cells of their histograms lie.
"""

import os
from typing import Any

import numpy as np

from dp_bundle.bundle.reading import open_bundle
from dp_publish.data.kinds import KINDS

_UNITS = 4.0  # of the second round, over sqrt(p): exact without correlations, and else a few percent too many
_CLIP = 5.0  # scales, or a few more: where rows are clipped at least, and are again with a scale of no more than this
_SCALES = 403.4  # 2 sinh(6), between the outermost ends of a histogram's cells, or up to a third more


def decisions_of(place: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the policy that an earlier release decides, as a file would give it, without a strength; and its name.

    All columns that it does not publish are dropped.

    Parameters
    ----------
    place : str, Path or RemotePath
        The bundle, a tar or a folder, or its URI.

    Raises
    ------
    BundleError
        The bundle, or its signer, cannot be trusted.
    """
    with open_bundle(place, allow_older=True) as bundle:
        release, promise = bundle.release, bundle.release.guarantee
        margins = bundle.margins() if release.margins else ()
    privacy: dict[str, Any] = {
        "unit": {"entity": promise.entity, "max_rows": promise.max_rows} if promise.entity else promise.unit,
        "release": "copula" if margins else release.kind,
    }
    if moments := release.second_moments:
        privacy |= {"mechanism": moments.mechanism, "neighbours": promise.neighbours}

    # of several columns that are published for one, the first says what a policy does
    columns: dict[str, Any] = {"*": {"drop": True}}
    for column in release.columns:
        said = column.model_dump(include={"kind", "unit", "description", "bounds", "missing"})
        said |= {"drop": False, "max_change": column.max_change and int(column.max_change)}
        if moments and column.standards and not margins:
            first, second = column.standards
            scale = second.scale / (_UNITS * len(release.columns) ** 0.5)
            clipped = (moments.column_clip or 1) * first.scale / _CLIP
            said |= {"center": first.center, "scale": min(scale, clipped, column.width)}
        columns.setdefault(column.source_name, said)

    for margin in margins:
        said, edges = columns[margin.name], margin.edges
        if len(edges) > 1:
            said |= {"center": np.median(edges), "scale": np.ptp(edges) / _SCALES}
        if (edges % 1 == 0.5).all():  # as are none, those of levels, whose sources say what they are
            said["kind"] = "integer"
    for source in release.sources:
        said, kind = columns[source.name], KINDS[source.kind]
        if kind.read_from:
            said["kind"] = kind.said_as or kind.name
        if source.levels:
            levels = [level for level in source.levels if level != source.gaps or level == source.other]
            said |= {"bounds": None, kind.levels or "": levels, "other": source.other}
        if source.gaps:
            said["missing"] = "other" if source.gaps == source.other else "category"
    return {
        "like": f"release {release.lineage.number} of {release.dataset.name!r}",
        "privacy": privacy,
        "columns": columns,
    }
