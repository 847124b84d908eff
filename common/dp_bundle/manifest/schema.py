"""The manifest's JSON Schema, for portals and for readers in other languages.

References
----------
JSON Schema, draft 2020-12.
"""

from __future__ import annotations

from typing import Any

from dp_bundle.manifest.base import FORMAT_VERSION
from dp_bundle.manifest.statement import Statement

SCHEMA_ID = f"dpgraph:release/v{FORMAT_VERSION}/schema"


def manifest_schema() -> dict[str, Any]:
    """Return the schema of the signed payload, of this format version and all before it.

    A payload that fits it may still be refused: it does not say that all of a manifest's statements agree.
    """
    schema = Statement.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}
