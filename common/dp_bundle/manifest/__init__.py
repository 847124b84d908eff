"""The manifest: what a release says of itself, refused unless its guarantee follows from its noise."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.manifest.base import Text
    from dp_bundle.manifest.cells import Cell, cells_of, mu_of_gap
    from dp_bundle.manifest.columns import Ball, Column, Missing, Noise, RandomizedResponse, Standard, source_names
    from dp_bundle.manifest.costs import Strength, booked_rhos, cost_of_several, sound_mu, unit_costs, unit_rhos
    from dp_bundle.manifest.dataset import Dataset
    from dp_bundle.manifest.details import (
        DOI,
        THEMES,
        WEB,
        Creator,
        Details,
        Period,
        Related,
        Relation,
        dataset_details,
    )
    from dp_bundle.manifest.guarantee import Cumulative, EpsilonDelta, Guarantee
    from dp_bundle.manifest.guarantee_checks import release_mu, release_rho, sound_conditional_mu
    from dp_bundle.manifest.matrix_noise import (
        DiscreteLaplace,
        MatrixNoise,
        RoundedGaussian,
        WishartDifferenceNoise,
        WishartNoise,
    )
    from dp_bundle.manifest.moment_noise import SecondMoments
    from dp_bundle.manifest.noisy_matrix import NoisyMatrix
    from dp_bundle.manifest.public_facts import (
        GAPS_PUBLIC,
        NUMBER_PUBLIC,
        ORDER_PUBLIC,
        PARTITION_PUBLIC,
        TOGETHER_PUBLIC,
    )
    from dp_bundle.manifest.release import (
        CONSTANT_LABEL,
        COVARIANCE_NAME,
        FIRST_ROUND_NAME,
        MAX_COLUMNS,
        TRANSFORM_NAME,
        Lineage,
        Release,
    )
    from dp_bundle.manifest.schema import manifest_schema
    from dp_bundle.manifest.sources import MAX_LEVELS, NO_VALUE, Source
    from dp_bundle.manifest.statement import MAX_PAYLOAD, Shape, Statement, Subject, shape_of
    from dp_bundle.manifest.two_rounds import FourthMoment
    from dp_bundle.manifest.versions import FORMAT_VERSION, software_with_code, split_software
else:
    __getattr__ = import_on_demand(__name__)
