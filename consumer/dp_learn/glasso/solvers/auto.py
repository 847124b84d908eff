"""The choice of a solver for one connected component: block descent, and others where it is slow.

Block descent is the fastest on sparse answers by far, and on dense ones up to hundreds of columns. Close to the
smallest alpha that has a solution its sweeps gain less and less, more so than the iterations of ADMM and Newton: once
`PATIENCE` sweeps have not made the gap ten times smaller, these two go on from the best answer so far.
An unpenalised fit on a small chordal graph needs none of them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from dp_learn.glasso.problem import Status
from dp_learn.glasso.solvers.admm import solve_admm
from dp_learn.glasso.solvers.block_descent import solve_block_descent
from dp_learn.glasso.solvers.chordal import solve_on_chordal_graph
from dp_learn.glasso.solvers.newton import solve_newton
from dp_learn.glasso.solvers.standard_form import Answer, Solver, StandardForm, Start

PATIENCE = 20  # sweeps
GAIN = 0.1  # of the gap is what so many sweeps leave of it at most, where more of them are worth while
NEWTON_STEPS = 40  # more, each of many iterations, are taken only where rounding hides the answer
ORDER: tuple[tuple[str, Solver], ...] = (("cd", solve_block_descent), ("admm", solve_admm), ("newton", solve_newton))


def solve_auto(form: StandardForm, start: Start, *, gap: float, max_iter: int, plain: bool = False) -> Answer:
    """Return the answer of the first solver that reaches the gap, each going on from the best answer so far.

    Its `solvers` names the ones that ran. If none reaches the gap, the answer is the best one. A `plain` problem is one
    of few nodes, for which block descent is not compiled.
    """
    known = solve_on_chordal_graph(form, gap=gap)
    if known is not None:
        return known
    (name, run), *others = ORDER[plain:]
    best = (run if plain else partial(_sweep_while_worth_it, run))(form, start, gap=gap, max_iter=max_iter)
    used = [name]
    for name, run in others:
        if best.status is Status.OPTIMAL:
            break
        limit = min(max_iter, NEWTON_STEPS) if name == "newton" else max_iter
        answer = run(form, Start(best.w, best.theta), gap=gap, max_iter=limit)
        best = min(answer, best, key=lambda each: each.duality_gap)
        used.append(name)
    return replace(best, solvers=tuple(used))


def _sweep_while_worth_it(run: Solver, form: StandardForm, start: Start, *, gap: float, max_iter: int) -> Answer:
    """Return the best answer of block descent, run as long as its sweeps gain enough."""
    best = run(form, start, gap=gap, max_iter=min(max_iter, PATIENCE))
    n_iter, before = best.n_iter, math.inf
    while best.status is Status.MAX_ITER and n_iter < max_iter and best.duality_gap <= GAIN * before:
        before = best.duality_gap
        answer = run(form, Start(best.w, best.theta), gap=gap, max_iter=min(max_iter - n_iter, PATIENCE))
        n_iter += answer.n_iter
        best = min(answer, best, key=lambda each: each.duality_gap)
    return replace(best, n_iter=n_iter)
