"""A release as DataCite metadata, with which a DOI is registered.

References
----------
DataCite Metadata Schema 4.5 (schema.datacite.org/meta/kernel-4.5), with "(:unav)" of its appendix 3 for what is
mandatory and was not said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.sentences import describe_guarantee, describe_total
from dp_bundle.describe.subject import (
    PublishedFile,
    details,
    homepage,
    licence_address,
    noise,
    orcid_address,
    spdx_licence,
    title,
    without_gaps,
)
from dp_bundle.manifest.dataset import DOI, THEMES, Creator, Related
from dp_bundle.manifest.release import Release

UNKNOWN = "(:unav)"


def datacite_document(release: Release, files: Sequence[PublishedFile]) -> dict[str, Any]:
    """Return the attributes of a DOI in DataCite's JSON."""
    dataset, more = release.dataset, details(release)
    about = {"description": dataset.description, "descriptionType": "Abstract"}
    methods = " ".join([*noise(release), *describe_guarantee(release), describe_total(release)])
    themes = [{"subject": THEMES[code], "subjectScheme": "EU Vocabularies data-theme"} for code in more.themes]
    document = {
        "doi": more.doi,
        "creators": [*map(_creator, more.creators)] or [{"name": UNKNOWN}],
        "titles": [{"title": title(release)}],
        "publisher": {"name": more.publisher or UNKNOWN},
        "publicationYear": release.lineage.created[:4],
        "types": {"resourceTypeGeneral": "Dataset", "resourceType": f"Differentially private {_kind(release)}"},
        "subjects": [*({"subject": word} for word in more.keywords), *themes],
        "dates": _dates(release),
        "language": more.languages[0] if more.languages else None,
        "alternateIdentifiers": [
            {
                "alternateIdentifier": f"{release.series}, release {release.lineage.number}",
                "alternateIdentifierType": "dpgraph release",
            }
        ],
        "relatedIdentifiers": [_related(work) for work in more.related],
        "sizes": [f"{sum(file.size for file in files)} bytes"] if files else None,
        "formats": list(dict.fromkeys(file.media_type for file in files)),
        "version": str(release.lineage.number),
        "rightsList": [_rights(release)] if dataset.license else None,
        "descriptions": [
            *([about] if dataset.description else []),
            {"description": methods, "descriptionType": "Methods"},
        ],
        "geoLocations": [{"geoLocationPlace": place} for place in more.spatial],
        "url": homepage(dataset),
        "schemaVersion": "http://datacite.org/schema/kernel-4",
    }
    return without_gaps(document)


def _kind(release: Release) -> str:
    return "rows" if release.second_moments is None else "second moments"


def _creator(creator: Creator) -> dict[str, Any]:
    known = {
        "nameIdentifier": orcid_address(creator),
        "nameIdentifierScheme": "ORCID",
        "schemeUri": "https://orcid.org",
    }
    return without_gaps(
        {
            "name": creator.name,
            "nameType": "Personal" if creator.orcid else None,
            "nameIdentifiers": [known] if creator.orcid else None,
            "affiliation": [{"name": creator.affiliation}] if creator.affiliation else None,
        }
    )


def _dates(release: Release) -> list[dict[str, str]]:
    period, dates = details(release).temporal, [{"date": release.lineage.created, "dateType": "Issued"}]
    if period:
        about = "the time that the data are about"
        length = min(len(period.start), len(period.end))  # a range is of years, of months or of days
        covered = f"{period.start[:length]}/{period.end[:length]}"
        dates.append({"date": covered, "dateType": "Other", "dateInformation": about})
    return dates


def _related(work: Related) -> dict[str, str]:
    kind = "DOI" if DOI.fullmatch(work.identifier) else "URL"
    return {
        "relatedIdentifier": work.identifier,
        "relatedIdentifierType": kind,
        "relationType": work.relation,
    }


def _rights(release: Release) -> dict[str, str]:
    known = spdx_licence(release.dataset)
    scheme = {"rightsIdentifier": known, "rightsIdentifierScheme": "SPDX", "schemeUri": "https://spdx.org/licenses/"}
    rights = {"rights": release.dataset.license, "rightsUri": licence_address(release.dataset)}
    return without_gaps({**rights, **(scheme if known else {})})
