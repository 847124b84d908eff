"""Rows by MST or AIM of dpmm, for benchmarks/synthetic.py: run by a Python that has dpmm, no dependency of ours.

python benchmarks/synthetic_peers.py METHOD TABLE.parquet DOMAIN.json MU SEED ROWS OUT.parquet

METHOD is mst or aim, with equal bins within the bounds, or mst-tree or aim-tree, with the private bins that dpmm has by
default. All of them get the epsilon at delta = 1e-5 that costs them rho = mu^2 / 2, as our release does; bins by trees
have their own budget besides, as it comes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
from dpmm.models.base.mechanisms import cdp_rho
from dpmm.pipelines import AIMPipeline, MSTPipeline

_DELTA, _BINS = 1e-5, 32
_MOST_MB = 80  # of the model


def epsilon_of(mu: float) -> float:
    """Return the epsilon that costs rho = mu^2 / 2."""
    low, high = 0.0, 200.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cdp_rho(middle, _DELTA) < 0.5 * mu * mu else (low, middle)
    return high


def main() -> None:
    """Write the rows."""
    method, table, domain, mu, seed, n_rows, out = sys.argv[1:]
    pipeline = MSTPipeline if method.startswith("mst") else AIMPipeline
    binner = {} if method.endswith("tree") else {"binner_type": "uniform", "proc_epsilon": None, "n_bins": _BINS}
    model = pipeline(epsilon=epsilon_of(float(mu)), delta=_DELTA, n_jobs=1, max_model_size=_MOST_MB, **binner)
    model.fit(pd.read_parquet(table), domain=json.loads(Path(domain).read_text()), random_state=int(seed))
    model.generate(n_records=int(n_rows), random_state=int(seed)).to_parquet(out)


if __name__ == "__main__":
    main()
