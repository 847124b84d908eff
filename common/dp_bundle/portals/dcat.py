"""A release as DCAT-AP 3 in JSON-LD, the vocabulary of European data portals.

References
----------
DCAT-AP 3.0.0 (SEMIC, semiceu.github.io/DCAT-AP/releases/3.0.0). DCAT 3 (W3C, 2024). The EU vocabularies data-theme,
language, file-type and access-right (publications.europa.eu).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.subject import (
    PARQUET,
    TAR,
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
    three_letters,
    title,
    without_gaps,
)
from dp_bundle.manifest.dataset import THEMES, WEB, Creator, Period, Related
from dp_bundle.manifest.release import Release

_EU = "http://publications.europa.eu/resource/authority"
_IANA = "https://www.iana.org/assignments/media-types"
_CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "prov": "http://www.w3.org/ns/prov#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_DATES = {4: "xsd:gYear", 7: "xsd:gYearMonth", 10: "xsd:date"}
_RELATIONS = {
    "IsCitedBy": "dct:isReferencedBy",
    "IsDerivedFrom": "prov:wasDerivedFrom",
    "IsDescribedBy": "dct:isReferencedBy",
    "IsDocumentedBy": "foaf:page",
    "IsReferencedBy": "dct:isReferencedBy",
}  # all others are plain relations


def dcat_document(release: Release, files: Sequence[PublishedFile], *, address: str = "") -> dict[str, Any]:
    """Return a `dcat:Dataset` with its distributions, as a JSON-LD document of its own.

    Parameters
    ----------
    release : Release
        The release.
    files : sequence of PublishedFile
        What can be fetched, with its address, or its path from where the document stands.
    address : str
        What the dataset is identified by; its DOI, or else `#dataset` of the document, by default.
    """
    return {"@context": _CONTEXT, **dcat_dataset(release, files, address=address)}


def dcat_dataset(release: Release, files: Sequence[PublishedFile], *, address: str = "") -> dict[str, Any]:
    """Return the same without the context, as an entry of a catalog whose context has the same prefixes."""
    dataset, more = release.dataset, details(release)
    known = identifier(release)
    named = {
        "@id": address or known or "#dataset",
        "@type": "dcat:Dataset",
        "dct:title": title(release),
        "dct:description": description(release),
        "dct:identifier": known or f"{release.series}, release {release.lineage.number}",
        "dcat:version": str(release.lineage.number),
        "dct:issued": {"@type": "xsd:dateTime", "@value": release.lineage.created},
        "dct:provenance": {"@type": "dct:ProvenanceStatement", "rdfs:label": " ".join(noise(release))},
        "dct:accessRights": {"@id": f"{_EU}/access-right/PUBLIC", "@type": "dct:RightsStatement"},
    }
    people = {
        "dct:creator": [_agent(creator) for creator in more.creators],
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": more.publisher} if more.publisher else None,
        "dcat:contactPoint": _contact(release),
    }
    about = {
        "dcat:keyword": list(more.keywords),
        "dcat:theme": [_theme(code) for code in more.themes],
        "dct:language": [_language(code) for code in more.languages],
        "dct:temporal": _period(more.temporal) if more.temporal else None,
        "dct:spatial": [_place(text) for text in more.spatial],
        "dcat:landingPage": _page(homepage(dataset)) if homepage(dataset) else None,
        "dct:bibliographicCitation": dataset.citation,
        **_relations(more.related),
    }
    distributions = [_distribution(file, release) for file in files]
    return without_gaps({**named, **people, **about, "dcat:distribution": distributions})


def dcat_context() -> dict[str, str]:
    """Return the prefixes that `dcat_dataset` uses."""
    return dict(_CONTEXT)


def _distribution(file: PublishedFile, release: Release) -> dict[str, Any]:
    licence = licence_address(release.dataset) or None
    words = release.dataset.license if not licence else ""
    checksum = {
        "@type": "spdx:Checksum",
        "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256", "@type": "spdx:ChecksumAlgorithm"},
        "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": file.sha256},
    }
    formats = {
        TAR: {"dct:format": {"@id": f"{_EU}/file-type/TAR", "@type": "dct:MediaTypeOrExtent"}},
        PARQUET: {"dcat:mediaType": {"@id": f"{_IANA}/{PARQUET}", "@type": "dct:MediaType"}},
    }
    return without_gaps(
        {
            "@type": "dcat:Distribution",
            "dct:title": file.path.rpartition("/")[2],
            "dcat:accessURL": _resource(file_address(file)),
            "dcat:downloadURL": _resource(file_address(file)),
            "dcat:byteSize": {"@type": "xsd:nonNegativeInteger", "@value": str(file.size)},
            "spdx:checksum": checksum,
            **formats.get(file.media_type, {}),
            "dct:license": {"@id": licence, "@type": "dct:LicenseDocument"} if licence else None,
            "dct:rights": {"@type": "dct:RightsStatement", "rdfs:label": words} if words else None,
        }
    )


def _agent(creator: Creator) -> dict[str, Any]:
    return without_gaps(
        {
            "@id": orcid_address(creator),
            "@type": "foaf:Agent",
            "foaf:name": creator.name,
        }
    )


def _contact(release: Release) -> dict[str, Any] | None:
    contact = release.dataset.contact
    if not contact:
        return None
    card: dict[str, Any] = {"@type": "vcard:Kind", "vcard:fn": contact}
    if email(release.dataset):
        card["vcard:hasEmail"] = {"@id": f"mailto:{email(release.dataset)}"}
    elif WEB.fullmatch(contact):
        card["vcard:hasURL"] = {"@id": contact}
    return card


def _theme(code: str) -> dict[str, Any]:
    label = {"@language": "en", "@value": THEMES[code]}
    return {"@id": f"{_EU}/data-theme/{code}", "@type": "skos:Concept", "skos:prefLabel": label}


def _language(code: str) -> dict[str, str]:
    found = three_letters(code).upper()
    known = f"{_EU}/language/{found}" if found else f"http://id.loc.gov/vocabulary/iso639-1/{code}"
    return {"@id": known, "@type": "dct:LinguisticSystem"}


def _period(period: Period) -> dict[str, Any]:
    start, end = ({"@type": _DATES[len(date)], "@value": date} for date in (period.start, period.end))
    return {"@type": "dct:PeriodOfTime", "dcat:startDate": start, "dcat:endDate": end}


def _place(text: str) -> dict[str, str]:
    key = "@id" if WEB.fullmatch(text) else "skos:prefLabel"
    return {key: text, "@type": "dct:Location"}


def _resource(address: str) -> dict[str, str]:
    """Return an address with the class that the shapes of DCAT-AP ask for, as they infer none."""
    return {"@id": address, "@type": "rdfs:Resource"}


def _page(address: str) -> dict[str, str]:
    return {"@id": address, "@type": "foaf:Document"}


def _relations(related: Sequence[Related]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for work in related:
        relation, address = _RELATIONS.get(work.relation, "dct:relation"), doi_address(work.identifier)
        found.setdefault(relation, []).append(_page(address) if relation == "foaf:page" else _resource(address))
    return found
