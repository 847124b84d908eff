"""The manifest in other people's words: a README, a Frictionless Data Package, a Croissant description.

Each is derived from the release and the data members alone, so none can say anything that the manifest does not.

References
----------
Data Package v2 (frictionlessdata.io). Croissant 1.0 (mlcommons.org/croissant/1.0).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dp_bundle.columns import Column
from dp_bundle.manifest import Release, SecondMoments
from dp_bundle.statements import (
    describe_bounds,
    describe_guarantee,
    describe_moments,
    describe_noise,
    describe_size,
    describe_total,
)

__all__ = ["DESCRIPTORS", "DataMember"]

_PARQUET = "application/vnd.apache.parquet"


@dataclass(frozen=True)
class DataMember:
    """A data member's name in the archive, its size in bytes and its SHA-256."""

    name: str
    size: int
    sha256: str


def _readme(release: Release, members: Sequence[DataMember]) -> bytes:
    dataset = release.dataset
    head = [f"# {dataset.title or dataset.name}", ""]
    if dataset.description:
        head += [dataset.description, ""]
    facts = [("Dataset", dataset.name), ("License", dataset.license), ("Contact", dataset.contact)]
    facts += [("Release", f"{release.lineage.number}, made {release.lineage.created} with {release.software}")]
    facts += [("Size", f"{describe_size(release)}, {len(members)} Parquet file(s)")]
    body = [f"- {name}: {value}" for name, value in facts if value]
    body += ["", *_readme_noise(release), "To learn from the file with dpgraph,"]
    body += ["trust the publisher once, by the fingerprint that she announces, and learn:", ""]
    body += ["    dp-bundle trust FINGERPRINT", "    dp-learn THIS-FILE.tar", "", "## What is guaranteed", ""]
    body += [line for sentence in (*describe_guarantee(release), describe_total(release)) for line in (sentence, "")]
    names = ["column", "unit", "bounds", "noise", "description"]
    names = [name for name in names if name != "noise" or release.second_moments is None]
    body += ["## Columns", "", f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    return ("\n".join(head + body + [_readme_row(column) for column in release.columns]) + "\n").encode()


def _readme_noise(release: Release) -> list[str]:
    if release.second_moments is None:
        return ["Every value carries random noise; the table below says how much."]
    return [
        "There are no rows here: the file holds the sum of products of all pairs of columns over the rows, with random",
        "noise, one line for each pair.",
        *describe_moments(release.second_moments),
    ]


def _readme_row(column: Column) -> str:
    noise = [] if column.noise is None else [describe_noise(column)]
    cells = [column.name, column.unit, describe_bounds(column), *noise, column.description]
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _datapackage(release: Release, members: Sequence[DataMember]) -> bytes:
    dataset = release.dataset
    package: dict[str, Any] = {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": dataset.name,
        "version": str(release.lineage.number),
        "created": release.lineage.created,
        "title": dataset.title,
        "description": dataset.description,
        "licenses": [{"name": dataset.license}] if dataset.license else None,
        "resources": [_resource(index, member, release) for index, member in enumerate(members)],
    }
    return _json({name: value for name, value in package.items() if value})


def _resource(index: int, member: DataMember, release: Release) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [
        {
            "name": column.name,
            "type": "integer" if column.kind == "integer" else "number",
            "description": f"{column.description} Noise: {describe_noise(column)}.".strip(),
            **({"unit": column.unit} if column.unit else {}),
        }
        for column in release.columns
        if column.noise is not None
    ]
    if release.second_moments is not None:
        fields = [
            {"name": name, "type": "number" if name == "value" else "string", "description": text}
            for name, text in _entry_fields(release.second_moments).items()
        ]
    return {
        "name": "covariance" if release.second_moments is not None else f"part-{index:05d}",
        "path": member.name,
        "format": "parquet",
        "mediatype": _PARQUET,
        "bytes": member.size,
        "hash": f"sha256:{member.sha256}",
        "schema": {"fields": fields},
    }


def _entry_fields(moments: SecondMoments) -> dict[str, str]:
    """Return the fields of a covariance release's one table, and what they hold."""
    return {
        "row": "The label of the entry's row: a column of the data, or (constant).",
        "column": "The label of the entry's column, not before the row's.",
        "value": " ".join(["The noisy sum of products over rows.", *describe_moments(moments)]),
    }


def _croissant(release: Release, members: Sequence[DataMember]) -> bytes:
    dataset = release.dataset
    files = [
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
    file_set = {
        "@type": "cr:FileSet",
        "@id": "parts",
        "name": "parts",
        "encodingFormat": _PARQUET,
        "includes": "data/*.parquet",
    }
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"rows/{column.name}",
            "name": column.name,
            "description": f"{column.description} Noise: {describe_noise(column)}.".strip(),
            "dataType": "sc:Integer" if column.kind == "integer" else "sc:Float",
            "source": {"fileSet": {"@id": "parts"}, "extract": {"column": column.name}},
        }
        for column in release.columns
        if column.noise is not None
    ]
    records = "rows"
    if release.second_moments is not None:
        records = "covariance"
        fields = [
            {
                "@type": "cr:Field",
                "@id": f"covariance/{name}",
                "name": name,
                "description": text,
                "dataType": "sc:Float" if name == "value" else "sc:Text",
                "source": {"fileSet": {"@id": "parts"}, "extract": {"column": name}},
            }
            for name, text in _entry_fields(release.second_moments).items()
        ]
    document: dict[str, Any] = {
        "@context": {
            "@language": "en",
            "@vocab": "https://schema.org/",
            "sc": "https://schema.org/",
            "cr": "http://mlcommons.org/croissant/",
            "dct": "http://purl.org/dc/terms/",
            "conformsTo": "dct:conformsTo",
            "column": "cr:column",
            "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
            "extract": "cr:extract",
            "field": "cr:field",
            "fileSet": "cr:fileSet",
            "includes": "cr:includes",
            "recordSet": "cr:recordSet",
            "source": "cr:source",
        },
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": dataset.name,
        "description": " ".join([dataset.description, *describe_guarantee(release), describe_total(release)]).strip(),
        "license": dataset.license,
        "version": f"{release.lineage.number}.0.0",
        "datePublished": release.lineage.created,
        "distribution": [*files, file_set],
        "recordSet": [{"@type": "cr:RecordSet", "@id": records, "name": records, "field": fields}],
    }
    return _json({name: value for name, value in document.items() if value})


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


DESCRIPTORS: dict[str, Callable[[Release, Sequence[DataMember]], bytes]] = {
    "README.md": _readme,
    "datapackage.json": _datapackage,
    "croissant.json": _croissant,
}
