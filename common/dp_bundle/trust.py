"""Whom the reader trusts, and the newest release seen of each dataset.

`trusted/` under the state folder holds one JSON file per trusted key, named by its hexadecimal digits, and `seen.json`,
the newest release number met per signer and dataset, so that an older bundle cannot be passed off as the current one.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from dp_bundle.errors import BundleError, DpGraphError, OlderReleaseError, UntrustedKeyError
from dp_bundle.files import write_whole
from dp_bundle.home import home_folder
from dp_bundle.signing import PublicKey

__all__ = ["TrustStore", "TrustedKey"]

_SEEN = "seen.json"


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
            write_whole(self._path(key), content)
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
        found = [self._read(path) for path in files if path.name != _SEEN]
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

    def require_newest(self, key: PublicKey, dataset: str, release: int) -> None:
        """Refuse a release older than one already seen from the same signer.

        Raises
        ------
        OlderReleaseError
            A newer release of the dataset has been seen.
        """
        newest = self._seen().get(f"{key.fingerprint} {dataset}", 0)
        if release < newest:
            raise OlderReleaseError(dataset, release, newest)

    def remember(self, key: PublicKey, dataset: str, release: int) -> None:
        """Note a verified release as seen; a store that cannot be written stays as it is."""
        seen = self._seen()
        name = f"{key.fingerprint} {dataset}"
        if release > seen.get(name, 0):
            seen[name] = release
            with contextlib.suppress(OSError):
                write_whole(self.folder / _SEEN, json.dumps(seen, indent=1, sort_keys=True).encode() + b"\n")

    def _path(self, key: PublicKey) -> Path:
        return self.folder / f"{key.raw.hex()}.json"

    def _read(self, path: Path) -> TrustedKey:
        try:
            document = json.loads(path.read_bytes())
            trusted = TrustedKey(PublicKey.from_fingerprint(document["fingerprint"]), str(document["name"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(f"the trusted key {path} is unreadable: remove it and trust the signer again") from error
        if self._path(trusted.key) != path:
            raise BundleError(f"the trusted key {path} does not hold the key it is named after: remove it")
        return trusted

    def _seen(self) -> dict[str, int]:
        try:
            document = json.loads((self.folder / _SEEN).read_bytes())
            return {str(name): int(release) for name, release in document.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise BundleError(
                f"{self.folder / _SEEN} is unreadable: remove it to forget which releases were seen"
            ) from error
