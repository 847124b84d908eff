"""What the page of a release of second moments shows of them: correlations as a map of colours, and the graph.

Both are learned when the bundle is surveyed, by whoever learns here (`portals.learned`), and kept as plain numbers.
Pictures are SVG without a script. No colour stands alone: sure correlations have their sign, negative links are dashed,
and tables have the numbers.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dp_bundle.base.errors import BundleError, DpGraphError
from dp_bundle.base.quoting import counted, escape
from dp_bundle.bundle.opened import Bundle
from dp_bundle.describe.sentences import describe_scale
from dp_bundle.page.colours import DIVERGING, Shade
from dp_bundle.page.tables import PageTable, TableColumn, number
from dp_bundle.portals.histograms import draw_margins
from dp_bundle.portals.learned import Correlations, Network, find_reader

MAPPED = 40  # columns
LINKED = 50  # columns, up to which a graph takes seconds
_LISTED = 8  # pairs, and links
_SURE = 2.0  # standard errors
_WIDTH, _LEAST, _MOST = 300, 16, 28  # of a map without names, and of a cell
_BESIDE, _ABOVE = 158, 20  # of names, and of numbers
_LETTERS = 16
_ACROSS, _DOWN, _MARGIN = 720, 460, (76, 30)  # of a graph
_WIDEST = 6.0
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
    """Return what release.html shows of second moments: pictures and tables, None where there is nothing to show."""
    shown: Facts = {"moments": facts, "heat_map": None, "pairs": None, "network": None, "links": None, "scale": SCALE}
    if facts is None:
        return shown
    if facts["map"] is not None:
        shown["heat_map"] = draw_heat_map(facts["map"])
        shown["pairs"] = _pairs_table(facts["pairs"]) if facts["pairs"] else None
    if (graph := facts["graph"]) is not None:
        shown["network"] = draw_network(graph) if graph["links"] else None
        shown["links"] = _links_table(graph) if graph["links"] else None
    return shown


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


def draw_heat_map(shown: Facts) -> Markup:
    """Return correlations as squares of colours; those of more than two standard errors have their sign in them.

    Parameters
    ----------
    shown : dict
        `names`, and the squares `values` and `errors`, where None is unknown.
    """
    names, p = shown["names"], len(shown["names"])
    side = min(max(_WIDTH // p, _LEAST), _MOST)
    squares: dict[int, list[str]] = {}
    signs: dict[str, list[str]] = {"pale": [], "deep": []}
    n_sure = 0
    for row, (values, errors) in enumerate(zip(shown["values"], shown["errors"], strict=True)):
        for column, (value, error) in enumerate(zip(values, errors, strict=True)):
            if value is None:
                continue
            x, y = _BESIDE + column * side, _ABOVE + row * side
            step = round((min(max(value, -1.0), 1.0) + 1.0) / 2.0 * (len(SCALE) - 1))
            squares.setdefault(step, []).append(f"M{x} {y}h{side}v{side}h-{side}z")
            if row != column and error is not None and abs(value) > _SURE * error:
                n_sure += row < column
                tone = "deep" if abs(2 * step - len(SCALE) + 1) > len(SCALE) // 2 else "pale"
                signs[tone].append(_sign(x + side / 2, y + side / 2, side / 4, positive=value > 0))

    paths = [f'<path class="s{step}" d="{"".join(parts)}"/>' for step, parts in sorted(squares.items())]
    paths += [f'<path class="sign {tone}" d="{"".join(parts)}"/>' for tone, parts in signs.items() if parts]
    middle = [_BESIDE + (place + 0.5) * side for place in range(p)]
    above = [f'<text class="above" x="{x:g}" y="{_ABOVE - 6}">{at}</text>' for at, x in enumerate(middle, start=1)]
    beside = [
        Markup('<text class="beside" x="{}" y="{:g}">{} {}</text>').format(
            _BESIDE - 6, _ABOVE + (place + 0.5) * side + 4, _short(name), place + 1
        )
        for place, name in enumerate(names)
    ]
    title = f"Correlations of {counted(p, 'column')}"
    says = f"Of {p * (p - 1) // 2} pairs, {n_sure} have a correlation of more than two standard errors."
    return _svg("heat", (_BESIDE + p * side + 1, _ABOVE + p * side + 1), title, says, [*paths, *above, *beside])


def _sign(x: float, y: float, half: float, *, positive: bool) -> str:
    across = f"M{x - half:g} {y:g}h{2 * half:g}"
    return f"{across}M{x:g} {y - half:g}v{2 * half:g}" if positive else across


def draw_network(graph: Facts) -> Markup:
    """Return the graph of at least one link: lines are as wide as links are strong, negative ones dashed."""
    places = [None if at is None else _at(*at) for at in graph["places"]]
    strongest = max(abs(link[2]) for link in graph["links"])
    lines = []
    for source, target, weight, *_ in reversed(graph["links"]):
        (x1, y1), (x2, y2) = places[source], places[target]
        width = 0.6 + _WIDEST * abs(weight) / strongest
        kind = "positive" if weight >= 0 else "negative"
        lines.append(f'<path class="{kind}" stroke-width="{width:.3g}" d="M{x1:.4g} {y1:.4g}L{x2:.4g} {y2:.4g}"/>')
    placed = [(name, at) for name, at in zip(graph["nodes"], places, strict=True) if at is not None]
    dots = [f'<circle cx="{x:.4g}" cy="{y:.4g}" r="6"/>' for _, (x, y) in placed]
    names = [Markup('<text x="{:.4g}" y="{:.4g}">{}</text>').format(x, y - 11, _short(name)) for name, (x, y) in placed]
    source, target, weight, _, _, has_sign = max(graph["links"], key=lambda link: abs(link[2]))
    ends = f"“{escape(graph['nodes'][source])}” and “{escape(graph['nodes'][target])}”"
    title = f"The graph of {counted(len(graph['nodes']), 'column')}, with {counted(len(graph['links']), 'link')}"
    says = f"The strongest link is between {ends}, with a partial correlation of {_weight(weight, has_sign)}."
    return _svg("network", (_ACROSS, _DOWN), title, says, [*lines, *dots, *names])


def _weight(weight: float, has_sign: bool) -> str:
    return number(weight, "+.2f") if has_sign else f"{number(weight, '.2f')} (no sign)"


def _at(x: float, y: float) -> tuple[float, float]:
    beside, above = _MARGIN
    return (x + 1) / 2 * (_ACROSS - 2 * beside) + beside, (1 - y) / 2 * (_DOWN - 2 * above) + above


def _short(name: str) -> str:
    shown = escape(name)
    return shown if len(shown) <= _LETTERS else f"{shown[: _LETTERS - 1]}…"


def _svg(kind: str, size: tuple[int, int], title: str, says: str, parts: Sequence[str]) -> Markup:
    head = Markup(
        '<svg class="{0}" width="{1}" height="{2}" viewBox="0 0 {1} {2}" role="img" aria-labelledby="{0}-t {0}-d">'
        '<title id="{0}-t">{3}</title><desc id="{0}-d">{4}</desc>'
    ).format(kind, *size, title, says)
    return Markup(f"{head}{''.join(parts)}</svg>")  # noqa: S704  names are escaped, the rest is ours
