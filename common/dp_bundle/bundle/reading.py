"""Verify bundles, whole, before a byte of their data is parsed; `writing` is the inverse.

The numbered steps are in `_verify`, and the last one is in `open_bundles`. A bundle is given only after all of them.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from dp_bundle.base.engine import Engine, map_in_order
from dp_bundle.base.errors import BundleError, BundleFormatError, DigestMismatchError, DpGraphError, errors_about
from dp_bundle.base.machine import count_cores
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.opened import Bundle, digest_part, members_at, part_tasks
from dp_bundle.bundle.writing import MANIFEST_NAME, MAX_MANIFEST
from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember
from dp_bundle.files.places import RemotePath, located
from dp_bundle.files.tar import MAX_MEMBER_SIZE, Digests, Member, MemberReader, Members, digest_member
from dp_bundle.manifest.release import Release, RequireShape, Statement, Subject
from dp_bundle.trust.judging import Sighting, TrustedKey, TrustPolicy
from dp_bundle.trust.signing import ENVELOPE_END, Envelope, PublicKey, signer_of, verify_envelope
from dp_bundle.trust.store import TrustStore

_WORTH_THREADS = 2**24  # bytes of a bundle


def open_bundle(
    path: str | os.PathLike[str],
    trust: TrustPolicy | None = None,
    *,
    allow_older: bool = False,
    engine: Engine | None = None,
    anew: bool = False,
) -> Bundle:
    """Verify a bundle whole and return it open for reading.

    Parameters
    ----------
    path : str, Path or RemotePath
        The tar, or the folder that it was unpacked to: a local one, or at a URI that begins with `https://`, `s3://`,
        `gs://` or `az://`. The tar's name ends in `.tar` there.
    trust : TrustPolicy, optional
        Whom to trust; the user's own store by default.
    allow_older : bool
        Whether to accept a release older than one already seen.
    engine : Engine, optional
        What takes the digests of data, and reads many rows of the bundle: every core here, by default. Workers of
        `Dask` from `dp_bundle.base.engine` read it at this path or URI themselves.
    anew : bool
        Whether every byte is read at the URI, and no copy of an earlier download. Otherwise `copies` of the bundle says
        which members were read so.

    Returns
    -------
    Bundle
        Open; close it, or use it in a `with` statement.

    Raises
    ------
    BundleError
        The bundle, its signer or its content is not to be trusted. Nothing of it was parsed as data, and nothing
        written to disk but downloads with their signed digest.
    StoreError
        The place cannot be read.
    """
    (bundle,) = open_bundles([path], trust, allow_older=allow_older, engine=engine, anew=anew)
    return bundle


def open_bundles(
    paths: Sequence[str | os.PathLike[str]],
    trust: TrustPolicy | None = None,
    *,
    allow_older: bool = False,
    engine: Engine | None = None,
    anew: bool = False,
    require_shape: RequireShape | None = None,
) -> list[Bundle]:
    """Verify several bundles, each as `open_bundle` does; an older release may come together with a newer one.

    Parameters
    ----------
    paths, trust, allow_older, engine
        As of `open_bundle`.
    require_shape : callable, optional
        Raises an error for a release that is too large to work with, as soon as its signature was verified.

    Returns
    -------
    list of Bundle
        Open, in the order of the paths.

    Raises
    ------
    BundleError
        One of the bundles, its signer or its content is not to be trusted.
    """
    policy = trust if trust is not None else TrustStore()
    with contextlib.ExitStack() as opened:
        verify = partial(_verify, trust=policy, engine=engine, require_shape=require_shape, anew=anew)
        bundles = []
        for path in paths:
            with _one_of(paths, path):
                bundles.append(opened.enter_context(_open(located(path), verify, anew=anew)))

        # 9. The reader has seen no other release of this number, and no newer one in its series, by this signer.
        newest: set[tuple[PublicKey, str]] = set()
        for bundle in sorted(bundles, key=lambda each: -each.release.lineage.number):
            origin = (bundle.signer.root, bundle.release.series)
            with _one_of(paths, bundle.path):
                bundle.notes = policy.admit(
                    bundle.signer.key, sighting_of(bundle), allow_older=allow_older, beside_newer=origin in newest
                )
            newest.add(origin)
        opened.pop_all()
    return bundles


def _one_of(
    paths: Sequence[str | os.PathLike[str]], path: str | os.PathLike[str]
) -> contextlib.AbstractContextManager[None]:
    """Have errors of trust say which of several bundles they are about."""
    return errors_about(quote_path(path), BundleError) if len(paths) > 1 else contextlib.nullcontext()


def _open(path: Path | RemotePath, verify: Callable[[Path | RemotePath, Members], Bundle], *, anew: bool) -> Bundle:
    with contextlib.ExitStack() as opened:
        try:
            source = opened.enter_context(contextlib.closing(members_at(path, anew=anew)))
        except DpGraphError:
            raise
        except (OSError, ValueError) as error:  # a name with a zero byte is no name
            reason = getattr(error, "strerror", None) or error
            if isinstance(path, RemotePath) and isinstance(error, FileNotFoundError):
                reason = "there is nothing at this address"
            raise BundleFormatError(f"{quote_path(path)} cannot be opened: {reason}") from error
        try:
            bundle = verify(path, source)
        except OSError as error:
            raise BundleFormatError(f"{quote_path(path)} cannot be read: {error.strerror}") from error
        opened.pop_all()
    return bundle


def sighting_of(bundle: Bundle) -> Sighting:
    """Return a verified bundle as far as a reader remembers it."""
    release, lineage = bundle.release, bundle.release.lineage
    place = (release.dataset.name, release.series, lineage.number, release.kind)
    return Sighting(*place, bundle.manifest_sha256, lineage.previous)


def _verify(
    path: Path | RemotePath,
    source: Members,
    *,
    trust: TrustPolicy,
    engine: Engine | None,
    require_shape: RequireShape | None,
    anew: bool,
) -> Bundle:
    """Verify one bundle, each step only after all before it."""
    # 1. It begins with a manifest of bounded size.
    first = source.first(MANIFEST_NAME)
    if first.name != MANIFEST_NAME or first.size > MAX_MANIFEST:
        raise BundleFormatError(
            f"{quote_path(path)} is not a bundle: it does not begin with a manifest of sensible size"
        )

    # 2. The key at the manifest's end is one that the reader trusts. Nothing else of it has been read until here.
    reader = MemberReader(source, first)
    reader.seek(-ENVELOPE_END, os.SEEK_END)
    trust.require(signer_of(reader.read()))

    # 3. The manifest is an envelope in its one serialised form, and the signature is the signer's.
    # 4. The payload is a release of this format version, in its one spelling, that does not contradict itself; and
    #    before all of it is looked at, no larger than the reader can work with.
    reader.seek(0)
    manifest = b"".join(reader.chunks())
    statement, signer = verify_manifest(manifest, trust, require_shape)
    release = statement.predicate

    # 5. The statement's subjects are the members of such a release.
    names = [subject.name for subject in statement.subject]
    if names != [*DESCRIPTORS, *release.data_names(max(1, len(names) - len(DESCRIPTORS)))]:
        raise BundleFormatError(f"the members of the bundle are not those of a release of kind {release.kind}")

    # 6. There are the manifest and these members, no others, in this order: in a tar that `write_archive` makes, byte
    #    for byte outside the members' content, or in a folder with nothing else in it.
    signed = {MANIFEST_NAME: hashlib.sha256(manifest).hexdigest()}
    signed |= {subject.name: subject.digest["sha256"] for subject in statement.subject}
    members = source.scan(signed, partial(_largest_descriptions, release, statement.subject))

    # 7. The descriptions are in the words that the release gives.
    described = [DataMember(each.name, each.size, signed[each.name]) for each in members[1 + len(DESCRIPTORS) :]]
    for name, make in DESCRIPTORS.items():
        if hashlib.sha256(make(release, described)).hexdigest() != signed[name]:
            raise BundleFormatError(f"{name} says something else than the manifest: do not use this bundle")

    # 8. Every member's SHA-256 is the signed one. The digests of its parts are kept, for when they are read again.
    copies: set[str] = set()
    parts = [] if engine is None else [member for member in members if member.name.startswith("data/")]
    digests = _take_digests(source, [member for member in members if member not in parts])
    if engine is not None:
        tasks = part_tasks(path, members[0], parts, signed, len(release.columns), anew=anew)
        for task, (found, is_copy) in zip(tasks, map_in_order(engine, digest_part, tasks), strict=True):
            digests[task.part.name] = found
            copies |= {task.part.name} if is_copy else set()
    for member in members:
        if digests[member.name].whole != signed[member.name]:
            raise DigestMismatchError(member.name)
    copies |= set(source.copies)
    return Bundle(path, source, release, signer, members, digests, engine, copies)


def _take_digests(source: Members, members: list[Member]) -> dict[str, Digests]:
    """Return the digests of all members, taken on every core where that is worth a thread."""
    n_threads = min(count_cores(), len(members))
    if n_threads == 1 or sum(member.size for member in members) < _WORTH_THREADS:
        return {member.name: digest_member(source, member) for member in members}
    with ThreadPoolExecutor(n_threads) as pool:
        found = pool.map(partial(digest_member, source), members)
        return {member.name: digests for member, digests in zip(members, found, strict=True)}


def verify_manifest(
    content: bytes, trust: TrustPolicy, require_shape: RequireShape | None = None
) -> tuple[Statement, TrustedKey]:
    """Verify the bytes of a manifest member: form, signer, signature, statement; `require_shape` as of `open_bundles`.

    Raises
    ------
    BundleError
        One of them does not hold.
    """
    envelope = Envelope.from_bytes(content)
    signer = trust.require(envelope.signer)
    return Statement.from_bytes(verify_envelope(envelope), require_shape), signer


def _largest_descriptions(release: Release, subjects: Sequence[Subject]) -> dict[str, int]:
    """Return the most bytes that each description of a release can have, whatever the sizes of its data members."""
    data = subjects[len(DESCRIPTORS) :]
    described = [DataMember(each.name, MAX_MEMBER_SIZE, each.digest["sha256"]) for each in data]
    return {name: len(make(release, described)) for name, make in DESCRIPTORS.items()}


def find_bundles(folder: Path, beside: Path | None = None) -> list[Path]:
    """Return the tar files, and the folders with a manifest, in a folder and the folders in it, in order.

    Parameters
    ----------
    folder : Path
        It may be a bundle itself.
    beside : Path, optional
        A folder in it that is not looked into.
    """
    if is_bundle(folder):
        return [folder]
    found = []
    for place, folders, files in os.walk(folder):
        inner = [Path(place, name) for name in folders]
        if beside is not None:
            inner = [path for path in inner if path.resolve() != beside.resolve()]
        found += [path for path in inner if is_bundle(path)]
        folders[:] = sorted(path.name for path in inner if not is_bundle(path))
        found += [path for name in files if name.endswith(".tar") and (path := Path(place, name)).is_file()]
    return sorted(found)


def is_bundle(folder: Path) -> bool:
    """Return whether a folder holds a manifest, and so belongs to its signer."""
    return os.path.lexists(folder / MANIFEST_NAME)
