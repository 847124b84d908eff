"""Descriptions beside the bundle for tools that read tables: a Frictionless Data Package and Croissant 1.1.

They begin with what the bundle holds of the same kind, whose bytes are fixed, and add what the manifest's further
fields say.

References
----------
Data Package v2 (frictionlessdata.io). Croissant 1.1 and Croissant RAI 1.0 (mlcommons.org/croissant).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember, file_object
from dp_bundle.describe.sentences import describe_gaps, describe_guarantee, describe_total
from dp_bundle.describe.subject import (
    PARQUET,
    PublishedFile,
    description,
    details,
    email,
    licence_address,
    noise,
    orcid_address,
    spdx_licence,
    without_gaps,
)
from dp_bundle.manifest.dataset import Creator
from dp_bundle.manifest.release import Release
from dp_bundle.portals.schema_org import schema_org_person

_BY_LANGUAGE = {"@container": "@language"}
_CONTEXT_1_1 = {  # what Croissant 1.1 adds to the context of 1.0
    "arrayShape": "cr:arrayShape",
    "containedIn": "cr:containedIn",
    "description": _BY_LANGUAGE,
    "isArray": "cr:isArray",
    "name": _BY_LANGUAGE,
    "rai": "http://mlcommons.org/croissant/RAI/",
}


def frictionless_document(release: Release, files: Sequence[PublishedFile]) -> dict[str, Any]:
    """Return a Data Package of the Parquet files, which stand where their paths say."""
    document, dataset, more = _in_bundle("datapackage.json", release, files), release.dataset, details(release)
    contact = {"title": dataset.contact, "email": email(dataset), "roles": ["contact"]} if dataset.contact else None
    publisher = {"title": more.publisher, "roles": ["publisher"]} if more.publisher else None
    people = [*map(_contributor, more.creators), *filter(None, [publisher, contact])]
    licence = {"name": spdx_licence(dataset) or dataset.license, "path": licence_address(dataset)}
    return without_gaps(
        {
            **document,
            "id": more.doi,
            "description": description(release),
            "contributors": [without_gaps(person) for person in people],
            "licenses": [without_gaps(licence)] if dataset.license else None,
            "keywords": list(more.keywords),
        }
    )


def croissant_document(release: Release, files: Sequence[PublishedFile]) -> dict[str, Any]:
    """Return a description in Croissant 1.1, with the noise and the guarantee in its RAI fields."""
    document, dataset, more = _in_bundle("croissant.json", release, files), release.dataset, details(release)
    others = [
        file_object(file.path, file.size, file.sha256, file.media_type) for file in files if file.media_type != PARQUET
    ]
    guarantee = [*describe_guarantee(release), describe_total(release)]
    return without_gaps(
        {
            **document,
            "@context": {**document["@context"], **_CONTEXT_1_1},
            "conformsTo": "http://mlcommons.org/croissant/1.1",
            "description": description(release),
            "creator": [_schema_types(schema_org_person(creator)) for creator in more.creators],
            "publisher": {"@type": "sc:Organization", "name": more.publisher} if more.publisher else None,
            "license": licence_address(dataset) or dataset.license,
            "keywords": list(more.keywords),
            "inLanguage": list(more.languages),
            "rai:dataManipulationProtocol": " ".join(noise(release)),
            "rai:personalSensitiveInformation": " ".join(guarantee),
            "rai:dataImputationProtocol": " ".join(describe_gaps(release)),
            "rai:dataLimitations": "The numbers carry random noise on purpose: correlations and regressions that do "
            "not subtract it are too weak.",
            "distribution": [*others, *document["distribution"]],
        }
    )


def _in_bundle(name: str, release: Release, files: Sequence[PublishedFile]) -> dict[str, Any]:
    members = [DataMember(file.path, file.size, file.sha256) for file in files if file.media_type == PARQUET]
    document: dict[str, Any] = json.loads(DESCRIPTORS[name](release, members))
    return document


def _contributor(creator: Creator) -> dict[str, Any]:
    return {
        "title": creator.name,
        "path": orcid_address(creator),
        "organization": creator.affiliation,
        "roles": ["creator"],
    }


def _schema_types(person: dict[str, Any]) -> dict[str, Any]:
    """Return a person of schema.org with the prefix that Croissant writes before types."""
    inner = {name: _schema_types(value) if isinstance(value, dict) else value for name, value in person.items()}
    return {**inner, "@type": f"sc:{person['@type']}"}
