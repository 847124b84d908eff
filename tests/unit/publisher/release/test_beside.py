"""The signature for minisign beside a release: written after it, made again at any time, never a reason to fail."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from dp_bundle import open_bundle
from dp_bundle.bundle import companions as module
from dp_bundle.bundle.companions import minisig_path
from dp_bundle.trust.keys import new_key_pair
from dp_publish.ledger.ledger import Ledger

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def data(table: pd.DataFrame, tmp_path: Path) -> Path:
    """Write the small table and a policy."""
    path = tmp_path / "people.parquet"
    table[["height", "weight"]].to_parquet(path)
    bounds = "".join(f"[columns.{name}]\nbounds = [0, 220]\n" for name in ("height", "weight"))
    path.with_suffix(".policy.toml").write_text(f"[privacy]\nmu = 20.0\n{bounds}")
    return path


def _minisign(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    words = ["minisign", "-V", "-p", "minisign.pub", "-m", name]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.tools
def test_minisign_accepts_what_dp_publish_writes(data: Path, tmp_path: Path, command: Command) -> None:
    """The stock minisign accepts the bundle by the exported key, and its comment names release and manifest."""
    assert command("dp-publish", data, "--quiet").returncode == 0
    exported = command("dp-bundle", "keys", "export", "--format", "minisign")
    (tmp_path / "minisign.pub").write_text(exported.stdout)
    done = _minisign(tmp_path, "people.bundle.tar")
    assert done.returncode == 0, done.stderr
    with open_bundle(tmp_path / "people.bundle.tar") as opened:
        said = f"Trusted comment: release 1 of people, manifest sha256:{opened.manifest_sha256}"
    assert said in done.stdout


def test_same_signature_is_made_again(data: Path, tmp_path: Path, command: Command) -> None:
    """A signature that a killed process did not write, or that was lost, is made again, byte for byte."""
    command("dp-publish", data, "--quiet")
    minisig = tmp_path / "people.bundle.tar.minisig"
    before = minisig.read_bytes()
    assert command("dp-bundle", "minisign", "people.bundle.tar").returncode == 0  # it is there, and right
    minisig.unlink()
    done = command("dp-bundle", "minisign", "people.bundle.tar", "--json")
    assert done.returncode == 0, done.stderr
    assert '"minisig": "people.bundle.tar.minisig"' in done.stdout
    assert minisig.read_bytes() == before

    minisig.write_bytes(b"another")
    refused = command("dp-bundle", "minisign", "people.bundle.tar")
    assert refused.returncode == 1
    assert minisig.read_bytes() == b"another"
    assert command("dp-bundle", "verify", "people.bundle.tar").returncode == 0  # which no file beside it can prevent


def test_only_the_signer_of_a_bundle_signs_its_file(data: Path, tmp_path: Path, command: Command) -> None:
    """Another key, and a user without that key, are refused, and a bundle that does not verify is not signed."""
    command("dp-publish", data, "--quiet")
    path = tmp_path / "people.bundle.tar"
    minisig_path(path).unlink()
    new_key_pair("other")
    refused = command("dp-bundle", "minisign", path, "--key", "other")
    assert refused.returncode == 2

    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    assert command("dp-bundle", "minisign", path).returncode == 3
    path.write_bytes(content)
    for name in ("publisher.key", "publisher.pub"):
        (tmp_path / "home" / "keys" / name).unlink()
    refused = command("dp-bundle", "minisign", path)
    assert refused.returncode == 1
    assert not minisig_path(path).exists()


def test_stale_signature_is_refused_before_anything_is_spent(data: Path, tmp_path: Path, command: Command) -> None:
    """A signature of a bundle that is no longer there is not replaced, and the release does not begin."""
    minisig = tmp_path / "people.bundle.tar.minisig"
    minisig.write_bytes(b"of another file")
    refused = command("dp-publish", data)
    assert refused.returncode == 1
    assert Ledger().entries() == []
    assert minisig.read_bytes() == b"of another file"


def test_release_is_complete_without_its_signature(
    data: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the signature cannot be written, the release is complete and booked, and the note says what to type."""

    def fail(path: Path, content: bytes, *, replace: bool) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_whole", fail)
    done = command("dp-publish", data)
    assert done.returncode == 0
    assert "dp-bundle minisign people.bundle.tar" in done.stderr
    assert [entry.state for entry in Ledger().entries()] == ["published"]
    open_bundle(tmp_path / "people.bundle.tar").close()
