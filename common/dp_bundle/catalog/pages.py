"""The pages of a site, the list of datasets and one for each release with its privacy label, and that beside a bundle.

Both of a release show what `show_data` found, by the same template. The last has a paragraph for a record of
processing. Pictures are SVG, drawn when a page is made, so that they need no script; colours follow the page's.
Downloads are in the addresses of their links.
"""

import cmath
import csv
import io
import json
import math
import shlex
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from dp_bundle.base.document import DIVERGING, MINUS, Page, PageTable, Shade, TableColumn, as_json, render_page
from dp_bundle.base.quoting import counted, guard_cell, name_columns, quote_name
from dp_bundle.bundle.opened import Bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.catalog.shown import LISTED, NOTHING_LEARNED, Facts, show_data
from dp_bundle.catalog.site import Withdrawal
from dp_bundle.data.margin_summary import NORMAL
from dp_bundle.describe.sentences import describe_size, of_hundred
from dp_bundle.describe.subject import Subject
from dp_bundle.manifest.columns import source_names
from dp_bundle.manifest.release import Release

ASSETS = Path(__file__).with_name("assets")
SCALE: tuple[Shade, ...] = DIVERGING[::2]  # of correlations
_DRAWN = 60  # links
_CLEAR = 4.0  # standard errors of a correlation that is drawn
_NAMED = 9  # missing releases
_NAMED_COLUMNS = 40  # in a record of processing
_STEP, _RADIUS = 16, 5.5  # of a dot
_BY_CHANCE = 50


class Refused(NamedTuple):
    """A file that is not offered: its name in the folder of bundles, and a sentence why."""

    file: str
    why: str


class Listed(NamedTuple):
    """What a site's lists tell of.

    Attributes
    ----------
    newest : sequence of dict
        The facts of the newest release of each dataset, the latest first.
    ordered : sequence of dict
        Those of all releases offered, by dataset.
    refused : sequence of Refused
        Files that are not offered.
    withdrawn : sequence of Withdrawal
        Releases that were, the latest first.
    instead : dict of str to str
        By the place of a withdrawn release, that of the one that replaces it.
    """

    newest: Sequence[Facts]
    ordered: Sequence[Facts]
    refused: Sequence[Refused]
    withdrawn: Sequence[Withdrawal]
    instead: dict[str, str]


def list_page(listed: Listed, *, title: str, address: str, names: dict[str, str]) -> str:
    """Return the page that lists every dataset by its newest release, and the files that are not offered."""
    newest = listed.newest
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
        "refused": listed.refused,
        "withdrawn": listed.withdrawn,
        "signers": signers,
        "address": address,
        "markup": as_json(catalog),
        "portal": title,
    }
    return render_page(Page(ASSETS, "list.html", title, values, scripts=["list.js"]))


def withdrawn_page(values: Facts) -> str:
    """Return the page that stays where a release was: that it was withdrawn, when, why, and what replaces it.

    Parameters
    ----------
    values : dict
        `portal`, its name; `gone`, the withdrawal; `instead`, the place of the release that replaces it, or nothing.
    """
    heading = f"{values['gone'].title}, release {values['gone'].number}: withdrawn"
    return render_page(Page(ASSETS, "withdrawn.html", heading, values))


def release_page(
    facts: Facts, *, title: str, signer_name: str, history: Sequence[Facts], withdrawn: Sequence[Facts] = ()
) -> str:
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
    withdrawn : sequence of dict
        Releases of the dataset that were withdrawn.
    """
    series = [each for each in history if each["series"] == facts["series"] and each["kind"] == facts["kind"]]
    newer = next((each for each in series if each["number"] > facts["number"]), None)
    data = json.loads(facts["data"])
    values = {
        **facts,
        "portal": title,
        "signer_name": signer_name,
        "history": history,
        "newer": newer,
        "missing": _missing(history, {each["number"] for each in withdrawn}),
        "withdrawn": withdrawn,
        **label_values(facts["label"]),
        "licence": facts["about"]["license"],
        **data_values(data, facts["tar"], facts["signer"]),
        "preview": _preview(data["preview"]) if data["preview"] else None,
        "markup": as_json(facts["schema_org"]),
    }
    heading = f"{facts['about']['title']}, release {facts['number']}"
    return render_page(Page(ASSETS, "release.html", heading, values, scripts=["data.js"]))


def label_values(label: Facts) -> Facts:
    """Return what label.html is filled with: a release’s label, its picture, its numbers, and its table of noise."""
    n_right = of_hundred(label["right"])
    return {
        "label": label,
        "dots": hundred_guesses(n_right),
        "n_right": n_right,
        "noise_table": _noise_table(label["columns"]) if label["columns"] else None,
    }


def _missing(history: Sequence[Facts], withdrawn: Collection[int]) -> str:
    """Return a sentence about releases that a dataset has had and that are not here, or that do not form a chain."""
    digests = {each["manifest_sha256"] for each in history}
    numbers = {*withdrawn, *(each["number"] for each in history)}
    absent = list(islice((number for number in range(1, max(numbers)) if number not in numbers), _NAMED))
    if absent:
        named = ", ".join(map(str, absent))
        return f"Not in this portal: {'release' if len(absent) == 1 else 'releases'} {named}."
    told = [each for each in history if each["number"] - 1 not in withdrawn]
    broken = [each["number"] for each in told if each["previous"] and each["previous"] not in digests]
    if broken:
        return (
            f"Release {broken[0]} names another release before it than the ones here: ask the publisher which counts."
        )
    return ""


def _noise_table(columns: Sequence[Sequence[str]]) -> PageTable:
    heads = ("column", "values kept within", "noise on every value", "its standard deviation as a share of the bounds")
    by_column = [list(each) for each in zip(*columns[:LISTED], strict=True)]
    caption = "The noise on each column, and what values were clipped to before it was added."
    shown = [TableColumn(head, texts) for head, texts in zip(heads, by_column, strict=True)]
    return PageTable("noise", caption, shown, more=_and_columns(len(columns) - LISTED))


def _preview(preview: Facts) -> PageTable:
    """Return the first rows."""
    lines, more = preview["lines"], preview["more"]
    caption = (
        "The first rows, as published. Every value carries random noise, so that some are impossible; that is meant."
    )
    columns = [TableColumn("row", list(range(1, len(lines[0]) + 1)), "d")]
    columns += [TableColumn(head, values, ".6g") for head, values in zip(preview["heads"], lines, strict=True)]
    return PageTable("preview", caption, columns, more=_and_columns(more))


def _and_columns(more: int) -> str:
    return f"{counted(more, 'further column')} in the file." if more > 0 else ""


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


def page_beside(bundle: Bundle, release: Release, *, file: str, seen: Sequence[str]) -> str:
    """Return the page as one HTML document that needs no network.

    Parameters
    ----------
    bundle : Bundle
        What was published.
    release : Release
        Its release, which may state more of what all releases cost.
    file : str
        The bundle's name.
    seen : sequence of str
        What researchers will see, in sentences.

    Raises
    ------
    BundleFormatError
        The data are not what the manifest says.
    """
    subject, label, signer = Subject(release), worded_label(release), bundle.signer.key.fingerprint
    values = {
        "subject": subject,
        "release": release,
        "licence": subject.dataset.license,
        **label_values(label),
        **data_values(show_data(bundle), file, signer),
        "gaps": subject.of_gaps,
        "signer": signer,
        "file": file,
        "seen": seen,
        "record": describe_processing(release, label, signer, bundle.manifest_sha256),
    }
    title = f"{subject.title}, release {subject.number}"
    return render_page(Page(ASSETS, "beside.html", title, values, scripts=["data.js"]))


def describe_processing(release: Release, label: dict[str, Any], signer: str, manifest_sha256: str) -> list[str]:
    """Return what a record of processing says of a release, in sentences; `label` is its `worded_label`."""
    names, lineage = source_names(release.columns), release.lineage
    of_columns = f"Of the table it shows {counted(len(names), 'column')}: {name_columns(names, _NAMED_COLUMNS)}."
    from_whom = [] if label["right"] is None else [f"From whom: {label['from_whom']}"]
    return [
        f"Release {lineage.number} of the dataset {quote_name(release.dataset.name)} was made with random noise on "
        f"{lineage.created[:10]}. It holds {describe_size(release)}.",
        of_columns,
        f"Who is protected: {label['who']}",
        *from_whom,
        f"How strongly: {' '.join(label['plainly'])}",
        f"In numbers: {' '.join([*label['strength'], label['spent'][0]])}",
        f"Not protected: {' '.join(label['unprotected'])}",
        f"Made with {quote_name(release.software)}, signed by the key {signer}; SHA-256 of the manifest: "
        f"{manifest_sha256}.",
    ]


def data_values(data: Facts, file: str, signer: str) -> Facts:
    """Return what data.html and reading.html are filled with: tables, the ring, downloads, and lines to copy.

    Parameters
    ----------
    data : dict
        By `show_data`.
    file, signer : str
        The bundle's name, and the fingerprint of who signed it.
    """
    found = data["links"] or NOTHING_LEARNED
    graph, stem = found["graph"], file.removesuffix(".tar").removesuffix(".bundle")
    pairs = [
        (*ends, value, value - NORMAL * error, value + NORMAL * error, True) for *ends, value, error in found["pairs"]
    ]
    links = []
    if graph is not None:
        links = [(graph["nodes"][one], graph["nodes"][other], *rest) for one, other, *rest in graph["links"][:LISTED]]
    columns = [[each["name"], *entry] for each in data["columns"] for entry in (*each["bars"], *each["numbers"])]
    drawn = links or [
        pair for pair, (*_, value, error) in zip(pairs, found["pairs"], strict=True) if abs(value) > _CLEAR * error
    ]
    weight = "partial correlation" if links else "correlation"
    wanted = ["--rows", "10000", "--seed", "1", "--out", f"{stem}.synthetic.csv"]
    synthesize = shlex.join(["dp-bundle", "synthesize", file, *wanted])
    order = _around(graph) if links else found["map"]["names"] if pairs else []
    return {
        "data": data,
        "found": found,
        "scale": SCALE,
        "links": links,
        "pairs": pairs,
        "drawn": drawn[:_DRAWN],
        "ring": _ring(drawn[:_DRAWN], order),
        "links_csv": _csv(["column", "and", weight, "low", "high"], [each[:5] for each in links or pairs]),
        "columns_csv": _csv(["column", "what", "value", "low", "high"], columns),
        "stem": stem,
        "word": shlex.quote(file),
        "text": json.dumps(file, ensure_ascii=False),
        "edges": json.dumps(f"{stem}.graph/edges.csv", ensure_ascii=False),
        "synthesize": synthesize,
        "recipe": _address("plain", f"dp-bundle trust {signer}\n{synthesize}\n"),
    }


def _around(graph: Facts) -> list[str]:
    """Return the nodes that have links in the order of their directions from the middle of the drawing."""
    places = {name: complex(*place) for name, place in zip(graph["nodes"], graph["places"], strict=True) if place}
    middle = sum(places.values()) / len(places)
    return sorted(places, key=lambda name: cmath.phase(places[name] - middle))


def _ring(links: Sequence[Sequence[Any]], order: Sequence[str]) -> Facts:
    """Return links as a drawing of their nodes on a circle of radius 1, in this order.

    Returns
    -------
    dict
        `nodes`, each with its name, x, y and direction in degrees; `links`, each with the x and y of both, and its
        weight.
    """
    ends = dict.fromkeys(end for each in links for end in each[:2])
    names = [*dict.fromkeys([*(name for name in order if name in ends), *ends])]
    turns = {name: 2.0 * math.pi * place / len(names) for place, name in enumerate(names)}
    nodes = {name: (math.cos(turn), math.sin(turn)) for name, turn in turns.items()}
    return {
        "nodes": [(name, *place, math.degrees(turns[name])) for name, place in nodes.items()],
        "links": [(*nodes[one], *nodes[other], weight) for one, other, weight, *_ in links],
    }


def _csv(heads: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """Return a table as the address of a CSV file; the first two cells of each line may be strangers' words."""
    content = io.StringIO()
    guarded = (
        [*map(guard_cell, line[:2]), *(f"{each:.6g}" if isinstance(each, float) else each for each in line[2:])]
        for line in lines
    )
    csv.writer(content, lineterminator="\n").writerows([heads, *guarded])
    return _address("csv", content.getvalue().replace(MINUS, "-"))


def _address(kind: str, content: str) -> str:
    """Return a text as the address of a file that needs no server."""
    return f"data:text/{kind};charset=utf-8,{quote(content)}"
