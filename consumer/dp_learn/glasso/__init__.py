"""The graphical lasso: the problem, its solution with a certificate, and when there is one."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.glasso.solving import graphical_lasso
else:
    __getattr__ = import_on_demand(__name__)
