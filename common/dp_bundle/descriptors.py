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
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from dp_bundle.manifest import Column, Release

__all__ = [
    "DESCRIPTORS",
    "DataMember",
    "describe_bounds",
    "describe_guarantee",
    "describe_noise",
    "describe_total",
    "round_up",
]

_PARQUET = "application/vnd.apache.parquet"
_MARGIN = 1 - 4e-12  # what a stated number is above the exact one for safety (twice that for rho), and may not show


@dataclass(frozen=True)
class DataMember:
    """A data member's name in the archive, its size in bytes and its SHA-256."""

    name: str
    size: int
    sha256: str


def round_up(value: float, digits: int = 6) -> str:
    """Return a privacy parameter for a person to read, with so many significant digits and never a smaller one."""
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(value * _MARGIN))
    return f"{float(shown):.{digits}g}"


def describe_noise(column: Column) -> str:
    """Return one phrase that says which noise a column carries."""
    noise = column.noise
    if noise.distribution == "discrete-gaussian":
        return f"discrete Gaussian, sigma {noise.sigma:.6g}, variance {noise.variance:.6g}"
    return f"Gaussian, sigma {noise.sigma:.6g}, on a grid of {noise.granularity:.6g}, variance {noise.variance:.6g}"


def describe_bounds(column: Column) -> str:
    """Return one phrase that says what a column's values were clipped to, and how that was obtained."""
    if column.ball is not None:
        ball = column.ball
        return f"rows within {ball.radius:g} scales of their centre; here centre {ball.center:g}, scale {ball.scale:g}"
    if column.bounds is None:
        return "not clipped"
    found = " (found privately)" if column.bounds_obtained == "private-histogram" else ""
    return f"{column.bounds[0]:g} to {column.bounds[1]:g}{found}"


def describe_guarantee(release: Release) -> list[str]:
    """Return sentences that say what the release guarantees, and what it does not."""
    guarantee = release.guarantee
    if guarantee is None:
        lines = ["No privacy guarantee: the noise was scaled to the private data's own standard deviation."]
        if release.conditional_mu is not None:
            mu = round_up(release.conditional_mu)
            lines.append(f"Had the same noise been fixed beforehand, one cell would be protected at mu = {mu}.")
        return lines
    replaced = f"Replacing one {guarantee.unit} by any other"
    if guarantee.unit == "entity":
        replaced = (
            f"Replacing the content of all rows of one {guarantee.entity!r}, at most {guarantee.max_rows} of them,"
        )
    lines = [f"{replaced} within the bounds changes the release by at most"]
    mu = "" if guarantee.mu is None else f"mu = {round_up(guarantee.mu)} (Gaussian differential privacy), "
    lines[0] += f" {mu}rho = {round_up(guarantee.rho)} (zero-concentrated differential privacy)."
    points = "; ".join(
        f"epsilon = {round_up(point.epsilon, 4)} at delta = {round_up(point.delta)}"
        for point in guarantee.epsilon_delta
    )
    lines.append(f"That is (epsilon, delta)-differential privacy with {points}.")
    lines.append(f"Not protected: {', '.join(guarantee.public)}.")
    return lines


def describe_total(release: Release) -> str:
    """Return one sentence about the cost of all releases of the dataset so far."""
    total = release.cumulative
    part = f" (this one is partition {release.lineage.partition!r})" if release.lineage.partition else ""
    if total.rho is None:
        return f"{total.releases} release(s) of this dataset so far{part}, one of which at least states no guarantee."
    spent = [f"rho = {round_up(total.rho)} per {total.unit}"]
    spent += [f"rho = {round_up(rho)} per {unit}" for unit, rho in total.other_units_rho.items()]
    mu = "" if total.mu is None else f"mu = {round_up(total.mu)}, "
    return f"{total.releases} release(s) of this dataset so far{part} cost {mu}{'; '.join(spent)} in all."


def _readme(release: Release, members: Sequence[DataMember]) -> bytes:
    dataset = release.dataset
    head = [f"# {dataset.title or dataset.name}", ""]
    if dataset.description:
        head += [dataset.description, ""]
    facts = [("Dataset", dataset.name), ("License", dataset.license), ("Contact", dataset.contact)]
    facts += [("Release", f"{release.lineage.number}, made {release.lineage.created} with {release.software}")]
    facts += [("Size", f"{release.n_rows} rows, {len(release.columns)} columns, {len(members)} Parquet file(s)")]
    body = [f"- {name}: {value}" for name, value in facts if value]
    body += [
        "",
        "Every value carries random noise; the table below says how much. To learn from the file with dpgraph,",
    ]
    body += ["trust the publisher once, by the fingerprint that she announces, and learn:", ""]
    body += ["    dp-bundle trust FINGERPRINT", "    dp-learn THIS-FILE.tar", "", "## What is guaranteed", ""]
    body += [line for sentence in (*describe_guarantee(release), describe_total(release)) for line in (sentence, "")]
    body += ["## Columns", "", "| column | unit | bounds | noise | description |", "|---|---|---|---|---|"]
    return ("\n".join(head + body + [_readme_row(column) for column in release.columns]) + "\n").encode()


def _readme_row(column: Column) -> str:
    cells = [column.name, column.unit, describe_bounds(column), describe_noise(column), column.description]
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
    fields = [
        {
            "name": column.name,
            "type": "integer" if column.kind == "integer" else "number",
            "description": f"{column.description} Noise: {describe_noise(column)}.".strip(),
            **({"unit": column.unit} if column.unit else {}),
        }
        for column in release.columns
    ]
    return {
        "name": f"part-{index:05d}",
        "path": member.name,
        "format": "parquet",
        "mediatype": _PARQUET,
        "bytes": member.size,
        "hash": f"sha256:{member.sha256}",
        "schema": {"fields": fields},
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
        "recordSet": [{"@type": "cr:RecordSet", "@id": "rows", "name": "rows", "field": fields}],
    }
    return _json({name: value for name, value in document.items() if value})


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


DESCRIPTORS: dict[str, Callable[[Release, Sequence[DataMember]], bytes]] = {
    "README.md": _readme,
    "datapackage.json": _datapackage,
    "croissant.json": _croissant,
}
