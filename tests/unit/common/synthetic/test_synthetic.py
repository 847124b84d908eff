"""Synthetic rows: margins, correlations, kinds, levels, gaps, seeds and files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats
from tests.conftest import make_policy

from dp_bundle import Bundle, open_bundle
from dp_bundle.base.errors import DpGraphError, EstimationError
from dp_bundle.data.heaps import find_body
from dp_bundle.data.margins import Margin
from dp_bundle.portals.learned import require_reader
from dp_bundle.synthetic.columns import before_clipping
from dp_bundle.synthetic.copula import copula_of
from dp_bundle.synthetic.files import describe_kept, side_path, write_synthetic
from dp_bundle.trust.judging import UnsafeTrustAnyone
from dp_publish import publish

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
        columns = {"kids": {"bounds": [0, 12]}} | LEVELS
        publish(raw_table(), make_policy({}, columns, unit="row", mu=6.0, release="copula"), out=out, key=key)
        _made["t"] = out.read_bytes()
    out.write_bytes(_made["t"])
    return out


def opened(path: Path) -> Bundle:
    """Open a bundle, whoever signed it."""
    return open_bundle(path, UnsafeTrustAnyone())


def test_rows_have_the_names_types_levels_and_gaps_of_the_table(path: Path, tmp_path: Path) -> None:
    """Each column comes back as what it was: numbers, whole ones, levels, days, durations."""
    with opened(path) as bundle:
        write_synthetic(bundle, tmp_path / "s.parquet", 20_000, 1)
    schema = pq.read_schema(tmp_path / "s.parquet")
    assert schema.names == list(raw_table())
    assert schema.field("=income").type == pa.float64()
    assert schema.field("kids").type == pa.int64()
    assert schema.field("day").type == pa.date32()
    assert schema.field("since").type == pa.duration("us")
    rows, table = pd.read_parquet(tmp_path / "s.parquet"), raw_table()
    assert list(rows["score"].cat.categories) == ["low", "middle", "high"]
    assert rows["score"].cat.ordered
    assert not rows["city"].cat.ordered
    assert rows["kids"].between(0, 12).all()
    for name in ("city", "smokes", "score"):
        shares = rows[name].value_counts(normalize=True) - table[name].value_counts(normalize=True)
        assert np.abs(shares).max() < 0.03
    assert rows["weight"].isna().mean() == pytest.approx(table["weight"].isna().mean(), abs=0.02)
    assert rows["weight"].std() < 2 * table["weight"].std()


def beyond_body(margin: Margin, sigma: float, shares: np.ndarray) -> tuple[slice, float]:
    """Return the cells whose ends rows keep, and the largest share that is moved."""
    if margin.labels or margin.n_filled <= 20:
        return slice(None), 0.0
    first, end = find_body(margin.counts[: margin.n_filled], sigma)
    return slice(first, end - 1), max(shares[:first].sum(), shares[end : margin.n_filled].sum())


def test_margins_are_those_that_were_released(path: Path, tmp_path: Path) -> None:
    """Counts of values by the released cells are within sampling error of the released shares, in every column.

    But for cells far out in which nothing stands out from the noise: these are drawn next to the others.
    """
    n_rows = 40_000
    with opened(path) as bundle:
        document = write_synthetic(bundle, tmp_path / "s.parquet", n_rows, 2)
        margins, release = bundle.margins(), bundle.release
    rows = pd.read_parquet(tmp_path / "s.parquet")
    for margin in margins:
        assert release.margins is not None
        shares, values = margin.shares(release.n_rows, release.margins.sigma), rows[margin.name]
        if margin.labels:
            cells = values.astype(str).map({label: place for place, label in enumerate(margin.labels)})
        else:
            numbers = pd.to_timedelta(values).dt.total_seconds() if margin.name == "since" else values
            if margin.name == "day":
                numbers = (pd.to_datetime(values) - pd.Timestamp("1970-01-01")).dt.days
            cells = pd.Series(np.searchsorted(margin.edges, numbers, side="right"))
            cells = cells.where(values.notna(), len(shares) - 1)
        counts = np.bincount(cells.astype(int), minlength=len(shares))
        differences = np.abs(np.cumsum(counts / n_rows - shares))
        most = 2 / n_rows if len(margin.edges) and not margin.has_gaps else 2.2 / np.sqrt(n_rows)
        body, beyond = beyond_body(margin, release.margins.sigma, shares)
        assert differences[body].max() < most, margin.name
        assert document["measured"]["kolmogorov_distance"][margin.name] < most + beyond
        assert beyond < 0.01


def test_correlations_are_those_that_were_released(path: Path, tmp_path: Path) -> None:
    """Normal scores and indicators, made again from the values, have the released correlations."""
    with opened(path) as bundle:
        document = write_synthetic(bundle, tmp_path / "s.parquet", 60_000, 3)
        released, columns = require_reader().correlations(bundle, of_scores=True).values, bundle.release.columns
    rows, made = pd.read_parquet(tmp_path / "s.parquet"), dict[str, np.ndarray]()
    for name in ("=income", "kids", "day", "since"):
        ranks = pd.Series(rows[name]).rank() / (len(rows) + 1)
        made[name] = stats.norm.ppf(ranks)
    made["score"] = stats.norm.ppf(rows["score"].cat.codes.rank() / (len(rows) + 1))
    made["smokes"] = (rows["smokes"] == "yes").to_numpy(dtype=float)
    made["weight=(no value)"] = rows["weight"].isna().to_numpy(dtype=float)
    made |= {f"city={level}": (rows["city"] == level).to_numpy(dtype=float) for level in "xyz"}
    names = [column.name for column in columns]
    found = np.corrcoef(np.array(list(made.values())))
    places = [names.index(name) for name in made]
    difference = np.abs(found - released[np.ix_(places, places)])[np.triu_indices(len(places), 1)]
    assert np.median(difference) < 0.006
    assert difference.max() < 0.05
    assert document["measured"]["correlation_difference_median"] < 0.006


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another seed gives others, however many batches there are; none has more rows than it may."""
    monkeypatch.setattr("dp_bundle.synthetic.copula._MOST_ROWS", 300)
    with opened(path) as bundle:
        for name, seed in (("a", 7), ("b", 7), ("c", 8)):
            write_synthetic(bundle, tmp_path / f"{name}.csv", 1000, seed)
        found = copula_of(bundle)
    texts = [(tmp_path / f"{name}.csv").read_bytes() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]
    assert [len(batch[0].cells) for batch in found.draw(1000, 0)] == [250] * 4
    assert len(pd.read_csv(tmp_path / "a.csv")) == 1000


def test_few_rows_have_hardly_any_chance_in_them(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """A thousand rows miss correlations by .008, for .03 by chance, and distributions by two rows; one row is one.

    But for tails, which are moved.
    """
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.multivariate_normal(np.zeros(4), 0.5 * np.eye(4) + 0.5, size=N), columns=[*"abcd"])
    publish(table, make_policy({}, unit="row", mu=3.0, release="copula"), out=tmp_path / "t.tar", key=key)
    with opened(tmp_path / "t.tar") as bundle:
        measured = write_synthetic(bundle, tmp_path / "few.parquet", 1000, 1)["measured"]
        write_synthetic(bundle, tmp_path / "one.parquet", 1, 1)
        stated = bundle.release.margins
        assert stated is not None
        margins = {margin.name: (margin, margin.shares(N, stated.sigma)) for margin in bundle.margins()}
    assert measured["correlation_difference_largest"] < 0.008
    for name, distance in measured["kolmogorov_distance"].items():
        assert distance <= 2 / 1000 + beyond_body(margins[name][0], stated.sigma, margins[name][1])[1]
    assert len(pd.read_parquet(tmp_path / "one.parquet")) == 1


def test_csv_has_guarded_names_and_plain_values(path: Path, tmp_path: Path) -> None:
    """A name that is a formula gets an apostrophe; levels are text, durations seconds, gaps empty."""
    with opened(path) as bundle:
        write_synthetic(bundle, tmp_path / "s.csv", 500, 1)
    rows = pd.read_csv(tmp_path / "s.csv")
    assert list(rows) == ["'=income", *list(raw_table())[1:]]
    assert set(rows["city"]) == {"x", "y", "z"}
    assert rows["since"].between(0, 1000).all()
    assert rows["weight"].isna().any()


def test_files_say_that_rows_are_synthetic_and_what_they_keep(path: Path, tmp_path: Path) -> None:
    """The metadata of Parquet and the file beside name release and seed; the latter has the figures."""
    with opened(path) as bundle:
        document = write_synthetic(bundle, tmp_path / "s.parquet", 1000, 1)
        digest = bundle.manifest_sha256
    about = json.loads(side_path(tmp_path / "s.parquet").read_text())
    assert about == document
    assert side_path(Path("s.synthetic.csv")) == Path("s.synthetic.json")
    stated = json.loads(pq.read_schema(tmp_path / "s.parquet").metadata[b"synthetic"])
    assert stated["synthetic"] is about["synthetic"] is True
    assert (stated["seed"], stated["n_rows"], stated["manifest_sha256"]) == (1, 1000, digest)
    assert set(about["measured"]["kolmogorov_distance"]) == set(raw_table())
    assert "no secret" in about["note"]
    assert "correlations within" in describe_kept(about)


@pytest.mark.parametrize("taken", ["s.csv", "s.synthetic.json"])
def test_nothing_is_replaced(path: Path, tmp_path: Path, taken: str) -> None:
    """A file in the way is named, and stays."""
    (tmp_path / taken).write_text("mine")
    with opened(path) as bundle, pytest.raises(DpGraphError, match="already"):
        write_synthetic(bundle, tmp_path / "s.csv", 10, 1)
    assert [each.read_text() for each in tmp_path.glob("s*")] == ["mine"]


def test_plain_moments_give_normal_numbers_within_bounds_and_levels_by_their_shares(
    tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """Means, deviations and correlations are those learned from the release, and the side file says normal."""
    table = raw_table()[["kids", "score", "city", "smokes", "weight", "day"]]
    columns = {"kids": {"bounds": [0, 12]}} | {name: LEVELS[name] for name in table if name in LEVELS}
    policy = make_policy({}, columns, unit="row", mu=6.0, release="covariance")
    publish(table, policy, out=tmp_path / "t.tar", key=key)
    with opened(tmp_path / "t.tar") as bundle:
        document = write_synthetic(bundle, tmp_path / "s.parquet", 20_000, 1)
        released = require_reader().correlations(bundle, of_scores=True)
    assert "normal distribution" in document["keeps"][0]
    rows = pd.read_parquet(tmp_path / "s.parquet")
    assert rows["kids"].between(0, 12).all()
    assert rows["weight"].mean() == pytest.approx(table["weight"].mean(), abs=0.6)
    assert rows["weight"].std() == pytest.approx(table["weight"].std(), rel=0.06)
    assert rows["weight"].isna().mean() == pytest.approx(table["weight"].isna().mean(), abs=0.02)
    assert (rows["smokes"] == "yes").mean() == pytest.approx((table["smokes"] == "yes").mean(), abs=0.02)
    days = (pd.to_datetime(rows["day"]) - pd.Timestamp("1970-01-01")).dt.days
    places = [released.columns.index(name) for name in ("day", "smokes")]
    found = np.corrcoef(days, rows["smokes"] == "yes")[0, 1]
    assert found == pytest.approx(released.values[places[0], places[1]], abs=0.03)


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


def test_nothing_is_drawn_where_noise_drowns_all(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """One sentence, and no file."""
    table = pd.DataFrame({"a": np.zeros(300), "b": np.zeros(300)})
    publish(table, make_policy({"a": [-5, 5], "b": [-5, 5]}, unit="cell", mu=1.0), out=tmp_path / "t.tar", key=key)
    with opened(tmp_path / "t.tar") as bundle, pytest.raises(EstimationError, match="nothing"):
        write_synthetic(bundle, tmp_path / "s.csv", 10, 1)
    assert not (tmp_path / "s.csv").exists()


def test_a_heap_is_one_value(tmp_path: Path, key: Ed25519PrivateKey) -> None:
    """Two thirds of zeros among numbers with a long tail come back as zeros."""
    rng = np.random.default_rng(0)
    amount = np.where(rng.random(N) < 0.66, 0.0, rng.lognormal(2, 1, N))
    table = pd.DataFrame({"amount": amount, "other": rng.normal(size=N)})
    publish(table, make_policy({}, unit="row", mu=3.0, release="copula"), out=tmp_path / "t.tar", key=key)
    with opened(tmp_path / "t.tar") as bundle:
        write_synthetic(bundle, tmp_path / "s.parquet", 20_000, 1)
    found = pd.read_parquet(tmp_path / "s.parquet")["amount"]
    assert (found == 0).mean() == pytest.approx((amount == 0).mean(), abs=0.04)
    assert found.max() < 5 * amount.max()
