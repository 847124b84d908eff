"""A release in the vocabularies of DataCite and repositories."""

import json
import re
from pathlib import PurePosixPath
from typing import Any

import pytest
from datacite import schema45
from huggingface_hub import DatasetCard
from pyDataverse.models import Dataset as DataverseDataset

from dp_bundle.catalog.vocabularies import dataverse_dataset, describe_in, hugging_face_card
from dp_bundle.describe.subject import PARQUET, PublishedFile, Subject
from dp_bundle.manifest.dataset import Dataset
from dp_bundle.manifest.release import Release
from dp_publish import Receipt

SIGNER = "ed25519:" + "ab" * 32


@pytest.fixture
def bare(described: Receipt) -> Release:
    """Return the release as if nothing but a name were said of its dataset."""
    return described.release.model_copy(update={"dataset": Dataset(name="x")})


def test_datacite_obeys_its_schema(described: Receipt, bare: Release, files: list[PublishedFile]) -> None:
    """DataCite's schema 4.5 finds no mistake, and the facts are the manifest's."""
    document = describe_in("datacite", described.release, files)
    schema45.validator.validate(document)
    schema45.validator.validate(describe_in("datacite", bare, files))
    assert document["doi"] == "10.5281/zenodo.1234567"
    known = document["creators"][0]["nameIdentifiers"][0]["nameIdentifier"]
    assert (document["creators"][0]["name"], known) == ("First Author", "https://orcid.org/0000-0002-1825-0097")
    assert document["rightsList"][0]["rightsIdentifier"] == "CC-BY-4.0"
    assert {each["relationType"] for each in document["relatedIdentifiers"]} == {
        "IsDerivedFrom",
        "IsDocumentedBy",
        "IsSupplementTo",
    }
    assert describe_in("datacite", bare, files)["creators"] == [{"name": "(:unav)"}]


def test_hugging_face_reads_the_card(described: Receipt, bare: Release, files: list[PublishedFile]) -> None:
    """The hub's own library reads licence, label and tables from the front matter; the tar is no table."""
    card = DatasetCard(hugging_face_card(described.release, files, SIGNER))
    data: dict[str, Any] = card.data.to_dict()
    assert (data["license"], data["language"], data["pretty_name"]) == (
        "cc-by-4.0",
        ["en", "de"],
        "Größe und Gewicht 身高",
    )
    label = data["differential_privacy"]
    assert (label["unit"], label["signer"]) == ("row", SIGNER)
    tables = data["configs"][0]["data_files"][0]["path"]
    assert [PurePosixPath(file.path).match(tables) for file in files] == [False, True]
    assert f"dp-bundle verify {files[0].path}" in card.text
    assert DatasetCard(hugging_face_card(bare, files, SIGNER)).data.to_dict()["license"] == "unknown"
    words = bare.model_copy(update={"dataset": Dataset(name="x", license="ask us")})
    assert DatasetCard(hugging_face_card(words, files, SIGNER)).data.to_dict()["license_name"] == "ask us"


def test_dataverse_is_read_by_its_library(described: Receipt, bare: Release) -> None:
    """The library of Dataverse validates the JSON and finds title, authors and subjects in it."""
    for release in (described.release, bare):
        text = json.dumps(dataverse_dataset(release))
        dataset = DataverseDataset()
        dataset.from_json(text, validate=True)
        assert dataset.get()["title"] == (release.dataset.title or "x")
    dataset = DataverseDataset()
    dataset.from_json(json.dumps(dataverse_dataset(described.release)))
    assert dataset.validate_json()
    read = dataset.get()
    assert [each["authorName"] for each in read["author"]] == ["First Author", "Office of Examples"]
    assert read["subject"] == ["Medicine, Health and Life Sciences", "Social Sciences"]


def test_ckan_dictionary_obeys_its_validators(described: Receipt, bare: Release, files: list[PublishedFile]) -> None:
    """Names and tags are those that CKAN's validators let pass, and each file is a resource with its digest."""
    for release in (described.release, bare):
        package = describe_in("ckan", release, files, signer=SIGNER)
        assert re.fullmatch(r"[a-z0-9_-]{2,100}", package["name"])
        assert all(re.fullmatch(r"[\w .-]{2,100}", tag["name"]) for tag in package.get("tags", []))
        assert [each["hash"] for each in package["resources"]] == [f"sha256:{file.sha256}" for file in files]
        assert len({each["key"] for each in package["extras"]}) == len(package["extras"])
    assert describe_in("ckan", described.release, files, signer=SIGNER)["license_id"] == "cc-by"


def test_invenio_is_told_who_when_and_how(described: Receipt) -> None:
    """A record names creators with their iDs, related works, and the noise, and no text of a stranger acts."""
    record = describe_in("zenodo", described.release)["metadata"]
    who = [each["person_or_org"] for each in record["creators"]]
    assert (who[0]["family_name"], who[1]["type"]) == ("Author", "organizational")
    facts = "".join(f"<li>{fact}</li>" for fact in Subject(described.release).noise)
    assert f"By column:</p><ul>{facts}</ul>" in record["additional_descriptions"][0]["description"]
    assert record["related_identifiers"][0] == {
        "identifier": "10.1000/182",
        "scheme": "doi",
        "relation_type": {"id": "isderivedfrom"},
    }
    active = described.release.model_copy(
        update={"dataset": Dataset(name="x", description="<script>alert(1)</script>")}
    )
    assert "<script>" not in json.dumps(describe_in("zenodo", active))


def test_frictionless_and_croissant_say_more_than_in_the_bundle(described: Receipt, files: list[PublishedFile]) -> None:
    """Beside the tar they have creators, keywords and the licence's address, and noise in the RAI fields."""
    package = describe_in("frictionless", described.release, files)
    assert package["licenses"] == [{"name": "CC-BY-4.0", "path": "https://spdx.org/licenses/CC-BY-4.0"}]
    assert [each["title"] for each in package["contributors"] if each["roles"] == ["creator"]] == [
        "First Author",
        "Office of Examples",
    ]
    croissant = describe_in("croissant", described.release, files)
    assert croissant["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert "sigma" in croissant["rai:dataManipulationProtocol"]
    assert "Replacing one row" in croissant["rai:personalSensitiveInformation"]
    assert [file["@id"] for file in croissant["distribution"][:2]] == [file.path for file in files]
    assert {file.media_type for file in files[1:]} == {PARQUET}
