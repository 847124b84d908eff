"""Noisy second moments: scaling, sensitivity, the mechanisms and the choice among them, cost and guarantee."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.covariance.calibration import ball_radius, set_mechanism
    from dp_publish.covariance.entry_noise import correlation_noise, scaled_variance
    from dp_publish.covariance.error_estimate import estimate_errors
    from dp_publish.covariance.exact_moments import ExactMoments, merge, moments_of_batch
    from dp_publish.covariance.guarantee import cost_of_moments, guarantee_of_moments, moment_columns
    from dp_publish.covariance.mechanisms.base import Batches, Mechanism, NoisyMoments, OneSum, Rows
    from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors, complement
    from dp_publish.covariance.mechanisms.gaussian import Gaussian
    from dp_publish.covariance.mechanisms.kapralov_talwar import KapralovTalwar
    from dp_publish.covariance.mechanisms.noisy_sums import NoisySums
    from dp_publish.covariance.mechanisms.pure import PureMechanism
    from dp_publish.covariance.mechanisms.registry import mechanism_named
    from dp_publish.covariance.mechanisms.spectral import SpectralMechanism, eigenvalue_grid
    from dp_publish.covariance.mechanisms.two_round import TwoRound
    from dp_publish.covariance.mechanisms.wishart import Wishart
    from dp_publish.covariance.mechanisms.wishart_curve import delta_of_wishart
    from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
    from dp_publish.covariance.scaling import GRID_BITS, MAX_FEATURES, Scaling, scaling_for
    from dp_publish.covariance.two_rounds.places import Place
    from dp_publish.covariance.two_rounds.steps import Choice, NoisyLengths, Step
    from dp_publish.covariance.two_rounds.thresholds import share_shortened
else:
    __getattr__ = import_on_demand(__name__)
