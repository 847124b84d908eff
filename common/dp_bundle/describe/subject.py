"""Facts of a release that every descriptor beside the bundle states: title, description, licence, files."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from dp_bundle.base.wording import Phrase
from dp_bundle.describe.sentences import (
    describe_gaps,
    describe_guarantee,
    describe_moments,
    describe_noise,
    describe_total,
    first_columns,
)
from dp_bundle.manifest.dataset import WEB, Dataset, dataset_details, doi_address
from dp_bundle.manifest.release import Release

TAR = "application/x-tar"
PARQUET = "application/vnd.apache.parquet"
SIGNATURE = "text/plain"  # beside the tar
_FILES = {  # what people are told of a file, and its format
    PARQUET: ("The noisy data", "Parquet"),
    TAR: ("The signed bundle, with which the data are verified", "TAR"),
    SIGNATURE: ("The signature of the bundle for minisign", "minisign"),
}
_LANGUAGES = (  # ISO 639-1 and 639-3, of the EU's languages and some others
    "ar:ARA bg:BUL cs:CES da:DAN de:DEU el:ELL en:ENG es:SPA et:EST fi:FIN fr:FRA ga:GLE he:HEB hr:HRV hu:HUN is:ISL "
    "it:ITA ja:JPN lt:LIT lv:LAV mt:MLT nl:NLD no:NOR pl:POL pt:POR ro:RON ru:RUS sk:SLK sl:SLV sv:SWE tr:TUR uk:UKR "
    "zh:ZHO"
)
_GIVE_LICENCE = Phrase("give license in the policy's [dataset]", "fill in “«license»”")
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

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    @property
    def address(self) -> str:
        """Its address, or its path as a relative one."""
        return self.path if WEB.fullmatch(self.path) else quote(self.path)

    @property
    def purpose(self) -> tuple[str, str]:
        """What people are told of it, and its format."""
        return _FILES[self.media_type]


class Subject:
    """The facts of a release that descriptors beside the bundle state, each derived once; nothing stands for none.

    Attributes
    ----------
    release : Release
    dataset : Dataset
        What its publisher says of the data.
    more : Details
        Further fields of that.
    number, date : str
        Of the release.
    title : str
        The publisher's, or else the dataset's name.
    period : str
        From when to when the data are.
    identifier, homepage, email : str
        The DOI's address; that of the page about the data; the contact's one for e-mail.
    spdx, licence_address, licence : str
        The licence as SPDX spells it, if it is one of its list; the address of its text; that, or what else was given.
    """

    def __init__(self, release: Release) -> None:
        self.release, self.dataset = release, release.dataset
        self.more = dataset_details(release.dataset)
        self.number, self.date = str(release.lineage.number), release.lineage.created[:10]
        self.title = self.dataset.title or self.dataset.name
        self.period = f"{self.more.temporal.start}/{self.more.temporal.end}" if self.more.temporal else ""
        self.identifier = doi_address(self.more.doi) if self.more.doi else ""
        self.homepage = self.dataset.url if WEB.fullmatch(self.dataset.url) else ""
        contact = self.dataset.contact.removeprefix("mailto:")
        self.email = contact if _EMAIL.fullmatch(contact) else ""
        self.spdx, self.licence_address = licence_of(self.dataset)
        self.licence = self.licence_address or self.dataset.license

    @cached_property
    def guarantee(self) -> list[str]:
        """Sentences on what is guaranteed, and was spent."""
        return [*describe_guarantee(self.release), describe_total(self.release)]

    @property
    def description(self) -> str:
        """The publisher's description, with what is guaranteed and was spent."""
        return " ".join(filter(None, [self.dataset.description, *self.guarantee]))

    @cached_property
    def noise(self) -> list[str]:
        """Sentences that say which noise is on what."""
        release = self.release
        if release.second_moments is not None:
            return describe_moments(release.second_moments, release.columns)
        noises = {name: describe_noise(column) for name, (column, _) in first_columns(release.columns).items()}
        said = [f"{name}: {each}." for name, each in list(noises.items())[:_SHOWN]]
        rest = len(noises) - _SHOWN
        return [*said, f"{rest} further columns: see the manifest."] if rest > 0 else said

    @property
    def noise_was_added(self) -> str:
        """A sentence for everybody that comes before the facts of `noise`."""
        to, how = "every value", "By column:"
        if self.release.second_moments is not None:
            histograms = "a histogram of each column and to " * (self.release.margins is not None)
            to, how = f"{histograms}the columns' second moments, over all rows,", "Exactly:"
        return f"Random noise was added to {to} before publication. {how}"

    @property
    def of_gaps(self) -> list[str]:
        """Sentences that say what became of cells without a value."""
        return describe_gaps(self.release)

    def gaps(self, portal: str) -> list[str]:
        """Return sentences on what a portal asks for, as `dp-bundle stage` names it, and the manifest does not say."""
        unsaid = {
            licence_gap(self.dataset): True,
            "no description is given, so that portals show only what is guaranteed: give description in the policy's "
            "[dataset], or add it to the metadata": not self.dataset.description,
            f"{portal.capitalize()} asks for creators, and none is named: add them to the metadata": (
                portal in ("dataverse", "zenodo") and not self.more.creators
            ),
            "Dataverse asks for the e-mail address of a contact, and there is none: add it to dataset.json": (
                portal == "dataverse" and not self.email
            ),
            "add your organisation to package.json, as owner_org, if your CKAN asks for it": portal == "ckan",
        }
        return [gap for gap, is_there in unsaid.items() if gap and is_there]


def slug(name: str) -> str:
    """Return a name as part of an address, and as CKAN takes it: 2 to 100 small letters, digits, - and _."""
    found = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")[:100]
    return found if len(found) > 1 else f"dataset-{found}".rstrip("-")


def three_letters(language: str) -> str:
    """Return the code of ISO 639-3 for one of ISO 639-1, in lower case, or nothing for a rarer one."""
    found = re.search(rf"\b{language}:([A-Z]+)", _LANGUAGES)
    return found[1].lower() if found else ""


def licence_of(dataset: Dataset) -> tuple[str, str]:
    """Return the licence as SPDX spells it, if it is one of its list, and the address of its text, if it has one."""
    try:
        found = str(canonicalize_license_expression(dataset.license))
    except InvalidLicenseExpression:
        found = ""
    if found and " " not in found and not found.startswith("LicenseRef-"):
        return found, f"https://spdx.org/licenses/{found}"
    return "", dataset.license if WEB.fullmatch(dataset.license) else ""


def licence_gap(dataset: Dataset) -> str:
    """Return a sentence if people or machines cannot tell how they may use the data; otherwise nothing."""
    if not dataset.license:
        return f"no licence is stated, so that nobody may reuse the data: {_GIVE_LICENCE}"
    if not licence_of(dataset)[1]:
        return "the licence is no SPDX identifier such as CC-BY-4.0 and no address, so that portals cannot read it"
    return ""


def without_gaps(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the entries that nothing was said of."""
    return {name: value for name, value in document.items() if value not in (None, "", [], {}, ())}
