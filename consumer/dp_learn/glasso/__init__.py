"""The graphical lasso: the problem, its solution with a certificate, and when there is one."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_learn.glasso.feasibility import RTOL, smallest_solvable_alpha
    from dp_learn.glasso.graph_fit import GraphFit, find_start, fit_on_graph, fit_unpenalised, solve_on_graph
    from dp_learn.glasso.group_solving import smallest_group_alpha, solve_groups
    from dp_learn.glasso.groups import Groups, make_group_problem, make_groups
    from dp_learn.glasso.problem import Problem, make_problem
    from dp_learn.glasso.solution import Solution, Status
    from dp_learn.glasso.solver_names import SOLVER_NAMES
    from dp_learn.glasso.solvers.gram_lasso import solve_gram_lassos
    from dp_learn.glasso.solving import graphical_lasso, solve
    from dp_learn.glasso.whitening import whiten_nodes
else:
    __getattr__ = import_on_demand(__name__)
