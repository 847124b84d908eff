"""Whom the reader trusts, and the newest release seen of each dataset.

`trusted/` under the state folder holds one JSON file per trusted key, named by its hexadecimal digits, and `seen.json`,
the newest release number met per signer and dataset, so that an older bundle cannot be passed off as the current one,
and the digest of every manifest met, so that no two can pass under one number.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dp_bundle.errors import BundleError, DpGraphError, EquivocationError, OlderReleaseError, UntrustedKeyError
from dp_bundle.files import locked, write_whole
from dp_bundle.home import home_folder
from dp_bundle.quoting import quote_name
from dp_bundle.signing import PublicKey

__all__ = ["Sighting", "TrustStore", "TrustedKey"]

_SEEN = "seen.json"
_ANY_KIND = ""  # of releases remembered before kinds were


@dataclass(frozen=True)
class Sighting:
    """A verified release, as far as a reader remembers it.

    Attributes
    ----------
    dataset : str
        Within which each number is given once.
    series : str
        Within which a release replaces the ones before: the dataset, or its partition.
    number : int
    kind : str
        "rows" or "covariance"; neither replaces the other.
    manifest_sha256 : str
    """

    dataset: str
    series: str
    number: int
    kind: str
    manifest_sha256: str


@dataclass
class _Remembered:
    """Of one signer's dataset or series: the newest number of each kind, the manifests by number, and what was read."""

    newest: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)

    @classmethod
    def from_document(cls, document: Any) -> _Remembered:
        """Read an entry of the file; one number alone is what earlier versions wrote, of any kind."""
        if isinstance(document, int | str):
            return cls({_ANY_KIND: int(document)})
        newest = {str(kind): int(number) for kind, number in document["newest"].items()}
        manifests = {str(number): str(digest) for number, digest in document["manifests"].items()}
        return cls(newest, manifests, [int(number) for number in document["read"]])


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
            Sentences about newer releases that have been seen: one accepts an older release that was read here before,
            and one of another kind than the newer ones.

        Raises
        ------
        EquivocationError
            Another release with its number has been seen.
        OlderReleaseError
            A newer release of its kind has been seen, and it itself has not.
        """
        with self._alone():
            memory = self._remembered()
            numbered = memory.setdefault(f"{key.fingerprint} {sighting.dataset}", _Remembered())
            before = numbered.manifests.get(str(sighting.number))
            known = sighting.number in numbered.read
            if before not in (None, sighting.manifest_sha256):
                raise EquivocationError(sighting.dataset, sighting.number, str(before), sighting.manifest_sha256)

            series = memory.setdefault(f"{key.fingerprint} {sighting.series}", _Remembered())
            newest = max(series.newest.get(kind, 0) for kind in (sighting.kind, _ANY_KIND))
            notes: tuple[str, ...] = ()
            if not (allow_older or beside_newer):
                if sighting.number < newest and not known:
                    raise OlderReleaseError(sighting.series, sighting.number, newest)
                notes = _describe_newer(sighting, series.newest, known=known)

            if not (beside_newer or known):
                numbered.read.append(sighting.number)
            numbered.manifests[str(sighting.number)] = sighting.manifest_sha256
            series.newest[sighting.kind] = max(sighting.number, newest)
            with contextlib.suppress(OSError):
                document = {name: asdict(entry) for name, entry in memory.items()}
                write_whole(self.folder / _SEEN, json.dumps(document, indent=1, sort_keys=True).encode() + b"\n")
        return notes

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

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes from remembering at the same time, where a lock can be made."""
        with contextlib.ExitStack() as lock:
            with contextlib.suppress(OSError):
                lock.enter_context(locked(self.folder / "seen.lock"))
            yield

    def _remembered(self) -> dict[str, _Remembered]:
        try:
            document = json.loads((self.folder / _SEEN).read_bytes())
            return {str(name): _Remembered.from_document(entry) for name, entry in document.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
            raise BundleError(
                f"{self.folder / _SEEN} is unreadable: remove it to forget which releases were seen"
            ) from error


def _describe_newer(sighting: Sighting, newest: dict[str, int], *, known: bool) -> tuple[str, ...]:
    """Say which newer releases there are, to whom an older one is given all the same."""
    kind, number = max(newest.items(), key=lambda item: item[1], default=("", 0))
    if number <= sighting.number:
        return ()
    why = "which was read here before" if known else f"whose kind is {sighting.kind}"
    name = f"release {sighting.number} of {quote_name(sighting.series)}"
    return (f"this is {name}, {why}; release {number}{f' ({kind})' if kind else ''} has been seen since",)
