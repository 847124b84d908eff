"""Bundles of every format version so far, made by `make.py`, verify and read as on the day they were made."""

import json
from pathlib import Path

import numpy as np
import pytest

from dp_bundle import Bundle, open_bundle
from dp_bundle.base.errors import UntrustedKeyError
from dp_bundle.data.margins import middle_scores
from dp_bundle.trust.signing import PublicKey
from dp_bundle.trust.store import TrustStore
from dp_learn import estimate_moments, learn_graph
from dp_learn.covariance.sources import CovarianceSource, bundle_source

FOLDER = Path(__file__).parent
VERSIONS = sorted(
    path.stem.removeprefix("bundle-") for path in FOLDER.glob("bundle-v*.tar") if not path.stem.endswith("-covariance")
)
COVARIANCES = sorted(path.stem.removeprefix("bundle-") for path in FOLDER.glob("bundle-v?*-covariance.tar"))


def test_there_is_a_stored_bundle() -> None:
    """Every format version is among the stored ones, in all kinds."""
    rows = {f"{version}{kind}" for version in ("v4", "v5") for kind in ("", "-mixed", "-changes")}
    assert rows | {"v1", "v2", "v3", "v5-gaps", "v7-found"} <= set(VERSIONS)
    kinds = ("covariance", "eigenvectors-covariance")
    assert {f"{version}-{kind}" for version in ("v1", "v2", "v3", "v4", "v5") for kind in kinds} <= set(COVARIANCES)
    later = {
        f"{version}-{kind}"
        for version in ("v3", "v4", "v5")
        for kind in ("wishart-difference-covariance", "two-round-covariance")
    }
    assert later | {
        "v4-mixed-covariance",
        "v5-mixed-covariance",
        "v5-gaps-covariance",
        "v5-gaps-two-round-covariance",
        "v6-asinh-two-round-covariance",
        "v7-found-two-round-covariance",
        "v8-copula-two-round-covariance",
    } <= set(COVARIANCES)


def _trusted(version: str) -> Bundle:
    path = FOLDER / f"bundle-{version}.tar"
    with pytest.raises(UntrustedKeyError):
        open_bundle(path)
    TrustStore().add(PublicKey.from_pem((FOLDER / f"test-key-{version}.pub").read_bytes()), "test key")
    return open_bundle(path)


@pytest.mark.parametrize("version", VERSIONS)
def test_stored_bundle_verifies_and_reads_as_it_did(version: str) -> None:
    """A stored bundle is trusted by its key alone, and holds the numbers that were found when it was made."""
    expected = json.loads((FOLDER / f"expected-{version}.json").read_text())
    with _trusted(version) as bundle:
        moments = estimate_moments(bundle)
        learned = learn_graph(bundle, alpha=0.2)
        rho = bundle.release.guarantee.rho

    assert bundle.manifest_sha256 == expected["manifest_sha256"]
    assert moments.n_rows == expected["n_rows"]
    assert rho == expected["rho"]
    np.testing.assert_allclose(bundle.release.noise_variance, expected["noise_variance"], rtol=1e-12)
    np.testing.assert_allclose(moments.mean, expected["mean"], rtol=1e-12)
    np.testing.assert_allclose(moments.covariance, expected["covariance"], rtol=1e-9)
    assert learned.fit.solution.converged


@pytest.mark.parametrize("version", COVARIANCES)
def test_stored_covariance_bundle_verifies_and_reads_as_it_did(version: str) -> None:
    """A stored covariance bundle is trusted by its key alone, and holds the very matrix that it was made with."""
    expected = json.loads((FOLDER / f"expected-{version}.json").read_text())
    with _trusted(version) as bundle:
        matrix, release = bundle.second_moments(), bundle.release

    assert bundle.manifest_sha256 == expected["manifest_sha256"]
    assert matrix.tolist() == expected["matrix"]
    assert (release.n_rows, release.labels) == (expected["n_rows"], expected["labels"])
    assert release.guarantee.rho == expected["rho"]
    for name in ("diagonal_variance", "off_diagonal_variance"):
        if expected[name] is None:
            assert getattr(release.second_moments, name) is None
        else:
            assert getattr(release.second_moments, name) == pytest.approx(expected[name], rel=1e-12)


@pytest.mark.parametrize("version", [version for version in COVARIANCES if "two-round" in version])
def test_stored_rounds_are_combined_as_they_were(version: str) -> None:
    """A stored release of two rounds holds the very matrices that it was made with, and reads as it did."""
    expected = json.loads((FOLDER / f"expected-{version}.json").read_text())
    with _trusted(version) as bundle:
        source = bundle_source(bundle)
        assert bundle.first_round().tolist() == expected["first_round"]
        assert bundle.transform().tolist() == expected["transform"]
    assert isinstance(source, CovarianceSource)
    np.testing.assert_allclose(source.mean, expected["mean"], rtol=1e-9)
    deviations = np.sqrt(np.diagonal(expected["covariance"]))
    found, before = source.released.debiased, np.array(expected["covariance"])
    np.testing.assert_allclose(
        found / np.outer(deviations, deviations), before / np.outer(deviations, deviations), atol=1e-9
    )


@pytest.mark.parametrize("version", [version for version in COVARIANCES if "copula" in version])
def test_stored_histograms_are_read_as_they_were(version: str) -> None:
    """A stored release by normal scores holds the very counts that it was made with, and gives the same scores."""
    expected = json.loads((FOLDER / f"expected-{version}.json").read_text())["margins"]
    with _trusted(version) as bundle:
        margins, n_rows, sigma = bundle.margins(), bundle.release.n_rows, bundle.release.margins.sigma
    assert [margin.name for margin in margins] == [each["name"] for each in expected]
    for margin, before in zip(margins, expected, strict=True):
        assert (list(margin.labels), margin.has_gaps) == (before["labels"], before["has_gaps"])
        assert (margin.edges.tolist(), margin.counts.tolist()) == (before["edges"], before["counts"])
        shares = margin.shares(n_rows, sigma)
        np.testing.assert_allclose(shares, before["shares"], atol=1e-12)
        if before["scores"] is not None:
            np.testing.assert_allclose(middle_scores(shares[: margin.n_filled], n_rows), before["scores"], rtol=1e-9)
