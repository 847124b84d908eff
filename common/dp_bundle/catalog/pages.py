"""The pages of a site, the list of datasets and one for each release with its privacy label, and that beside a bundle.

The last has a paragraph for a record of processing. Pictures are SVG, drawn when a page is made, so that they need no
script; colours follow the page's.

What the page of a release of second moments shows of them: correlations as a map of colours, and the graph.

Both are learned when the bundle is surveyed, by whoever learns here (`data.learned`), and kept as plain numbers.
Pictures are drawn by the template, and tables have the numbers.
"""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dp_bundle.base.errors import BundleError, DpGraphError
from dp_bundle.base.quoting import counted, name_columns, quote_name
from dp_bundle.bundle.opened import Bundle
from dp_bundle.catalog.label import SHOWN_COLUMNS, worded_label
from dp_bundle.data.learned import Correlations, Network, find_reader
from dp_bundle.describe.sentences import describe_bounds, describe_scale, describe_size, first_columns, of_hundred
from dp_bundle.describe.subject import Subject
from dp_bundle.manifest.columns import source_names
from dp_bundle.manifest.release import Release
from dp_bundle.page.colours import DIVERGING, Shade
from dp_bundle.page.document import Page, as_json, render_page
from dp_bundle.page.tables import PageTable, TableColumn, number
from dp_bundle.portals.histograms import draw_margins

ASSETS = Path(__file__).with_name("assets")
_NAMED = 9  # missing releases
_NAMED_COLUMNS = 40  # in a record of processing
_STEP, _RADIUS = 16, 5.5  # of a dot
_BY_CHANCE = 50
Facts = dict[str, Any]


class Refused(NamedTuple):
    """A file that is not offered: its name in the folder of bundles, and a sentence why."""

    file: str
    why: str


def list_page(
    newest: Sequence[Facts], refused: Sequence[Refused], *, title: str, address: str, names: dict[str, str]
) -> str:
    """Return the page that lists every dataset by its newest release, and the files that are not offered."""
    signers = {facts["signer"]: names.get(facts["signer"]) or "unknown signer" for facts in newest}
    catalog = {
        "@context": "https://schema.org/",
        "@type": "DataCatalog",
        "name": title,
        **({"@id": address, "url": address} if address else {}),
        "dataset": [
            {"@type": "Dataset", "name": facts["about"]["title"], "url": f"{address}{facts['folder']}/{facts['page']}"}
            for facts in newest
        ],
    }
    values = {
        "newest": newest,
        "refused": refused,
        "signers": signers,
        "address": address,
        "markup": as_json(catalog),
        "portal": title,
    }
    return render_page(Page(ASSETS, "list.html", title, values, scripts=["list.js"]))


def release_page(facts: Facts, *, title: str, signer_name: str, history: Sequence[Facts]) -> str:
    """Return the page of one release.

    Parameters
    ----------
    facts : dict
        What `survey` found.
    title : str
        The portal's name.
    signer_name : str
        What the portal calls the signer; nothing if it does not trust the key.
    history : sequence of dict
        The facts of all releases of the dataset that are offered, newest first.
    """
    series = [each for each in history if each["series"] == facts["series"] and each["kind"] == facts["kind"]]
    newer = next((each for each in series if each["number"] > facts["number"]), None)
    values = {
        **facts,
        "portal": title,
        "signer_name": signer_name,
        "history": history,
        "newer": newer,
        "missing": _missing(history),
        **label_values(facts["label"]),
        "preview": _preview(facts),
        **moments_values(facts["moments"]),
        "markup": as_json(facts["schema_org"]),
    }
    heading = f"{facts['about']['title']}, release {facts['number']}"
    return render_page(Page(ASSETS, "release.html", heading, values, scripts=[]))


def label_values(label: Facts) -> Facts:
    """Return what label.html is filled with: a release’s label, its picture, its numbers, and its table of noise."""
    n_right = of_hundred(label["right"])
    return {
        "label": label,
        "picture": hundred_guesses(n_right),
        "n_right": n_right,
        "noise_table": _noise_table(label["columns"]) if label["columns"] else None,
    }


def _missing(history: Sequence[Facts]) -> str:
    """Return a sentence about releases that a dataset has had and that are not here, or that do not form a chain."""
    digests = {each["manifest_sha256"] for each in history}
    numbers = {each["number"] for each in history}
    absent = list(islice((number for number in range(1, max(numbers)) if number not in numbers), _NAMED))
    if absent:
        named = ", ".join(map(str, absent))
        return f"Not in this portal: {'release' if len(absent) == 1 else 'releases'} {named}."
    broken = [each["number"] for each in history if each["previous"] and each["previous"] not in digests]
    if broken:
        return (
            f"Release {broken[0]} names another release before it than the ones here: ask the publisher which counts."
        )
    return ""


def _noise_table(columns: Sequence[Sequence[str]]) -> PageTable:
    heads = ("column", "values kept within", "noise on every value", "its standard deviation as a share of the bounds")
    by_column = [list(each) for each in zip(*columns, strict=True)]
    return PageTable(
        "noise",
        "The noise on each column, and what values were clipped to before it was added.",
        [TableColumn(head, texts) for head, texts in zip(heads, by_column, strict=True)],
    )


def _preview(facts: Facts) -> PageTable:
    """Return the first rows, or the first entries of a matrix."""
    heads, lines = facts["heads"], facts["lines"]
    if facts["kind"] == "covariance":
        columns = [TableColumn(*each) for each in zip(heads, lines, (None, None, ".6g"), strict=True)]
        caption = (
            "The first entries of the matrix, as published: sums of products of two columns of the rows, which were "
            "transformed as the label says under “Noise”, plus random noise. Do not read correlations off "
            "them: dp-learn undoes the transformation."
        )
        return PageTable("preview", caption, columns, headings=2)
    caption = (
        "The first rows, as published. Every value carries random noise, so that some are impossible; that is meant."
    )
    more = facts["n_columns"] - len(heads)
    columns = [TableColumn("row", list(range(1, len(lines[0]) + 1)), "d")]
    columns += [TableColumn(head, values, ".6g") for head, values in zip(heads, lines, strict=True)]
    rest = f"{more} further columns are in the download." if more > 1 else "One further column is in the download."
    return PageTable("preview", caption, columns, more=rest if more else "")


def hundred_guesses(n_right: int) -> Markup:
    """Return a hundred dots: guesses that are right by chance, right because of the release, and wrong.

    Parameters
    ----------
    n_right : int
        At most so many of a hundred are right, 50 to 100.
    """
    dots = []
    for place in range(100):
        x, y = _STEP // 2 + place % 10 * _STEP, _STEP // 2 + place // 10 * _STEP
        kind = "chance" if place < _BY_CHANCE else "gained" if place < n_right else "wrong"
        dots.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="{_RADIUS}"/>')
    side = 10 * _STEP
    says = f"Of 100 guesses between two candidates, at most {n_right} are right with this release, and 50 without it."
    head = f'<svg class="guesses" viewBox="0 0 {side} {side}" role="img" aria-label="{says}">'
    return Markup(f"{head}{''.join(dots)}</svg>")  # noqa: S704  numbers and words of ours


def page_beside(release: Release, *, signer: str, manifest_sha256: str, file: str, seen: Sequence[str]) -> str:
    """Return the page as one HTML document that needs no network.

    Parameters
    ----------
    release : Release
        What was published.
    signer : str
        The fingerprint of the key that signed it.
    manifest_sha256 : str
        The digest of its manifest.
    file : str
        The bundle's name.
    seen : sequence of str
        What researchers will see, in sentences.
    """
    subject, label = Subject(release), worded_label(release)
    values = {
        "subject": subject,
        "release": release,
        "measure": describe_size(release),
        **label_values(label),
        "signer": signer,
        "manifest_sha256": manifest_sha256,
        "file": file,
        "command": shlex.join(["dp-bundle", "verify", file]),
        "seen": seen,
        "columns_table": _columns_table(release),
        "record": describe_processing(release, label, signer, manifest_sha256),
    }
    title = f"{subject.title}, release {subject.number}"
    return render_page(Page(ASSETS, "beside.html", title, values))


def describe_processing(release: Release, label: dict[str, Any], signer: str, manifest_sha256: str) -> list[str]:
    """Return what a record of processing says of a release, in sentences; `label` is its `worded_label`."""
    names, lineage = source_names(release.columns), release.lineage
    of_columns = f"Of the table it tells about {counted(len(names), 'column')}: {name_columns(names, _NAMED_COLUMNS)}."
    from_whom = [] if label["right"] is None else [f"From whom: {label['from_whom']}"]
    return [
        f"Release {lineage.number} of the dataset {quote_name(release.dataset.name)} was made with random noise on "
        f"{lineage.created[:10]}, and holds {describe_size(release)}.",
        of_columns,
        f"Who is protected: {label['who']}",
        *from_whom,
        f"How strongly: {' '.join(label['plainly'])}",
        f"In numbers: {' '.join([*label['strength'], label['spent'][0]])}",
        f"Not protected: {' '.join(label['unprotected'])}",
        f"Made with {quote_name(release.software)}, signed by the key {signer}; SHA-256 of the manifest: "
        f"{manifest_sha256}.",
    ]


def _columns_table(release: Release) -> PageTable:
    """Return the first columns of the table, with what their publisher says of them, and what values were kept in."""
    clip = release.second_moments.column_clip if release.second_moments is not None else None
    found = first_columns(release.columns)
    shown = list(islice(found.items(), SHOWN_COLUMNS))
    named = [f"{name} ({number} columns)" if number > 1 else name for name, (_, number) in shown]
    more = len(found) - len(shown)
    told = {
        "column": named,
        "unit": [column.unit for _, (column, _) in shown],
        "description": [column.description for _, (column, _) in shown],
        "values kept within": [describe_bounds(column, clip) for _, (column, _) in shown],
    }
    return PageTable(
        "columns-table",
        "The columns that were published, and what their values were clipped to before noise was added.",
        [TableColumn(head, texts) for head, texts in told.items() if any(texts)],
        more=f"{counted(more, 'further column')} not shown." if more else "",
    )


MAPPED = 40  # columns
LINKED = 50  # columns, up to which a graph takes seconds
_LISTED = 8  # pairs, and links
SCALE: tuple[Shade, ...] = DIVERGING[::2]


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
