"""A release as the JSON with which a Dataverse makes a dataset.

References
----------
Dataverse guides, "Native API: Create a Dataset in a Dataverse Collection", and the citation metadata block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.sentences import describe_guarantee, describe_total
from dp_bundle.describe.subject import (
    PublishedFile,
    description,
    details,
    doi_address,
    email,
    file_purpose,
    homepage,
    licence_address,
    noise,
    title,
    without_gaps,
)
from dp_bundle.manifest.dataset import Creator
from dp_bundle.manifest.release import Release

_SUBJECTS = {  # of Dataverse's list, for themes
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


def dataverse_dataset(release: Release) -> dict[str, Any]:
    """Return the citation block, with the guarantee among the notes and the licence among the terms."""
    dataset, more = release.dataset, details(release)
    subjects = list(dict.fromkeys(_SUBJECTS.get(code, "Other") for code in more.themes)) or ["Other"]
    contact = {"datasetContactName": dataset.contact or more.publisher, "datasetContactEmail": email(dataset)}
    about = {"dsDescriptionValue": description(release), "dsDescriptionDate": release.lineage.created[:10]}
    fields = [
        _primitive("title", title(release)),
        _compound("author", [_author(creator) for creator in more.creators]),
        _compound("datasetContact", [contact]),
        _compound("dsDescription", [about]),
        {"typeName": "subject", "multiple": True, "typeClass": "controlledVocabulary", "value": subjects},
        _compound("keyword", [{"keywordValue": word} for word in more.keywords]),
        _compound("distributor", [{"distributorName": more.publisher}]),
        _primitive("distributionDate", release.lineage.created[:10]),
        _compound(
            "timePeriodCovered",
            [{"timePeriodCoveredStart": more.temporal.start, "timePeriodCoveredEnd": more.temporal.end}]
            if more.temporal
            else [],
        ),
        _primitive("alternativeURL", homepage(dataset)),
        _primitive("notesText", " ".join([*describe_guarantee(release), describe_total(release), *noise(release)])),
        {
            "typeName": "relatedMaterial",
            "multiple": True,
            "typeClass": "primitive",
            "value": [f"{work.relation} {doi_address(work.identifier)}" for work in more.related],
        },
    ]
    citation = {"displayName": "Citation Metadata", "fields": [field for field in fields if field["value"]]}
    version = {
        "termsOfUse": licence_address(dataset) or dataset.license,
        "metadataBlocks": {"citation": citation},
    }
    return {"datasetVersion": without_gaps(version)}


def dataverse_files(files: Sequence[PublishedFile]) -> list[dict[str, Any]]:
    """Return what is said of each file when it is added, in the order of the files."""
    return [
        {
            "filename": file.path.rpartition("/")[2],
            "description": file_purpose(file)[0],
            "categories": ["Data"],
            "restrict": False,
        }
        for file in files
    ]


def _author(creator: Creator) -> dict[str, str]:
    scheme = {"authorIdentifierScheme": "ORCID", "authorIdentifier": creator.orcid} if creator.orcid else {}
    return {"authorName": creator.name, "authorAffiliation": creator.affiliation, **scheme}


def _primitive(name: str, value: str) -> dict[str, Any]:
    return {"typeName": name, "multiple": False, "typeClass": "primitive", "value": value}


def _compound(name: str, entries: Sequence[dict[str, str]]) -> dict[str, Any]:
    """Return a field of several parts, each without the parts that nothing was said of."""
    said = [{part: _part(part, text) for part, text in entry.items() if text} for entry in entries]
    return {"typeName": name, "multiple": True, "typeClass": "compound", "value": [entry for entry in said if entry]}


def _part(name: str, text: str) -> dict[str, Any]:
    kind = "controlledVocabulary" if name == "authorIdentifierScheme" else "primitive"
    return {"typeName": name, "multiple": False, "typeClass": kind, "value": text}
