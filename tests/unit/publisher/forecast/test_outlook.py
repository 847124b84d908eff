"""A forecast follows from the number of rows, the bounds and the policy alone, and `plan` says what it means."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from dp_bundle.errors import ParameterError, PrivacyError
from dp_publish.accounting.conversions import epsilon_for_delta
from dp_publish.covariance.calibration import draw_moments, mu_of_rows, set_mechanism
from dp_publish.covariance.second_moments import moments_of_batch
from dp_publish.data.row_count import count_rows
from dp_publish.forecast.outlook import GRID, ForecastRow, forecast
from dp_publish.policy.model import ColumnPolicy, Policy, Privacy
from dp_publish.rows.calibration import account, calibrate, share_mu
from dp_publish.sampling.keystream import insecure_keystream

Run = Callable[..., object]
EVEN_SPREAD = math.sqrt(1 / 12)  # of values spread evenly within their bounds
PEOPLE = """
[columns.height]
bounds = [120, 220]
[columns.weight]
bounds = [20, 140]
[columns.visits]
bounds = [0, 30]
"""


def forecast_one(n_rows: int, n_features: int, *, kind: str = "continuous", **options: object) -> ForecastRow:
    """Return the forecast for columns with bounds from 0 to 8; `spread` is passed on, the rest is the strength."""
    assumed = {name: options.pop(name) for name in ("spread",) if name in options}
    columns = {f"c{index}": ColumnPolicy(bounds=(0.0, 8.0)) for index in range(n_features)}
    strength = Privacy.model_validate(options)
    policy = Policy.model_validate({"dataset": {"name": "t"}, "privacy": strength, "columns": columns})
    return forecast(n_rows, policy, dict.fromkeys(columns, kind), [strength], **assumed)[0]  # type: ignore[arg-type]


@pytest.fixture
def people(tmp_path: Path, table: pd.DataFrame) -> Path:
    """Put the small table and a policy that leaves the strength open into the test's folder."""
    table.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "people.policy.toml").write_text(PEOPLE)
    return tmp_path / "people.parquet"


def test_noise_and_epsilon_are_those_of_a_release(policy: Policy, table: pd.DataFrame) -> None:
    """Every sigma is the one that publishing would use, and epsilon is that of the guarantee."""
    kinds = {"height": "continuous", "weight": "continuous", "visits": "integer"}
    columns = calibrate(policy, kinds)

    row = forecast(400, policy, kinds, [policy.privacy])[0]
    guarantee, _ = account(policy, columns, share_mu(policy, kinds))

    assert row.sigma == {column.name: column.noise.sigma for column in columns}
    assert row.mu == pytest.approx(20.0, rel=1e-9)
    assert guarantee is not None
    assert guarantee.epsilon_delta[2].delta == row.delta
    assert forecast_one(9, 4, mu=2.0).epsilon == pytest.approx(epsilon_for_delta(2.0, 1e-6))
    assert row.epsilon == pytest.approx(guarantee.epsilon_delta[2].epsilon, rel=1e-6)


@pytest.mark.parametrize(("unit", "ratio"), [("row", 4.0), ("cell", 1.0)])
def test_noise_to_signal_is_that_of_the_stated_spread(unit: str, ratio: float) -> None:
    """With p = 4 columns and mu = 2, sigma over width is sqrt(p) / mu for rows, and half that for cells."""
    row = forecast_one(100, 4, unit=unit, mu=2.0, spread=0.25)

    assert row.sigma_over_width == pytest.approx(math.sqrt(ratio) / 2)
    assert row.noise_to_signal == pytest.approx(ratio / 4 / 0.25**2, rel=1e-3)


def test_integer_noise_counts_with_its_exact_variance() -> None:
    """A sigma of 0.2 steps moves hardly a value, and the forecast knows."""
    row = forecast_one(100, 4, kind="integer", mu=80.0)

    assert row.sigma["c0"] == pytest.approx(0.2)
    assert row.noise_to_signal < 0.001 * (0.2 / (8 * EVEN_SPREAD)) ** 2


@pytest.mark.parametrize("unit", ["cell", "row"])
@pytest.mark.parametrize("mu", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("n_features", [2, 5, 40])
def test_rows_needed_are_exactly_enough(unit: str, mu: float, n_features: int) -> None:
    """With the stated number of rows the target is seen, and with one row less it is not."""
    for target, needed in forecast_one(10, n_features, unit=unit, mu=mu).rows_needed.items():
        enough = forecast_one(needed, n_features, unit=unit, mu=mu).seen_in_rows
        short = forecast_one(needed - 1, n_features, unit=unit, mu=mu).seen_in_rows
        assert enough is not None
        assert enough <= target * (1 + 1e-9)
        assert short is None or short > target * (1 - 1e-9)
    for target, needed in forecast_one(10, n_features, unit=unit, mu=mu).rows_needed_for_moments.items():
        enough = forecast_one(needed, n_features, unit=unit, mu=mu).seen_in_moments
        short = forecast_one(needed - 1, n_features, unit=unit, mu=mu).seen_in_moments
        assert enough is not None
        assert enough <= target * (1 + 1e-9)
        assert short is None or short > target * (1 - 1e-9)


def test_threshold_is_where_benjamini_and_hochberg_settle() -> None:
    """Drawn p-values of 2,000 columns in pairs, at the stated effect, give 80 % power and 5 % false discoveries."""
    p, n_rows = 2000, 10**6
    row = forecast_one(n_rows, p, mu=1e4)
    assert row.seen_in_rows is not None
    rho, m, edges = row.seen_in_rows, p * (p - 1) // 2, p // 2
    rng = np.random.default_rng(5)
    z = np.abs(rng.normal(size=m))
    z[:edges] = np.abs(rng.normal(size=edges) + rho * math.sqrt(n_rows / (1 + rho**2)))
    order = np.argsort(-z)
    tails = np.vectorize(math.erfc)(z[order[:10_000]] / math.sqrt(2))
    last = np.flatnonzero(tails <= 0.05 * np.arange(1, 10_001) / m)[-1]
    found = order[: last + 1]

    assert np.mean(found >= edges) == pytest.approx(0.05, abs=0.025)
    assert np.count_nonzero(found < edges) / edges == pytest.approx(0.8, abs=0.04)


def test_moments_are_forecast_with_the_noise_of_a_release() -> None:
    """The error is that of a release's own variance, in correlations, beside chance; a cell costs what a row does."""
    n_rows, p, spread = 500, 4, 0.2
    columns = {f"c{index}": {"bounds": (0.0, 8.0)} for index in range(p)}
    for strength in ({"mu": 1.5}, {"epsilon": 0.7}, {"epsilon": 0.7, "delta": 1e-6, "mechanism": "sulq"}):
        privacy = {"release": "covariance", **strength}
        policy = Policy.model_validate({"dataset": {"name": "t"}, "privacy": privacy, "columns": columns})
        kinds = dict.fromkeys(columns, "continuous")
        row = forecast(n_rows, policy, kinds, [policy.privacy], spread=spread)[0]
        setting = set_mechanism(policy, kinds, lambda: n_rows)
        drawn = draw_moments(setting, moments_of_batch(np.zeros((1, p)), setting.scaling), insecure_keystream(1))
        assert drawn.off_diagonal_variance is not None
        scaled = (2 * spread) ** 2
        means = 1 + (1 - scaled) / setting.scaling.constant**2
        noise = math.sqrt(drawn.off_diagonal_variance * means) / n_rows / scaled
        assert row.error_in_moments == pytest.approx(math.hypot(noise, n_rows**-0.5), rel=1e-3)
        assert row.mu == pytest.approx(mu_of_rows(setting, 1), rel=1e-6)
    by_row, by_cell = forecast_one(500, p, mu=1.0), forecast_one(500, p, mu=1.0, unit="cell")
    assert by_row.error_in_moments == by_cell.error_in_moments
    assert by_row.error_in_rows > by_cell.error_in_rows


def test_covariance_plan_shows_what_rows_would_not(tmp_path: Path, command: Run) -> None:
    """For 178 rows of 13 columns at mu = 1, correlations have an error of 0.31 where those of noisy rows have 12."""
    names = [f"c{index}" for index in range(13)]
    pd.DataFrame(np.zeros((178, 13)), columns=names).to_parquet(tmp_path / "wine.parquet")
    bounds = "\n".join(f"[columns.{name}]\nbounds = [0, 1]" for name in names)
    (tmp_path / "wine.policy.toml").write_text(f'[privacy]\nmu = 1.0\nrelease = "covariance"\n{bounds}\n')
    even = ("--spread", str(EVEN_SPREAD))
    document = json.loads(command("dp-publish", "plan", "wine.parquet", *even, "--json").stdout)
    own = next(row for row in document["forecast"] if row["mu"] == pytest.approx(1.0))
    text = command("dp-publish", "plan", "wine.parquet", *even).stdout

    assert document["release"] == "covariance"
    assert own["error_in_moments"] == pytest.approx(0.31, abs=0.005)
    assert own["error_in_rows"] == pytest.approx(12, abs=0.5)
    assert own["rows_needed_for_moments"]["0.3"] < 1000 < 10**6 < own["rows_needed"]["0.3"]
    assert "a correlation has a standard error of 0.31 in the covariance" in text
    assert "and of 12 in a release of rows; chance alone makes it 0.075" in text
    assert "takes 766 rows (there are 178)" in text
    weaker = command(
        "dp-publish", "plan", "wine.parquet", *even, "--mechanism", "laplace", "--neighbours", "add-remove"
    ).stdout
    assert "a correlation has a standard error of 3.8" in weaker


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        (
            'mechanism = "wishart"\nepsilon = 1.0\ndelta = 1e-6',
            "by wishart noise at the policy's own strength",
        ),
        ('mechanism = "eigenvectors"\nepsilon = 1.0', "by laplace noise of the same epsilon, not by eigenvectors"),
        ("mu = 2000000.0", "A release at the policy's own strength would be refused"),
    ],
)
def test_what_a_covariance_plan_cannot_show_is_noted(entries: str, sentence: str, tmp_path: Path, command: Run) -> None:
    """Mechanisms without a mu or without a variance, and strengths that are refused, are said to be so."""
    pd.DataFrame({"a": [1.0], "b": [2.0]}).to_parquet(tmp_path / "t.parquet")
    policy = (
        f'[privacy]\nrelease = "covariance"\n{entries}\n[columns.a]\nbounds = [0, 9]\n[columns.b]\nbounds = [0, 9]\n'
    )
    (tmp_path / "t.policy.toml").write_text(policy)
    finished = command("dp-publish", "plan", "t.parquet")
    assert finished.returncode == 0, finished.stderr
    assert sentence in finished.stdout


def test_a_plan_says_what_long_tails_would_leave(tmp_path: Path, command: Run) -> None:
    """Where the spread is assumed, narrower values are forecast as well, as they are with that spread in the policy."""
    pd.DataFrame(np.zeros((50_000, 4)), columns=list("abcd")).to_parquet(tmp_path / "t.parquet")
    policy = tmp_path / "t.policy.toml"
    policy.write_text('[privacy]\nmu = 5\n[columns."*"]\nbounds = [0, 1]\n')
    text = command("dp-publish", "plan", "t.parquet").stdout
    document = json.loads(command("dp-publish", "plan", "t.parquet", "--json").stdout)
    policy.write_text(f"{policy.read_text()}spread = 0.05\n")
    said = json.loads(command("dp-publish", "plan", "t.parquet", "--json").stdout)
    own = next(row for row in said["forecast"] if row["mu"] == pytest.approx(5.0))

    assert own["seen_in_rows"] is None
    assert f"at 0.05 of the width, nothing from rows and {own['seen_in_moments']:.2g} from moments." in text
    assert [row["spread"] for row in document["forecast_if_narrower"]] == [0.05, 0.02]
    assert document["forecast_if_narrower"][0]["error_in_moments"] == pytest.approx(own["error_in_moments"])
    assert said["forecast_if_narrower"] == []


def test_an_entity_with_several_rows_costs_what_its_rows_cost_together() -> None:
    """Four rows per entity at mu = 2 are rows at mu = 1, and second moments at mu = 0.5 as all four may move alike."""
    entity = forecast_one(7466, 5, unit={"entity": "owner", "max_rows": 4}, mu=2.0)
    rows, moments = forecast_one(7466, 5, mu=1.0), forecast_one(7466, 5, mu=0.5)

    assert entity.sigma == pytest.approx(rows.sigma)
    assert entity.rows_needed == pytest.approx(rows.rows_needed)
    assert entity.seen_in_moments == pytest.approx(moments.seen_in_moments)
    assert entity.epsilon == pytest.approx(epsilon_for_delta(2.0, 1e-6))


def test_rows_in_a_ball_are_forecast_by_the_box_inside_it() -> None:
    """Clipping to a ball that just holds the box of the bounds takes as much noise as row-level bounds do."""
    box, strength = forecast_one(7466, 4, mu=3.0), Privacy(mu=3.0, l2_radius=2.0)
    columns = {f"c{index}": ColumnPolicy(center=4.0, scale=4.0) for index in range(4)}
    policy = Policy.model_validate({"dataset": {"name": "t"}, "privacy": strength, "columns": columns})
    ball = forecast(7466, policy, dict.fromkeys(columns, "continuous"), [strength])[0]

    assert ball.sigma == pytest.approx(box.sigma)
    assert ball.sigma_over_width == pytest.approx(box.sigma_over_width)
    assert ball.seen_in_moments == pytest.approx(box.seen_in_moments)


def test_more_protection_never_shows_more() -> None:
    """As mu falls the limits rise until nothing is seen, and moments never show less than rows do."""
    rows = [forecast_one(7466, 11, mu=mu) for mu in GRID]
    by_rows, by_moments = ([getattr(row, name) or 1 for row in rows] for name in ("seen_in_rows", "seen_in_moments"))

    assert by_rows == sorted(by_rows, reverse=True)
    assert by_moments == sorted(by_moments, reverse=True)
    assert all(moment <= row for moment, row in zip(by_moments, by_rows, strict=True))
    assert rows[0].seen_in_rows is None


def test_a_hundred_million_rows_are_forecast_at_once() -> None:
    """The forecast takes no longer for more rows, and sees what few rows hide."""
    start = time.perf_counter()
    row = forecast_one(100_000_000, 11, mu=1.0, spread=EVEN_SPREAD)

    assert time.perf_counter() - start < 1
    assert row.seen_in_rows == pytest.approx(0.0495, rel=0.005)
    assert forecast_one(7466, 11, mu=1.0).seen_in_rows is None


def test_a_single_column_has_nothing_to_see() -> None:
    """With one column there is no pair, so no limit and no number of rows."""
    row = forecast_one(10**9, 1, mu=10.0)

    assert (row.seen_in_rows, row.seen_in_moments) == (None, None)
    assert (row.rows_needed, row.rows_needed_for_moments) == ({}, {})


@pytest.mark.parametrize("wrong", [{"n_rows": 0}, {"spread": 0.0}, {"spread": 0.51}, {"spread": math.nan}])
def test_arguments_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    """No rows, or a spread that no bounded column can have, is an error that names the argument."""
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        forecast_one(**{"n_rows": 10, "n_features": 3, "mu": 1.0, **wrong})  # type: ignore[arg-type]


def test_a_forecast_cannot_be_made_to_read_values() -> None:
    """Strength by snr_db, which needs the values, is refused."""
    with pytest.raises(PrivacyError, match="reads no value"):
        forecast_one(100, 3, snr_db=20.0)


def test_rows_are_counted_without_reading_them(tmp_path: Path) -> None:
    """Parquet, a folder of it, Feather and CSV give the same count."""
    table = pa.table({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
    (tmp_path / "folder").mkdir()
    pa.parquet.write_table(table, tmp_path / "folder" / "1.parquet")
    pa.feather.write_feather(table, tmp_path / "t.feather")
    (tmp_path / "t.csv").write_text("a,b\n1,4\n\n2,5\n3,6")

    assert count_rows(tmp_path / "folder" / "1.parquet") == 3
    assert count_rows(tmp_path / "folder") == 3
    assert count_rows(tmp_path / "t.feather") == 3
    assert count_rows(tmp_path / "t.csv") == 3


def test_plan_spends_nothing_and_reads_no_value(tmp_path: Path, command: Run, home: Path) -> None:
    """Words in place of numbers do not disturb the plan, and neither key nor ledger comes into being."""
    (tmp_path / "people.csv").write_text("height,weight,visits\n" + "tall,heavy,often\n" * 50)
    (tmp_path / "people.policy.toml").write_text(PEOPLE)

    finished = command("dp-publish", "plan", "people.csv")

    assert finished.returncode == 0, finished.stderr
    assert "people: 50 rows, 3 columns. Nothing was spent, and no value was read." in finished.stdout
    assert not home.exists()


def test_plan_says_where_rows_are_too_few_and_names_the_alternative(people: Path, command: Run) -> None:
    """At mu = 1 the plan for 400 rows says that they are too few, how many it takes, and what second moments show."""
    text = command("dp-publish", "plan", people).stdout
    generous = command("dp-publish", "plan", people, "--spread", "0.2").stdout

    assert "At mu = 1, rows would show nothing: the noise has 153 times the variance of the values." in text
    assert "It takes 2.88 million rows to see 0.3." in text
    assert "A release of second moments only would still need" in text
    assert "publish fewer columns, narrow their bounds, or protect them less" in text
    assert "A release of second moments only would show" in generous
    assert "standard deviations are 0.14 of the width (--spread, or spread in the policy)" in text
    assert "The paper's figure, not a guarantee" in text
    assert "(--release covariance)" in text


def test_plan_shows_the_policys_own_strength(people: Path, command: Run) -> None:
    """The policy's strength is a line of its own among the grid's, or marks the one that equals it."""
    continuous = PEOPLE.replace("bounds = [0, 30]", "drop = true")
    for strength, mu in (("mu = 7.0", 7.0), ("mu = 1.0", 1.0), ("rho = 0.5", 1.0), ("sigma = 40.0", 3.905)):
        people.with_name("people.policy.toml").write_text(f"[privacy]\n{strength}\n{continuous}")
        lines = [line.split() for line in command("dp-publish", "plan", people).stdout.splitlines()]
        marked = [line[0] for line in lines if line[-3:] == ["<-", "the", "policy"]]
        document = json.loads(command("dp-publish", "plan", people, "--json").stdout)

        assert marked == [f"{document['own_mu']:.4g}"] * 2
        assert document["own_mu"] == pytest.approx(mu, rel=1e-3)
        assert len(document["forecast"]) == (9 if mu == 1.0 else 10)


def test_plan_in_json_is_the_forecast(people: Path, command: Run) -> None:
    """The document holds every number of the forecast, for the unit and spread asked for."""
    finished = command("dp-publish", "plan", people, "--json", "--unit", "cell", "--spread", "0.1")
    document = json.loads(finished.stdout)
    row = next(row for row in document["forecast"] if row["mu"] == pytest.approx(5.0))

    assert (document["n_rows"], document["unit"], document["assumed_spread"]) == (400, "cell", 0.1)
    assert document["own_mu"] == pytest.approx(1.0)
    assert row["sigma"]["height"] == pytest.approx(20.0)
    assert row["sigma"]["visits"] == pytest.approx(6.0)
    assert row["noise_to_signal"] == pytest.approx(4.0, rel=1e-3)
    assert row["rows_needed"]["0.1"] > row["rows_needed"]["0.3"]


def test_plan_leaves_out_strengths_that_cannot_be_published(people: Path, command: Run) -> None:
    """Where an integer column would get no noise, or sigma would come from the data, the plan says so."""
    people.with_name("people.policy.toml").write_text("[privacy]\nsnr_db = 10\n" + PEOPLE.replace("30]", "1]"))

    text = command("dp-publish", "plan", people, "--unit", "cell").stdout

    assert "Not forecast: mu = 50, where a release would be refused (integer column 'visits'" in text
    assert "snr_db, would read the values" in text


@pytest.mark.parametrize(
    ("policy", "options", "sentence"),
    [
        ("[columns.height]\nbounds = [120, 220]\n", ("--sigma", "3"), "bounds are missing for "),
        ("[privacy]\nmu = 1.0\nrho = 1.0\n" + PEOPLE, (), "exactly one strength"),
        (PEOPLE, ("--spread", "0.6"), "spread must be from 1e-06 to 0.5"),
        (PEOPLE, ("--policy", "none.toml"), "cannot be read"),
    ],
)
def test_plan_refuses_what_it_cannot_forecast(
    policy: str, options: tuple[str, ...], sentence: str, people: Path, command: Run
) -> None:
    """Bounds that sigma needs, two strengths, an impossible spread or no policy: one sentence and exit code 2."""
    people.with_name("people.policy.toml").write_text(policy)

    finished = command("dp-publish", "plan", people, *options)

    assert finished.returncode == 2
    assert sentence in finished.stderr


def test_plan_draws_a_picture_and_can_be_quiet(people: Path, command: Run, tmp_path: Path) -> None:
    """--picture writes a PNG file, and --quiet prints nothing."""
    finished = command("dp-publish", "plan", people, "--quiet", "--picture", "plan.png")

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_picture_replaces_only_an_earlier_one(people: Path, command: Run, tmp_path: Path) -> None:
    """Neither the private table nor anything else that plan did not draw goes for a picture; its own picture does."""
    (tmp_path / "other.png").write_bytes(b"\x89PNG\r\n another")
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    before = people.read_bytes()
    for name in (people.name, "other.png", "link.png", "folder.png", "pipe.png"):
        finished = command("dp-publish", "plan", people, "--picture", name)
        assert (finished.returncode, finished.stdout) == (1, "")
        assert (
            finished.stderr
            == f"error: there is something at {name} that dp-publish plan did not draw: give another --picture\n"
        )
    assert people.read_bytes() == before
    assert (tmp_path / "other.png").read_bytes() == b"\x89PNG\r\n another"
    assert not (tmp_path / "nowhere.png").exists()

    for _ in range(2):
        assert command("dp-publish", "plan", people, "--picture", "plan.png").returncode == 0


def test_plan_of_a_hundred_million_row_table_takes_seconds(tmp_path: Path, command: Run) -> None:
    """A folder of 100 million rows in 11 columns is planned from its metadata alone."""
    folder = tmp_path / "large"
    folder.mkdir()
    names = [f"c{index}" for index in range(11)]
    zeros = pa.array(np.zeros(1_000_000))
    pa.parquet.write_table(pa.table(dict.fromkeys(names, zeros)), folder / "000.parquet")
    for index in range(1, 100):
        (folder / f"{index:03d}.parquet").hardlink_to(folder / "000.parquet")
    (tmp_path / "large.policy.toml").write_text("".join(f"[columns.{name}]\nbounds = [0, 1]\n" for name in names))

    start = time.perf_counter()
    finished = command("dp-publish", "plan", folder, "--spread", EVEN_SPREAD)

    assert time.perf_counter() - start < 5
    assert "large: 100,000,000 rows, 11 columns" in finished.stdout
    assert "At mu = 1, rows would show partial correlations from 0.05 on." in finished.stdout


@pytest.mark.parametrize(
    ("entries", "shown"),
    [
        ('mechanism = "wishart"\nepsilon = 1.0\ndelta = 0.5', "delta must be in (0, 0.01]"),
        ('mechanism = "wishart"\nepsilon = 200.0\ndelta = 1e-6', "by gaussian elsewhere"),
        ('mechanism = "sulq"\nepsilon = 1e9\ndelta = 1e-6', "by gaussian elsewhere"),
        ('mechanism = "eigenvectors"\nepsilon = 1000.0', "readers get no error bars of it"),
        ('mechanism = "laplace"\nepsilon = 1000.0', "(pure)"),
        ('mechanism = "auto"\nmu = 2000000.0', "by the best noise"),
    ],
)
def test_other_strengths_are_shown_where_the_policys_own_is_refused(
    entries: str, shown: str, tmp_path: Path, command: Run
) -> None:
    """A plan says that the policy's strength would be refused, and forecasts the others."""
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 3.0]})
    frame.to_parquet(tmp_path / "t.parquet")
    bounds = "[columns.a]\nbounds = [0, 9]\n[columns.b]\nbounds = [0, 9]\n"
    (tmp_path / "t.policy.toml").write_text(f'[privacy]\nrelease = "covariance"\n{entries}\n{bounds}')
    finished = command("dp-publish", "plan", "t.parquet")
    assert finished.returncode == 0, finished.stderr
    assert "would be refused" in finished.stdout
    assert shown in finished.stdout


def test_a_plan_is_json_and_counts_nobody_where_that_is_protected(tmp_path: Path, command: Run) -> None:
    """What cannot be computed is null, and an empty table is planned like one of a single row."""
    pd.DataFrame({"a": [], "b": []}, dtype=float).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.policy.toml").write_text("[columns.a]\nbounds = [0, 9]\n[columns.b]\nbounds = [0, 9]\n")
    words = ("plan", "t.parquet", "--release", "covariance", "--mechanism", "wishart", "--epsilon", "1", "--json")
    finished = command("dp-publish", *words, "--delta", "1e-5", "--neighbours", "add-remove")
    assert finished.returncode == 0, finished.stderr
    document = json.loads(finished.stdout, parse_constant=pytest.fail)
    assert document["n_rows"] == 1
    assert None in [row["epsilon"] for row in document["forecast"]]
