"""A release as a record for the registry of deployments of differential privacy.

References
----------
Differential Privacy Deployments Registry (registry.opendp.org/deployments-registry), whose records are YAML files of
github.com/opendp/deployments-registry-data; this layout is that of its records of September 2026, as
deployments/transluce_mhusage.yaml. Dwork, Kohli & Mulligan (2019), "Differential privacy in practice: expose
your epsilons!". Bun & Steinke (2016) for rho = mu^2 / 2.
"""

from __future__ import annotations

from typing import Any

from dp_bundle.base.errors import PrivacyError
from dp_bundle.base.quoting import counted, listed
from dp_bundle.describe.sentences import describe_gaps, describe_guarantee, describe_total
from dp_bundle.describe.subject import (
    details,
    doi_address,
    homepage,
    identifier,
    noise,
    slug,
    title,
    without_gaps,
)
from dp_bundle.manifest.columns import source_names
from dp_bundle.manifest.guarantee import Guarantee
from dp_bundle.manifest.release import Release

_SAME_NUMBER = "the number of rows is the same"
_ADJACENT = {True: f"the content of one {{}} is replaced; {_SAME_NUMBER}", False: "one {} comes or goes"}


def registry_record(release: Release) -> dict[str, Any]:
    """Return a record; what only the publisher can say, such as the intended use, is left for her to fill in.

    Raises
    ------
    PrivacyError
        The release states no guarantee.
    """
    guarantee = release.guarantee
    if guarantee is None:
        raise PrivacyError(
            "this release states no guarantee, so that the registry of differential privacy has no place for it: its "
            "noise was scaled to the data themselves"
        )
    names = source_names(release.columns)
    curator = details(release).publisher or release.dataset.creator or ""
    basic = {
        "name": title(release),
        "data_curators": [{"data_curator_name": curator, "data_curator_type": ""}],
        "intended_use": "",
        "data_product_type": "Dataset" if release.kind == "rows" else "Summary statistics",
        "data_product_region": ", ".join(details(release).spatial),
        "description": release.dataset.description or f"Release {release.lineage.number} of {release.series}.",
        "publication_date": release.lineage.created[:10],
        "data_product_sector": "",
    }
    authors = [creator.name for creator in details(release).creators] or [""]
    sources = [
        identifier(release),
        homepage(release.dataset),
        *(doi_address(w.identifier) for w in details(release).related),
    ]
    return {
        "url_slug": slug(release.dataset.name),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": _variant(guarantee),
                "data_domain": f"Tables of {counted(len(names), 'column')}: {listed(names)}.",
                "unprotected_quantities": "; ".join(guarantee.public),
            },
            "privacy_loss": _privacy_loss(release, guarantee),
            "deployment_model": {
                "model_name": "Central",
                "release_type": "One release",
                "release_type_details": describe_total(release),
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {"post_processing": "None before publication.", "composition": describe_total(release)},
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": " ".join(["Values were clipped.", *describe_gaps(release)]),
                "mechanisms": " ".join([*noise(release), f"Software: {release.software}."]),
                "justification": "",
            },
            "administrative": {
                "sources": "\n".join(f"- {each}" for each in sources if each),
                "registry_authors": authors,
            },
        },
    }


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
