"""The manifest in other people's words: a README, a Frictionless Data Package, a Croissant description.

Each is derived from the release and the data members alone, so none can say anything that the manifest does not.

The README has the manifest's facts for a person, with the two lines that learn from the file. Its sentences are ours,
and whatever the signer wrote stands in quotation marks, with nothing in it that Markdown or HTML would act on.

References
----------
Data Package v2 (frictionlessdata.io). Croissant 1.0 (mlcommons.org/croissant/1.0).
"""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.base.quoting import quote, quote_name
from dp_bundle.describe.sentences import (
    column_meanings,
    describe_bounds,
    describe_discovery,
    describe_gaps,
    describe_guarantee,
    describe_margins,
    describe_moments,
    describe_noise,
    describe_size,
    describe_sources,
    describe_total,
)
from dp_bundle.manifest.columns import Column, split_software
from dp_bundle.manifest.dataset import dataset_details
from dp_bundle.manifest.matrix_noise import SecondMoments
from dp_bundle.manifest.release import COVARIANCE_NAME, FIRST_ROUND_NAME, MARGINS_NAME, TRANSFORM_NAME, Release

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
        *map(_inactive, describe_discovery(release, in_file=True)),
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
        lines += [
            "## What columns stand for",
            "",
            *(f"- {_inactive(each)}" for each in describe_sources(release, in_file=True)),
            "",
        ]
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
    clip = release.column_clip
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


_PARQUET = "application/x-parquet"
_NO_IDENTIFIER = re.compile(r"[^\w.-]+")
_PACKAGE_TYPES = {"continuous": "number", "integer": "integer", "text": "string"}
_CROISSANT_TYPES = {"continuous": "sc:Float", "integer": "sc:Integer", "text": "sc:Text"}


class DataMember(NamedTuple):
    """A data member's name in the archive, its size in bytes and its SHA-256."""

    name: str
    size: int
    sha256: str


class _Field(NamedTuple):
    """A column of the Parquet files; its kind is continuous, integer or text."""

    name: str
    kind: str
    description: str
    unit: str = ""


def _datapackage(release: Release, members: Sequence[DataMember]) -> bytes:
    dataset = release.dataset
    people = {"creator": dataset.creator, "contact": dataset.contact}
    package: dict[str, Any] = {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": dataset.name,
        "version": str(release.lineage.number),
        "created": release.lineage.created,
        "title": dataset.title,
        "description": dataset.description,
        "homepage": dataset.url,
        "contributors": [{"title": title, "roles": [role]} for role, title in people.items() if title],
        "licenses": [{"name": dataset.license}] if dataset.license else None,
        "citation": dataset.citation,
        "resources": [_resource(index, member, release) for index, member in enumerate(members)],
    }
    return _json(package)


def _resource(index: int, member: DataMember, release: Release) -> dict[str, Any]:
    """Return one data file, without its size: Frictionless counts no bytes of a Parquet file, and would object."""
    fields = [
        {"name": name, "type": _PACKAGE_TYPES[kind], "description": text, **({"unit": unit} if unit else {})}
        for name, kind, text, unit in _fields(release, member.name)
    ]
    return {
        "name": _stem(member.name) if release.second_moments is not None else f"part-{index:05d}",
        "path": member.name,
        **_about(release, member.name),
        "format": "parquet",
        "mediatype": _PARQUET,
        "hash": f"sha256:{member.sha256}",
        "schema": {"fields": fields},
    }


def _croissant(release: Release, members: Sequence[DataMember]) -> bytes:
    dataset = release.dataset
    objects = [
        {
            "@type": "cr:FileObject",
            "@id": member.name,
            "name": member.name,
            "contentUrl": member.name,
            "contentSize": f"{member.size} B",
            "encodingFormat": _PARQUET,
            "sha256": member.sha256,
        }
        for member in members
    ]
    said = [dataset.description, *describe_guarantee(release, in_file=True), describe_total(release, in_file=True)]
    document: dict[str, Any] = {
        "@context": _croissant_context(),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": dataset.name,
        "alternateName": dataset.title,
        "description": " ".join(said).strip(),
        "creator": {"@type": "sc:Organization", "name": dataset.creator} if dataset.creator else None,
        "publisher": {"@type": "sc:Organization", "name": dataset.contact} if dataset.contact else None,
        "license": dataset.license,
        "url": dataset.url,
        "citeAs": dataset.citation,
        "version": f"{release.lineage.number}.0.0",
        "datePublished": release.lineage.created,
        "distribution": [*objects, *([] if len(_matrices(release)) > 1 else [_PARTS])],
        "recordSet": _record_sets(release),
    }
    return _json(document)


def _record_sets(release: Release) -> list[dict[str, Any]]:
    """Return the rows, or the matrix, of all files together, or what each file of several holds."""
    matrices, together = _matrices(release), {"fileSet": {"@id": "parts"}}
    if len(matrices) > 1:
        return [
            _record_set(_stem(name), _fields(release, name), {"fileObject": {"@id": name}}, _about(release, name))
            for name in matrices
        ]
    return [_record_set("covariance" if matrices else "rows", _fields(release, "".join(matrices)), together)]


def _record_set(
    records: str, fields: Sequence[_Field], source: dict[str, Any], about: dict[str, str] | None = None
) -> dict[str, Any]:
    described = [
        {
            "@type": "cr:Field",
            "@id": f"{records}/{_identifier(field.name, index)}",
            "name": field.name,
            "description": field.description,
            "dataType": _CROISSANT_TYPES[field.kind],
            "source": {**source, "extract": {"column": field.name}},
        }
        for index, field in enumerate(fields)
    ]
    return {"@type": "cr:RecordSet", "@id": records, "name": records, **(about or {}), "field": described}


def _matrices(release: Release) -> list[str]:
    """Return the data members of a covariance release, histograms among them."""
    return release.moment_names if release.second_moments is not None else []


def _stem(name: str) -> str:
    """Return the name of a data member without its folder and its ending."""
    return PurePosixPath(name).stem


def _identifier(name: str, index: int) -> str:
    """Return the name where an identifier may be one, which holds no spaces; otherwise the like of it, and unique."""
    like = _NO_IDENTIFIER.sub("_", name)
    return name if like == name else f"{like}~{index}"


def file_sizes(croissant: bytes) -> dict[str, int]:
    """Return the sizes in bytes of the data members that a Croissant description of ours lists, by name.

    Raises
    ------
    BundleFormatError
        It is no such description.
    """
    try:
        objects = [each for each in json.loads(croissant)["distribution"] if each["@type"] == "cr:FileObject"]
        sizes = {each["name"]: _SIZE.fullmatch(each["contentSize"]) for each in objects}
        return {name: int(size[1]) for name, size in sizes.items() if size is not None}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BundleFormatError("croissant.json does not list the files: do not use this bundle") from error


_SIZE = re.compile(r"([0-9]{1,12}) B")
_PARTS = {
    "@type": "cr:FileSet",
    "@id": "parts",
    "name": "parts",
    "encodingFormat": _PARQUET,
    "includes": "data/*.parquet",
}


def _fields(release: Release, member: str) -> list[_Field]:
    """Return the columns of a data file: those of the rows, of histograms, or the three of a matrix."""
    if member == MARGINS_NAME:
        return _MARGIN_FIELDS
    if release.second_moments is not None:
        return [
            _Field("row", "text", "The label of the entry's row: a column of the data, or (constant)."),
            _Field("column", "text", "The label of the entry's column, not before the row's."),
            _Field("value", "continuous", _value(release.second_moments, release.columns, member)),
        ]
    meanings = column_meanings(release)
    fields = []
    for column in release.columns:
        said = (column.description, meanings.get(column.name), f"Noise: {describe_noise(column)}.")
        fields.append(_Field(column.name, column.kind, " ".join(filter(None, said)), column.unit))
    return fields


_MARGIN_FIELDS = [
    _Field("column", "text", "The column of the table whose values are counted."),
    _Field("level", "text", "The level that is counted; (no value) of rows without one; empty of other numbers."),
    _Field("low", "continuous", "The lower end of the cell, which is in it; not a number where it has no ends."),
    _Field("high", "continuous", "The upper end of the cell, which is not in it; not a number where it has no ends."),
    _Field("count", "integer", "The number of rows in the cell, with noise: it may be negative."),
]


def _about(release: Release, member: str) -> dict[str, str]:
    """Return what is said of a data file as a whole: of histograms, what they are."""
    said = describe_margins(release.margins, release.columns) if member == MARGINS_NAME else []
    return {"description": " ".join(said)} if said else {}


def _value(moments: SecondMoments, columns: Sequence[Column], member: str) -> str:
    """Return what the entries of a matrix are."""
    of_matrices = describe_moments(moments, columns, in_file=True)[len(describe_margins(moments.margins, columns)) :]
    value = " ".join(["The noisy sum of products over rows.", *of_matrices])
    if moments.first_round is None:
        return value
    return {
        COVARIANCE_NAME: f"Of round 2. {value}",
        FIRST_ROUND_NAME: "The noisy sum of products over rows, of round 1.",
        TRANSFORM_NAME: "The matrix B by which standardised rows were multiplied in round 2.",
    }[member]


def _json(document: dict[str, Any]) -> bytes:
    """Return the document without the entries that nothing was said of."""
    said = {name: value for name, value in document.items() if value}
    return json.dumps(said, indent=1, ensure_ascii=False).encode() + b"\n"


@cache
def _croissant_context() -> dict[str, Any]:
    """Return the context that the specification gives, whole, as readers compare it."""
    context: dict[str, Any] = json.loads(Path(__file__).with_name("croissant-context.json").read_text(encoding="utf-8"))
    return context


DESCRIPTORS: dict[str, Callable[[Release, Sequence[DataMember]], bytes]] = {
    "README.md": lambda release, members: make_readme(release, len(members)).encode(),
    "datapackage.json": _datapackage,
    "croissant.json": _croissant,
}
