"""A verified bundle laid out for a portal: the tar, Parquet files beside it, and metadata in the portal's vocabulary.

Portals give a tar no preview, and some read it as something else, so the same data stand beside it. All is written to a
new folder that appears in one step, from the bytes that were verified.

Repositories (CKAN, Dataverse, InvenioRDM, on which Zenodo runs, and Hugging Face) have words of their own. On Hugging
Face these are the card of a dataset, a README whose front matter has the privacy label. In its YAML, texts and lists
are written as in JSON, and numbers so that every reader takes them for numbers: those of YAML 1.1 take 1e-06 for a
text, and 1.0e-06 for a number.

References
----------
CKAN API guide, `package_create`. Dataverse guides, "Native API: Create a Dataset in a Dataverse Collection", and the
citation metadata block. InvenioRDM, "Metadata reference". Hugging Face Hub, "Dataset Cards" and "Manual configuration"
(huggingface.co/docs/hub).
"""

import itertools
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

from dp_bundle.base.errors import DpGraphError, ParameterError
from dp_bundle.base.quoting import counted, guard_cell, quote_path
from dp_bundle.bundle.opened import Bundle
from dp_bundle.bundle.packing import find_minisig, published_files, signature_file, write_tar
from dp_bundle.bundle.writing import errors_of_writing, sha256_of
from dp_bundle.data.margins import margin_table
from dp_bundle.data.matrix import triangle_table
from dp_bundle.data.rows import part_schema
from dp_bundle.describe.readme import make_readme
from dp_bundle.describe.sentences import describe_guarantee, describe_scale, describe_total
from dp_bundle.describe.subject import PARQUET, PublishedFile, Subject, slug, three_letters, without_gaps
from dp_bundle.files.new_files import new_file, new_folder, whole_file
from dp_bundle.manifest.dataset import Creator
from dp_bundle.manifest.release import CONSTANT_LABEL, FIRST_ROUND_NAME, MARGINS_NAME, TRANSFORM_NAME, Release
from dp_bundle.portals.learned import Correlations, require_reader
from dp_bundle.portals.names import PORTALS
from dp_bundle.portals.portal_json import (
    croissant_document,
    datacite_document,
    dcat_document,
    frictionless_document,
    schema_org_document,
)

_IN_ONE_FOLDER = ("static", "huggingface")  # all others get the files to upload in a folder of their own, `files`
_STATIC = {
    "datapackage.json": "frictionless",
    "croissant.json": "croissant",
    "dcat.jsonld": "dcat",
    "schema.org.jsonld": "schema.org",
    "datacite.json": "datacite",
}
_MAKERS: dict[str, Callable[[Release, list[PublishedFile]], dict[str, Any]]] = {
    "frictionless": frictionless_document,
    "croissant": croissant_document,
    "dcat": dcat_document,
    "datacite": datacite_document,
    "schema.org": schema_org_document,
}
_CKAN_LICENCES = {
    "CC-BY-4.0": "cc-by",
    "CC-BY-SA-4.0": "cc-by-sa",
    "CC0-1.0": "cc-zero",
    "ODC-By-1.0": "odc-by",
    "ODbL-1.0": "odc-odbl",
    "PDDL-1.0": "odc-pddl",
    "OGL-UK-3.0": "uk-ogl",
}
_DATAVERSE_SUBJECTS = {  # of Dataverse's list, for themes
    "AGRI": "Agricultural Sciences",
    "ECON": "Business and Management",
    "ENVI": "Earth and Environmental Sciences",
    "EDUC": "Social Sciences",
    "GOVE": "Social Sciences",
    "HEAL": "Medicine, Health and Life Sciences",
    "JUST": "Law",
    "REGI": "Social Sciences",
    "SOCI": "Social Sciences",
    "TECH": "Engineering",
}
_PARTS = {"authorIdentifierScheme": "controlledVocabulary"}  # kinds of parts of Dataverse's fields; others are texts
_HUB_LICENCES = {"ODbL-1.0": "odbl", "ODC-By-1.0": "odc-by", "PDDL-1.0": "pddl"}
_SAME_LICENCES = {  # but for capital letters
    "Apache-2.0",
    "CC-BY-4.0",
    "CC-BY-NC-4.0",
    "CC-BY-NC-ND-4.0",
    "CC-BY-NC-SA-4.0",
    "CC-BY-ND-4.0",
    "CC-BY-SA-4.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "MIT",
    "etalab-2.0",
}
_HUB_SIZES = [
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10**7, "1M<n<10M"),
]


def describe_as(bundle: Bundle, form: str) -> bytes:
    """Return a description of a bundle, in one of `FORMS`, for the folder that `stage_bundle` makes for `static`."""
    return _json(_MAKERS[form](bundle.release, published_files(bundle)))


def stage_bundle(bundle: Bundle, portal: str, folder: Path) -> tuple[list[Path], list[str]]:
    """Write a new folder for a portal; return its files, and a sentence about a signature that was left out.

    Parameters
    ----------
    bundle : Bundle
        A verified bundle.
    portal : str
        One of `PORTALS`.
    folder : Path
        The new folder. Nothing is ever replaced.

    Raises
    ------
    ParameterError
        There is no such portal.
    BundleFormatError
        The file was changed after it was verified.
    DpGraphError
        There is something of that name already, or the folder cannot be written.
    """
    if portal not in PORTALS:
        raise ParameterError("--for", f"one of {', '.join(PORTALS)}", portal)
    if os.path.lexists(folder):
        raise DpGraphError(f"there is something at {quote_path(folder)} already: give the name of a new folder")
    signature, left_out = find_minisig(bundle)
    with errors_of_writing(folder), new_folder(folder) as new:
        flat = portal not in _IN_ONE_FOLDER
        place = new / "files" if flat else new
        _write_data(bundle, place, flat=flat, readme=portal != "huggingface")
        signed = []
        if signature is not None:
            signed = [signature_file(bundle, signature)]
            _write(place / signed[0].name, signature)
        for name, content in _metadata(bundle, portal, signed).items():
            _write(new / name, content)
        if portal == "static":
            sums = []
            for path in _files_in(new):
                with (new / path).open("rb") as file:
                    sums.append(f"{sha256_of(file)}  {path.as_posix()}\n")
            _write(new / "SHA256SUMS", "".join(sums).encode())
    return [folder / name for name in _files_in(folder)], left_out


def _metadata(bundle: Bundle, portal: str, signatures: list[PublishedFile]) -> dict[str, bytes]:
    """Return the files of metadata that a portal gets."""
    release, signer = bundle.release, bundle.signer.key.fingerprint
    files = published_files(bundle, flat=portal not in _IN_ONE_FOLDER)
    if portal == "huggingface":
        return {"README.md": hugging_face_card(release, files, signer).encode()}
    if portal == "ckan":
        return {"package.json": _json(ckan_package(release, [*files, *signatures], signer))}
    if portal == "dataverse":
        described = dataverse_files([*files, *signatures])
        return {"dataset.json": _json(dataverse_dataset(release)), "files.json": _json(described)}
    if portal == "zenodo":
        return {"invenio-rdm.json": _json(invenio_record(release))}
    return {name: _json(_MAKERS[form](release, files)) for name, form in _STATIC.items()}


def _write_data(bundle: Bundle, folder: Path, *, flat: bool, readme: bool) -> None:
    """Write the tar, the README if asked for, and the Parquet files."""
    folder.mkdir(exist_ok=True)
    with new_file(folder / bundle.tar_path.name) as tar:
        write_tar(bundle, tar)
    for name in bundle.members:
        if not name.startswith("data/") and not (readme and name == "README.md"):
            continue
        target = folder / (name.removeprefix("data/") if flat else name)
        target.parent.mkdir(exist_ok=True)
        with bundle.open(name) as member, new_file(target) as file:
            shutil.copyfileobj(member, file)


def _write(path: Path, content: bytes) -> None:
    with new_file(path) as file:
        file.write(content)


def _files_in(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def _json(document: dict[str, Any] | list[dict[str, Any]]) -> bytes:
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def ckan_package(release: Release, files: Sequence[PublishedFile], signer: str) -> dict[str, Any]:
    """Return the dictionary for `package_create`; the portal's `owner_org` is left for its maintainer.

    Parameters
    ----------
    release : Release
        The release.
    files : sequence of PublishedFile
        The files that become resources.
    signer : str
        The fingerprint of the key that signed it.
    """
    subject = Subject(release)
    more = subject.more
    facts = {
        "guarantee": " ".join(describe_guarantee(release)),
        "spent_so_far": describe_total(release),
        "noise": " ".join(subject.noise),
        "signer": signer,
        "identifier": subject.identifier,
        "licence": subject.licence,
        "temporal_coverage": subject.period,
        "spatial_coverage": ", ".join(more.spatial),
        "language": ", ".join(more.languages),
    }
    return without_gaps(
        {
            "name": slug(subject.dataset.name),
            "title": subject.title,
            "notes": subject.description,
            "license_id": _CKAN_LICENCES.get(subject.spdx, "notspecified"),
            "url": subject.homepage,
            "version": subject.number,
            "author": "; ".join(creator.name for creator in more.creators),
            "maintainer": more.publisher or subject.dataset.contact,
            "maintainer_email": subject.email,
            "tags": [{"name": word} for word in dict.fromkeys(filter(None, map(_tag, more.keywords)))],
            "extras": [{"key": key, "value": value} for key, value in facts.items() if value],
            "resources": [
                {
                    "name": file.name,
                    "description": file.purpose[0],
                    "format": file.purpose[1],
                    "mimetype": file.media_type,
                    "size": file.size,
                    "hash": f"sha256:{file.sha256}",
                }
                for file in files
            ],
        }
    )


def _tag(word: str) -> str:
    """Return a keyword as CKAN takes it: 2 to 100 letters, digits, spaces, -, _ and ."""
    found = " ".join(re.sub(r"[^\w .-]+", " ", word).split())[:100]
    return found if len(found) > 1 else ""


def dataverse_dataset(release: Release) -> dict[str, Any]:
    """Return the citation block, with the guarantee among the notes and the licence among the terms."""
    subject = Subject(release)
    dataset, more = subject.dataset, subject.more
    subjects = list(dict.fromkeys(_DATAVERSE_SUBJECTS.get(code, "Other") for code in more.themes)) or ["Other"]
    contact = {"datasetContactName": dataset.contact or more.publisher, "datasetContactEmail": subject.email}
    period = more.temporal
    covered = {"timePeriodCoveredStart": period.start, "timePeriodCoveredEnd": period.end} if period else {}
    related = [f"{work.relation} {work.address}" for work in more.related]
    fields = [
        _field("title", subject.title),
        _compound("author", [_dataverse_author(creator) for creator in more.creators]),
        _compound("datasetContact", [contact]),
        _compound("dsDescription", [{"dsDescriptionValue": subject.description, "dsDescriptionDate": subject.date}]),
        _field("subject", subjects, "controlledVocabulary"),
        _compound("keyword", [{"keywordValue": word} for word in more.keywords]),
        _compound("distributor", [{"distributorName": more.publisher}]),
        _field("distributionDate", subject.date),
        _compound("timePeriodCovered", [covered]),
        _field("alternativeURL", subject.homepage),
        _field("notesText", " ".join([*subject.guarantee, *subject.noise])),
        _field("relatedMaterial", related),
    ]
    citation = {"displayName": "Citation Metadata", "fields": [field for field in fields if field["value"]]}
    version = {"termsOfUse": subject.licence, "metadataBlocks": {"citation": citation}}
    return {"datasetVersion": without_gaps(version)}


def dataverse_files(files: Sequence[PublishedFile]) -> list[dict[str, Any]]:
    """Return what is said of each file when it is added, in the order of the files."""
    said = {"categories": ["Data"], "restrict": False}
    return [{"filename": file.name, "description": file.purpose[0], **said} for file in files]


def _dataverse_author(creator: Creator) -> dict[str, Any]:
    scheme = {"authorIdentifierScheme": "ORCID", "authorIdentifier": creator.orcid} if creator.orcid else {}
    return {"authorName": creator.name, "authorAffiliation": creator.affiliation, **scheme}


def _field(name: str, value: str | Sequence[Any], kind: str = "primitive") -> dict[str, Any]:
    return {"typeName": name, "multiple": not isinstance(value, str), "typeClass": kind, "value": value}


def _compound(name: str, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a field of several parts, each without the parts that nothing was said of."""
    said = [
        {part: _field(part, text, _PARTS.get(part, "primitive")) for part, text in each.items() if text}
        for each in entries
    ]
    return _field(name, [each for each in said if each], "compound")


def invenio_record(release: Release) -> dict[str, Any]:
    """Return a draft record of InvenioRDM, on which Zenodo and others run."""
    subject = Subject(release)
    dataset, more = subject.dataset, subject.more
    rights: dict[str, Any] = {"title": {"en": dataset.license}, "link": subject.licence_address}
    if subject.spdx:
        rights = {"id": subject.spdx.lower()}
    guarantee = _paragraphs(subject.guarantee)
    metadata = {
        "resource_type": {"id": "dataset"},
        "title": subject.title,
        "publication_date": subject.date,
        "creators": [_invenio_creator(creator) for creator in more.creators],
        "publisher": more.publisher,
        "description": _paragraphs([dataset.description]) or guarantee,
        "additional_descriptions": [{"description": _noise(subject) + guarantee, "type": {"id": "methods"}}],
        "rights": [without_gaps(rights)] if dataset.license else None,
        "subjects": [{"subject": word} for word in (*more.keywords, "differential privacy")],
        "languages": [{"id": code} for code in map(three_letters, more.languages) if code],
        "dates": [{"date": subject.period, "type": {"id": "collected"}}] if subject.period else None,
        "version": subject.number,
        "related_identifiers": [
            {
                "identifier": work.identifier,
                "scheme": "doi" if work.is_doi else "url",
                "relation_type": {"id": work.relation.lower()},
            }
            for work in more.related
        ],
        "locations": {"features": [{"place": place} for place in more.spatial]} if more.spatial else None,
    }
    return without_gaps(
        {
            "access": {"record": "public", "files": "public"},
            "files": {"enabled": True},
            "metadata": without_gaps(metadata),
            "pids": {"doi": {"identifier": more.doi, "provider": "external"}} if more.doi else None,
        }
    )


def _invenio_creator(creator: Creator) -> dict[str, Any]:
    """Return a creator; a person's family name stands before a comma, or behind the last space."""
    who: dict[str, Any] = {"type": "organizational", "name": creator.name}
    if creator.orcid:
        before, comma, behind = creator.name.partition(",")
        given, _, family = (behind, comma, before) if comma else creator.name.rpartition(" ")
        known = [{"scheme": "orcid", "identifier": creator.orcid}]
        who = {"type": "personal", "family_name": family.strip(), "given_name": given.strip(), "identifiers": known}
    belongs = [{"name": creator.affiliation}] if creator.affiliation else None
    return without_gaps({"person_or_org": without_gaps(who), "affiliations": belongs})


def _noise(subject: Subject) -> str:
    """Return HTML that says which noise is on what: a sentence for everybody, then the exact facts one by one."""
    if subject.release.second_moments is None:
        said = "Random noise was added to every value before publication. By column:"
    else:
        histograms = "a histogram of each column and to " * (subject.release.margins is not None)
        noisy = f"{histograms}the columns' second moments"
        said = f"Random noise was added to {noisy}, over all rows, before publication. Exactly:"
    facts = "".join(f"<li>{escape(fact, quote=False)}</li>" for fact in subject.noise)
    return f"<p>{said}</p><ul>{facts}</ul>"


def _paragraphs(sentences: Sequence[str]) -> str:
    """Return HTML, in which no text of the signer acts."""
    return "".join(f"<p>{escape(sentence, quote=False)}</p>" for sentence in sentences if sentence)


def privacy_label(release: Release, signer: str) -> dict[str, Any]:
    """Return the guarantee in numbers, under plain names: unit, neighbours, mu, rho, epsilon, cost so far, signer.

    Parameters
    ----------
    release : Release
        The release.
    signer : str
        The fingerprint of the key that signed it.
    """
    guarantee, total = release.guarantee, release.cumulative
    label = {
        "guaranteed": True,
        "unit": guarantee.unit if guarantee.entity is None else f"entity {guarantee.entity}",
        "max_rows": guarantee.max_rows,
        "neighbours": guarantee.neighbours.value,
        "mu": guarantee.mu,
        "rho": guarantee.rho,
        "epsilon": guarantee.epsilon,
        "excepted_delta": guarantee.excepted_delta or None,
        "epsilon_delta": [[point.epsilon, point.delta] for point in guarantee.epsilon_delta],
        "not_protected": list(guarantee.public),
    }
    spent = {"releases": total.releases, "unit": total.unit, "mu": total.mu, "rho": total.rho}
    return without_gaps({**label, "spent_so_far": without_gaps(spent), "signer": signer})


def hugging_face_card(release: Release, files: Sequence[PublishedFile], signer: str) -> str:
    """Return the card: front matter in YAML, then the README of the bundle and how to verify it."""
    subject = Subject(release)
    more, data = subject.more, [file for file in files if file.media_type == PARQUET]
    # the hub loads all rows as one table, or each matrix, and never the tar, which is no WebDataset
    tables = {"default": "data/part-*.parquet"}
    if release.second_moments is not None:
        tables = {PurePosixPath(file.path).stem: file.path for file in data}
    front = {
        "pretty_name": subject.title,
        **_licence(subject),
        "language": list(more.languages),
        "tags": ["differential-privacy", "tabular", *more.keywords],
        "size_categories": [_size(release)],
        "configs": [
            {"config_name": name, "data_files": [{"split": "train", "path": path}]} for name, path in tables.items()
        ],
        "doi": more.doi,
        "differential_privacy": privacy_label(release, signer),
    }
    tar = next(file.path for file in files if file.media_type != PARQUET)
    verify = [
        "## How to verify",
        "",
        f"`{tar}` holds the same files, signed by `{signer}`:",
        "",
        f"    dp-bundle verify {shlex.quote(tar)}",
        "",
        "The digests of the Parquet files beside it are in its manifest.",
    ]
    return "\n".join(
        [f"---\n{to_yaml(without_gaps(front))}---", "", make_readme(release, len(data), in_file=False), *verify, ""]
    )


def _licence(subject: Subject) -> dict[str, str]:
    """Return the licence by its name on the hub, or as another one with its address."""
    if subject.spdx in _HUB_LICENCES or subject.spdx in _SAME_LICENCES:
        return {"license": _HUB_LICENCES.get(subject.spdx, subject.spdx.lower())}
    if not subject.dataset.license:
        return {"license": "unknown"}
    return {"license": "other", "license_name": subject.dataset.license, "license_link": subject.licence_address}


def _size(release: Release) -> str:
    """Return the hub's word for the number of lines of the first table."""
    n_lines = release.n_rows
    if release.second_moments is not None:
        n_lines = len(release.labels) * (len(release.labels) + 1) // 2
    return next((name for limit, name in _HUB_SIZES if n_lines < limit), "10M<n<100M")


def to_yaml(document: dict[str, Any], indent: str = "") -> str:
    """Return a document of dicts, lists, texts and numbers, with a line for each entry."""
    lines = []
    for name, value in document.items():
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{name}:\n{to_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{name}: {_flow(value)}\n")
    return "".join(lines)


def _flow(value: Any) -> str:
    """Return a value in one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(name)}: {_flow(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, float):
        digits, mark, exponent = repr(value).partition("e")
        return f"{digits}{'' if '.' in digits or not mark else '.0'}{mark}{exponent}"
    return json.dumps(value, ensure_ascii=False)


def export_csv(bundle: Bundle, path: Path) -> list[Path]:
    """Write the noisy rows of a bundle, or the upper triangle of its noisy second moments, to a new CSV file.

    Numbers have as many digits as it takes to read them back exactly; names pass through `guard_cell`. It needs memory
    for one batch. Of a release of two rounds, the matrix of the first and the transform get files of their own beside
    it, with names that end in `-first-round` and `-transform`, and histograms one that ends in `-margins`.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    BundleFormatError
        The data are not what the manifest says.
    DpGraphError
        There is a file of such a name already, no such folder, or it cannot be written.
    """
    tables = {path: _batches(bundle)}
    if FIRST_ROUND_NAME in bundle.members:
        columns = [column.name for column in bundle.release.columns]
        for name, matrix, labels in (
            (FIRST_ROUND_NAME, bundle.first_round, [*columns, CONSTANT_LABEL]),
            (TRANSFORM_NAME, bundle.transform, columns),
        ):
            tables[_beside(path, name)] = _triangle(matrix, labels)
    if MARGINS_NAME in bundle.members:
        tables[_beside(path, MARGINS_NAME)] = _histograms(bundle)
    return _write_all({target: partial(_write_batches, batches) for target, batches in tables.items()})


def export_combined(bundle: Bundle, path: Path) -> tuple[list[Path], Correlations]:
    """Write the correlations of a bundle without the noise's part, their standard errors, and what they are worth.

    Both are square matrices with the names of the columns, which pass through `guard_cell`, on both sides; cells are
    empty where noise drowns a column. Beside PATH.csv they are PATH-correlations.csv and PATH-standard-errors.csv, with
    PATH-combined.json.

    Returns
    -------
    list of Path, Correlations
        The files, and what they say.

    Raises
    ------
    EstimationError
        Nothing can be estimated: the sentence says why.
    BundleFormatError, DpGraphError
        As in `export_csv`; or nobody on this machine learns from releases.
    """
    found = require_reader().correlations(bundle)
    about = {
        "dataset": bundle.release.dataset.name,
        "release_number": bundle.release.lineage.number,
        "manifest_sha256": bundle.manifest_sha256,
        "kind": bundle.release.kind,
        "n_rows": found.n_rows,
        "effective_rows": found.effective_rows,
        "errors_are_estimates": found.are_estimates,
        "columns": list(found.columns),
        "drowned_columns": found.drowned,
        "notes": describe_scale(bundle.release.columns),
    }
    writers = {
        "-correlations.csv": partial(_write_square, found.values, found.columns),
        "-standard-errors.csv": partial(_write_square, found.standard_errors, found.columns),
        "-combined.json": partial(_write_json, about),
    }
    named = {path.with_name(f"{path.stem}{ending}"): write for ending, write in writers.items()}
    return _write_all(named), found


def describe_worth(found: Correlations) -> str:
    """Return what correlations are worth, as the end of a sentence."""
    left = f"; {counted(len(found.drowned), 'column')} drowned by noise" if found.drowned else ""
    n_columns = counted(len(found.columns), "column")
    if found.effective_rows is None:
        return f"correlations of {n_columns}, whose errors are unknown{left}"
    worth = f"as precise as {found.effective_rows:.0f} Gaussian rows without noise"
    return f"correlations of {n_columns} over {found.n_rows} rows, {worth}{left}"


def _beside(path: Path, member: str) -> Path:
    """Return the file of another member, beside that of the first."""
    return path.with_name(f"{path.stem}-{Path(member).stem}{path.suffix}")


def _write_all(writers: Mapping[Path, Callable[[IO[bytes]], None]]) -> list[Path]:
    """Write new files, once it is known that none of them exists."""
    taken = {target: f"there is a file at {quote_path(target)} already: give another --out" for target in writers}
    for target, said in taken.items():
        if not target.parent.is_dir():
            raise DpGraphError(f"--out must be in a folder that exists: there is no folder {quote_path(target.parent)}")
        if os.path.lexists(target):
            raise DpGraphError(said)
    for target, write in writers.items():
        with errors_of_writing(target, taken[target]), whole_file(target) as file:
            write(file)
    return list(writers)


def _write_batches(batches: Iterator[pa.RecordBatch], file: IO[bytes]) -> None:
    first = next(batches)
    with pa_csv.CSVWriter(file, first.schema) as writer:
        for batch in itertools.chain([first], batches):
            writer.write_batch(batch)


def _write_square(matrix: NDArray[np.float64], names: Sequence[str], file: IO[bytes]) -> None:
    labels = [guard_cell(name) for name in names]
    pd.DataFrame(matrix, labels, labels).to_csv(file, lineterminator="\n")


def _write_json(document: dict[str, Any], file: IO[bytes]) -> None:
    file.write(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def _batches(bundle: Bundle) -> Iterator[pa.RecordBatch]:
    """Yield the rows, after a batch that has none, for the header; or the triangle of the (final) matrix."""
    if bundle.release.kind == "covariance":
        yield from _triangle(bundle.second_moments, bundle.release.labels)
        return
    names = [guard_cell(column.name) for column in bundle.release.columns]
    empty = pa.RecordBatch.from_pylist([], part_schema(bundle.release.columns))
    for batch in itertools.chain([empty], bundle.batches()):
        yield batch.rename_columns(names)


def _triangle(matrix: Callable[[], NDArray[np.float64]], labels: list[str]) -> Iterator[pa.RecordBatch]:
    yield from triangle_table(matrix(), [guard_cell(label) for label in labels]).to_batches()


def _histograms(bundle: Bundle) -> Iterator[pa.RecordBatch]:
    guarded = [
        replace(margin, name=guard_cell(margin.name), labels=tuple(map(guard_cell, margin.labels)))
        for margin in bundle.margins()
    ]
    yield from margin_table(guarded).to_batches()
