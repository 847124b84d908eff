"""What a command needs first: interrupts, imports on demand, kernels compiled before, the digest of its code."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.startup.code import PACKAGES, code_digest
    from dp_bundle.startup.cores import count_cores
    from dp_bundle.startup.kernels import before_compiling, njit
    from dp_bundle.startup.launch import interrupts_held
    from dp_bundle.startup.lazy import import_on_demand
else:
    __getattr__ = import_on_demand(__name__)
