"""A forecast of what a researcher could still see in a release; it reads no private value and spends nothing."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.forecast.refusal import refuse_pointless
else:
    __getattr__, __dir__ = import_on_demand(__name__)
