"""dp-bundle describe and stage: a bundle in the words of portals."""

from __future__ import annotations

from pathlib import Path

import click

from dp_bundle.base.quoting import quote_path
from dp_bundle.cli.console import BundlePath, NewPath, answer, json_option, quiet_option, tell
from dp_bundle.cli.options import ALWAYS, option
from dp_bundle.portals.names import FORMS, PORTALS

_BUNDLE = BundlePath(remote=False)


@click.command()
@click.argument("file", type=_BUNDLE)
@option("--as", "form", applies=ALWAYS, type=click.Choice(FORMS), required=True, help="The vocabulary.")
@option("--out", applies=ALWAYS, type=NewPath(), help="A new file; otherwise it is printed.")
@option("--allow-older", applies=ALWAYS, is_flag=True, help="Accept a release older than one already seen.")
@option("--any-signer", applies=ALWAYS, is_flag=True, help="Accept any signer; every byte must be as it was signed.")
@quiet_option
def describe(file: Path, form: str, out: Path | None, allow_older: bool, any_signer: bool, quiet: bool) -> None:
    """Describe a verified bundle in a vocabulary that portals read: DCAT-AP, DataCite, Croissant and others.

    Everything follows from the manifest. Paths are those of the folder that `dp-bundle stage --for static` makes.

    \b
    Example:
      dp-bundle describe wine.bundle.tar --as dcat
    """
    from dp_bundle.base.errors import DpGraphError
    from dp_bundle.bundle.reading import open_bundle
    from dp_bundle.describe.subject import licence_gap
    from dp_bundle.files.new_files import whole_file
    from dp_bundle.portals.staging import describe_as
    from dp_bundle.trust.judging import UnsafeTrustAnyone

    with open_bundle(file, UnsafeTrustAnyone() if any_signer else None, allow_older=allow_older) as bundle:
        content, notes = describe_as(bundle, form), [*bundle.notes, licence_gap(bundle.release.dataset)]
    for note in filter(None, notes):
        tell(f"note: {note}", quiet=quiet)
    if out is None:
        click.echo(content.decode(), nl=False)
        return
    try:
        with whole_file(out) as target:
            target.write(content)
    except FileExistsError as error:
        raise DpGraphError(f"{quote_path(out)} is there already: give another name") from error
    except OSError as error:
        raise DpGraphError(f"{quote_path(out)} cannot be written: {error.strerror}") from error
    answer(f"wrote {quote_path(out)}", None, as_json=False, quiet=quiet)


@click.command()
@click.argument("file", type=_BUNDLE)
@click.argument("folder", metavar="DIR", type=NewPath(folder=True))
@option("--for", "portal", applies=ALWAYS, type=click.Choice(PORTALS), required=True, help="The portal.")
@option("--allow-older", applies=ALWAYS, is_flag=True, help="Accept a release older than one already seen.")
@option("--any-signer", applies=ALWAYS, is_flag=True, help="Accept any signer; every byte must be as it was signed.")
@json_option
@quiet_option
def stage(
    file: Path, folder: Path, portal: str, allow_older: bool, any_signer: bool, as_json: bool, quiet: bool
) -> None:
    """Lay out a verified bundle in a new folder for a portal: the tar, Parquet beside it, and the portal's metadata.

    \b
    Example:
      dp-bundle stage wine.bundle.tar --for zenodo wine-zenodo
    """
    from dp_bundle.bundle.companions import find_companions
    from dp_bundle.bundle.reading import open_bundle
    from dp_bundle.describe.subject import Subject
    from dp_bundle.portals.staging import stage_bundle
    from dp_bundle.trust.judging import UnsafeTrustAnyone

    with open_bundle(file, UnsafeTrustAnyone() if any_signer else None, allow_older=allow_older) as bundle:
        beside, left_out = find_companions(bundle)
        written, notes = stage_bundle(bundle, portal, folder, beside), [*bundle.notes, *left_out]
        gaps = Subject(bundle.release).gaps(portal)
    for note in (*notes, *gaps):
        tell(f"note: {note}", quiet=quiet)
    lines = [f"wrote {quote_path(folder)}, {len(written)} files:", *(f"  {quote_path(path)}" for path in written)]
    document = {"folder": str(folder), "files": [str(path) for path in written], "gaps": gaps}
    answer("\n".join(lines), document, as_json=as_json, quiet=quiet)
