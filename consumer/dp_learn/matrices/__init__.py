"""Symmetric matrices: LAPACK, checks, the nearest semidefinite matrix, and repairs."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.matrices.acceleration import Anderson, balancing_factor
    from dp_learn.matrices.checks import check_alpha, check_covariance, check_free_diagonal, check_weights
    from dp_learn.matrices.labels import align, align_rows, align_square, column_labels, labels_of
    from dp_learn.matrices.linalg import (
        FEW,
        Array,
        FloatArray,
        add_product,
        dense,
        eigendecomposition,
        few_threads,
        is_positive_definite,
        logdet,
        median_above_diagonal,
        negative_part,
        sandwich,
        scale_columns,
        smallest_eigenvalue,
        sparse_if_worth_it,
    )
    from dp_learn.matrices.nearest_psd import nearest_psd_max_norm, project_max_norm
    from dp_learn.matrices.repair import Repair, repair_covariance
    from dp_learn.matrices.repair_methods import RepairMethod
    from dp_learn.matrices.tails import chi_squared_quantiles, normal_tails
else:
    __getattr__ = import_on_demand(__name__)
