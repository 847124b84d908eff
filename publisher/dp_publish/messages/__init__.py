"""Messages to the publisher: of a release and of the ledger, for a person and for a machine."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.messages.following import logged_to, shown_on_terminal, warnings_told
    from dp_publish.messages.ledger import (
        describe_ledger,
        describe_restoration,
        describe_surprises,
        ledger_document,
        require_known,
        restoration_document,
    )
    from dp_publish.messages.plan import describe_plan, plan_document
    from dp_publish.messages.release import describe_receipt, receipt_document
else:
    __getattr__ = import_on_demand(__name__)
