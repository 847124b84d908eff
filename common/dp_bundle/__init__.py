"""The wire format of a release: what a publisher writes and a researcher or portal verifies."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.base.errors import BundleError, DpGraphError
    from dp_bundle.bundle.opened import Bundle
    from dp_bundle.bundle.reading import open_bundle, open_bundles
else:
    __getattr__, __dir__ = import_on_demand(__name__)

__all__ = ["Bundle", "BundleError", "DpGraphError", "open_bundle", "open_bundles"]
