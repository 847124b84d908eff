"""Descriptions of a release in the words of search engines, portals and repositories, filled into templates.

A template, in `templates`, is JSON as a portal takes it. A text that begins with `= ` is an expression of Jinja over
the release and its `Subject`. The expression's value takes its place: no text of a signer is ever part of the JSON's
syntax. In an object, `$if` leaves it out where it is false. `$with` has the entries that it begins with, and `$is` has
what stands in its place. `$each`, in a list, makes one for each of several. Entries of which nothing is said are left
out.

Search engines for datasets read a schema.org Dataset from web pages. The Data Package and Croissant begin with what the
bundle holds of the same kind, whose bytes are fixed. They add what the manifest's further fields say. European data
portals read DCAT-AP 3 in JSON-LD, and with DataCite metadata a DOI is registered. Repositories (CKAN, Dataverse,
InvenioRDM, on which Zenodo runs, and Hugging Face) have words of their own. On Hugging Face these are the card of a
dataset, a README whose front matter has the privacy label. In its YAML, texts and lists are written as in JSON, and
numbers so that every reader takes them for numbers. Those of YAML 1.1 take 1e-06 for a text, and 1.0e-06 for a number.

References
----------
schema.org/Dataset. Google Search Central, "Dataset (Dataset, DataCatalog, DataDownload) structured data", which reads
5,000 characters of a description. Data Package v2 (frictionlessdata.io). Croissant 1.1 and Croissant RAI 1.0
(mlcommons.org/croissant). DCAT-AP 3.0.0 (SEMIC, semiceu.github.io/DCAT-AP/releases/3.0.0). DCAT 3 (W3C, 2024). The EU
vocabularies data-theme, language, file-type and access-right (publications.europa.eu). DataCite Metadata Schema 4.5
(schema.datacite.org/meta/kernel-4.5), of which appendix 3 has (:unav) for what is mandatory, and not said. CKAN API
guide, `package_create`; the portal's `owner_org` is left for its maintainer. Dataverse guides, "Native API: Create a
Dataset in a Dataverse Collection", and the citation metadata block. InvenioRDM, "Metadata reference". Hugging Face Hub,
"Dataset Cards" and "Manual configuration" (huggingface.co/docs/hub). The hub loads all rows as one table, or each
matrix, and never the tar, which is no WebDataset.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from dp_bundle.describe.descriptors import DESCRIPTORS, DataMember, make_readme
from dp_bundle.describe.subject import PARQUET, TAR, PublishedFile, Subject, slug, three_letters, without_gaps
from dp_bundle.manifest.dataset import THEMES, WEB
from dp_bundle.manifest.release import Release

_TEMPLATES = Path(__file__).with_name("templates")
_IN_BUNDLE = {"frictionless": "datapackage.json", "croissant": "croissant.json"}
_FROM_A_LIST = ("subject", "authorIdentifierScheme")  # Dataverse's fields of controlled vocabularies


def describe_in(
    form: str, release: Release, files: Sequence[PublishedFile] = (), *, address: str = "", signer: str = ""
) -> dict[str, Any]:
    """Return a release as a template of that name has it.

    Parameters
    ----------
    form : str
        One of `FORMS`, or a portal other than `static`.
    release : Release
        The release.
    files : sequence of PublishedFile
        What can be fetched, with its address, or its path from where the document stands.
    address : str
        What the dataset is identified by in schema.org and DCAT; by default its DOI, if it has one.
    signer : str
        The fingerprint of the key that signed it, which portals are told.
    """
    subject = Subject(release)
    values: dict[str, Any] = {
        "subject": subject,
        "dataset": subject.dataset,
        "more": subject.more,
        "release": release,
        "guarantee": release.guarantee,
        "files": files,
        "address": address,
        "signer": signer,
    }
    if form in _IN_BUNDLE:
        members = [DataMember(file.path, file.size, file.sha256) for file in files if file.media_type == PARQUET]
        values["bundled"] = json.loads(DESCRIPTORS[_IN_BUNDLE[form]](release, members))
    filled: dict[str, Any] = _fill(read_template(form), values)
    return filled


@cache
def read_template(name: str) -> dict[str, Any]:
    """Return a template, or the tables of words that some of them take."""
    template: dict[str, Any] = json.loads((_TEMPLATES / f"{name}.json").read_text(encoding="utf-8"))
    return template


def _fill(part: Any, values: Mapping[str, Any]) -> Any:
    """Return a part of a template with its values; None of an object that is left out."""
    if isinstance(part, str):
        return _expression(part[2:])(values) if part.startswith("= ") else part
    if isinstance(part, list):
        return [filled for each in part for filled in _fill_each(each, values) if filled not in (None, {})]
    if not isinstance(part, dict):
        return part
    if "$if" in part and not _expression(part["$if"])(values):
        return None
    if "$is" in part:
        return _fill(part["$is"], values)
    filled = {**_expression(part["$with"])(values)} if "$with" in part else {}
    filled |= {name: _fill(inner, values) for name, inner in part.items() if not name.startswith("$")}
    return without_gaps(filled)


def _fill_each(part: Any, values: Mapping[str, Any]) -> list[Any]:
    """Return what an entry of a list becomes: one, or one for each."""
    if not (isinstance(part, dict) and "$each" in part):
        return [_fill(part, values)]
    name, _, several = part["$each"].partition(" in ")
    return [_fill(part, {**values, name: each}) for each in _expression(several)(values)]


@cache
def _expression(text: str) -> Any:
    """Return the function that computes an expression from values by name."""
    return _environment().compile_expression(text, undefined_to_none=False)


@cache
def _environment() -> Environment:
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701  JSON, and `_elements` escapes
    environment.globals |= {
        "family_and_given": _family_and_given,
        "is_address": WEB.fullmatch,
        "parquet": PARQUET,
        "slug": slug,
        "tables": read_template("tables"),
        "tar": TAR,
        "themes": THEMES,
        "three_letters": three_letters,
    }
    environment.filters |= {
        "ckan_tag": _ckan_tag,
        "elements": _elements,
        "lookup": lambda word, table, default: table.get(word, default),
    }
    return environment


def _ckan_tag(word: str) -> str:
    """Return a keyword as CKAN takes it: 2 to 100 letters, digits, spaces, -, _ and . or nothing."""
    found = " ".join(re.sub(r"[^\w .-]+", " ", word).split())[:100]
    return found if len(found) > 1 else ""


def _elements(sentences: Sequence[str], tag: str) -> str:
    """Return sentences as elements of HTML, in which no text of the signer acts."""
    return "".join(f"<{tag}>{escape(sentence, quote=False)}</{tag}>" for sentence in sentences if sentence)


def _family_and_given(name: str) -> tuple[str, str]:
    """Return a person's family name, which stands before a comma or behind the last space, and the other names."""
    before, comma, behind = name.partition(",")
    given, _, family = (behind, comma, before) if comma else name.rpartition(" ")
    return family.strip(), given.strip()


def dataverse_dataset(release: Release) -> dict[str, Any]:
    """Return the citation block, with the guarantee among the notes and the licence among the terms."""
    fields = [_dataverse_field(*field) for field in describe_in("dataverse", release).items()]
    citation = {"displayName": "Citation Metadata", "fields": fields}
    version = {"termsOfUse": Subject(release).licence, "metadataBlocks": {"citation": citation}}
    return {"datasetVersion": without_gaps(version)}


def _dataverse_field(name: str, value: Any) -> dict[str, Any]:
    """Return a field with its type; one whose entries have several parts is a compound of fields."""
    kind = "controlledVocabulary" if name in _FROM_A_LIST else "primitive"
    if isinstance(value, list) and isinstance(value[0], dict):
        kind = "compound"
        value = [{part: _dataverse_field(part, text) for part, text in each.items()} for each in value]
    return {"typeName": name, "multiple": isinstance(value, list), "typeClass": kind, "value": value}


def dataverse_files(files: Sequence[PublishedFile]) -> list[dict[str, Any]]:
    """Return what is said of each file when it is added, in the order of the files."""
    said = {"categories": ["Data"], "restrict": False}
    return [{"filename": file.name, "description": file.purpose[0], **said} for file in files]


def hugging_face_card(release: Release, files: Sequence[PublishedFile], signer: str) -> str:
    """Return the card: front matter in YAML, then the README of the bundle and how to verify it.

    Parameters
    ----------
    release, files, signer
        As of `describe_in`.
    """
    n_files = sum(file.media_type == PARQUET for file in files)
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
    front = to_yaml(describe_in("huggingface", release, files, signer=signer))
    return "\n".join([f"---\n{front}---", "", make_readme(release, n_files, in_file=False), *verify, ""])


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
