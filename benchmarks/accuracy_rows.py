"""How far are correlations from rows whose bounds were found privately? Real tables, cells protected.

    DPGRAPH_DATA=... OPENBLAS_NUM_THREADS=1 python benchmarks/accuracy_rows.py [--repetitions 40]

Each table is published as rows by `publish`, without a bound in the policy, and read from its bundle. The figure is the
median over repetitions of the median over pairs of |correlation released - correlation of the table|, where the
correlations released are those of S - diag(v), S being the covariance of the noisy rows and v their noise. A column
whose debiased variance is not positive has the correlation 0 with all others. For comparison, the same with bounds
declared: the 0.5 to 99.5 % range of every column, and that range made 3 and 1,000 times wider, off-center at random.

It takes about five minutes of one processor.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from sklearn import datasets

from dp_bundle.bundle.reading import open_bundle
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_learn.covariance.estimate import debias_covariance
from dp_publish import Policy, publish
from dp_publish.ledger.ledger import Ledger
from dp_publish.sampling.keystream import insecure_keystream

Floats = NDArray[np.float64]
CASES = {"wine": 10.0, "breast cancer": 3.0, "sachs": 3.0}  # mu of a cell
TARGETS = {"wine": 0.04, "breast cancer": 0.09, "sachs": 0.05}
WIDENED = (1.0, 3.0, 1000.0)


def load(name: str) -> Floats:
    """Return a table; sachs in logarithms."""
    if name == "sachs":
        rows = pd.read_csv(Path(os.environ["DPGRAPH_DATA"]) / "sachs" / "sachs.csv").to_numpy(dtype=np.float64)
        return np.log(rows)
    loaded = datasets.load_wine() if name == "wine" else datasets.load_breast_cancer()
    return np.asarray(loaded.data, dtype=np.float64)


def declared_bounds(rows: Floats, times: float, rng: np.random.Generator) -> dict[str, list[float]]:
    """Return the 0.5 to 99.5 % range of every column, so many times wider, off-center at random."""
    low, high = np.quantile(rows, [0.005, 0.995], axis=0)
    start = low - (times - 1) * (high - low) * rng.uniform(size=len(low))
    return {f"x{j}": [float(start[j]), float(start[j] + times * (high[j] - low[j]))] for j in range(len(low))}


def correlation_error(rows: Floats, mu: float, seed: int, bounds: Mapping[str, list[float]] | None = None) -> float:
    """Publish a table as rows with cells protected, and return the median error of the correlations read from it.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        The table; its columns are called x0, x1 and so on.
    mu : float
        What a cell is protected with.
    seed : int
        Of the noise.
    bounds : mapping of str to [low, high], optional
        Declared bounds; by default they are found privately.
    """
    frame = pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])
    columns = {name: {"kind": "continuous"} | ({"bounds": bounds[name]} if bounds else {}) for name in frame}
    policy = Policy.model_validate(
        {"dataset": {"name": "t"}, "privacy": {"unit": "cell", "mu": mu}, "columns": columns}
    )
    with tempfile.TemporaryDirectory() as folder:
        ledger, key = Ledger(Path(folder) / "ledger"), Ed25519PrivateKey.generate()
        out = Path(folder) / "t.tar"
        publish(frame, policy, out=out, key=key, ledger=ledger, keystream=insecure_keystream(seed))
        with open_bundle(out, UnsafeTrustAnyone()) as bundle:
            noisy = np.vstack([batch.to_pandas().to_numpy() for batch in bundle.batches()])
            variances = [column.cell_noise.variance for column in bundle.release.columns]

    covariance = debias_covariance(np.cov(noisy.T), np.array(variances))
    variance = np.diag(covariance)
    deviation = np.sqrt(np.where(variance > 0, variance, np.inf))
    released = np.clip(covariance / np.outer(deviation, deviation), -1, 1)
    pairs = np.triu_indices(len(variance), 1)
    return float(np.median(np.abs(released - np.corrcoef(rows.T))[pairs]))


def main() -> None:
    """Print a line for each table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=40)
    repetitions = range(parser.parse_args().repetitions)
    print("table, mu: found (target); declared x1, x3, x1000")
    for name, mu in CASES.items():
        rows = load(name)
        found = np.median([correlation_error(rows, mu, seed) for seed in repetitions])
        declared = [
            np.median(
                [
                    correlation_error(rows, mu, seed, declared_bounds(rows, times, np.random.default_rng(seed)))
                    for seed in repetitions
                ]
            )
            for times in WIDENED
        ]
        others = ", ".join(f"{error:.4f}" for error in declared)
        print(f"{name}, {mu:g}: {found:.4f} ({TARGETS[name]}); {others}", flush=True)


if __name__ == "__main__":
    main()
