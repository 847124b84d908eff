"""A release as DataCite metadata, with which a DOI is registered.

References
----------
DataCite Metadata Schema 4.5 (schema.datacite.org/meta/kernel-4.5), with "(:unav)" of its appendix 3 for what is
mandatory and was not said.
"""

from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.subject import PublishedFile, Subject, without_gaps
from dp_bundle.manifest.dataset import THEMES, Creator
from dp_bundle.manifest.release import Release

_UNKNOWN = "(:unav)"


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
