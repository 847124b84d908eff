"""Key pairs by name, in the state folder."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import platformdirs
import pytest
from platformdirs.macos import MacOS

from dp_bundle.base.errors import KeyStoreError, ParameterError
from dp_bundle.files.new_files import home_folder
from dp_bundle.trust.signing import PublicKey, load_private_key, public_key_of
from dp_bundle.trust.store import (
    TrustStore,
    key_names,
    load_key,
    load_public_key,
    new_key_pair,
    own_key_name,
    private_key_path,
    public_key_path,
    signing_key,
)


def test_new_pair_is_kept_and_trusted(home: Path) -> None:
    """Both halves are kept and belong together, and its own machine trusts it."""
    public = new_key_pair("office", "secret")

    assert public_key_of(load_private_key(private_key_path("office"), "secret")) == public == load_public_key("office")
    assert TrustStore().require(public).name == "office (own key)"
    assert key_names() == ["office"]


def test_second_pair_of_a_name_is_refused(home: Path) -> None:
    """Neither half of an existing pair is touched; one that is gone is named."""
    with pytest.raises(KeyStoreError, match=r"publisher\.pub cannot be read"):
        load_public_key()
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


def test_home_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """DPGRAPH_HOME wins, then XDG_CONFIG_HOME, then the home folder, on a Mac its library."""
    monkeypatch.setenv("DPGRAPH_HOME", str(tmp_path / "a"))
    assert home_folder() == tmp_path / "a"
    monkeypatch.setenv("DPGRAPH_HOME", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "b"))
    assert home_folder() == tmp_path / "b" / "dpgraph"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert home_folder() == tmp_path / "c" / ".config" / "dpgraph"
    monkeypatch.setattr(platformdirs, "PlatformDirs", MacOS)
    assert home_folder() == tmp_path / "c" / "Library" / "Application Support" / "dpgraph"
    (tmp_path / "c" / ".config" / "dpgraph").mkdir(parents=True)  # of before, which stays in use
    assert home_folder() == tmp_path / "c" / ".config" / "dpgraph"
    monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError("Could not determine home directory.")))
    with pytest.raises(KeyStoreError, match="set DPGRAPH_HOME"):
        home_folder()


def test_key_to_publish_with(home: Path, tmp_path: Path) -> None:
    """From Python the default key is made when it is first needed; others are loaded by name, or by file."""
    assert public_key_of(load_key()) == public_key_of(load_key()) == load_public_key()

    office = new_key_pair("office", "secret")
    path = shutil.copy(private_key_path("office"), tmp_path / "mine.pem")
    assert public_key_of(load_key("office", "secret")) == public_key_of(load_key(path, "secret")) == office
    with pytest.raises(KeyStoreError, match="has a passphrase"):
        load_key("office")


@pytest.mark.slow
def test_processes_without_a_key_make_one_together(home: Path) -> None:
    """Whoever comes first makes the key, and all others take it."""
    script = (
        "from dp_bundle.trust.store import signing_key\n"
        "from dp_bundle.trust.signing import public_key_of\n"
        "key, is_new = signing_key()\n"
        "print(public_key_of(key).fingerprint, is_new)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(8)]
    answers = [process.communicate(timeout=60)[0].split() for process in running]
    assert {fingerprint for fingerprint, _ in answers} == {load_public_key().fingerprint}
    assert sorted(is_new for _, is_new in answers) == ["False"] * 7 + ["True"]


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


@pytest.mark.parametrize("use", [signing_key, load_public_key, load_key])
def test_key_that_others_may_read_or_write_is_refused(use: Callable[[], object], home: Path) -> None:
    """One command mends it, which the refusal ends with, and which is enough."""
    new_key_pair()
    places = {private_key_path(): (0o604, 0o640, 0o666, 0o601), public_key_path(): (0o622,), home: (0o720,)}
    for place, mode in [(place, mode) for place, modes in places.items() for mode in modes]:
        before = place.stat().st_mode
        place.chmod(mode)
        taken = "go-rwx" if place == private_key_path() else "go-w"
        with pytest.raises(KeyStoreError, match=f"chmod {taken} {place}$") as refused:
            use()
        subprocess.run(str(refused.value).rpartition(": ")[2].split(), check=True)
        place.chmod(before)
    signing_key()


def test_every_folder_on_the_way_counts(home: Path, tmp_path: Path) -> None:
    """A folder far above a key, or above a link that leads to it, must be nobody else's; a sticky one is."""
    new_key_pair()
    deep = tmp_path / "shared" / "a" / "b" / "c"
    deep.mkdir(parents=True)
    path = Path(shutil.move(private_key_path(), deep / "mine.key"))
    (tmp_path / "shared" / "a" / "link").symlink_to(tmp_path / "last")
    (tmp_path / "last").symlink_to(deep / "mine.key")
    new_way = deep / ".." / ".." / "link"
    for place in (path, new_way, tmp_path / "last"):
        (tmp_path / "shared").chmod(0o777)
        with pytest.raises(KeyStoreError, match=f"chmod go-w {tmp_path / 'shared'}$"):
            load_key(place)
        (tmp_path / "shared").chmod(0o1777)
        load_key(place)


def test_a_foreign_public_half_is_refused(home: Path) -> None:
    """Who is handed the file beside a key would wait for signatures that never come: neither is used or shown."""
    new_key_pair()
    foreign = new_key_pair("thief")
    shutil.copy(public_key_path("thief"), public_key_path())
    for use in (
        load_public_key,
        load_key,
        lambda: load_key(private_key_path()),
        lambda: own_key_name(foreign),
        signing_key,
    ):
        with pytest.raises(KeyStoreError, match=f"{foreign.fingerprint}.*rm {public_key_path()}$"):
            use()
    public_key_path().unlink()
    assert load_public_key() == public_key_of(load_private_key(private_key_path()))
