"""The wire format of a release: what a publisher writes and a researcher or portal verifies."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.bundle.opened import Bundle
    from dp_bundle.bundle.reading import open_bundle, open_bundles
    from dp_bundle.errors import BundleError, DpGraphError
else:
    __getattr__ = import_on_demand(__name__)

__all__ = [
    "Bundle",
    "BundleError",
    "DpGraphError",
    "open_bundle",
    "open_bundles",
]
