"""Joint graphs of simulated series: links and changes that are found, against single graphs, pooling and peers.

    OPENBLAS_NUM_THREADS=1 python benchmarks/joint.py [--tables 10] [--columns 20,50] [--noise 0,0.5,2]
        [--only graphs,claims,null,peers,hindsight,race,speed]

A series has 12 periods of 500 Gaussian rows, with noise on the rows of 0, 0.5 and 2 times their variance. Partial
correlations are 0.2 to 0.45 of both signs, three links a column. After six periods a quarter of the links go and as
many come; another quarter fades to 0.6 of itself over all periods.

"graphs" prints means over series of F1 of links over all periods, and of F1 of links that appear or vanish between
neighbours: of each period alone, of all pooled, both as dp-learn learns them by default, and of the joint graphs. Then
what the tests claim: how often there is one change point, in the right place; which share of the claimed pairs had no
change between the periods compared; and which share of the links that come or go are claimed. Of pairs that fade what
is claimed is right.

"claims" prints the same of more series, without their graphs. "null" prints how often a change point is claimed in
series of one network. "speed" prints CPU seconds and memory of everything after the pass over the rows.

"peers" has GGLasso (fused) and regain (time-varying), where these are installed, solve the same debiased correlations.
GGLasso chooses penalties as its users would, by its own eBIC: on its own grid with the number of rows, and on ours with
effective rows. "In hindsight" both have the penalties of best F1 of a grid, for links and for changes apart, which only
one who knows the truth can choose. regain has no criterion for covariances: its cross-validation needs rows. It counts
the problems that have no solution by our certificate, and those whose solvers say that they did not converge; GGLasso's
model selection breaks off where its grid has unbounded problems, as it has for indefinite matrices.

"hindsight" has our solver solve GGLasso's problem on the same grid, whose answers agree to 2e-5, for all series. "race"
compares the time to an equal gap of our certificate.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import resource
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dp_bundle.base.errors import EstimationError, NoSolutionError
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import table_rows
from dp_learn.glasso.joint import joint_graphical_lasso
from dp_learn.glasso.joint_problem import Kind
from dp_learn.inference.changes import Changes
from dp_learn.pipeline.compare import lay_out_together
from dp_learn.pipeline.graph import GraphEstimate
from dp_learn.pipeline.joint import Joint, Order, learn_periods
from dp_learn.pipeline.joint_weights import RATIOS, joint_alphas, weigh_periods
from dp_learn.pipeline.learn import learn_sample
from dp_learn.pipeline.settings import Settings
from dp_learn.selection.joint import Periods, select_in_stages

N_PERIODS, N_ROWS = 12, 500
ZERO, REGAIN_ITER = 1e-6, 500
PEERS_GRID = np.geomspace(0.04, 0.3, 6), np.array([1.0, 3.0, 8.0])
Floats, Masks = NDArray[np.float64], NDArray[np.bool_]


def make_series(p: int, n_periods: int, rng: np.random.Generator, *, changes: bool = True) -> Floats:
    """Return the partial correlations of all pairs in every period."""
    n_pairs = p * (p - 1) // 2
    linked = rng.random(n_pairs) < 3.0 / (p - 1)
    first = np.where(linked, rng.choice([-1, 1], n_pairs) * rng.uniform(0.2, 0.45, n_pairs), 0.0)
    values = np.repeat(first[None], n_periods, axis=0)
    order, n_changed = rng.permutation(np.flatnonzero(linked)), round(0.25 * linked.sum())
    fresh = rng.choice(np.flatnonzero(~linked), n_changed, replace=False)
    strengths = rng.choice([-1, 1], n_changed) * rng.uniform(0.2, 0.45, n_changed)
    if changes:
        half = n_periods // 2
        values[half:, order[:n_changed]] = 0.0
        values[half:, fresh] = strengths
        values[:, order[n_changed : 2 * n_changed]] *= np.linspace(1.0, 0.6, n_periods)[:, None]
    factor = 1.0
    while min(np.linalg.eigvalsh(build(factor * each, p))[0] for each in values) < 0.2:
        factor *= 0.97
    return factor * values


def build(values: Floats, p: int) -> Floats:
    """Return the precision matrix of unit diagonal with these partial correlations."""
    matrix = np.zeros((p, p))
    matrix[np.triu_indices(p, 1)] = -values
    return matrix + matrix.T + np.eye(p)


def draw(values: Floats, p: int, n_rows: int, noise: float, rng: np.random.Generator) -> Sample:
    """Return noisy rows of one period, of columns of variance 1 before the noise."""
    covariance = np.linalg.inv(build(values, p))
    deviations = np.sqrt(np.diagonal(covariance))
    rows = rng.normal(size=(n_rows, p)) @ np.linalg.cholesky(covariance / np.outer(deviations, deviations)).T
    rows += np.sqrt(noise) * rng.normal(size=rows.shape)
    return Sample([table_rows(rows, [f"x{place}" for place in range(p)], noise)])


def links_of(graph: GraphEstimate, p: int) -> Masks:
    """Return which of all pairs are linked; drowned columns have no link."""
    places = [int(name[1:]) for name in graph.columns]
    linked = np.zeros((p, p), dtype=bool)
    linked[np.ix_(places, places)] = graph.adjacency
    return linked[np.triu_indices(p, 1)]


def learn_alone(sample: Sample, p: int) -> Masks:
    """Return the links that dp-learn finds by default, none where it refuses."""
    try:
        return links_of(learn_sample(sample, Settings(), error_bars=False).estimate, p)
    except EstimationError:
        return np.zeros(p * (p - 1) // 2, dtype=bool)


def f1(found: Masks, true: Masks) -> float:
    """Return the harmonic mean of precision and recall."""
    return float(2 * np.count_nonzero(found & true) / max(np.count_nonzero(found) + np.count_nonzero(true), 1))


def score(found: Masks, truth: Floats) -> tuple[float, float]:
    """Return F1 of links, and of links that appear or vanish between neighbours, shape (K, m) each."""
    true = truth != 0.0
    return f1(found, true), f1(found[1:] != found[:-1], true[1:] != true[:-1])


def judge_claims(found: Joint, changes: Changes, truth: Floats, p: int) -> tuple[float, float, float]:
    """Return whether the change point is right, the share of claims that are false, and that of changes claimed."""
    places = np.array([int(name[1:]) for name in found.nodes])
    number = np.zeros((p, p), dtype=int)
    number[np.triu_indices(p, 1)] = np.arange(truth.shape[1])
    pairs = number[places[changes.pairs[0]], places[changes.pairs[1]]]
    half, true = len(truth) // 2, truth != 0.0
    comes_or_goes = np.flatnonzero(true[half - 1] != true[half])
    claimed, false, seen = 0, 0, set[int]()
    for one in changes.found:
        own = pairs[found.changed(one)]
        apart = np.ptp(truth[list(one.before + one.after)][:, own], axis=0)
        claimed, false = claimed + len(own), false + np.count_nonzero(apart == 0.0)
        seen |= set(own.tolist())
    right = [one.after[0] for one in changes.found] == [half]
    return float(right), false / max(claimed, 1), len(seen & set(comes_or_goes.tolist())) / max(len(comes_or_goes), 1)


def run_graphs(columns: Sequence[int], noises: Sequence[float], n_tables: int) -> None:
    """Print the table of graphs and claims."""
    print("  p noise   alone: links changes   pooled: links   joint: links changes   right place  false %  claimed %")
    false_of_all: list[float] = []
    for p in columns:
        for noise in noises:
            rows = []
            for table in range(n_tables):
                rng = np.random.default_rng([p, table])
                truth = make_series(p, N_PERIODS, rng)
                samples = [draw(values, p, N_ROWS, noise, rng) for values in truth]
                alone = score(np.array([learn_alone(sample, p) for sample in samples]), truth)
                pooled = learn_alone(Sample([sample.sources[0] for sample in samples]), p)
                found = learn_periods(samples, Order.TIME, Kind.FUSED, n_draws=400)
                own = score(np.array([links_of(graph, p) for graph in found.graphs]), truth)
                claims = (np.nan,) * 3
                if found.changes is not None:
                    claims = judge_claims(found, found.changes, truth, p)
                rows.append((*alone, score(np.repeat(pooled[None], N_PERIODS, axis=0), truth)[0], *own, *claims))
            mean = np.nanmean(rows, axis=0)
            false_of_all += [row[6] for row in rows if not np.isnan(row[6])]
            tested = sum(not np.isnan(row[6]) for row in rows)
            print(
                f"{p:>3} {noise:>5}   {mean[0]:12.3f} {mean[1]:7.3f}   {mean[2]:13.3f}   {mean[3]:12.3f} {mean[4]:7.3f}"
                f"   {mean[5]:11.2f}  {100 * mean[6]:7.1f}  {100 * mean[7]:9.1f}   ({tested} of {len(rows)} tested)",
                flush=True,
            )
    error = np.std(false_of_all) / np.sqrt(len(false_of_all))
    print(f"false claims over all: {100 * np.mean(false_of_all):.1f} % (standard error {100 * error:.1f})")


def run_null(columns: Sequence[int], noises: Sequence[float], n_tables: int) -> None:
    """Print how often a change point is claimed where nothing changes."""
    for p in columns:
        for noise in noises:
            claimed, tested = 0, 0
            for table in range(n_tables):
                rng = np.random.default_rng([p, table, 1])
                truth = make_series(p, N_PERIODS, rng, changes=False)
                samples = [draw(values, p, N_ROWS, noise, rng) for values in truth]
                found = learn_periods(samples, Order.TIME, Kind.FUSED, 0.3, 0.3, n_draws=400)
                tested += found.changes is not None
                claimed += bool(found.changes and found.changes.found)
            print(f"{p:>3} {noise:>5}   a change point in {claimed} of {tested} series of one network", flush=True)


def run_claims(columns: Sequence[int], noises: Sequence[float], n_tables: int) -> None:
    """Print what tests claim, of many series, with penalties given as tests do not depend on them."""
    for p in columns:
        for noise in noises:
            rows = []
            for table in range(n_tables):
                rng = np.random.default_rng([p, table, 2])
                truth = make_series(p, N_PERIODS, rng)
                samples = [draw(values, p, N_ROWS, noise, rng) for values in truth]
                found = learn_periods(samples, Order.TIME, Kind.FUSED, 0.5, 0.5, n_draws=400)
                if found.changes is not None:
                    rows.append(judge_claims(found, found.changes, truth, p))
            right, false, claimed = np.mean(rows, axis=0)
            error = 100 * np.std([row[1] for row in rows]) / np.sqrt(len(rows))
            print(
                f"{p:>3} {noise:>5}   right place {right:.2f}, false {100 * false:.1f} % (error {error:.1f}), claimed "
                f"{100 * claimed:.1f} %   ({len(rows)} of {n_tables} tested)",
                flush=True,
            )


def run_speed() -> None:
    """Print CPU seconds and peak memory."""
    for p, n_periods in ((50, 24), (200, 12)):
        rng = np.random.default_rng(p)
        samples = [draw(values, p, N_ROWS, 0.5, rng) for values in make_series(p, n_periods, rng)]
        began = time.process_time()
        found = learn_periods(samples, Order.TIME, Kind.FUSED)
        took, memory = time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(
            f"{p} columns, {n_periods} periods: {took:.1f} CPU-s, {memory:.0f} MB, gap {found.solution.duality_gap:.1e}"
        )


def learn_links(samples: Sequence[Sample], p: int) -> tuple[Periods, Callable[[Floats], Masks], Masks]:
    """Return the debiased correlations, a function that reads links off precision matrices, and the joint links."""
    together = lay_out_together(samples)
    periods = weigh_periods(together.pooled, Kind.FUSED)
    chosen = select_in_stages(periods, joint_alphas(periods, together.pooled), RATIOS[Kind.FUSED])
    own = [int(name[1:]) for name in together.nodes[0].names]

    def links(precisions: Floats) -> Masks:
        linked = np.zeros((len(samples), p, p), dtype=bool)
        linked[np.ix_(np.arange(len(samples)), own, own)] = np.abs(precisions) > ZERO
        return linked[(slice(None), *np.triu_indices(p, 1))]

    return periods, links, links(chosen.periods.solve(chosen.alpha, chosen.coupling, tol=1e-6).precisions)


def run_peers(columns: Sequence[int], noises: Sequence[float], n_tables: int) -> None:
    """Print F1 of the joint graphs, and of GGLasso and regain, by what chooses penalties."""
    for p in columns:
        for noise in noises:
            scores: dict[str, list[tuple[float, float]]] = {}
            failed = dict.fromkeys(("GGLasso", "regain", "no solution"), 0)
            for table in range(n_tables):
                rng = np.random.default_rng([p, table])
                truth = make_series(p, N_PERIODS, rng)
                periods, links, own = learn_links([draw(values, p, N_ROWS, noise, rng) for values in truth], p)
                found = {"joint": own}
                for name, rows, grid in (
                    ("GGLasso, its eBIC and grid", np.full(N_PERIODS, N_ROWS), None),
                    ("GGLasso, its eBIC, effective rows, our grid", periods.rows.round().astype(int), PEERS_GRID),
                ):
                    chosen = choose_by_gglasso(periods.matrices, rows, grid)
                    scores.setdefault(name, [])
                    if chosen is not None:
                        found[name] = links(chosen)
                for name, one in found.items():
                    scores.setdefault(name, []).append(score(one, truth))

                tried: dict[str, list[tuple[float, float]]] = {"GGLasso": [], "regain": []}
                for alpha, ratio in itertools.product(*PEERS_GRID):
                    failed["no solution"] += not has_solution(periods.matrices, alpha, ratio * alpha)
                    for name, solve in (("GGLasso", solve_by_gglasso), ("regain", solve_by_regain)):
                        theta, converged = solve(periods.matrices, alpha, ratio * alpha)
                        failed[name] += not converged
                        tried[name].append(score(links(theta), truth))
                for name, each in tried.items():
                    best = np.max(each, axis=0)
                    scores.setdefault(f"{name} in hindsight", []).append((best[0], best[1]))
            for name, each in scores.items():
                mean, error = ((np.nan, np.nan),) * 2
                if each:
                    mean, error = np.mean(each, axis=0), np.std(each, axis=0) / np.sqrt(len(each))
                print(
                    f"{p:>3} {noise:>5}   links {mean[0]:.3f} ({error[0]:.3f}), changes {mean[1]:.3f} ({error[1]:.3f})"
                    f"   {name} ({len(each)} of {n_tables} series)"
                )
            n_solved = n_tables * len(PEERS_GRID[0]) * len(PEERS_GRID[1])
            print(
                f"            of {n_solved} problems, no solution: {failed['no solution']}; not converged: GGLasso "
                f"{failed['GGLasso']}, regain {failed['regain']}",
                flush=True,
            )


def has_solution(s: Floats, alpha: float, beta: float) -> bool:
    """Return whether the peers' problem is bounded: the certificate's word."""
    off = 1.0 - np.eye(s.shape[1])
    try:
        joint_graphical_lasso(s, alpha, beta, difference_weights=off, penalize_diagonal=False, tol=1e-3, max_iter=500)
    except NoSolutionError:
        return False
    return True


def solve_by_gglasso(s: Floats, alpha: float, beta: float, tol: float = 1e-6) -> tuple[Floats, bool]:
    """Return GGLasso's fused estimate, and whether it says that it converged."""
    from gglasso.problem import glasso_problem

    problem = glasso_problem(s, N_ROWS, reg="FGL", reg_params={"lambda1": alpha, "lambda2": beta}, do_scaling=False)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            problem.solve(tol=tol, rtol=tol, verbose=False)
        except AssertionError:  # as below
            return np.zeros(s.shape), False
    return np.asarray(problem.solution.precision_), "status: optimal" in said.getvalue()


def choose_by_gglasso(s: Floats, rows: NDArray[np.int64], grid: tuple[Floats, Floats] | None) -> Floats | None:
    """Return what GGLasso's model selection chooses on a grid, its own if there is none; None where it breaks off."""
    from gglasso.problem import glasso_problem

    problem = glasso_problem(s, rows, reg="FGL", do_scaling=False)
    own = None if grid is None else {"lambda1_range": grid[0][::-1], "lambda2_range": np.outer(*grid).ravel()[::3]}
    with contextlib.redirect_stdout(None), warnings.catch_warnings(action="ignore"):
        try:
            problem.model_selection(own, method="eBIC", tol=1e-5, rtol=1e-5)
        except AssertionError:  # that iterates, which grow without bounds, are symmetric
            return None
    return np.asarray(problem.solution.precision_)


def solve_by_regain(s: Floats, alpha: float, beta: float) -> tuple[Floats, bool]:
    """Return regain's time-varying estimate, and whether it ended before its last iteration."""
    from regain.covariance.time_graphical_lasso_ import time_graphical_lasso

    ones = np.ones(len(s))
    found = time_graphical_lasso(s, alpha=alpha, beta=beta, psi="l1", n_samples=ones, max_iter=REGAIN_ITER)
    return np.asarray(found[0]), bool(found[-1] < REGAIN_ITER)


def run_hindsight(columns: Sequence[int], noises: Sequence[float], n_tables: int) -> None:
    """Print F1 of the joint graphs, and of GGLasso's problem in hindsight by our solver."""
    for p in columns:
        for noise in noises:
            rows = []
            for table in range(n_tables):
                rng = np.random.default_rng([p, table])
                truth = make_series(p, N_PERIODS, rng)
                periods, links, own = learn_links([draw(values, p, N_ROWS, noise, rng) for values in truth], p)
                same = {"difference_weights": 1.0 - np.eye(periods.matrices.shape[1]), "penalize_diagonal": False}
                tried = []
                for alpha, ratio in itertools.product(*PEERS_GRID):
                    with contextlib.suppress(NoSolutionError):
                        theta = joint_graphical_lasso(
                            periods.matrices, alpha, ratio * alpha, tol=1e-5, **same
                        ).precisions
                        tried.append(score(links(theta), truth))
                rows.append((*score(own, truth), *np.max(tried, axis=0)))
            mean, error = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(n_tables)
            print(f"{p:>3} {noise:>5}   joint, in hindsight (links, changes): {mean.round(3)}, errors {error.round(3)}")


def run_race() -> None:
    """Print the time of GGLasso at an equal gap."""
    for p, n_periods, noise in ((50, 24, 0.5), (50, 24, 2.0), (200, 12, 0.5)):
        rng = np.random.default_rng(p)
        series = make_series(p, n_periods, rng)
        s = weigh_periods([draw(values, p, N_ROWS, noise, rng).pooled for values in series], Kind.FUSED).matrices
        for alpha in (0.3, 0.15, 0.08):
            _race(s, alpha, 2.0 * alpha)


def _race(s: Floats, alpha: float, beta: float) -> None:
    """Print the CPU seconds to a gap of 1e-6 for each column and period: ours by certificate, the other's by ours."""
    n_periods, p = s.shape[:2]
    same = {"penalize_diagonal": False, "difference_weights": 1.0 - np.eye(p), "tol": 1e-6}
    began = time.process_time()
    ours = joint_graphical_lasso(s, alpha, beta, **same)
    own = time.process_time() - began
    for tol in 10.0 ** np.arange(-4, -12, -1):
        began = time.process_time()
        theirs = solve_by_gglasso(s, alpha, beta, tol)[0]
        took = time.process_time() - began
        above = _objective(s, theirs, alpha, beta) - ours.objective + ours.duality_gap
        if above <= 1e-6 * p * n_periods:
            break
    least = min(np.linalg.eigvalsh(each)[0] for each in s)
    print(
        f"{p} x {n_periods}, alpha {alpha}, least eigenvalue {least:.2f}: ours {own:.2f} CPU-s, GGLasso {took:.2f} (at "
        f"its tol {tol:.0e}, {above:.1e} above the optimum)",
        flush=True,
    )


def _objective(s: Floats, theta: Floats, alpha: float, beta: float) -> float:
    """Return the objective of GGLasso, which couples and penalises entries off the diagonal."""
    theta = (theta + theta.transpose(0, 2, 1)) / 2.0
    off = 1.0 - np.eye(s.shape[1])
    fit = sum(-np.linalg.slogdet(t)[1] + np.sum(t * each) for t, each in zip(theta, s, strict=True))
    return float(fit + alpha * np.abs(theta * off).sum() + beta * np.abs(np.diff(theta, axis=0) * off).sum())


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--columns", default="20,50")
    parser.add_argument("--noise", default="0,0.5,2")
    parser.add_argument("--only", default="graphs,null,speed")
    options = parser.parse_args()
    columns = [int(each) for each in options.columns.split(",")]
    noises = [float(each) for each in options.noise.split(",")]
    for name in options.only.split(","):
        {
            "graphs": lambda: run_graphs(columns, noises, options.tables),
            "null": lambda: run_null(columns, noises, options.tables),
            "claims": lambda: run_claims(columns, noises, options.tables),
            "speed": run_speed,
            "peers": lambda: run_peers(columns, noises, options.tables),
            "hindsight": lambda: run_hindsight(columns, noises, options.tables),
            "race": run_race,
        }[name]()


if __name__ == "__main__":
    main()
