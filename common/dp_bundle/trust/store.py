"""The store of trusted keys.

`trusted/` in the state folder holds one JSON file per trusted key, named by its hexadecimal digits. It holds
`seen.json`, the memory of releases that were seen, and in `revoked/` a file for each key that was revoked. What all of
them mean for a release is judged here.

Acceptance of statements about keys by a reader: the rules by which a key gets a successor or is taken back.

The publisher's key pairs, by name, in the state folder.

The public half is written last, after the key is trusted on this machine. If it is missing, a process was killed
halfway, and the rest is made from the private half. One process at a time makes keys.
"""

import contextlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import (
    BundleError,
    DpGraphError,
    KeyStatementError,
    KeyStoreError,
    ParameterError,
    RevokedKeyError,
    UntrustedKeyError,
)
from dp_bundle.base.quoting import and_more, quote_name, quote_path
from dp_bundle.files.new_files import home_folder, locked, read_own, write_whole
from dp_bundle.trust.judging import (
    Memory,
    Remembered,
    Revocation,
    Rotation,
    Sighting,
    TrustedKey,
    has_passed,
    judge_release,
    line_of,
    merge_signers,
    read_statement,
)
from dp_bundle.trust.signing import (
    MOST_OF_A_KEY,
    PublicKey,
    load_private_key,
    open_private_key,
    public_key_of,
    save_private_key,
)

_SEEN = "seen.json"
_MOST, _MOST_OF_A_REVOCATION = 10_000, 100_000  # bytes of an entry
_MOST_OF_A_MEMORY = 2**26  # bytes: some hundred thousand releases
_PATIENCE = 60.0  # seconds that a process waits for others
T = TypeVar("T")


class TrustStore:
    """A folder of trusted keys.

    Parameters
    ----------
    folder : Path, optional
        Where the store is; `trusted/` in the user's state folder by default.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder if folder is not None else home_folder() / "trusted"

    def add(self, key: PublicKey, name: str) -> None:
        """Trust a key from now on, under a name of the reader's choosing."""
        self.keep(TrustedKey(key, name))

    def keep(self, entry: TrustedKey) -> None:
        """Trust a key as an entry says, in place of an earlier one."""
        document: dict[str, Any] = {"fingerprint": entry.key.fingerprint, "name": entry.name}
        if entry.until is not None:
            document["until"] = entry.until
        if entry.datasets is not None:
            document["datasets"] = list(entry.datasets)
        if entry.predecessors:
            document["predecessors"] = [each.fingerprint for each in entry.predecessors]
        _write(self._path(entry.key), document)

    def remove(self, key: PublicKey) -> bool:
        """Stop trusting a key; returns whether it was trusted."""
        known = self._path(key).exists()
        self._path(key).unlink(missing_ok=True)
        return known

    def keys(self) -> list[TrustedKey]:
        """Return every trusted key, by name."""
        files = sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []
        found = [self._trusted(path) for path in files if path.name != _SEEN]
        return sorted(found, key=lambda trusted: (trusted.name, trusted.key.raw))

    def require(self, key: PublicKey) -> TrustedKey:
        """Return the trusted key, or refuse.

        Raises
        ------
        UntrustedKeyError
            The key is not in the store, or the reader's trust in it has ended; the message carries the command that
            would trust it.
        """
        path = self._path(key)
        if not path.exists():
            raise UntrustedKeyError(
                key.fingerprint,
                f"the signer {key.fingerprint} is not trusted on this machine: compare that fingerprint with the one "
                f"that the publisher announces, and if they are equal run: dp-bundle trust {key.fingerprint}",
            )
        entry = self._trusted(path)
        if has_passed(entry.until):
            raise UntrustedKeyError(
                key.fingerprint,
                f"the signer {key.fingerprint} was trusted on this machine until {entry.until}: if you still trust "
                f"that key run: dp-bundle trust {key.fingerprint}",
            )
        return entry

    def admit(
        self, key: PublicKey, sighting: Sighting, *, allow_older: bool = False, beside_newer: bool = False
    ) -> tuple[str, ...]:
        """Note a verified release as seen, or refuse it; a store that cannot be written stays as it is.

        Parameters
        ----------
        key : PublicKey
            Its signer.
        sighting : Sighting
            What it is.
        allow_older : bool
            Whether to accept a release older than one already seen, without a word.
        beside_newer : bool
            Whether it is given together with a newer one: then its age is no surprise, and it does not count as read.

        Returns
        -------
        tuple of str
            What a reader should know: of newer releases, where an older one was read here before or is of another kind.
            Of releases that do not follow each other as an honest publisher's do, and of a store that cannot be
            written.

        Raises
        ------
        UntrustedKeyError
            The key is not trusted for this dataset, or was revoked (RevokedKeyError).
        EquivocationError
            Another release with its number has been seen.
        OlderReleaseError
            A newer release of its kind has been seen, and it itself has not.
        BundleError
            What has been seen cannot be read, or others may write it.
        """
        signers = [each.fingerprint for each in self.vouch(key, sighting)]
        unwritten = ""
        with contextlib.ExitStack() as lock:
            try:
                lock.enter_context(locked(self.folder / "seen.lock", _PATIENCE))
            except OSError as error:
                unwritten = str(error.strerror or error)
            memory = self._memory()
            notes = judge_release(memory, signers, sighting, allow_older=allow_older, beside_newer=beside_newer)
            if not unwritten:
                try:
                    content = _spell({name: asdict(entry) for name, entry in memory.items()}, sort_keys=True)
                    write_whole(Path(os.path.realpath(self._seen)), content, replace=True)  # a link stays one
                except OSError as error:
                    unwritten = str(error.strerror or error)
        if not unwritten:
            return notes
        place = quote_path(self._seen)
        return (*notes, f"this release will not be remembered as seen, because {place} cannot be written: {unwritten}")

    def vouch(self, key: PublicKey, sighting: Sighting) -> list[PublicKey]:
        """Refuse a verified release for its signer alone, or return the keys that share its chain of releases.

        Nothing is noted, and its age is no matter. A key that is not in the store is not refused: `require` does that.

        Raises
        ------
        RevokedKeyError
            The key was revoked, and the release was not verified here before.
        UntrustedKeyError
            The key is trusted for other datasets only.
        """
        entries = self.entries()
        reason = self._revoked_for(key, sighting)
        if reason:
            raise RevokedKeyError(key.fingerprint, reason)
        if key in entries and not entries[key].covers(sighting.dataset):
            name = quote_name(sighting.dataset)
            raise UntrustedKeyError(
                key.fingerprint,
                f"the signer {key.fingerprint} is trusted on this machine for other datasets than {name}: if you "
                f"trust that key for all run: dp-bundle trust {key.fingerprint}",
            )
        return line_of(key, entries)

    def line(self, key: PublicKey) -> list[PublicKey]:
        """Return the keys whose releases form one chain with this key's."""
        return line_of(key, self.entries())

    def remembered(self, key: PublicKey, dataset: str) -> dict[int, str]:
        """Return the manifest digests of releases of a dataset that were verified here before, by number."""
        signers = [each.fingerprint for each in self.line(key)]
        return merge_signers(self._memory(), signers, dataset).by_number()

    def remembered_by(self, key: PublicKey) -> dict[str, dict[int, str]]:
        """Return the manifest digests of all releases of a key that were verified here, by dataset and number."""
        named = ((name.partition(" "), entry) for name, entry in self._memory().items())
        return {dataset: entry.by_number() for (signer, _, dataset), entry in named if signer == key.fingerprint}

    def revoke(self, revocation: Revocation) -> None:
        """Keep a revocation; a second one of the same key can only take back more."""
        key = PublicKey.from_fingerprint(revocation.key)
        before = self.revocation(key)
        if before is not None:
            releases = {**before.releases, **revocation.releases}
            for dataset in before.releases.keys() & revocation.releases.keys():
                releases[dataset] = min(before.releases[dataset], revocation.releases[dataset])
            since = min(before.since, revocation.since)
            revocation = Revocation(revocation.key, since, before.date, releases)
        _write(self._revoked(key), asdict(revocation))

    def revocation(self, key: PublicKey) -> Revocation | None:
        """Return the revocation of a key that was accepted here, or None."""

        def read(document: Any) -> Revocation:
            found = Revocation(**document)
            if found.key != key.fingerprint or not all(type(first) is int for first in found.releases.values()):
                raise ValueError("it is about another key, or no number")
            return found

        path = self._revoked(key)
        what = f"{quote_path(path)}, a decision about whom to trust, is unreadable: remove it and decide again"
        return _read(path, _MOST_OF_A_REVOCATION, read, what)

    def _revoked_for(self, key: PublicKey, sighting: Sighting) -> str:
        """Return why a revoked key is not good for a release, or nothing.

        It is good for what was verified here before, as a thief cannot change that, and below the number that the
        revocation names.
        """
        revoked = self.revocation(key)
        if revoked is None:
            return ""
        first = revoked.releases.get(sighting.dataset)
        seen = self.remembered_by(key).get(sighting.dataset, {})
        good = [number for number in seen if first is None or number < first]
        if sighting.number in good and seen[sighting.number] == sighting.manifest_sha256:
            return ""
        listed = f"only release{'s' * (len(good) > 1)} {and_more(good, 10)}, verified here before"
        listed = listed if good else "none, as none was verified here before"
        return (
            f"the signer {key.fingerprint} was revoked, with effect since {revoked.since}, and release "
            f"{sighting.number} ({sighting.manifest_sha256[:12]}...) is not one of its good ones "
            f"({listed}): fetch the release that the publisher signed with another key"
        )

    def entries(self) -> dict[PublicKey, TrustedKey]:
        """Return every trusted key with what the reader said of it."""
        return {entry.key: entry for entry in self.keys()}

    def _path(self, key: PublicKey) -> Path:
        return self.folder / f"{key.raw.hex()}.json"

    def _revoked(self, key: PublicKey) -> Path:
        return self.folder / "revoked" / f"{key.raw.hex()}.json"

    @property
    def _seen(self) -> Path:
        return self.folder / _SEEN

    def _memory(self) -> Memory:
        """Return what is remembered of releases, which one process at a time reads and writes."""
        what = f"{quote_path(self._seen)} is unreadable: remove it to forget which releases were seen"
        return _read(self._seen, _MOST_OF_A_MEMORY, _remembered, what) or {}

    def _trusted(self, path: Path) -> TrustedKey:
        what = f"the trusted key {path} is unreadable: remove it and trust the signer again"
        trusted = _read(path, _MOST, _entry, what)
        if trusted is None:
            raise BundleError(what)
        if self._path(trusted.key) != path:
            raise BundleError(f"the trusted key {path} does not hold the key it is named after: remove it")
        return trusted


def _remembered(document: dict[str, Any]) -> Memory:
    return {str(name): Remembered.from_document(entry) for name, entry in document.items()}


def _entry(document: dict[str, Any]) -> TrustedKey:
    until, datasets = document.get("until"), document.get("datasets")
    has_passed(until)  # raises ValueError if it is no day
    return TrustedKey(
        PublicKey.from_fingerprint(document["fingerprint"]),
        str(document["name"]),
        until,
        None if datasets is None else tuple(map(str, datasets)),
        tuple(map(PublicKey.from_fingerprint, document.get("predecessors", []))),
    )


def _read(path: Path, most: int, read: Callable[[Any], T], unreadable: str) -> T | None:
    """Return what a JSON file of the store holds, or None if there is none.

    Raises
    ------
    BundleError
        It is unreadable, as is said then, or others may write it: nothing is to be trusted.
    """
    try:
        return read(json.loads(read_own(path, most)))
    except FileNotFoundError:
        return None
    except KeyStoreError as error:
        raise BundleError(str(error)) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        raise BundleError(unreadable) from error


def _write(path: Path, document: dict[str, Any]) -> None:
    try:
        write_whole(path, _spell(document), replace=True)
    except OSError as error:
        raise DpGraphError(
            f"{quote_path(path)}, of the store of trusted keys, cannot be written ({error.strerror}): set DPGRAPH_HOME "
            "to a folder of yours"
        ) from error


def _spell(document: dict[str, Any], *, sort_keys: bool = False) -> bytes:
    return json.dumps(document, indent=1, sort_keys=sort_keys).encode() + b"\n"


def accept_statement(store: TrustStore, content: bytes) -> str:
    """Act on a signed statement about a key, and return what follows from it, as a sentence.

    Raises
    ------
    KeyStatementError
        It was altered, has expired, or is not for those who signed it to make.
    UntrustedKeyError
        It is a rotation of a key that is not trusted here.
    """
    statement, signers = read_statement(content)
    if isinstance(statement, Rotation):
        return _accept_rotation(store, statement, signers)
    return _accept_revocation(store, statement, signers)


def _accept_rotation(store: TrustStore, rotation: Rotation, signers: tuple[PublicKey, ...]) -> str:
    old, new = PublicKey.from_fingerprint(rotation.key), PublicKey.from_fingerprint(rotation.successor)
    if old == new or set(signers) != {old, new}:
        raise KeyStatementError("this rotation is not signed by the old key and by the new one: do not accept it")
    if has_passed(rotation.expires):
        raise KeyStatementError(f"this rotation expired on {rotation.expires}: ask the publisher for a new one")
    for key in (old, new):
        revoked = store.revocation(key)
        if revoked is not None:
            raise KeyStatementError(
                f"this rotation is void, as {key.fingerprint} was revoked, with effect since {revoked.since}: compare "
                "the fingerprint of the publisher's present key, and trust that"
            )

    # A line of keys has no circles and no branches.
    before, entries = store.require(old), store.entries()
    if new in before.predecessors:
        raise KeyStatementError("this rotation names a key that came before: a key cannot be its own successor")
    for entry in entries.values():
        if entry.key != new and entry.predecessors and entry.predecessors[-1] == old:
            raise KeyStatementError(
                f"{old.fingerprint} has named another successor before, {entry.key.fingerprint}: one of the two may be "
                "a thief's, ask the publisher which one counts"
            )
    known = entries.get(new)
    if known is not None and known.predecessors and known.predecessors[-1] != old:
        raise KeyStatementError(f"{new.fingerprint} is the successor of another key already: ask the publisher")

    # The successor may sign what the statement and the reader's trust in the old key both cover.
    datasets = _in_both(before.datasets, rotation.datasets)
    if datasets == ():
        raise KeyStatementError("this rotation is for datasets for which the old key is not trusted here: refuse it")
    name = known.name if known is not None else before.name
    line = (*before.predecessors, old)
    store.keep(TrustedKey(new, name, until=before.until, datasets=datasets, predecessors=line))

    # Rotations come in any order: whoever succeeded the new key before continues the whole line.
    for heir in entries.values():
        if heir.predecessors[:1] == (new,):
            covered = _in_both(datasets, heir.datasets)
            store.keep(replace(heir, datasets=covered, predecessors=(*line, *heir.predecessors)))
    scope = "" if datasets is None else f" for {', '.join(map(quote_name, datasets))}"
    return (
        f"{new.fingerprint} is trusted from now on{scope}, as the successor of {old.fingerprint} "
        f"({quote_name(before.name)}); the old key stays trusted until it is revoked or removed"
    )


def _in_both(one: Sequence[str] | None, other: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the datasets of two scopes, each of which is all if it is None."""
    if one is None or other is None:
        both = one if other is None else other
        return None if both is None else tuple(both)
    return tuple(name for name in other if name in one)


def _accept_revocation(store: TrustStore, revocation: Revocation, signers: tuple[PublicKey, ...]) -> str:
    key = PublicKey.from_fingerprint(revocation.key)
    for signer in signers:
        if signer != key and not _succeeds(store, signer, key):
            raise KeyStatementError(
                f"this revocation of {key.fingerprint} is signed by {signer.fingerprint}, which is not its successor "
                "here: do not accept it"
            )
    store.revoke(revocation)
    good = store.remembered_by(key)
    kept = sum(
        number < revocation.releases.get(name, number + 1) for name, numbers in good.items() for number in numbers
    )
    text = f"{key.fingerprint} is revoked, with effect since {revocation.since}: "
    text += f"{kept} releases that were verified here before stay good, and no others of this key"
    heirs = [entry.key.fingerprint for entry in store.entries().values() if key in entry.predecessors]
    if heirs:
        text += f"; its successor {', '.join(heirs)} stays trusted, so ask the publisher if you doubt that it is hers"
    return text


def _succeeds(store: TrustStore, signer: PublicKey, key: PublicKey) -> bool:
    """Return True if one key succeeded another for all its datasets, is still trusted, and is not revoked itself."""
    entries = store.entries()
    heir, before = entries.get(signer), entries.get(key)
    if heir is None or key not in heir.predecessors or has_passed(heir.until):
        return False
    covers_all = heir.datasets is None or (before is not None and heir.datasets == before.datasets)
    return covers_all and store.revocation(signer) is None


DEFAULT_KEY = "publisher"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def private_key_path(name: str = DEFAULT_KEY) -> Path:
    """Return the path of the private key of that name."""
    if not _NAME.fullmatch(name):
        raise ParameterError("key name", "letters, digits, '.', '_' and '-', at most 64", name)
    return home_folder() / "keys" / f"{name}.key"


def public_key_path(name: str = DEFAULT_KEY) -> Path:
    """Return the path of the public key of that name: the file to hand to researchers."""
    return private_key_path(name).with_suffix(".pub")


def key_names() -> list[str]:
    """Return the names of this user's key pairs."""
    return sorted(path.stem for path in (home_folder() / "keys").glob("*.key"))


def own_key_name(public: PublicKey) -> str:
    """Return the name of this user's key pair with that public half.

    Raises
    ------
    KeyStoreError
        None of them has it.
    """
    for name in key_names():
        if load_public_key(name) == public:
            return name
    raise KeyStoreError(f"none of your keys is {public.fingerprint}, which signed it: give that key's file with --key")


def passphrase_given() -> str | None:
    """Return the passphrase in `DPGRAPH_PASSPHRASE`, which locks and opens keys, or None."""
    return os.environ.get("DPGRAPH_PASSPHRASE") or None


def load_public_key(name: str = DEFAULT_KEY) -> PublicKey:
    """Return the public key of that name; where only the private one is there, its public half is written first.

    Raises
    ------
    KeyStoreError
        Its file is unreadable. Or it is missing, and the private key is missing or locked. Or it is not the public half
        of the private key, as far as that can be opened.
    """
    if not public_key_path(name).exists() and private_key_path(name).exists():
        with _alone():
            _complete(name, load_private_key(private_key_path(name), passphrase_given()))
    public = _read_public_key(name)
    _require_pair(name, public, derived_public_key(name))
    return public


def derived_public_key(name: str) -> PublicKey | None:
    """Return the public half of the private key of that name; None if that is not there, or cannot be opened here.

    Raises
    ------
    KeyStoreError
        Others may read or write the private key, or it is none.
    """
    path = private_key_path(name)
    if not path.exists():
        return None
    key = open_private_key(path, passphrase_given())
    return None if key is None else public_key_of(key)


def _read_public_key(name: str) -> PublicKey:
    """Return what the file of a public key says."""
    path = public_key_path(name)
    try:
        return PublicKey.from_pem(read_own(path, MOST_OF_A_KEY))
    except OSError as error:
        raise KeyStoreError(f"the public key {path} cannot be read ({error.strerror}): restore it") from error


def _require_pair(name: str, public: PublicKey, derived: PublicKey | None) -> None:
    """Refuse a public key that is not that of the private key beside it."""
    if derived is not None and derived != public:
        path = public_key_path(name)
        raise KeyStoreError(
            f"{quote_path(path)} ({public.fingerprint}) is not the public half of {quote_path(private_key_path(name))} "
            f"({derived.fingerprint}), so one of them was replaced: put back your key from a backup, or, if the second "
            f"fingerprint is the one that you announced, have the first file made anew: rm {shlex.quote(str(path))}"
        )


def new_key_pair(name: str = DEFAULT_KEY, passphrase: str | None = None) -> PublicKey:
    """Make a key pair, keep it, and trust it on this machine.

    Raises
    ------
    KeyStoreError
        There is a key of that name already.
    """
    with _alone():
        return _make(name, passphrase)


def load_key(key: str | Path = DEFAULT_KEY, passphrase: str | None = None) -> Ed25519PrivateKey:
    """Return a private key, to publish with.

    Parameters
    ----------
    key : str or Path
        The name of one of this user's keys, or the path of a file, with a slash in it. By default the key that
        `dp-publish` signs with, which is made if there is none.
    passphrase : str, optional
        The passphrase of a locked key; by default that in `DPGRAPH_PASSPHRASE`.

    Raises
    ------
    KeyStoreError
        The key cannot be read, opened or made.
    """
    if key == DEFAULT_KEY and passphrase is None:
        return signing_key()[0]
    secret = passphrase or passphrase_given()
    if "/" in str(key):
        path = Path(key)
        is_named = os.path.realpath(path.parent) == os.path.realpath(home_folder() / "keys") and path.suffix == ".key"
        return _load_pair(path.stem, secret) if is_named else load_private_key(path, secret)
    if not (path := private_key_path(str(key))).exists():
        known = ", ".join(key_names())
        others = f", or name one of these: {known}" if known else ""
        raise KeyStoreError(f"there is no key called {key}: make it with dp-bundle keys new {key}{others}")
    return _load_pair(str(key), secret)


def signing_key(name: str = DEFAULT_KEY) -> tuple[Ed25519PrivateKey, bool]:
    """Return the private key of that name, and True if it is new; what a killed process left is completed.

    A new key, and one that is locked, has the passphrase in the environment.

    Raises
    ------
    KeyStoreError
        The key cannot be read, opened or written.
    """
    path = private_key_path(name)
    with _alone():
        is_new = not path.exists()
        if is_new:
            _make(name, passphrase_given())
        key = _load_pair(name, passphrase_given())
        if not public_key_path(name).exists():
            _complete(name, key)
    return key, is_new


def _load_pair(name: str, passphrase: str | None) -> Ed25519PrivateKey:
    """Return the private key of that name, after comparing it with its public half, if that is there."""
    key = load_private_key(private_key_path(name), passphrase)
    if public_key_path(name).exists():
        _require_pair(name, _read_public_key(name), public_key_of(key))
    return key


def _make(name: str, passphrase: str | None) -> PublicKey:
    key = Ed25519PrivateKey.generate()
    save_private_key(key, private_key_path(name), passphrase)
    return _complete(name, key)


def _complete(name: str, key: Ed25519PrivateKey) -> PublicKey:
    """Trust a key on this machine, and write its public half."""
    public = public_key_of(key)
    TrustStore().add(public, f"{name} (own key)")
    write_whole(public_key_path(name), public.to_pem(), replace=True)
    return public


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Keep other processes from making keys at the same time, and say where they cannot be written."""
    folder = home_folder() / "keys"
    try:
        with locked(folder / "keys.lock"):
            yield
    except OSError as error:
        raise KeyStoreError(
            f"the folder of keys {folder} cannot be written ({error.strerror}): set DPGRAPH_HOME to a folder of yours"
        ) from error
