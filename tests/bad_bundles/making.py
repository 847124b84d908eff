"""The means to break one rule of a good bundle: each is taken apart, changed in one place, and signed again.

The good ones are those of `tests/golden`, signed again by a key that everybody has, as theirs was thrown away.
"""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.fuzz.bombs import spell
from tests.fuzz.compact import Fields
from tests.fuzz.hostile import join, split
from tests.tamper.archives import Members, members_of
from tests.unit.common.manifest.statements import replaced

from dp_bundle.bundle.writing import MANIFEST_NAME, write_bundle
from dp_bundle.files.tar import write_archive
from dp_bundle.manifest.release import Statement
from dp_bundle.trust.signing import Envelope, sign_envelope

__all__ = [
    "KEY",
    "STRANGER",
    "Case",
    "Predicate",
    "archive",
    "archived",
    "data",
    "footer",
    "good",
    "members",
    "payload",
    "stated",
]

GOLDEN = Path(__file__).parents[1] / "golden"
KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"the key of bad bundles").digest())
STRANGER = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a stranger's key").digest())
Make = Callable[[], bytes]
Predicate = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A bad bundle: the rule of docs/bundle-format.md that it breaks, and what our reader says of it."""

    name: str
    rule: str
    make: Make
    says: str


@cache
def _members(base: str) -> Members:
    found = members_of(GOLDEN / f"bundle-{base}.tar")
    envelope = Envelope.from_bytes(found[MANIFEST_NAME])
    return {**found, MANIFEST_NAME: sign_envelope(envelope.payload, KEY).to_bytes()}


def archived(contents: Members) -> bytes:
    """Return members as an archive."""
    file = io.BytesIO()
    write_archive(file, [(name, io.BytesIO(content)) for name, content in contents.items()])
    return file.getvalue()


def good(base: str = "rows") -> bytes:
    """Return a stored bundle, signed by `KEY`."""
    return archived(_members(base))


def archive(change: Callable[[bytearray], bytes | bytearray | None]) -> Make:
    """Change the bytes of the archive, in place or by returning others."""

    def make() -> bytes:
        content = bytearray(good())
        changed = change(content)
        return bytes(content if changed is None else changed)

    return make


def members(change: Callable[[Members], Members], *, sign: bool, base: str = "rows") -> Make:
    """Change the members; if asked to, name and sign them as they are then."""

    def make() -> bytes:
        changed = change(dict(_members(base)))
        if sign:
            document = json.loads(Envelope.from_bytes(changed[MANIFEST_NAME]).payload)
            document["subject"] = [
                {"digest": {"sha256": hashlib.sha256(content).hexdigest()}, "name": name}
                for name, content in changed.items()
                if name != MANIFEST_NAME
            ]
            changed[MANIFEST_NAME] = sign_envelope(spell(document), KEY).to_bytes()
        return archived(changed)

    return make


def payload(old: bytes, new: bytes) -> Make:
    """Replace bytes of the payload, which must be there, and sign it."""

    def make() -> bytes:
        honest = Envelope.from_bytes(_members("rows")[MANIFEST_NAME]).payload
        assert honest.count(old) >= 1, old
        changed = sign_envelope(honest.replace(old, new, 1), KEY).to_bytes()
        return archived({**_members("rows"), MANIFEST_NAME: changed})

    return make


def stated(changes: Predicate, base: str = "rows") -> Make:
    """Change entries of the release at dotted paths, by values or by functions of what is there, and sign it."""

    def make() -> bytes:
        document = json.loads(Envelope.from_bytes(_members(base)[MANIFEST_NAME]).payload)
        replaced(document["predicate"], *changes.items())
        return archived({**_members(base), MANIFEST_NAME: sign_envelope(spell(document), KEY).to_bytes()})

    return make


def data(change: Callable[[pa.Table], pa.Table], name: str, base: str, **options: Any) -> Make:
    """Change a data member's table, store it as the writer would but for these options, and describe and sign it."""

    def rewrite(content: bytes) -> bytes:
        table, out = change(pq.read_table(io.BytesIO(content))), io.BytesIO()
        texts = [field.name for field in table.schema if field.type == pa.string()]
        usual = {"use_dictionary": texts, "store_schema": False, "write_statistics": False, "row_group_size": 2**20}
        pq.write_table(pa.table(table.columns, schema=_required(table.schema)), out, **{**usual, **options})
        return out.getvalue()

    return rewritten(rewrite, name, base)


def footer(change: Callable[[Fields], None]) -> Make:
    """Change the footer of the part of rows, and describe and sign it."""

    def rewrite(content: bytes) -> bytes:
        body, fields = split(content)
        change(fields)
        return join(body, fields)

    return rewritten(rewrite, "data/part-00000.parquet", "rows")


def rewritten(rewrite: Callable[[bytes], bytes], name: str, base: str) -> Make:
    """Rewrite a data member, and describe and sign it."""

    def make() -> bytes:
        contents = _members(base)
        release = Statement.from_bytes(Envelope.from_bytes(contents[MANIFEST_NAME]).payload).predicate
        changed = {**contents, name: rewrite(contents[name])}
        file = io.BytesIO()
        parts = [io.BytesIO(content) for each, content in changed.items() if each.startswith("data/")]
        write_bundle(file, release, parts, KEY)
        return file.getvalue()

    return make


def _required(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(False) for field in schema])
