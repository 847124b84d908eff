"""Verify a bundle without dpgraph: Python's standard library, the cryptography package, and this page.

    python verify_without_dpgraph.py wine.bundle.tar publisher.pub      (or the fingerprint, ed25519:...)

It checks all that makes every byte the signer's, by the rules of docs/bundle-format.md: the archive (A), the envelope
(E), the payload's version and spelling (P2, P3), and members and their digests (M1, M2, M4).

It leaves out by design, as dp-bundle verify does not, what an honest signer would not break: E3 (a key that no private
half belongs to), P1, P4, P5 and P6 (sizes, fields, texts), M3 and M5 (which members there are, and their words), all of
B, C, F, H, N, G, T, K and W (what the manifest states), D (the form of the data) and R (releases seen before).
"""

import base64
import hashlib
import json
import mmap
import re
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

VERSION = "8"
NAME = re.compile(rb"([A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)?)\0*")
TYPE = b"application/vnd.in-toto+json"
ENVELOPE = b'{"payload":"%s","payloadType":"' + TYPE + b'","signatures":[{"keyid":"ed25519:%s","sig":"%s"}]}\n'


class RefusedError(Exception):
    """The file is not what the holder of the key signed; the message begins with the broken rule."""


def verify(path, key):
    """Return the statement that the holder of this key signed, if the whole file is as it was signed."""
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        members = read_archive(content)
        require(next(iter(members), "") == "manifest.dsse.json", "M1: it does not begin with the manifest")
        statement = read_statement(open_envelope(content[members.pop("manifest.dsse.json")], key))
        signed = [(subject["name"], subject["digest"]["sha256"]) for subject in statement["subject"]]
        require([name for name, _ in signed] == list(members), "M2: its members are not the signed ones, in order")
        for name, digest in signed:
            require(hashlib.sha256(content[members[name]]).hexdigest() == digest, f"M4: {name} was altered")
    return statement


def read_archive(content):
    """Return the place of each member, in order; every other byte of the file is the one that it must be."""
    members, at = {}, 0
    while content[at : at + 512] != bytes(512):
        name, digits = NAME.fullmatch(content[at : at + 100]), content[at + 124 : at + 135]
        require(name and name[1].decode() not in members, "A3: a member has no proper name, or another's")
        require(re.fullmatch(rb"[0-7]{11}", digits), "A4: a member has no proper size")
        require(content[at : at + 512] == header(name[1], digits), f"A4: the header of {name[1].decode()} was altered")
        start, end = at + 512, at + 512 + int(digits, 8)
        members[name[1].decode()], at = slice(start, end), end + -end % 512
        require(at <= len(content) and not any(content[end:at]), "A1: a member is cut off, or not followed by zeros")
    size = at + 1024 + -(at + 1024) % 10240
    require(len(content) == size and not any(content[at:]), "A2: it does not end where it should")
    return members


def header(name, digits):
    """Return the one header of a member with this name, and these digits for its size."""
    start = name.ljust(100, b"\0") + b"0000644\0" + 2 * b"0000000\0" + digits + b"\0" + b"00000000000\0"
    end = (b"0".ljust(101, b"\0") + b"ustar\00000").ljust(356, b"\0")
    return start + b"%06o\0 " % (sum(start) + 8 * ord(" ") + sum(end)) + end


def open_envelope(envelope, key):
    """Return the payload of the envelope if this key signed it, and if every byte is the one that it must be."""
    one = re.escape(ENVELOPE).replace(b"%s", rb"([A-Za-z0-9+/=]*)")
    found = re.fullmatch(one, envelope)
    require(found and found[2] == key.hex().encode(), "E1, E2: the manifest is no envelope, or of another signer")
    try:
        payload, signature = (base64.b64decode(found[group]) for group in (1, 3))
        spelled = ENVELOPE % (base64.b64encode(payload), found[2], base64.b64encode(signature))
        require(envelope == spelled, "E1: the envelope is not in its one spelling")
        signed = b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE, len(payload), payload)
        Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
    except (InvalidSignature, ValueError) as error:
        raise RefusedError("E1, E4: the signature is not that of this key") from error
    return payload


def read_statement(payload):
    """Return the signed JSON, if it is in its one spelling and of the version that this page knows."""
    try:
        statement = json.loads(payload)
        version, kind = statement["predicate"]["format_version"], statement["predicateType"]
        spelled = json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise RefusedError("P2: the payload is not that of a release") from error
    require(version == VERSION and kind == f"dpgraph:release/v{VERSION}", "P3: it has another format version")
    require(spelled.encode("utf-8", "replace") == payload, "P2: the payload is not in its one spelling")
    return statement


def require(condition, sentence):
    """Refuse the file unless the condition holds."""
    if not condition:
        raise RefusedError(sentence)


if __name__ == "__main__":
    path, given = sys.argv[1:]
    try:
        digits = given.removeprefix("ed25519:")
        pem = b"" if digits != given else Path(given).read_bytes()
        key = load_pem_public_key(pem).public_bytes_raw() if pem else bytes.fromhex(digits)
        release = verify(path, key)["predicate"]
    except (RefusedError, OSError, ValueError) as error:
        sys.exit(f"refused: {error}")
    print(f"{path}: release {release['lineage']['number']} of {release['dataset']['name']!r}")
    print(f"signed by ed25519:{key.hex()}; every byte is as it was signed")
    print("promised:", json.dumps(release["guarantee"], indent=1))
