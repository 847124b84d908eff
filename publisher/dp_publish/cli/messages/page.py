"""The page beside a bundle, for whoever is responsible for it: from public facts, and never a reason to fail."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dp_bundle.base.errors import DpGraphError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.writing import errors_of_writing
from dp_bundle.files.new_files import write_whole
from dp_bundle.files.places import RemotePath
from dp_bundle.files.tar import end_in_name
from dp_bundle.trust.signing import public_key_of
from dp_publish.cli.messages.release import describe_use, release_in_words
from dp_publish.policy.model import Policy
from dp_publish.release.publishing import Receipt


def page_path(bundle: Path) -> Path:
    """Return the path of the page beside a bundle, a tar or a folder: NAME.bundle.html."""
    named = end_in_name(bundle)
    return named.with_name(f"{named.name.removesuffix('.tar')}.html")


def write_page(receipt: Receipt, policy: Policy, key: Ed25519PrivateKey) -> tuple[Path | None, str]:
    """Write the page of a release that was published, beside it; nothing is ever replaced.

    Parameters
    ----------
    receipt : Receipt
        The release. What its report tells is not on the page.
    policy : Policy
        By which it was made. Neither is the spread that it expects, which may have been read off the table.
    key : Ed25519PrivateKey
        The key that signed it.

    Returns
    -------
    Path or None
        The page; None if the bundle is not on this machine, or the page could not be written.
    str
        Nothing, or why not.
    """
    from dp_bundle.catalog.beside import page_beside

    if isinstance(receipt.path, RemotePath):
        return None, ""
    release, path = release_in_words(receipt), page_path(receipt.path)
    text = page_beside(
        release,
        signer=public_key_of(key).fingerprint,
        manifest_sha256=receipt.manifest_sha256,
        file=end_in_name(receipt.path).name,
        seen=describe_use(release, _without_spreads(policy)),
    )
    try:
        with errors_of_writing(path, f"there is another file at {quote_path(path)}"):
            write_whole(path, text.encode(), replace=False)
    except DpGraphError as error:
        return None, f"the release is complete, but has no page beside it: {error}"
    return path, ""


def _without_spreads(policy: Policy) -> Policy:
    """Return the policy with the usual spread for every number; that of a category follows from its levels."""
    coded = {name for source in policy.sources if source.kind != "number" for name in source.columns}
    numbers = {name: entry for name, entry in policy.columns.items() if name not in coded}
    usual = {name: entry.model_copy(update={"spread": None}) for name, entry in numbers.items()}
    return policy.model_copy(update={"columns": {**policy.columns, **usual}})
