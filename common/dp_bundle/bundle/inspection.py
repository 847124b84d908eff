"""Facts about a bundle, for a person or a machine, before anything is done with its numbers.

The chain of a dataset's releases: each names the manifest of the one before it, and no number is there twice.

A bundle names one predecessor. Whether one is missing in between is seen only where all releases are there. That is in
a folder, and in the memory of what this reader verified.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dp_bundle.base.errors import BrokenChainError, BundleError
from dp_bundle.base.quoting import counted, quote, quote_name, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.reading import find_bundles, open_bundle, sighting_of
from dp_bundle.describe.sentences import (
    describe_bounds,
    describe_discovery,
    describe_gaps,
    describe_moments,
    describe_noise,
    describe_promise,
    describe_size,
    describe_sources,
    describe_total,
    describe_unprotected,
    first_columns,
)
from dp_bundle.files.places import RemotePath
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.dataset import POSITIVE, WHOLE
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import TrustStore


def bundle_facts(bundle: Bundle) -> dict[str, Any]:
    """Return the facts that a machine is given of every bundle."""
    release = bundle.release
    return {
        "dataset": release.dataset.name,
        "release_number": release.lineage.number,
        "signer": bundle.signer.key.fingerprint,
        "signer_name": bundle.signer.name,
        "manifest_sha256": bundle.manifest_sha256,
        "members": [member.name for member in bundle.members.values()],
        "copies": list(bundle.copies),
    }


def describe_bundle(bundle: Bundle, name: str | None, chain: Sequence[str] = ()) -> str:
    """Return a description, line by line: signer and guarantee come before anything that the signer wrote.

    Parameters
    ----------
    bundle : Bundle
        A verified bundle.
    name : str or None
        What this reader calls the signer; None if the key is not trusted.
    chain : sequence of str
        Sentences on its place among the releases, as `describe_chain` gives them.
    """
    release = bundle.release
    guarantee, columns = release.guarantee, release.columns
    unprotected = describe_unprotected(guarantee, release.kind, columns, release.discovery)
    known = f"trusted here as {quote_name(name)}" if name is not None else "NOT trusted here"
    facts = [
        ("signer", f"{bundle.signer.key.fingerprint} ({known})"),
        ("dataset", f"{quote_name(release.dataset.name)}, release {release.lineage.number}, {release.lineage.created}"),
        *_under("chain", chain),
        ("size", describe_size(release)),
        *_under("guarantee", describe_promise(release)),
        *_under("unprotected", unprotected),
        ("so far", describe_total(release)),
        *_under("noise", describe_moments(release.second_moments, columns)),
        *_under("found", describe_discovery(release)),
        *_under("gaps", describe_gaps(release)),
        *_under("levels", describe_sources(release)),
        *_signers_words(release),
    ]
    read = "what was read there, and copies of the rest, are as they were signed"
    begin = f"{quote_path(bundle.path)}: {read if bundle.copies else 'every byte is as it was signed'}"
    lines = [f"{begin}; the lines below are what its signer states, and what follows from it"]
    lines += [f"  {label:<11} {text}" for label, text in facts]
    return "\n".join([*lines, "  columns", *_describe_columns(release)])


def _under(label: str, sentences: Sequence[str]) -> list[tuple[str, str]]:
    """Return sentences as facts, of which only the first has the label."""
    return [(label if index == 0 else "", sentence) for index, sentence in enumerate(sentences)]


def _signers_words(release: Release) -> list[tuple[str, str]]:
    """Return what the signer says of the dataset, each text as a quotation, and other values as JSON.

    Lists of columns that synthetic rows alone go by are left out.
    """
    passed = {"name", WHOLE, POSITIVE}
    said = {"licence" if name == "license" else name: each for name, each in release.dataset if name not in passed}
    texts = {
        label: each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for label, each in said.items()
    }
    return [(label, quote(text)) for label, text in texts.items() if text]


def _describe_columns(release: Release) -> list[str]:
    shown = [
        (f"{quote_name(name)} ({number} columns)" if number > 1 else quote_name(name), column)
        for name, (column, number) in first_columns(release.columns).items()
    ]
    width = max(len(name) for name, _ in shown)
    clip = release.column_clip
    lines = []
    for name, column in shown:
        unit = f" {quote_name(column.unit)}" if column.unit else ""
        noise = "" if column.noise is None else f": {describe_noise(column)}"
        kept = f"{describe_bounds(column)}{unit}" if not column.standards else _describe_kept(column, clip or 1.0, unit)
        lines.append(f"    {name:<{width}}  {kept}{noise}")
    return lines


def _describe_kept(column: Column, clip: float, unit: str) -> str:
    """Return the range that two rounds left to a column's values, and how that was obtained."""
    if column.name != column.source_name:
        return "0 or 1"
    first = column.standards[0]
    low, high = first.center - clip * first.scale, first.center + clip * first.scale
    if column.transform is not None:
        declared = "" if column.bounds is None else f" of values from {column.bounds[0]:g} to {column.bounds[1]:g}"
        return f"normal scores from {low:.6g} to {high:.6g}{declared}"
    if column.standard_obtained != "private-quantiles":
        low, high = (low, high) if column.bounds is None else (max(low, column.bounds[0]), min(high, column.bounds[1]))
        return f"{low:.6g} to {high:.6g}{unit}"
    declared = "" if column.bounds is None else f"; declared: {column.bounds[0]:g} to {column.bounds[1]:g}"
    return f"{low:.6g} to {high:.6g}{unit} (found privately, with noise{declared})"


@dataclass(frozen=True)
class Link:
    """A release in a chain.

    Attributes
    ----------
    number : int
    manifest_sha256 : str
    previous : str or None
        The manifest of the release before it, as it says.
    total : int
        How many releases, itself included, it says that the dataset has had; cancelled ones do not count.
    signer : PublicKey
    path : Path
        Its file.
    """

    number: int
    manifest_sha256: str
    previous: str | None
    total: int
    signer: PublicKey
    path: Path | RemotePath

    @property
    def shown(self) -> str:
        """Its number, and the beginning of its digest."""
        return f"{self.number} ({self.manifest_sha256[:12]}...)"


@dataclass(frozen=True)
class Chain:
    """The releases of one dataset in a folder, by number, and the count of files that are of others."""

    releases: tuple[Link, ...]
    others: int


def check_chain(bundle: Bundle, folder: Path, store: TrustStore, *, any_signer: bool) -> Chain:
    """Verify all releases of a bundle's dataset in a folder, and that they form one chain with it.

    Nothing of them is remembered as read.

    Parameters
    ----------
    bundle : Bundle
        A verified bundle, in the folder or not.
    folder : Path
        Where the others are, also in folders within it.
    store : TrustStore
        Whom this reader trusts, and what was verified here before.
    any_signer : bool
        Whether the signers need not be trusted; they must be of one line of keys even then.

    Raises
    ------
    BrokenChainError
        A file does not verify, or is by another signer. A release is missing, there twice, or does not follow the one
        before it. Or a newer one was seen here before. The sentence names each by number and digest.
    BundleError
        What has been seen cannot be read.
    """
    dataset = bundle.release.dataset.name
    links, problems, others = {bundle.manifest_sha256: _link(bundle)}, [], 0
    line = store.line(bundle.signer.key)
    for path in find_bundles(folder):
        try:
            with open_bundle(path, UnsafeTrustAnyone()) as found:
                if found.release.dataset.name != dataset:
                    others += 1
                    continue
                if found.manifest_sha256 in links:
                    continue
                _require_signers(found, line, store, any_signer=any_signer)
                links[found.manifest_sha256] = _link(found)
        except BundleError as error:
            problems.append(f"{quote_path(path)} is not good: {str(error).replace(quote_path(path), 'it')}")

    releases = sorted(links.values(), key=lambda link: (link.number, link.manifest_sha256))
    problems += [
        *_numbers(releases),
        *_follow(releases),
        *_compare(releases, store.remembered(bundle.signer.key, dataset)),
    ]
    if problems:
        raise BrokenChainError(dataset, problems)
    return Chain(tuple(releases), others)


def describe_chain(bundle: Bundle, store: TrustStore) -> tuple[list[str], dict[str, object]]:
    """Return sentences on a bundle's place among the releases that this reader verified before, and the facts."""
    number, previous = bundle.release.lineage.number, bundle.release.lineage.previous
    seen = store.remembered(bundle.signer.key, bundle.release.dataset.name)
    known = {digest: each for each, digest in seen.items()}
    if previous is None:
        said = [f"release {number}, which names no release before it"]
    else:
        who = f"release {known[previous]}, verified here before" if previous in known else "not verified here before"
        said = [f"release {number}, which follows the one with the manifest {previous} ({who})"]
    if seen.get(number, bundle.manifest_sha256) != bundle.manifest_sha256:
        said.append(f"ANOTHER release {number} was verified here before, with the manifest {seen[number]}")
    if seen:
        newest = max(seen)
        said.append(f"verified here before: {_listed(seen)}")
        if newest > number:
            said.append(f"release {newest}, verified here before, is newer")
    facts = {
        "number": number,
        "manifest_sha256": bundle.manifest_sha256,
        "previous": previous,
        "previous_verified_here": previous in known,
        "verified_here": [{"number": each, "manifest_sha256": digest} for each, digest in seen.items()],
    }
    return said, facts


def _link(bundle: Bundle) -> Link:
    lineage, total = bundle.release.lineage, bundle.release.cumulative.releases
    return Link(lineage.number, bundle.manifest_sha256, lineage.previous, total, bundle.signer.key, bundle.path)


def _require_signers(bundle: Bundle, line: Sequence[PublicKey], store: TrustStore, *, any_signer: bool) -> None:
    """Refuse a release of a key outside the line, or one that this reader does not trust for it."""
    key, number = bundle.signer.key, bundle.release.lineage.number
    if key not in line:
        raise BundleError(
            f"release {number} ({bundle.manifest_sha256[:12]}...) is signed by {key.fingerprint}, which is not the key "
            "of the bundle given. No statement that was accepted here names it as its successor"
        )
    if not any_signer:
        store.require(key)
        store.vouch(key, sighting_of(bundle))


def _numbers(releases: Sequence[Link]) -> Iterator[str]:
    """Yield a sentence for each number that two releases have."""
    for one, other in pairwise(releases):
        if one.number == other.number:
            yield f"a fork: there are two releases {one.number}, {_where(one)} and {_where(other)}"


def _follow(releases: Sequence[Link]) -> Iterator[str]:
    """Yield a sentence for each release that does not follow the one before it, or follows one that is not there.

    A number without a release is no gap if it was cancelled, which the totals tell: they count all others.
    """
    digests = {link.manifest_sha256: link for link in releases}
    before: Link | None = None
    for link in releases:
        last, total = (0, 0) if before is None else (before.number, before.total)
        absent = _span(last + 1, link.number - 1)
        follows = None if before is None else before.manifest_sha256
        if link.previous == follows or (before is not None and before.number == link.number):
            if absent and link.total != total + 1:
                yield f"{absent} missing, which release {link.shown} counts among those before it"
        elif link.previous in digests:
            yield (
                f"a fork: release {link.shown} follows release {digests[link.previous].shown}"
                + (f" and not release {before.shown}" if before is not None else "")
            )
        elif absent:
            yield f"{absent} missing: release {link.shown} follows {_named(link.previous)}"
        elif before is not None:
            yield f"release {link.shown} follows {_named(link.previous)}, and not release {before.shown}"
        before = link


def _compare(releases: Sequence[Link], seen: Mapping[int, str]) -> Iterator[str]:
    """Yield a sentence for each release that was verified here before, and that is another one here, or missing."""
    numbers = {link.number: link for link in releases}
    newest = releases[-1]
    for number, digest in seen.items():
        shown = f"release {number} ({digest[:12]}...), which was verified here before,"
        if number > newest.number:
            yield f"rolled back: {shown} is missing, and release {newest.shown} is the newest here"
        elif number not in numbers:
            yield f"{shown} is missing"
        elif all(digest != link.manifest_sha256 for link in releases if link.number == number):
            yield f"a fork: {shown} is another one than {_where(numbers[number])}"


def _where(link: Link) -> str:
    return f"{link.manifest_sha256[:12]}... in {quote_path(link.path)}"


def _named(digest: str | None) -> str:
    return "no release" if digest is None else f"one with the manifest {digest[:12]}..., which is not here"


def _span(first: int, last: int) -> str:
    """Return numbers from first to last as the subject of a sentence, or nothing."""
    if first > last:
        return ""
    return f"release {first} is" if first == last else f"releases {first} to {last} are"


def _listed(seen: Mapping[int, str]) -> str:
    shown = [f"{number} ({digest[:12]}...)" for number, digest in [*seen.items()][-_MOST:]]
    earlier = f"{counted(len(seen) - _MOST, 'earlier release')}, " if len(seen) > _MOST else ""
    return f"{earlier}{'release' if len(shown) == 1 else 'releases'} {', '.join(shown)}"


_MOST = 10  # releases that are listed
