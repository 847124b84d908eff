"""The protocol by which `open_bundle` asks about signers, and the policy that trusts anybody."""

from __future__ import annotations

from typing import Protocol

from dp_bundle.trust.seen import Sighting
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.trusted import TrustedKey


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
