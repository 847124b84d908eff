"""Publication: a table becomes a signed bundle, paid for first; all of it, or nothing."""

from dp_bundle.startup.lazy import import_on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dp_publish.release.aside import publish_aside
    from dp_publish.release.publishing import Receipt, publish
else:
    __getattr__ = import_on_demand(__name__)
