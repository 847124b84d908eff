"""What the page of a release of second moments shows of them: correlations as a map of colours, and the graph.

Both are learned when the bundle is surveyed, by whoever learns here (`portals.learned`), and kept as plain numbers.
Pictures are drawn by the template, and tables have the numbers.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import BundleError, DpGraphError
from dp_bundle.bundle.opened import Bundle
from dp_bundle.describe.sentences import describe_scale
from dp_bundle.page.colours import DIVERGING, Shade
from dp_bundle.page.tables import PageTable, TableColumn, number
from dp_bundle.portals.histograms import draw_margins
from dp_bundle.portals.learned import Correlations, Network, find_reader

MAPPED = 40  # columns
LINKED = 50  # columns, up to which a graph takes seconds
_LISTED = 8  # pairs, and links
SCALE: tuple[Shade, ...] = DIVERGING[::2]
Facts = dict[str, Any]


def survey_moments(bundle: Bundle) -> Facts | None:
    """Return the correlations and the graph of a release of second moments, as JSON; None if nobody here learns.

    Returns
    -------
    dict
        `map`, the first columns with correlations and errors; `pairs`, those that are surest; `worth`, and `notes` on
        columns on another scale; `graph` for few columns; `histograms`, if it has any, with `more` on those that
        are not drawn. `why` says what could not be learned, or nothing.

    Raises
    ------
    BundleError
        The data are not what the manifest says.
    """
    if (reader := find_reader()) is None:
        return None
    columns = bundle.release.columns
    facts: Facts = {"map": None, "pairs": [], "graph": None, "why": "", "notes": describe_scale(columns)}
    facts |= {"histograms": [], "more": ""}
    if bundle.release.margins is not None:
        pictures, facts["more"] = draw_margins(bundle.margins(), bundle.release)
        facts["histograms"] = [asdict(picture) for picture in pictures]
    try:
        facts |= _correlations(reader.correlations(bundle))
        if len(columns) <= LINKED:
            facts["graph"] = _graph(reader.network(bundle))
    except BundleError:
        raise
    except DpGraphError as error:
        facts["why"] = str(error)
    return facts


def _correlations(found: Correlations) -> Facts:
    shown = np.s_[:MAPPED, :MAPPED]
    return {
        "map": {
            "names": list(found.columns[:MAPPED]),
            "values": _plain(found.values[shown]),
            "errors": _plain(found.standard_errors[shown]),
        },
        "pairs": _surest(found),
        "worth": found.effective_rows,
    }


def _plain(matrix: NDArray[np.float64]) -> list[list[float | None]]:
    return [[round(value, 4) if np.isfinite(value) else None for value in row] for row in matrix.tolist()]


def _surest(found: Correlations) -> list[tuple[str, str, float, float]]:
    """Return the pairs with the largest correlations over their errors: both names, the correlation, its error."""
    first, second = np.triu_indices(len(found.columns), 1)
    value, error = found.values[first, second], found.standard_errors[first, second]
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.nan_to_num(np.abs(value) / error, nan=-1.0)
    order = [place for place in np.argsort(-score, kind="stable")[:_LISTED].tolist() if score[place] > 0.0]
    ends = [(found.columns[first[place]], found.columns[second[place]]) for place in order]
    return [(*pair, float(value[place]), float(error[place])) for pair, place in zip(ends, order, strict=True)]


def _graph(found: Network) -> Facts:
    return {"nodes": list(found.nodes), "places": list(found.places), "links": [list(link) for link in found.links]}


def moments_values(facts: Facts | None) -> Facts:
    """Return what release.html shows of second moments beside the facts: tables, and the colours of the map."""
    pairs, graph = (facts["pairs"], facts["graph"]) if facts is not None else ([], None)
    return {
        "moments": facts,
        "scale": SCALE,
        "pairs": _pairs_table(pairs) if pairs else None,
        "links": _links_table(graph) if graph and graph["links"] else None,
    }


def _pairs_table(pairs: Sequence[Sequence[Any]]) -> PageTable:
    first, second, values, errors = zip(*pairs, strict=True)
    columns = [
        TableColumn("column", first),
        TableColumn("and", second),
        TableColumn("correlation", values, "+.2f"),
        TableColumn("standard error", errors, ".3f"),
    ]
    return PageTable(
        "pairs", "The surest correlations: those that are largest in standard errors.", columns, headings=2
    )


def _links_table(graph: Facts) -> PageTable:
    names, links = graph["nodes"], graph["links"]
    source, target, weights, low, high, has_sign = zip(*links[:_LISTED], strict=True)
    columns = [
        TableColumn("column", [names[place] for place in source]),
        TableColumn("and", [names[place] for place in target]),
        TableColumn("partial correlation", [*map(_weight, weights, has_sign)]),
    ]
    if any(end is not None for end in low):
        columns += [TableColumn("95 % interval from", low, "+.2f"), TableColumn("to", high, "+.2f")]
    more = f"{len(links) - _LISTED} more are in the picture." if len(links) > _LISTED else ""
    return PageTable("links", "The links of the graph, surest first.", columns, more=more, headings=2)


def _weight(weight: float, has_sign: bool) -> str:
    return number(weight, "+.2f") if has_sign else f"{number(weight, '.2f')} (no sign)"
