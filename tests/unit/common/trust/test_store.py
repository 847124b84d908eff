"""Whom the reader trusts, and what he has seen."""

import subprocess
import sys
from pathlib import Path

import pytest

from dp_bundle.base.errors import BundleError, EquivocationError, OlderReleaseError, UntrustedKeyError
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import Sighting, TrustedKey, TrustStore

ONE, TWO = PublicKey(bytes(range(1, 33))), PublicKey(bytes(range(32)))


@pytest.fixture
def store(home: Path) -> TrustStore:
    """Return this test's store."""
    return TrustStore()


def test_trusted_keys_come_back_by_their_last_name(store: TrustStore, home: Path) -> None:
    """What is added is listed and required under its name, by any later store in the same folder."""
    store.add(TWO, "A bureau, \N{SNOWMAN}")
    store.add(ONE, "old")
    store.add(ONE, "B")

    assert TrustStore().keys() == [TrustedKey(TWO, "A bureau, \N{SNOWMAN}"), TrustedKey(ONE, "B")]
    assert store.require(ONE) == TrustedKey(ONE, "B")
    assert {path.parent for path in home.rglob("*.json")} == {home / "trusted"}


def test_unknown_signer_is_refused_with_the_command_that_trusts_it(store: TrustStore) -> None:
    """The refusal names the fingerprint and the command; removing a key says whether it was trusted."""
    assert store.keys() == []
    assert store.remove(ONE) is False
    store.add(ONE, "one")
    assert store.remove(ONE) is True
    with pytest.raises(UntrustedKeyError, match=f"dp-bundle trust {ONE.fingerprint}") as caught:
        store.require(ONE)
    assert caught.value.fingerprint == ONE.fingerprint
    assert caught.value.exit_code == 3


def sighting(
    number: int, *, dataset: str = "wine", kind: str = "rows", digest: str = "", partition: str = ""
) -> Sighting:
    """Return a release with a digest that goes with its number, unless another is given, after the one before it."""
    series = f"{dataset} / {partition}" if partition else dataset
    previous = f"{number - 1:064x}" if number > 1 else None
    return Sighting(dataset, series, number, kind, digest or f"{number:064x}", previous)


def verdict(key: PublicKey, release: Sighting, **choices: bool) -> str:
    """Return what the store of this test makes of a release: the name of an error, or its notes."""
    try:
        return "; ".join(TrustStore().admit(key, release, **choices))
    except BundleError as error:
        return type(error).__name__


def test_older_releases_are_refused_per_signer_and_dataset(store: TrustStore) -> None:
    """The newest number counts, for its own dataset and signer alone, and it never sinks; its list is no key."""
    assert verdict(ONE, sighting(3)) == ""
    assert store.keys() == []
    assert verdict(ONE, sighting(1), allow_older=True) == ""

    assert verdict(ONE, sighting(3)) == ""
    assert verdict(ONE, sighting(1, dataset="beer")) == ""
    assert verdict(TWO, sighting(1)) == ""
    with pytest.raises(OlderReleaseError, match="release 3") as caught:
        TrustStore().admit(ONE, sighting(2))
    assert (caught.value.dataset, caught.value.release, caught.value.newest) == ("wine", 2, 3)
    assert (caught.value.received, caught.value.seen) == (f"{2:064x}", f"{3:064x}")
    assert verdict(ONE, sighting(2), beside_newer=True) == ""
    assert verdict(ONE, sighting(2)) == "OlderReleaseError"


def test_release_that_was_read_before_passes_with_a_note(store: TrustStore) -> None:
    """Who has read release 4 may read it again after release 5, and is told of that one."""
    for number in (4, 5):
        assert verdict(ONE, sighting(number)) == ""
    (note,) = TrustStore().admit(ONE, sighting(4))
    assert note == "this is release 4 of wine, which was read here before; release 5 (rows) has been seen since"
    assert verdict(ONE, sighting(5)) == ""
    assert verdict(ONE, sighting(4), allow_older=True) == ""
    assert verdict(ONE, sighting(3)) == "OlderReleaseError"


def test_another_kind_of_release_is_not_replaced(store: TrustStore) -> None:
    """Second moments do not make the rows before them old, though a newer release of rows does."""
    store.admit(ONE, sighting(5, kind="covariance"))
    (note,) = store.admit(ONE, sighting(4))
    assert note == "this is release 4 of wine, whose kind is rows; release 5 (covariance) has been seen since"
    assert verdict(ONE, sighting(3)) == "OlderReleaseError"
    assert verdict(ONE, sighting(2, kind="covariance")) == "OlderReleaseError"


@pytest.mark.parametrize("allow_older", [False, True])
def test_two_releases_of_one_number_are_an_equivocation(allow_older: bool, store: TrustStore) -> None:
    """Another manifest under a number that has been seen is refused, in another partition or kind, too."""
    store.admit(ONE, sighting(4))
    store.admit(ONE, sighting(3), beside_newer=True)
    others = [sighting(3, digest="b" * 64, **more) for more in ({}, {"partition": "2026-10"}, {"kind": "covariance"})]
    for other in others:
        with pytest.raises(EquivocationError, match="two different releases 3 of 'wine'") as caught:
            TrustStore().admit(ONE, other, allow_older=allow_older)
        assert (caught.value.exit_code, caught.value.received) == (3, "b" * 64)
    assert verdict(TWO, others[0]) == ""


@pytest.mark.slow
def test_processes_that_remember_at_once_lose_nothing(store: TrustStore) -> None:
    """Whatever many readers see at the same time is all remembered."""
    script = (
        "import sys\n"
        "from dp_bundle.trust.signing import PublicKey\n"
        "from dp_bundle.trust.store import Sighting, TrustStore\n"
        "name = sys.argv[1]\n"
        "for number in range(1, 30):\n"
        "    TrustStore().admit(PublicKey(bytes(range(1, 33))), Sighting(name, name, number, 'rows', f'{number}'))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, name]) for name in "abcde"]
    assert [process.wait(timeout=60) for process in running] == [0] * 5
    for name in "abcde":
        with pytest.raises(OlderReleaseError, match="release 29"):
            store.admit(ONE, sighting(0, dataset=name))


DAMAGED = {
    "key": ["", "[]", "{", '{"fingerprint": 5, "name": "x"}', '{"name": "x"}', "\xff", "null"],
    "seen.json": [
        *("[", '{"a": null}', '{"a": {"newest": 1}}'),
        '{"a": {"newest": {"rows": 1e999}, "manifests": {}, "read": []}}',
        '{"a": {"newest": {}, "manifests": {"x": "a"}, "read": []}}',
        '{"a": {"newest": {}, "manifests": {}, "read": [-1e999]}}',
        f'{{"a": {"9" * 5000}}}',
        "[" * 100_000,
    ],
}


def file_of(store: TrustStore, name: str) -> Path:
    """Return a file of the store, which has the first key and one release of it."""
    store.add(ONE, "one")
    store.admit(ONE, sighting(1))
    return store.folder / (f"{ONE.raw.hex()}.json" if name == "key" else name)


def use(store: TrustStore) -> None:
    """Ask for the first key, and for a release of it."""
    store.require(ONE)
    store.admit(ONE, sighting(2))


@pytest.mark.parametrize(("name", "content"), [(name, each) for name in DAMAGED for each in DAMAGED[name]])
def test_damaged_files_are_bundle_errors(name: str, content: str, store: TrustStore) -> None:
    """What cannot be read never counts as trust, also numbers beyond all numbers, and lists without an end."""
    file_of(store, name).write_bytes(content.encode("latin-1"))
    with pytest.raises(BundleError, match=r"unreadable|remove it"):
        use(store)


def test_entry_of_another_key_and_links_are_bundle_errors(store: TrustStore) -> None:
    """An entry under the name of another key makes that one no trusted key; a link in a circle is not followed."""
    path = file_of(store, "key")
    store.add(TWO, "two")
    (store.folder / f"{TWO.raw.hex()}.json").rename(path)
    with pytest.raises(BundleError, match="does not hold the key"):
        use(store)
    path = file_of(store, "seen.json")
    path.unlink()
    path.symlink_to("seen.json")
    with pytest.raises(BundleError, match="unreadable"):
        use(store)


def test_chain_that_does_not_follow_is_told(store: TrustStore) -> None:
    """A release whose predecessor is not the one that was seen is accepted with a note; one that follows has none."""
    assert verdict(ONE, sighting(4)) == ""
    assert verdict(ONE, sighting(6)) == ""  # after 5, which was not seen here
    forked = Sighting("wine", "wine", 7, "rows", "c" * 64, "d" * 64)
    (note,) = store.admit(ONE, forked)
    assert note.startswith("release 7 of wine does not follow release 6, which was seen here")
    skipping = Sighting("wine", "wine", 9, "rows", "e" * 64, sighting(4).manifest_sha256)
    (note,) = store.admit(ONE, skipping)
    assert note.startswith("release 9 of wine does not follow release 7, ")
    circular = Sighting("wine", "wine", 8, "rows", "f" * 64, "e" * 64)
    (note,) = store.admit(ONE, circular, beside_newer=True)
    assert "follows release 9, which cannot be" in note
    assert verdict(ONE, forked, beside_newer=True) == ""  # told once


def test_leap_that_would_make_all_later_releases_old_is_told(store: TrustStore) -> None:
    """A number far beyond those seen is accepted with a note that says what it may mean."""
    store.admit(ONE, sighting(4))
    (note,) = store.admit(ONE, sighting(10**9))
    assert note.startswith("release 1000000000 of wine is the next one seen here after release 4")
    assert verdict(TWO, sighting(10**9)) == ""  # whoever sees a dataset for the first time cannot tell


@pytest.mark.parametrize(
    ("place", "mode"), [("", 0o720), ("trusted", 0o702), ("trusted/seen.json", 0o720), ("key", 0o702)]
)
def test_store_that_others_may_write_is_refused(place: str, mode: int, store: TrustStore, home: Path) -> None:
    """The refusal has the line that mends it, and afterwards all is well."""
    path = file_of(store, "key")
    path = path if place == "key" else home / place
    path.chmod(mode)
    with pytest.raises(BundleError, match=f"chmod go-w {path}"):
        use(store)
    path.chmod(0o700)
    use(store)
