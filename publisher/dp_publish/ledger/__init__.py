"""The ledger: what was spent on each dataset, and its budgets."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.ledger.budget import Entry
    from dp_publish.ledger.ledger import Ledger, Reservation
    from dp_publish.ledger.opening import open_ledger
    from dp_publish.ledger.restoring import Restoration, restore
else:
    __getattr__ = import_on_demand(__name__)
