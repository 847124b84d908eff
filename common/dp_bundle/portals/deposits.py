"""A release in the words of repositories: CKAN, Dataverse, and InvenioRDM, on which Zenodo runs.

References
----------
CKAN API guide, `package_create`. Dataverse guides, "Native API: Create a Dataset in a Dataverse Collection", and the
citation metadata block. InvenioRDM, "Metadata reference".
"""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from dp_bundle.describe.sentences import describe_guarantee, describe_total
from dp_bundle.describe.subject import PublishedFile, Subject, slug, three_letters, without_gaps
from dp_bundle.manifest.dataset import Creator
from dp_bundle.manifest.release import Release

_CKAN_LICENCES = {
    "CC-BY-4.0": "cc-by",
    "CC-BY-SA-4.0": "cc-by-sa",
    "CC0-1.0": "cc-zero",
    "ODC-By-1.0": "odc-by",
    "ODbL-1.0": "odc-odbl",
    "PDDL-1.0": "odc-pddl",
    "OGL-UK-3.0": "uk-ogl",
}
_DATAVERSE_SUBJECTS = {  # of Dataverse's list, for themes
    "AGRI": "Agricultural Sciences",
    "ECON": "Business and Management",
    "ENVI": "Earth and Environmental Sciences",
    "EDUC": "Social Sciences",
    "GOVE": "Social Sciences",
    "HEAL": "Medicine, Health and Life Sciences",
    "JUST": "Law",
    "REGI": "Social Sciences",
    "SOCI": "Social Sciences",
    "TECH": "Engineering",
}
_PARTS = {"authorIdentifierScheme": "controlledVocabulary"}  # kinds of parts of Dataverse's fields; others are texts


def ckan_package(release: Release, files: Sequence[PublishedFile], signer: str) -> dict[str, Any]:
    """Return the dictionary for `package_create`; the portal's `owner_org` is left for its maintainer.

    Parameters
    ----------
    release : Release
        The release.
    files : sequence of PublishedFile
        The files that become resources.
    signer : str
        The fingerprint of the key that signed it.
    """
    subject = Subject(release)
    more = subject.more
    facts = {
        "guarantee": " ".join(describe_guarantee(release)),
        "spent_so_far": describe_total(release),
        "noise": " ".join(subject.noise),
        "signer": signer,
        "identifier": subject.identifier,
        "licence": subject.licence,
        "temporal_coverage": subject.period,
        "spatial_coverage": ", ".join(more.spatial),
        "language": ", ".join(more.languages),
    }
    return without_gaps(
        {
            "name": slug(subject.dataset.name),
            "title": subject.title,
            "notes": subject.description,
            "license_id": _CKAN_LICENCES.get(subject.spdx, "notspecified"),
            "url": subject.homepage,
            "version": subject.number,
            "author": "; ".join(creator.name for creator in more.creators),
            "maintainer": more.publisher or subject.dataset.contact,
            "maintainer_email": subject.email,
            "tags": [{"name": word} for word in dict.fromkeys(filter(None, map(_tag, more.keywords)))],
            "extras": [{"key": key, "value": value} for key, value in facts.items() if value],
            "resources": [
                {
                    "name": file.name,
                    "description": file.purpose[0],
                    "format": file.purpose[1],
                    "mimetype": file.media_type,
                    "size": file.size,
                    "hash": f"sha256:{file.sha256}",
                }
                for file in files
            ],
        }
    )


def _tag(word: str) -> str:
    """Return a keyword as CKAN takes it: 2 to 100 letters, digits, spaces, -, _ and ."""
    found = " ".join(re.sub(r"[^\w .-]+", " ", word).split())[:100]
    return found if len(found) > 1 else ""


def dataverse_dataset(release: Release) -> dict[str, Any]:
    """Return the citation block, with the guarantee among the notes and the licence among the terms."""
    subject = Subject(release)
    dataset, more = subject.dataset, subject.more
    subjects = list(dict.fromkeys(_DATAVERSE_SUBJECTS.get(code, "Other") for code in more.themes)) or ["Other"]
    contact = {"datasetContactName": dataset.contact or more.publisher, "datasetContactEmail": subject.email}
    period = more.temporal
    covered = {"timePeriodCoveredStart": period.start, "timePeriodCoveredEnd": period.end} if period else {}
    related = [f"{work.relation} {work.address}" for work in more.related]
    fields = [
        _field("title", subject.title),
        _compound("author", [_dataverse_author(creator) for creator in more.creators]),
        _compound("datasetContact", [contact]),
        _compound("dsDescription", [{"dsDescriptionValue": subject.description, "dsDescriptionDate": subject.date}]),
        _field("subject", subjects, "controlledVocabulary"),
        _compound("keyword", [{"keywordValue": word} for word in more.keywords]),
        _compound("distributor", [{"distributorName": more.publisher}]),
        _field("distributionDate", subject.date),
        _compound("timePeriodCovered", [covered]),
        _field("alternativeURL", subject.homepage),
        _field("notesText", " ".join([*subject.guarantee, *subject.noise])),
        _field("relatedMaterial", related),
    ]
    citation = {"displayName": "Citation Metadata", "fields": [field for field in fields if field["value"]]}
    version = {"termsOfUse": subject.licence, "metadataBlocks": {"citation": citation}}
    return {"datasetVersion": without_gaps(version)}


def dataverse_files(files: Sequence[PublishedFile]) -> list[dict[str, Any]]:
    """Return what is said of each file when it is added, in the order of the files."""
    said = {"categories": ["Data"], "restrict": False}
    return [{"filename": file.name, "description": file.purpose[0], **said} for file in files]


def _dataverse_author(creator: Creator) -> dict[str, Any]:
    scheme = {"authorIdentifierScheme": "ORCID", "authorIdentifier": creator.orcid} if creator.orcid else {}
    return {"authorName": creator.name, "authorAffiliation": creator.affiliation, **scheme}


def _field(name: str, value: str | Sequence[Any], kind: str = "primitive") -> dict[str, Any]:
    return {"typeName": name, "multiple": not isinstance(value, str), "typeClass": kind, "value": value}


def _compound(name: str, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a field of several parts, each without the parts that nothing was said of."""
    said = [
        {part: _field(part, text, _PARTS.get(part, "primitive")) for part, text in each.items() if text}
        for each in entries
    ]
    return _field(name, [each for each in said if each], "compound")


def invenio_record(release: Release) -> dict[str, Any]:
    """Return a draft record of InvenioRDM, on which Zenodo and others run."""
    subject = Subject(release)
    dataset, more = subject.dataset, subject.more
    rights: dict[str, Any] = {"title": {"en": dataset.license}, "link": subject.licence_address}
    if subject.spdx:
        rights = {"id": subject.spdx.lower()}
    guarantee = _paragraphs(subject.guarantee)
    metadata = {
        "resource_type": {"id": "dataset"},
        "title": subject.title,
        "publication_date": subject.date,
        "creators": [_invenio_creator(creator) for creator in more.creators],
        "publisher": more.publisher,
        "description": _paragraphs([dataset.description]) or guarantee,
        "additional_descriptions": [{"description": _noise(subject) + guarantee, "type": {"id": "methods"}}],
        "rights": [without_gaps(rights)] if dataset.license else None,
        "subjects": [{"subject": word} for word in (*more.keywords, "differential privacy")],
        "languages": [{"id": code} for code in map(three_letters, more.languages) if code],
        "dates": [{"date": subject.period, "type": {"id": "collected"}}] if subject.period else None,
        "version": subject.number,
        "related_identifiers": [
            {
                "identifier": work.identifier,
                "scheme": "doi" if work.is_doi else "url",
                "relation_type": {"id": work.relation.lower()},
            }
            for work in more.related
        ],
        "locations": {"features": [{"place": place} for place in more.spatial]} if more.spatial else None,
    }
    return without_gaps(
        {
            "access": {"record": "public", "files": "public"},
            "files": {"enabled": True},
            "metadata": without_gaps(metadata),
            "pids": {"doi": {"identifier": more.doi, "provider": "external"}} if more.doi else None,
        }
    )


def _invenio_creator(creator: Creator) -> dict[str, Any]:
    """Return a creator; a person's family name stands before a comma, or behind the last space."""
    who: dict[str, Any] = {"type": "organizational", "name": creator.name}
    if creator.orcid:
        before, comma, behind = creator.name.partition(",")
        given, _, family = (behind, comma, before) if comma else creator.name.rpartition(" ")
        known = [{"scheme": "orcid", "identifier": creator.orcid}]
        who = {"type": "personal", "family_name": family.strip(), "given_name": given.strip(), "identifiers": known}
    belongs = [{"name": creator.affiliation}] if creator.affiliation else None
    return without_gaps({"person_or_org": without_gaps(who), "affiliations": belongs})


def _noise(subject: Subject) -> str:
    """Return HTML that says which noise is on what: a sentence for everybody, then the exact facts one by one."""
    if subject.release.second_moments is None:
        said = "Random noise was added to every value before publication. By column:"
    else:
        histograms = "a histogram of each column and to " * (subject.release.margins is not None)
        noisy = f"{histograms}the columns' second moments"
        said = f"Random noise was added to {noisy}, over all rows, before publication. Exactly:"
    facts = "".join(f"<li>{escape(fact, quote=False)}</li>" for fact in subject.noise)
    return f"<p>{said}</p><ul>{facts}</ul>"


def _paragraphs(sentences: Sequence[str]) -> str:
    """Return HTML, in which no text of the signer acts."""
    return "".join(f"<p>{escape(sentence, quote=False)}</p>" for sentence in sentences if sentence)
