"""The wire format of a release: what a publisher writes and a researcher or portal verifies."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.base.errors import BundleError as BundleError
    from dp_bundle.base.errors import DpGraphError as DpGraphError
    from dp_bundle.bundle.opened import Bundle as Bundle
    from dp_bundle.bundle.reading import open_bundle as open_bundle
    from dp_bundle.bundle.reading import open_bundles as open_bundles
else:
    __getattr__, __dir__ = import_on_demand(__name__)
