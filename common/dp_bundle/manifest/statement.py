"""The signed payload: an in-toto Statement over all other members, whose predicate is the release.

It has one spelling: JSON with sorted keys and no spaces, every number and text as Python's json writes it, and every
field. So two readers cannot understand it differently, and the manifest's digest stands for what it says. Before it is
checked field by field its size, depth and number of entries are.

References
----------
in-toto Attestation Framework, Statement v1.
"""

from __future__ import annotations

import contextlib
import gc
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

from pydantic import ConfigDict, Field, ValidationError

from dp_bundle.base.errors import BundleFormatError, UnsupportedVersionError
from dp_bundle.base.quoting import escape, quote_name
from dp_bundle.manifest.base import FORMAT_VERSION, Digest, Model, Name
from dp_bundle.manifest.release import Release

MAX_PAYLOAD = 12 * 2**20  # bytes: 20,000 columns take 10 million
_MAX_SUBJECTS = 65_535
_MAX_MARKS = 700_000  # commas and opening brackets: more than the largest release has
_MAX_ENTRIES = 64  # of an object
_MAX_DEPTH = 8
_PREDICATE_TYPE: Literal["dpgraph:release/v8"] = "dpgraph:release/v8"


class Shape(NamedTuple):
    """The size of a release, as its manifest gives it before that was checked: what work with it takes."""

    kind: str
    n_columns: int


def shape_of(release: Release) -> Shape:
    """Return the shape of a release."""
    return Shape(release.kind, len(release.columns))


class Subject(Model):
    """A member and its digest."""

    name: Name
    digest: Annotated[dict[Literal["sha256"], Digest], Field(min_length=1)]


class Statement(Model):
    """The signed payload: an in-toto Statement over all other members, with the release as its predicate."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")] = (
        "https://in-toto.io/Statement/v1"
    )
    subject: Annotated[tuple[Subject, ...], Field(max_length=_MAX_SUBJECTS, fail_fast=True)]
    predicateType: Literal["dpgraph:release/v8"] = _PREDICATE_TYPE  # noqa: N815  in-toto's own spelling
    predicate: Release

    @classmethod
    def about(cls, release: Release, subjects: Sequence[Subject]) -> Statement:
        """Return the statement of a release over these members."""
        return cls.model_validate({"subject": tuple(subjects), "predicate": release})

    def to_bytes(self) -> bytes:
        """Return the statement as JSON: keys sorted, no spaces, every field."""
        return _spell(self.model_dump(mode="json", by_alias=True))

    @classmethod
    def from_bytes(cls, content: bytes, require_shape: Callable[[Shape], object] | None = None) -> Statement:
        """Read a statement; the inverse of `to_bytes`. Call it on verified bytes only.

        Parameters
        ----------
        content : bytes
            The JSON.
        require_shape : callable, optional
            Raises an error for a release that is too large to work with, before it is checked field by field.

        Raises
        ------
        UnsupportedVersionError
            It is a release in another format version.
        BundleFormatError
            It is not a release in its one spelling, or contradicts itself.
        """
        with _uncollected():
            return cls._read(content, require_shape)

    @classmethod
    def _read(cls, content: bytes, require_shape: Callable[[Shape], object] | None) -> Statement:
        document = _parse(content)
        try:
            version = str(document["predicate"]["format_version"])
        except (KeyError, TypeError) as error:
            raise BundleFormatError("the signed manifest does not describe a release") from error
        if version != FORMAT_VERSION:
            raise UnsupportedVersionError(quote_name(version), FORMAT_VERSION)
        if require_shape is not None and (shape := _stated_shape(document["predicate"])) is not None:
            require_shape(shape)
        del document  # as large as what it is read to
        try:
            statement = cls.model_validate_json(content)
        except ArithmeticError as error:
            raise BundleFormatError("the signed manifest is not sound: a number is too large to be meant") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(quote_name(str(part)) for part in first["loc"]) or "release"
            raise BundleFormatError(f"the signed manifest is not sound: {place}: {escape(first['msg'])}") from error
        if statement.to_bytes() != content:
            raise BundleFormatError("the signed manifest lacks fields, or spells a number in another way")
        return statement


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the signed payload.

    It is for portals, and for readers in other languages. A payload that fits it may still be refused: it does not say
    that all of a manifest's statements agree.
    """
    draft, own = "https://json-schema.org/draft/2020-12/schema", f"{_PREDICATE_TYPE}/schema"
    return {"$schema": draft, "$id": own, **Statement.model_json_schema(by_alias=True)}


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Turn the garbage collector off while many objects are made, none of them garbage; it would take a third more."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _parse(content: bytes) -> Any:
    """Return the JSON document, of bounded size."""
    marks = content.count(b",") + content.count(b"[") + content.count(b"{")
    if len(content) > MAX_PAYLOAD or marks > _MAX_MARKS:
        raise BundleFormatError("the signed manifest is larger than that of any release")
    try:
        document = json.loads(content, parse_constant=_refuse)
        _require_small(document)
    except (ValueError, RecursionError) as error:
        raise BundleFormatError("the signed manifest is not sound: it is not the JSON of a release") from error
    return document


def _stated_shape(predicate: dict[str, Any]) -> Shape | None:
    """Return the shape that a release states, or None where it is no release, as is said of it later."""
    kind, columns = predicate.get("kind", "rows"), predicate.get("columns")
    return Shape(kind, len(columns)) if isinstance(kind, str) and isinstance(columns, list) else None


def _spell(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _require_small(document: Any) -> None:
    """Refuse, by ValueError, objects with more entries, or deeper ones, than any release has."""
    level: list[Any] = [document] if isinstance(document, dict) else []
    for _ in range(_MAX_DEPTH):
        if any(len(each) > (_MAX_ENTRIES if isinstance(each, dict) else _MAX_SUBJECTS) for each in level):
            raise ValueError("an object or a list has too many entries")
        inside = [each.values() if isinstance(each, dict) else each for each in level]
        level = [one for each in inside for one in each if isinstance(one, (dict, list))]
        if not level:
            return
    raise ValueError("it is too deep")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
