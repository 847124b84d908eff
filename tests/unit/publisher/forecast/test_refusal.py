"""What would show nothing, or a column as it is, is refused before anything is spent, unless it is wanted anyway."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tests.conftest import Run, policy_with

from dp_bundle import open_bundle
from dp_bundle.base.errors import PolicyError
from dp_bundle.manifest.columns import Noise
from dp_bundle.trust.store import key_names
from dp_publish import publish
from dp_publish.data.kinds import ColumnType
from dp_publish.data.table import open_table
from dp_publish.forecast.outlook import forecast
from dp_publish.forecast.refusal import find_drowned, refuse_pointless, share_unchanged
from dp_publish.ledger.ledger import Ledger
from dp_publish.policy.column_survey import glance
from dp_publish.rows.calibration import calibrate
from dp_publish.sampling.gaussian import sample_discrete_gaussian
from dp_publish.sampling.keystream import insecure_keystream

FLAGS = '[privacy]\nunit = "cell"\nmu = {mu}\n[columns.smoker]\nbounds = [0, 1]\n[columns.age]\nbounds = [0, 120]\n'


def judge(
    n_rows: int, n_columns: int, *, bounds: bool = True, types: ColumnType = ColumnType.CONTINUOUS, **privacy: object
) -> None:
    """Refuse, or not, columns with bounds from 0 to 1 and this privacy section."""
    names = [f"c{index}" for index in range(n_columns)]
    columns = {name: {"bounds": [0.0, 1.0] if bounds else None} for name in names}
    policy = policy_with(columns, **privacy)
    kind = "integer" if types is ColumnType.INTEGER and policy.privacy.release == "rows" else "continuous"
    refuse_pointless(policy, dict.fromkeys(names, kind), dict.fromkeys(names, types), lambda: n_rows)


def refuse(columns: dict[str, Any], n_rows: int, **privacy: object) -> None:
    """Judge the same of columns that are described one by one."""
    kinds, types = dict.fromkeys(columns, "continuous"), dict.fromkeys(columns, ColumnType.CONTINUOUS)
    refuse_pointless(policy_with(columns, **privacy), kinds, types, lambda: n_rows)


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Write a table of 20,000 rows and 8 columns without a policy."""
    rng = np.random.default_rng(1)
    pd.DataFrame(rng.normal(size=(20_000, 8)), columns=list("abcdefgh")).to_parquet(tmp_path / "wide.parquet")
    return tmp_path / "wide.parquet"


@pytest.mark.parametrize(
    ("privacy", "entry", "change", "advised", "changed"),
    [
        ("mu = 1", "weight = 2.0", "leave out weight", "mu = 1", ""),
        ("sigma = 8.0", "", "give mu = 2.82 in place of sigma", "mu = 2.82", ""),
    ],
)
def test_the_advice_names_what_second_moments_do_not_take(
    privacy: str, entry: str, change: str, advised: str, changed: str, wide: Path, command: Run
) -> None:
    """What a policy for rows has and a covariance release refuses is named, and without it the advice works."""

    def write(strength: str, own: str) -> None:
        sections = "".join(f"[columns.{name}]\nbounds = [-4, 4]\n{own}\n" for name in "abcdefgh")
        (wide.parent / "wide.policy.toml").write_text(f"[privacy]\n{strength}\n{sections}")

    write(privacy, entry)
    refused = command("dp-publish", "wide.parquet").stderr
    planned = command("dp-publish", "plan", "wide.parquet").stdout
    assert command("dp-publish", "wide.parquet", "--release", "covariance").returncode == 2
    write(advised, changed)

    assert f"{change}, and publish second moments" in refused
    assert f"For them, {change}." in planned
    assert command("dp-publish", "wide.parquet", "--release", "covariance").returncode == 0


@pytest.mark.parametrize("release", ["rows", "covariance"])
def test_too_few_rows_are_named_as_the_reason(release: str) -> None:
    """Twenty rows show nothing at any strength, and the refusal does not blame the noise."""
    with pytest.raises(PolicyError, match="even without noise"):
        judge(20, 4, mu=50.0, release=release)


def test_what_can_be_seen_or_cannot_be_known_is_published() -> None:
    """Enough rows and a protected number of rows are not refused."""
    judge(100_000, 4, mu=5.0)
    judge(100_000, 4, mu=5.0, bounds=False)
    judge(30, 4, mu=0.1, release="covariance", neighbours="add-remove")
    judge(30, 4, epsilon=0.1, release="covariance", mechanism="eigenvectors", neighbours="add-remove")


def test_noise_without_a_formula_is_judged_by_bounds_on_its_error() -> None:
    """Eigenvector releases of few rows are refused, and others are not."""
    privacy = {"release": "covariance", "mechanism": "eigenvectors"}
    for n_columns in (6, 1):
        judge(100_000, n_columns, epsilon=2.0, **privacy)
    for n_rows, n_columns, epsilon in ((300, 6, 2.0), (20, 1, 0.1)):
        with pytest.raises(PolicyError, match="nothing"):
            judge(n_rows, n_columns, epsilon=epsilon, **privacy)


def test_two_rounds_of_too_few_rows_are_refused_with_what_would_work() -> None:
    """The refusal names the rows it takes, and every way out that it names is one."""
    wide = {f"c{index}": {"bounds": [0.0, 1.0], "spread": 2e-4} for index in range(10)}

    def release(columns: dict[str, dict[str, object]], n_rows: int = 400, mu: float = 1.0) -> None:
        refuse(columns, n_rows, release="covariance", mechanism="two-round", mu=mu)

    with pytest.raises(PolicyError, match="would show nothing of these 10 columns") as refused:
        release(wide)
    advice = str(refused.value)
    needed = int(re.findall(r"it takes ([0-9]+) rows to show anything", advice)[0])
    release(wide, n_rows=needed)
    with pytest.raises(PolicyError):
        release(wide, n_rows=needed - 1)

    release({name: {**entry, "center": 0.5, "scale": 2e-4} for name, entry in wide.items()})
    assert "declare the center and the scale of every column" in advice
    release({name: {**entry, "spread": 0.14} for name, entry in wide.items()})
    assert "narrow the bounds to about 7 standard deviations in all" in advice
    mu = float(re.findall(r"from about mu = ([0-9.]+) on", advice)[0])
    release(wide, mu=1.05 * mu)
    with pytest.raises(PolicyError):
        release(wide, mu=0.9 * mu)
    few = int(re.findall(r"of at most ([0-9]+) columns", advice)[0])
    release(dict(list(wide.items())[:few]))


def shows_something(n_rows: int, entry: str, values: tuple[float, ...], **privacy: object) -> bool:
    """Return whether columns from 0 to 1 that differ in this entry are published, or else refused as hidden."""
    columns = {f"c{index}": {"bounds": [0, 1], entry: value} for index, value in enumerate(values)}
    try:
        refuse(columns, n_rows, **privacy)
    except PolicyError as error:
        return "would show nothing" not in str(error)
    return True


def test_the_column_that_spreads_most_decides() -> None:
    """Four columns of a tiny spread do not hide the other four from the forecast."""
    privacy = {"release": "covariance", "mechanism": "eigenvectors", "epsilon": 5.0}
    assert shows_something(100_000, "spread", (0.3,) * 4 + (0.001,) * 4, **privacy)
    assert not shows_something(100_000, "spread", (0.001,) * 8, **privacy)


def test_one_clear_pair_of_columns_is_enough() -> None:
    """A release in which two of four columns can be seen is published, though the typical column drowns."""
    assert shows_something(2_000, "weight", (100.0, 100.0, 1.0, 1.0), mu=4.0)
    assert not shows_something(2_000, "weight", (1.0, 1.0, 1.0, 1.0), mu=4.0)


def test_a_single_column_is_judged_by_its_own_variance() -> None:
    """One column has no relations: it is refused where its variance drowns, and published where that stands clear."""
    judge(200_000, 1, mu=1.0)
    with pytest.raises(PolicyError, match="this release would show nothing of this column"):
        judge(1000, 1, mu=0.5)


@pytest.fixture
def flags(tmp_path: Path) -> Path:
    """Write a table with a binary column."""
    rng = np.random.default_rng(2)
    frame = {"smoker": rng.integers(0, 2, 5000), "age": rng.normal(50, 20, 5000)}
    pd.DataFrame(frame).to_parquet(tmp_path / "flags.parquet")
    return tmp_path / "flags.parquet"


@pytest.mark.parametrize("kind", ["integer", "continuous"])
def test_a_binary_column_is_not_published_as_it_is(kind: str, flags: Path, command: Run) -> None:
    """Noise that moves less than one value in a hundred is refused, and the strength that the refusal names is not."""
    policy = FLAGS.replace("[0, 1]", f'[0, 1]\nkind = "{kind}"')
    flags.with_name("flags.policy.toml").write_text(policy.format(mu=10.0))
    refused = command("dp-publish", "flags.parquet")

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "'smoker' unchanged" in refused.stderr
    assert (Ledger().entries(), key_names()) == ([], [])
    enough = float(re.findall("choose mu = ([0-9.]+) or less", refused.stderr)[0])
    assert command("dp-publish", "flags.parquet", "--mu", enough).returncode == 0
    assert command("dp-publish", "flags.parquet", "--mu", 1.05 * enough, "--out", "b.tar").returncode == 2
    assert command("dp-publish", "flags.parquet", "--anyway", "--out", "c.tar").returncode == 0


def test_the_share_unchanged_is_the_samplers_own() -> None:
    """Of drawn discrete noise, that share is zero."""
    for mu in (1.0, 3.0):
        (column,) = calibrate(policy_with({"c": {"bounds": [0, 1]}}, mu=mu), {"c": "integer"})
        drawn = sample_discrete_gaussian(column.cell_noise.sigma, 100_000, insecure_keystream(3))
        assert np.mean(drawn == 0) == pytest.approx(share_unchanged(column), abs=0.008)
        rounded = column.model_copy(update={"kind": "continuous", "noise": Noise.rounded_gaussian(1 / mu, 2.0**-9)})
        normal = np.random.default_rng(4).normal(0, 1 / mu, 100_000)
        assert np.mean(np.rint(normal) == 0) == pytest.approx(share_unchanged(rounded), abs=0.008)


@pytest.mark.parametrize("mu", [10.0, 40.0])
def test_small_integers_with_bounds_to_be_found_do_not_come_out_as_they_are(
    mu: float, tmp_path: Path, key: Ed25519PrivateKey
) -> None:
    """However few values an integer column turns out to have, its noise moves more than one in a hundred of them."""
    flags = np.random.default_rng(2).integers(0, 2, 20_000)
    receipt = publish(pd.DataFrame({"smoker": flags}), policy_with({}, mu=mu), out=tmp_path / "t.tar", key=key)
    with open_bundle(receipt.path) as opened:
        published = np.concatenate([batch.column(0).to_numpy() for batch in opened.batches()])
        column = opened.release.columns[0]

    assert (column.kind, column.bounds_obtained) == ("integer", "private-quantiles")
    assert np.mean(published == flags) < 0.995
    assert receipt.release.guarantee is not None
    assert receipt.release.guarantee.rho <= mu**2 / 2


N_ROWS = 3000


def long_tails() -> pd.DataFrame:
    """Return two columns that fill their bounds of 0 to 1, and two that fill a hundredth of them."""
    rng = np.random.default_rng(11)
    wide = rng.uniform(size=(N_ROWS, 2))
    narrow = np.clip(0.01 * rng.lognormal(size=(N_ROWS, 2)), 0.0, 1.0) * 0.5
    return pd.DataFrame(np.c_[wide, narrow], columns=["a", "b", "c", "d"])


def test_measured_spreads_tell_what_a_reader_will_leave_out(tmp_path: Path, command: Run) -> None:
    """The columns that the publisher is warned of before she spends are those that dp-learn leaves out as drowned."""
    long_tails().to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.policy.toml").write_text('[privacy]\nmu = 30\nunit = "cell"\n[columns."*"]\nbounds = [0, 1]\n')
    warning = "the noise would hide 'c', 'd', as the values in the first 3,000 rows fill too little of the bounds:"
    assert warning in command("dp-publish", "plan", "t.parquet", "--look", "--mu", "3").stderr
    assert warning not in command("dp-publish", "plan", "t.parquet", "--mu", "3").stderr
    assert warning not in command("dp-publish", "plan", "t.parquet", "--look", "--mu", "300").stderr

    for release, mu in (("rows", 3), ("covariance", 1)):
        out = ("--out", f"{release}.tar", "--release", release, "--mu", mu)
        out += ("--mechanism", "gaussian") if release == "covariance" else ()
        published = command("dp-publish", "t.parquet", *out)
        assert published.returncode == 0
        assert warning in published.stderr
        assert "drowned by the noise, and left out: c, d\n" in command("dp-learn", f"{release}.tar").stdout


def test_two_rounds_drown_only_what_they_cannot_find() -> None:
    """Columns that fill a hundredth of their bounds are found in two rounds, unless rows are few, bounds far wider."""
    columns = {name: {"bounds": [0.0, 1.0]} for name in "abcd"}
    kinds = dict.fromkeys("abcd", "continuous")

    def drowned(mechanism: str, n_rows: int, factor: float = 1.0, **place: object) -> list[str]:
        entries = {name: {**entry, **place} for name, entry in columns.items()}
        policy = policy_with(entries, mu=1.0, release="covariance", mechanism=mechanism)
        frame = long_tails() * [1.0, 1.0, factor, factor]
        return find_drowned(glance(open_table(frame), kinds), forecast(policy, kinds, n_rows))

    assert drowned("gaussian", N_ROWS) == ["c", "d"]
    assert drowned("two-round", N_ROWS) == []
    assert drowned("two-round", 200, 0.01) == ["c", "d"]
    assert drowned("two-round", 200, 0.01, center=0.5, scale=0.1) == []
    assert drowned("two-round", N_ROWS, 0.01) == []


def test_a_release_of_which_too_little_would_be_left_is_refused(tmp_path: Path, command: Run) -> None:
    """Where all columns but one are drowned, by their own spread, nothing is spent unless it is meant."""
    long_tails()[["a", "c", "d"]].to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.policy.toml").write_text('[privacy]\nmu = 3\nunit = "cell"\n[columns."*"]\nbounds = [0, 1]\n')
    refused = command("dp-publish", "t.parquet")
    assert refused.returncode == 2
    assert "the noise would hide 'c', 'd', as" in refused.stderr
    assert Ledger().entries() == []
    assert command("dp-publish", "t.parquet", "--anyway").returncode == 0


def mixed(n_rows: int, n_words: int, n_levels: int, n_numbers: int) -> pd.DataFrame:
    """Return columns of words with equally frequent levels, and of numbers, all unrelated."""
    rng = np.random.default_rng(5)
    levels = [f"level {number}" for number in range(n_levels)]
    words = {f"word {number}": rng.choice(levels, n_rows) for number in range(n_words)}
    return pd.DataFrame({**words, **{f"x{number}": rng.normal(size=n_rows).round(3) for number in range(n_numbers)}})


def write(frame: pd.DataFrame, path: Path) -> str:
    """Write a table by its file's suffix, and return its name."""
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    return path.name


LOST = {"words.parquet": mixed(130, 6, 3, 0), "number.csv": mixed(90, 3, 4, 1)}


@pytest.mark.parametrize("name", LOST)
def test_words_that_are_hardly_told_are_warned_of_and_decide_nothing(
    name: str, tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where fewer than two columns would be left, a strength that leaves more is named; noisy counts decide."""
    monkeypatch.chdir(tmp_path)
    data = write(LOST[name], tmp_path / name)
    refused = command("dp-publish", data)
    assert refused.returncode != 0
    assert "too few stand out from the noise" in refused.stderr
    assert Ledger().books().entries != {}
    (mu,) = re.findall(r"from about mu = ([0-9.]+)", refused.stderr)
    told = command("dp-publish", data, "--mu", mu)
    assert told.returncode == 0
    assert "may be left" not in told.stderr


def test_a_plan_that_looks_tells_what_words_become(
    tmp_path: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table of which nothing is declared: what words become, what the first rows show, and what they lose."""
    monkeypatch.chdir(tmp_path)
    data = write(mixed(600, 6, 6, 3).assign(same="a", few=["b", *[""] * 599]), tmp_path / "t.parquet")
    done = command("dp-publish", "plan", data, "--look")
    assert "Words become as many as they have" in " ".join(done.stdout.split())
    for said in ("standard error of a correlation", "'same'", "'few' (hardly any value)"):
        assert said in done.stderr
    weaker = command("dp-publish", "plan", data, "--look", "--mu", "0.01")
    assert "a release would be refused: this release would show nothing" in weaker.stderr
