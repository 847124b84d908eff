"""From policy to noise and guarantee: equal shares, sound sums, nothing from the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_bundle.errors import DataError, PolicyError, PrivacyError
from dp_bundle.manifest import Column, Cumulative, Guarantee, Release
from dp_publish.calibration import account, choose_columns, set_noise
from dp_publish.ledger import Cost
from dp_publish.policy import Policy
from dp_publish.table import ColumnType, Table, open_table

Bounds = dict[str, list[float]]


def make(bounds: Bounds, columns: dict[str, Any] | None = None, **privacy: Any) -> Policy:
    """Return a policy."""
    entries = {name: {"bounds": limits} for name, limits in bounds.items()} | (columns or {})
    return Policy.model_validate({"dataset": {"name": "d"}, "privacy": privacy, "columns": entries})


def sealed(**types: str) -> Table:
    """Return a table whose values nobody may look at."""

    def read(_kinds: dict[str, str], _rows: int) -> Iterator[pa.RecordBatch]:
        raise AssertionError("a value was read")

    return Table({name: ColumnType(kind) for name, kind in types.items()}, read)


def calibrate(table: Table, policy: Policy) -> tuple[tuple[Column, ...], Cost, Guarantee | None, float | None]:
    """Run the whole calibration."""
    kinds, _ = choose_columns(table, policy)
    columns = set_noise(table, policy, kinds)
    return columns, *account(policy.privacy, columns)


def widths(columns: tuple[Column, ...]) -> list[Any]:
    """Return every column's width over sigma, in exact arithmetic."""
    return [
        (mpmath.mpf(c.bounds[1]) - mpmath.mpf(c.bounds[0])) / mpmath.mpf(c.noise.sigma) for c in columns if c.bounds
    ]


@pytest.mark.parametrize("unit", ["row", "cell"])
@pytest.mark.parametrize("strength", [{"mu": 1.5}, {"rho": 0.3}, {"epsilon": 2.0, "delta": 1e-7}])
@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_every_column_gets_the_same_share(unit: str, strength: dict[str, float], kind: str) -> None:
    """Width over sigma is equal over columns, adds up to the strength asked for, and no value is read for it."""
    bounds = {"a": [0, 1], "b": [-1000, 1000], "c": [5, 12]}
    table = sealed(a=kind, b=kind, c=kind)
    columns, cost, guarantee, conditional = calibrate(table, make(bounds, unit=unit, **strength))
    assert guarantee is not None
    assert conditional is None
    with mpmath.workdps(40):
        shares = widths(columns)
        exact = max(shares) if unit == "cell" else mpmath.sqrt(sum(share * share for share in shares))
        assert max(shares) / min(shares) < 1 + 1e-11
        assert exact <= mpmath.sqrt(2 * mpmath.mpf(guarantee.rho)) <= exact * (1 + 1e-11)
        assert guarantee.mu is None or exact <= guarantee.mu
        assert max(shares) <= cost.mu_cell <= max(shares) * (1 + 1e-11)
        assert mpmath.sqrt(sum(share**2 for share in shares)) <= cost.mu_row
    assert (guarantee.mu is None) == (kind == "integer")
    assert guarantee.accountant == ("zero-concentrated-dp" if kind == "integer" else "gaussian-dp")
    if "mu" in strength:
        assert guarantee.rho == pytest.approx(1.125, rel=1e-11)
    if "rho" in strength:
        assert guarantee.rho == pytest.approx(0.3, rel=1e-11)


@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_epsilon_and_delta_asked_for_are_kept(kind: str) -> None:
    """At the delta asked for, the guarantee's own curve passes through the epsilon asked for."""
    _, _, guarantee, _ = calibrate(sealed(a=kind), make({"a": [0, 100]}, epsilon=2.0, delta=1e-6))
    assert guarantee is not None
    (found,) = [point.epsilon for point in guarantee.epsilon_delta if point.delta == 1e-6]
    assert found == pytest.approx(2.0, rel=3e-9)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.01, 1e6)), min_size=1, max_size=12),
    st.floats(0.05, 50),
    st.sampled_from(["row", "cell"]),
)
def test_stated_mu_is_never_too_small(limits: list[tuple[float, float]], mu: float, unit: str) -> None:
    """For any bounds, the exact mu of the declared widths and the stated sigmas is at most the stated one."""
    bounds = {f"c{index}": [low, low + width] for index, (low, width) in enumerate(limits)}
    table = sealed(**dict.fromkeys(bounds, "continuous"))
    try:
        columns, cost, guarantee, _ = calibrate(table, make(bounds, unit=unit, mu=mu))
    except PrivacyError:
        return
    assert guarantee is not None
    assert guarantee.mu is not None
    assert guarantee.mu <= mu
    with mpmath.workdps(40):
        shares = widths(columns)
        row = mpmath.sqrt(sum(share * share for share in shares))
        assert (max(shares) if unit == "cell" else row) <= guarantee.mu
        assert row**2 / 2 <= mpmath.mpf(cost.mu_row) ** 2 / 2
        assert max(shares) <= cost.mu_cell


def test_sigma_itself_is_used_as_given() -> None:
    """A sigma in data units is every column's, and mu follows from the widths, rounded up."""
    columns, _, guarantee, _ = calibrate(
        sealed(a="continuous", b="continuous"), make({"a": [0, 3], "b": [0, 4]}, sigma=2.0)
    )
    assert guarantee is not None
    assert [column.noise.sigma for column in columns] == [2.0, 2.0]
    assert guarantee.mu is not None
    assert 2.5 <= guarantee.mu <= 2.5 * (1 + 1e-11)


def test_mixed_tables_state_rho_alone() -> None:
    """One integer column is enough to leave mu out, and its noise is discrete, on the integers."""
    table = sealed(a="continuous", b="integer")
    columns, _, guarantee, _ = calibrate(table, make({"a": [0, 3], "b": [0, 4]}, mu=1.0))
    assert guarantee is not None
    assert guarantee.mu is None
    assert [column.noise.distribution for column in columns] == ["rounded-gaussian", "discrete-gaussian"]
    assert columns[1].noise.granularity == 1


def test_what_is_public_is_said() -> None:
    """The number of rows is public, and so is which rows lack a value where these are dropped."""
    plain = calibrate(sealed(a="continuous"), make({"a": [0, 1]}, mu=1.0))[2]
    entry = {"a": {"bounds": [0, 1], "missing": "drop"}}
    dropping = calibrate(sealed(a="continuous"), make({}, entry, mu=1.0))[2]
    assert plain is not None
    assert dropping is not None
    assert len(plain.public) == 1
    assert "no value in 'a'" in dropping.public[1]


def test_columns_are_chosen_by_type_and_policy() -> None:
    """Numeric columns are published in the table's order, all others are named, and kinds can be changed."""
    table = sealed(i="integer", t="other", c="continuous", u="unknown", d="continuous", n="other")
    entries = {"i": {"kind": "continuous", "bounds": [0, 1]}, "d": {"drop": True}, "t": {"drop": True}}
    kinds, left_out = choose_columns(table, make({"c": [0, 1], "u": [0, 1]}, entries, mu=1.0))
    assert kinds == {"i": "continuous", "c": "continuous", "u": "continuous"}
    assert left_out == ("t", "d", "n")


@pytest.mark.parametrize(
    ("bounds", "columns", "message"),
    [
        ({"a": [0, 1]}, {}, "bounds are missing for 'b'"),
        ({"a": [0, 1], "b": [0, 1], "z": [0, 1]}, {}, "does not have: 'z'"),
        ({"a": [0, 1], "b": [0, 1], "t": [0, 1]}, {}, "not published: 't'"),
        ({}, {"a": {"bounds": [0, 1], "drop": True}, "b": {"drop": True}}, "not published: 'a'"),
        ({}, {"a": {"drop": True}, "b": {"drop": True}}, "no numeric column"),
        ({"a": [0, 1], "b": [0, 2.5]}, {}, "'b' is an integer column"),
        ({"a": [0, 1], "b": [0, 1]}, {"b": {"kind": "integer", "bounds": [0, 1]}}, ""),
    ],
)
def test_policy_and_table_must_fit(bounds: Bounds, columns: dict[str, Any], message: str) -> None:
    """Each disagreement is a policy error that names the column; the last case is sound."""
    table = sealed(a="continuous", b="integer", t="other")
    policy = make(bounds, columns, mu=1.0)
    if not message:
        assert len(calibrate(table, policy)[0]) == 2
        return
    with pytest.raises(PolicyError, match=message) as caught:
        calibrate(table, policy)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_missing_bounds_are_told_with_the_way_to_get_them() -> None:
    """The message names the columns, shortened if they are many, and the command that helps."""
    names = [f"column{index}" for index in range(20)]
    with pytest.raises(PolicyError, match="dp-publish policy DATA") as caught:
        choose_columns(sealed(**dict.fromkeys(names, "continuous")), make({}, mu=1.0))
    assert "'column0'" in str(caught.value)
    assert "12 more" in str(caught.value)


@pytest.mark.parametrize("name", ["", "x" * 1001])
def test_names_that_no_manifest_takes_are_refused(name: str) -> None:
    """A column without a name, such as pandas' index in a CSV file, or with an endless one, is refused before noise."""
    with pytest.raises(PolicyError, match="rename it"):
        choose_columns(sealed(**{name: "continuous"}), make({name: [0, 1]}, mu=1.0))
    kinds, left_out = choose_columns(
        sealed(**{name: "continuous", "b": "continuous"}), make({"b": [0, 1]}, {name: {"drop": True}}, mu=1.0)
    )
    assert (list(kinds), left_out) == (["b"], (name,))


@pytest.mark.parametrize("strength", [{"mu": 1e200}, {"mu": 1e6}, {"rho": 1e300}, {"mu": 1e-30}, {"sigma": 1e-300}])
@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_hopeless_strengths_are_errors_of_ours(strength: dict[str, float], kind: str) -> None:
    """Strengths at the ends of floating point are refused with an error of the tree and no foreign one."""
    with pytest.raises((PrivacyError, PolicyError)):
        calibrate(sealed(a=kind), make({"a": [0, 1]}, **strength))


def test_snr_takes_sigma_from_the_data_and_guarantees_nothing() -> None:
    """Sigma is the stated fraction of each clipped column's standard deviation; no guarantee, no cost in mu."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(5, 2, 1000), "b": rng.normal(0, 100, 1000), "n": rng.poisson(4, 1000)})
    policy = make({"b": [-10, 10]}, snr_db=20.0)
    columns, cost, guarantee, conditional = calibrate(open_table(frame), policy)

    expected = 0.1 * np.array([frame.a.std(ddof=0), frame.b.clip(-10, 10).std(ddof=0), frame.n.std(ddof=0)])
    np.testing.assert_allclose([column.noise.sigma for column in columns], expected, rtol=1e-12)
    assert guarantee is None
    assert conditional is None
    assert (cost.mu_cell, cost.mu_row) == (None, None)
    assert [column.bounds_obtained for column in columns] == ["none", "declared", "none"]


def test_snr_with_all_bounds_shows_a_conditional_mu() -> None:
    """With bounds on every column, the mu that would have held for a cell is shown as conditional, no guarantee."""
    frame = pd.DataFrame({"a": [0.0, 10.0], "b": [0.0, 2.0]})
    columns, _, guarantee, conditional = calibrate(open_table(frame), make({"a": [0, 10], "b": [0, 10]}, snr_db=0.0))
    assert guarantee is None
    assert [column.noise.sigma for column in columns] == [5.0, 1.0]
    assert conditional == 10.0
    lineage = {"number": 1, "created": "2026-01-01T00:00:00Z", "previous": None}
    document = {"dataset": {"name": "d"}, "lineage": lineage, "n_rows": 2, "columns": columns, "software": "x"}
    nothing = Cumulative(releases=1, mu=None, rho=None)
    facts = {"guarantee": None, "cumulative": nothing, "conditional_mu": conditional}
    assert Release.model_validate({**document, **facts, "sigma_derived_from_data": True}).guarantee is None


def test_snr_is_the_same_in_any_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one-pass standard deviation of many batches, far from zero and with gaps, is that of the whole column."""
    values = np.random.default_rng(2).normal(1e8, 1, 5000)
    values[::7] = np.nan
    frame = pd.DataFrame({"a": values})
    monkeypatch.setattr("dp_publish.calibration.batch_rows", lambda _: 13)
    (column,) = calibrate(open_table(frame), make({}, snr_db=0.0))[0]
    assert column.noise.sigma == pytest.approx(np.nanstd(values), rel=1e-9)


@pytest.mark.parametrize("values", [[1.0, 1.0], [math.inf, 1.0], [math.nan, math.nan], [1e308, -1e308], []])
def test_snr_needs_columns_that_vary_and_are_finite(values: list[float]) -> None:
    """Constant, infinite, empty and overflowing columns are named, without a warning from numpy."""
    frame = pd.DataFrame({"fine": [1.0, 2.0][: len(values)], "bad": np.array(values, dtype=float)})
    with pytest.raises(DataError, match="'bad'"):
        calibrate(open_table(frame), make({}, snr_db=20.0))
