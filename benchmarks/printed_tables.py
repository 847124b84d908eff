"""The printed tables of two papers on private precision matrices, run again beside what they print.

    DPGRAPH_DATA=... DPGRAPH_PAPERS=... python benchmarks/printed_tables.py [--quick]

W18 is Wang, Huai & Xu (2018), S20 is Su et al., Differentially private precision matrix estimation. `DPGRAPH_PAPERS`
holds their tables as CSV; by default the folder `papers` beside the data. Tables come out as Markdown.

"Ours" is the literal reading: rows divided by the largest norm, noise as printed (also where its calibration has no
proof), distance to the model's Theta. W18: penalty 0.001 on all entries, an answer to a gap of 1e-4 d. U has
1 % of its entries at -1 or 1 besides a unit diagonal; colon takes the first 300 of 2000 columns, standardised, and, as
no Theta is known, the estimate without noise for the truth. S20: the penalty is chosen once for a setting by 5-fold
cross-validation of the likelihood, noise in the training folds. Standard errors are over repetitions; in differences
they are combined with the printed ones, which S20 alone has.

Noise comes from the mechanisms of dp_publish, apart from Wishart noise: its exact arithmetic takes too long for 400
columns, and beyond epsilon = 1 the printed formula is refused. `unsound` stands for what has no guarantee at all.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dp_learn import graphical_lasso, smallest_solvable_alpha
from dp_learn.estimators.ridge import ridge_precision
from dp_learn.problem import make_problem
from dp_learn.solvers import solve
from dp_publish.covariance.gaussian import release_gaussian, release_sulq
from dp_publish.covariance.laplace import release_laplace
from dp_publish.covariance.scaling import scaling_for
from dp_publish.covariance.second_moments import SecondMoments, moments_of_batch
from dp_publish.covariance.unsound import insecure_output_perturbation, insecure_wishart_pure
from dp_publish.keystream import Keystream, insecure_keystream

Floats = NDArray[np.float64]
PENALTY, N_COLUMNS = 0.001, 400  # W18
P = 100  # S20
EPSILONS = (0.1, 0.3, 0.5, 0.8, 1.2, 2.0)
RIDGE_GRID = np.logspace(-7, 0, 36)
LASSO_SHARES = np.geomspace(1.0, 0.15, 7)  # of the largest entry off the diagonal
NORMS = ("l1", "frobenius", "spectral")

Setting = tuple[str, int, float, str]  # algorithm, n, epsilon, model


@dataclass
class Losses:
    """What S20's experiment gave: losses by setting, literally and by other readings, and what no noise leaves."""

    literal: dict[Setting, list[Floats]] = field(default_factory=lambda: defaultdict(list))
    other: dict[str, dict[Setting, list[Floats]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    best_clean: dict[tuple[str, int, str], float] = field(default_factory=dict)
    matched: dict[Setting, float] = field(default_factory=dict)  # the penalty with the printed Frobenius loss
    raised: int = 0  # literal runs whose chosen penalty had no solution


def main() -> None:
    """Print both tables, and what was found about the cells that differ."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small numbers of repetitions, and part of the settings")
    parser.add_argument("--table", choices=("S20", "W18", "both"), default="both")
    options = parser.parse_args()
    quick = options.quick
    data = Path(os.environ["DPGRAPH_DATA"])
    papers = Path(os.environ.get("DPGRAPH_PAPERS", data.parent / "papers"))
    start = time.perf_counter()
    if options.table != "W18":
        print_losses(pd.read_csv(papers / "001_tables_matrix_losses.csv"), quick)
    if options.table != "S20":
        print_relative_errors(pd.read_csv(papers / "000_tables_relative_error.csv"), data, quick)
    print(f"\n{time.perf_counter() - start:.0f} s", flush=True)


# --- W18 ---


def print_relative_errors(printed: pd.DataFrame, data: Path, quick: bool) -> None:
    """Print W18's table with ours."""
    n_repetitions = 2 if quick else 3
    values: dict[tuple[str, str, float, str], list[float]] = defaultdict(list)
    smallest: dict[tuple[str, str, float, str], list[float]] = defaultdict(list)
    readings: dict[str, list[float]] = defaultdict(list)
    names = ["colon"] if quick else ["colon", "synthetic_r0.5", "synthetic_r1.0", "synthetic_r1.5"]
    for name in names:
        for repetition in range(n_repetitions):
            rng = np.random.default_rng(repetition)
            rows, truth = colon(data) if name == "colon" else sparse_product(float(name[-3:]), 0.01, rng)
            ball = rows / np.linalg.norm(rows, axis=1).max()
            moments, n = moments_of(ball), len(ball)
            clean = graphical_lasso(moments.matrix / n, PENALTY, solver="newton", tol=1e-4, max_iter=100).precision
            truth = clean if truth is None else truth
            cells = printed[printed.dataset == name]
            for guarantee, epsilon, mechanism in zip(cells.guarantee, cells.epsilon, cells.mechanism, strict=True):
                key = (guarantee, mechanism, epsilon, name)
                if key in smallest:  # the first repetition has shown that there is none
                    continue
                if mechanism == "output":
                    estimate = insecure_output_perturbation(clean, n, epsilon, PENALTY, rng)
                else:
                    noisy = noisy_moment(mechanism, guarantee, moments, epsilon, repetition, rng)
                    if mechanism == "laplace":
                        readings[f"{epsilon:g} {name}"].append(float(np.linalg.norm(noisy - moments.matrix / n)))
                    solution = solve(make_problem(noisy, PENALTY), solver="newton", tol=1e-4, max_iter=100)
                    if solution is None:
                        smallest[key].append(smallest_solvable_alpha(noisy))
                        continue
                    estimate = solution.precision
                values[key].append(float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth)))
    print(f"## W18: relative errors, {n_repetitions} repetitions\n")
    print("| guarantee | mechanism | epsilon | data | ours | printed | s.e. apart | reason |\n" + "|---" * 8 + "|")
    counts: Counter[str] = Counter()
    for row in printed.to_dict("records"):
        key = (row["guarantee"], row["mechanism"], row["epsilon"], row["dataset"])
        theirs = "none" if math.isnan(row["relative_error"]) else f"{row['relative_error']:g}"
        ours, apart, code = "-", "-", "W5" if row["dataset"] == "parkinsons" else "not in --quick"
        if key in smallest:
            ours = f"no solution: smallest alpha {smallest[key][0]:.3g}"
            code = "both none" if theirs == "none" else "W2" if row["mechanism"] == "laplace" else "W1"
        elif key in values:
            mean, error = mean_and_error(values[key])
            ours = f"{mean:.4g} ({error:.2g})"
            if theirs == "none":
                code = "W4"
            else:
                z = (mean - row["relative_error"]) / max(error, 1e-12)
                apart, code = f"{z:+.1f}", "agrees" if abs(z) <= 3 else "W6" if row["dataset"] == "colon" else "W3"
        counts[code] += 1
        head = f"| {row['guarantee']} | {row['mechanism']} | {row['epsilon']:g} | {row['dataset']} "
        print(f"{head}| {ours} | {theirs} | {apart} | {code} |")
    print(f"\nCells: {len(printed)}; {dict(counts)}\n")
    print("Laplace: the noise's Frobenius norm over the printed relative error")
    laplace = printed[printed.mechanism == "laplace"]
    for row in laplace.to_dict("records"):
        size = readings.get(f"{row['epsilon']:g} {row['dataset']}")
        if size:
            print(f"- epsilon {row['epsilon']:g}, {row['dataset']}: {np.mean(size) / row['relative_error']:.1f}")
    print_wishart_readings(quick)
    print_colon_readings(data, quick)


def print_wishart_readings(quick: bool) -> None:
    """Print what the share of entries in U and the scale of Theta do to pure Wishart noise's error."""
    print("\nWishart readings (r = 0.5, epsilon = 0.5; printed 0.993 pure, 0.9999 approximate):")
    for share in (0.01,) if quick else (0.01, 0.03, 0.05, 0.1):
        rng = np.random.default_rng(7)
        rows, truth = sparse_product(0.5, share, rng)
        length = np.linalg.norm(rows, axis=1).max()
        moments = moments_of(rows / length)
        line = []
        for guarantee in ("approximate",) if quick else ("pure", "approximate"):
            noisy = noisy_moment("wishart", guarantee, moments, 0.5, 0, rng)
            estimate = graphical_lasso(noisy, PENALTY, solver="newton", tol=1e-3, max_iter=100).precision
            for scale, what in ((1.0, "Theta as it is"), (length**2, "Theta of scaled rows")):
                error = np.linalg.norm(estimate - scale * truth) / np.linalg.norm(scale * truth)
                line.append(f"{guarantee}, {what} {error:.4f}")
        print(f"- U with {share:.0%} of entries: " + "; ".join(line), flush=True)


def print_colon_readings(data: Path, quick: bool) -> None:
    """Print what the choice of columns and the scaling of rows do to the error on colon."""
    print("\nColon readings (Wishart, epsilon = 0.5; printed 0.995 pure, 1.636 approximate):")
    table = pd.read_csv(data / "colon" / "colon.csv").drop(columns="class").to_numpy(dtype=float)
    choices = {"first 300": table[:, :300], "most variable 300": table[:, np.argsort(-table.var(axis=0))[:300]]}
    for which, raw in choices.items():
        for units in ("standardised",) if quick else ("standardised", "raw"):
            rows = (raw - raw.mean(axis=0)) / (raw.std(axis=0) if units == "standardised" else 1.0)
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            for scaling, length in (("largest norm", lengths.max()), ("own norm", lengths)):
                moments = moments_of(rows / length)
                clean = graphical_lasso(moments.matrix / 62, PENALTY, solver="newton", tol=1e-3, max_iter=100).precision
                line = []
                for guarantee in ("approximate",) if quick else ("pure", "approximate"):
                    noisy = noisy_moment("wishart", guarantee, moments, 0.5, 0, np.random.default_rng(7))
                    private = graphical_lasso(noisy, PENALTY, solver="newton", tol=1e-3, max_iter=100).precision
                    line.append(f"{guarantee} {np.linalg.norm(private - clean) / np.linalg.norm(clean):.4f}")
                print(f"- {which}, {units}, each row by {scaling}: " + "; ".join(line), flush=True)


def sparse_product(ratio: float, share: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return W18's rows and Theta = U U^T."""
    d = N_COLUMNS
    u = (rng.random((d, d)) < share) * rng.choice([-1.0, 1.0], (d, d))
    np.fill_diagonal(u, 1.0)
    return np.linalg.solve(u.T, rng.normal(size=(d, round(ratio * d)))).T, u @ u.T


def colon(data: Path) -> tuple[Floats, None]:
    """Return 62 rows of 300 standardised columns."""
    rows = pd.read_csv(data / "colon" / "colon.csv").drop(columns="class").to_numpy(dtype=float)[:, :300]
    return (rows - rows.mean(axis=0)) / rows.std(axis=0), None


def noisy_moment(
    mechanism: str, guarantee: str, moments: SecondMoments, epsilon: float, seed: int, rng: np.random.Generator
) -> Floats:
    """Return S with W18's noise, sensitivity 1/n."""
    n, d, delta = moments.n_rows, moments.scaling.n_features, 1e-4
    stream = insecure_keystream(seed)
    if mechanism == "laplace":
        return release_laplace(moments, epsilon=epsilon, sensitivity="printed", rng=stream).matrix / n
    if mechanism == "sulq":
        return release_sulq(moments, epsilon=epsilon, delta=delta, rng=stream).matrix / n
    if mechanism == "gaussian":
        return release_as_printed(moments, 1.0, epsilon, delta, stream) / n
    if guarantee == "pure":
        return insecure_wishart_pure(moments.matrix / n, n, epsilon, rng)
    draws = rng.normal(size=(d + math.ceil(14 / epsilon**2 * math.log(4 / delta)), d))
    noisy: Floats = (moments.matrix + draws.T @ draws) / n
    return noisy


def release_as_printed(
    moments: SecondMoments, sensitivity: float, epsilon: float, delta: float, stream: Keystream
) -> Floats:
    """Return the sum with one variance for all entries, sigma = sensitivity sqrt(2 ln(1.25 / delta)) / epsilon."""
    mu = math.sqrt(2) / sensitivity * epsilon / math.sqrt(2 * math.log(1.25 / delta))
    return release_gaussian(moments, mu=mu, isotropic=False, rng=stream).matrix


def moments_of(rows: Floats) -> SecondMoments:
    """Return exact sums of products of rows in the unit ball."""
    return moments_of_batch(rows, scaling_for([(-1.0, 1.0)] * rows.shape[1], radius=1.0, with_mean=False))


# --- S20 ---


def print_losses(printed: pd.DataFrame, quick: bool) -> None:
    """Print S20's table with ours."""
    n_repetitions = 3 if quick else 5
    found = Losses()
    for n in (100,) if quick else (100, 200, 400):
        for number, model in enumerate(("model1", "model2", "model3", "model4")):
            algorithms = sorted(set(printed.algorithm[printed.model == model]))
            fixed = fixed_penalty(n, number, model)
            for epsilon in (0.3, 2.0) if quick else EPSILONS:
                chosen = printed[(printed.algorithm == "ridge") & (printed.n == n) & (printed.model == model)]
                target = chosen.loss_mean[(chosen.epsilon == epsilon) & (chosen.norm == "frobenius")].max()
                run_setting(n, number, model, epsilon, algorithms, n_repetitions, fixed, target, found)
    print(f"## S20: losses, {n_repetitions} repetitions\n")
    print("Each cell: ours (s.e.) / printed; s.e. apart; reason.\n")
    print("| algorithm | model | n | epsilon | l1 | Frobenius | spectral |\n" + "|---" * 7 + "|")
    counts: Counter[str] = Counter()
    for _, cells in printed.groupby(["algorithm", "model", "n", "epsilon"], sort=False):
        algorithm, model, n, epsilon = cells.iloc[0][["algorithm", "model", "n", "epsilon"]]
        theirs = {row["norm"]: row for row in cells.to_dict("records")}
        key, line = (algorithm, n, epsilon, model), []
        for index, norm in enumerate(NORMS):
            if key not in found.literal:
                counts["not in --quick"] += 1
                continue
            mean, error = mean_and_error([losses[index] for losses in found.literal[key]])
            z = (mean - theirs[norm]["loss_mean"]) / max(math.hypot(error, theirs[norm]["loss_se"]), 1e-12)
            reason = reason_of([theirs[each]["loss_mean"] for each in NORMS], norm)
            near = 0.5 < mean / theirs[norm]["loss_mean"] < 2.0
            code = reason if abs(z) > 3 else "agrees" if near else "wide"
            counts[code] += 1
            line.append(f"{mean:.4g} ({error:.2g}) / {theirs[norm]['loss_mean']:g}; {z:+.0f}; {code}")
        if line:
            print(f"| {algorithm} | {model} | {n} | {epsilon:g} | " + " | ".join(line) + " |")
    print(f"\nCells: {len(printed)}; {dict(counts)}\n")
    lasso = sum(len(runs) for key, runs in found.literal.items() if key[0] != "ridge")
    print(f"Lasso runs whose penalty had to be raised to the smallest solvable one: {found.raised} of {lasso}\n")
    print_loss_readings(printed, found)
    print("\nSmallest Frobenius loss over all penalties without any noise, rows as they are:")
    for (algorithm, n, model), loss in found.best_clean.items():
        print(f"- {algorithm}, {model}, n = {n}: {loss:.3g}")


def run_setting(
    n: int,
    number: int,
    model: str,
    epsilon: float,
    algorithms: list[str],
    n_repetitions: int,
    fixed: float,
    target: float,
    found: Losses,
) -> None:
    """Run one setting with its algorithms, literally and by the other readings; rows as they are only twice."""
    alphas: dict[tuple[str, float], float] = {}
    for repetition in range(n_repetitions):
        rng = np.random.default_rng([n, number, repetition])
        theta = model_precision(model, rng)
        rows = rng.multivariate_normal(np.zeros(P), np.linalg.inv(theta), size=n)
        length = np.linalg.norm(rows, axis=1).max()
        moments = moments_of(rows / length)
        ball = moments.matrix / n
        stream = insecure_keystream(int(rng.integers(2**31)))
        noise = release_as_printed(moments, math.sqrt(2), epsilon, 1 / n, stream) / n - ball
        quiet = noise / math.sqrt(2) if epsilon > 1 else noise
        for name in algorithms:
            key = (name, n, epsilon, model)
            diagonal = 2 * np.diag(quiet)
            entries = [np.abs(diagonal).sum(), np.linalg.norm(diagonal), np.abs(diagonal).max()]
            found.other["the noise's diagonal, doubled; l1 over all entries; less beyond 1"][key].append(
                np.array(entries)
            )
            if name == "ridge":
                found.other["literal, one penalty for all epsilon, noise / sqrt(2) beyond 1"][key].append(
                    norms(ridge_precision(ball + quiet, fixed) - theta)
                )
                if repetition == 0:
                    tried = [(norms(ridge_precision(ball + noise, a) - theta), a) for a in np.logspace(-5, 1, 61)]
                    nearest, alpha = min(tried, key=lambda pair: abs(math.log(pair[0][1] / target)))
                    found.other["literal, the penalty that gives the printed Frobenius loss"][key].append(nearest)
                    found.matched[key] = alpha
            for factor in (1.0, length**2)[: 1 if repetition > 1 else 2]:
                place = (name, float(factor != 1.0))
                clean = ball * factor
                if place not in alphas:
                    alphas[place] = cross_validated(name, rows / length * math.sqrt(factor), epsilon, rng)
                alpha = alphas[place]
                private = estimate_precision(name, clean + noise, alpha)
                if private is None:  # this noise needs more than the folds': the least that has a solution
                    found.raised += factor == 1.0
                    alpha = 1.05 * smallest_solvable_alpha(clean + noise)
                    private = estimate_precision(name, clean + noise, alpha)
                unnoised = estimate_precision(name, clean, alpha)
                if private is None or unnoised is None:
                    raise SystemExit(f"{key} was not solved")
                if factor == 1.0:
                    found.literal[key].append(norms(private - theta))
                    found.other["literal, Theta of scaled rows"][key].append(norms(private - length**2 * theta))
                    found.other["literal, distance to the estimate without noise"][key].append(
                        norms(private - unnoised)
                    )
                    continue
                found.other["rows as they are"][key].append(norms(private - theta))
                found.other["rows as they are, distance to the estimate without noise"][key].append(
                    norms(private - unnoised)
                )
                if (name, n, model) not in found.best_clean:
                    found.best_clean[name, n, model] = smallest_clean_loss(name, clean, theta)


def fixed_penalty(n: int, number: int, model: str) -> float:
    """Return the ridge penalty that cross-validation chooses at epsilon = 0.3, for a reading without any choice."""
    rng = np.random.default_rng([n, number, 0])
    rows = rng.multivariate_normal(np.zeros(P), np.linalg.inv(model_precision(model, rng)), size=n)
    return cross_validated("ridge", rows / np.linalg.norm(rows, axis=1).max(), 0.3, rng)


def smallest_clean_loss(name: str, matrix: Floats, theta: Floats) -> float:
    """Return the least Frobenius loss that any penalty reaches without privacy."""
    found = []
    for alpha in np.geomspace(1e-3, 3.0, 12):
        estimate = estimate_precision(name, matrix, float(alpha))
        if estimate is not None:
            found.append(float(np.linalg.norm(estimate - theta)))
    return min(found)


def cross_validated(name: str, rows: Floats, epsilon: float, rng: np.random.Generator) -> float:
    """Return the penalty with the smallest mean of the negative log-likelihood on folds that are held out."""
    n, fold = len(rows), np.arange(len(rows)) % 5
    sigma = math.sqrt(2) / (0.8 * n) * math.sqrt(2 * math.log(1.25 * n)) / epsilon
    grid: Floats = RIDGE_GRID
    scores: Floats | None = None
    for k in range(5):
        upper = np.triu(rng.normal(scale=sigma, size=(P, P)))
        train = rows[fold != k].T @ rows[fold != k] / (fold != k).sum() + upper + np.triu(upper, 1).T
        held = rows[fold == k].T @ rows[fold == k] / (fold == k).sum()
        if scores is None:
            if name != "ridge":
                grid = LASSO_SHARES * np.abs(train - np.diag(np.diag(train))).max()
            scores = np.zeros(len(grid))
        for index, alpha in enumerate(grid):
            estimate = estimate_precision(name, train, float(alpha))
            scores[index] += math.inf if estimate is None else -np.linalg.slogdet(estimate)[1] + np.vdot(held, estimate)
    if scores is None or not np.isfinite(scores).any():
        return float(grid[0])
    return float(grid[int(np.argmin(scores))])


def estimate_precision(name: str, matrix: Floats, alpha: float) -> Floats | None:
    """Return the estimate, or None where the problem has no solution."""
    if name == "ridge":
        return ridge_precision(matrix, alpha)
    solution = solve(make_problem(matrix, alpha), solver="auto", tol=1e-4, max_iter=200)
    return None if solution is None else solution.precision


def model_precision(model: str, rng: np.random.Generator) -> Floats:
    """Return S20's Theta; the diagonal of model 3 is 1, which is printed as 0."""
    eye = np.eye(P)
    if model == "model1":
        w = rng.normal(size=(10_000, P))
        return w.T @ w / 10_000
    if model == "model2":
        return 0.5 + 0.5 * eye
    if model == "model3":
        return sum((c * (np.eye(P, k=k) + np.eye(P, k=-k)) for k, c in ((1, 0.5), (2, 0.25))), start=eye)
    upper = np.triu(0.5 * (rng.random((P, P)) < 0.1), 1)
    eigenvalues = np.linalg.eigvalsh(upper + upper.T)
    lift = (eigenvalues[-1] - P * eigenvalues[0]) / (P - 1)  # condition number P
    theta: Floats = (upper + upper.T) / lift + eye
    return theta


def norms(difference: Floats) -> Floats:
    """Return the largest column sum, the Frobenius and the spectral norm."""
    return np.array([np.linalg.norm(difference, order) for order in (1, "fro", 2)])


def reason_of(theirs: list[float], norm: str) -> str:
    """Return the code of the first reason that the printed numbers themselves show, or else of the ridge penalty."""
    l1, frobenius, spectral = theirs
    if spectral > 1.01 * frobenius:
        return "S1"
    if l1 > 1.01 * math.sqrt(P) * (spectral + 0.005):
        return "S2"
    return "S4" if norm == "l1" else "S3"


def print_loss_readings(printed: pd.DataFrame, found: Losses) -> None:
    """Print how near each reading comes: the median and the spread of printed over ours."""
    print("Printed over ours, median over settings [10 %, 90 %], epsilon from 0.3 on:\n")
    print("| algorithm | reading | l1 | Frobenius | spectral |\n" + "|---" * 5 + "|")
    table = printed.set_index(["algorithm", "n", "epsilon", "model", "norm"]).loss_mean
    for algorithm in ("ridge", "graphical_lasso_admm"):
        for reading, values in {"literal": found.literal, **found.other}.items():
            line: list[str] = []
            if not any(key[0] == algorithm for key in values):
                continue
            for index, norm in enumerate(NORMS):
                ratios = [
                    table[(*key, norm)] / np.mean([losses[index] for losses in runs])
                    for key, runs in values.items()
                    if key[0] == algorithm and key[2] >= 0.3
                ]
                low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9)) if ratios else (math.nan,) * 3
                line.append(f"{middle:.3g} [{low:.2g}, {high:.2g}]")
            print(f"| {algorithm} | {reading} | " + " | ".join(line) + " |")
    for n in sorted({key[1] for key in found.matched}):
        alphas = [alpha * math.sqrt(n) for key, alpha in found.matched.items() if key[1] == n and 0.3 <= key[2] < 1]
        low, middle, high = np.quantile(alphas, (0.0, 0.5, 1.0))
        print(
            f"\nn = {n}: the ridge penalty with the printed Frobenius loss, times sqrt(n), epsilon 0.3 to 0.8: ", end=""
        )
        print(f"{middle:.3f} [{low:.3f}, {high:.3f}]")
    print("\nPrinted loss times epsilon, over its value at 0.3, median over settings (noise as printed gives 1):")
    for algorithm in ("ridge", "graphical_lasso_admm"):
        for norm in NORMS:
            shares = []
            for epsilon in EPSILONS:
                now = table[algorithm, :, epsilon, :, norm] * epsilon
                then = table[algorithm, :, 0.3, :, norm] * 0.3
                shares.append(f"{float((now / then).median()):.2f}")
            print(f"- {algorithm}, {norm}: " + ", ".join(f"{e:g}: {s}" for e, s in zip(EPSILONS, shares, strict=True)))


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


if __name__ == "__main__":
    main()
