"""dp-bundle pack and unpack: the two forms of a bundle, from each other."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dp_bundle.base.quoting import quote_path
from dp_bundle.cli.console import BundlePath, NewPath, answer, json_option, quiet_option, tell
from dp_bundle.cli.options import ALWAYS, option
from dp_bundle.files.places import RemotePath


@click.command()
@click.argument("folder", type=BundlePath(file_okay=False))
@option("--out", applies=ALWAYS, type=NewPath(), help="The new tar; FOLDER.tar in this folder by default.")
@json_option
@quiet_option
def pack(folder: Path | RemotePath, out: Path | None, as_json: bool, quiet: bool) -> None:
    """Pack the folder of a bundle into its one tar; every byte is verified first, and the signer is not.

    No key is needed: the signature is the same in both forms.

    \b
    Example:
      dp-bundle pack wine.bundle
    """
    _convert(folder, out, as_json=as_json, quiet=quiet, to_folder=False)


@click.command()
@click.argument("file", type=BundlePath(dir_okay=False))
@option(
    "--out",
    applies=ALWAYS,
    type=NewPath(folder=True, remote=True),
    help="The new folder, or the URI of one; FILE without .tar in this folder by default.",
)
@json_option
@quiet_option
def unpack(file: Path | RemotePath, out: Path | RemotePath | None, as_json: bool, quiet: bool) -> None:
    """Unpack a bundle into a new folder; every byte is verified first, and the signer is not.

    The folder is a bundle itself, and dp-bundle pack makes the same tar of it again. At a URI, nothing is replaced,
    and the manifest comes last; what was interrupted goes on when it is repeated.

    \b
    Example:
      dp-bundle unpack wine.bundle.tar
      dp-bundle unpack wine.bundle.tar --out s3://open-data/wine
    """
    _convert(file, out, as_json=as_json, quiet=quiet, to_folder=True)


def _convert(
    source: Path | RemotePath, out: Path | RemotePath | None, *, as_json: bool, quiet: bool, to_folder: bool
) -> None:
    from dp_bundle.bundle.companions import signatures_path
    from dp_bundle.bundle.inspection import bundle_facts, describe_copies
    from dp_bundle.bundle.opened import tar_beside
    from dp_bundle.bundle.packing import pack_bundle, unpack_bundle
    from dp_bundle.bundle.reading import open_bundle
    from dp_bundle.trust.judging import UnsafeTrustAnyone

    with open_bundle(source, UnsafeTrustAnyone()) as bundle:
        tar, facts = bundle.tar_path, bundle_facts(bundle)
        for sentence in describe_copies(bundle):
            tell(f"note: {sentence}", quiet=quiet)
        target = out or Path(_folder_name(tar.name) if to_folder else tar.name)
        if isinstance(target, RemotePath) or to_folder:
            unpack_bundle(bundle, target)
        else:
            pack_bundle(bundle, target)
    new_tar = tar_beside(target) if to_folder else target
    if isinstance(tar, Path) and signatures_path(tar).exists() and not _is_same(tar, new_tar):
        copied = f"{quote_path(signatures_path(tar))} to {quote_path(f'{os.fspath(new_tar)}.dsse.json')}"
        tell(f"note: copy {copied} too", quiet=quiet)
    signed = f"every byte is as {facts['signer']} signed it; whether you trust that signer was not checked"
    document = {"written": str(target), "signer_checked": False, **facts}
    answer(f"wrote {quote_path(target)}: {signed}", document, as_json=as_json, quiet=quiet)


def _is_same(tar: Path, other: Path | RemotePath) -> bool:
    return isinstance(other, Path) and tar.absolute() == other.absolute()


def _folder_name(tar: str) -> str:
    """Return the name of a tar's folder, which is never that of the tar itself."""
    return tar.removesuffix(".tar") if tar.removesuffix(".tar") not in ("", tar) else f"{tar}.folder"
