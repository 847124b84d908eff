"""A dp-publish that is killed leaves a whole bundle at the final path or none, and the ledger knows of it."""

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
from dp_publish.ledger.ledger import Ledger


def _start(folder: Path, out: Path) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).with_name("dp-publish")
    return subprocess.Popen(
        [program, "big.parquet", "--anyway", "--out", out],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _publish_and_kill(folder: Path, table: pd.DataFrame, *, kills: int, seed: int, release: str) -> list[Path]:
    """Kill releases of a table at random moments; return those that left a file, every one checked.

    A file at the final path verifies and is on the books, and no other file is left behind.
    """
    table.to_parquet(folder / "big.parquet")
    bounds = "\n".join(f"[columns.{name}]\nbounds = [-4, 4]" for name in table.columns)
    (folder / "big.policy.toml").write_text(f'[privacy]\nmu = 1.0\nrelease = "{release}"\n{bounds}\n')
    started = time.monotonic()
    assert _start(folder, folder / "whole.tar").wait() == 0
    usual = time.monotonic() - started
    rng = random.Random(seed)
    left, released = [], {1}
    for attempt in range(kills):
        out = folder / f"out-{attempt}.tar"
        process = _start(folder, out)
        time.sleep(rng.uniform(0.3, 1.05) * usual)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if out.exists():
            with open_bundle(out, allow_older=True) as opened:
                released.add(opened.release.lineage.number)
            left.append(out)
        assert released <= {entry.number for entry in Ledger().entries("big")}
    minisigs = {f"{path.name}.minisig" for path in left}  # which a killed process may not have come to write
    assert {path.name for path in folder.iterdir() if path.is_file()} - minisigs == {
        *("big.parquet", "big.policy.toml", "whole.tar", "whole.tar.minisig"),
        *(path.name for path in left),
    }
    return left


def _normal_table(n_rows: int) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(5).normal(size=(n_rows, 4)), columns=list("abcd"))


@pytest.mark.slow
def test_killed_at_50_random_moments(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Of rows there is a whole bundle that is on the books, or none, whatever the moment."""
    _publish_and_kill(tmp_path, _normal_table(1_000_000), kills=50, seed=30, release="rows")


@pytest.mark.slow
def test_a_covariance_release_killed_at_20_random_moments(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Of second moments, too."""
    for left in _publish_and_kill(tmp_path, _normal_table(400_000), kills=20, seed=31, release="covariance"):
        with open_bundle(left, allow_older=True) as opened:
            assert opened.second_moments().shape == (5, 5)


@pytest.mark.slow
def test_a_killed_job_is_resumed_by_one_of_two(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Killed at four random moments, and resumed by two processes at once, a release is published and booked once."""
    _normal_table(200_000).to_parquet(tmp_path / "big.parquet")
    program, rng = Path(sys.executable).with_name("dp-publish"), random.Random(7)
    words: list[str | Path] = [program, "big.parquet", "--anyway", "--out", "big.tar", "--job", "big.job"]
    for attempt in range(4):
        process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not attempt and not (tmp_path / "big.job" / "reserved.json").exists() and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.2 if not attempt else 2.5))
        process.kill()
        process.wait()
        if (tmp_path / "big.job").exists():
            words = [program, "resume", "big.job"]

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
    processes = [_start(tmp_path, tmp_path / f"out-{index}.tar") for index in range(8)]
    codes = sorted(process.wait() for process in processes)
    total = Ledger().total("big", "row")

    assert codes == [0, 0, 0, 0, 0, 5, 5, 5]
    assert len(list(tmp_path.glob("out-*.tar"))) == 5
    assert sorted(entry.number for entry in Ledger().entries("big")) == [1, 2, 3, 4, 5]
    assert total is not None
    assert total.releases == 5
    assert total.mu == pytest.approx(5**0.5)
