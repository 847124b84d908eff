"""Exact noise from secure random bits."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_publish.sampling.bingham import envelope_parameter, sample_bingham
    from dp_publish.sampling.fixed_point import exp_minus, integers, power_of_root, uniform_bits
    from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian
    from dp_publish.sampling.high_precision import precise_normals
    from dp_publish.sampling.keystream import Keystream, SecureKeystream, insecure_keystream
    from dp_publish.sampling.laplace import sample_discrete_laplace
    from dp_publish.sampling.normals import HALF_PLACE, PLACES, TOTAL_VARIATION, normal_parts
    from dp_publish.sampling.replacements import sample_replacements
else:
    __getattr__ = import_on_demand(__name__)
