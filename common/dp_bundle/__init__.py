"""The wire format of a release: what a publisher writes and a researcher or portal verifies."""

from dp_bundle.bundle import Bundle, open_bundle, open_bundles
from dp_bundle.errors import BundleError, DpGraphError

__all__ = ["Bundle", "BundleError", "DpGraphError", "open_bundle", "open_bundles"]
