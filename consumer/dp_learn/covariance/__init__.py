"""The debiased covariance: moments of the noisy rows or a released matrix, their errors, and how sources are pooled."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.covariance.estimate import debias_covariance
else:
    __getattr__ = import_on_demand(__name__)
