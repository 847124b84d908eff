"""The path of alphas where nodes have several columns: its first alpha, its solutions, and their edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from numpy.typing import ArrayLike

from dp_learn.glasso.group_solving import solve_groups
from dp_learn.glasso.groups import Groups, make_group_problem, make_groups
from dp_learn.glasso.problem import Solution
from dp_learn.matrices.linalg import FloatArray


def as_nodes(groups: ArrayLike | None, n_features: int, columns: Sequence[str] | None = None) -> Groups | None:
    """Return the nodes, or None where every node is one column."""
    nodes = None if groups is None else make_groups(groups, n_features, columns)
    return None if nodes is None or nodes.are_scalar else nodes


def group_norms(matrix: FloatArray, nodes: Groups, weights: ArrayLike | None) -> tuple[FloatArray, FloatArray]:
    """Return the norms of the blocks between nodes and their penalties at an alpha of one, both shape (G, G)."""
    problem = make_group_problem(matrix, 1.0, nodes, weights=weights)
    return problem.norms(problem.covariance), problem.penalty


def solve_group_path(
    matrix: FloatArray,
    alphas: Sequence[float] | FloatArray,
    nodes: Groups,
    weights: ArrayLike | None,
    penalize_diagonal: bool,
    tol: float,
    max_iter: int,
) -> Iterator[tuple[float, Solution | None]]:
    """Yield the solutions as `solve_path` does."""
    last: Solution | None = None
    for alpha in map(float, alphas):
        last = solve_groups(
            matrix,
            alpha,
            nodes,
            weights=weights,
            penalize_diagonal=penalize_diagonal,
            tol=tol,
            max_iter=max_iter,
            start=last,
        )
        if last is None or not last.converged:
            yield alpha, None
            return
        yield alpha, last
