"""The losses that S20 prints, computed again; `printed_tables.py` says what is taken literally."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd

from printed_loss_runs import Losses, P, fixed_penalty, run_setting
from printed_noise import mean_and_error

EPSILONS = (0.1, 0.3, 0.5, 0.8, 1.2, 2.0)
NORMS = ("l1", "frobenius", "spectral")


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
