"""Noise on rows: the mechanism, its calibration and guarantee, and private bounds."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.rows.calibration import Shares, calibrate, set_noise, share_mu
    from dp_publish.rows.guarantee import conditional_mu, cost_of_rows, guarantee_of_rows
    from dp_publish.rows.mechanism import add_noise
    from dp_publish.rows.noise import ENOUGH_SIGMA, Bounds, losses_of
    from dp_publish.rows.private_bounds import (
        count_values,
        find_bounds,
        half_width_for,
        merge_values,
        rows_for_search,
    )
    from dp_publish.rows.private_centers import find_centers, steps_for, sum_complete_rows
else:
    __getattr__ = import_on_demand(__name__)
