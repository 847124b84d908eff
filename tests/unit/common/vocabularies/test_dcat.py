"""A release as DCAT: by the rules of DCAT-AP, with the facts of the manifest, and nothing that was not said."""

import json
from typing import Any

import pytest
from pyshacl import validate
from rdflib import Graph, Literal, Namespace, URIRef
from rdflib.namespace import DCAT, DCTERMS, RDF
from tests.unit.common.vocabularies.dcat_rules import shapes

from dp_bundle.catalog.making import catalog_document
from dp_bundle.catalog.pages import Listed
from dp_bundle.catalog.site import Withdrawal
from dp_bundle.catalog.vocabularies import describe_in
from dp_bundle.describe.subject import PublishedFile
from dp_bundle.manifest.dataset import Dataset
from dp_publish import Receipt

pytestmark = pytest.mark.filterwarnings("ignore:(ConjunctiveGraph|Dataset|default_)")  # rdflib, of its own classes
BASE = "https://portal.example/heights/"
SPDX = Namespace("http://spdx.org/rdf/terms#")


def _graph(document: dict[str, Any]) -> Graph:
    return Graph().parse(data=json.dumps(document), format="json-ld", base=BASE)


def _broken(graph: Graph) -> str:
    conforms, _, said = validate(graph, shacl_graph=shapes(), advanced=False)
    assert isinstance(said, str)
    return "" if conforms else said


def test_dataset_obeys_the_rules_of_dcat_ap(described: Receipt, files: list[PublishedFile]) -> None:
    """With everything said, and with nothing but a name, no rule is broken."""
    release = described.release
    assert _broken(_graph(describe_in("dcat", release, files))) == ""
    bare = release.model_copy(update={"dataset": Dataset(name="x")})
    assert _broken(_graph(describe_in("dcat", bare, files, address=f"{BASE}x"))) == ""


def test_dataset_states_the_manifest(described: Receipt, files: list[PublishedFile]) -> None:
    """Licence, creators, theme, language, digests and addresses are the manifest's and the files' own."""
    graph = _graph(describe_in("dcat", described.release, files))
    dataset = URIRef("https://doi.org/10.5281/zenodo.1234567")
    assert graph.value(dataset, RDF.type) == DCAT.Dataset
    assert URIRef("https://orcid.org/0000-0002-1825-0097") in set(graph.objects(dataset, DCTERMS.creator))
    eu = "http://publications.europa.eu/resource/authority"
    assert set(graph.objects(dataset, DCTERMS.language)) == {URIRef(f"{eu}/language/{code}") for code in ("ENG", "DEU")}
    assert str(described.release.guarantee.mu)[:2] in str(graph.value(dataset, DCTERMS.description))  # type: ignore[union-attr]

    found = {}
    for distribution in graph.objects(dataset, DCAT.distribution):
        assert graph.value(distribution, DCTERMS.license) == URIRef("https://spdx.org/licenses/CC-BY-4.0")
        digest = graph.value(graph.value(distribution, SPDX.checksum), SPDX.checksumValue)
        found[str(graph.value(distribution, DCAT.downloadURL))] = str(digest)
    assert {address: digest.lower() for address, digest in found.items()} == {BASE + f.path: f.sha256 for f in files}
    assert (dataset, DCAT.keyword, Literal("height")) in graph


def test_schema_org_states_the_manifest(described: Receipt, files: list[PublishedFile]) -> None:
    """Search engines are told name, licence, creators, coverage and where to download."""
    document = describe_in("schema.org", described.release, files, address=BASE)
    assert (document["@id"], document["url"]) == (BASE, BASE)
    assert document["identifier"] == "https://doi.org/10.5281/zenodo.1234567"
    assert document["license"] == "https://spdx.org/licenses/CC-BY-4.0"
    assert document["temporalCoverage"] == "2023-01-01/2023-12"
    assert [each["@type"] for each in document["creator"]] == ["Person", "Organization"]
    assert [each["sha256"] for each in document["distribution"]] == [file.sha256 for file in files]
    bare = described.release.model_copy(update={"dataset": Dataset(name="x")})
    assert not {"license", "creator", "url", "identifier"} & set(describe_in("schema.org", bare, files))


def test_catalog_of_a_site_obeys_the_rules_of_dcat_ap(described: Receipt, files: list[PublishedFile]) -> None:
    """The catalog of two releases, and of one that was withdrawn, breaks no rule, and would without its publisher."""
    facts = [
        {
            "about": {"title": "heights"},
            "number": index,
            "dcat": describe_in("dcat", described.release, files, address=f"{BASE}{index}"),
        }
        for index in range(2)
    ]
    told = {"title": "heights", "name": "heights", "signer": "x", "sha256": "0" * 64, "manifest_sha256": "1" * 64}
    place = {"number": 3, "created": "2026-01-01T00:00:00Z", "folder": "datasets/x", "page": "release-3.html"}
    gone = Withdrawal.model_validate({"when": "2026-02-01T00:00:00Z", "why": "A wrong unit.", **told, **place})
    listed = Listed([], facts, [], [gone], {gone.place: "datasets/x/release-4.html"})
    document = json.loads(catalog_document("Data", BASE, listed))
    assert _broken(_graph(document)) == ""
    assert len(set(_graph(document).objects(URIRef(BASE), DCAT.dataset))) == 3
    assert "publisher" in _broken(_graph({**document, "dct:publisher": []}))
