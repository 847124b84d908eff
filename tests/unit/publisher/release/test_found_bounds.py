"""A release whose bounds are found privately: the search is paid for, and what could tell of it stays paid for."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.unit.publisher.release.conftest import Publish, private, rows_of, states

from dp_publish.ledger.ledger import Ledger
from dp_publish.release import preparing as rows_release
from dp_publish.release import publishing as release
from dp_publish.rows.private_bounds import find_bounds, half_width_for
from dp_publish.sampling.keystream import insecure_keystream


def test_bounds_are_found_and_paid_for(publish_here: Publish) -> None:
    """Columns without bounds get some around their values, and search and rows together cost the strength."""
    frame = pd.DataFrame(np.random.default_rng(3).uniform(size=(50_000, 3)), columns=["x", "n", "y"])
    frame = frame.assign(x=3 + 897 * frame["x"], n=(35 * frame["n"] - 30).round().astype(int))
    policy = private({"y": {"bounds": [0, 1]}}, mu=2.0)
    made = publish_here(frame, policy, keystream=insecure_keystream(5)).release
    assert [column.bounds_obtained for column in made.columns] == ["private-quantiles"] * 2 + ["declared"]
    for column, (low, high) in zip(made.columns, [(3.0, 900.0), (-30.0, 5.0)], strict=False):
        scale = 0.3 * (high - low) / 0.8416  # 60 % of a uniform column's distances
        half_width = half_width_for(50_000, column.cell_mu)
        assert sum(column.bounds) / 2 == pytest.approx(0.5 * (low + high), abs=0.02 * scale + 1)
        assert np.ptp(column.bounds) / 2 == pytest.approx(half_width * scale, rel=0.03, abs=half_width / 0.8416 + 1)
    assert made.guarantee.bounds_mu == pytest.approx(2 * np.sqrt(0.1), rel=1e-9)
    assert made.guarantee.rho == pytest.approx(2.0, rel=1e-9)
    assert Ledger().entries()[0].cost.mu["row"] == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(
    "place", [(rows_release, "guarantee_of_rows"), (rows_release, "set_noise"), (release, "write_bundle")]
)
def test_fault_after_the_search_stays_paid_for(
    place: tuple[ModuleType, str], tmp_path: Path, publish_here: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong once bounds were found may show them, up to the guarantee and beyond, so that it counts."""

    def fail(*_words: object, **_options: object) -> None:
        raise OverflowError("bounds of 1024")

    monkeypatch.setattr(*place, fail)
    with pytest.raises(OverflowError) as caught:
        publish_here(pd.DataFrame({"x": [900.0] * 1000}), private(mu=1.0))
    assert states() == ["reserved"]
    assert "it stays in the ledger as spent" in caught.value.__notes__[0]
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_bounds_are_found_in_what_the_cap_leaves(publish_here: Publish, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an entity's rows the search counts no more than are published, so that what it has beyond them cannot show."""
    counted = []

    def find(counts: np.ndarray, *rest: Any) -> Any:
        counted.append(counts.sum(axis=1).tolist())
        return find_bounds(counts, *rest)

    monkeypatch.setattr(rows_release, "find_bounds", find)
    owners = [f"person {index}" for index in range(300)] + ["crowd"] * 1000
    frame = pd.DataFrame({"x": [1.5] * 300 + [1e9] * 1000, "y": [0.5] * 1300, "who": owners})
    receipt = publish_here(frame, private(unit={"entity": "who", "max_rows": 2}, mu=1.0))
    assert counted == [[302, 302]]
    assert receipt.release.n_rows == 302


def test_bounds_too_wide_for_discrete_noise_get_noise_of_numbers(publish_here: Publish) -> None:
    """Nothing is lost where whole numbers would need a sigma beyond 10^9, and gaps are filled as those of numbers."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"n": rng.integers(-(10**12), 10**12, 300), "m": rng.integers(0, 99, 300)})
    receipt = publish_here(frame, private({"m": {"bounds": [0, 99]}}, mu=0.1))
    assert [(column.kind, column.is_gaussian) for column in receipt.release.columns] == [
        ("continuous", True),
        ("integer", False),
    ]
    assert receipt.release.columns[0].cell_mu == pytest.approx(0.1 * np.sqrt(0.9 / 2), rel=1e-6)
    assert rows_of(receipt).dtypes.astype(str).to_dict() == {"n": "float64", "m": "int64"}
    assert Ledger().entries()[0].cost.mu["row"] == pytest.approx(0.1, rel=1e-6)
    assert receipt.release.guarantee.rho == pytest.approx(0.1**2 / 2, rel=1e-6)
