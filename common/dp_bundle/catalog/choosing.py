"""The choice of what a site offers: bundles that verify, of signers who are trusted for them, one for each number.

The signatures beside bundles that a site offers with them: checked once, and known again by their digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import BundleError
from dp_bundle.base.quoting import counted
from dp_bundle.bundle.companions import belongs, read_beside
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.catalog.pages import Refused
from dp_bundle.catalog.survey import find_cosigners
from dp_bundle.files.tar import packed_path
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.seen import Sighting
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import TrustStore


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


Facts = dict[str, Any]


def choose(
    surveyed: Sequence[Facts], paths: Mapping[str, Path], folder: Path, store: TrustStore, *, any_signer: bool
) -> tuple[list[Facts], list[Refused]]:
    """Return the bundles to offer, and those to list as refused, each with the reason.

    Parameters
    ----------
    surveyed : sequence of dict
        What `survey` found.
    paths : dict of str to Path
        The tars and folders, by the facts' `key`.
    folder : Path
        Where they are.
    store : TrustStore
        Whom to trust.
    any_signer : bool
        Whether to offer bundles of others, too.
    """
    offered, refused = [], []
    twice: dict[tuple[str, int], list[Facts]] = {}
    for facts in surveyed:
        why = facts.get("why") or _distrust(facts, paths[facts["key"]], store, any_signer=any_signer)
        if why:
            refused.append(Refused(paths[facts["key"]].relative_to(folder).as_posix(), why))
        else:
            twice.setdefault((facts["folder"], facts["number"]), []).append(facts)
    for (_, number), same in twice.items():
        if len({facts["manifest_sha256"] for facts in same}) == 1:
            offered.append(same[0])
            continue
        why = f"{counted(len(same), 'file')} here claim to be release {number} of this dataset, and differ: ask the "
        why += "publisher which one counts"
        refused += [Refused(paths[facts["key"]].relative_to(folder).as_posix(), why) for facts in same]
    return offered, sorted(refused)


def _distrust(facts: Facts, path: Path, store: TrustStore, *, any_signer: bool) -> str:
    """Return a sentence if this machine does not trust a signer, or holds this release to be revoked or unconfirmed."""
    key = PublicKey.from_fingerprint(facts["signer"])
    try:
        if not any_signer:
            store.require(key)
    except BundleError:
        return f"every byte is as it was signed, but this portal does not know its signer, {key.fingerprint}"

    try:
        store.vouch(
            key,
            Sighting(
                facts["name"],
                facts["series"],
                facts["number"],
                facts["kind"],
                facts["manifest_sha256"],
                facts["previous"],
                find_cosigners(path, store, facts["name"]),
            ),
        )
    except BundleError as error:
        return str(error)
    return ""
