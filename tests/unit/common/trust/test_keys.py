"""Key pairs by name, in the state folder."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest
from platformdirs.macos import MacOS

from dp_bundle.errors import KeyStoreError, ParameterError, UntrustedKeyError
from dp_bundle.trust.home import home_folder
from dp_bundle.trust.keys import (
    key_names,
    load_key,
    load_public_key,
    new_key_pair,
    private_key_path,
    public_key_path,
    signing_key,
)
from dp_bundle.trust.signing import PublicKey, load_private_key, public_key_of
from dp_bundle.trust.store import TrustStore


def test_new_pair_is_kept_trusted_and_private(home: Path) -> None:
    """Both halves are kept and belong together, the private one for its owner alone, and its own machine trusts it."""
    public = new_key_pair("office", "secret")

    assert public_key_of(load_private_key(private_key_path("office"), "secret")) == public == load_public_key("office")
    assert stat.S_IMODE(private_key_path("office").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "keys").stat().st_mode) == 0o700
    assert TrustStore().require(public).name == "office (own key)"
    assert key_names() == ["office"]


def test_second_pair_of_a_name_is_refused(home: Path) -> None:
    """Neither half of an existing pair is touched."""
    new_key_pair()
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    with pytest.raises(KeyStoreError, match="never replaced"):
        new_key_pair()
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "x" * 65, "a b", "a\n", "é"])
def test_names_that_are_no_file_names_are_refused(name: str) -> None:
    """A key's name cannot lead out of the folder."""
    with pytest.raises(ParameterError, match="key name"):
        private_key_path(name)


def test_dotted_names_do_not_collide(home: Path) -> None:
    """Names that share a beginning are different pairs."""
    assert new_key_pair("a") != new_key_pair("a.b")
    assert key_names() == ["a", "a.b"]
    assert {public_key_path("a").name, public_key_path("a.b").name} == {"a.pub", "a.b.pub"}


def test_missing_public_half_is_named(home: Path) -> None:
    """A public key that is gone is reported as such."""
    with pytest.raises(KeyStoreError, match=r"publisher\.pub cannot be read"):
        load_public_key()


def test_home_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """DPGRAPH_HOME wins, then XDG_CONFIG_HOME, then the home folder; an empty variable is none."""
    monkeypatch.setenv("DPGRAPH_HOME", str(tmp_path / "a"))
    assert home_folder() == tmp_path / "a"
    monkeypatch.setenv("DPGRAPH_HOME", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "b"))
    assert home_folder() == tmp_path / "b" / "dpgraph"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert home_folder() == tmp_path / "c" / ".config" / "dpgraph"


def test_state_lies_where_the_system_keeps_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On a Mac a new state folder is in the library; one that is in ~/.config already stays in use."""
    monkeypatch.delenv("DPGRAPH_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(platformdirs, "PlatformDirs", MacOS)
    assert home_folder() == tmp_path / "Library" / "Application Support" / "dpgraph"

    (tmp_path / ".config" / "dpgraph").mkdir(parents=True)
    assert home_folder() == tmp_path / ".config" / "dpgraph"


def test_key_to_publish_with(home: Path, tmp_path: Path) -> None:
    """From Python the default key is made when it is first needed; others are loaded by name, or by file."""
    assert public_key_of(load_key()) == public_key_of(load_key()) == load_public_key()

    office = new_key_pair("office", "secret")
    path = shutil.copy(private_key_path("office"), tmp_path / "mine.pem")
    assert public_key_of(load_key("office", "secret")) == public_key_of(load_key(path, "secret")) == office
    with pytest.raises(KeyStoreError, match="has a passphrase"):
        load_key("office")


def test_processes_without_a_key_make_one_together(home: Path) -> None:
    """Whoever comes first makes the key, and all others take it."""
    script = (
        "from dp_bundle.trust.keys import signing_key\n"
        "from dp_bundle.trust.signing import public_key_of\n"
        "key, is_new = signing_key()\n"
        "print(public_key_of(key).fingerprint, is_new)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    answers = [process.communicate(timeout=60)[0].split() for process in running]
    assert {fingerprint for fingerprint, _ in answers} == {load_public_key().fingerprint}
    assert sorted(is_new for _, is_new in answers) == ["False"] * 7 + ["True"]


def test_first_key_has_the_passphrase_of_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made while a passphrase is set is locked by it."""
    monkeypatch.setenv("DPGRAPH_PASSPHRASE", "secret")
    key, is_new = signing_key()
    assert is_new
    assert signing_key()[0].private_bytes_raw() == key.private_bytes_raw()
    assert b"ENCRYPTED" in private_key_path().read_bytes()
    monkeypatch.setenv("DPGRAPH_PASSPHRASE", "")
    with pytest.raises(KeyStoreError, match="has a passphrase"):
        signing_key()


@pytest.mark.parametrize("trusted_already", [False, True])
def test_kill_between_the_halves_mends_itself(trusted_already: bool, home: Path) -> None:
    """Where a process died before the public half was written, the next use derives it, and trusts it."""
    public = new_key_pair()
    public_key_path().unlink()
    if not trusted_already:
        TrustStore().remove(public)
    assert load_public_key() == public == PublicKey.from_pem(public_key_path().read_bytes())
    assert TrustStore().require(public).name == "publisher (own key)"

    public_key_path().unlink()
    key, is_new = signing_key()
    assert (public_key_of(key), is_new) == (public, False)
    assert public_key_path().exists()


def test_trust_that_was_taken_back_stays_so(home: Path) -> None:
    """Using a key whose halves are both there does not trust it anew."""
    public = new_key_pair()
    TrustStore().remove(public)
    signing_key()
    with pytest.raises(UntrustedKeyError):
        TrustStore().require(public)


@pytest.mark.parametrize("place", ["", "keys", "keys/publisher.key"])
def test_key_that_others_may_write_is_refused(place: str, home: Path) -> None:
    """The refusal has the line that mends it."""
    new_key_pair()
    (home / place).chmod(0o720)
    with pytest.raises(KeyStoreError, match=f"chmod go-w {home / place}"):
        signing_key()
    (home / place).chmod(0o700)
    signing_key()
