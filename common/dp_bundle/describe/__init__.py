"""A release in words for people, and in the descriptors that portals read."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.describe.card import hugging_face_card, privacy_label
    from dp_bundle.describe.datacite import datacite_document
    from dp_bundle.describe.dataverse import dataverse_dataset, dataverse_files
    from dp_bundle.describe.dcat import dcat_context, dcat_dataset, dcat_document
    from dp_bundle.describe.deposits import ckan_package, invenio_record, zenodo_deposit
    from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember, file_sizes
    from dp_bundle.describe.guessing import chance_in_all, chance_of_guess, describe_guess, describe_guess_in_all
    from dp_bundle.describe.meanings import column_meanings, describe_sources, first_columns
    from dp_bundle.describe.portal_json import croissant_document, frictionless_document
    from dp_bundle.describe.registry import registry_record
    from dp_bundle.describe.ro_crate import ro_crate_document
    from dp_bundle.describe.schema_org import schema_org_document
    from dp_bundle.describe.sentences import (
        REPLACEMENT,
        SEVERAL_CELLS,
        count_columns,
        describe_bounds,
        describe_gaps,
        describe_guarantee,
        describe_moments,
        describe_noise,
        describe_several,
        describe_size,
        describe_total,
        describe_unprotected,
    )
    from dp_bundle.describe.subject import (
        PARQUET,
        SIGNATURES,
        TAR,
        PublishedFile,
        licence_address,
        licence_gap,
        portal_gaps,
        spdx_licence,
    )
    from dp_bundle.describe.yaml import to_yaml
else:
    __getattr__ = import_on_demand(__name__)
