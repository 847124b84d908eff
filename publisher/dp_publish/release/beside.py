"""The signature for minisign beside a bundle: made after the release, and never a reason for one to fail.

The release is complete, and on the books, before the signature is written. If it cannot be, or the process ends in
between, the bundle is as good without it, and `dp-bundle minisign` makes the same signature later.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.companions import minisig_path, minisign_release, write_minisig
from dp_bundle.bundle.opened import tar_beside
from dp_bundle.files.places import RemotePath
from dp_publish.release.publishing import Receipt
from dp_publish.release.targets import choose_target


def require_no_minisig(out: str | os.PathLike[str]) -> None:
    """Refuse the path of a bundle beside which a signature lies already, as it is that of another file.

    Raises
    ------
    DpGraphError
        There is one, and no bundle. (If there is a bundle, that is what `publish` says.)
    """
    target = choose_target(out)
    if isinstance(target.tar, RemotePath):  # nothing is replaced there, whatever it is
        return
    minisig = minisig_path(target.tar)
    if os.path.lexists(minisig) and not os.path.lexists(target.path):
        raise DpGraphError(
            f"there is a signature of another file at {quote_path(minisig)}: move it away, or give another --out"
        )


def sign_beside(receipt: Receipt, key: Ed25519PrivateKey) -> tuple[Path | RemotePath | None, str]:
    """Write the signature of a release that was published, beside it.

    Parameters
    ----------
    receipt : Receipt
        The release.
    key : Ed25519PrivateKey
        The key that signed it.

    Returns
    -------
    Path, RemotePath or None
        The signature; None if it could not be written.
    str
        Nothing, or why not, and how to make it.
    """
    is_tar = isinstance(receipt.path, Path) and not receipt.path.is_dir()
    tar = receipt.path if is_tar else tar_beside(receipt.path)
    target = minisig_path(tar)
    try:
        write_minisig(target, minisign_release(receipt.blake2b, receipt.release, receipt.manifest_sha256, key))
    except DpGraphError as error:
        later = f"dp-bundle minisign {quote_path(receipt.path)} does that later"
        if isinstance(receipt.path, RemotePath):
            later = f"dp-bundle pack {quote_path(receipt.path)} makes the tar, for which dp-bundle minisign makes it"
        return None, f"the release is complete, but {error}; {later}"
    return target, ""
