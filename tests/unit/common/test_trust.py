"""Whom the reader trusts, and what he has seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dp_bundle.bundle import UnsafeTrustAnyone
from dp_bundle.errors import BundleError, DpGraphError, OlderReleaseError, UntrustedKeyError
from dp_bundle.signing import PublicKey
from dp_bundle.trust import TrustedKey, TrustStore

ONE, TWO = PublicKey(bytes(32)), PublicKey(bytes(range(32)))


@pytest.fixture
def store(home: Path) -> TrustStore:
    """Return this test's store."""
    return TrustStore()


def test_trusted_keys_come_back_by_name(store: TrustStore, home: Path) -> None:
    """What is added is listed and required under its name, by any later store in the same folder."""
    store.add(TWO, "A bureau, \N{SNOWMAN}")
    store.add(ONE, "B")

    assert TrustStore().keys() == [TrustedKey(TWO, "A bureau, \N{SNOWMAN}"), TrustedKey(ONE, "B")]
    assert store.require(ONE) == TrustedKey(ONE, "B")
    assert {path.parent for path in home.rglob("*.json")} == {home / "trusted"}


def test_adding_again_renames(store: TrustStore) -> None:
    """A key is trusted once, under its last name."""
    store.add(ONE, "old")
    store.add(ONE, "new")
    assert store.keys() == [TrustedKey(ONE, "new")]


def test_unknown_signer_is_refused_with_the_command_that_trusts_it(store: TrustStore) -> None:
    """The refusal names the fingerprint and the command, and an empty store trusts nobody."""
    assert store.keys() == []
    with pytest.raises(UntrustedKeyError, match=f"dp-bundle trust {ONE.fingerprint}") as caught:
        store.require(ONE)
    assert caught.value.fingerprint == ONE.fingerprint
    assert caught.value.exit_code == 3


def test_removed_keys_are_refused(store: TrustStore) -> None:
    """Removing says whether the key was trusted, and takes effect at once."""
    store.add(ONE, "one")
    assert store.remove(ONE) is True
    assert store.remove(ONE) is False
    with pytest.raises(UntrustedKeyError):
        store.require(ONE)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"fingerprint": 5, "name": "x"}', '{"name": "x"}', "\xff", "null"])
def test_damaged_entries_are_bundle_errors(content: str, store: TrustStore) -> None:
    """An unreadable entry never counts as trust, and says what to remove."""
    store.add(ONE, "one")
    path = store.folder / f"{ONE.raw.hex()}.json"
    path.write_bytes(content.encode("latin-1"))
    for ask in (lambda: store.require(ONE), store.keys):
        with pytest.raises(BundleError, match="remove it"):
            ask()


def test_entry_under_another_keys_name_is_refused(store: TrustStore) -> None:
    """Renaming the file of a trusted key does not make another key trusted."""
    store.add(ONE, "one")
    (store.folder / f"{ONE.raw.hex()}.json").rename(store.folder / f"{TWO.raw.hex()}.json")
    with pytest.raises(BundleError, match="does not hold the key"):
        store.require(TWO)


def test_older_releases_are_refused_per_signer_and_dataset(store: TrustStore) -> None:
    """The newest number counts, for its own dataset and signer alone, and it never sinks."""
    store.require_newest(ONE, "wine", 1)
    store.remember(ONE, "wine", 3)
    store.remember(ONE, "wine", 2)

    store.require_newest(ONE, "wine", 3)
    store.require_newest(ONE, "beer", 1)
    store.require_newest(TWO, "wine", 1)
    with pytest.raises(OlderReleaseError, match="release 3") as caught:
        TrustStore().require_newest(ONE, "wine", 2)
    assert (caught.value.dataset, caught.value.release, caught.value.newest) == ("wine", 2, 3)


def test_seen_is_no_trusted_key(store: TrustStore) -> None:
    """The list of seen releases is not read as a key."""
    store.remember(ONE, "wine", 3)
    assert store.keys() == []
    assert list(json.loads((store.folder / "seen.json").read_bytes()).values()) == [3]


@pytest.mark.parametrize("content", ["[", "[]", '{"a": "b"}', '{"a": null}'])
def test_damaged_memory_is_a_bundle_error(content: str, store: TrustStore) -> None:
    """A damaged list of seen releases refuses, because it cannot tell what is old."""
    store.remember(ONE, "wine", 3)
    (store.folder / "seen.json").write_text(content)
    with pytest.raises(BundleError, match="unreadable"):
        store.require_newest(ONE, "wine", 9)


def test_store_that_cannot_be_written_is_an_error_of_ours(tmp_path: Path) -> None:
    """Trusting where nothing can be written fails in one sentence, and remembering there does no harm."""
    (tmp_path / "file").write_text("")
    store = TrustStore(tmp_path / "file" / "trusted")
    with pytest.raises(DpGraphError, match="cannot be written"):
        store.add(ONE, "one")
    with pytest.raises(BundleError):
        store.remember(ONE, "wine", 1)


def test_trusting_anyone_notes_nothing(home: Path) -> None:
    """The policy that only shows files accepts every key, gives it no name, and leaves no trace."""
    anyone = UnsafeTrustAnyone()
    anyone.require_newest(ONE, "wine", 1)
    anyone.remember(ONE, "wine", 1)

    assert anyone.require(ONE) == TrustedKey(ONE, "")
    assert not home.exists()
