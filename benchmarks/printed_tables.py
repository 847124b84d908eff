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
import os
import time
from pathlib import Path

import pandas as pd

from printed_losses import print_losses
from printed_relative_errors import print_relative_errors


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


if __name__ == "__main__":
    main()
