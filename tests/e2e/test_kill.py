"""A dp-publish that is killed leaves a whole bundle at the final path or none, and the ledger knows of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle import open_bundle
from dp_publish.ledger import Ledger

N_KILLS = 50


def _start(folder: Path, out: Path) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).with_name("dp-publish")
    return subprocess.Popen(
        [program, "big.parquet", "--out", out], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.mark.slow
def test_killed_at_50_random_moments(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Whatever the moment, a file at the final path verifies and is on the books, and no other file is left behind."""
    table = pd.DataFrame(np.random.default_rng(5).normal(size=(1_000_000, 4)), columns=list("abcd"))
    table.to_parquet(tmp_path / "big.parquet")
    bounds = "\n".join(f"[columns.{name}]\nbounds = [-4, 4]" for name in "abcd")
    (tmp_path / "big.policy.toml").write_text(f"[privacy]\nmu = 1.0\n{bounds}\n")
    started = time.monotonic()
    assert _start(tmp_path, tmp_path / "whole.tar").wait() == 0
    usual = time.monotonic() - started
    rng = random.Random(30)
    released = {1}
    for attempt in range(N_KILLS):
        out = tmp_path / f"out-{attempt}.tar"
        process = _start(tmp_path, out)
        time.sleep(rng.uniform(0.3, 1.05) * usual)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if out.exists():
            with open_bundle(out, allow_older=True) as opened:
                released.add(opened.release.lineage.number)
        spent = {entry.number for entry in Ledger().entries("big")}
        assert released <= spent

    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".") or ".partial" in path.name]
    assert {path.suffix for path in tmp_path.iterdir() if path.is_file()} <= {".parquet", ".toml", ".tar"}


@pytest.mark.slow
def test_a_covariance_release_killed_at_20_random_moments(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Of second moments, too, there is a whole bundle that is on the books, or none, and no other file."""
    table = pd.DataFrame(np.random.default_rng(5).normal(size=(400_000, 4)), columns=list("abcd"))
    table.to_parquet(tmp_path / "big.parquet")
    bounds = "\n".join(f"[columns.{name}]\nbounds = [-4, 4]" for name in "abcd")
    (tmp_path / "big.policy.toml").write_text(f'[privacy]\nmu = 1.0\nrelease = "covariance"\n{bounds}\n')
    started = time.monotonic()
    assert _start(tmp_path, tmp_path / "whole.tar").wait() == 0
    usual = time.monotonic() - started
    rng = random.Random(31)
    released = {1}
    for attempt in range(20):
        out = tmp_path / f"out-{attempt}.tar"
        process = _start(tmp_path, out)
        time.sleep(rng.uniform(0.3, 1.05) * usual)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if out.exists():
            with open_bundle(out, allow_older=True) as opened:
                released.add(opened.release.lineage.number)
                assert opened.second_moments().shape == (5, 5)
        assert released <= {entry.number for entry in Ledger().entries("big")}

    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".") or ".partial" in path.name]


def test_eight_at_once_with_room_for_five(tmp_path: Path, key: Ed25519PrivateKey, table: pd.DataFrame) -> None:
    """Of eight processes that publish one dataset at once with room for five, five succeed and three exit with 5."""
    table[["height", "weight"]].to_parquet(tmp_path / "big.parquet")
    bounds = "\n".join(f"[columns.{name}]\nbounds = [0, 220]" for name in ("height", "weight"))
    (tmp_path / "big.policy.toml").write_text(f"[privacy]\nmu = 1.0\nbudget_mu = {5**0.5}\n{bounds}\n")
    processes = [_start(tmp_path, tmp_path / f"out-{index}.tar") for index in range(8)]
    codes = sorted(process.wait() for process in processes)
    total = Ledger().total("big", "row")

    assert codes == [0, 0, 0, 0, 0, 5, 5, 5]
    assert len(list(tmp_path.glob("out-*.tar"))) == 5
    assert sorted(entry.number for entry in Ledger().entries("big")) == [1, 2, 3, 4, 5]
    assert total is not None
    assert total.releases == 5
    assert total.mu == pytest.approx(5**0.5)
