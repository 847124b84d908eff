"""Acceptance of statements about keys by a reader: the rules by which a key gets a successor or is taken back."""

from __future__ import annotations

from dp_bundle.base.errors import KeyStatementError
from dp_bundle.base.quoting import quote_name
from dp_bundle.trust.rules import TrustedKey, has_passed, read_revocation, write_revocation
from dp_bundle.trust.seen import remembered_by
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.statements import Revocation, Rotation, read_statement
from dp_bundle.trust.store import TrustStore


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
        revoked = read_revocation(store.folder, key)
        if revoked is not None:
            raise KeyStatementError(
                f"this rotation is void, as {key.fingerprint} was revoked, with effect since {revoked.since}: compare "
                "the fingerprint of the publisher's present key, and trust that"
            )

    # A line of keys has no circles and no branches.
    before, entries = store.require(old), store.keys()
    if new in before.predecessors:
        raise KeyStatementError("this rotation names a key that came before: a key cannot be its own successor")
    for entry in entries:
        if entry.key != new and entry.predecessors and entry.predecessors[-1] == old:
            raise KeyStatementError(
                f"{old.fingerprint} has named another successor before, {entry.key.fingerprint}: one of the two may be "
                "a thief's, ask the publisher which one counts"
            )
    known = next((entry for entry in entries if entry.key == new), None)
    if known is not None and known.predecessors and known.predecessors[-1] != old:
        raise KeyStatementError(f"{new.fingerprint} is the successor of another key already: ask the publisher")

    # The successor may sign what the statement and the reader's trust in the old key both cover.
    named = rotation.datasets
    datasets = before.datasets if named is None else tuple(name for name in named if before.covers(name))
    if datasets == ():
        raise KeyStatementError("this rotation is for datasets for which the old key is not trusted here: refuse it")
    name = known.name if known is not None else before.name
    store.keep(TrustedKey(new, name, until=before.until, datasets=datasets, predecessors=(*before.predecessors, old)))
    scope = "" if datasets is None else f" for {', '.join(map(quote_name, datasets))}"
    return (
        f"{new.fingerprint} is trusted from now on{scope}, as the successor of {old.fingerprint} ({quote_name(name)}); "
        "the old key stays trusted until it is revoked or removed"
    )


def _accept_revocation(store: TrustStore, revocation: Revocation, signers: tuple[PublicKey, ...]) -> str:
    key = PublicKey.from_fingerprint(revocation.key)
    for signer in signers:
        if signer != key and not _succeeds(store, signer, key):
            raise KeyStatementError(
                f"this revocation of {key.fingerprint} is signed by {signer.fingerprint}, which is not its successor "
                "here: do not accept it"
            )
    write_revocation(store.folder, revocation)
    good = remembered_by(store.folder, key.fingerprint)
    kept = sum(
        number < revocation.releases.get(name, number + 1) for name, numbers in good.items() for number in numbers
    )
    text = f"{key.fingerprint} is revoked, with effect since {revocation.since}: "
    text += f"{kept} releases that were verified here before stay good, and no others of this key"
    trusted = store.keys()
    heirs = [entry.key.fingerprint for entry in trusted if key in entry.predecessors]
    if heirs:
        text += f"; its successor {', '.join(heirs)} stays trusted, so ask the publisher if you doubt that it is hers"
    return text


def _succeeds(store: TrustStore, signer: PublicKey, key: PublicKey) -> bool:
    """Return True if one key succeeded another for all its datasets, is still trusted, and is not revoked itself."""
    trusted = store.keys()
    entries = {entry.key: entry for entry in trusted}
    heir, before = entries.get(signer), entries.get(key)
    if heir is None or key not in heir.predecessors or has_passed(heir.until):
        return False
    covers_all = heir.datasets is None or (before is not None and heir.datasets == before.datasets)
    return covers_all and read_revocation(store.folder, signer) is None
