"""Memory of the releases that a reader has seen, which exposes an old one shown as new, or two with one number.

It holds for each signer and dataset the newest number of each kind of release, the digests of all manifests seen, and
which of them were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dp_bundle.base.errors import EquivocationError, OlderReleaseError
from dp_bundle.base.quoting import quote_name

_LEAP = 1000  # releases that a reader may have missed


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
class Remembered:
    """One signer's dataset or series: the newest number of each kind, manifests by number, and numbers read."""

    newest: dict[str, int] = field(default_factory=dict)
    manifests: dict[str, str] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)

    @classmethod
    def from_document(cls, document: Any) -> Remembered:
        """Read an entry of the file."""
        newest = {str(kind): int(number) for kind, number in document["newest"].items()}
        manifests = {str(int(number)): str(digest) for number, digest in document["manifests"].items()}
        return cls(newest, manifests, [int(number) for number in document["read"]])

    def by_number(self) -> dict[int, str]:
        """Return the digests of manifests by number, in order."""
        return {int(number): self.manifests[number] for number in sorted(self.manifests, key=int)}


Memory = dict[str, Remembered]  # by signer and dataset or series


def judge_release(
    memory: Memory, signers: Sequence[str], sighting: Sighting, *, allow_older: bool, beside_newer: bool
) -> tuple[str, ...]:
    """Add a release to the memory and return notes for the reader, or refuse it, as `TrustStore.admit` says.

    `signers` are the keys that share one chain of releases: one, or a key with its successors.
    """
    for signer in signers:
        seen = memory.get(f"{signer} {sighting.dataset}", Remembered()).manifests.get(str(sighting.number))
        if seen not in (None, sighting.manifest_sha256):
            raise EquivocationError(sighting.dataset, sighting.number, str(seen), sighting.manifest_sha256)
    numbered = merge_signers(memory, signers, sighting.dataset)
    before = numbered.manifests.get(str(sighting.number))
    known = sighting.number in numbered.read

    series = numbered if sighting.series == sighting.dataset else merge_signers(memory, signers, sighting.series)
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


def merge_signers(memory: Memory, signers: Sequence[str], name: str) -> Remembered:
    """Return what is remembered of a dataset or series under any of these keys."""
    merged = Remembered()
    for entry in (memory.get(f"{signer} {name}", Remembered()) for signer in signers):
        merged.newest |= {kind: max(number, merged.newest.get(kind, 0)) for kind, number in entry.newest.items()}
        merged.manifests |= entry.manifests
        merged.read += [number for number in entry.read if number not in merged.read]
    return merged


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
