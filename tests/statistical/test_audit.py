"""Twenty audits of the honest mechanism come near the stated mu from below; each planted fault is found, and named."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest
from tests.row_audit import audit

from dp_audit.report import AuditReport
from dp_bundle.manifest.columns import Column, Noise
from dp_publish.data.missing import RowReport
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.noise import ROW_NOISE
from dp_publish.sampling.keystream import Keystream, insecure_keystream

N_RUNS = 20
KINDS = {"float": ["continuous", "continuous"], "integer": ["integer", "integer"], "mixed": ["continuous", "integer"]}
SMALL = {"n_canaries": 5000}


def _columns(kinds: Sequence[str], mu: float, unit: str) -> list[Column]:
    share = mu if unit == "cell" else mu / math.sqrt(len(kinds))
    bounds = {"continuous": (-0.3, 7.1), "integer": (0.0, 40.0)}
    return [
        Column(
            name=f"column {index}",
            kind=kind,
            bounds=bounds[kind],
            bounds_obtained="declared",
            noise=ROW_NOISE[kind].describe((bounds[kind][1] - bounds[kind][0]) / share, bounds[kind]),
        )
        for index, kind in enumerate(kinds)
    ]


def _audit(columns: Sequence[Column], unit: str, seed: int, **options: object) -> AuditReport:
    seeds = itertools.count(1000 * seed)
    return audit(
        columns,
        unit,
        new_keystream=lambda: insecure_keystream(next(seeds)),
        rng=np.random.default_rng(seed),
        **{**SMALL, **options},
    )


def _changed(columns: Sequence[Column], **update: object) -> list[Column]:
    return [column.model_copy(update=update) for column in columns]


def _narrow(batch: pa.RecordBatch, columns: Sequence[Column], *rest: object) -> pa.RecordBatch:
    """Add noise of 0.8 times the stated sigma."""
    noises = [column.noise.model_copy(update={"sigma": 0.8 * column.noise.sigma}) for column in columns]
    return add_noise(batch, [_changed([c], noise=n)[0] for c, n in zip(columns, noises, strict=True)], *rest)


def _float_sampler(batch: pa.RecordBatch, columns: Sequence[Column], *rest: object) -> pa.RecordBatch:
    """Add floating-point noise to the clipped value, as a script would; empty cells are refused as usual."""
    noisy, rng = add_noise(batch, columns, *rest), np.random.default_rng()
    for index, column in enumerate(columns):
        if column.kind == "continuous":
            raw = np.clip(batch.column(index).to_numpy(), *column.bounds)
            noisy = noisy.set_column(index, noisy.schema.field(index), pa.array(rng.normal(raw, column.noise.sigma)))
    return noisy


def _float_integers(batch: pa.RecordBatch, columns: Sequence[Column], *rest: object) -> pa.RecordBatch:
    """Release integer columns with floating-point noise, as floats."""
    noisy, rng = add_noise(batch, columns, *rest), np.random.default_rng()
    arrays = [
        pa.array(rng.normal(np.clip(batch.column(index).to_numpy().astype(float), *column.bounds), column.noise.sigma))
        for index, column in enumerate(columns)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=noisy.schema.names)


def _even_steps(batch: pa.RecordBatch, columns: Sequence[Column], *rest: object) -> pa.RecordBatch:
    """Add noise of an even number of steps, which leaves the raw value's last bit."""
    coarse = [
        _changed([c], noise=c.noise.model_copy(update={"granularity": 2 * c.noise.granularity}))[0] for c in columns
    ]
    noisy = add_noise(batch, coarse, *rest)
    for index, column in enumerate(columns):
        step = column.noise.granularity
        steps = np.rint(np.clip(batch.column(index).to_numpy(), *column.bounds) / step)
        odd = np.remainder(steps, 2)
        noisy = noisy.set_column(
            index, noisy.schema.field(index), pa.array(noisy.column(index).to_numpy() + odd * step)
        )
    return noisy


def _unbounded(batch: pa.RecordBatch, columns: Sequence[Column], *rest: object) -> pa.RecordBatch:
    """Do not clip."""
    return add_noise(batch, _changed(columns, bounds=None, bounds_obtained="none"), *rest)


def _too_wide(batch: pa.RecordBatch, columns: Sequence[Column], *rest: object) -> pa.RecordBatch:
    """Clip to twice the width."""
    wide = []
    for column in columns:
        low, high = column.bounds
        half = (high - low) // 2
        wide += _changed([column], bounds=(low - half, high + half))
    return add_noise(batch, wide, *rest)


def _same_bits(
    batch: pa.RecordBatch, columns: Sequence[Column], keystream: Keystream, report: RowReport
) -> pa.RecordBatch:
    """Start every batch with the same random bits."""
    return add_noise(batch, columns, insecure_keystream(1), report)


def _same_noise_on_all_columns(
    batch: pa.RecordBatch, columns: Sequence[Column], keystream: Keystream, report: RowReport
) -> pa.RecordBatch:
    """Start every column of a batch with the same random bits."""
    seed = np.empty(1, dtype=np.uint32)
    keystream.fill(seed)
    single = [
        add_noise(batch.select([index]), [column], insecure_keystream(int(seed[0])), report)
        for index, column in enumerate(columns)
    ]
    return pa.RecordBatch.from_arrays([part.column(0) for part in single], names=batch.schema.names)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["cell", "row"])
@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("kinds", KINDS)
def test_honest_mechanism_is_bounded_within_a_factor_two_and_never_above(kinds: str, mu: float, unit: str) -> None:
    """In twenty audits the lower bound is between half the stated mu and all of it, and no check fails."""
    columns = _columns(KINDS[kinds], mu, unit)
    reports = [_audit(columns, unit, seed) for seed in range(N_RUNS)]

    assert all(0.5 * mu < report.mu_lower < mu for report in reports)
    assert [report.findings for report in reports if report.findings] == []


FAULTS = [
    pytest.param(_narrow, ["float", "integer", "mixed"], {"attack", "noise"}, id="noise x 0.8"),
    pytest.param(_float_sampler, ["float", "mixed"], {"grid"}, id="float sampler"),
    pytest.param(_float_integers, ["integer"], {"grid"}, id="float sampler on integers"),
    pytest.param(_even_steps, ["float"], {"grid"}, id="low bits kept"),
    pytest.param(_unbounded, ["float", "integer", "mixed"], {"bounds"}, id="bounds not enforced"),
    pytest.param(_too_wide, ["float", "integer", "mixed"], {"bounds"}, id="bounds too wide"),
    pytest.param(_same_bits, ["float", "integer", "mixed"], {"independence"}, id="random bits reused"),
    pytest.param(_same_noise_on_all_columns, ["float", "integer"], {"independence"}, id="columns alike"),
]


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["cell", "row"])
@pytest.mark.parametrize("mu", [0.5, 3.0])
@pytest.mark.parametrize(("fault", "where", "names"), FAULTS)
def test_planted_fault_is_found_and_named(
    fault: Callable[..., pa.RecordBatch], where: list[str], names: set[str], mu: float, unit: str
) -> None:
    """Every planted fault is found in each of three audits, whatever the columns, under the check it belongs to."""
    for kinds in where:
        columns = _columns(KINDS[kinds], mu, unit)
        for seed in range(3):
            report = _audit(columns, unit, seed, mechanism=fault, n_canaries=15_000)
            assert names <= {check.name for check in report.findings}, report
            assert "bounds" in names or not any(check.name == "bounds" for check in report.findings)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "sigma"), [(1.0, 0.5), (1.0, 1.0), (2.0, 0.7), (3.0, 1.5)])
@pytest.mark.parametrize("unit", ["cell", "row"])
def test_discrete_noise_of_few_steps_is_not_accused(unit: str, width: float, sigma: float) -> None:
    """Where discrete noise is told apart more often than Gaussian noise, the bound is still below the stated mu."""
    noise = Noise.discrete_gaussian(sigma)
    columns = [
        Column(name=name, kind="integer", bounds=(0.0, width), bounds_obtained="declared", noise=noise) for name in "ab"
    ]
    reports = [_audit(columns, unit, seed) for seed in range(N_RUNS)]

    assert all(0.5 < report.mu_lower / report.stated_mu < 1 for report in reports)
    assert [report.findings for report in reports if report.findings] == []
    assert all(_audit(columns, unit, seed, mechanism=_narrow).findings for seed in range(5))


@pytest.mark.slow
def test_false_alarms_keep_to_the_stated_chance() -> None:
    """At 60 % confidence at most 40 % of 200 audits of the honest mechanism fail, and hardly any bound is too high."""
    columns = _columns(KINDS["mixed"], 2.0, "row")
    reports = [_audit(columns, "row", seed, n_canaries=2000, confidence=0.6) for seed in range(200)]

    assert sum(bool(report.findings) for report in reports) <= 0.4 * 200
    assert sum(report.mu_lower > report.stated_mu for report in reports) <= 0.12 * 200


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("unit", ["cell", "row"])
def test_default_number_of_canaries_is_enough(unit: str, mu: float) -> None:
    """With the default number of canaries the bound is above 0.6 of the stated mu, from small to very large."""
    columns = _columns(KINDS["mixed"] * 3, mu, unit)
    reports = [_audit(columns, unit, seed, n_canaries=None) for seed in range(3)]

    assert all(0.6 * mu < report.mu_lower < report.stated_mu < 1.03 * mu for report in reports)
    assert [report.findings for report in reports if report.findings] == []
