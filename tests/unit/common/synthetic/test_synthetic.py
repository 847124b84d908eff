"""Synthetic rows: margins, correlations, kinds, levels, gaps, seeds and files."""

import datetime
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats
from tests.conftest import Run, make_policy

from dp_bundle import Bundle, open_bundle
from dp_bundle.base.errors import DpGraphError
from dp_bundle.cli import main
from dp_bundle.synthetic.columns import before_clipping
from dp_bundle.synthetic.files import copula_of, describe_kept, side_path, write_synthetic
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import publish
from dp_publish.sampling.keystream import insecure_keystream

N = 6000
LEVELS = {
    "score": {"kind": "ordered", "levels": ["low", "middle", "high"]},
    "city": {"kind": "category", "categories": ["x", "y", "z"]},
    "smokes": {"kind": "boolean", "levels": ["no", "yes"]},
    "weight": {"missing": "indicator"},
    "day": {"kind": "date"},
    "since": {"kind": "duration", "bounds": [0, 1000]},
}


def raw_table() -> pd.DataFrame:
    """Return a table of many kinds, all of whose columns go together."""
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal(np.zeros(7), 0.5 * np.eye(7) + 0.5, size=N)
    races = np.c_[z[:, 3], rng.normal(size=(N, 2))]
    return pd.DataFrame(
        {
            "=income": np.exp(z[:, 0]),
            "kids": np.floor(np.exp(z[:, 1])).clip(0, 12).astype(int),
            "score": np.array(["low", "middle", "high"])[np.digitize(z[:, 2], [-0.5, 1.0])],
            "city": np.array(["x", "y", "z"])[np.argmax(races, axis=1)],
            "smokes": np.where(z[:, 4] > 0.8, "yes", "no"),
            "weight": np.where(rng.random(N) < 0.1 + 0.2 * (z[:, 4] > 0.8), np.nan, 70 + 10 * z[:, 5]),
            "day": (pd.Timestamp("2020-01-01") + pd.to_timedelta(np.rint(50 * z[:, 6]), unit="D")).date,
            "since": pd.to_timedelta(500 + 100 * z[:, 6], unit="s"),
        }
    )


_made = dict[str, bytes]()


@pytest.fixture
def path(tmp_path_factory: pytest.TempPathFactory, key: Ed25519PrivateKey) -> Path:
    """Publish that table by normal scores, once for all tests of this file."""
    out = tmp_path_factory.mktemp("copula") / "t.bundle.tar"
    if not _made:
        publish(
            raw_table(), make_policy({"kids": [0, 12]}, LEVELS, unit="row", mu=6.0, scale="scores"), out=out, key=key
        )
        _made["t"] = out.read_bytes()
    out.write_bytes(_made["t"])
    return out


def opened(path: Path) -> Bundle:
    """Open a bundle, whoever signed it."""
    return open_bundle(path, UnsafeTrustAnyone())


def numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return columns of a table as numbers, with gaps and levels as columns of their own."""
    kept = {name: frame[name] for name in ("=income", "kids", "weight")} | {"gap": frame["weight"].isna() * 1.0}
    kept |= {
        "since": frame["since"].dt.total_seconds(),
        "day": (pd.to_datetime(frame["day"]) - pd.Timestamp(2020, 1, 1)).dt.days,
    }
    kept["score"] = frame["score"].astype(str).map({"low": 0, "middle": 1, "high": 2})
    return pd.DataFrame(kept | {each: (frame.astype(str) == each).any(axis=1) * 1.0 for each in ("x", "y", "z", "yes")})


def test_rows_have_the_names_types_levels_gaps_and_distributions_of_the_table(path: Path, tmp_path: Path) -> None:
    """Each column comes back as what it was: numbers, whole ones, levels, days, durations."""
    with opened(path) as bundle:
        document = write_synthetic(bundle, tmp_path / "s.parquet", 20_000, 1)
    schema = pq.read_schema(tmp_path / "s.parquet")
    assert schema.names == list(raw_table())
    kinds = {"=income": pa.float64(), "kids": pa.int64(), "day": pa.date32(), "since": pa.duration("us")}
    assert {name: schema.field(name).type for name in kinds} == kinds
    rows, table = pd.read_parquet(tmp_path / "s.parquet"), raw_table()
    assert list(rows["score"].cat.categories) == ["low", "middle", "high"]
    assert (rows["score"].cat.ordered, rows["city"].cat.ordered) == (True, False)
    assert rows["kids"].between(0, 12).all()
    found, true = numbers(rows), numbers(table)
    for name in found:
        assert stats.ks_2samp(found[name].dropna(), true[name].dropna()).statistic < 0.03, name
    assert max(document["measured"]["kolmogorov_distance"].values()) < 0.02


@pytest.mark.slow
def test_rows_go_together_as_those_of_the_table(path: Path, tmp_path: Path) -> None:
    """Rank correlations of numbers, levels and gaps are those of the table that was published."""
    with opened(path) as bundle:
        document = write_synthetic(bundle, tmp_path / "s.parquet", 60_000, 3)
    frames = pd.read_parquet(tmp_path / "s.parquet"), raw_table()
    found, true = (numbers(frame).drop(columns="weight").rank().corr().to_numpy() for frame in frames)
    difference = np.abs(found - true)[np.triu_indices(len(true), 1)]
    assert np.median(difference) < 0.01
    assert difference.max() < 0.05
    assert document["measured"]["correlation_difference_median"] < 0.006


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another seed gives others, however many batches there are; none has more rows than it may."""
    monkeypatch.setattr("dp_bundle.synthetic.files._MOST_ROWS", 300)
    with opened(path) as bundle:
        for name, seed in (("a", 7), ("b", 7), ("c", 8)):
            write_synthetic(bundle, tmp_path / f"{name}.csv", 1000, seed)
        found = copula_of(bundle)
    texts = [(tmp_path / f"{name}.csv").read_bytes() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]
    assert [len(batch[0].cells) for batch in found.draw(1000, 0)] == [250] * 4
    assert len(pd.read_csv(tmp_path / "a.csv")) == 1000


def test_files_say_that_rows_are_synthetic_and_what_they_keep(path: Path, tmp_path: Path) -> None:
    """The metadata of Parquet and the file beside name release and seed; the latter has the figures."""
    with opened(path) as bundle:
        document = write_synthetic(bundle, tmp_path / "s.parquet", 1000, 1)
        digest = bundle.manifest_sha256
    about = json.loads(side_path(tmp_path / "s.parquet").read_text())
    assert about == document
    stated = json.loads(pq.read_schema(tmp_path / "s.parquet").metadata[b"synthetic"])
    assert stated["synthetic"] is about["synthetic"] is True
    assert (stated["seed"], stated["n_rows"], stated["manifest_sha256"]) == (1, 1000, digest)
    assert "correlations within" in describe_kept(about)


@pytest.mark.parametrize("taken", ["s.csv", "s.synthetic.json"])
def test_nothing_is_replaced(path: Path, tmp_path: Path, taken: str) -> None:
    """A file in the way is named, and stays."""
    (tmp_path / taken).write_text("mine")
    with opened(path) as bundle, pytest.raises(DpGraphError, match="already"):
        write_synthetic(bundle, tmp_path / "s.csv", 10, 1)
    assert [each.read_text() for each in tmp_path.glob("s*")] == ["mine"]


@pytest.mark.slow
def test_plain_moments_give_normal_numbers_within_bounds_and_levels_by_their_shares(
    tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Means, deviations and correlations are those learned from the release, and the side file says normal."""
    table, columns = raw_table(), {name: dict(entry) for name, entry in LEVELS.items()}
    columns["weight"]["bounds"] = [30, 110]
    columns["day"]["bounds"] = [datetime.date(2019, 6, 1), datetime.date(2020, 8, 1)]
    bounds = {"kids": [0, 12], "=income": [0, 40]}
    policy = make_policy(bounds, columns, mu=60.0, release="covariance", mechanism="gaussian")
    publish(table, policy, out=tmp_path / "t.tar", key=key)
    with opened(tmp_path / "t.tar") as bundle:
        document = write_synthetic(bundle, tmp_path / "s.parquet", 20_000, 1)
    assert "normal distribution" in document["keeps"][0]
    rows = pd.read_parquet(tmp_path / "s.parquet")
    assert rows["kids"].between(0, 12).all()
    assert rows["weight"].mean() == pytest.approx(table["weight"].mean(), abs=0.6)
    assert rows["weight"].std() == pytest.approx(table["weight"].std(), rel=0.06)
    found, true = (numbers(frame)[["day", "gap", "yes"]] for frame in (rows, table))
    assert found[["gap", "yes"]].mean().tolist() == pytest.approx(true[["gap", "yes"]].mean().tolist(), abs=0.02)
    assert found.corr().to_numpy() == pytest.approx(true.corr().to_numpy(), abs=0.05)


@pytest.mark.parametrize(
    ("mean", "deviation"), [(0.2, 0.4), (0.5, 0.2), (0.1, 0.25), (-0.0003, 0.003), (-0.02, 0.1), (1.001, 0.01)]
)
def test_clipping_leaves_the_moments(mean: float, deviation: float) -> None:
    """Those of a clipped normal variable are the given ones, or next to them where these are impossible."""
    middle, spread = before_clipping(10 + 2 * mean, 2 * deviation, 10.0, 12.0)
    drawn = np.clip(middle + spread * stats.norm.ppf((np.arange(10**6) + 0.5) / 10**6), 10.0, 12.0)
    assert drawn.std() == pytest.approx(2 * deviation, rel=0.03)
    assert abs(drawn.mean() - 10 - 2 * mean) < (0.01 if 0 < mean < 1 else 0.5) * 2 * deviation


def test_noisy_rows_give_rows_without_noise(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Their deviations are those of the table, and not of the noisy rows; a column that noise drowns is left out."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(0, 1, N), "b": rng.normal(0, 1, N), "far": rng.normal(0, 1e-3, N)})
    table["b"] += table["a"]
    bounds = {"a": [-5, 5], "b": [-6, 6], "far": [-1e4, 1e4]}
    publish(table, make_policy(bounds, unit="cell", mu=8.0), out=tmp_path / "t.tar", key=key)
    with opened(tmp_path / "t.tar") as bundle:
        document = write_synthetic(bundle, tmp_path / "s.parquet", 20_000, 1)
    rows = pd.read_parquet(tmp_path / "s.parquet")
    assert list(rows) == ["a", "b"]
    assert document["columns_left_out"] == ["far"]
    assert "without far, which noise drowns" in describe_kept(document)
    assert rows["a"].std() == pytest.approx(1.0, abs=0.08)
    assert np.corrcoef(rows.T)[0, 1] == pytest.approx(np.sqrt(0.5), abs=0.05)


def test_few_rows_keep_natural_ends(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Without bounds and histograms, counts stay counts, 0 and 1 are two values, and others have both signs."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"visits": rng.poisson(1.5, 400), "paid": rng.lognormal(0, 1, 400), "owns": rng.random(400) < 0.3}
    )
    table = table.astype({"owns": int}).assign(change=rng.normal(0.1, 1, 400))
    policy = make_policy(
        {}, {"visits": {"kind": "integer"}, "owns": {"kind": "integer"}}, mu=0.99, release="covariance"
    )
    publish(table, policy, out=tmp_path / "t.tar", key=key, keystream=insecure_keystream(1))
    with opened(tmp_path / "t.tar") as bundle:
        assert bundle.release.margins is None
        write_synthetic(bundle, tmp_path / "s.csv", 5000, 1)
    rows = pd.read_csv(tmp_path / "s.csv")
    assert (rows.dtypes == table.dtypes).all()
    assert rows[["visits", "paid"]].min().min() >= 0
    assert set(rows["owns"]) == {0, 1}
    assert (rows["change"] < 0).mean() == pytest.approx(0.46, abs=0.15)


def test_a_heap_is_one_value(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Two thirds of zeros among numbers with a long tail come back as zeros, and of zeros and ones all are one."""
    rng = np.random.default_rng(0)
    amount = np.where(rng.random(N) < 0.66, 0.0, rng.lognormal(2, 1, N))
    owns = np.where(rng.random(N) < 0.05, np.nan, rng.random(N) < 0.3)
    table = pd.DataFrame({"amount": amount, "other": rng.normal(size=N), "owns": owns})
    publish(table, make_policy({}, unit="row", mu=3.0, scale="scores"), out=tmp_path / "t.tar", key=key)
    with opened(tmp_path / "t.tar") as bundle:
        write_synthetic(bundle, tmp_path / "s.parquet", 20_000, 1)
    rows = pd.read_parquet(tmp_path / "s.parquet")
    found = rows["amount"]
    assert set(rows["owns"].dropna()) == {0.0, 1.0}
    assert (found == 0).mean() == pytest.approx((amount == 0).mean(), abs=0.04)
    assert found.max() < 5 * amount.max()


def test_more_rows_than_a_disk_holds_are_drawn_for_nobody_who_did_not_ask(
    path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the release states as many, --rows must say how many, and does."""
    monkeypatch.setattr(main, "_MANY_ROWS", 99)
    words = ("dp-bundle", "synthesize", path, "--out", "s.csv", "--any-signer", "--json")
    refused = command(*words)
    assert (refused.returncode, "--rows must be given" in refused.stderr) == (2, True)
    assert json.loads(command(*words, "--rows", 100, "--seed", 4).stdout)["seed"] == 4
    assert len(pd.read_csv("s.csv")) == 100
