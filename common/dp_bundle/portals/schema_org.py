"""A release as a schema.org Dataset, which search engines for datasets read from web pages.

References
----------
schema.org/Dataset. Google Search Central, "Dataset (Dataset, DataCatalog, DataDownload) structured data".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.subject import (
    PublishedFile,
    description,
    details,
    doi_address,
    email,
    file_address,
    homepage,
    identifier,
    licence_address,
    noise,
    orcid_address,
    title,
    without_gaps,
)
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.dataset import THEMES, Creator
from dp_bundle.manifest.release import Release

_LONGEST = 5_000  # characters of a description, of which Google reads no more


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
    dataset, more = release.dataset, details(release)
    period = more.temporal
    document = {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "@id": address or identifier(release),
        "name": title(release),
        "alternateName": dataset.name if dataset.title else "",
        "description": description(release)[:_LONGEST],
        "identifier": identifier(release),
        "url": address or homepage(dataset),
        "version": str(release.lineage.number),
        "datePublished": release.lineage.created,
        "isAccessibleForFree": True,
        "license": licence_address(dataset) or dataset.license,
        "creator": [schema_org_person(creator) for creator in more.creators],
        "publisher": {"@type": "Organization", "name": more.publisher} if more.publisher else None,
        "citation": dataset.citation,
        "keywords": [*more.keywords, *(THEMES[code] for code in more.themes), "differential privacy"],
        "inLanguage": list(more.languages),
        "temporalCoverage": f"{period.start}/{period.end}" if period else "",
        "spatialCoverage": list(more.spatial),
        "isBasedOn": [doi_address(work.identifier) for work in more.related if work.relation == "IsDerivedFrom"],
        "measurementTechnique": noise(release) if release.second_moments is not None else "",
        "variableMeasured": [_variable(column) for column in release.columns],
        "distribution": [_download(file) for file in files],
    }
    if email(dataset):
        document["contactPoint"] = {"@type": "ContactPoint", "email": email(dataset)}
    return without_gaps(document)


def schema_org_person(creator: Creator) -> dict[str, Any]:
    """Return a creator, a person if there is an ORCID iD and otherwise an organisation as well as can be told."""
    kind = "Person" if creator.orcid or creator.affiliation else "Organization"
    belongs = {"@type": "Organization", "name": creator.affiliation} if creator.affiliation else None
    return without_gaps({"@type": kind, "@id": orcid_address(creator), "name": creator.name, "affiliation": belongs})


def _variable(column: Column) -> dict[str, Any]:
    described = {"@type": "PropertyValue", "name": column.name, "description": column.description}
    return without_gaps({**described, "unitText": column.unit})


def _download(file: PublishedFile) -> dict[str, Any]:
    return {
        "@type": "DataDownload",
        "name": file.path.rpartition("/")[2],
        "contentUrl": file_address(file),
        "contentSize": f"{file.size} B",
        "encodingFormat": file.media_type,
        "sha256": file.sha256,
    }
