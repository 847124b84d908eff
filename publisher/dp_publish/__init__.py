"""The publisher's side: raw rows in, one signed bundle of noisy rows out."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.trust.store import load_key
    from dp_publish.policy.model import Policy
    from dp_publish.release.publishing import Receipt, publish
else:
    __getattr__, __dir__ = import_on_demand(__name__)

__all__ = ["Policy", "Receipt", "load_key", "publish"]
