"""A release in words for people, and in the descriptors that portals read."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.describe.dcat import dcat_context, dcat_dataset, dcat_document
    from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember
    from dp_bundle.describe.schema_org import schema_org_document
    from dp_bundle.describe.sentences import (
        REPLACEMENT,
        describe_bounds,
        describe_gaps,
        describe_guarantee,
        describe_moments,
        describe_noise,
        describe_size,
        describe_total,
    )
    from dp_bundle.describe.subject import PARQUET, TAR, PublishedFile, licence_address, licence_gap, spdx_licence
else:
    __getattr__ = import_on_demand(__name__)
