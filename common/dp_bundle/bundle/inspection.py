"""Facts about a bundle, for a person or a machine, before anything is done with its numbers."""

import json
from collections.abc import Sequence
from typing import Any

from dp_bundle.base.quoting import counted, quote, quote_name, quote_path
from dp_bundle.bundle.opened import Bundle
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
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.release import Release


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


def describe_copies(bundle: Bundle) -> list[str]:
    """Return a sentence for a reader who was given copies of earlier downloads, and none otherwise."""
    if not bundle.copies:
        return []
    return [
        f"{counted(len(bundle.copies), 'data file')} read from copies of earlier downloads, as they were signed; "
        f"whether the address still has them was not checked: dp-bundle verify {quote_path(bundle.path)} does that"
    ]


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
    """Return what the signer says of the dataset, each text as a quotation, and other values as JSON."""
    said = {"licence" if name == "license" else name: value for name, value in release.dataset if name != "name"}
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
    clip = release.second_moments.column_clip if release.second_moments is not None else None
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
    declared = "" if column.bounds is None else f"; declared: {column.bounds[0]:g} to {column.bounds[1]:g}"
    found = f" (found privately, with noise{declared})" if column.standard_obtained == "private-quantiles" else ""
    return f"{low:.6g} to {high:.6g}{unit}{found}"
