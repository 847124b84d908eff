"""The pipeline from bundles to an estimate."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.pipeline.fit import fit_graph
    from dp_learn.pipeline.learn import Learned, find_bundle_contradictions, infer_if_possible, learn_graph
    from dp_learn.pipeline.memory import learning_memory, require_compilable, require_learnable
    from dp_learn.pipeline.node_layout import Nodes
    from dp_learn.pipeline.settings import REFIT_MAX_ITER, Fit, Settings
    from dp_learn.pipeline.weights import Weights
else:
    __getattr__ = import_on_demand(__name__)
