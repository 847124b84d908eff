"""Fields that this reader does not know: kept in the dataset's description, refused everywhere else; and the schema."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run
from tests.tamper.archives import members_of, write
from tests.unit.common.manifest.statements import GOLDEN, payload, spell

from dp_bundle.bundle.writing import MANIFEST_NAME
from dp_bundle.manifest.release import Statement, manifest_schema
from dp_bundle.trust.signing import sign_envelope

FURTHER = {"keywords": ["wine", "chemistry"], "spatial": {"uri": "é", "box": [1, 2.5, -0.0]}, "peer_reviewed": True}


def _statement() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(payload("bundle-rows.tar"))
    return document


def test_bundle_with_further_fields_is_read_and_shows_them(tmp_path: Path, command: Run) -> None:
    """Such a bundle verifies, its descriptions compared as ever, and inspect prints the fields as quotations."""
    document = _statement()
    document["predicate"]["dataset"] |= FURTHER
    content = spell(document)
    assert Statement.from_bytes(content).predicate.dataset.further == FURTHER
    envelope = sign_envelope(content, Ed25519PrivateKey.generate()).to_bytes()
    path = write(tmp_path / "a.tar", {**members_of(GOLDEN / "bundle-rows.tar"), MANIFEST_NAME: envelope})
    printed = json.loads(command("dp-bundle", "inspect", path, "--json").stdout)
    assert printed["release"]["dataset"]["spatial"] == FURTHER["spatial"]


@pytest.fixture(scope="module")
def validator() -> Any:
    """Return what checks documents by the JSON Schema, which is one itself."""
    from jsonschema import Draft202012Validator  # which takes a second

    schema = manifest_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("bundle-*.tar")), ids=lambda path: path.stem)
def test_stored_manifests_fit_the_schema(path: Path, validator: Any) -> None:
    """Every stored manifest fits the JSON Schema, which refuses it with a field too many or one of another type."""
    document = json.loads(payload(path.name))
    assert list(validator.iter_errors(document)) == []
    document["predicate"]["dataset"]["remark"] = 1
    assert validator.is_valid(document)
    for changed in ({"remark": 1}, {"n_rows": "many"}):
        assert not validator.is_valid({**document, "predicate": document["predicate"] | changed})


def test_schema_is_the_stored_one() -> None:
    """The schema beside the format's page is the one that the command prints, under its own identifier."""
    stored = json.loads((GOLDEN.parents[1] / "docs" / "manifest-v8.schema.json").read_text())
    assert stored == manifest_schema()
    assert stored["$id"] == "dpgraph:release/v8/schema"
