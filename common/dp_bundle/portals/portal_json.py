"""Descriptions beside the bundle for tools that read JSON: schema.org, Croissant and Frictionless.

Search engines for datasets read a schema.org Dataset from web pages. The Data Package and Croissant begin with what the
bundle holds of the same kind, whose bytes are fixed, and add what the manifest's further fields say.

References
----------
schema.org/Dataset. Google Search Central, "Dataset (Dataset, DataCatalog, DataDownload) structured data". Data Package
v2 (frictionlessdata.io). Croissant 1.1 and Croissant RAI 1.0 (mlcommons.org/croissant).
"""

import json
from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember, file_object
from dp_bundle.describe.sentences import describe_gaps
from dp_bundle.describe.subject import PARQUET, PublishedFile, Subject, without_gaps
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.dataset import THEMES, Creator
from dp_bundle.manifest.release import Release

_LONGEST = 5_000  # characters of a description, of which Google reads no more
_BY_LANGUAGE = {"@container": "@language"}
_CONTEXT_1_1 = {  # what Croissant 1.1 adds to the context of 1.0
    "arrayShape": "cr:arrayShape",
    "containedIn": "cr:containedIn",
    "description": _BY_LANGUAGE,
    "isArray": "cr:isArray",
    "name": _BY_LANGUAGE,
    "rai": "http://mlcommons.org/croissant/RAI/",
}


def schema_org_document(release: Release, files: Sequence[PublishedFile], *, address: str = "") -> dict[str, Any]:
    """Return a `Dataset` of schema.org as JSON-LD.

    Parameters
    ----------
    release : Release
        The release.
    files : sequence of PublishedFile
        What can be fetched, with its address, or its path from where the document stands.
    address : str
        What the dataset is identified by; its DOI by default, if it has one.
    """
    subject = Subject(release)
    dataset, more = subject.dataset, subject.more
    document = {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "@id": address or subject.identifier,
        "name": subject.title,
        "alternateName": dataset.name if dataset.title else "",
        "description": subject.description[:_LONGEST],
        "identifier": subject.identifier,
        "url": address or subject.homepage,
        "version": subject.number,
        "datePublished": release.lineage.created,
        "isAccessibleForFree": True,
        "license": subject.licence,
        "creator": [_person(creator) for creator in more.creators],
        "publisher": {"@type": "Organization", "name": more.publisher} if more.publisher else None,
        "citation": dataset.citation,
        "keywords": [*more.keywords, *(THEMES[code] for code in more.themes), "differential privacy"],
        "inLanguage": list(more.languages),
        "temporalCoverage": subject.period,
        "spatialCoverage": list(more.spatial),
        "isBasedOn": [work.address for work in more.related if work.relation == "IsDerivedFrom"],
        "measurementTechnique": subject.noise if release.second_moments is not None else "",
        "variableMeasured": [_variable(column) for column in release.columns],
        "distribution": [
            {"@type": "DataDownload", "name": file.name, "contentUrl": file.address, **_content(file, f"{file.size} B")}
            for file in files
        ],
        "contactPoint": {"@type": "ContactPoint", "email": subject.email} if subject.email else None,
    }
    return without_gaps(document)


def _person(creator: Creator, prefix: str = "") -> dict[str, Any]:
    """Return a creator, a person if there is an ORCID iD and otherwise an organisation as well as can be told."""
    kind = "Person" if creator.orcid or creator.affiliation else "Organization"
    belongs = {"@type": f"{prefix}Organization", "name": creator.affiliation} if creator.affiliation else None
    known = {"@type": f"{prefix}{kind}", "@id": creator.orcid_address, "name": creator.name, "affiliation": belongs}
    return without_gaps(known)


def _variable(column: Column) -> dict[str, Any]:
    described = {"@type": "PropertyValue", "name": column.name, "description": column.description}
    if column.transform is not None:  # a number without a unit
        said = filter(None, [column.description, "Published as normal scores."])
        return {**described, "description": " ".join(said)}
    return without_gaps({**described, "unitText": column.unit})


def _content(file: PublishedFile, size: str) -> dict[str, str]:
    return {"contentSize": size, "encodingFormat": file.media_type, "sha256": file.sha256}


def frictionless_document(release: Release, files: Sequence[PublishedFile]) -> dict[str, Any]:
    """Return a Data Package of the Parquet files, which stand where their paths say."""
    subject = Subject(release)
    dataset, more = subject.dataset, subject.more
    people = [
        {"title": each.name, "path": each.orcid_address, "organization": each.affiliation, "roles": ["creator"]}
        for each in more.creators
    ]
    people += [{"title": more.publisher, "roles": ["publisher"]}] if more.publisher else []
    people += [{"title": dataset.contact, "email": subject.email, "roles": ["contact"]}] if dataset.contact else []
    licence = {"name": subject.spdx or dataset.license, "path": subject.licence_address}
    return without_gaps(
        {
            **_in_bundle("datapackage.json", release, files),
            "id": more.doi,
            "description": subject.description,
            "contributors": [without_gaps(person) for person in people],
            "licenses": [without_gaps(licence)] if dataset.license else None,
            "keywords": list(more.keywords),
        }
    )


def croissant_document(release: Release, files: Sequence[PublishedFile]) -> dict[str, Any]:
    """Return a description in Croissant 1.1, with the noise and the guarantee in its RAI fields."""
    document, subject = _in_bundle("croissant.json", release, files), Subject(release)
    more = subject.more
    others = [
        file_object(file.path, file.size, file.sha256, file.media_type) for file in files if file.media_type != PARQUET
    ]
    return without_gaps(
        {
            **document,
            "@context": {**document["@context"], **_CONTEXT_1_1},
            "conformsTo": "http://mlcommons.org/croissant/1.1",
            "description": subject.description,
            "creator": [_person(creator, "sc:") for creator in more.creators],
            "publisher": {"@type": "sc:Organization", "name": more.publisher} if more.publisher else None,
            "license": subject.licence,
            "keywords": list(more.keywords),
            "inLanguage": list(more.languages),
            "rai:dataManipulationProtocol": " ".join(subject.noise),
            "rai:personalSensitiveInformation": " ".join(subject.guarantee),
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
