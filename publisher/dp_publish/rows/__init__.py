"""Noise on rows: the mechanism, its calibration and guarantee, and private bounds."""

from dp_bundle.startup.lazy import import_on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dp_publish.rows.calibration import ENOUGH_SIGMA, Shares, account, calibrate, cost_of, set_noise, share_mu
    from dp_publish.rows.mechanism import add_noise
    from dp_publish.rows.private_bounds import Bounds, count_magnitudes, find_bounds
    from dp_publish.rows.private_centers import find_centers, steps_for, sum_complete_rows
else:
    __getattr__ = import_on_demand(__name__)
