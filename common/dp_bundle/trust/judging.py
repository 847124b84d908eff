"""Judgement of a verified release by its signers.

Is the key good? Is it trusted for this dataset? Have enough others signed? Nothing here asks about releases seen
before, which `seen` does, but for those that a revoked key signed. Dates and numbers within a bundle prove nothing,
as a thief writes them as he likes.

The protocol by which `open_bundle` asks about signers, and the policy that trusts anybody.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from dp_bundle.base.errors import RevokedKeyError, TooFewSignersError, UntrustedKeyError
from dp_bundle.base.quoting import quote_name
from dp_bundle.trust.rules import (
    Entries,
    Quorum,
    TrustedKey,
    has_passed,
    line_of,
    read_quorum,
    read_revocation,
    root_of,
)
from dp_bundle.trust.seen import Sighting, remembered_by
from dp_bundle.trust.signing import PublicKey


class TrustPolicy(Protocol):
    """Decision about signers; `TrustStore` is the one for people."""

    def require(self, key: PublicKey) -> TrustedKey:
        """Return the trusted key, or raise UntrustedKeyError."""

    def admit(
        self, key: PublicKey, sighting: Sighting, *, allow_older: bool = False, beside_newer: bool = False
    ) -> tuple[str, ...]:
        """Note a verified release as seen and return notes for the reader; or raise an error of `TrustStore.admit`."""


class UnsafeTrustAnyone:
    """Acceptance of every signer: to show what a file claims, never to use its data."""

    def require(self, key: PublicKey) -> TrustedKey:
        """Return the key as if it were trusted, without a name."""
        return TrustedKey(key, "")

    def admit(self, *_release: object, **_choices: object) -> tuple[str, ...]:
        """Accept any release, and note nothing."""
        return ()


def judge(folder: Path, key: PublicKey, sighting: Sighting, entries: Entries) -> list[PublicKey]:
    """Refuse a release for its signers, or return the keys that share its chain of releases.

    Parameters
    ----------
    folder : Path
        The folder of trusted keys.
    key : PublicKey
        Its signer. A key that is not trusted here is not refused for that.
    sighting : Sighting
        What it is, and who else signed it.
    entries : dict of PublicKey to TrustedKey
        All trusted keys.

    Raises
    ------
    RevokedKeyError
        The key was revoked, and the release was not verified here before.
    UntrustedKeyError
        The key is trusted for other datasets only, or the decision about this one has ended.
    TooFewSignersError
        Too few of the keys that must sign have done so.
    """
    reason = revoked_for(folder, key, sighting)
    if reason:
        raise RevokedKeyError(key.fingerprint, reason)
    if key in entries and not entries[key].covers(sighting.dataset):
        name = quote_name(sighting.dataset)
        raise UntrustedKeyError(
            key.fingerprint,
            f"the signer {key.fingerprint} is trusted on this machine for other datasets than {name}: if you trust "
            f"that key for all run: dp-bundle trust {key.fingerprint}",
        )
    quorum = read_quorum(folder, sighting.dataset)
    if quorum is not None:
        _require_quorum(folder, quorum, key, sighting, entries)
    return sharing(key, quorum, entries)


def sharing(key: PublicKey, quorum: Quorum | None, entries: Entries) -> list[PublicKey]:
    """Return the keys that share one chain of releases: a line of keys, or the lines of all keys of a quorum."""
    seats = {key} if quorum is None else {key, *map(PublicKey.from_fingerprint, quorum.keys)}
    lines = (line_of(seat, entries) for seat in sorted(seats, key=lambda seat: seat.raw))
    return list(dict.fromkeys(each for line in lines for each in line))


def revoked_for(folder: Path, key: PublicKey, sighting: Sighting) -> str:
    """Return why a revoked key is not good for a release, or nothing.

    It is good for what was verified here before, as a thief cannot change that, and below the number that the
    revocation names.
    """
    revoked = read_revocation(folder, key)
    if revoked is None:
        return ""
    first = revoked.releases.get(sighting.dataset)
    seen = remembered_by(folder, key.fingerprint).get(sighting.dataset, {})
    good = [number for number in seen if first is None or number < first]
    if sighting.number in good and seen[sighting.number] == sighting.manifest_sha256:
        return ""
    listed = f"only {_listed(good)}, verified here before" if good else "none, as none was verified here before"
    return (
        f"the signer {key.fingerprint} was revoked, with effect since {revoked.since}, and release "
        f"{sighting.number} ({sighting.manifest_sha256[:12]}...) is not one of its good ones "
        f"({listed}): fetch the release that the publisher signed with another key"
    )


def _require_quorum(folder: Path, quorum: Quorum, key: PublicKey, sighting: Sighting, entries: Entries) -> None:
    """Refuse a release with too few signers; a key and its successors have one seat, and count once."""
    name = quote_name(sighting.dataset)
    if has_passed(quorum.until):
        message = f"your decision about who signs {name} ended on {quorum.until}: decide again with dp-bundle trust"
        raise UntrustedKeyError(key.fingerprint, message)

    seats = {root_of(PublicKey.from_fingerprint(each), entries) for each in quorum.keys}
    signers = [each for each in (key, *sighting.cosigners) if _counts(folder, each, sighting, entries)]
    counted = len({root_of(each, entries) for each in signers} & seats)
    if counted < quorum.threshold or root_of(key, entries) not in seats:
        raise TooFewSignersError(
            key.fingerprint,
            f"release {sighting.number} of {name} ({sighting.manifest_sha256[:12]}...) has valid signatures of "
            f"{counted} of the {len(seats)} keys that you trust for it, and you require {quorum.threshold}, its "
            "first signer among them: fetch the file of signatures beside it (.dsse.json), or ask the co-signers",
            counted,
            quorum.threshold,
        )


def _counts(folder: Path, key: PublicKey, sighting: Sighting, entries: Entries) -> bool:
    """Return True if a key is trusted for a release, today."""
    entry = entries.get(key)
    trusted = entry is not None and not has_passed(entry.until) and entry.covers(sighting.dataset)
    return trusted and not revoked_for(folder, key, sighting)


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")
    return f"release{'s' if len(numbers) > 1 else ''} {shown}"
