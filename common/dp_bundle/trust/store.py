"""The store of trusted keys.

`trusted/` in the state folder holds one JSON file per trusted key, named by its hexadecimal digits, and the memory of
releases that were seen (`seen`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dp_bundle.errors import BundleError, DpGraphError, KeyStoreError, UntrustedKeyError
from dp_bundle.files import read_own, write_whole
from dp_bundle.trust.home import home_folder
from dp_bundle.trust.seen import SEEN, Sighting, admit
from dp_bundle.trust.signing import PublicKey

_MOST = 10_000  # bytes of an entry


@dataclass(frozen=True)
class TrustedKey:
    """A key the reader trusts, with the name that the reader gave it."""

    key: PublicKey
    name: str


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
        content = json.dumps({"fingerprint": key.fingerprint, "name": name}, indent=1).encode() + b"\n"
        try:
            write_whole(self._path(key), content, replace=True)
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
            The key is not in the store; the message carries the command that would trust it.
        """
        path = self._path(key)
        if not path.exists():
            raise UntrustedKeyError(
                key.fingerprint,
                f"the signer {key.fingerprint} is not trusted on this machine: compare that fingerprint with the one "
                f"that the publisher announces, and if they are equal run: dp-bundle trust {key.fingerprint}",
            )
        return self._read(path)

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
        EquivocationError
            Another release with its number has been seen.
        OlderReleaseError
            A newer release of its kind has been seen, and it itself has not.
        BundleError
            What has been seen cannot be read, or others may write it.
        """
        with _as_bundle_error():
            return admit(self.folder, key.fingerprint, sighting, allow_older=allow_older, beside_newer=beside_newer)

    def _path(self, key: PublicKey) -> Path:
        return self.folder / f"{key.raw.hex()}.json"

    def _read(self, path: Path) -> TrustedKey:
        try:
            with _as_bundle_error():
                document = json.loads(read_own(path, _MOST))
            trusted = TrustedKey(PublicKey.from_fingerprint(document["fingerprint"]), str(document["name"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BundleError(f"the trusted key {path} is unreadable: remove it and trust the signer again") from error
        if self._path(trusted.key) != path:
            raise BundleError(f"the trusted key {path} does not hold the key it is named after: remove it")
        return trusted


@contextlib.contextmanager
def _as_bundle_error() -> Iterator[None]:
    """Turn a store that others may write into a bundle that is not to be trusted."""
    try:
        yield
    except KeyStoreError as error:
        raise BundleError(str(error)) from error
