"""Several signers, changes of keys and ends of trust, as a reader meets them at the command line."""

import json
import shutil
from pathlib import Path

import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run

from dp_publish import Policy, Receipt, publish


def test_two_of_three_sign_a_bundle(bundle: Receipt, command: Run, home: Path) -> None:
    """One of three is refused, also twice; two are accepted, unless a bit of one is flipped; the tar stays as it is."""
    for name in ("second", "third", "stranger"):
        assert command("dp-bundle", "keys", "new", name).returncode == 0
    assert command("dp-bundle", "trust", home / "keys" / "stranger.pub", "--remove").returncode == 0
    signer = json.loads(command("dp-bundle", "inspect", bundle.path, "--json").stdout)["signer"]
    keys = [signer, home / "keys" / "second.pub", home / "keys" / "third.pub"]
    dataset = bundle.release.dataset.name
    assert command("dp-bundle", "trust", *keys, "--dataset", dataset, "--threshold", "2").returncode == 0
    before = bundle.path.read_bytes()

    alone = command("dp-bundle", "verify", bundle.path)
    assert (alone.returncode, alone.stderr.count("\n")) == (3, 1)
    assert "1 of the 3 keys" in alone.stderr
    command("dp-bundle", "trust", signer)
    for name in ("stranger", "second", "second"):
        ended = command("dp-bundle", "cosign", bundle.path, "--key", name)
        assert ended.returncode == 0, ended.stderr
        assert command("dp-bundle", "verify", bundle.path).returncode == (3 if name == "stranger" else 0)

    beside = bundle.path.with_name(bundle.path.name + ".dsse.json")
    good = beside.read_bytes()
    assert good.count(b"keyid") == 3
    assert bundle.path.read_bytes() == before
    place = good.rindex(b'"sig":"') + 20
    beside.write_bytes(good[:place] + (b"A" if good[place : place + 1] != b"A" else b"B") + good[place + 1 :])
    assert command("dp-bundle", "verify", bundle.path).returncode == 3
    beside.write_bytes(b"no envelope")
    assert command("dp-bundle", "verify", bundle.path).returncode == 3


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


def test_a_revoked_key_does_not_cosign(bundle: Receipt, command: Run, tmp_path: Path) -> None:
    """Whoever took a key back here is refused with it, in one sentence, and no file of signatures is written."""
    command("dp-bundle", "keys", "new", "second")
    assert command("dp-bundle", "keys", "revoke", "second", "--out", tmp_path / "gone.json").returncode == 0
    ended = command("dp-bundle", "cosign", bundle.path, "--key", "second")
    assert (ended.returncode, ended.stderr.count("\n")) == (3, 1)
    assert "was revoked, with effect since" in ended.stderr
    assert not bundle.path.with_name(bundle.path.name + ".dsse.json").exists()


def test_decisions_are_listed_end_and_are_forgotten(bundle: Receipt, command: Run, home: Path) -> None:
    """A list names keys and quorums with their days; what has ended is refused in one sentence, and can be removed."""
    key, name = home / "keys" / "publisher.pub", bundle.release.dataset.name
    command("dp-bundle", "keys", "new", "second")
    ended = command("dp-bundle", "trust", key, "--until", "2020-01-01")
    assert ended.returncode == 0
    assert "until 2020-01-01" in command("dp-bundle", "trust").stdout
    late = command("dp-bundle", "verify", bundle.path)
    assert (late.returncode, late.stderr.count("\n")) == (3, 1)
    assert "was trusted on this machine until 2020-01-01: if you still trust that key run: dp-bundle" in late.stderr
    assert command("dp-bundle", "trust", key, "--until", "2999-12-31").returncode == 0
    assert command("dp-bundle", "verify", bundle.path).returncode == 0

    keys = [key, home / "keys" / "second.pub"]
    for day, code in (("2999-12-31", 0), ("2020-01-01", 3)):
        decided = command("dp-bundle", "trust", *keys, "--dataset", name, "--until", day)
        assert decided.stdout == f"{name}: 1 of these 2 keys must sign, until {day}\n"
        assert f"{name}: 1 of 2 keys must sign, until {day}" in command("dp-bundle", "trust").stdout
        said = command("dp-bundle", "verify", bundle.path)
        assert said.returncode == code
    assert "your decision about who signs people ended on 2020-01-01: decide again with dp-bundle trust" in said.stderr

    gone = command("dp-bundle", "trust", "--dataset", name, "--remove")
    assert (gone.returncode, gone.stdout) == (0, f"{name}: decision forgotten\n")
    again = command("dp-bundle", "trust", "--dataset", name, "--remove")
    assert (again.returncode, again.stdout) == (0, f"{name}: there was no decision\n")
    assert "keys must sign" not in command("dp-bundle", "trust").stdout
    assert command("dp-bundle", "verify", bundle.path).returncode == 0


def test_chain_is_checked_at_the_command_line(
    bundle: Receipt, table: pd.DataFrame, policy: Policy, key: Ed25519PrivateKey, command: Run, tmp_path: Path
) -> None:
    """A whole chain ends with 0 and names each release; a missing one ends with 3; inspect shows the predecessor."""
    folder = tmp_path / "all"
    folder.mkdir()
    newest = publish(table, policy, out=folder / "second.tar", key=key).path
    said = command("dp-bundle", "verify", newest, "--chain", folder)
    assert (said.returncode, said.stderr.count("\n")) == (3, 1)
    assert "release 1 is missing: release 2 (" in said.stderr

    shutil.copy(bundle.path, folder)
    other = policy.model_copy(update={"dataset": policy.dataset.model_copy(update={"name": "others"})})
    publish(table, other, out=folder / "third.tar", key=key)
    said = command("dp-bundle", "verify", newest, "--chain", folder)
    assert (said.returncode, said.stderr) == (0, "note: 1 file of other datasets left out\n")
    assert "its chain is unbroken, 2 releases:" in said.stdout
    listed = json.loads(command("dp-bundle", "verify", newest, "--chain", folder, "--json").stdout)["chain"]
    assert [each["number"] for each in listed] == [1, 2]

    shown = command("dp-bundle", "inspect", newest).stdout
    assert f"follows the one with the manifest {listed[0]['manifest_sha256']} (not verified here before)" in shown
    command("dp-bundle", "verify", bundle.path, "--allow-older")
    facts = json.loads(command("dp-bundle", "inspect", newest, "--json").stdout)["chain"]
    assert (facts["previous"], facts["previous_verified_here"]) == (listed[0]["manifest_sha256"], True)
