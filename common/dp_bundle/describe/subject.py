"""Facts of a release that every descriptor beside the bundle states: title, description, licence, files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from dp_bundle.describe.meanings import first_columns
from dp_bundle.describe.sentences import describe_guarantee, describe_moments, describe_noise, describe_total
from dp_bundle.manifest.dataset import DOI, WEB, Creator, Dataset, Details, dataset_details
from dp_bundle.manifest.release import Release

TAR = "application/x-tar"
PARQUET = "application/vnd.apache.parquet"
SIGNATURES = {"minisig": "text/plain", "dsse.json": "application/json"}  # of files beside the tar, by their ends
_FILES = {  # what people are told of a file, and its format
    PARQUET: ("The noisy data", "Parquet"),
    TAR: ("The signed bundle, with which the data are verified", "TAR"),
    SIGNATURES["minisig"]: ("The signature of the bundle for minisign", "minisign"),
    SIGNATURES["dsse.json"]: ("Signatures of the bundle by others", "DSSE"),
}
_LANGUAGES = (  # ISO 639-1 and 639-3, of the EU's languages and some others
    "ar:ARA bg:BUL cs:CES da:DAN de:DEU el:ELL en:ENG es:SPA et:EST fi:FIN fr:FRA ga:GLE he:HEB hr:HRV hu:HUN is:ISL "
    "it:ITA ja:JPN lt:LIT lv:LAV mt:MLT nl:NLD no:NOR pl:POL pt:POR ro:RON ru:RUS sk:SLK sl:SLV sv:SWE tr:TUR uk:UKR "
    "zh:ZHO"
)
_EMAIL = re.compile(r"[A-Za-z0-9.!#$&'*+/=?_~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_SHOWN = 50  # columns whose noise is told


@dataclass(frozen=True)
class PublishedFile:
    """A file that people can fetch.

    Attributes
    ----------
    path : str
        Its address, or its path from where the descriptor stands.
    size : int
        In bytes.
    sha256 : str
        The digest of its content, in hexadecimal digits.
    media_type : str
        Such as "application/x-tar".
    """

    path: str
    size: int
    sha256: str
    media_type: str


def title(release: Release) -> str:
    """Return the publisher's title, or else the dataset's name."""
    return release.dataset.title or release.dataset.name


def description(release: Release) -> str:
    """Return the publisher's description, and what the release guarantees and has cost."""
    said = [release.dataset.description] if release.dataset.description else []
    return " ".join([*said, *describe_guarantee(release), describe_total(release)])


def noise(release: Release) -> list[str]:
    """Return sentences that say which noise is on what."""
    if release.second_moments is not None:
        return describe_moments(release.second_moments)
    noises = {name: describe_noise(column) for name, (column, _) in first_columns(release.columns).items()}
    said = [f"{name}: {each}." for name, each in list(noises.items())[:_SHOWN]]
    rest = len(noises) - _SHOWN
    return [*said, f"{rest} further columns: see the manifest."] if rest > 0 else said


def details(release: Release) -> Details:
    """Return the further fields that descriptors use."""
    return dataset_details(release.dataset)


def identifier(release: Release) -> str:
    """Return the address of the dataset's DOI, or nothing."""
    doi = details(release).doi
    return doi_address(doi) if doi else ""


def slug(name: str) -> str:
    """Return a name as part of an address, and as CKAN takes it: 2 to 100 small letters, digits, - and _."""
    found = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")[:100]
    return found if len(found) > 1 else f"dataset-{found}".rstrip("-")


def orcid_address(creator: Creator) -> str:
    """Return the address of a creator's ORCID iD, or nothing."""
    return f"https://orcid.org/{creator.orcid}" if creator.orcid else ""


def doi_address(text: str) -> str:
    """Return a DOI as an address, and an address as it is."""
    return f"https://doi.org/{quote(text)}" if DOI.fullmatch(text) else text


def file_address(file: PublishedFile) -> str:
    """Return a file's address, or its path as a relative one."""
    return file.path if WEB.fullmatch(file.path) else quote(file.path)


def file_purpose(file: PublishedFile) -> tuple[str, str]:
    """Return what people are told of a file, and its format."""
    return _FILES[file.media_type]


def homepage(dataset: Dataset) -> str:
    """Return the page about the data, if the publisher gave an address."""
    return dataset.url if WEB.fullmatch(dataset.url) else ""


def email(dataset: Dataset) -> str:
    """Return the contact's address for e-mail, or nothing."""
    address = dataset.contact.removeprefix("mailto:")
    return address if _EMAIL.fullmatch(address) else ""


def spdx_licence(dataset: Dataset) -> str:
    """Return the licence as SPDX spells it, or nothing if it is not one licence of SPDX's list."""
    try:
        found = canonicalize_license_expression(dataset.license)
    except InvalidLicenseExpression:
        return ""
    return "" if " " in found or found.startswith("LicenseRef-") else str(found)


def licence_address(dataset: Dataset) -> str:
    """Return the address of the licence's text, or nothing if it was given in words."""
    found = spdx_licence(dataset)
    if found:
        return f"https://spdx.org/licenses/{found}"
    return dataset.license if WEB.fullmatch(dataset.license) else ""


def three_letters(language: str) -> str:
    """Return the code of ISO 639-3 for one of ISO 639-1, in lower case, or nothing for a rarer one."""
    found = re.search(rf"\b{language}:([A-Z]+)", _LANGUAGES)
    return found[1].lower() if found else ""


def licence_gap(dataset: Dataset) -> str:
    """Return a sentence if people or machines cannot tell how they may use the data; otherwise nothing."""
    if not dataset.license:
        return "no licence is stated, so that nobody may reuse the data: give license in the policy's [dataset]"
    if not licence_address(dataset):
        return "the licence is no SPDX identifier such as CC-BY-4.0 and no address, so that portals cannot read it"
    return ""


def portal_gaps(release: Release, portal: str) -> list[str]:
    """Return sentences on what a portal asks for and the manifest does not say.

    Parameters
    ----------
    release : Release
        The release.
    portal : str
        Such as "zenodo", as `dp-bundle stage` names them.
    """
    gaps = [licence_gap(release.dataset)]
    if not release.dataset.description:
        gaps.append(
            "no description is given, so that portals show only what is guaranteed: give description in the policy's "
            "[dataset], or add it to the metadata"
        )
    if portal in ("dataverse", "zenodo") and not details(release).creators:
        gaps.append(f"{portal.capitalize()} asks for creators, and none is named: add them to the metadata")
    if portal == "dataverse" and not email(release.dataset):
        gaps.append("Dataverse asks for the e-mail address of a contact, and there is none: add it to dataset.json")
    if portal == "ckan":
        gaps.append("add your organisation to package.json, as owner_org, if your CKAN asks for it")
    return [gap for gap in gaps if gap]


def without_gaps(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the entries that nothing was said of."""
    return {name: value for name, value in document.items() if value not in (None, "", [], {}, ())}
