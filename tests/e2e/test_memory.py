"""Memory does not grow with the number of rows, on either side."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

N_ROWS, N_COLUMNS, LIMIT_MB = 5_000_000, 10, 500


_MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def _peak_mb(folder: Path, name: str, *arguments: str) -> float:
    """Run a command and return its peak resident memory, as the kernel counted it.

    A small process starts it: a child's figure never falls below what its parent had resident.
    """
    words = [sys.executable, "-c", _MEASURE, str(Path(sys.executable).with_name(name)), *arguments]
    printed = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    code, kilobytes = map(int, printed.split())
    assert code == 0
    return kilobytes / 1024


@pytest.mark.slow
def test_five_million_rows_in_500_mb(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A table of 5 million rows and 10 columns is published and learned from, on two cores, in 500 MB each."""
    rng = np.random.default_rng(5)
    names = [f"x{index}" for index in range(N_COLUMNS)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(tmp_path / "big.parquet", schema) as writer:
        for _ in range(20):
            common = rng.normal(size=N_ROWS // 20)
            columns = [common + rng.normal(size=N_ROWS // 20) for _ in names]
            writer.write_table(pa.table(columns, schema=schema))
    bounds = "\n".join(f"[columns.{name}]\nbounds = [-6, 6]" for name in names)
    (tmp_path / "big.policy.toml").write_text(f"[privacy]\nmu = 1.0\n{bounds}\n")

    publish_mb = _peak_mb(tmp_path, "dp-publish", "big.parquet", "--anyway")
    learn_mb = _peak_mb(tmp_path, "dp-learn", "big.bundle.tar")

    print(f"peak memory: publish {publish_mb:.0f} MB, learn {learn_mb:.0f} MB")  # noqa: T201  the figures are the result
    assert publish_mb < LIMIT_MB
    assert learn_mb < LIMIT_MB
