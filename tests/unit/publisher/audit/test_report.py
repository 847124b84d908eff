"""The audit's report, its statistics against independent computations, and the command."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from tests.conftest import Run

from dp_audit.judging import (
    Guesses,
    cdf_excess,
    correlated_signs,
    guessed_mu,
    judge_guesses,
    judge_noise,
    law_of,
    low_bits_p_value,
    n_repeats,
)
from dp_audit.moments import _NOISES, _check_noise, _Found
from dp_bundle.manifest.columns import Column, Noise
from dp_bundle.manifest.matrix_noise import RoundedGaussian
from dp_publish.ledger.ledger import Ledger
from dp_publish.release import parts
from dp_publish.rows.mechanism import add_noise
from dp_publish.rows.missing import RowReport
from dp_publish.sampling.gaussian import sample_discrete_gaussian, sample_rounded_gaussian
from dp_publish.sampling.keystream import Keystream, insecure_keystream


def test_guesses_are_judged_by_what_chance_allows() -> None:
    """Mu is twice the normal quantile of scipy's exact bound; a share above what is stated passes as far as chance."""
    exact = stats.binomtest(7000, 10000, alternative="greater").proportion_ci(0.99, method="exact").low
    assert guessed_mu(7000, 10000, 0.01) == pytest.approx(2 * stats.norm.ppf(exact))
    assert guessed_mu(4000, 10000, 0.01) == guessed_mu(0, 10000, 0.01) == 0.0

    limit = int(stats.binom.ppf(0.99, 1000, stats.norm.cdf(0.5)))
    (_, sound), (_, false) = (judge_guesses([Guesses("", limit + more, 1000, 1.0)], 0.01) for more in (0, 1))
    assert (sound.passed, false.passed) == (True, False)
    assert "72.5% of 1,000" in sound.detail
    assert "up to 72.5% is chance at the 69.1% stated" in sound.detail


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
    signs = np.random.default_rng(3).choice(np.array([-1.0, 1.0]), (20_000, 3))
    assert n_repeats(list(signs.T)) == 0
    assert correlated_signs(signs, 1e-3)[0] < 1
    again = signs.copy()
    again[15_000:15_200, 2] = again[100:300, 0]
    assert 200 - 63 <= n_repeats(list(again.T)) < 200
    equal = signs.copy()
    equal[::4, 2] = equal[::4, 0]
    assert correlated_signs(equal, 1e-3)[0] > 1
    assert correlated_signs(equal, 1e-3)[1] == "2 columns apart"
    slow = np.sign(signs[1:] + 0.5 * signs[:-1])
    slow[1:][::3] = slow[:-1][::3]
    assert correlated_signs(slow, 1e-3)[1] == "1 row apart"


@pytest.mark.slow
def test_releases_that_found_other_columns_are_left_out_of_the_check() -> None:
    """A rare level may be found in some releases of a table and not in others, which then have fewer entries."""
    rng = np.random.default_rng(4)
    found = [_Found(rng.normal(size=9 if release % 5 else 5), [], 0.0) for release in range(200)]
    assert all(check.passed for check in _check_noise(_NOISES[RoundedGaussian], 1.0, found, 1e-4, rng))


def test_command_reports_and_spends_nothing(people: Path, command: Run) -> None:
    """The command shows the stated mu, the bound and six checks, as text and as JSON, and leaves the ledger empty."""
    shown = command("dp-publish", "audit", people, "--canaries", 20_000, "--unit", "cell", "--mu", 2)
    assert shown.returncode == 0, shown.stderr
    assert "stated mu     2\n" in shown.stdout
    document = json.loads(command("dp-publish", "audit", people, "--mu", 1, "--canaries", 20_000, "--json").stdout)

    assert document["passed"]
    assert document["stated_mu"] == pytest.approx(1)
    assert 0.5 < document["mu_lower"] < 1
    names = ["attack", "columns", "grid", "noise", "independence", "books"]
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
