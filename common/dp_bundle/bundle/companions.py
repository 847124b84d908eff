"""The files that may stand beside a bundle and are carried with it: the signature for minisign, and co-signatures.

Whoever passes a bundle on may put anything there. So only what belongs to this very bundle is carried: a signature of
its bytes by its signer, and an envelope with its payload and at least one valid signature.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.cosigned import are_signatures_of, signatures_path
from dp_bundle.bundle.minisig import is_minisig_of, minisig_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.files.ownership import read_regular
from dp_bundle.manifest.statement import MAX_PAYLOAD

_LONGEST = {"minisig": 2**12, "dsse.json": MAX_PAYLOAD // 3 * 4 + 2**14}  # bytes


@dataclass(frozen=True)
class Companion:
    """A file beside a bundle.

    Attributes
    ----------
    kind : str
        "minisig" or "dsse.json": the end of its name, behind the bundle's.
    content : bytes
    """

    kind: str
    content: bytes


def read_beside(path: Path) -> tuple[list[Companion], list[str]]:
    """Return the files of sensible size that stand beside a tar, unchecked, and the kinds of those that are not."""
    found, unreadable = [], []
    for kind, beside in (("minisig", minisig_path(path)), ("dsse.json", signatures_path(path))):
        try:
            found.append(Companion(kind, read_regular(beside, _LONGEST[kind])))
        except FileNotFoundError:
            continue
        except OSError:
            unreadable.append(kind)
    return found, unreadable


def belongs(companion: Companion, bundle: Bundle) -> bool:
    """Return True if a file beside a verified bundle is a signature of it."""
    check = is_minisig_of if companion.kind == "minisig" else are_signatures_of
    return check(companion.content, bundle)


def find_companions(bundle: Bundle) -> tuple[list[Companion], list[str]]:
    """Return what is carried with a verified bundle, and a sentence about each file beside it that is not."""
    found, unreadable = read_beside(bundle.local_tar_path())
    carried = [each for each in found if belongs(each, bundle)]
    left_out = [*unreadable, *(each.kind for each in found if each not in carried)]
    return carried, [
        f"{quote_path(bundle.tar_path)}.{kind} is no signature of this bundle and is left out" for kind in left_out
    ]
