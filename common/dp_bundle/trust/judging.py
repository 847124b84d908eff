"""What is decided about keys: by their owners, in signed statements, and by a reader, who goes by them in `store`.

A rotation names a key's successor, a revocation takes a key back. A rotation is signed by both keys, so that nobody can
name another's key as his successor. A revocation is signed by the key itself or by its successor. Dates are what the
signer says; only `expires` has an effect.

A key belongs to a line of keys: a publisher's, from her first one on.

The protocol by which `open_bundle` asks about signers, and the policy that trusts anybody.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import BundleFormatError, KeyStatementError, ParameterError
from dp_bundle.trust.seen import Sighting
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
