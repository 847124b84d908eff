"""Places where named bytes lie: a local folder, an object store, or a web server that is only read."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.store.cache import Cache
    from dp_bundle.store.opening import open_store, require_create_only
    from dp_bundle.store.pace import LEAST_RATE, Pace
    from dp_bundle.store.places import Place, RemotePath, Store, is_uri, located, plain_uri, require_name
    from dp_bundle.store.remote_file import RemoteFile, open_remote
else:
    __getattr__ = import_on_demand(__name__)
