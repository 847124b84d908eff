"""A release as DCAT-AP 3 in JSON-LD, the vocabulary of European data portals.

References
----------
DCAT-AP 3.0.0 (SEMIC, semiceu.github.io/DCAT-AP/releases/3.0.0). DCAT 3 (W3C, 2024). The EU vocabularies data-theme,
language, file-type and access-right (publications.europa.eu).
"""

from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.subject import PARQUET, TAR, PublishedFile, Subject, three_letters, without_gaps
from dp_bundle.manifest.dataset import THEMES, WEB, Period, Related
from dp_bundle.manifest.release import Release

_EU = "http://publications.europa.eu/resource/authority"
_IANA = "https://www.iana.org/assignments/media-types"
DCAT_CONTEXT = {
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
    return {"@context": DCAT_CONTEXT, **dcat_dataset(release, files, address=address)}


def dcat_dataset(release: Release, files: Sequence[PublishedFile], *, address: str = "") -> dict[str, Any]:
    """Return the same without the context, as an entry of a catalog whose context has the same prefixes."""
    subject = Subject(release)
    dataset, more, known = subject.dataset, subject.more, subject.identifier
    described = {
        "@id": address or known or "#dataset",
        "@type": "dcat:Dataset",
        "dct:title": subject.title,
        "dct:description": subject.description,
        "dct:identifier": known or f"{release.series}, release {release.lineage.number}",
        "dcat:version": subject.number,
        "dct:issued": {"@type": "xsd:dateTime", "@value": release.lineage.created},
        "dct:provenance": {"@type": "dct:ProvenanceStatement", "rdfs:label": " ".join(subject.noise)},
        "dct:accessRights": _named(f"{_EU}/access-right/PUBLIC", "dct:RightsStatement"),
        "dct:creator": [
            without_gaps({"@id": creator.orcid_address, "@type": "foaf:Agent", "foaf:name": creator.name})
            for creator in more.creators
        ],
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": more.publisher} if more.publisher else None,
        "dcat:contactPoint": _contact(subject),
        "dcat:keyword": list(more.keywords),
        "dcat:theme": [_theme(code) for code in more.themes],
        "dct:language": [_language(code) for code in more.languages],
        "dct:temporal": _period(more.temporal) if more.temporal else None,
        "dct:spatial": [_place(text) for text in more.spatial],
        "dcat:landingPage": _named(subject.homepage, "foaf:Document") if subject.homepage else None,
        "dct:bibliographicCitation": dataset.citation,
        **_relations(more.related),
        "dcat:distribution": [_distribution(file, subject) for file in files],
    }
    return without_gaps(described)


def _distribution(file: PublishedFile, subject: Subject) -> dict[str, Any]:
    licence, words = subject.licence_address, subject.dataset.license
    checksum = {
        "@type": "spdx:Checksum",
        "spdx:algorithm": _named("spdx:checksumAlgorithm_sha256", "spdx:ChecksumAlgorithm"),
        "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": file.sha256},
    }
    formats = {
        TAR: {"dct:format": _named(f"{_EU}/file-type/TAR", "dct:MediaTypeOrExtent")},
        PARQUET: {"dcat:mediaType": _named(f"{_IANA}/{PARQUET}", "dct:MediaType")},
    }
    return without_gaps(
        {
            "@type": "dcat:Distribution",
            "dct:title": file.name,
            "dcat:accessURL": _named(file.address, "rdfs:Resource"),
            "dcat:downloadURL": _named(file.address, "rdfs:Resource"),
            "dcat:byteSize": {"@type": "xsd:nonNegativeInteger", "@value": str(file.size)},
            "spdx:checksum": checksum,
            **formats.get(file.media_type, {}),
            "dct:license": _named(licence, "dct:LicenseDocument") if licence else None,
            "dct:rights": {"@type": "dct:RightsStatement", "rdfs:label": words} if words and not licence else None,
        }
    )


def _named(address: str, kind: str) -> dict[str, str]:
    """Return an address with the class that the shapes of DCAT-AP ask for, as they infer none."""
    return {"@id": address, "@type": kind}


def _contact(subject: Subject) -> dict[str, Any] | None:
    contact = subject.dataset.contact
    if not contact:
        return None
    card: dict[str, Any] = {"@type": "vcard:Kind", "vcard:fn": contact}
    if subject.email:
        card["vcard:hasEmail"] = {"@id": f"mailto:{subject.email}"}
    elif WEB.fullmatch(contact):
        card["vcard:hasURL"] = {"@id": contact}
    return card


def _theme(code: str) -> dict[str, Any]:
    label = {"@language": "en", "@value": THEMES[code]}
    return {**_named(f"{_EU}/data-theme/{code}", "skos:Concept"), "skos:prefLabel": label}


def _language(code: str) -> dict[str, str]:
    found = three_letters(code).upper()
    known = f"{_EU}/language/{found}" if found else f"http://id.loc.gov/vocabulary/iso639-1/{code}"
    return _named(known, "dct:LinguisticSystem")


def _period(period: Period) -> dict[str, Any]:
    start, end = ({"@type": _DATES[len(date)], "@value": date} for date in (period.start, period.end))
    return {"@type": "dct:PeriodOfTime", "dcat:startDate": start, "dcat:endDate": end}


def _place(text: str) -> dict[str, str]:
    key = "@id" if WEB.fullmatch(text) else "skos:prefLabel"
    return {key: text, "@type": "dct:Location"}


def _relations(related: Sequence[Related]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for work in related:
        relation = _RELATIONS.get(work.relation, "dct:relation")
        kind = "foaf:Document" if relation == "foaf:page" else "rdfs:Resource"
        found.setdefault(relation, []).append(_named(work.address, kind))
    return found
