"""Manifests of older versions: spelled as they were, and refused with what came later."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from dp_bundle import open_bundle
from dp_bundle.base.errors import BundleFormatError
from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.manifest.statement import Statement
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import Envelope, verify_envelope

GOLDEN = Path(__file__).parents[3] / "golden"
OLD = sorted(path.name for version in ("v1", "v2") for path in GOLDEN.glob(f"bundle-{version}*.tar"))


def payload(name: str) -> bytes:
    """Return the signed manifest of a stored bundle."""
    with open_bundle(GOLDEN / name, UnsafeTrustAnyone()) as bundle:
        member = bundle.members[MANIFEST_NAME]
    whole = (GOLDEN / name).read_bytes()
    return verify_envelope(Envelope.from_bytes(whole[member.offset : member.offset + member.size]))


def spell(document: dict[str, Any]) -> bytes:
    """Return a document in its one spelling."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("name", [name for name in OLD if "v2" in name])
def test_a_manifest_of_version_2_is_spelled_as_it_was(name: str) -> None:
    """A statement of version 2 is written byte for byte as its publisher wrote it, without any later field."""
    content = payload(name)
    assert Statement.from_bytes(content).to_bytes() == content


@pytest.mark.parametrize("name", OLD)
def test_later_fields_are_refused_in_older_manifests(name: str) -> None:
    """A field of version 3 is refused in an older manifest, even where it says nothing."""
    document = json.loads(payload(name))
    assert spell(document) == payload(name)
    later = [
        (("columns", 0), "standards", []),
        (("columns", 1), "standard_obtained", None),
        (("second_moments",), "first_round", None),
        (("second_moments",), "column_clip", None),
        (("second_moments",), "fourth_moment", None),
    ]
    for place, field, value in later:
        changed = copy.deepcopy(document)
        inner = changed["predicate"]
        for step in place:
            inner = inner.get(step) if isinstance(inner, dict) else inner[step]
        if inner is not None:
            inner[field] = value
            with pytest.raises(BundleFormatError, match="later ones"):
                Statement.from_bytes(spell(changed))


def test_the_type_of_a_statement_is_that_of_its_version() -> None:
    """A manifest of version 2 under the name of version 3, or the other way round, is refused."""
    document = json.loads(payload("bundle-v2.tar"))
    for version, kind in (("2", "v3"), ("3", "v2")):
        document["predicate"]["format_version"], document["predicateType"] = version, f"dpgraph:release/{kind}"
        with pytest.raises(BundleFormatError, match="not that of its format version"):
            Statement.from_bytes(spell(document))


def test_a_later_mechanism_is_refused_in_older_manifests() -> None:
    """The difference of two Wishart matrices came with version 3, and is refused under the name of version 2."""
    document = json.loads(payload("bundle-v3-wishart-difference-covariance.tar"))
    predicate = document["predicate"]
    for column in predicate["columns"]:
        del column["standards"], column["standard_obtained"]
    for field in ("first_round", "column_clip", "fourth_moment"):
        del predicate["second_moments"][field]
    predicate["format_version"], document["predicateType"] = "2", "dpgraph:release/v2"
    with pytest.raises(BundleFormatError, match="wishart-difference is no word of format version 2"):
        Statement.from_bytes(spell(document))


def test_later_words_are_refused_in_older_manifests() -> None:
    """Bounds found by quantiles, which came with version 3, are refused in a manifest of version 2."""
    document = json.loads(payload("bundle-v2.tar"))
    document["predicate"]["columns"][0]["bounds_obtained"] = "private-quantiles"
    with pytest.raises(BundleFormatError, match="private-quantiles is no word of format version 2"):
        Statement.from_bytes(spell(document))
