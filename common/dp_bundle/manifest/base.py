"""Building blocks of a manifest: strict, frozen models without unknown fields, and bounded values.

Text is one line without control characters, so that no title or name can pass for a line of its reader's own.

Versions of the format, and what each added to manifests: fields that older ones lack, words that they do not use.

A manifest of an older version is spelled without the fields that came later, and refused with them. The words of the
descriptions in a bundle follow from the manifest too, so that those of older bundles stay as they were signed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dp_bundle.base.quoting import require_one_line

Text = Annotated[str, Field(max_length=10_000), AfterValidator(require_one_line)]
Name = Annotated[str, Field(min_length=1, max_length=1_000), AfterValidator(require_one_line)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Model(BaseModel):
    """Base of all entries."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


FormatVersion = Literal["1", "2", "3", "4", "5", "6", "7", "8"]
FORMAT_VERSION: Literal["8"] = "8"
VERSIONS: tuple[FormatVersion, ...] = ("1", "2", "3", "4", "5", "6", "7", "8")
PLAIN_VERSION: Literal["5"] = "5"  # of releases that need nothing of a later one, so that older readers take them

_SINCE_8: dict[str, Any] = {"second_moments": {"margins"}}
_SINCE_7: dict[str, Any] = {"discovery": True, "guarantee": {"discovery_mu"}, **_SINCE_8}
_LATER_FIELDS: dict[FormatVersion, dict[str, Any]] = {  # of a release of this version, as pydantic's `exclude` has them
    "8": {},
    "7": _SINCE_8,
    "6": _SINCE_7,
    "5": {"columns": {"__all__": {"transform"}}, **_SINCE_7},
    "4": {"columns": {"__all__": {"transform"}}, **_SINCE_7},
    "3": {"columns": {"__all__": {"block", "max_change", "transform"}}, "sources": True, **_SINCE_7},
}
_LATER_FIELDS["2"] = _LATER_FIELDS["1"] = {
    "columns": {"__all__": {"standards", "standard_obtained", "block", "max_change", "transform"}},
    "sources": True,
    **_SINCE_7,
    "second_moments": {"first_round", "column_clip", "fourth_moment", "margins"},
}
_CODE = re.compile(r"(?P<name>.+) \(code sha256:(?P<digest>[0-9a-f]{64})\)")  # how `software` states the code
_FIRST_SOFTWARE_OF_5 = "dpgraph 0.2.0"  # which stated no code
_WITHOUT_FURTHER: tuple[FormatVersion, ...] = ("1", "2")  # fields of the dataset that a reader does not know
MARGINS = "margins"  # the word of a release by normal scores
DISCOVERY = "discovery"  # the word of a release before which something was found of its columns
_WORDS_SINCE: dict[str, FormatVersion] = {  # mechanisms, noise, origins of bounds, gaps, kinds, units, transforms
    "two-round": "3",
    "wishart-difference": "3",
    "private-quantiles": "3",
    "randomized-response": "4",
    "change": "4",
    "indicator": "5",
    "number": "5",
    "asinh": "6",
    DISCOVERY: "7",
    MARGINS: "8",
}


def later_fields(version: FormatVersion) -> dict[str, Any]:
    """Return the fields of a release that manifests of this version do not have, as pydantic's `exclude` has them."""
    return _LATER_FIELDS[version]


def version_for(words: Iterable[str]) -> FormatVersion:
    """Return the version that a release with these words is written in: a later one than 5 only if it needs that."""
    return max([PLAIN_VERSION, *(_WORDS_SINCE.get(word, PLAIN_VERSION) for word in words)])


def software_with_code(name: str, digest: str) -> str:
    """Return what `software` states of a name with its version, and the digest of the code."""
    return f"{name} (code sha256:{digest})"


def split_software(software: str) -> tuple[str, str | None]:
    """Return the name and version that `software` states, and the digest of the code; the inverse of the above."""
    found = _CODE.fullmatch(software)
    return (found["name"], found["digest"]) if found is not None else (software, None)


def wording_of(version: FormatVersion, software: str) -> int:
    """Return the edition of the words in the bundle's own descriptions.

    1 is that of format versions 2 to 4. 2 is that of version 5 by the software that had it first, as its `software`
    says, and has the sentence on several cells. 3 is that of all later software.
    """
    if version < "5":
        return 1
    return 2 if (version, software) == ("5", _FIRST_SOFTWARE_OF_5) else 3


def check_further(version: FormatVersion, fields: Iterable[str]) -> None:
    """Refuse, by ValueError, further fields of a dataset in a version that has none."""
    for field in fields:
        if version in _WITHOUT_FURTHER:
            raise ValueError(f"{field} is no field of format version {version}")


def check_words(version: FormatVersion, words: Iterable[str]) -> None:
    """Refuse, by ValueError, words that came with a later version."""
    for word in words:
        if _WORDS_SINCE.get(word, "1") > version:
            raise ValueError(f"{word} is no word of format version {version}")
