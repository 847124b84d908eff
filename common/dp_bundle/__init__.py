"""The wire format of a release: what a publisher writes and a researcher or portal verifies."""

from dp_bundle.lazy import import_on_demand as _import_on_demand

TYPE_CHECKING = False  # typing's own takes longer to import than all the rest here
if TYPE_CHECKING:
    from dp_bundle.bundle import Bundle, open_bundle, open_bundles
    from dp_bundle.errors import BundleError, DpGraphError

__all__ = ["Bundle", "BundleError", "DpGraphError", "open_bundle", "open_bundles"]

__getattr__ = _import_on_demand(
    __name__,
    {
        "Bundle": "dp_bundle.bundle",
        "BundleError": "dp_bundle.errors",
        "DpGraphError": "dp_bundle.errors",
        "open_bundle": "dp_bundle.bundle",
        "open_bundles": "dp_bundle.bundle",
    },
)
