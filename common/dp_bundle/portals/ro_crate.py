"""A release as an RO-Crate: a folder of files with `ro-crate-metadata.json`, which research repositories read.

References
----------
RO-Crate Metadata Specification 1.1 (researchobject.org/ro-crate/1.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dp_bundle.describe.subject import PublishedFile, details, file_address, licence_address, noise, without_gaps
from dp_bundle.manifest.release import Release
from dp_bundle.portals.schema_org import schema_org_document

_ENTITIES = ("creator", "publisher", "variableMeasured", "contactPoint")
_LEFT_OUT = (
    "@context",
    "@id",
    "@type",
    "distribution",
    "measurementTechnique",
    "isAccessibleForFree",
    "license",
    "isBasedOn",
)


def ro_crate_document(
    release: Release, files: Sequence[PublishedFile], signatures: Sequence[PublishedFile] = ()
) -> dict[str, Any]:
    """Return the metadata of a folder that holds these files, and signatures of them, at these paths."""
    described, entities = schema_org_document(release, files), []
    root = {name: value for name, value in described.items() if name not in _LEFT_OUT}
    for name in _ENTITIES:
        if name in root:
            several = root[name] if isinstance(root[name], list) else [root[name]]
            flat = [part for index, each in enumerate(several) for part in _flatten(each, f"#{name}-{index + 1}")]
            entities += flat
            root[name] = [{"@id": each["@id"]} for each in flat if "_inner" not in each]
    if licence_address(release.dataset):
        entities.append(
            {"@id": licence_address(release.dataset), "@type": "CreativeWork", "name": release.dataset.license}
        )
        root["license"] = {"@id": licence_address(release.dataset)}
    elif release.dataset.license:
        root["license"] = release.dataset.license
    root["author"] = root.pop("creator", None)
    root["isBasedOn"] = [{"@id": address} for address in described.get("isBasedOn", [])]

    software = {
        "@id": "#software",
        "@type": "SoftwareApplication",
        "name": "dpgraph",
        "softwareVersion": release.software,
        **without_gaps({"url": details(release).software_url}),
    }
    made = {
        "@id": "#noise",
        "@type": "CreateAction",
        "name": "Addition of noise",
        "description": " ".join(noise(release)),
        "endTime": release.lineage.created,
        "instrument": {"@id": "#software"},
        "result": [{"@id": file_address(file)} for file in files],
    }
    parts = [_file(file) for file in (*files, *signatures)]
    whole = {
        "@id": "./",
        "@type": "Dataset",
        **root,
        "hasPart": [{"@id": part["@id"]} for part in parts],
        "mentions": {"@id": "#noise"},
    }
    descriptor = {
        "@id": "ro-crate-metadata.json",
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
    }
    for entity in entities:
        entity.pop("_inner", None)
    graph = [descriptor, without_gaps(whole), *entities, *parts, made, software]
    return {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}


def _flatten(entity: dict[str, Any], known: str) -> list[dict[str, Any]]:
    """Return an entity, which refers to those inside it, and these behind it, marked as inner."""
    flat: dict[str, Any] = {"@id": known, **entity}
    inner = []
    for name, value in entity.items():
        if isinstance(value, dict):
            inner.append({"@id": f"{known}-{name}", **value, "_inner": True})
            flat[name] = {"@id": inner[-1]["@id"]}
    return [flat, *inner]


def _file(file: PublishedFile) -> dict[str, Any]:
    return {
        "@id": file_address(file),
        "@type": "File",
        "name": file.path.rpartition("/")[2],
        "contentSize": str(file.size),
        "encodingFormat": file.media_type,
        "sha256": file.sha256,
    }
