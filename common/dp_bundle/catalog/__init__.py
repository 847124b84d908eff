"""A portal: a static site of a folder of bundles, each with a privacy label, and a preview of it."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.catalog.making import Settings, Summary, make_catalog
    from dp_bundle.catalog.preview import serve_site
else:
    __getattr__ = import_on_demand(__name__)
