"""Wrong arguments of the commands about keys: one sentence each, before anything is decided or written."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError, KeyStoreError, ParameterError
from dp_bundle.cli.main import cli
from dp_bundle.trust.judging import quorums, read_revocation
from dp_bundle.trust.keys import key_names, load_public_key, new_key_pair, public_key_path
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import TrustStore
from dp_publish import Receipt


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("keys rotate publisher publisher", "NEW must be another key than OLD"),
        ("keys revoke publisher --since 2999-01-01", "--since must be today or an earlier day"),
        ("keys revoke nobody", "KEY must be the name of a key of yours"),
        ("trust {key} --dataset wine --threshold 0", "--threshold must be from 1 to the number of different keys"),
        ("trust --until 2999-01-01", "KEY must be given with --name, --until and --remove"),
        ("trust --remove", "KEY must be given with"),
    ],
)
def test_wrong_arguments_decide_nothing(
    words: str, said: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is refused by what is wrong with it, and keys, decisions and files stay as they were."""
    monkeypatch.chdir(tmp_path)
    public = new_key_pair("publisher")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ParameterError, match=said):
        cli.main(words.format(key=public.fingerprint).split(), standalone_mode=False)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (key_names(), list(quorums(TrustStore().folder))) == (["publisher"], [])


def test_a_key_is_not_revoked_where_the_statement_cannot_be_written(home: Path, tmp_path: Path) -> None:
    """A file that is there, and a folder that is not, are found before the key is taken back here."""
    new_key_pair("publisher")
    (tmp_path / "taken").touch()
    for out, said in ((tmp_path / "taken", "is there already"), (tmp_path / "none" / "file", "there is no folder")):
        with pytest.raises(DpGraphError, match=said):
            cli.main(["keys", "revoke", "publisher", "--out", str(out)], standalone_mode=False)
    assert read_revocation(TrustStore().folder, load_public_key("publisher")) is None


def test_the_signer_does_not_cosign(bundle: Receipt) -> None:
    """A second signature by the same key would count for nothing, and none is written."""
    with pytest.raises(ParameterError, match="another key than the one that signed the bundle"):
        cli.main(["cosign", str(bundle.path)], standalone_mode=False)
    assert not bundle.path.with_name(f"{bundle.path.name}.dsse.json").exists()


WITH_PUBLIC_HALVES = [
    "keys list",
    "keys list --json",
    "keys export",
    "keys export --format minisign",
    "keys revoke publisher",
    "keys revoke publisher --by office",
    "keys rotate publisher office",
    "keys rotate office publisher",
]


@pytest.mark.parametrize("words", WITH_PUBLIC_HALVES)
def test_no_command_takes_a_foreign_public_half(
    words: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is listed, printed for minisign, taken back or handed on is the key that signs, or nothing."""
    monkeypatch.chdir(tmp_path)
    new_key_pair("office")
    new_key_pair("publisher")
    foreign = PublicKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key().public_bytes_raw())
    public_key_path("publisher").write_bytes(foreign.to_pem())
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(KeyStoreError, match="is not the public half of"):
        cli.main(words.split(), standalone_mode=False)
    assert capsys.readouterr().out == ""
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_of_a_locked_key_is_said_that_nothing_was_compared(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the passphrase a list says so on the key's line, and what prints or revokes it in a note."""
    monkeypatch.chdir(tmp_path)
    fingerprint = new_key_pair("publisher", "secret").fingerprint
    new_key_pair("office")
    cli.main(["keys", "list"], standalone_mode=False)
    office, publisher = capsys.readouterr().out.splitlines()
    assert publisher.startswith(f"publisher  {fingerprint}  (locked: not compared")
    assert "locked" not in office
    for words in (["export"], ["revoke", "publisher", "--by", "office"]):
        with contextlib.suppress(DpGraphError):  # office is no successor
            cli.main(["keys", *words], standalone_mode=False)
        assert f"{fingerprint} is what {public_key_path('publisher')} says" in capsys.readouterr().err
    monkeypatch.setenv("DPGRAPH_PASSPHRASE", "secret")
    cli.main(["keys", "list", "--json"], standalone_mode=False)
    assert [each["compared"] for each in json.loads(capsys.readouterr().out)] == [True, True]
