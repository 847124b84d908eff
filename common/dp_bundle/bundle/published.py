"""The files of a bundle as a portal offers them: the tar again, the Parquet files beside it, and its signatures."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import BinaryIO, cast

from dp_bundle.bundle.companions import Companion
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.packing import write_tar
from dp_bundle.describe.subject import PARQUET, SIGNATURES, TAR, PublishedFile


def published_files(bundle: Bundle, *, flat: bool = False) -> list[PublishedFile]:
    """Return the tar and the Parquet files that stand beside it, in `data` or, if flat, in the same folder."""
    whole = _Digest()
    write_tar(bundle, cast(BinaryIO, whole))
    files = [PublishedFile(bundle.tar_path.name, whole.size, whole.sha256.hexdigest(), TAR)]
    for name, member in bundle.members.items():
        if name.startswith("data/"):
            path = name.removeprefix("data/") if flat else name
            files.append(PublishedFile(path, member.size, bundle.sha256(name), PARQUET))
    return files


def signature_files(bundle: Bundle, beside: Sequence[Companion]) -> list[PublishedFile]:
    """Return the signatures that stand beside the tar."""
    return [
        PublishedFile(
            f"{bundle.tar_path.name}.{each.kind}",
            len(each.content),
            hashlib.sha256(each.content).hexdigest(),
            SIGNATURES[each.kind],
        )
        for each in beside
    ]


class _Digest:
    """A file that keeps the size and the SHA-256 of what is written to it."""

    def __init__(self) -> None:
        self.size, self.sha256 = 0, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.size += len(content)
        self.sha256.update(content)
        return len(content)
