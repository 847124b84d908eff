"""The signatures beside bundles that a site offers with them: checked once, and known again by their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import BundleError
from dp_bundle.bundle.companions import belongs, read_beside
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.files.folder import packed_path
from dp_bundle.trust.policy import UnsafeTrustAnyone



def find_beside(path: Path, known: Sequence[Facts]) -> list[Facts]:
    """Return the files beside a verified bundle: kind, size and digest of each, and whether it is a signature of it.

    Parameters
    ----------
    path : Path
        The bundle.
    known : sequence of dict
        What this returned last time; a file with the same digest is not checked again.
    """
    found, unreadable = read_beside(packed_path(path) if path.is_dir() else path)
    facts = [
        {"kind": each.kind, "size": len(each.content), "sha256": hashlib.sha256(each.content).hexdigest()}
        for each in found
    ]
    judged = {each["sha256"]: each["good"] for each in known}
    if any(each["sha256"] not in judged for each in facts):
        try:
            with open_bundle(path, UnsafeTrustAnyone()) as bundle:
                judged |= {fact["sha256"]: belongs(each, bundle) for fact, each in zip(facts, found, strict=True)}
        except BundleError:  # it was replaced since it was verified, which will be found when it is copied
            judged |= {fact["sha256"]: False for fact in facts}
    missing = [{"kind": kind, "size": 0, "sha256": "", "good": False} for kind in unreadable]
    return [{**fact, "good": judged[fact["sha256"]]} for fact in facts] + missing
