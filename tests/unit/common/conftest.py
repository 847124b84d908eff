"""One release with everything that a policy can say of a dataset, for all tests of descriptors."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dp_bundle import Bundle, open_bundle
from dp_bundle.bundle.packing import minisig_path, minisign_bundle, write_minisig
from dp_bundle.describe.subject import PARQUET, TAR, PublishedFile
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.signing import load_private_key
from dp_bundle.trust.store import new_key_pair, private_key_path
from dp_publish import Policy, Receipt, publish

DATASET: dict[str, Any] = {
    "name": "heights",
    "title": "Größe und Gewicht 身高",
    "description": "Heights and weights that a computer drew.",
    "license": "CC-BY-4.0",
    "contact": "data@example.org",
    "url": "https://example.org/heights",
    "citation": "Author (2026), heights.",
    "creators": [
        {"name": "First Author", "orcid": "0000-0002-1825-0097", "affiliation": "University of Examples"},
        {"name": "Office of Examples"},
    ],
    "publisher": "Office of Examples",
    "doi": "10.5281/zenodo.1234567",
    "keywords": ["height", "weight"],
    "themes": ["HEAL", "SOCI"],
    "languages": ["en", "de"],
    "temporal": {"start": "2023-01-01", "end": "2023-12"},
    "spatial": ["Vienna", "http://publications.europa.eu/resource/authority/country/AUT"],
    "related": [
        {"relation": "IsDerivedFrom", "identifier": "10.1000/182"},
        {"relation": "IsDocumentedBy", "identifier": "https://example.org/method"},
        {"relation": "IsSupplementTo", "identifier": "https://example.org/paper"},
    ],
}
COLUMNS = {
    "height": {"bounds": [120, 220], "unit": "cm", "description": "without shoes"},
    "visits": {"bounds": [0, 30], "kind": "integer"},
}


@pytest.fixture(scope="session")
def stored() -> Iterator[Callable[[str], Bundle]]:
    """Return what opens a stored release by its kind."""
    with ExitStack() as opened:
        golden = Path(__file__).parents[2] / "golden"
        yield lambda kind: opened.enter_context(open_bundle(golden / f"bundle-{kind}.tar", UnsafeTrustAnyone()))


@pytest.fixture(scope="session")
def of_scores(stored: Callable[[str], Bundle]) -> Bundle:
    """Return the stored release by normal scores."""
    return stored("copula")


@pytest.fixture(scope="session")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receipt]:
    """Publish a small table under a policy that says everything of its dataset."""
    yield from _published(tmp_path_factory.mktemp("described"), {"mu": 5.0})


@pytest.fixture(scope="session")
def moments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receipt]:
    """Publish the second moments of the same table in two rounds."""
    yield from _published(tmp_path_factory.mktemp("moments"), {"mu": 5.0, "release": "covariance"})


def _published(folder: Path, privacy: dict[str, Any]) -> Iterator[Receipt]:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"height": rng.normal(170, 10, 300), "visits": rng.poisson(4, 300)})
    policy = Policy.model_validate({"dataset": DATASET, "privacy": privacy, "columns": COLUMNS})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPGRAPH_HOME", str(folder / "home"))
        new_key_pair()
        key = load_private_key(private_key_path())
        receipt = publish(table, policy, out=folder / "heights.bundle.tar", key=key)
        with open_bundle(receipt.path) as bundle:
            write_minisig(minisig_path(receipt.path), minisign_bundle(bundle, key))
    yield receipt


@pytest.fixture(scope="session")
def files(described: Receipt) -> list[PublishedFile]:
    """Return the tar, and one Parquet file beside it."""
    digest = hashlib.sha256(described.path.read_bytes()).hexdigest()
    tar = PublishedFile(described.path.name, described.path.stat().st_size, digest, TAR)
    return [tar, PublishedFile("data/part-00000.parquet", 12, "ab" * 32, PARQUET)]
