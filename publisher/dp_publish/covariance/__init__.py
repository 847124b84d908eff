"""Noisy second moments: scaling, sensitivity, the choice of a mechanism, calibration and guarantee."""

from dp_bundle.startup.lazy import import_on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dp_publish.covariance.calibration import (
        MechanismSetting,
        draw_moments,
        entry_variance,
        insecure_draw,
        mu_of_rows,
        set_mechanism,
        unit_mu_of,
    )
    from dp_publish.covariance.error_estimate import estimate_errors
    from dp_publish.covariance.guarantee import cost_of_moments, guarantee_of_moments, moment_columns
    from dp_publish.covariance.mechanisms.base import NoisyMoments
    from dp_publish.covariance.mechanisms.eigenvectors import (
        BY_EIGENVECTORS,
        EXCEPTED_DELTA,
        complement,
        eigenvalue_grid,
        expected_coefficients,
    )
    from dp_publish.covariance.mechanisms.wishart_curve import degrees_tight, delta_of_wishart
    from dp_publish.covariance.scaling import GRID_BITS, MAX_FEATURES, Scaling, scaling_for
    from dp_publish.covariance.second_moments import SecondMoments, merge, moments_of_batch
    from dp_publish.covariance.sensitivity import nuclear_sensitivity
else:
    __getattr__ = import_on_demand(__name__)
