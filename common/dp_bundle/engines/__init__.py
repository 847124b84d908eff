"""What runs many tasks of one kind at once: every core of this machine."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.engines.batches import map_batches
    from dp_bundle.engines.threads import Threads
else:
    __getattr__ = import_on_demand(__name__)
