"""Numbers whose gaps are published beside them: a cell tells no more than stated, whatever is in it."""

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import policy_with

from dp_bundle.base.errors import PrivacyError
from dp_bundle.manifest.columns import Column
from dp_bundle.manifest.guarantee import release_mu
from dp_publish.data.table import open_table
from dp_publish.policy.columns import choose_columns, resolve
from dp_publish.policy.model import Policy
from dp_publish.rows.calibration import calibrate, cost_of_rows, guarantee_of_rows, share_mu
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.missing import RowReport
from dp_publish.sampling.keystream import insecure_keystream


def planned(columns: dict[str, Any], **privacy: Any) -> tuple[Policy, dict[str, str]]:
    """Return the resolved policy for a table of these columns, and their kinds."""
    table = open_table(pa.table({name: pa.array([1.0, None]) for name in columns}))
    policy = policy_with(columns, **privacy)
    table, policy = resolve(table, policy)
    return policy, choose_columns(table, policy)[0]


def noiseless(columns: tuple[Column, ...], raw: list[float | None], monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Return what noise is added to, of raw values of one number with gaps."""
    for kind in ("rounded", "discrete"):
        monkeypatch.setattr(
            f"dp_publish.rows.noise.sample_{kind}_gaussian", lambda _sigma, size, _=None: np.zeros(size, np.int64)
        )
    values = pa.array(raw, pa.float64())
    gaps = pa.array([float(value is None) for value in raw])
    batch = pa.RecordBatch.from_arrays([values, gaps], names=[column.name for column in columns])
    found = add_noise(batch, columns, insecure_keystream(1), RowReport())
    return np.column_stack([column.to_numpy() for column in found.columns])


@settings(max_examples=80)
@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    mu=st.floats(0.02, 50.0),
    inside=st.lists(st.floats(0, 1), min_size=3, max_size=3),
)
def test_no_two_contents_of_a_cell_are_farther_apart_than_stated(
    low: float, width: float, mu: float, inside: list[float]
) -> None:
    """Values anywhere, values outside, and gaps: the exact distance in standard deviations is at most mu."""
    high = low + width
    policy, kinds = planned({"x": {"bounds": [low, high], "missing": "indicator"}}, unit="cell", mu=mu)
    columns = calibrate(policy, kinds)
    raw = [low, high, None, low - width, high + 1e300, *(low + share * width for share in inside)]
    with pytest.MonkeyPatch.context() as monkeypatch:
        found = noiseless(columns, raw, monkeypatch)
    sigmas = [mpmath.mpf(column.cell_noise.sigma) for column in columns]
    for one, other in itertools.combinations(found, 2):
        moved = [Fraction(a) - Fraction(b) for a, b in zip(one, other, strict=True)]
        parts = [mpmath.mpf(m.numerator) / m.denominator / s for m, s in zip(moved, sigmas, strict=True)]
        assert mpmath.norm(parts) <= mu
    assert found[2, 1] == 1
    assert not np.delete(found[:, 1], 2).any()
    assert release_mu("cell", columns) <= mu


@pytest.mark.parametrize("unit", ["cell", "row"])
def test_gaps_cost_nothing_beyond_the_value(unit: str) -> None:
    """The number has the noise that it would have alone, and the cell and the row cost what they cost without gaps."""
    limits = {"bounds": [0, 10]}
    with_gaps, kinds = planned({"x": {**limits, "missing": "indicator"}, "y": limits}, unit=unit, mu=2.0)
    without, same = planned({"x": limits, "y": limits}, unit=unit, mu=2.0)
    columns, others = calibrate(with_gaps, kinds), calibrate(without, same)
    assert [columns[0].noise, columns[2].noise] == [column.noise for column in others]
    assert cost_of_rows(with_gaps, kinds, share_mu(with_gaps, kinds)).mu == pytest.approx(
        cost_of_rows(without, same, share_mu(without, same)).mu, rel=1e-9
    )
    ideal = 2 / math.sqrt(3) / (columns[0].width / columns[0].cell_noise.sigma)
    assert columns[1].cell_noise.sigma == pytest.approx(ideal, rel=0.01)
    guarantee = guarantee_of_rows(with_gaps, columns, share_mu(with_gaps, kinds))
    assert guarantee.mu == pytest.approx(2.0, rel=1e-9)


def test_a_given_sigma_is_on_both_columns() -> None:
    """Then the cell's mu is that of a gap, where the bounds are narrow."""
    policy, kinds = planned({"x": {"bounds": [0, 1], "missing": "indicator"}}, unit="cell", sigma=2.0)
    columns = calibrate(policy, kinds)
    assert [column.cell_noise.sigma for column in columns] == [2.0, 2.0]
    step = columns[0].cell_noise.granularity
    assert release_mu("cell", columns) == pytest.approx(math.hypot((0.5 + step) / 2, 0.5), rel=1e-12)
    shares = share_mu(policy, kinds)
    assert cost_of_rows(policy, kinds, shares).mu["cell"] == pytest.approx(release_mu("cell", columns), rel=1e-9)


def test_noise_that_leaves_nothing_for_gaps_is_refused() -> None:
    """At a mu of thousandths the grid is too coarse beside the bounds, which is said in a sentence."""
    policy, kinds = planned({"x": {"bounds": [0, 1], "missing": "indicator"}}, unit="cell", mu=3e-4)
    with pytest.raises(PrivacyError, match="leaves nothing for an indicator of its gaps"):
        calibrate(policy, kinds)
