"""Exact noise and private choices from secure random bits."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian
else:
    __getattr__, __dir__ = import_on_demand(__name__)
