"""Bad bundles that anybody can make: archives, envelopes and members that no longer fit what was signed."""

import base64
import io
import json
import tarfile
from collections.abc import Callable

from tests.bad_bundles.making import STRANGER, Case, archive, members
from tests.tamper.archives import Members

from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.trust.signing import Envelope, PublicKey, sign_envelope

__all__ = ["CASES"]

_BLOCK = 512
_README = b"README.md\0"


def _header_of(content: bytes) -> int:
    """Return the place of the README's header."""
    return content.index(_README)


def _sum_anew(content: bytearray, at: int) -> None:
    """Write the sum of a header that was changed."""
    content[at + 148 : at + 156] = b" " * 8
    content[at + 148 : at + 156] = b"%06o\0 " % sum(content[at : at + _BLOCK])


def _padding(content: bytearray) -> None:
    content[_header_of(content) - 1] = 1


def _cut_short(content: bytearray) -> bytes:
    return bytes(content[: _header_of(content) + 700])


def _trailer(content: bytearray) -> None:
    content[-1] = 1


def _in_header(offset: int, new: bytes) -> Callable[..., None]:
    def change(content: bytearray) -> None:
        at = _header_of(content)
        content[at + offset : at + offset + len(new)] = new
        _sum_anew(content, at)

    return change


def _wrong_sum(content: bytearray) -> None:
    content[_header_of(content) + 150] ^= 1


def _repacked(content: bytearray) -> bytes:
    """Return the members as a tar tool would pack them today."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as old, tarfile.open(fileobj=out, mode="w") as new:
        for entry in old:
            entry.mtime = 1_700_000_000
            new.addfile(entry, old.extractfile(entry))
    return out.getvalue()


def _envelope(change: object) -> Callable[..., None]:
    return members(lambda found: {**found, MANIFEST_NAME: change(found[MANIFEST_NAME])}, sign=False)


def _free_bits(text: bytes) -> bytes:
    """Return base64 of the same bytes, whose last character has bits that stand for nothing."""
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = len(text.rstrip(b"=")) - 1
    other = text[:last] + bytes([alphabet[alphabet.index(text[last]) + 1]]) + text[last + 1 :]
    assert base64.b64decode(other) == base64.b64decode(text)
    assert other != text
    return other


def _free_signature(envelope: bytes) -> bytes:
    text = base64.b64encode(Envelope.from_bytes(envelope).signature)
    return envelope.replace(text, _free_bits(text))


def _small_order(envelope: bytes) -> bytes:
    honest = Envelope.from_bytes(envelope)
    return Envelope(honest.payload, PublicKey(bytes([1, *bytes(31)])), honest.signature).to_bytes()


def _forged(envelope: bytes) -> bytes:
    honest = Envelope.from_bytes(envelope)
    return Envelope(honest.payload, honest.signer, sign_envelope(honest.payload, STRANGER).signature).to_bytes()


def _altered(envelope: bytes) -> bytes:
    honest = Envelope.from_bytes(envelope)
    return Envelope(honest.payload.replace(b'"number":1', b'"number":2'), honest.signer, honest.signature).to_bytes()


def _strangers(envelope: bytes) -> bytes:
    return sign_envelope(Envelope.from_bytes(envelope).payload, STRANGER).to_bytes()


def _manifest_last(found: Members) -> Members:
    return {**{name: content for name, content in found.items() if name != MANIFEST_NAME}, **found}


def _added(found: Members) -> Members:
    return {**found, "data/part-00001.parquet": found["data/part-00000.parquet"]}


def _removed(found: Members) -> Members:
    return {name: content for name, content in found.items() if name != "croissant.json"}


def _renamed(found: Members) -> Members:
    return {name.replace("part-00000", "part-00007"): content for name, content in found.items()}


def _reordered(found: Members) -> Members:
    first, second, third, *others = found
    return {name: found[name] for name in (first, third, second, *others)}


def _swapped(found: Members) -> Members:
    return {**found, "README.md": found["README.md"] + b"Trust me.\n"}


_ALTERED = "headers were altered|were damaged"
_FORM = "not a signed envelope in its one form"
_MEMBERS = "members that were not signed, or lacks some"

CASES = [
    Case(*each)
    for each in [
        ("stray byte in the padding", "A1", archive(_padding), "stray bytes"),
        ("end inside a member", "A1", archive(_cut_short), "truncated"),
        (
            "zeros behind the end",
            "A2",
            archive(lambda content: content + bytes(10_240)),
            "does not end where it should",
        ),
        ("end before the end", "A2", archive(lambda content: content[:-_BLOCK]), "does not end where it should"),
        ("byte in the trailer", "A2", archive(_trailer), "does not end where it should"),
        ("name that leads out", "A3", archive(_in_header(0, b"../README\0")), _ALTERED),
        ("name with a space", "A3", archive(_in_header(4, b" ")), _ALTERED),
        ("name of an earlier member", "A3", archive(_in_header(0, b"manifest.dsse.json\0")), "twice"),
        ("executable member", "A4", archive(_in_header(104, b"755")), _ALTERED),
        ("symbolic link", "A4", archive(_in_header(156, b"2")), _ALTERED),
        ("owner by name", "A4", archive(_in_header(265, b"root")), _ALTERED),
        ("size with a space", "A4", archive(_in_header(124, b" ")), _ALTERED),
        ("wrong sum of a header", "A4", archive(_wrong_sum), _ALTERED),
        ("repacked by a tar tool", "A4", archive(_repacked), _ALTERED),
        ("manifest in the last place", "M1", members(_manifest_last, sign=False), "does not begin with a manifest"),
        ("envelope with spaces", "E1", _envelope(lambda each: json.dumps(json.loads(each)).encode()), _FORM),
        ("envelope without its newline", "E1", _envelope(lambda each: each[:-1]), _FORM),
        ("envelope with a key of another name", "E1", _envelope(lambda each: each.replace(b"keyid", b"keyID")), _FORM),
        ("signature in another spelling", "E1", _envelope(_free_signature), _FORM),
        ("sound bundle of a stranger", "E2", _envelope(_strangers), "not trusted"),
        ("signer of small order", "E3", _envelope(_small_order), _FORM),
        ("signature by another key", "E4", _envelope(_forged), "does not belong to this manifest"),
        ("payload that was altered", "E4", _envelope(_altered), "does not belong to this manifest"),
        ("member that was not signed", "M2", members(_added, sign=False), "too many members"),
        ("member left out", "M2", members(_removed, sign=False), _MEMBERS),
        ("member renamed", "M2", members(_renamed, sign=False), _MEMBERS),
        ("members in another order", "M2", members(_reordered, sign=False), _MEMBERS),
        ("content of a member altered", "M4", members(_swapped, sign=False), "README.md"),
    ]
]
