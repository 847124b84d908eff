"""What an earlier release says of its columns, as the policy that it decides: all of it is public, and was paid for.

Kinds, levels, gaps and bounds are in its manifest. So is where the values of its columns were clipped in the first of
two rounds. Of columns that have histograms, numbers have the places around which their cells lie.
"""

import math
import os
from typing import Any

import numpy as np

from dp_bundle.bundle.reading import open_bundle
from dp_bundle.manifest.columns import source_names
from dp_publish.covariance.two_rounds.shares import least_clip
from dp_publish.data.kinds import KINDS

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
        "release": release.kind,
    }
    if moments := release.second_moments:
        privacy |= {"mechanism": moments.mechanism, "neighbours": promise.neighbours}
    if moments and moments.first_round:
        privacy["scale"] = list(source_names([each for each in release.columns if each.transform])) or "raw"

    # of several columns that are published for one, the first says what a policy does
    columns: dict[str, Any] = {"*": {"drop": True}}
    for column in release.columns:
        said = column.model_dump(include={"kind", "unit", "description", "bounds", "missing"})
        said |= {"drop": False, "max_change": column.max_change and int(column.max_change)}
        if moments and column.standards and not margins:
            first, _ = column.standards
            spent = math.sqrt((promise.mu or 0.0) ** 2 - (promise.discovery_mu or 0.0) ** 2)
            least = least_clip(spent / (promise.max_rows or 1), release.n_rows, len(release.columns))
            clipped = (moments.column_clip or 1) * first.scale / least
            said |= {"center": first.center, "scale": min(clipped, column.width)}
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
