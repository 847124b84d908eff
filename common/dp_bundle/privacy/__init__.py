"""mu, epsilon and delta and their inverses, and the noise that a number carries, with its exact variance."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.privacy.discrete_curve import DiscreteLoss, least_deltas, likely_worst
    from dp_bundle.privacy.discrete_mu import discrete_gaussian_mu, discrete_gaussian_sigma, largest_mu_for_rho
    from dp_bundle.privacy.neighbours import Neighbours
    from dp_bundle.privacy.noise import (
        MAX_SIGMA,
        MIN_SIGMA,
        check_laplace_scale,
        check_sigma,
        discrete_gaussian_fourth_cumulant,
        discrete_gaussian_variance,
        discrete_laplace_variance,
        rounded_gaussian_fourth_cumulant,
        rounded_gaussian_variance,
    )
    from dp_bundle.privacy.normal import gaussian_delta, normal_quantile, normal_tail, scaled_tail
    from dp_bundle.privacy.pure_epsilon import epsilon_for_implied_mu, mu_implied_by_epsilon
else:
    __getattr__ = import_on_demand(__name__)
