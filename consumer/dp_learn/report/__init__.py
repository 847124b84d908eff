"""Pictures of an estimate."""

from dp_learn.report.picture import draw_graph

__all__ = ["draw_graph"]
