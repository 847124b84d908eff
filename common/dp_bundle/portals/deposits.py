"""A release in the words of repositories: CKAN, Zenodo's deposits, and InvenioRDM.

References
----------
CKAN API guide, `package_create`. Zenodo REST API, "Deposit metadata". InvenioRDM, "Metadata reference".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from dp_bundle.describe.sentences import describe_guarantee, describe_total
from dp_bundle.describe.subject import (
    PublishedFile,
    description,
    details,
    email,
    file_purpose,
    homepage,
    identifier,
    licence_address,
    noise,
    slug,
    spdx_licence,
    three_letters,
    title,
    without_gaps,
)
from dp_bundle.manifest.dataset import DOI, Creator
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
    dataset, more = release.dataset, details(release)
    people = {
        "author": "; ".join(creator.name for creator in more.creators),
        "maintainer": more.publisher or dataset.contact,
        "maintainer_email": email(dataset),
    }
    facts = {
        "guarantee": " ".join(describe_guarantee(release)),
        "spent_so_far": describe_total(release),
        "noise": " ".join(noise(release)),
        "signer": signer,
        "identifier": identifier(release),
        "licence": licence_address(dataset) or dataset.license,
        "temporal_coverage": f"{more.temporal.start}/{more.temporal.end}" if more.temporal else "",
        "spatial_coverage": ", ".join(more.spatial),
        "language": ", ".join(more.languages),
    }
    return without_gaps(
        {
            "name": slug(dataset.name),
            "title": title(release),
            "notes": description(release),
            "license_id": _CKAN_LICENCES.get(spdx_licence(dataset), "notspecified"),
            "url": homepage(dataset),
            "version": str(release.lineage.number),
            **people,
            "tags": [{"name": word} for word in dict.fromkeys(filter(None, map(_tag, more.keywords)))],
            "extras": [{"key": key, "value": value} for key, value in facts.items() if value],
            "resources": [_resource(file) for file in files],
        }
    )


def zenodo_deposit(release: Release) -> dict[str, Any]:
    """Return the metadata of a deposit of Zenodo's own interface."""
    dataset, more = release.dataset, details(release)
    dates = {"start": more.temporal.start, "end": more.temporal.end, "type": "Collected"} if more.temporal else None
    related = [
        {"identifier": work.identifier, "relation": work.relation[0].lower() + work.relation[1:]}
        for work in more.related
    ]
    metadata = {
        "upload_type": "dataset",
        "title": title(release),
        "description": _paragraphs([dataset.description, *describe_guarantee(release), describe_total(release)]),
        "creators": [
            without_gaps({"name": each.name, "affiliation": each.affiliation, "orcid": each.orcid})
            for each in more.creators
        ],
        "access_right": "open",
        "license": spdx_licence(dataset).lower(),
        "publication_date": release.lineage.created[:10],
        "version": str(release.lineage.number),
        "doi": more.doi,
        "keywords": [*more.keywords, "differential privacy"],
        "language": three_letters(more.languages[0]) if more.languages else "",
        "related_identifiers": related,
        "locations": [{"place": place} for place in more.spatial],
        "dates": [dates] if dates else None,
        "method": _noise(release),
    }
    return {"metadata": without_gaps(metadata)}


def invenio_record(release: Release) -> dict[str, Any]:
    """Return a draft record of InvenioRDM, on which Zenodo and others run."""
    dataset, more = release.dataset, details(release)
    licence = spdx_licence(dataset)
    rights = (
        {"id": licence.lower()} if licence else {"title": {"en": dataset.license}, "link": licence_address(dataset)}
    )
    guarantee = _paragraphs([*describe_guarantee(release), describe_total(release)])
    languages = filter(None, map(three_letters, more.languages))
    period = (
        {"date": f"{more.temporal.start}/{more.temporal.end}", "type": {"id": "collected"}} if more.temporal else None
    )
    metadata = {
        "resource_type": {"id": "dataset"},
        "title": title(release),
        "publication_date": release.lineage.created[:10],
        "creators": [_invenio_creator(creator) for creator in more.creators],
        "publisher": more.publisher,
        "description": _paragraphs([dataset.description]) if dataset.description else guarantee,
        "additional_descriptions": [
            {"description": _noise(release) + guarantee, "type": {"id": "methods"}},
        ],
        "rights": [without_gaps(rights)] if dataset.license else None,
        "subjects": [{"subject": word} for word in (*more.keywords, "differential privacy")],
        "languages": [{"id": code} for code in languages],
        "dates": [period] if period else None,
        "version": str(release.lineage.number),
        "related_identifiers": [
            {
                "identifier": work.identifier,
                "scheme": "doi" if DOI.fullmatch(work.identifier) else "url",
                "relation_type": {"id": work.relation.lower()},
            }
            for work in more.related
        ],
        "locations": {"features": [{"place": place} for place in more.spatial]} if more.spatial else None,
    }
    pids = {"doi": {"identifier": more.doi, "provider": "external"}} if more.doi else None
    return without_gaps(
        {
            "access": {"record": "public", "files": "public"},
            "files": {"enabled": True},
            "metadata": without_gaps(metadata),
            "pids": pids,
        }
    )


def split_name(creator: Creator) -> tuple[str, str]:
    """Return the family name and the given names of a person: around a comma, or before the last space."""
    if "," in creator.name:
        family, _, given = creator.name.partition(",")
    else:
        given, _, family = creator.name.rpartition(" ")
    return family.strip(), given.strip()


def _invenio_creator(creator: Creator) -> dict[str, Any]:
    who: dict[str, Any] = {"type": "organizational", "name": creator.name}
    if creator.orcid:
        family, given = split_name(creator)
        known = [{"scheme": "orcid", "identifier": creator.orcid}]
        who = {"type": "personal", "family_name": family, "given_name": given, "identifiers": known}
    return without_gaps(
        {
            "person_or_org": without_gaps(who),
            "affiliations": [{"name": creator.affiliation}] if creator.affiliation else None,
        }
    )


def _resource(file: PublishedFile) -> dict[str, Any]:
    purpose, form = file_purpose(file)
    return {
        "name": file.path.rpartition("/")[2],
        "description": purpose,
        "format": form,
        "mimetype": file.media_type,
        "size": file.size,
        "hash": f"sha256:{file.sha256}",
    }


def _tag(word: str) -> str:
    """Return a keyword as CKAN takes it: 2 to 100 letters, digits, spaces, -, _ and ."""
    found = " ".join(re.sub(r"[^\w .-]+", " ", word).split())[:100]
    return found if len(found) > 1 else ""


def _noise(release: Release) -> str:
    """Return HTML that says which noise is on what: a sentence for everybody, then the exact facts one by one."""
    if release.second_moments is None:
        said = "Random noise was added to every value before publication. By column:"
    else:
        said = "Random noise was added to the columns' second moments, over all rows, before publication. Exactly:"
    facts = "".join(f"<li>{escape(fact, quote=False)}</li>" for fact in noise(release))
    return f"<p>{said}</p><ul>{facts}</ul>"


def _paragraphs(sentences: Sequence[str]) -> str:
    """Return HTML, in which no text of the signer acts."""
    return "".join(f"<p>{escape(sentence, quote=False)}</p>" for sentence in sentences if sentence)
