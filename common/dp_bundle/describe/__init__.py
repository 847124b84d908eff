"""A release in words for people, and in the descriptors that portals read."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember
    from dp_bundle.describe.sentences import (
        REPLACEMENT,
        describe_bounds,
        describe_gaps,
        describe_guarantee,
        describe_moments,
        describe_noise,
        describe_size,
        describe_total,
        round_up,
    )
else:
    __getattr__ = import_on_demand(__name__)
