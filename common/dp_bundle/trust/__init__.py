"""Trust: signatures, keys, the signers that a reader believes, and the releases seen before."""

from dp_bundle.startup.lazy import TYPE_CHECKING, import_on_demand

if TYPE_CHECKING:
    from dp_bundle.trust.home import home_folder
    from dp_bundle.trust.keys import (
        DEFAULT_KEY,
        derived_public_key,
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
    from dp_bundle.trust.minisign import DigestWriter, minisign_digest, minisign_public_key, verify_minisign
    from dp_bundle.trust.policy import TrustPolicy, UnsafeTrustAnyone
    from dp_bundle.trust.rules import (
        Quorum,
        has_passed,
        quorums,
        read_quorum,
        read_revocation,
        remove_quorum,
        today,
        write_quorum,
    )
    from dp_bundle.trust.seen import Sighting, remembered_by
    from dp_bundle.trust.signatures import MOST_SIGNATURES, join_signatures, split_signatures, valid_signers
    from dp_bundle.trust.signing import (
        ENVELOPE_END,
        PAYLOAD_TYPE,
        Envelope,
        PublicKey,
        encode_pre_authentication,
        load_private_key,
        public_key_of,
        sign_envelope,
        signer_of,
        verify_envelope,
    )
    from dp_bundle.trust.statements import (
        MOST_OF_A_STATEMENT,
        STATEMENT_TYPE,
        Revocation,
        Rotation,
        read_statement,
        sign_statement,
    )
    from dp_bundle.trust.store import TrustStore
    from dp_bundle.trust.succession import accept_statement
    from dp_bundle.trust.trusted import TrustedKey
else:
    __getattr__ = import_on_demand(__name__)
