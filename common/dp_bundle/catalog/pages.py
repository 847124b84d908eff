"""The pages of a site, the list of datasets and one for each release with its privacy label, and that beside a bundle.

The last has a paragraph for a record of processing. Pictures are SVG, drawn when a page is made, so that they need no
script; colours follow the page's.
"""

import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from dp_bundle.base.quoting import counted, name_columns, quote_name
from dp_bundle.catalog.label import SHOWN_COLUMNS, worded_label
from dp_bundle.catalog.moments import moments_values
from dp_bundle.describe.sentences import describe_bounds, describe_size, first_columns, of_hundred
from dp_bundle.describe.subject import Subject
from dp_bundle.manifest.columns import source_names
from dp_bundle.manifest.release import Release
from dp_bundle.page.document import Page, as_json, render_page
from dp_bundle.page.tables import PageTable, TableColumn

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
