"""The page beside a bundle: what was published, how it is protected, and a paragraph for a record of processing.

It is made from what a manifest states, and from what its publisher says that researchers will see.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from dp_bundle.base.quoting import counted, name_columns, quote_name
from dp_bundle.catalog.label import SHOWN_COLUMNS, worded_label
from dp_bundle.catalog.pages import label_values
from dp_bundle.describe.meanings import first_columns
from dp_bundle.describe.sentences import describe_bounds, describe_size
from dp_bundle.describe.subject import Subject
from dp_bundle.manifest.columns import source_names
from dp_bundle.manifest.release import Release
from dp_bundle.page.document import Page, render_page
from dp_bundle.page.tables import PageTable, TableColumn

_ASSETS = Path(__file__).with_name("assets")
_NAMED = 40  # columns in a record of processing


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
    return render_page(Page(_ASSETS, "beside.html", title, values))


def describe_processing(release: Release, label: dict[str, Any], signer: str, manifest_sha256: str) -> list[str]:
    """Return what a record of processing says of a release, in sentences; `label` is its `worded_label`."""
    names, lineage = source_names(release.columns), release.lineage
    of_columns = f"Of the table it tells about {counted(len(names), 'column')}: {name_columns(names, _NAMED)}."
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
