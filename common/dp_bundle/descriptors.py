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

from dp_bundle.manifest import Column, Guarantee, Release, SecondMoments

__all__ = [
    "DESCRIPTORS",
    "DataMember",
    "describe_bounds",
    "describe_guarantee",
    "describe_moments",
    "describe_noise",
    "describe_size",
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
    noise = column.cell_noise
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


def describe_moments(moments: SecondMoments) -> list[str]:
    """Return sentences that say what the matrix of a covariance release is, and which noise is on it."""
    held = (
        "A row is (z, c) with z_j = (x_j - center_j) / half_width_j from its column's bounds, shortened to a length "
        f"of {moments.radius:.6g} where it is longer, and the constant c = {moments.constant:g}."
    )
    if moments.distribution is None:
        return [held, f"The noise of the {moments.mechanism} mechanism does not act entry by entry."]
    kind = {"rounded-gaussian": "Gaussian", "discrete-laplace": "Laplace", "wishart": "Wishart"}[moments.distribution]
    noise = (
        f"{kind} noise ({moments.mechanism}): variance {moments.diagonal_variance:.6g} on the diagonal and "
        f"{moments.off_diagonal_variance:.6g} beside it, on a grid of {moments.granularity:.6g}"
    )
    return [held, f"{noise}, with a mean of {moments.bias:.6g} on the diagonal." if moments.bias else f"{noise}."]


def describe_size(release: Release) -> str:
    """Return one phrase that says how large the release is."""
    if release.second_moments is None:
        return f"{release.n_rows} rows, {len(release.columns)} columns"
    protected = release.guarantee is not None and release.guarantee.neighbours == "add-remove"
    about = "about (a noisy estimate) " if protected else ""
    return f"second moments of {len(release.columns)} columns, over {about}{release.n_rows} rows; no rows"


def describe_guarantee(release: Release) -> list[str]:
    """Return sentences that say what the release guarantees, and what it does not."""
    guarantee = release.guarantee
    if guarantee is None:
        lines = ["No privacy guarantee: the noise was scaled to the private data's own standard deviation."]
        if release.conditional_mu is not None:
            mu = round_up(release.conditional_mu)
            lines.append(f"Had the same noise been fixed beforehand, one cell would be protected at mu = {mu}.")
        return lines
    strengths = [f"rho = {round_up(guarantee.rho)} (zero-concentrated differential privacy)"]
    if guarantee.mu is not None:
        strengths.insert(0, f"mu = {round_up(guarantee.mu)} (Gaussian differential privacy)")
    if guarantee.epsilon is not None:
        pure = "" if guarantee.excepted_delta else "pure "
        strengths.insert(0, f"epsilon = {round_up(guarantee.epsilon)} ({pure}differential privacy)")
    lines = [f"{_change(guarantee)} within the bounds changes the release by at most {', '.join(strengths)}."]
    if guarantee.excepted_delta:
        lines.append(f"All of that holds except with a probability of {round_up(guarantee.excepted_delta)}.")
    if guarantee.epsilon_delta:
        points = "; ".join(
            f"epsilon = {round_up(point.epsilon, 4)} at delta = {round_up(point.delta)}"
            for point in guarantee.epsilon_delta
        )
        lines.append(f"That is (epsilon, delta)-differential privacy with {points}.")
    if guarantee.neighbours == "add-remove":
        lines.append("The number of rows is protected as well: what is stated of it was read from the noisy release.")
    if guarantee.public:
        lines.append(f"Not protected: {', '.join(guarantee.public)}.")
    return lines


def _change(guarantee: Guarantee) -> str:
    """Return what the guarantee says makes little difference."""
    one = f"all rows of one {guarantee.entity!r}, at most {guarantee.max_rows} of them,"
    if guarantee.neighbours == "add-remove":
        return f"Adding or removing {one if guarantee.unit == 'entity' else 'one row'}"
    if guarantee.unit == "entity":
        return f"Replacing the content of {one}"
    return f"Replacing one {guarantee.unit} by any other"


def describe_total(release: Release) -> str:
    """Return one sentence about the cost of all releases of the dataset so far."""
    total = release.cumulative
    part = f" (this one is partition {release.lineage.partition!r})" if release.lineage.partition else ""
    if total.rho is None:
        return f"{total.releases} release(s) of this dataset so far{part}, one of which at least states no guarantee."
    spent = [f"rho = {round_up(total.rho)} per {total.unit}"]
    spent += [f"rho = {round_up(rho)} per {unit}" for unit, rho in total.other_units_rho.items()]
    mu = "" if total.mu is None else f"mu = {round_up(total.mu)}, "
    but = f", except with a probability of {round_up(total.excepted_delta)}" if total.excepted_delta else ""
    return f"{total.releases} release(s) of this dataset so far{part} cost {mu}{'; '.join(spent)} in all{but}."


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
