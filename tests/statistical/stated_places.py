"""Every place where a release's figures are stated, as a person or a machine reads it, and the claims there."""

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.statistical.stated_figures import Claim, number, read_numbers, read_text, unescaped
from tests.statistical.stated_pages import claims_of_label

from dp_bundle.bundle.inspection import describe_bundle
from dp_bundle.bundle.reading import open_bundle
from dp_bundle.catalog.label import worded_label
from dp_bundle.catalog.pages import describe_processing, page_beside
from dp_bundle.catalog.vocabularies import dataverse_dataset, describe_in, hugging_face_card
from dp_bundle.describe.sentences import describe_bounds
from dp_bundle.describe.subject import PARQUET, TAR, PublishedFile
from dp_bundle.manifest.release import Release
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import Policy, Receipt
from dp_publish.cli.messages.ledger import describe_ledger, ledger_document
from dp_publish.cli.messages.release import describe_receipt, receipt_document, release_in_words, summarize_receipt
from dp_publish.ledger.books import Books

_WORDS = re.compile(r"\b(?:mu|rho|epsilon|delta|guess\w*|protected)\b")
_NUMBER = r"(\S+)"


def claims_of(receipt: Receipt, policy: Policy) -> Iterator[Claim]:
    """Yield the claims of one release: receipt, manifest, members of the bundle, label, and what portals are given."""
    release = receipt.release
    yield from read_text(_without_bounds(describe_receipt(receipt, policy), release), "receipt")
    yield from read_text(summarize_receipt(receipt, policy), "ten lines")
    document = receipt_document(receipt)
    yield from _of_manifest(document["release"], "receipt of a machine")
    with tarfile.open(str(receipt.path)) as archive:
        members = {name: _member(archive, name) for name in ("README.md", "datapackage.json", "croissant.json")}
    yield from read_text(_without_bounds(unescaped(members["README.md"]), release), "README")
    for name in ("datapackage.json", "croissant.json"):
        yield from _of_leaves(json.loads(members[name]), name)
    with open_bundle(Path(str(receipt.path)), UnsafeTrustAnyone()) as bundle:
        yield from _of_manifest(bundle.release.model_dump(mode="json"), "manifest")
        yield from read_text(_without_bounds(describe_bundle(bundle, None), release), "inspect")

        sharp = release_in_words(receipt)
        yield from claims_of_label(page_beside(bundle, sharp, file="x.tar", seen=[]))
    label = worded_label(sharp)
    yield from read_text("\n".join(describe_processing(sharp, label, "ed25519:0", "0")), "record of processing")
    for name in ("guess", "who", "plainly", "strength", "spent", "unprotected"):
        texts = [label[name]] if isinstance(label[name], str) else label[name]
        yield from read_text("\n".join(texts), f"label, {name}")
    if label["right"] is not None:
        yield Claim("right", label["right"], "own", "label, share")
    if label["right_in_all"] is not None:
        yield Claim("right", label["right_in_all"], "all", "label, share in all")
    numbers = describe_in("huggingface", release, signer="signer")["differential_privacy"]
    yield from read_numbers(numbers, "card", "own")
    spent = numbers["spent_so_far"]
    yield from read_numbers(spent, "card, spent", f"all {spent['unit']}")
    yield from _of_portals(release, numbers)


def claims_of_ledger(books: Books, dataset: str) -> Iterator[tuple[int, Claim]]:
    """Yield what the ledger says of a dataset, with the number of the release that it is about, or 0 for all."""
    lines = describe_ledger(books, "here", dataset).splitlines()
    heads = re.split(r"\s{2,}", lines[0].strip())
    assert [head for head in heads if head] == ["dataset", "release", "created", "partition", "unit", "mu", "state"]
    unit = ""
    for line in lines[1:]:
        cells = line.split()
        if line.startswith("  "):  # in words, of the line before
            yield from ((0, claim._replace(scope=f"all {unit}")) for claim in _in_words(line))
            continue
        if cells[0] == dataset:
            said = "no guarantee" not in line
            if said:
                yield int(cells[1]), Claim("mu", number(cells[-2]), f"booked {cells[-3]}", "ledger")
            continue
        match = re.fullmatch(
            rf"{dataset}, per (\S+): (?:no guarantee|mu = {_NUMBER}) over \d+ releases?(?:, of a budget of \S+?)?"
            rf"(?:, except with a probability of {_NUMBER}?)?(?: \(partitions cost in parallel\))?",
            line,
        )
        assert match, line
        unit, mu, excepted = match.groups()
        if mu is not None:
            yield 0, Claim("mu", number(mu), f"all {unit}", "ledger")
            yield 0, Claim("excepted", number(excepted or "0"), f"all {unit}", "ledger")

    document = ledger_document(books, dataset)
    for entry in document["releases"]:
        cost = entry["cost"]
        assert set(cost) <= {"unit", "mu", "rho", "continuous", "excepted_delta", "changes"}, cost
        for kind in {"mu", "rho"} & set(cost):
            for unit, value in cost[kind].items():
                yield entry["number"], Claim(kind, value, f"booked {unit}", "ledger of a machine")
        if cost["mu"]:
            yield (
                entry["number"],
                Claim("excepted", cost["excepted_delta"], f"booked {cost['unit']}", "ledger of a machine"),
            )
    for total in document["totals"]:
        if total["rho"] is not None:
            yield from ((0, each) for each in read_numbers(total, "ledger of a machine", f"all {total['unit']}"))


def _in_words(line: str) -> Iterator[Claim]:
    """Yield what a line of the ledger says of guesses, but for the comparison with another strength."""
    yield from (claim for claim in read_text(line, "ledger, in words") if not claim.scope.startswith("mu "))


def _of_portals(release: Release, numbers: dict[str, Any]) -> Iterator[Claim]:
    """Yield what is given to portals: the card on Hugging Face, and the documents of others."""
    files = [PublishedFile("x.tar", 9, "0" * 64, TAR), PublishedFile("data/part.parquet", 9, "0" * 64, PARQUET)]
    _, front, text = hugging_face_card(release, files, "signer").split("---\n", 2)
    assert yaml.safe_load(front)["differential_privacy"] == json.loads(json.dumps(numbers))
    yield from read_text(_without_bounds(unescaped(text), release), "card")
    documents = {
        "CKAN": describe_in("ckan", release, files, signer="signer"),
        "DataCite": describe_in("datacite", release, files),
        "Dataverse": dataverse_dataset(release),
        "DCAT": describe_in("dcat", release, files),
        "InvenioRDM": describe_in("zenodo", release),
        "schema.org": describe_in("schema.org", release, files),
    }
    for place, document in documents.items():
        yield from _of_leaves(document, place)


def _of_manifest(release: dict[str, Any], place: str) -> Iterator[Claim]:
    if release["guarantee"] is not None:
        yield from read_numbers(release["guarantee"], place, "own")
    if release["cumulative"]["rho"] is not None:
        yield from read_numbers(release["cumulative"], place, f"all {release['cumulative']['unit']}")


def _member(archive: tarfile.TarFile, name: str) -> str:
    file = archive.extractfile(name)
    assert file is not None
    return file.read().decode()


def _of_leaves(document: Any, place: str) -> Iterator[Claim]:
    """Yield the claims in those texts of a document that speak of privacy."""
    if isinstance(document, dict):
        for each in document.values():
            yield from _of_leaves(each, place)
    elif isinstance(document, list):
        for each in document:
            yield from _of_leaves(each, place)
    elif isinstance(document, str) and _WORDS.search(document):
        yield from read_text(document, place)


def _without_bounds(text: str, release: Release) -> str:
    """Return a text without the phrases on bounds, of which numbers may be of any form."""
    clip = release.second_moments.column_clip if release.second_moments is not None else None
    phrases = {describe_bounds(column, each) for column in release.columns for each in (None, clip)}
    for phrase in sorted(phrases, key=len, reverse=True):
        text = text.replace(phrase, "within bounds")
    return text
