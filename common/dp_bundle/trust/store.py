"""The store of trusted keys.

`trusted/` in the state folder holds one JSON file per trusted key, named by its hexadecimal digits, and the memory of
releases that were seen (`seen`). Further decisions are in folders of their own (`rules`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dp_bundle.errors import (
    BundleError,
    DpGraphError,
    KeyStoreError,
    RevokedKeyError,
    TooFewSignersError,
    UntrustedKeyError,
)
from dp_bundle.files import read_own, write_whole
from dp_bundle.quoting import quote_name
from dp_bundle.trust.home import home_folder
from dp_bundle.trust.rules import Quorum, has_passed, read_quorum, read_revocation
from dp_bundle.trust.seen import SEEN, Sighting, admit, remembered_by
from dp_bundle.trust.signing import PublicKey

_MOST = 10_000  # bytes of an entry


@dataclass(frozen=True)
class TrustedKey:
    """A key the reader trusts, with the name that the reader gave it.

    Attributes
    ----------
    key : PublicKey
    name : str
    until : str or None
        The last day of the reader's trust, as YYYY-MM-DD in UTC.
    datasets : tuple of str or None
        The datasets for which it is trusted; None for all.
    predecessors : tuple of PublicKey
        The keys whose successor it is, oldest first.
    """

    key: PublicKey
    name: str
    until: str | None = None
    datasets: tuple[str, ...] | None = None
    predecessors: tuple[PublicKey, ...] = ()

    @property
    def root(self) -> PublicKey:
        """The oldest key of its line, which stands for the publisher."""
        return self.predecessors[0] if self.predecessors else self.key

    def covers(self, dataset: str) -> bool:
        """Return True if the key is trusted for a dataset."""
        return self.datasets is None or dataset in self.datasets


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
        try:
            write_whole(self._path(entry.key), json.dumps(document, indent=1).encode() + b"\n", replace=True)
        except OSError as error:
            raise DpGraphError(
                f"the store of trusted keys {self.folder} cannot be written ({error.strerror}): set DPGRAPH_HOME to a "
                "folder of yours"
            ) from error

    def remove(self, key: PublicKey) -> bool:
        """Stop trusting a key; returns whether it was trusted."""
        known = self._path(key).exists()
        self._path(key).unlink(missing_ok=True)
        return known

    def keys(self) -> list[TrustedKey]:
        """Return every trusted key, by name."""
        files = sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []
        found = [self._read(path) for path in files if path.name != SEEN]
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
        entry = self._read(path)
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
            What a reader should know: of newer releases, where an older one was read here before or is of another kind;
            of releases that do not follow each other as an honest publisher's do; of a store that cannot be written.

        Raises
        ------
        UntrustedKeyError
            The key is not trusted for this dataset; it was revoked (RevokedKeyError); or too few others have signed
            (TooFewSignersError).
        EquivocationError
            Another release with its number has been seen.
        OlderReleaseError
            A newer release of its kind has been seen, and it itself has not.
        BundleError
            What has been seen cannot be read, or others may write it.
        """
        with _as_bundle_error():
            entries, quorum = self._judge(key, sighting)
            seats = {key} if quorum is None else {key, *map(PublicKey.from_fingerprint, quorum.keys)}
            signers = [
                each.fingerprint for seat in sorted(seats, key=lambda seat: seat.raw) for each in _line(seat, entries)
            ]
            return admit(
                self.folder, list(dict.fromkeys(signers)), sighting, allow_older=allow_older, beside_newer=beside_newer
            )

    def vouch(self, key: PublicKey, sighting: Sighting) -> None:
        """Refuse a verified release for its signers alone, as `admit` does; nothing is noted, and its age is no matter.

        A key that is not in the store is not refused: `require` does that.
        """
        with _as_bundle_error():
            self._judge(key, sighting)

    def _judge(self, key: PublicKey, sighting: Sighting) -> tuple[dict[PublicKey, TrustedKey], Quorum | None]:
        """Refuse what a revoked key, or too few keys, signed; return all trusted keys, and the decision that holds."""
        entries = {entry.key: entry for entry in self.keys()}
        self._require_good(key, sighting)
        return entries, self._require_signers(key, sighting, entries)

    def _require_good(self, key: PublicKey, sighting: Sighting) -> None:
        """Refuse what a revoked key signed, but for releases that were verified here before it was revoked.

        Dates and numbers within a bundle prove nothing here, as a thief writes them as he likes.
        """
        revoked = read_revocation(self.folder, key)
        if revoked is None:
            return
        first = revoked.releases.get(sighting.dataset)
        seen = remembered_by(self.folder, key.fingerprint).get(sighting.dataset, {})
        good = [number for number in seen if first is None or number < first]
        if sighting.number in good and seen[sighting.number] == sighting.manifest_sha256:
            return
        listed = f"only {_listed(good)}, verified here before" if good else "none, as none was verified here before"
        raise RevokedKeyError(
            key.fingerprint,
            f"the signer {key.fingerprint} was revoked, with effect since {revoked.since}, and release "
            f"{sighting.number} ({sighting.manifest_sha256[:12]}...) is not one of its good ones "
            f"({listed}): fetch the release that the publisher signed with another key",
        )

    def _require_signers(
        self, key: PublicKey, sighting: Sighting, entries: dict[PublicKey, TrustedKey]
    ) -> Quorum | None:
        """Refuse a release that this reader's trust in its signers does not cover; return the decision about it."""
        name = quote_name(sighting.dataset)
        if key in entries and not entries[key].covers(sighting.dataset):
            raise UntrustedKeyError(
                key.fingerprint,
                f"the signer {key.fingerprint} is trusted on this machine for other datasets than {name}: if you trust "
                f"that key for all run: dp-bundle trust {key.fingerprint}",
            )
        quorum = read_quorum(self.folder, sighting.dataset)
        if quorum is None:
            return None
        if has_passed(quorum.until):
            message = f"your decision about who signs {name} ended on {quorum.until}: decide again with dp-bundle trust"
            raise UntrustedKeyError(key.fingerprint, message)

        # A key and its successors have one seat, and count once.
        seats = {_root(PublicKey.from_fingerprint(each), entries) for each in quorum.keys}
        signers = [each for each in (key, *sighting.cosigners) if self._counts(each, sighting, entries)]
        counted = len({_root(each, entries) for each in signers} & seats)
        if counted < quorum.threshold or _root(key, entries) not in seats:
            raise TooFewSignersError(
                key.fingerprint,
                f"release {sighting.number} of {name} ({sighting.manifest_sha256[:12]}...) has valid signatures of "
                f"{counted} of the {len(seats)} keys that you trust for it, and you require {quorum.threshold}, its "
                "first signer among them: fetch the file of signatures beside it (.dsse.json), or ask the co-signers",
                counted,
                quorum.threshold,
            )
        return quorum

    def _counts(self, key: PublicKey, sighting: Sighting, entries: dict[PublicKey, TrustedKey]) -> bool:
        """Return True if a key is trusted for a release, today."""
        entry = entries.get(key)
        if entry is None or has_passed(entry.until) or not entry.covers(sighting.dataset):
            return False
        try:
            self._require_good(key, sighting)
        except RevokedKeyError:
            return False
        return True

    def _path(self, key: PublicKey) -> Path:
        return self.folder / f"{key.raw.hex()}.json"

    def _read(self, path: Path) -> TrustedKey:
        try:
            with _as_bundle_error():
                document = json.loads(read_own(path, _MOST))
            trusted = _entry(document)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BundleError(f"the trusted key {path} is unreadable: remove it and trust the signer again") from error
        if self._path(trusted.key) != path:
            raise BundleError(f"the trusted key {path} does not hold the key it is named after: remove it")
        return trusted


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


def _root(key: PublicKey, entries: dict[PublicKey, TrustedKey]) -> PublicKey:
    return entries[key].root if key in entries else key


def _line(key: PublicKey, entries: dict[PublicKey, TrustedKey]) -> list[PublicKey]:
    """Return the keys of one publisher, who share one chain of releases: this one, predecessors and successors."""
    root = _root(key, entries)
    members = [each for entry in entries.values() if entry.root == root for each in (*entry.predecessors, entry.key)]
    return list(dict.fromkeys([root, *members, key]))


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
    return f"release{'s' if len(numbers) > 1 else ''} {shown}"


@contextlib.contextmanager
def _as_bundle_error() -> Iterator[None]:
    """Turn a store that others may write into a bundle that is not to be trusted."""
    try:
        yield
    except KeyStoreError as error:
        raise BundleError(str(error)) from error
