"""The audit's report, its statistics against independent computations, and the command."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from tests.conftest import Run
from tests.row_audit import audit

from dp_audit.hypothesis_tests import (
    Attack,
    cdf_excess,
    correlated_signs,
    judge_noise,
    law_of,
    low_bits_p_value,
    n_repeats,
    sample_excess,
)
from dp_bundle.base.errors import ParameterError, PrivacyError
from dp_bundle.manifest.columns import Column, Noise
from dp_publish.data.missing import RowReport
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import parts
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.noise import ROW_NOISE
from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian
from dp_publish.sampling.keystream import Keystream, insecure_keystream


def _column(kind: str, width: float, sigma: float, missing: str = "refuse") -> Column:
    return Column(
        name=kind,
        kind=kind,
        bounds=(0.0, width),
        bounds_obtained="declared",
        missing=missing,
        noise=ROW_NOISE[kind].describe(sigma, (0.0, width)),
    )


@pytest.mark.parametrize(("width", "sigma"), [(1.0, 0.5), (1.0, 2.0), (3.0, 1.0), (4.0, 1.3), (7.0, 30.0)])
def test_success_against_discrete_noise_is_that_of_a_plain_sum(width: float, sigma: float) -> None:
    """The chance of a correct guess agrees with a sum over all values of the noise, for any scale of it."""
    attack = Attack([_column("integer", width, sigma)], np.array([width]))
    for scale in (0.5, 1.0, 1.7):
        k = np.arange(-20 * 60, 20 * 60 + 1)
        law = np.exp(-((k / (scale * sigma)) ** 2) / 2)
        expected = law / law.sum() @ stats.norm.cdf((width / 2 - k) / (0.1 * sigma))
        assert attack.success(scale) == pytest.approx(expected, abs=1e-10)


def test_success_against_mixed_noise_is_that_of_a_simulation() -> None:
    """With one column of each kind, two million simulated rows are told apart as often as computed."""
    columns = [_column("integer", 2.0, 1.1), _column("continuous", 1.0, 0.7), _column("integer", 1.0, 0.8)]
    distances = np.array([2.0, 1.0 / columns[1].noise.granularity, 1.0])
    rng, n = np.random.default_rng(1), 2_000_000
    attack = Attack(columns, distances)
    noise = [
        sample_discrete_gaussian(1.1, n, insecure_keystream(1)),
        rng.normal(0, 0.7 / columns[1].noise.granularity, n),
        sample_discrete_gaussian(0.8, n, insecure_keystream(2)),
    ]
    correct, total = attack.count_correct(np.column_stack(noise) - distances / 2, np.zeros(n, dtype=bool), rng)

    assert correct / total == pytest.approx(attack.success(1.0), abs=4 * 0.5 / math.sqrt(n))


def test_bound_is_that_of_clopper_and_pearson() -> None:
    """For continuous noise mu is twice the normal quantile of scipy's exact bound on the chance of success."""
    attack = Attack([_column("continuous", 1.0, 1.0)], np.array([256.0]))
    lower = stats.binomtest(7000, 10000, alternative="greater").proportion_ci(0.99, method="exact").low

    assert attack.mu_bound(7000, 10000, 0.01) == pytest.approx(2 * stats.norm.ppf(lower))
    assert attack.mu_bound(4000, 10000, 0.01) == 0.0
    assert attack.mu_bound(0, 10000, 0.01) == 0.0


@pytest.mark.parametrize("number", [1, 3])
def test_discrete_noise_keeps_to_its_mu_and_not_to_width_over_sigma(number: int) -> None:
    """At sigma = half a step guesses alone prove more than sqrt(2 rho) and, of several columns, less than mu."""
    attack = Attack([_column("integer", 1.0, 0.5)] * number, np.ones(number))
    correct = round(attack.success(1.0) * 1_000_000)
    proved = 2 * stats.norm.ppf(correct / 1_000_000)

    assert proved > 1.05 * 2.0 * math.sqrt(number)
    assert proved == pytest.approx(attack.mu, rel=0.01) if number == 1 else proved < 0.97 * attack.mu
    assert 0.97 * attack.mu < attack.mu_bound(correct, 1_000_000, 1e-5) < attack.mu


def test_only_guesses_at_continuous_noise_prove_a_mu() -> None:
    """Of whole numbers the bound supposes the stated kind of noise, and the words say so."""
    continuous = Attack([_column("continuous", 1.0, 1.0)], np.array([1.0]))
    whole = Attack([_column("integer", 1.0, 0.5)], np.array([1.0]))
    assert continuous.describe_bound(2.0) == "proves mu >= 2"
    assert whole.describe_bound(2.0) == "discrete Gaussian noise allows from mu = 2 on"


@pytest.mark.parametrize("sigma", [0.3, 3.0, 300.0, 5000.0])
def test_laws_and_variances_are_told_from_wrong_ones(sigma: float) -> None:
    """True noise is within what chance allows; noise of 0.9 times the sigma, or of the other kind, is not."""
    n = 200_000
    discrete, rounded = Noise.discrete_gaussian(sigma), Noise.rounded_gaussian(sigma, 1.0)
    one = sample_discrete_gaussian(sigma, n, insecure_keystream(1)).astype(float)
    other = sample_rounded_gaussian(sigma, n, insecure_keystream(2)).astype(float)
    for values, noise in ((one, discrete), (other, rounded)):
        assert judge_noise([values], law_of(noise), 1e-3)[1] == ""
    narrow = sample_rounded_gaussian(0.9 * sigma, n, insecure_keystream(3)).astype(float)
    assert "times the variance stated" in judge_noise([narrow], law_of(rounded), 1e-3)[1]
    assert cdf_excess(narrow, law_of(rounded).cdf, 1e-3) > 1
    assert (cdf_excess(one, law_of(rounded).cdf, 1e-3) > 1) == (sigma < 1)
    assert sample_excess(other, narrow, 1e-3) > 1 > sample_excess(other[::2], other[1::2], 1e-3)


def test_too_little_noise_for_an_approximation_is_no_evidence() -> None:
    """Where hardly any value is moved, the test of the variance says nothing."""
    assert judge_noise([np.zeros(10_000)], law_of(Noise.discrete_gaussian(0.1)), 1e-3) == (0.0, "")


def test_low_bits_that_follow_the_raw_ones_are_seen() -> None:
    """Noise of even steps only keeps the raw parity, which noise on all steps does not."""
    rng, noise = np.random.default_rng(5), Noise.rounded_gaussian(300.0, 1.0)
    raw = rng.integers(0, 1000, 20_000).astype(float)
    drawn = sample_rounded_gaussian(300.0, 20_000, insecure_keystream(1)).astype(float)

    assert low_bits_p_value(raw, raw + drawn, noise) > 1e-3
    assert low_bits_p_value(raw, raw + 2 * np.rint(drawn / 2), noise) < 1e-12


def test_repeats_and_correlations_are_seen_at_any_distance() -> None:
    """A stretch of 200 signs that occurs again is found, and so are equal columns and slowly changing ones."""
    signs = np.random.default_rng(3).choice(np.array([-1, 1], dtype=np.int8), (20_000, 3))
    assert n_repeats(list(signs.T)) == 0
    assert correlated_signs(signs, 1e-3)[0] < 1
    again = signs.copy()
    again[15_000:15_200, 2] = again[100:300, 0]
    assert 200 - 63 <= n_repeats(list(again.T)) < 200
    equal = signs.copy()
    equal[::4, 2] = equal[::4, 0]
    assert correlated_signs(equal, 1e-3)[0] > 1
    assert correlated_signs(equal, 1e-3)[1] == "2 columns apart"
    slow = np.sign(signs[1:].astype(float) + 0.5 * signs[:-1]).astype(np.int8)
    slow[1:][::3] = slow[:-1][::3]
    assert correlated_signs(slow, 1e-3)[1] == "1 row apart"


@pytest.mark.parametrize("missing", ["refuse", "midpoint", "drop"])
@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_empty_cells_are_judged_by_the_policy(kind: str, missing: str) -> None:
    """What the policy says of empty cells passes, and doing anything else with them is a finding."""
    columns = [_column(kind, 21.0, 7.0, missing)]

    def other(
        batch: pa.RecordBatch, columns: Sequence[Column], keystream: Keystream, report: RowReport
    ) -> pa.RecordBatch:
        wrong = "midpoint" if missing == "refuse" else "refuse"
        return add_noise(batch, [column.model_copy(update={"missing": wrong}) for column in columns], keystream, report)

    assert audit(columns, "row", n_canaries=3000).findings == ()
    assert [found.name for found in audit(columns, "row", n_canaries=3000, mechanism=other).findings] == ["bounds"]


def test_wrong_arguments_are_refused() -> None:
    """Too few canaries, a confidence that is none, a column without bounds and lost rows are each refused."""
    columns = [_column("continuous", 1.0, 1.0)]
    with pytest.raises(ParameterError, match="canaries must be from 1000"):
        audit(columns, "row", n_canaries=10)
    with pytest.raises(ParameterError, match="confidence must be in"):
        audit(columns, "row", confidence=1.0)
    unbounded = columns[0].model_copy(update={"bounds": None, "bounds_obtained": "none"})
    with pytest.raises(PrivacyError, match="has no bounds"):
        audit([unbounded], "row", n_canaries=3000)
    with pytest.raises(PrivacyError, match="made 10 rows of 3000"):
        audit(columns, "row", n_canaries=3000, mechanism=lambda batch, *rest: add_noise(batch.slice(0, 10), *rest))


@pytest.mark.slow
def test_command_reports_and_spends_nothing(people: Path, command: Run) -> None:
    """The command shows the stated mu, the bound and seven checks, as text and as JSON, and leaves the ledger empty."""
    shown = command("dp-publish", "audit", people, "--canaries", 20_000, "--unit", "cell", "--mu", 2)
    assert shown.returncode == 0, shown.stderr
    assert "stated mu     2\n" in shown.stdout
    document = json.loads(command("dp-publish", "audit", people, "--mu", 1, "--canaries", 20_000, "--json").stdout)

    assert document["passed"]
    assert document["stated_mu"] == pytest.approx(1)
    assert 0.5 < document["mu_lower"] < 1
    names = ["attack", "bounds", "grid", "noise", "independence", "replay", "books"]
    assert [check["name"] for check in document["checks"]] == names
    assert Ledger().entries(None) == []


def test_command_reads_no_value(people: Path, tmp_path: Path, command: Run) -> None:
    """A table without a single row is audited like any other."""
    pd.DataFrame({name: np.empty(0) for name in ("height", "weight", "visits")}).to_parquet(tmp_path / "no.parquet")
    people.with_suffix(".policy.toml").rename(tmp_path / "no.policy.toml")

    assert command("dp-publish", "audit", tmp_path / "no.parquet", "--canaries", 3000, "--quiet").returncode == 0


def test_command_says_in_one_sentence_what_it_found(
    people: Path, command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mechanism with a fault makes the command exit 1, with the fault and its place on stderr."""

    def off_grid(
        batch: pa.RecordBatch, columns: Sequence[Column], keystream: Keystream, report: RowReport
    ) -> pa.RecordBatch:
        noisy = add_noise(batch, columns, keystream, report)
        return noisy.set_column(0, noisy.schema.field(0), pa.array(noisy.column(0).to_numpy() + 1e-3))

    monkeypatch.setattr(parts, "add_noise", off_grid)
    finished = command("dp-publish", "audit", people, "--canaries", 3000)

    assert finished.returncode == 1
    assert "grid          FAIL" in finished.stdout
    assert finished.stderr.startswith("error: the audit failed: 100.0% of column 'height' is off its grid")
    assert len(finished.stderr.splitlines()) == 1


@pytest.mark.slow
def test_command_audits_every_covariance_mechanism(people: Path, command: Run) -> None:
    """The command audits a covariance release, in mu or in epsilon, and spends nothing."""
    words = ("dp-publish", "audit", "people.parquet", "--release", "covariance", "--mu", "1")
    finished = command(*words, "--mechanism", "gaussian", "--canaries", "2000", "--json")
    document = json.loads(finished.stdout)
    other = command(*words, "--mechanism", "eigenvectors", "--canaries", "1000")

    assert finished.returncode == 0, finished.stderr
    assert (document["mechanism"], document["stated_mu"], document["passed"]) == ("gaussian", pytest.approx(1.0), True)
    assert document["n_canaries"] == 2000
    assert other.returncode == 0, other.stderr
    assert "1000 covariance releases of made-up rows by the eigenvectors mechanism" in other.stdout
    assert "  epsilon       " in other.stdout
    assert command(*words, "--canaries", "10").returncode == 2
    assert Ledger().entries() == []
