"""Descriptions beside the bundle in JSON: schema.org, Croissant, Frictionless, DCAT-AP and DataCite.

Search engines for datasets read a schema.org Dataset from web pages. The Data Package and Croissant begin with what the
bundle holds of the same kind, whose bytes are fixed, and add what the manifest's further fields say. European data
portals read DCAT-AP 3 in JSON-LD, and with DataCite metadata a DOI is registered.

References
----------
schema.org/Dataset. Google Search Central, "Dataset (Dataset, DataCatalog, DataDownload) structured data". Data Package
v2 (frictionlessdata.io). Croissant 1.1 and Croissant RAI 1.0 (mlcommons.org/croissant). DCAT-AP 3.0.0 (SEMIC,
semiceu.github.io/DCAT-AP/releases/3.0.0). DCAT 3 (W3C, 2024). The EU vocabularies data-theme, language, file-type and
access-right (publications.europa.eu). DataCite Metadata Schema 4.5 (schema.datacite.org/meta/kernel-4.5).
"""

import json
from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember, file_object
from dp_bundle.describe.sentences import describe_gaps
from dp_bundle.describe.subject import PARQUET, TAR, PublishedFile, Subject, three_letters, without_gaps
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.dataset import THEMES, WEB, Creator, Period, Related
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
_UNKNOWN = "(:unav)"  # appendix 3 of DataCite's schema: mandatory, and not said


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


def datacite_document(release: Release, files: Sequence[PublishedFile]) -> dict[str, Any]:
    """Return the attributes of a DOI in DataCite's JSON."""
    subject = Subject(release)
    dataset, more = subject.dataset, subject.more
    about = {"description": dataset.description, "descriptionType": "Abstract"}
    methods = {"description": " ".join([*subject.noise, *subject.guarantee]), "descriptionType": "Methods"}
    themes = [{"subject": THEMES[code], "subjectScheme": "EU Vocabularies data-theme"} for code in more.themes]
    kind = "rows" if release.second_moments is None else "second moments"
    kind = kind if release.margins is None else "histograms and second moments"
    own = f"{release.series}, release {release.lineage.number}"
    document = {
        "doi": more.doi,
        "creators": [*map(_creator, more.creators)] or [{"name": _UNKNOWN}],
        "titles": [{"title": subject.title}],
        "publisher": {"name": more.publisher or _UNKNOWN},
        "publicationYear": subject.date[:4],
        "types": {"resourceTypeGeneral": "Dataset", "resourceType": f"Differentially private {kind}"},
        "subjects": [*({"subject": word} for word in more.keywords), *themes],
        "dates": _dates(subject),
        "language": more.languages[0] if more.languages else None,
        "alternateIdentifiers": [{"alternateIdentifier": own, "alternateIdentifierType": "dpgraph release"}],
        "relatedIdentifiers": [
            {
                "relatedIdentifier": work.identifier,
                "relatedIdentifierType": "DOI" if work.is_doi else "URL",
                "relationType": work.relation,
            }
            for work in more.related
        ],
        "sizes": [f"{sum(file.size for file in files)} bytes"] if files else None,
        "formats": list(dict.fromkeys(file.media_type for file in files)),
        "version": subject.number,
        "rightsList": [_rights(subject)] if dataset.license else None,
        "descriptions": [about, methods] if dataset.description else [methods],
        "geoLocations": [{"geoLocationPlace": place} for place in more.spatial],
        "url": subject.homepage,
        "schemaVersion": "http://datacite.org/schema/kernel-4",
    }
    return without_gaps(document)


def _creator(creator: Creator) -> dict[str, Any]:
    known = {"nameIdentifier": creator.orcid_address, "nameIdentifierScheme": "ORCID", "schemeUri": "https://orcid.org"}
    return without_gaps(
        {
            "name": creator.name,
            "nameType": "Personal" if creator.orcid else None,
            "nameIdentifiers": [known] if creator.orcid else None,
            "affiliation": [{"name": creator.affiliation}] if creator.affiliation else None,
        }
    )


def _dates(subject: Subject) -> list[dict[str, str]]:
    dates = [{"date": subject.release.lineage.created, "dateType": "Issued"}]
    if period := subject.more.temporal:
        length = min(len(period.start), len(period.end))  # a range is of years, of months or of days
        covered = f"{period.start[:length]}/{period.end[:length]}"
        about = "the time that the data are about"
        dates.append({"date": covered, "dateType": "Other", "dateInformation": about})
    return dates


def _rights(subject: Subject) -> dict[str, str]:
    rights = {"rights": subject.dataset.license, "rightsUri": subject.licence_address}
    if subject.spdx:
        rights |= {"rightsIdentifier": subject.spdx, "rightsIdentifierScheme": "SPDX"}
        rights["schemeUri"] = "https://spdx.org/licenses/"
    return without_gaps(rights)
