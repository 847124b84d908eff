"""A covariance release from the table to the graph, alone and beside rows."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run

from dp_bundle import open_bundle
from dp_bundle.bundle.writing import write_bundle
from dp_learn import DebiasedGraphicalLasso, learn_graph
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import bundle_source
from dp_learn.covariance.standard_errors import mechanism_errors
from dp_publish import Policy, publish

NAMES = [f"v{index}" for index in range(6)]
EDGES = {(f"v{index}", f"v{index + 1}") for index in range(5)}
N_ROWS = 20_000
MECHANISMS = {
    "gaussian": {"mu": 2.0},
    "two-round": {"mu": 2.0},
    "laplace": {"epsilon": 8.0},
    "wishart-difference": {"epsilon": 8.0},
    "wishart": {"epsilon": 4.0, "delta": 1e-6},
    "sulq": {"epsilon": 8.0, "delta": 1e-6},
    "eigenvectors": {"epsilon": 30.0},
    "kapralov-talwar": {"epsilon": 30.0},
}


@pytest.fixture
def table() -> pd.DataFrame:
    """Return a chain of six columns whose means are not in the middle of their bounds."""
    rng = np.random.default_rng(3)
    precision = np.eye(6) + np.diag(np.full(5, 0.45), 1) + np.diag(np.full(5, 0.45), -1)
    rows = rng.multivariate_normal(np.full(6, 0.7), np.linalg.inv(precision), size=N_ROWS)
    return pd.DataFrame(np.clip(rows, -5, 5), columns=NAMES)


def policy_for(name: str = "chain", **privacy: object) -> Policy:
    """Return a policy with bounds of -5 and 5."""
    columns = {column: {"bounds": [-5, 5]} for column in NAMES}
    return Policy.model_validate({"dataset": {"name": name}, "privacy": privacy, "columns": columns})


@pytest.mark.parametrize(
    ("mechanism", "neighbours"),
    [
        (mechanism, neighbours)
        for mechanism in MECHANISMS
        for neighbours in ("replace-one", "add-remove")
        if (mechanism, neighbours) != ("two-round", "add-remove")  # which it does not take
    ],
)
def test_every_mechanism_is_published_and_read(
    mechanism: str, neighbours: str, tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey
) -> None:
    """What is read back is the table's mean and covariance, within what the mechanism's noise explains."""
    privacy = {"unit": "row", "release": "covariance", "mechanism": mechanism, "neighbours": neighbours}
    policy = policy_for(**privacy, **MECHANISMS[mechanism])
    path = publish(table, policy, out=tmp_path / "chain.tar", key=key).path
    with open_bundle(path) as bundle:
        sample = Sample([bundle_source(bundle)])
        learned = learn_graph(bundle, alpha=0.25)

    assert abs(sample.pooled.sources[0].n_rows - N_ROWS) <= (0 if neighbours == "replace-one" else 400)
    np.testing.assert_allclose(sample.location, table.mean(), atol=0.3)
    np.testing.assert_allclose(sample.pooled.covariance, table.cov(), atol=0.6)
    edges = {(row.source, row.target) for row in learned.estimate.edges().itertuples()}
    assert edges >= EDGES
    entrywise = mechanism not in {"eigenvectors", "kapralov-talwar"}
    assert (learned.estimate.inference is not None) == entrywise
    if not entrywise:
        assert "distribution of a release's errors is not known" in learned.notes[0]


@pytest.mark.parametrize("mechanism", ["eigenvectors", "kapralov-talwar"])
def test_alpha_is_chosen_from_estimated_errors(
    mechanism: str, tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey, command: Run
) -> None:
    """Where the noise does not act entry by entry, dp-learn chooses alpha all the same, and refuses to test."""
    policy = policy_for(unit="row", release="covariance", mechanism=mechanism, epsilon=500.0)
    stated = publish(table, policy, out=tmp_path / "chain.tar", key=key).release.second_moments
    graph = command("dp-learn", "chain.tar", "--json")
    tested = command("dp-learn", "chain.tar", "--fdr", "0.05", "--out", "tested")

    assert stated is not None
    assert stated.estimated_off_diagonal_error is not None
    assert graph.returncode == 0, graph.stderr
    edges = pd.read_csv(tmp_path / "chain.graph" / "edges.csv")
    assert {*zip(edges["source"], edges["target"], strict=True)} == EDGES
    assert tested.returncode == 4
    assert "distribution of a release's errors is not known" in tested.stderr


@pytest.mark.slow
def test_errors_are_those_of_many_releases(tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey) -> None:
    """Over 60 releases the covariance varies as stated, and is right on average."""
    policy = policy_for(unit="row", release="covariance", mechanism="gaussian", mu=0.3)
    found = []
    for index in range(60):
        path = publish(table, policy, out=tmp_path / f"{index}.tar", key=key).path
        with open_bundle(path) as bundle:
            sample = Sample([bundle_source(bundle)])
            found.append(sample.pooled.covariance)
    stated = np.sqrt(mechanism_errors(sample.pooled, np.eye(6)).products)
    seen = np.std(found, axis=0, ddof=1)

    assert np.abs(np.mean(found, axis=0) - table.cov().to_numpy()).max() < 5 * (stated / np.sqrt(60)).max()
    assert np.median(seen / stated) == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["gaussian", "two-round"])
def test_commands_take_it_like_rows_and_pool_both(
    mechanism: str, tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey, command: Run
) -> None:
    """dp-learn takes a covariance bundle like rows, finds the chain, and pools it with rows of the same table."""
    covariance = policy_for(unit="row", release="covariance", mechanism=mechanism, mu=1.0)
    rows = policy_for(unit="row", mu=5.0)
    publish(table, rows, out=tmp_path / "rows.tar", key=key)
    publish(table, covariance, out=tmp_path / "moments.tar", key=key)
    alone = command("dp-learn", "moments.tar", "--fdr", "0.05", "--json")
    both = command("dp-learn", "rows.tar", "moments.tar", "--out", "both", "--json")
    folds = command("dp-learn", "moments.tar", "--select", "cv", "--out", "folds")
    mixed = command("dp-learn", "rows.tar", "moments.tar", "--select", "stars", "--out", "mixed")

    assert alone.returncode == 0, alone.stderr
    found = pd.read_csv(tmp_path / "moments.graph" / "edges.csv")
    assert {(row.source, row.target) for row in found.itertuples()} >= EDGES
    pooled = json.loads(both.stdout)
    assert pooled["same_rows"]
    assert [bundle["kind"] for bundle in pooled["bundles"]] == ["rows", "covariance"]
    assert pooled["bundles"][1]["weight"] > 0.9  # the covariance is far more accurate
    assert pooled["n_rows"] == N_ROWS
    assert folds.returncode == 0, folds.stderr  # drawn from the known errors
    assert mixed.returncode == 4
    assert "rows are pooled with a covariance release" in mixed.stderr
    assert command("dp-learn", "moments.tar", "--estimator", "ridge", "--out", "ridge").returncode == 0


def test_a_matrix_that_contradicts_its_manifest_is_reported(
    tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey, command: Run
) -> None:
    """A well-signed bundle with a sum of squares above the number of its rows is learned from, with a warning."""
    policy = policy_for(unit="row", release="covariance", mechanism="gaussian", mu=1.0)
    path = publish(table, policy, out=tmp_path / "m.tar", key=key).path
    assert command("dp-learn", path).stderr == ""
    with open_bundle(path) as bundle, tarfile.open(path) as archive:
        lineage = bundle.release.lineage.model_copy(update={"number": 2})
        release = bundle.release.model_copy(update={"lineage": lineage})
        member = archive.extractfile("data/covariance.parquet")
        assert member is not None
        entries = pq.read_table(io.BytesIO(member.read()))
    values = entries.column("value").to_numpy().copy()
    step = release.second_moments.granularity
    values[0] = step * np.ceil(3 * N_ROWS / step)  # the first on the diagonal
    changed = io.BytesIO()
    entries = entries.set_column(2, entries.field(2), pa.array(values))
    pq.write_table(entries, changed, use_dictionary=["row", "column"], store_schema=False, write_statistics=False)
    with (tmp_path / "altered.tar").open("wb") as file:
        write_bundle(file, release, [changed], key)
    learned = command("dp-learn", "altered.tar", "--alpha", "0.3")

    assert learned.returncode == 0, learned.stderr
    assert "warning: altered.tar contradicts its manifest: sums over the rows with v0 are beyond" in learned.stderr
    assert json.loads((tmp_path / "altered.graph" / "summary.json").read_text())["contradictions"]


def test_estimators_fit_a_covariance_bundle(tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey) -> None:
    """The scikit-learn estimator takes the bundle, and scores it."""
    path = publish(table, policy_for(unit="row", release="covariance", mu=1.0), out=tmp_path / "m.tar", key=key).path
    with open_bundle(path) as bundle:
        fitted = DebiasedGraphicalLasso(0.2).fit(bundle)
        score = fitted.score(bundle)

    assert {(row.source, row.target) for row in fitted.edges_.itertuples()} >= EDGES
    assert score == pytest.approx(DebiasedGraphicalLasso(0.2).fit(table).score(table), abs=0.1)


def test_discriminants_of_a_labelled_bundle(tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> None:
    """Classes that differ in one column are told apart by that column."""
    rng = np.random.default_rng(4)
    label = rng.integers(0, 2, N_ROWS)
    rows = rng.normal(size=(N_ROWS, 6)) + 1.5 * label[:, None] * (np.arange(6) == 2)
    table = pd.DataFrame(np.clip(rows, -5, 5), columns=NAMES).assign(label=label)
    policy = policy_for(name="labelled", unit="row", release="covariance", mu=2.0)
    columns = {**policy.model_dump(exclude_defaults=True)["columns"], "label": {"bounds": [0, 1]}}
    policy = Policy.model_validate({**policy.model_dump(exclude_defaults=True), "columns": columns})
    publish(table, policy, out=tmp_path / "labelled.tar", key=key)
    learned = command("dp-learn", "labelled.tar", "--estimator", "lda", "--target", "label")
    found = pd.read_csv(tmp_path / "labelled.graph" / "coefficients.csv").set_index("column")["coefficient"]

    assert learned.returncode == 0, learned.stderr
    assert found["v2"] == pytest.approx(1.5, abs=0.4)
    assert found.drop("v2").abs().max() < 0.3


def test_two_rounds_tell_of_their_tails_and_variances(tmp_path: Path, key: Ed25519PrivateKey, command: Run) -> None:
    """Rows with heavy tails make sampling errors larger, in the summary and in words, with equal or noisy weights."""
    rng = np.random.default_rng(6)
    factor = np.linalg.cholesky(np.linalg.inv(np.eye(6) + 0.4 * (np.eye(6, k=1) + np.eye(6, k=-1))))
    rows = rng.normal(size=(5000, 6)) @ factor.T * np.sqrt(5 / rng.chisquare(5, 5000))[:, None]
    policy = policy_for(unit="row", release="covariance", mechanism="two-round", mu=3.0)
    publish(pd.DataFrame(rows, columns=NAMES), policy, out=tmp_path / "heavy.tar", key=key)
    plain = command("dp-learn", "heavy.tar")
    weighted = command("dp-learn", "heavy.tar", "--weights", "noise", "--out", "weighted", "--json")

    assert plain.returncode == 0, plain.stderr
    assert "times those of Gaussian rows, for the rows' tails" in plain.stdout
    assert " standard deviations, as estimated afterwards" in plain.stdout
    assert "rows beyond the radius were shortened, so that variances may be low" in plain.stdout
    summary = json.loads(weighted.stdout)
    assert 1.2 < summary["kurtosis_factor"] < 3.0
    assert summary["contradictions"] == []
    assert summary["correlation_standard_error"]["without"] == pytest.approx(
        np.sqrt(summary["kurtosis_factor"] / 4999), rel=1e-9
    )


@pytest.mark.slow
def test_errors_of_correlations_are_those_of_many_releases_in_two_rounds(
    tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey
) -> None:
    """Over 60 releases of the same rows correlations vary as the combined noise says."""
    policy = policy_for(unit="row", release="covariance", mechanism="two-round", mu=0.1)
    found, stated = [], []
    for index in range(60):
        path = publish(table, policy, out=tmp_path / f"{index}.tar", key=key).path
        with open_bundle(path) as bundle:
            pooled = Sample([bundle_source(bundle)]).pooled
        found.append(pooled.correlation)
        errors = mechanism_errors(pooled, np.diag(1 / pooled.deviations)).along(-pooled.correlation)
        stated.append(np.sqrt(np.maximum(errors, 0.0)))
    upper = np.triu_indices(6, 1)
    ratios = np.std(found, axis=0, ddof=1)[upper] / np.mean(stated, axis=0)[upper]

    assert np.median(ratios) == pytest.approx(1.0, abs=0.12)
    assert np.abs(np.mean(found, axis=0) - table.corr().to_numpy()).max() < 0.05
