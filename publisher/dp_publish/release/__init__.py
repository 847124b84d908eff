"""Publication: a table becomes a signed bundle, paid for first; all of it, or nothing."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.release.aside import publish_aside
    from dp_publish.release.beside import require_no_minisig, sign_beside
    from dp_publish.release.cluster import Cluster, dask_cluster
    from dp_publish.release.job import require_job, require_new_job
    from dp_publish.release.preparing import place_for_workers
    from dp_publish.release.publishing import Receipt, publish
    from dp_publish.release.resuming import resume
else:
    __getattr__ = import_on_demand(__name__)
