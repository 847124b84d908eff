"""A job that is killed is resumed once, and of many releases at once no more are published than there is room for."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_publish.ledger.ledger import Ledger

PROGRAM = Path(sys.executable).with_name("dp-publish")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@pytest.mark.slow
def test_a_killed_job_is_resumed_by_one_of_two(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Killed at four random moments, and resumed by two processes at once, a release is published and booked once."""
    normal = np.random.default_rng(5).normal(size=(200_000, 4))
    pd.DataFrame(normal, columns=list("abcd")).to_parquet(tmp_path / "big.parquet")
    rng, words = random.Random(7), [PROGRAM, "big.parquet", "--anyway", "--out", "big.tar", "--job", "big.job"]
    for attempt in range(4):
        process = subprocess.Popen(words, cwd=tmp_path, **QUIET)
        deadline = time.monotonic() + 60
        while not attempt and not (tmp_path / "big.job" / "reserved.json").exists() and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.2 if not attempt else 2.5))
        process.kill()
        process.wait()
        if (tmp_path / "big.job").exists():
            words = [PROGRAM, "resume", "big.job"]

    both = [subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[1] for process in both]
    with open_bundle(tmp_path / "big.tar", allow_older=True) as opened:
        (entry,) = Ledger().entries("big")
        assert (entry.state, entry.manifest_sha256) == ("published", opened.manifest_sha256)
    assert all(process.returncode == 0 or "Traceback" not in text for process, text in zip(both, said, strict=True))
    assert not (tmp_path / "big.job").exists()


@pytest.mark.slow
def test_eight_at_once_with_room_for_five(tmp_path: Path, key: Ed25519PrivateKey, table: pd.DataFrame) -> None:
    """Of eight processes that publish one dataset at once with room for five, five succeed and three exit with 5."""
    table[["height", "weight"]].to_parquet(tmp_path / "big.parquet")
    bounds = "\n".join(f"[columns.{name}]\nbounds = [0, 220]" for name in ("height", "weight"))
    (tmp_path / "big.policy.toml").write_text(f"[privacy]\nmu = 1.0\nbudget_mu = {5**0.5}\n{bounds}\n")
    processes = [
        subprocess.Popen([PROGRAM, "big.parquet", "--anyway", "--out", f"out-{index}.tar"], cwd=tmp_path, **QUIET)
        for index in range(8)
    ]
    codes = sorted(process.wait() for process in processes)
    account = Ledger().books().account("big")

    assert codes == [0, 0, 0, 0, 0, 5, 5, 5]
    assert len(list(tmp_path.glob("out-*.tar"))) == 5
    assert sorted(entry.number for entry in Ledger().entries("big")) == [1, 2, 3, 4, 5]
    assert account.releases == 5
    assert account.mu("row") == pytest.approx(5**0.5)
