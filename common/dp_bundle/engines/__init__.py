"""What runs many tasks of one kind at once: the cores of this machine, or many machines."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.engines.batches import map_batches, map_in_order
    from dp_bundle.engines.dask import Dask
    from dp_bundle.engines.engine import Engine
    from dp_bundle.engines.threads import Threads
else:
    __getattr__ = import_on_demand(__name__)
