"""The researcher's side: a verified bundle in, a sparse graph out."""

from dp_learn.debias import debias_covariance
from dp_learn.learn import Learned, learn_graph
from dp_learn.moments import Moments, estimate_moments
from dp_learn.solution import Solution, Status
from dp_learn.solvers import graphical_lasso

__all__ = [
    "Learned",
    "Moments",
    "Solution",
    "Status",
    "debias_covariance",
    "estimate_moments",
    "graphical_lasso",
    "learn_graph",
]
