"""The publisher's side: raw rows in, one signed bundle of noisy rows out."""

from dp_bundle.lazy import import_on_demand as _import_on_demand

TYPE_CHECKING = False  # typing's own takes longer to import than all the rest here
if TYPE_CHECKING:
    from dp_publish.policy import Policy
    from dp_publish.release import Receipt, publish

__all__ = ["Policy", "Receipt", "publish"]

__getattr__ = _import_on_demand(
    __name__,
    {"Policy": "dp_publish.policy", "Receipt": "dp_publish.release", "publish": "dp_publish.release"},
)
