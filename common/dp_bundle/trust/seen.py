"""Memory of the releases that a reader has seen, which exposes an old one shown as new, or two with one number.

`seen.json`, in the folder of trusted keys, holds for each signer and dataset the newest number of each kind of release,
the digests of all manifests seen, and which of them were read. One process at a time reads and writes it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import BundleError, EquivocationError, OlderReleaseError
from dp_bundle.base.quoting import quote_name, quote_path
from dp_bundle.files.new_files import locked, write_whole
from dp_bundle.files.ownership import read_own

SEEN = "seen.json"
_LEAP = 1000  # releases that a reader may have missed
_MOST = 2**26  # bytes: some hundred thousand releases
_PATIENCE = 60.0  # seconds that a process waits for others


@dataclass(frozen=True)
class Sighting:
    """A verified release, as far as a reader remembers it.

    Attributes
    ----------
    dataset : str
        The dataset, in which each number is given once.
    series : str
        The dataset, or its partition, in which a release replaces the ones before.
    number : int
    kind : str
        "rows" or "covariance"; neither replaces the other.
    manifest_sha256 : str
    previous : str or None
        The manifest of the release before it, as it says.
    """

    dataset: str
    series: str
    number: int
    kind: str
    manifest_sha256: str
    previous: str | None = None


@dataclass
class _Remembered:
    """One signer's dataset or series: the newest number of each kind, manifests by number, and numbers read."""

    newest: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)

    @classmethod
    def from_document(cls, document: Any) -> _Remembered:
        """Read an entry of the file."""
        newest = {str(kind): int(number) for kind, number in document["newest"].items()}
        manifests = {str(int(number)): str(digest) for number, digest in document["manifests"].items()}
        return cls(newest, manifests, [int(number) for number in document["read"]])


def admit(
    folder: Path, signers: Sequence[str], sighting: Sighting, *, allow_older: bool = False, beside_newer: bool = False
) -> tuple[str, ...]:
    """Note a verified release as seen, or refuse it; arguments, result and errors are those of `TrustStore.admit`.

    `signers` are the keys that share one chain of releases: one, or a key with its successors.
    """
    with contextlib.ExitStack() as lock:
        unwritten = ""
        try:
            lock.enter_context(locked(folder / "seen.lock", _PATIENCE))
        except OSError as error:
            unwritten = str(error.strerror or error)
        memory = _recall(folder)
        notes = _judge(memory, signers, sighting, allow_older=allow_older, beside_newer=beside_newer)
        if not unwritten:
            try:
                document = {name: asdict(entry) for name, entry in memory.items()}
                content = json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
                write_whole(Path(os.path.realpath(folder / SEEN)), content, replace=True)  # a link stays one
            except OSError as error:
                unwritten = str(error.strerror or error)
    if unwritten:
        place = quote_path(folder / SEEN)
        notes = (*notes, f"this release will not be remembered as seen, because {place} cannot be written: {unwritten}")
    return notes


def _judge(
    memory: dict[str, _Remembered], signers: Sequence[str], sighting: Sighting, *, allow_older: bool, beside_newer: bool
) -> tuple[str, ...]:
    """Add the release to the memory and return notes for the reader, or refuse it."""
    for signer in signers:
        seen = memory.get(f"{signer} {sighting.dataset}", _Remembered()).manifests.get(str(sighting.number))
        if seen not in (None, sighting.manifest_sha256):
            raise EquivocationError(sighting.dataset, sighting.number, str(seen), sighting.manifest_sha256)
    numbered = _merge(memory, signers, sighting.dataset)
    before = numbered.manifests.get(str(sighting.number))
    known = sighting.number in numbered.read

    series = numbered if sighting.series == sighting.dataset else _merge(memory, signers, sighting.series)
    newest = series.newest.get(sighting.kind, 0)
    notes: tuple[str, ...] = ()
    if not (allow_older or beside_newer):
        if sighting.number < newest and not known:
            raise OlderReleaseError(
                sighting.series,
                sighting.number,
                newest,
                received=sighting.manifest_sha256,
                seen=numbered.manifests.get(str(newest)),
            )
        notes = _describe_newer(sighting, series.newest, known=known)
    if before is None:
        notes = (*notes, *_describe_chain(sighting, numbered.manifests))

    if not (beside_newer or known):
        numbered.read.append(sighting.number)
    numbered.manifests[str(sighting.number)] = sighting.manifest_sha256
    series.newest[sighting.kind] = max(sighting.number, newest)
    for signer in signers:
        memory[f"{signer} {sighting.dataset}"] = numbered
        memory[f"{signer} {sighting.series}"] = series
    return notes


def _merge(memory: dict[str, _Remembered], signers: Sequence[str], name: str) -> _Remembered:
    """Return what is remembered of a dataset or series under any of these keys."""
    merged = _Remembered()
    for entry in (memory.get(f"{signer} {name}", _Remembered()) for signer in signers):
        merged.newest |= {kind: max(number, merged.newest.get(kind, 0)) for kind, number in entry.newest.items()}
        merged.manifests |= entry.manifests
        merged.read += [number for number in entry.read if number not in merged.read]
    return merged


def remembered_by(folder: Path, signer: str) -> dict[str, dict[int, str]]:
    """Return the manifest digests of all releases of a signer that were seen, by dataset and number."""
    found = {}
    for name, entry in _recall(folder).items():
        origin, _, dataset = name.partition(" ")
        if origin == signer and entry.manifests:
            found[dataset] = {int(number): entry.manifests[number] for number in sorted(entry.manifests, key=int)}
    return found


def remembered(folder: Path, signers: Sequence[str], dataset: str) -> dict[int, str]:
    """Return the manifest digests of a dataset's releases that were seen, of all who share its chain, by number."""
    manifests = _merge(_recall(folder), signers, dataset).manifests
    return {int(number): manifests[number] for number in sorted(manifests, key=int)}


def _recall(folder: Path) -> dict[str, _Remembered]:
    path = folder / SEEN
    try:
        document = json.loads(read_own(path, _MOST))
        return {str(name): _Remembered.from_document(entry) for name, entry in document.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise BundleError(f"{quote_path(path)} is unreadable: remove it to forget which releases were seen") from error


def _describe_newer(sighting: Sighting, newest: dict[str, int], *, known: bool) -> tuple[str, ...]:
    """Return a note about newer releases for a reader who is given an older one."""
    kind, number = max(newest.items(), key=lambda item: item[1], default=("", 0))
    if number <= sighting.number:
        return ()
    why = "which was read here before" if known else f"whose kind is {sighting.kind}"
    name = f"release {sighting.number} of {quote_name(sighting.series)}"
    return (f"this is {name}, {why}; release {number} ({kind}) has been seen since",)


def _describe_chain(sighting: Sighting, manifests: dict[str, str]) -> Iterator[str]:
    """Yield notes where the releases seen so far do not form the chain that an honest publisher's do."""
    numbers = {digest: int(number) for number, digest in manifests.items()}
    earlier = max((number for number in numbers.values() if number < sighting.number), default=None)
    name = f"release {sighting.number} of {quote_name(sighting.dataset)}"
    if earlier is not None and sighting.number > earlier + _LEAP:
        yield (
            f"{name} is the next one seen here after release {earlier}: ask the publisher whether there were so many "
            "between, as whoever has her key could make all her later releases look old with one such number"
        )
    followed = None if sighting.previous is None else numbers.get(sighting.previous)
    if followed is not None and followed >= sighting.number:
        yield f"{name} says that it follows release {followed}, which cannot be: ask the publisher which one counts"
    skipped = followed is not None and earlier is not None and followed < earlier
    if skipped or (followed is None and earlier == sighting.number - 1):
        yield (
            f"{name} does not follow release {earlier}, which was seen here: either both were made at the same time, "
            "or there are two ledgers for this dataset; ask the publisher which"
        )
