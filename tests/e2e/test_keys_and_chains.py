"""Changes of keys, ends of trust and chains, as a reader meets them at the command line."""

import json
import shutil
from pathlib import Path

import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run

from dp_publish import Policy, Receipt, publish


def test_rotation_and_revocation_at_the_command_line(bundle: Receipt, command: Run, home: Path, tmp_path: Path) -> None:
    """A successor revokes its predecessor, whose bundles are then refused, and an expired rotation is, too."""
    for name in ("old", "new"):
        assert command("dp-bundle", "keys", "new", name).returncode == 0
    late = command("dp-bundle", "keys", "rotate", "old", "new", "--expires", "2020-01-01", "--out", tmp_path / "late")
    assert (late.returncode, (tmp_path / "late").exists()) == (3, False)
    assert "expired on 2020-01-01" in late.stderr
    rotated = command("dp-bundle", "keys", "rotate", "old", "new", "--out", tmp_path / "a.json")
    assert rotated.returncode == 0, rotated.stderr
    assert command("dp-bundle", "trust", tmp_path / "a.json").returncode == 0
    revoked = command("dp-bundle", "keys", "revoke", "old", "--by", "new", "--out", tmp_path / "b.json")
    assert revoked.returncode == 0, revoked.stderr
    assert "REVOKED" in command("dp-bundle", "trust").stdout
    again = command("dp-bundle", "trust", tmp_path / "a.json")
    assert again.returncode == 3
    assert "was revoked" in again.stderr


def test_trust_is_listed_and_ends(bundle: Receipt, command: Run, home: Path) -> None:
    """A list names keys with their days; what has ended is refused in one sentence, and can be renewed."""
    key = home / "keys" / "publisher.pub"
    ended = command("dp-bundle", "trust", key, "--until", "2020-01-01")
    assert ended.returncode == 0
    assert "until 2020-01-01" in command("dp-bundle", "trust").stdout
    late = command("dp-bundle", "verify", bundle.path)
    assert (late.returncode, late.stderr.count("\n")) == (3, 1)
    assert "was trusted on this machine until 2020-01-01: if you still trust that key run: dp-bundle" in late.stderr
    assert command("dp-bundle", "trust", key, "--until", "2999-12-31").returncode == 0
    assert command("dp-bundle", "verify", bundle.path).returncode == 0


def test_chain_is_checked_at_the_command_line(
    bundle: Receipt, table: pd.DataFrame, policy: Policy, key: Ed25519PrivateKey, command: Run, tmp_path: Path
) -> None:
    """The answer names each release of a whole chain, and inspect the predecessor, and whether it was verified here."""
    folder = tmp_path / "all"
    folder.mkdir()
    newest = publish(table, policy, out=folder / "second.tar", key=key).path
    shutil.copy(bundle.path, folder)
    listed = json.loads(command("dp-bundle", "verify", newest, "--chain", folder, "--json").stdout)["chain"]
    assert [each["number"] for each in listed] == [1, 2]

    shown = command("dp-bundle", "inspect", newest).stdout
    assert f"follows the one with the manifest {listed[0]['manifest_sha256']} (not verified here before)" in shown
    command("dp-bundle", "verify", bundle.path, "--allow-older")
    facts = json.loads(command("dp-bundle", "inspect", newest, "--json").stdout)["chain"]
    assert (facts["previous"], facts["previous_verified_here"]) == (listed[0]["manifest_sha256"], True)
