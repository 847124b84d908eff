"""Rows of one or several sources are pooled, split and drawn from as one would by hand."""

import contextlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import make_policy
from tests.unit.common.trust.test_succession import KEYS, rotation

from dp_bundle import open_bundle
from dp_bundle.base.errors import EstimationError, ParameterError, SchemaError
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_bundle.trust.store import TrustStore, accept_statement
from dp_learn.covariance.sample import Sample
from dp_learn.covariance.sources import bundle_source, share_rows, table_rows
from dp_learn.pipeline.compare import require_different_rows
from dp_publish import Policy, publish

NAMES = ("a", "b", "c")
ROWS = Path(__file__).parents[3] / "golden" / "bundle-mixed.tar"
BOUNDS = {"height": [120, 220], "weight": [20, 140], "visits": [0, 30]}


def rows_of(n_rows: int, seed: int) -> np.ndarray:
    """Return three correlated columns."""
    mixing = np.array([[1.0, 0.6, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 1.0]])
    return np.random.default_rng(seed).normal(size=(n_rows, 3)) @ mixing + [5.0, -3.0, 0.0]


def test_pooled_splits_hold_out_a_fold_of_every_source() -> None:
    """Train and test covariances are the sources' own, debiased and weighted as the whole is, and share no row."""
    tables, variances = [rows_of(60, 1), rows_of(200, 2)], [0.5, 0.1]
    sample = Sample([table_rows(rows, NAMES, v) for rows, v in zip(tables, variances, strict=True)], n_folds=4)
    weights = sample.pooled.weights
    sample.forget_products()
    splits = sample.splits()

    assert sum(weights) == pytest.approx(1)
    assert weights[1] > 0.75
    assert len(splits) == 4
    # the scatter of the four held-out folds and the scatter between them add up to the whole scatter
    folds = [source.moments(4) for source in sample.sources]
    for split, *own in zip(splits, *folds, strict=True):
        debiased = [fold.covariance - variance * np.eye(3) for fold, variance in zip(own, variances, strict=True)]
        np.testing.assert_allclose(split.test, np.tensordot(weights, debiased, 1), rtol=1e-10, atol=1e-12)
    assert [sum(fold.n_rows for fold in each) for each in folds] == [60, 200]
    assert not np.allclose(splits[0].train, splits[1].train)


def test_subsamples_are_debiased() -> None:
    """The mean over many subsamples is near the debiased covariance of all rows; without folds products may go."""
    rows = rows_of(4000, 3) + np.random.default_rng(9).normal(size=(4000, 3))
    sample = Sample([table_rows(rows, NAMES, 1.0)])
    drawn = sample.subsamples(40, 0.25)
    sample.forget_products()

    assert sample.moments[0].scatter.size == 0
    np.testing.assert_allclose(sample.location, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(sample.pooled.covariance, np.cov(rows.T) - np.eye(3), rtol=1e-12, atol=1e-12)

    assert len(drawn) == 40
    np.testing.assert_allclose(np.mean(drawn, axis=0), sample.pooled.covariance, atol=0.03)


def test_too_few_rows_get_a_sentence() -> None:
    """Folds or subsamples of fewer than two rows are refused."""
    sample = Sample([table_rows(rows_of(7, 0), NAMES)], n_folds=5)
    with pytest.raises(EstimationError):
        sample.splits()
    with pytest.raises(EstimationError):
        sample.subsamples(3, 1e-9)
    for wrong in ([1.0, np.nan, 1.0], [1.0, 2.0], [1.0, -1.0, 1.0]):
        with pytest.raises(ParameterError) as refused:
            table_rows(rows_of(7, 0), NAMES, wrong)
        assert refused.value.name == "noise_variance"


@pytest.fixture
def releases(tmp_path: Path, table: pd.DataFrame, key: Ed25519PrivateKey) -> dict[str, Path]:
    """Publish: the same rows twice, other rows, a grown table, a part, and other units."""
    plain, elsewhere, other = (make_policy(BOUNDS, name=name, mu=40.0, unit="row") for name in ("d", "e", "f"))
    metric = other.model_dump(exclude_defaults=True)
    metric["columns"]["height"]["unit"] = "cm"
    paths = {}
    for name, rows, policy in (
        ("first", table, plain),
        ("second", table, plain),
        ("elsewhere", table.sample(frac=1.0, random_state=1)[["weight", "visits", "height", "name"]], elsewhere),
        ("grown", pd.concat([table, table.iloc[:50]]), plain),
        ("metric", table, Policy.model_validate(metric)),
        ("part", table.iloc[:200], plain),
    ):
        paths[name] = tmp_path / f"{name}.tar"
        publish(rows, policy, out=paths[name], key=key, partition="a" if name == "part" else None)
    return paths


@pytest.mark.slow
def test_releases_are_told_from_other_rows(releases: dict[str, Path]) -> None:
    """Two releases of one dataset share their rows, releases of two datasets do not; mixtures are refused."""
    with contextlib.ExitStack() as stack:
        opened = {name: stack.enter_context(open_bundle(path, allow_older=True)) for name, path in releases.items()}
        assert share_rows([opened["first"], opened["second"]])
        assert not share_rows([opened["first"], opened["elsewhere"]])
        assert not share_rows([opened["first"]])
        for names, sentence in {
            ("first", "second", "elsewhere"): "some of others",
            ("first", "grown"): "number of rows",
            ("first", "part"): "a part of it",
        }.items():
            with pytest.raises(SchemaError, match=sentence):
                share_rows([opened[name] for name in names])
        with pytest.raises(SchemaError, match="in cm"):
            bundle_source(opened["metric"], like=opened["first"])


@pytest.mark.parametrize("n_rotations", [0, 1, 2])
def test_releases_share_rows_whichever_keys_of_a_line_signed(n_rotations: int, home: Path) -> None:
    """Two releases of one line of keys are of the same rows, so that they are pooled as such, and not compared."""
    store = TrustStore()
    for last in reversed(range(n_rotations + 1)):
        store.add(KEYS[last], "office")
        if last < n_rotations:
            accept_statement(store, rotation(last, last + 1))
    with contextlib.ExitStack() as stack:
        pair = [stack.enter_context(open_bundle(ROWS, UnsafeTrustAnyone())) for _ in range(2)]
        for bundle, number in zip(pair, (0, n_rotations), strict=True):
            bundle.signer, bundle.manifest_sha256 = store.require(KEYS[number]), str(id(bundle))
        assert share_rows(pair)
        with pytest.raises(SchemaError, match="the same rows"):
            require_different_rows(pair)


@pytest.mark.parametrize(("scale", "privacy"), [(1e90, {"mu": 20.0}), (1e-90, {"mu": 2.0, "release": "covariance"})])
def test_numbers_too_large_or_small_are_named(
    scale: float, privacy: dict[str, object], tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Columns whose fourth powers are no numbers are refused as such, not as drowned."""
    frame = pd.DataFrame(rows_of(60, 1) * scale, columns=NAMES)
    policy = make_policy({name: [-9 * scale, 9 * scale] for name in NAMES}, unit="row", **privacy)
    path = publish(frame, policy, out=tmp_path / "a.tar", key=key).path
    with open_bundle(path) as bundle, pytest.raises(EstimationError, match="units"):
        bundle_source(bundle)
