"""Payloads of manifests that no release has, as large as they may be or as many-sided."""

import json
from typing import Any


def spell(document: Any) -> bytes:
    """Return the one spelling of a document."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


BOMBS = {
    "lists in lists": b"[" * 690_000,
    "empty lists": b"[" + b"[]," * 345_000 + b"[]]",
    "zeros": b"[" + b"0," * 690_000 + b"0]",
    "keys": b"{" + b",".join(b'"%d":0' % index for index in range(690_000)) + b"}",
    "columns": b'{"predicate":{"columns":[' + b"{}," * 340_000 + b'{}],"format_version":"8"}}',
    "subjects": b'{"predicate":{"format_version":"8"},"subject":[' + b"0," * 690_000 + b"0]}",
    "text": b'{"predicate":{"format_version":"8","software":"' + b"x" * 12_500_000 + b'"}}',
    "columns of our length": b'{"predicate":{"columns":[' + b"{}," * 19_999 + b'{}],"format_version":"8"}}',
    "columns of many entries": spell({"predicate": {"columns": [dict.fromkeys(map(str, range(60)), 0)] * 10_000}}),
    "digests": spell({"predicate": {"format_version": "8"}, "subject": [{"digest": {}, "name": ""}] * 65_535}),
    "more than all": b"," * 12_582_913,
    "zero bytes": bytes(12_582_912),
}
