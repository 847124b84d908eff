"""Of many releases at once no more are published than there is room for, also where some are killed."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_publish.ledger.ledger import Ledger
from dp_publish.release.begun import records

PROGRAM = Path(sys.executable).with_name("dp-publish")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_started", "n_killed"), [(5, 2), *(pytest.param(8, number, marks=pytest.mark.long) for number in (0, 3))]
)
def test_many_at_once_with_room_for_three(
    n_started: int, n_killed: int, tmp_path: Path, key: Ed25519PrivateKey, table: pd.DataFrame
) -> None:
    """Three succeed and others exit with 5; where some are killed and given again, it is three in the end as well."""
    table[["height", "weight"]].to_parquet(tmp_path / "big.parquet")
    (tmp_path / "big.policy.toml").write_text(
        f'[privacy]\nmu = 1.0\nbudget_mu = {3**0.5}\nrelease = "covariance"\n[columns.height]\n[columns.weight]\n'
    )

    def start(index: int) -> subprocess.Popen[bytes]:
        words = [PROGRAM, "big.parquet", "--anyway", "--out", f"out-{index}.tar"]
        return subprocess.Popen(words, cwd=tmp_path, **QUIET)

    rng, processes = random.Random(3), [start(index) for index in range(n_started)]
    for process in processes[:n_killed]:
        time.sleep(rng.uniform(0.5, 2.0))
        process.kill()
    codes = [process.wait() for process in processes]
    codes = [start(index).wait() if code < 0 else code for index, code in enumerate(codes)]
    left = [start(index).wait() for index, code in enumerate(codes) if code == 5]

    account, published = Ledger().books().account("big"), sorted(tmp_path.glob("out-*.tar"))
    assert {*codes, *left} <= {0, 5}
    assert len(published) == len(Ledger().entries("big")) == account.releases == 3
    for path in published:
        open_bundle(path, allow_older=True).close()
    assert {entry.state for entry in Ledger().entries("big")} == {"published"}
    assert account.mu("row") == pytest.approx(3**0.5)
    assert not [*records(Ledger())]
