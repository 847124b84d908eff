"""The README of a bundle: the manifest's facts for a person, with the two lines that learn from the file.

The sentences are ours. Whatever the signer wrote stands in quotation marks, with nothing in it that Markdown or HTML
would act on.
"""

import re

from dp_bundle.base.quoting import quote, quote_name
from dp_bundle.describe.meanings import describe_sources
from dp_bundle.describe.sentences import (
    describe_bounds,
    describe_discovery,
    describe_gaps,
    describe_guarantee,
    describe_moments,
    describe_noise,
    describe_size,
    describe_total,
)
from dp_bundle.manifest.base import split_software
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.dataset import dataset_details
from dp_bundle.manifest.release import Release

_ACTIVE = re.compile(r"([\\`*\[\]<>&|$~])")
_ONE_MATRIX = (
    "There are no rows here: the file holds the sum of products of all pairs of columns over the rows, with random",
    "noise, one line for each pair.",
)
_PRINT_DIGEST = (
    "for d in common consumer publisher; do "
    "(cd $d && find dp_* -name '*.py' | LC_ALL=C sort | xargs sha256sum); done | sha256sum"
)
_LEARN = (
    "Trust the publisher once, by the fingerprint that she announces, and learn:",
    "",
    "    dp-bundle trust FINGERPRINT",
    "    dp-learn THIS-FILE.tar",
)
_TWO_ROUNDS = (
    "There are no rows here: each file holds a symmetric matrix, one line for each pair of columns. Two are sums of",
    "products over the rows, with random noise, and the transform was computed from the first of them.",
)
_WITH_MARGINS = (
    "There are no rows here. One file holds a histogram of each column: the number of rows in each of its cells, with",
    "random noise. The other files say how columns go together: each is a symmetric matrix, one line for each pair of",
    "columns. Two are sums of products over the rows, with random noise, and the transform was computed from the",
    "first of them.",
)


def make_readme(release: Release, n_files: int, *, in_file: bool = True) -> str:
    """Return the README of a release, as Markdown.

    Parameters
    ----------
    release : Release
        The release.
    n_files : int
        The number of its Parquet files.
    in_file : bool
        In the words of the bundle's own README, which the manifest determines to the byte, or in today's.
    """
    lines = [f"# Release {release.lineage.number} of {_name(release.dataset.name)}", ""]
    lines += _publishers_words(release)
    lines += [f"- Made: {release.lineage.created}, with {_text(release.software)}"]
    lines += [f"- Size: {describe_size(release, in_file=True)}, {n_files} Parquet file(s)", ""]
    lines += [
        *_noise(release),
        *map(_inactive, describe_discovery(release)),
        *map(_inactive, describe_gaps(release, in_file=True)),
        "",
        *_where_the_software_is(release),
        *_LEARN,
        "",
    ]

    lines += ["## What is guaranteed", ""]
    for sentence in (*describe_guarantee(release, in_file=in_file), describe_total(release, in_file=True)):
        lines += [_inactive(sentence), ""]

    if release.sources:
        lines += ["## What columns stand for", "", *(f"- {_inactive(each)}" for each in describe_sources(release)), ""]
    lines += ["## Columns", "", *_table(release)]
    return "\n".join(lines) + "\n"


def _publishers_words(release: Release) -> list[str]:
    """Return what the publisher says of her data, one line for each text."""
    dataset = release.dataset
    texts = {
        "Title": dataset.title,
        "Description": dataset.description,
        "Creator": dataset.creator,
        "License": dataset.license,
        "Contact": dataset.contact,
        "URL": dataset.url,
        "To be cited as": dataset.citation,
    }
    said = [f"- {label}: {_text(text)}" for label, text in texts.items() if text]
    return ["In the publisher's words:", "", *said, ""] if said else []


def _noise(release: Release) -> list[str]:
    if release.second_moments is None:
        return ["Every value carries random noise; the table below says how much."]
    rounds = _TWO_ROUNDS if release.margins is None else _WITH_MARGINS
    held = _ONE_MATRIX if release.second_moments.first_round is None else rounds
    return [*held, *map(_inactive, describe_moments(release.second_moments, release.columns, in_file=True))]


def _where_the_software_is(release: Release) -> list[str]:
    """Return where the publisher says that the software is, and how to tell it from another of the same name."""
    address = dataset_details(release.dataset).software_url
    said = "This file does not say where to get it: ask the publisher."
    if address is not None:
        said = f"The publisher says that it is at {_text(address)}."
    lines = [
        "dpgraph, a Python package under the Apache-2.0 licence, subtracts the noise and estimates the graph of the",
        f"columns. {said} Do not install it from an index by",
        "its name alone, which anybody may register.",
    ]
    digest = split_software(release.software)[1]
    if digest is not None:
        lines += [
            "",
            "This release was made by code with the digest below. In the unpacked source archive of that version, the",
            "second line prints it:",
            "",
            f"    sha256:{digest}",
            f"    {_PRINT_DIGEST}",
        ]
    return [*lines, ""]


def _table(release: Release) -> list[str]:
    heads = ["column", "unit", "bounds", "noise", "description"]
    heads = [head for head in heads if head != "noise" or release.second_moments is None]
    clip = release.second_moments.column_clip if release.second_moments is not None else None
    rows = [_row(column, clip) for column in release.columns]
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *rows]


def _row(column: Column, clip: float | None) -> str:
    noise = [] if column.noise is None else [describe_noise(column)]
    unit, description = (_text(text) if text else "" for text in (column.unit, column.description))
    return f"| {' | '.join([_name(column.name), unit, describe_bounds(column, clip), *noise, description])} |"


def _name(text: str) -> str:
    """Return a name as code if it is one short word, otherwise as a quotation."""
    return f"`{text}`" if quote_name(text) == text else _text(text)


def _text(text: str) -> str:
    return _inactive(quote(text, longest=None))


def _inactive(text: str) -> str:
    """Return the text with a backslash before every character that Markdown or HTML acts on."""
    return _ACTIVE.sub(r"\\\1", text)
