"""A release in two registries: as DataCite metadata, with which a DOI is registered, and as a deployment of privacy.

References
----------
DataCite Metadata Schema 4.5 (schema.datacite.org/meta/kernel-4.5), with "(:unav)" of its appendix 3 for what is
mandatory and was not said.

Differential Privacy Deployments Registry (registry.opendp.org/deployments-registry), whose records are YAML files of
github.com/opendp/deployments-registry-data; this layout is that of its records of September 2026, as
deployments/transluce_mhusage.yaml. Dwork, Kohli & Mulligan (2019), "Differential privacy in practice: expose
your epsilons!". Bun & Steinke (2016) for rho = mu^2 / 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dp_bundle.base.quoting import counted, listed
from dp_bundle.describe.sentences import describe_gaps, describe_guarantee, describe_total
from dp_bundle.describe.subject import PublishedFile, Subject, slug, without_gaps
from dp_bundle.manifest.columns import source_names
from dp_bundle.manifest.dataset import THEMES, Creator
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.release import Release

_UNKNOWN = "(:unav)"
_SAME_NUMBER = "the number of rows is the same"
_ADJACENT = {True: f"the content of one {{}} is replaced; {_SAME_NUMBER}", False: "one {} comes or goes"}


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


def registry_record(release: Release) -> dict[str, Any]:
    """Return a record of a deployment; what only the publisher can say, such as its use, is left for her to fill in."""
    guarantee = release.guarantee
    subject, names, total = Subject(release), source_names(release.columns), describe_total(release)
    dataset, more = subject.dataset, subject.more
    sources = [subject.identifier, subject.homepage, *(work.address for work in more.related)]
    deployment = {
        "basic": {
            "name": subject.title,
            "data_curators": [{"data_curator_name": more.publisher or dataset.creator or "", "data_curator_type": ""}],
            "intended_use": "",
            "data_product_type": "Dataset" if release.kind == "rows" else "Summary statistics",
            "data_product_region": ", ".join(more.spatial),
            "description": dataset.description or f"Release {release.lineage.number} of {release.series}.",
            "publication_date": subject.date,
            "data_product_sector": "",
        },
        "dp_variant": {
            "variant_name": _variant(guarantee),
            "data_domain": f"Tables of {counted(len(names), 'column')}: {listed(names)}.",
            "unprotected_quantities": "; ".join(guarantee.public),
        },
        "privacy_loss": _privacy_loss(release, guarantee),
        "deployment_model": {
            "model_name": "Central",
            "release_type": "One release",
            "release_type_details": total,
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {"post_processing": "None before publication.", "composition": total},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": " ".join(["Values were clipped.", *describe_gaps(release)]),
            "mechanisms": " ".join([*subject.noise, f"Software: {release.software}."]),
            "justification": "",
        },
        "administrative": {
            "sources": "\n".join(f"- {each}" for each in sources if each),
            "registry_authors": [creator.name for creator in more.creators] or [""],
        },
    }
    return {"url_slug": slug(dataset.name), "status": "Draft", "tier": 3, "deployment": deployment}


def _variant(guarantee: Guarantee) -> str:
    if guarantee.epsilon is None:
        return "Zero-concentrated DP"
    return "Approximate DP" if guarantee.excepted_delta else "Pure DP"


def _privacy_loss(release: Release, guarantee: Guarantee) -> dict[str, Any]:
    """Return the parameters: rho, and epsilon at the largest stated delta that is below 1 / (10 rows)."""
    parameters: dict[str, float | None] = {"epsilon": guarantee.epsilon, "delta": guarantee.excepted_delta or None}
    if guarantee.epsilon is None:
        small = [point for point in guarantee.epsilon_delta if point.delta <= 0.1 / release.n_rows]
        chosen = max(small, key=lambda point: point.delta, default=min(guarantee.epsilon_delta, key=lambda p: p.delta))
        parameters = {"rho": guarantee.rho, "epsilon": chosen.epsilon, "delta": chosen.delta}
    unit = f"all rows of one {guarantee.entity}" if guarantee.unit == "entity" else guarantee.unit
    adjacent = _ADJACENT[guarantee.neighbours.n_rows_public].format(unit)
    if guarantee.unit == "change":
        unit = "change of one cell by as much as its column states"
        adjacent = f"they differ by a {unit}, or in any one cell of a column that states nothing; {_SAME_NUMBER}"
    return {
        "privacy_unit": unit,
        "privacy_unit_details": f"Two tables are adjacent if {adjacent}.",
        "privacy_parameters": without_gaps(parameters),
        "privacy_parameters_details": " ".join(describe_guarantee(release)),
    }
