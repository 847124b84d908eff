"""The documents of trust, and what follows from them: trusted keys, statements about keys, releases seen before.

A rotation names a key's successor, a revocation takes a key back. A rotation is signed by both keys, so that nobody can
name another's key as his successor. A revocation is signed by the key itself or by its successor. Dates are what the
signer says; only `expires` has an effect. A key belongs to a line of keys: a publisher's, from her first one on.

The memory of releases that a reader has seen exposes an old one shown as new, or two with one number. It holds the
newest number of each kind of release for each signer and dataset. With it are the digests of all manifests seen, and
which of them were read. `open_bundle` asks about signers by a protocol, which `TrustStore` and a policy that trusts
anybody follow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import (
    BundleFormatError,
    EquivocationError,
    KeyStatementError,
    OlderReleaseError,
    ParameterError,
)
from dp_bundle.base.quoting import quote_name
from dp_bundle.trust.signing import (
    PublicKey,
    encode_pre_authentication,
    join_signatures,
    public_key_of,
    split_signatures,
    valid_signers,
)

STATEMENT_TYPE = "application/vnd.dpgraph.key-statement+json"
MOST_OF_A_STATEMENT = 20_000  # bytes
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_MOST_NAMES = 100


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


Entries = Mapping[PublicKey, TrustedKey]


class TrustPolicy(Protocol):
    """Decision about signers; `TrustStore` is the one for people."""

    def require(self, key: PublicKey) -> TrustedKey:
        """Return the trusted key, or raise UntrustedKeyError."""

    def admit(
        self, key: PublicKey, sighting: Sighting, *, allow_older: bool = False, beside_newer: bool = False
    ) -> tuple[str, ...]:
        """Note a verified release as seen and return notes for the reader; or raise an error of `TrustStore.admit`."""


class UnsafeTrustAnyone:
    """Acceptance of every signer: to show what a file claims, never to use its data.

    Parameters
    ----------
    entries : mapping of PublicKey to TrustedKey, optional
        The trusted keys, which tell who succeeded whom.
    """

    def __init__(self, entries: Entries | None = None) -> None:
        self.entries = entries or {}

    def require(self, key: PublicKey) -> TrustedKey:
        """Return the key as if it were trusted, without a name, and with the root of its line."""
        root = root_of(key, self.entries)
        return TrustedKey(key, "", predecessors=() if root == key else (root,))

    def admit(self, *_release: object, **_choices: object) -> tuple[str, ...]:
        """Accept any release, and note nothing."""
        return ()


def root_of(key: PublicKey, entries: Entries) -> PublicKey:
    """Return the oldest key of a key's line, as far as the trusted keys tell."""
    return next((entry.root for entry in entries.values() if key in (entry.key, *entry.predecessors)), key)


def line_of(key: PublicKey, entries: Entries) -> list[PublicKey]:
    """Return the keys of one publisher, who share one chain of releases: this one, predecessors and successors."""
    root = root_of(key, entries)
    members = [each for entry in entries.values() if entry.root == root for each in (*entry.predecessors, entry.key)]
    return list(dict.fromkeys([root, *members, key]))


@dataclass(frozen=True)
class Rotation:
    """Naming of a key's successor.

    Attributes
    ----------
    key, successor : str
        Fingerprints.
    datasets : list of str or None
        The datasets whose releases the successor may sign; None for all of this publisher's.
    date, expires : str
        When it was made, and the last day on which a reader accepts it, as YYYY-MM-DD in UTC.
    """

    key: str
    successor: str
    datasets: list[str] | None
    date: str
    expires: str
    type: str = "rotation"


@dataclass(frozen=True)
class Revocation:
    """Taking back of a key.

    Attributes
    ----------
    key : str
        Its fingerprint.
    since, date : str
        When the key got out of hand, and when this was made, as YYYY-MM-DD in UTC; for people.
    releases : dict of str to int
        For datasets, the first release that is not to be trusted even if it was verified before.
    """

    key: str
    since: str
    date: str
    releases: dict[str, int] = field(default_factory=dict)
    type: str = "revocation"


Statement = Rotation | Revocation


def sign_statement(statement: Statement, *keys: Ed25519PrivateKey) -> bytes:
    """Return a statement as a signed file; `read_statement` is the inverse."""
    payload = _spell(statement)
    _parse(payload)
    signed = encode_pre_authentication(payload, STATEMENT_TYPE)
    content = join_signatures(payload, STATEMENT_TYPE, [(public_key_of(key), key.sign(signed)) for key in keys])
    if len(content) > MOST_OF_A_STATEMENT:
        raise ParameterError("--dataset", "fewer datasets: the statement has a limit of 20,000 bytes")
    return content


def read_statement(content: bytes) -> tuple[Statement, tuple[PublicKey, ...]]:
    """Return a statement and who signed it; whether these may say so is the caller's question.

    Raises
    ------
    KeyStatementError
        It is not a statement in its one form, or a signature of it is wrong.
    """
    if len(content) > MOST_OF_A_STATEMENT:
        raise KeyStatementError("this is no statement about a key: it has more than 20,000 bytes")
    try:
        payload, signatures = split_signatures(content, STATEMENT_TYPE)
    except BundleFormatError as error:
        raise KeyStatementError(f"this is no statement about a key: {error}") from error
    signers = valid_signers(payload, STATEMENT_TYPE, signatures)
    if len(signers) != len(signatures):
        raise KeyStatementError("a signature of this statement is wrong: it was altered, fetch it again")
    return _parse(payload), signers


def _spell(statement: Statement) -> bytes:
    return json.dumps(asdict(statement), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _parse(payload: bytes) -> Statement:
    """Read the payload in its one spelling."""
    unsound = KeyStatementError(
        "this statement about a key is not in its one spelling, or of an unknown type: refuse it"
    )
    try:
        fields: dict[str, Any] = json.loads(payload)
        statement: Statement = {"rotation": Rotation, "revocation": Revocation}[fields["type"]](**fields)
        if _spell(statement) == payload and _has_sound_fields(statement):
            return statement
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise unsound from error
    raise unsound


def _has_sound_fields(statement: Statement) -> bool:
    """Return True if every field has its type; dates and fingerprints that are none raise ValueError."""
    PublicKey.from_fingerprint(statement.key)
    for day in (statement.date, statement.expires if isinstance(statement, Rotation) else statement.since):
        if not _DAY.fullmatch(day):
            return False
        date.fromisoformat(day)
    if isinstance(statement, Rotation):
        PublicKey.from_fingerprint(statement.successor)
        names = statement.datasets
        return names is None or (isinstance(names, list) and 0 < len(names) <= _MOST_NAMES and _are_names(names))
    numbers = statement.releases.values()
    return _are_names(list(statement.releases)) and all(type(number) is int and number > 0 for number in numbers)


def _are_names(names: list[str]) -> bool:
    return all(isinstance(name, str) and name and name.isprintable() for name in names)


def has_passed(day: str | None) -> bool:
    """Return True if a day, written YYYY-MM-DD, is over in UTC."""
    return day is not None and date.fromisoformat(day) < today()


def today() -> date:
    """Return the day in UTC, by this machine's clock."""
    return datetime.now(UTC).date()


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
            "between. With one such number, whoever has her key could make all her later releases seem old"
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
