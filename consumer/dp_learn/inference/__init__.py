"""Tests and intervals for edges, from a fit of their own."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.inference.blocks import BlockInference, canonical_partial_correlations, infer_blocks
    from dp_learn.inference.edges import EdgeInference, Pairs, error_forms, infer_edges
    from dp_learn.inference.nodes import NodeInference, block_statistics, infer_nodes, node_strengths, normal_scores
    from dp_learn.inference.ranking import FACTOR, score_pairs
    from dp_learn.inference.refit import fit_for_inference
    from dp_learn.inference.visibility import LEVEL, POWER, detection_power, rows_to_see, smallest_visible
else:
    __getattr__ = import_on_demand(__name__)
