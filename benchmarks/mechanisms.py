"""Error of the covariance mechanisms against epsilon, on three tables and the generator of Amin et al. (2019).

    DPGRAPH_DATA=DIR OPENBLAS_NUM_THREADS=1 python benchmarks/mechanisms.py [--repetitions 50] [--out DIR]

wine comes with scikit-learn; airfoil/airfoil.csv and adult/adult.parquet are looked for in $DPGRAPH_DATA. Categories
are coded as indicators (adult, without its label: 108 columns), columns are scaled to [-1, 1] by their range and rows
divided by the largest norm: that scaling is not private, and is for comparison only. There is no constant coordinate,
as the paper has none. Every mechanism releases the same sum of second moments, for replace-one neighbours; Gaussian,
SULQ and Wishart noise have delta = 1e-6. A column "printed" is the paper's form of what is on its left; Wishart noise
that takes more than a million normal numbers is left out, and Kapralov & Talwar's has the printed form only. Vectors
are drawn in floating point, by the law of a release, whose exact arithmetic takes half a minute for 100 columns.
Repetition k has the same random bits in all forms.

Printed: the mean of ||C^ - C||_F / n over repetitions, and which pure mechanism `auto` would take. Then our eigenvector
mechanism against the printed form, by both splits, and the root mean square of our Gaussian's off-diagonal errors over
that of the printed form. Written: mechanisms.png.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_wine

from dp_bundle.base.errors import ParameterError
from dp_publish.accounting.strength import ApproximateDP, GaussianDP, PureDP
from dp_publish.covariance.calibration import choose_mechanism
from dp_publish.covariance.exact_moments import ExactMoments, moments_of_batch
from dp_publish.covariance.mechanisms.base import NoisyMoments
from dp_publish.covariance.mechanisms.eigenvectors import Eigenvectors
from dp_publish.covariance.mechanisms.gaussian import Gaussian
from dp_publish.covariance.mechanisms.laplace import Laplace
from dp_publish.covariance.mechanisms.sulq import Sulq
from dp_publish.covariance.mechanisms.wishart import Wishart
from dp_publish.covariance.mechanisms.wishart_difference import WishartDifference
from dp_publish.covariance.scaling import scaling_for
from dp_publish.sampling.keystream import Keystream, insecure_keystream
from printed_forms import (
    OneVariance,
    PrintedEigenvectors,
    PrintedKapralovTalwar,
    PrintedLaplace,
    PrintedUniformEigenvectors,
    PrintedWishart,
    UniformEigenvectors,
    insecure_release,
    make,
    release,
)

EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0)
DELTA = 1e-6
MOST_NORMALS = 1_000_000
Mechanism = Callable[[ExactMoments, float, Keystream], NoisyMoments]
Results = dict[tuple[str, float], dict[str, Any]]


def printed_gaussian(moments: ExactMoments, epsilon: float, rng: Keystream) -> NoisyMoments:
    """Release with sigma = Delta sqrt(2 ln(1.25 / delta)) / epsilon on every entry, which is stated for epsilon < 1."""
    if epsilon >= 1:
        raise ParameterError("epsilon", "below 1", epsilon)
    return release(OneVariance, moments, GaussianDP(epsilon / math.sqrt(2 * math.log(1.25 / DELTA))), rng=rng)


def equal_mu_gaussian(moments: ExactMoments, epsilon: float, rng: Keystream) -> NoisyMoments:
    """Release with one variance for all entries, as printed, but with the mu of our form."""
    return release(OneVariance, moments, GaussianDP(ApproximateDP(epsilon, DELTA).mu), rng=rng)


def wishart(moments: ExactMoments, epsilon: float, rng: Keystream, *, kind: type[Wishart]) -> NoisyMoments:
    """Release with Wishart noise, unless that takes more than a million normal numbers."""
    mechanism = make(kind, moments, ApproximateDP(epsilon, DELTA))
    if mechanism.degrees_for(DELTA) * moments.scaling.n_coordinates > MOST_NORMALS:
        raise ParameterError("epsilon", "larger, as this takes too long", epsilon)
    return mechanism.draw(moments, rng)


def mechanisms() -> dict[str, Mechanism]:
    """Return every mechanism as a function of moments, epsilon and a keystream."""
    pure = {
        "eigen adaptive": Eigenvectors,
        "  printed": PrintedEigenvectors,
        "eigen uniform": UniformEigenvectors,
        " printed": PrintedUniformEigenvectors,
        "Kapralov-T.": PrintedKapralovTalwar,
        "Laplace": Laplace,
        "printed": PrintedLaplace,
        "Wishart diff.": WishartDifference,
    }
    return {name: lambda m, e, rng, k=kind: insecure_release(k, m, PureDP(e), rng) for name, kind in pure.items()} | {
        "Gauss": lambda m, e, rng: release(Gaussian, m, GaussianDP(ApproximateDP(e, DELTA).mu), rng=rng),
        "one variance": equal_mu_gaussian,
        "printed ": printed_gaussian,
        "Wishart": partial(wishart, kind=Wishart),
        "printed  ": partial(wishart, kind=PrintedWishart),
        "SULQ": lambda m, e, rng: release(Sulq, m, ApproximateDP(e, DELTA), rng=rng),
    }


PAIRS = (("eigen adaptive", "  printed"), ("eigen uniform", " printed"))
PURE = ("eigen adaptive", "Laplace", "Wishart diff.")


def make_tables(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Return the rows of every data set, scaled as described above."""
    adult = pd.read_parquet(folder / "adult" / "adult.parquet").drop(columns=["split", "income"])
    rng = np.random.default_rng(2019)
    raw = {
        "wine": load_wine().data,
        "airfoil": pd.read_csv(folder / "airfoil" / "airfoil.csv").to_numpy(dtype=float),
        "adult": pd.get_dummies(adult).to_numpy(dtype=float),
        "synthetic": rng.normal(size=(10_000, 20)) @ rng.uniform(size=(20, 20)),
    }
    return {name: to_ball(rows) for name, rows in raw.items()}


def to_ball(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale every column to [-1, 1] by its range, and all rows by the largest norm."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    scaled = (2 * rows - low - high) / np.where(high > low, high - low, 1.0)
    result: NDArray[np.float64] = scaled / np.linalg.norm(scaled, axis=1).max()
    return result


def errors_of(draw: Mechanism, moments: ExactMoments, epsilon: float, n: int) -> NDArray[np.float64] | None:
    """Return the normalised Frobenius error and the mean squared off-diagonal one of every repetition."""
    exact, upper = moments.matrix, np.triu_indices(moments.scaling.n_coordinates, 1)
    found = []
    for seed in range(n):
        try:
            noisy = draw(moments, epsilon, insecure_keystream(seed))
        except (
            ParameterError
        ):  # printed Wishart and Gaussian noise are stated for epsilon < 1 only; or it takes too long
            return None
        error = noisy.matrix - noisy.noise.bias * np.eye(len(exact)) - exact
        found.append((np.linalg.norm(error) / moments.n_rows, np.mean(error[upper] ** 2)))
    return np.array(found)


def main() -> None:
    """Print the table and the checks, and draw the picture."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path())
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    releases, verdicts = mechanisms(), []
    results: Results = {}
    for table, rows in make_tables(Path(os.environ["DPGRAPH_DATA"])).items():
        scaling = scaling_for([(-1.0, 1.0)] * rows.shape[1], radius=1.0, with_mean=False)
        moments = moments_of_batch(rows, scaling)
        size = np.linalg.norm(moments.matrix) / len(rows)
        print(f"\n{table}: {len(rows)} rows, {rows.shape[1]} columns, ||C||_F / n = {size:.3f}")
        print("epsilon " + "".join(f"{name.strip():>15}" for name in releases))
        for epsilon in EPSILONS:
            line = {name: errors_of(f, moments, epsilon, options.repetitions) for name, f in releases.items()}
            results[table, epsilon] = line
            means = {name: found[:, 0].mean() for name, found in line.items() if found is not None}
            print(f"{epsilon:7g} " + "".join(f"{means[n]:15.4f}" if n in means else f"{'-':>15}" for n in releases))
            for ours, theirs in PAIRS:
                verdicts.append((table, epsilon, ours, line[ours][:, 0] - line[theirs][:, 0]))
            pick = choose_mechanism(len(rows), scaling, PureDP(epsilon))[0].name
            best = min(PURE, key=means.__getitem__)
            print(f"{'':8}auto, pure epsilon: {pick}; better here: {best}", flush=True)
    print_checks(results, verdicts)
    draw(results, options.out / "mechanisms.png")
    print(f"{time.perf_counter() - start:.0f} s, {options.repetitions} repetitions")


def print_checks(results: Results, verdicts: list[tuple[str, float, str, NDArray[np.float64]]]) -> None:
    """Print how our forms compare with the printed ones."""
    differences = [(found.mean(), found.std(ddof=1) / math.sqrt(len(found))) for *_, found in verdicts]
    clear = sum(mean < -3 * error for mean, error in differences)
    larger = [verdict[:3] for verdict, (mean, _) in zip(verdicts, differences, strict=True) if mean > 0]
    print(
        f"\neigenvectors, ours - printed: smaller by more than 3 standard errors at {clear} of {len(verdicts)} points"
    )
    print(f"larger at: {larger or 'no point'}")
    for other, meaning in (("one variance", "one variance for all entries, equal mu"), ("printed ", "as printed")):
        ratios = [
            math.sqrt(line["Gauss"][:, 1].mean() / line[other][:, 1].mean())
            for line in results.values()
            if line[other] is not None
        ]
        print(
            f"Gaussian, off-diagonal root mean square error over that of {meaning}: mean {np.mean(ratios):.4f}, "
            f"{min(ratios):.4f} to {max(ratios):.4f} over {len(ratios)} points"
        )


def draw(results: Results, path: Path) -> None:
    """Draw mean errors against epsilon, a panel for every table."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(table for table, _ in results))
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names) + 2, 4), constrained_layout=True)
    for axis, table in zip(axes, names, strict=True):
        label, color = "", -1
        for name in mechanisms():
            line = [(e, results[table, e][name]) for e in EPSILONS if results[table, e][name] is not None]
            printed = "printed" in name
            label, color = (f"{label}, printed", color) if printed else (name, color + 1)
            x, y = [e for e, _ in line], [found[:, 0].mean() for _, found in line]
            axis.loglog(x, y, "--" if printed else "-", color=f"C{color}", label=label)
        axis.set(title=table, xlabel="epsilon", ylabel="||C^ - C||_F / n")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
