"""The publisher's description of her data, which alone may hold fields that a reader does not know.

Nothing is computed from it but the dataset's name, the descriptions in the bundle and where synthetic numbers end. So a
field there is safe to ignore: it changes neither what is guaranteed nor what a number means. Everywhere else an unknown
field is refused.

Further fields of a dataset that portals ask for: creators, keywords, coverage, related works, the software.

A policy may have them, and a manifest holds them among the dataset's further fields, from which all descriptors beside
the bundle are made. In a stranger's manifest they are whatever its signer wrote. One that is not of the form below is
left out of descriptors, and of nothing else.

References
----------
ISO 7064 MOD 11-2, for the check digit of an ORCID iD. The EU vocabulary data-theme. DataCite Metadata Schema 4.5, for
the relations between works.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal
from urllib.parse import quote as quote_address

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dp_bundle.base.quoting import quote, require_one_line
from dp_bundle.manifest.columns import Model, Name, Text

THEMES = {
    "AGRI": "Agriculture, fisheries, forestry and food",
    "ECON": "Economy and finance",
    "EDUC": "Education, culture and sport",
    "ENER": "Energy",
    "ENVI": "Environment",
    "GOVE": "Government and public sector",
    "HEAL": "Health",
    "INTR": "International issues",
    "JUST": "Justice, legal system and public safety",
    "OP_DATPRO": "Provisional data",
    "REGI": "Regions and cities",
    "SOCI": "Population and society",
    "TECH": "Science and technology",
    "TRAN": "Transport",
}
Relation = Literal[
    "Cites",
    "Continues",
    "IsCitedBy",
    "IsContinuedBy",
    "IsDerivedFrom",
    "IsDescribedBy",
    "IsDocumentedBy",
    "IsNewVersionOf",
    "IsPartOf",
    "IsPreviousVersionOf",
    "IsReferencedBy",
    "IsSourceOf",
    "IsSupplementTo",
    "IsVariantFormOf",
    "IsVersionOf",
    "References",
]
DOI = re.compile(r"10\.[0-9]{4,9}/[!-~]+")
WEB = re.compile(r"https?://[^\s<>\"{}|\\^`]+")
WHOLE, POSITIVE = "whole_numbers", "not_negative"  # further fields: columns with no other numbers, as was found
_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?")
_MOST_ENTRIES = 100  # entries of a list


def _require_orcid(text: str) -> str:
    """Return an ORCID iD whose check digit fits, or raise ValueError."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{4}-[0-9]{4}-[0-9]{3}[0-9X]", text):
        raise ValueError(f"{text!r} is no ORCID iD: give one such as 0000-0002-1825-0097, without an address before it")
    total = 0
    for digit in text.replace("-", "")[:-1]:
        total = (total + int(digit)) * 2
    check = (12 - total % 11) % 11
    if text[-1] != ("X" if check == 10 else str(check)):
        raise ValueError(f"{text} is no ORCID iD: its check digit does not fit, so a digit of it is wrong")
    return text


def _require_date(text: str) -> str:
    """Return a year, a month or a day that exists, or raise ValueError."""
    try:
        if _DATE.fullmatch(text):
            datetime.date.fromisoformat(text + "-01-01"[len(text) - 4 :])
            return text
    except ValueError:
        pass
    raise ValueError(f"{text!r} is no date: give one such as 2024-05-31, 2024-05 or 2024")


def _only(fits: Callable[[str], object], what: str) -> AfterValidator:
    """Return the validator that returns a text that fits, and else raises ValueError with what it is."""

    def require(text: str) -> str:
        if not fits(text):
            raise ValueError(f"{text!r} is {what}")
        return text

    return AfterValidator(require)


_Theme = Annotated[str, _only(THEMES.__contains__, f"no theme: give one of {', '.join(THEMES)}")]
_Language = Annotated[
    str, _only(re.compile("[a-z]{2}").fullmatch, "no language: give its two letters by ISO 639-1, such as en")
]
_Doi = Annotated[
    str, _only(DOI.fullmatch, "no DOI: give one such as 10.5281/zenodo.1234567, without an address before it")
]
_Address = Annotated[str, _only(WEB.fullmatch, "no address: give one that begins https://")]
_Identifier = Annotated[
    Name,
    _only(
        lambda text: DOI.fullmatch(text) or WEB.fullmatch(text),
        "neither a DOI such as 10.5281/zenodo.1234567 nor an address that begins https://",
    ),
]
_Several = (
    BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value),  # as JSON and TOML have it
    Field(max_length=_MOST_ENTRIES),
)
Date = Annotated[
    str,
    BeforeValidator(lambda value: value.isoformat() if type(value) is datetime.date else value),  # as TOML has it
    AfterValidator(_require_date),
]


class Creator(Model):
    """A person or an institution that made the data; whoever has an ORCID iD is a person."""

    name: Name
    orcid: Annotated[str, AfterValidator(_require_orcid)] | None = None
    affiliation: Text = ""

    @property
    def orcid_address(self) -> str:
        """The address of the ORCID iD, or nothing."""
        return f"https://orcid.org/{self.orcid}" if self.orcid else ""


class Period(Model):
    """The time that the data are about: from `start` to `end`, each a year, a month or a day."""

    start: Date
    end: Date

    @model_validator(mode="after")
    def _check(self) -> Period:
        if self.end[: len(self.start)] < self.start[: len(self.end)]:
            raise ValueError(f"the period ends, on {self.end}, before it begins, on {self.start}")
        return self


class Related(Model):
    """Another work, by its DOI or address, and what the dataset is to it in the words of DataCite."""

    relation: Relation
    identifier: _Identifier

    @property
    def is_doi(self) -> bool:
        """True for a DOI, and not an address."""
        return DOI.fullmatch(self.identifier) is not None

    @property
    def address(self) -> str:
        """The address of the work, or of its DOI."""
        return doi_address(self.identifier) if self.is_doi else self.identifier


def doi_address(doi: str) -> str:
    """Return the address of a DOI."""
    return f"https://doi.org/{quote_address(doi)}"


class Details(Model):
    """The further fields of a dataset that descriptors use, all of them optional."""

    creators: Annotated[tuple[Creator, ...], *_Several] = Field(
        default=(),
        description="who made it, one by one, instead of `creator`; the check digit of an ORCID iD is verified",
    )
    publisher: Text = Field(default="", description="who offers it")
    doi: _Doi | None = Field(default=None, description="that of this dataset, once it has one or one is reserved")
    keywords: Annotated[tuple[Name, ...], *_Several] = Field(default=(), description="for searches")
    themes: Annotated[tuple[_Theme, ...], *_Several] = Field(default=(), description="of the EU vocabulary data-theme")
    languages: Annotated[tuple[_Language, ...], *_Several] = Field(
        default=(), description="of the column names and descriptions"
    )
    temporal: Period | None = Field(default=None, description="the time that the data are about")
    spatial: Annotated[tuple[Name, ...], *_Several] = Field(
        default=(), description="the places that the data are about"
    )
    related: Annotated[tuple[Related, ...], *_Several] = Field(
        default=(), description="other works, by DOI or address: the dataset IsDerivedFrom, IsDescribedBy ... them"
    )
    software_url: _Address | None = Field(
        default=None, description="where researchers find dpgraph, its source release: the bundle's README says so"
    )


def dataset_details(dataset: Dataset) -> Details:
    """Return those further fields of a manifest's dataset that have the form above; the creator's name if none has.

    Parameters
    ----------
    dataset : Dataset
        The description in a manifest.
    """
    found: dict[str, Any] = {}
    for name, value in dataset.further.items():
        try:
            found[name] = getattr(Details.model_validate({name: value}), name)
        except ValidationError:  # of another form, or not one of them
            continue
    if not found.get("creators") and dataset.creator:
        found["creators"] = (Creator(name=dataset.creator[:1_000]),)
    return Details(**found)


_FIELD = r"^[a-z][a-z0-9_]{0,63}$"
_MOST = 2**53  # which every reader counts exactly
_LONGEST_NAME, _LONGEST_TEXT = 1_000, 10_000


class Dataset(Model):
    """The publisher's description of her data; `further` has what later editions of the format describe it by."""

    model_config = ConfigDict(
        extra="allow", frozen=True, strict=True, json_schema_extra={"propertyNames": {"pattern": _FIELD}}
    )

    name: Name
    title: Text = ""
    description: Text = ""
    creator: Text = ""
    license: Text = ""
    contact: Text = ""
    url: Text = ""
    citation: Text = ""

    @property
    def further(self) -> dict[str, Any]:
        """The fields that this version of the software does not know: numbers, texts, lists and objects of them."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _check(self) -> Dataset:
        for name, value in self.further.items():
            if not re.fullmatch(_FIELD, name):
                raise ValueError(f"{quote(name)} is no name of a field")
            _check_value(value)
        return self


def _check_value(value: Any) -> None:
    """Refuse, by ValueError, what is not JSON that every reader understands alike."""
    if isinstance(value, dict):
        for name in value:
            _check_text(name, _LONGEST_NAME, least=1)
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for inner in value:
            _check_value(inner)
    elif isinstance(value, str):
        _check_text(value, _LONGEST_TEXT)
    elif value is not None and not (
        abs(value) <= _MOST if isinstance(value, int) else isinstance(value, float) and math.isfinite(value)
    ):
        raise ValueError("a further field holds a number that not every reader can hold")


def _check_text(text: object, longest: int, *, least: int = 0) -> None:
    if not isinstance(text, str) or not least <= len(text) <= longest:
        raise ValueError(f"a further field holds a text that has not {least} to {longest} characters")
    require_one_line(text)
