"""Neighbouring tables, published with the same random bits: the same draws, and all but the unit's own values alike."""

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.publisher.release.covariance_policies import STRENGTHS

from dp_audit.press import Published, compare, publish_made_up
from dp_publish import Policy
from dp_publish.covariance.mechanisms import wishart_difference
from dp_publish.data import contribution_cap as entities
from dp_publish.release.aside import publish_aside
from dp_publish.sampling import gaussian as sampling
from dp_publish.sampling import laplace as laplace_sampling
from dp_publish.sampling.exponential import ExponentialMechanism
from dp_publish.sampling.keystream import insecure_keystream

N_ROWS, CROWD, CAP = 400, 30, 5
BOUNDED = {"x": {"bounds": [0, 1]}, "y": {"bounds": [0, 1], "missing": "midpoint"}, "i": {"bounds": [0, 9]}}
UNITS = {"cell": "cell", "row": "row", "entity": {"entity": "who", "max_rows": CAP}}
BY_EIGENVECTORS = ("eigenvectors", "kapralov-talwar")
CASES = [  # all that a policy may ask for
    (mechanism, neighbours, unit)
    for mechanism, neighbours, unit in itertools.product(STRENGTHS, ("replace-one", "add-remove"), UNITS)
    if (unit, neighbours) != ("cell", "add-remove") and not (unit == "entity" and mechanism in ("wishart", "sulq"))
]

Calls = list[tuple[Any, ...]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Write down every call of a sampler, with its law and size, and keep the same rows of an entity in every run."""
    found: Calls = []
    honest_gaussian, honest_laplace = sampling._sample, laplace_sampling._geometric
    honest_normals = wishart_difference.precise_normals

    def gaussian(sigma: float, size: Any, rng: Any, tabulate: Any) -> np.ndarray:
        found.append((tabulate.__name__, sigma, size))
        return honest_gaussian(sigma, size, rng, tabulate)

    def geometric(probabilities: Any, size: Any, *rest: Any) -> np.ndarray:
        found.append(("laplace", probabilities, size))
        return honest_laplace(probabilities, size, *rest)

    def normals(n: int, places: int, rng: Any) -> list[int]:
        found.append(("normals", n, places))
        return honest_normals(n, places, rng)

    monkeypatch.setattr(wishart_difference, "precise_normals", normals)
    monkeypatch.setattr(sampling, "_sample", gaussian)
    monkeypatch.setattr(laplace_sampling, "_geometric", geometric)
    monkeypatch.setattr(entities.secrets, "randbits", lambda _: 7)
    return found


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let private choices come out as for the first table: what follows is private given the outcomes before it."""
    honest = ExponentialMechanism.choose
    made: list[int] = []
    streams: list[list[Any]] = []  # each with how many choices it has made; kept, so that no two have one identity

    def choose(self: ExponentialMechanism, scores: np.ndarray, rng: Any) -> int:
        drawn = honest(self, scores, rng)
        if not streams or streams[-1][0] is not rng:
            streams.append([rng, 0])
        streams[-1][1] += 1
        if len(streams) == 1:
            made.append(drawn)
        return made[streams[-1][1] - 1]

    monkeypatch.setattr(ExponentialMechanism, "choose", choose)


def _pair(columns: dict[str, Any], unit: str, *, one_more: bool = False) -> list[pa.Table]:
    """Return two tables in batches of unequal size that differ in one cell, row or entity, which is last."""
    rng = np.random.default_rng(1)
    n = N_ROWS + (CROWD if unit == "entity" else 1)
    changed = np.arange(N_ROWS, n)
    tables = []
    for end in (0, 1):
        values: dict[str, Any] = {}
        for index, name in enumerate(columns):
            column = rng.integers(0, 10, n) if name == "i" else np.round(rng.random(n), 3)
            if unit != "cell" or index == 0:
                column[changed] = (0, 9)[end] if name == "i" else (0.001, 0.999)[end]
            values[name] = pa.array(column, from_pandas=True)
        rng = np.random.default_rng(1)
        values["who"] = pa.array([*range(N_ROWS), *[-1] * len(changed)])
        whole = pa.table(values).select([*columns, *(["who"] if unit == "entity" else [])])
        if one_more and end == 0:
            whole = whole.slice(0, N_ROWS)
        cuts = [0, 50, 51, 300, N_ROWS - 7, N_ROWS + CROWD // 2, n]
        parts = [whole.slice(start, stop - start) for start, stop in itertools.pairwise(cuts) if stop > start]
        tables.append(pa.concat_tables(parts))
    return tables


def _policy(columns: dict[str, Any], unit: str, **privacy: Any) -> Policy:
    privacy["unit"] = UNITS[unit]
    return Policy.model_validate({"dataset": {"name": "made up"}, "privacy": privacy, "columns": columns})


def _publish(tables: list[pa.Table], policy: Policy, calls: Calls) -> tuple[list[Published], list[Calls]]:
    published, drawn = [], []
    for table in tables:
        calls.clear()
        published.append(publish_made_up(publish_aside, table, policy, insecure_keystream(3)))
        drawn.append(list(calls))
    return published, drawn


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("clipped", ["bounds", "private bounds"])
@pytest.mark.usefixtures("alike")
def test_rows(clipped: str, unit: str, calls: Calls) -> None:
    """The same draws; only the unit's own values differ, by at most mu standard deviations in the Euclidean norm."""
    columns: dict[str, Any] = {"bounds": BOUNDED, "private bounds": {"x": {}, "y": {}}}[clipped]
    tables = _pair(columns, unit)
    (one, other), drawn = _publish(tables, _policy(columns, unit, mu=3.0), calls)

    assert drawn[0] == drawn[1]
    assert compare(one, other) == []
    moved = (other.values - one.values) / [column.cell_noise.sigma for column in one.release.columns]
    assert 0 < np.linalg.norm(moved) <= 3.0
    assert np.count_nonzero(moved.any(axis=1)) <= (CAP if unit == "entity" else 1)
    assert np.count_nonzero(moved) <= {"cell": 1, "row": len(columns), "entity": CAP * len(columns)}[unit]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "neighbours", "unit"), CASES)
def test_covariances(mechanism: str, neighbours: str, unit: str, calls: Calls) -> None:
    """The same draws, but for those of vectors, and all that a reader sees is equal but for what the matrix tells."""
    columns = dict.fromkeys("xyz", BOUNDED["x"])
    privacy = {"release": "covariance", "mechanism": mechanism, "neighbours": neighbours, **STRENGTHS[mechanism]}
    tables = _pair(columns, unit, one_more=neighbours == "add-remove")
    (one, other), drawn = _publish(tables, _policy(columns, unit, **privacy), calls)

    if mechanism in BY_EIGENVECTORS:
        drawn = [[call for call in run if call[0] == "laplace"][:2] for run in drawn]  # of the eigenvalues
    hidden = {"README.md", "n_rows"} if neighbours == "add-remove" else set()  # which the noisy matrix tells
    if mechanism in BY_EIGENVECTORS:
        hidden |= {"README.md", "estimated_diagonal_error", "estimated_off_diagonal_error"}
    assert drawn[0] == drawn[1]
    assert drawn[0]
    assert compare(one, other, tuple(hidden)) == []
    assert (one.values != other.values).any()
