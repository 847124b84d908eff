"""The signature for minisign beside a release: written after it, made again at any time, never a reason to fail."""

import subprocess
from pathlib import Path

import pandas as pd
import pytest
from tests.conftest import Run
from tests.unit.publisher.release.conftest import states

from dp_bundle import open_bundle
from dp_bundle.bundle import packing as module
from dp_bundle.trust.store import new_key_pair


@pytest.fixture
def data(table: pd.DataFrame, tmp_path: Path) -> Path:
    """Write the small table and a policy."""
    path = tmp_path / "people.parquet"
    table[["height", "weight"]].to_parquet(path)
    bounds = "".join(f"[columns.{name}]\nbounds = [0, 220]\n" for name in ("height", "weight"))
    path.with_suffix(".policy.toml").write_text(f"[privacy]\nmu = 20.0\n{bounds}")
    return path


@pytest.mark.tools
def test_minisign_accepts_what_dp_publish_writes(data: Path, tmp_path: Path, command: Run) -> None:
    """The stock minisign accepts the bundle by the exported key, and its comment names release and manifest."""
    assert command("dp-publish", data, "--quiet").returncode == 0
    exported = command("dp-bundle", "keys", "export", "--format", "minisign")
    (tmp_path / "minisign.pub").write_text(exported.stdout)
    words = ["minisign", "-V", "-p", "minisign.pub", "-m", "people.bundle.tar"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    with open_bundle(tmp_path / "people.bundle.tar") as opened:
        said = f"Trusted comment: release 1 of people, manifest sha256:{opened.manifest_sha256}"
    assert said in done.stdout


def test_same_signature_is_made_again(data: Path, tmp_path: Path, command: Run) -> None:
    """A signature that was lost is made again, byte for byte, by the signer alone; another one is never replaced."""
    command("dp-publish", data, "--quiet")
    minisig = tmp_path / "people.bundle.tar.minisig"
    before = minisig.read_bytes()
    minisig.unlink()
    new_key_pair("other")
    assert command("dp-bundle", "minisign", "people.bundle.tar", "--key", "other").returncode == 2
    for _ in range(2):  # the second time it is there, and right
        assert command("dp-bundle", "minisign", "people.bundle.tar").returncode == 0
    assert minisig.read_bytes() == before

    minisig.write_bytes(b"another")
    assert command("dp-bundle", "minisign", "people.bundle.tar").returncode == 1
    assert command("dp-bundle", "verify", "people.bundle.tar").returncode == 0  # which no file beside it can prevent
    (tmp_path / "people.bundle.tar").unlink()
    assert command("dp-publish", data).returncode == 1
    assert minisig.read_bytes() == b"another"
    assert states() == ["published"]


def test_release_is_complete_without_its_signature(
    data: Path, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the signature cannot be written, the release is complete and booked, and the note says what to type."""

    def fail(path: Path, content: bytes, *, replace: bool) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_whole", fail)
    done = command("dp-publish", data)
    assert done.returncode == 0
    assert "dp-bundle minisign people.bundle.tar" in done.stderr
    assert states() == ["published"]
    open_bundle(tmp_path / "people.bundle.tar").close()
