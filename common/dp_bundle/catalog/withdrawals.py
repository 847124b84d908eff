"""Releases that a portal has withdrawn: a note beside the bundle, or in its place, from which a page stays.

Whoever cited a release, or has its file, still finds at its address that it was withdrawn, when, why, and what replaces
it. The bundle itself is no longer offered, and may be deleted: the note alone is enough.

References
----------
DCAT 3 (W3C, 2024), 11.4, has `adms:status` and `dct:isReplacedBy`. EU vocabulary dataset-status
(publications.europa.eu).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from dp_bundle.base.errors import BundleFormatError
from dp_bundle.base.quoting import quote_path
from dp_bundle.bundle.reading import is_bundle

SUFFIX = ".withdrawn.json"
LONGEST = 2_000  # characters of a reason
_STATUS = "http://publications.europa.eu/resource/authority/dataset-status/WITHDRAWN"


class Withdrawal(BaseModel):
    """That a release is no longer offered, and why.

    Attributes
    ----------
    when : datetime
        When it was withdrawn.
    why : str
        In a sentence of the portal's.
    title, name, number, created, signer, sha256, manifest_sha256, folder, page
        What a site had of the release, as its survey found it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    when: AwareDatetime
    why: str = Field(min_length=1, max_length=LONGEST)
    title: str
    name: str
    number: int
    created: str
    signer: str
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    manifest_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    folder: str = Field(pattern=r"^datasets/[a-z0-9-]+$")
    page: str = Field(pattern=r"^release-[0-9]+\.html$")

    @property
    def date(self) -> date:
        """The day on which it was withdrawn, in UTC."""
        return self.when.date()

    @property
    def place(self) -> str:
        """Where its page is, from the site's folder."""
        return f"{self.folder}/{self.page}"

    def described(self, address: str, replacement: str) -> dict[str, Any]:
        """Return it in DCAT, for a site at an address, with the place of what replaces it, if anything does."""
        return {
            "@id": f"{address}{self.place}",
            "@type": "dcat:Dataset",
            "dct:title": f"{self.title}, release {self.number} (withdrawn)",
            "dct:description": f"Withdrawn on {self.date}: {self.why}",
            "dct:modified": {"@type": "xsd:date", "@value": str(self.date)},
            "adms:status": {
                "@id": _STATUS,
                "@type": "skos:Concept",
                "skos:prefLabel": {"@language": "en", "@value": "withdrawn"},
            },
            **({"dct:isReplacedBy": {"@id": f"{address}{replacement}"}} if replacement else {}),
        }


def note_path(bundle: Path) -> Path:
    """Return where the note about a bundle is, a tar or a folder."""
    named = bundle if bundle.name.strip(".") else bundle.resolve()
    return named.with_name(f"{named.name}{SUFFIX}")


def find_withdrawals(folder: Path) -> list[Withdrawal]:
    """Return the notes in a folder and in folders within it, the latest first; bundles in folders hold none.

    Raises
    ------
    BundleFormatError
        One is not as it was written.
    """
    found = []
    for path in sorted(folder.rglob(f"*{SUFFIX}")):
        if any(is_bundle(folder / each) for each in path.relative_to(folder).parents):
            continue
        try:
            found.append(Withdrawal.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError) as error:
            raise BundleFormatError(
                f"{quote_path(path)} is no note of dp-bundle withdraw: write it again, or remove it"
            ) from error
    return sorted(found, key=lambda each: (each.when, each.place), reverse=True)


def told_of(notes: Sequence[Withdrawal], offered: Sequence[dict[str, Any]]) -> list[Withdrawal]:
    """Return the latest note for each page, but for those of releases that are offered, whose number others claimed."""
    taken = {f"{facts['folder']}/{facts['page']}" for facts in offered}
    told: dict[str, Withdrawal] = {}
    for each in notes:
        if each.place not in taken:
            told.setdefault(each.place, each)
    return [*told.values()]


def replacements(withdrawn: Sequence[Withdrawal], newest: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return, by the place of a withdrawn release, that of the newest one of its dataset, if a newer one is offered."""
    by_folder = {facts["folder"]: facts for facts in newest}
    pairs = [(each, by_folder.get(each.folder)) for each in withdrawn]
    return {
        each.place: f"{facts['folder']}/{facts['page']}"
        for each, facts in pairs
        if facts is not None and facts["number"] > each.number
    }
