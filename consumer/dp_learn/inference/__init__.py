"""Tests and intervals for edges, from a fit of their own."""

from dp_bundle.base.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.inference.nodes import infer_blocks
else:
    __getattr__ = import_on_demand(__name__)
