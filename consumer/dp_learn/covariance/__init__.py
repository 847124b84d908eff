"""The debiased covariance: moments of the noisy rows or a released matrix, their errors, and how sources are pooled."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.covariance.bilinear_forms import FormErrors
    from dp_learn.covariance.collinear import (
        describe_collinear,
        describe_perhaps_collinear,
        find_collinear,
        find_perhaps_collinear,
    )
    from dp_learn.covariance.consistency import (
        find_contradictions,
        find_moment_contradictions,
        find_round_contradictions,
    )
    from dp_learn.covariance.debias import NoisyCovariance, debias_covariance
    from dp_learn.covariance.drowned import clear_columns
    from dp_learn.covariance.entry_variances import mechanism_entry_variances
    from dp_learn.covariance.estimate import PooledCovariance, keep_columns
    from dp_learn.covariance.levels import Levels
    from dp_learn.covariance.moments import Moments, estimate_moments
    from dp_learn.covariance.node_columns import NodeColumns, choose_node_columns
    from dp_learn.covariance.penalties import (
        chance_alpha,
        null_standard_errors,
        penalty_weights,
        typical_errors,
        universal_penalty,
    )
    from dp_learn.covariance.pooling import effective_rows
    from dp_learn.covariance.sample import Sample, Split
    from dp_learn.covariance.sources import (
        CovarianceSource,
        RowSource,
        bundle_source,
        counts_rows,
        share_rows,
        table_rows,
    )
    from dp_learn.covariance.standard_errors import form_errors, form_variances, mechanism_errors
    from dp_learn.covariance.two_rounds import RoundMatrices
else:
    __getattr__ = import_on_demand(__name__)
