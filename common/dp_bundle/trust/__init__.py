"""Trust: signatures, keys, the signers that a reader believes, and the releases seen before."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.trust.home import home_folder
    from dp_bundle.trust.keys import (
        DEFAULT_KEY,
        key_names,
        load_key,
        load_public_key,
        new_key_pair,
        own_key_name,
        passphrase_given,
        private_key_path,
        public_key_path,
        signing_key,
    )
    from dp_bundle.trust.minisign import DigestWriter, minisign_digest, minisign_public_key
    from dp_bundle.trust.policy import TrustPolicy, UnsafeTrustAnyone
    from dp_bundle.trust.seen import Sighting
    from dp_bundle.trust.signing import (
        ENVELOPE_END,
        Envelope,
        PublicKey,
        load_private_key,
        public_key_of,
        sign_envelope,
        signer_of,
        verify_envelope,
    )
    from dp_bundle.trust.store import TrustedKey, TrustStore
else:
    __getattr__ = import_on_demand(__name__)
