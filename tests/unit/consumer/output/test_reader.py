"""What dp_bundle is told of a release: correlations that others find, and errors as large as they are."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy

from dp_bundle import open_bundle
from dp_bundle.data.learned import Correlations, require_reader
from dp_learn import learn_graph
from dp_learn.output import reader
from dp_learn.pipeline import learn
from dp_publish import publish

R = np.array([[1.0, 0.7, 0.0, -0.3], [0.7, 1.0, 0.2, 0.0], [0.0, 0.2, 1.0, 0.0], [-0.3, 0.0, 0.0, 1.0]])
NAMES = ["a", "b", "c", "d"]
PAIRS = np.triu_indices(4, 1)
BOUNDS = {name: [-6.0, 6.0] for name in NAMES}


def draw(n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return Gaussian rows with these correlations."""
    return pd.DataFrame(rng.multivariate_normal(np.zeros(4), R, size=n_rows), columns=NAMES)


def read(path: Path) -> Correlations:
    """Return what is told of a bundle."""
    with open_bundle(path) as bundle:
        return bundle.correlations()


def test_the_reader_is_found_where_the_distribution_is_installed() -> None:
    """The entry point that the distribution declares leads to the module."""
    assert require_reader() is reader


def test_a_network_is_that_of_dp_learn_and_no_node_is_measured(
    tmp_path: Path, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links and intervals are those of the whole result, without what takes longest; a linked node has a place.

    Those of columns that nearly determine each other come after what is sure, whatever their evidence.
    """
    rng = np.random.default_rng(2)
    rows, e, more = draw(1500, rng), *rng.normal(size=(2, 1500))
    rows = rows.assign(b=rows["a"] + rows["c"] + 0.1 * more, e=e, f=e + rng.normal(size=1500))
    policy = make_policy({name: [-4.0, 4.0] for name in rows}, unit="row", mu=1.0, release="covariance")
    receipt = publish(rows, policy, out=tmp_path / "t.tar", key=key)
    with open_bundle(receipt.path) as bundle:
        edges = learn_graph(bundle).estimate.edges()
        unsure = edges.q_value > 0.05
        edges = edges.loc[unsure.sort_values(kind="stable").index]
        monkeypatch.delattr(learn, "measure_nodes")
        found = reader.network(bundle)
    ends = [(found.nodes[link.source], found.nodes[link.target]) for link in found.links]
    assert ends == [*zip(edges.source, edges.target, strict=True)]
    assert unsure[0] > unsure.min()
    assert [link.low for link in found.links] == edges.ci_low.to_list()
    linked = {place for link in found.links for place in link[:2]}
    assert [place is not None for place in found.places] == [node in linked for node in range(len(found.nodes))]


def test_errors_of_rows_are_those_of_leaving_out_one_row_at_a_time(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Correlations are those of the noisy rows less the noise's variance, and errors agree with the jackknife's."""
    policy = make_policy(BOUNDS, unit="cell", mu=12.0)
    receipt = publish(draw(1500, np.random.default_rng(1)), policy, out=tmp_path / "t.tar", key=key)
    found = read(receipt.path)
    with open_bundle(receipt.path) as bundle:
        rows = bundle.to_pandas().to_numpy()
        noise = [column.cell_noise.variance for column in bundle.release.columns]

    def correlations(kept: np.ndarray) -> np.ndarray:
        covariance = np.cov(kept.T) - np.diag(noise)
        scale = np.sqrt(np.diagonal(covariance))
        return (covariance / np.outer(scale, scale))[PAIRS]

    n = len(rows)
    left = np.array([correlations(np.delete(rows, row, axis=0)) for row in range(n)])
    jackknife = np.sqrt((n - 1) * left.var(axis=0))
    np.testing.assert_allclose(found.values[PAIRS], correlations(rows), atol=1e-12)
    np.testing.assert_allclose(found.standard_errors[PAIRS], jackknife, rtol=0.06)
    assert np.diagonal(found.standard_errors).tolist() == [0.0] * 4
    assert found.effective_rows is not None
    assert 300 < found.effective_rows < n
